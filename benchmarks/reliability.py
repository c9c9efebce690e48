"""The table of what `make soak` tried: one row for each JSON file in results/reliability."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
HEAD = """# What `make soak` tried

Each row is a file in `reliability/`, written by the run itself. A case passes if it is refused by an error of ours or
gives the right answer; anything else (another exception, a signal, a hang, memory beyond the bound) is a failure.
What the rows mean is in [docs/reliability.md](../../docs/reliability.md).

| what | cases | right answers | refused | failures |
|---|---:|---:|---:|---:|
"""


def row(path: Path) -> str:
    """One run as a line of the table."""
    run: dict[str, Any] = json.loads(path.read_text())
    counts = [f"{run[key]:,}" if key in run else "" for key in ("cases", "read", "refused")]
    return f"| {path.stem} | {' | '.join(counts)} | {len(run['failures']):,} |"


def main() -> None:
    rows = [row(path) for path in sorted((RESULTS / "reliability").glob("*.json"))]
    (RESULTS / "reliability.md").write_text(HEAD + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
