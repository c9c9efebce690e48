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
    """Each target for each setting of its contender: the default must not hide behind a faster one."""
    by_name = {outcome.entry.name: outcome for outcome in outcomes}
    return [
        _verdict(target, run, _best_rival(target, by_name))
        for target in TARGETS
        if target.contender in by_name
        for run in by_name[target.contender].runs
    ]


def _verdict(target: Target, run: Run, rival: Run | None) -> dict[str, Any]:
    measured = ratio(run, rival) if rival else None
    met = None if measured is None else measured >= target.wanted
    return {"target": str(target), "setting": str(run.setting), "measured": measured, "met": met}


def _best_rival(target: Target, by_name: dict[str, Outcome]) -> Run | None:
    """The fastest rival in its fastest setting; None while one of them is missing or failed."""
    rivals = [by_name[name].best for name in target.rivals if name in by_name]
    if len(rivals) < len(target.rivals) or not all(run.median for run in rivals):
        return None
    return max(rivals, key=lambda run: run.median)
