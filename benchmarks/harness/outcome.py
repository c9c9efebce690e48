"""What was measured of each contender, as plain data for the results file."""

import statistics
from dataclasses import dataclass
from typing import Any

from contenders.registry import YARDSTICK, Entry
from harness.rounds import Run
from harness.starts import Start


@dataclass(frozen=True)
class Outcome:
    """All figures of one contender."""

    entry: Entry
    runs: list[Run]
    start: Start | None = None
    start_error: str | None = None

    @property
    def best(self) -> Run:
        """The fastest of its settings."""
        return max(self.runs, key=lambda run: run.median)

    @property
    def errors(self) -> list[str]:
        """What went wrong, setting by setting."""
        failed = [f"{run.setting}: {run.error}" for run in self.runs if run.error]
        return failed + ([f"starting: {self.start_error}"] if self.start_error else [])


def ratio(run: Run, other: Run) -> float | None:
    """How many times faster, as the median over rounds: what slows the machine down slows both."""
    if not (run.median and other.median):
        return None
    return statistics.median(a / b for a, b in zip(run.rates, other.rates, strict=True))


def as_data(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """The outcomes as the results file holds them."""
    yardstick = next(o.best for o in outcomes if o.entry.name == YARDSTICK)
    return [_outcome_data(outcome, yardstick) for outcome in outcomes]


def _outcome_data(outcome: Outcome, yardstick: Run) -> dict[str, Any]:
    return {
        "name": outcome.entry.name,
        "distribution": outcome.entry.distribution,
        "order": outcome.entry.order,
        "best": str(outcome.best.setting) if outcome.best.median else None,
        "settings": [_run_data(run, yardstick) for run in outcome.runs],
        "start": _start_data(outcome.start) if outcome.start else None,
        "errors": outcome.errors,
    }


def _run_data(run: Run, yardstick: Run) -> dict[str, Any]:
    return {
        "setting": str(run.setting),
        "tokens_per_second": {"median": run.median, "rounds": run.rates},
        "ratio_to_bare_gather": ratio(run, yardstick),
        "cpu_seconds_per_billion_tokens": 1e9 * run.cpu_seconds / run.tokens if run.tokens else None,
        "error": run.error,
    }


def _start_data(start: Start) -> dict[str, Any]:
    return {
        "version": start.version,
        "import_seconds": statistics.median(start.imports),
        "first_batch_seconds": statistics.median(start.first_batches),
        "resume_seconds": start.resume_seconds,
        "resume_exact": start.exact if start.resumes else None,
        "state_bytes": start.state_bytes,
        "memory_bytes": start.memory,
    }
