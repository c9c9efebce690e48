"""Exports, imports and indexes: which files were linked, copied or built."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gristmill.core.bar import Bar
from gristmill.show.terminal import line, print_json


def show_exchange(report: Any, as_json: bool, bar: Bar) -> None:
    """What an export or import linked, copied, and says to its user."""
    values = dataclasses.asdict(report)
    if as_json:
        print_json({**values, **bar.figures})
        return
    for key in ("linked", "copied"):
        for name in values[key]:
            line(f"{key:8} {name}")
    for note in values["notes"]:
        line(note)
    line(f"Done {bar.took()}.")


def show_files(made: Sequence[Path], as_json: bool, bar: Bar) -> None:
    """The index files that are there now."""
    if as_json:
        print_json({"files": [str(path) for path in made], **bar.figures})
        return
    for path in made:
        line(str(path))
