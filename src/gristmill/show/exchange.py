"""Exports and imports: what was linked, what was copied."""

from __future__ import annotations

import dataclasses
from typing import Any

from gristmill.show.terminal import console, print_json


def show_exchange(report: Any, as_json: bool) -> None:
    """What an export or import linked, copied, and says to its user."""
    values = dataclasses.asdict(report)
    if as_json:
        print_json(values)
        return
    for key in ("linked", "copied"):
        for name in values[key]:
            console.print(f"{key:8} {name}", soft_wrap=True)
    for note in values["notes"]:
        console.print(note, soft_wrap=True)
