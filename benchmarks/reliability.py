"""The table of what `make soak` tried: one line for each JSON file in results/reliability."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
FUZZ = "fuzz-"
HEAD = """# What `make soak` tried

Each line is a file in `reliability/`, written by the run itself. A case passes if it is refused by an error of ours or
gives the right answer; anything else (another exception, a signal, a hang, memory beyond the bound) is a failure.
What the lines mean is in [docs/reliability.md](../../docs/reliability.md).

| parser | cases | right answers | refused | failures |
|---|---:|---:|---:|---:|
"""
OTHERS = """
The other runs; one that failed anywhere leaves no file here.

| what | figures |
|---|---|
"""


def fuzzed(name: str, run: dict[str, Any]) -> str:
    """One fuzzed parser as a line of its table."""
    counts = " | ".join(f"{run[key]:,}" for key in ("cases", "read", "refused"))
    return f"| {name.removeprefix(FUZZ)} | {counts} | {len(run['failures']):,} |"


def counted(name: str, run: dict[str, Any]) -> str:
    """Any other run as a line of its table."""
    return f"| {name} | {', '.join(f'{key} {value:,}' for key, value in run.items())} |"


def main() -> None:
    runs = {path.stem: json.loads(path.read_text()) for path in sorted((RESULTS / "reliability").glob("*.json"))}
    parsers = [fuzzed(name, run) for name, run in runs.items() if name.startswith(FUZZ)]
    others = [counted(name, run) for name, run in runs.items() if not name.startswith(FUZZ)]
    text = HEAD + "\n".join(parsers) + "\n" + (OTHERS + "\n".join(others) + "\n" if others else "")
    (RESULTS / "reliability.md").write_text(text)


if __name__ == "__main__":
    main()
