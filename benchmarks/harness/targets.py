"""The ratios that Gristmill is built to reach, and whether this run reached them."""

from dataclasses import dataclass
from typing import Any

from contenders.registry import YARDSTICK
from harness.outcome import Outcome, ratio
from harness.rounds import Run

GLOBAL_PEERS = ("OLMo-core", "datasets map-style", "grain", "mosaicml-streaming")


@dataclass(frozen=True)
class Target:
    """A contender must be so many times as fast as the best of its rivals."""

    contender: str
    rivals: tuple[str, ...]
    wanted: float

    def __str__(self) -> str:
        """As the report shows it."""
        rivals = "the best of " + ", ".join(self.rivals) if len(self.rivals) > 1 else self.rivals[0]
        return f"{self.contender} at least {self.wanted:g} times {rivals}"


TARGETS = (
    Target("gristmill", GLOBAL_PEERS, 10),
    Target("gristmill", ("nanoGPT get_batch",), 3),
    Target("gristmill", (YARDSTICK,), 0.60),
    Target("gristmill-64", (YARDSTICK,), 0.40),
    Target("gristmill-10k", (YARDSTICK,), 0.12),
    Target("gristmill-pack", (YARDSTICK,), 0.20),
)


def judge(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Each target with what was measured; None where a side is missing."""
    by_name = {outcome.entry.name: outcome for outcome in outcomes}
    return [_verdict(target, by_name) for target in TARGETS]


def _verdict(target: Target, by_name: dict[str, Outcome]) -> dict[str, Any]:
    measured = _measured(target, by_name)
    met = None if measured is None else measured >= target.wanted
    return {"target": str(target), "wanted": target.wanted, "measured": measured, "met": met}


def _measured(target: Target, by_name: dict[str, Outcome]) -> float | None:
    # A target against several rivals says nothing while one of them is missing or failed.
    if not by_name.keys() >= {target.contender, *target.rivals}:
        return None
    rivals = [by_name[name].best for name in target.rivals]
    slowest, fastest = min(rivals, key=_speed), max(rivals, key=_speed)
    return ratio(by_name[target.contender].best, fastest) if slowest.median else None


def _speed(run: Run) -> float:
    return run.median
