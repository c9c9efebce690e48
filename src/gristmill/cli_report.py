"""The command that makes pages: report."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path

from gristmill.cli_options import answer
from gristmill.core.errors import ConfigError
from gristmill.places.address import Address
from gristmill.places.door import address_of, as_target, place_at
from gristmill.show.terminal import line


def run_report(chosen: argparse.Namespace) -> None:
    from gristmill.report.writing import report, target, write  # which imports Arrow

    path, other = _existing(chosen.path), _existing(chosen.vs) if chosen.vs else None
    out = as_target("--out", chosen.out or target(path) if other is None else _compared(chosen.out))
    _check_free(out)
    made, figures = report(path, other)
    write(made, out)
    answer(chosen, {"report": str(out), "figures": figures}, lambda: line(f"{out} is written: open it in a browser."))
    if chosen.open:
        _show(out)


def _existing(given: str) -> Address:
    path = address_of(given)
    if not place_at(path).exists() and not place_at(path / "manifest.json").exists():
        raise ConfigError(f"{path} does not exist.")
    return path


def _check_free(out: Address) -> None:
    """A page may be replaced, anything else may not."""
    if place_at(out).exists() and not place_at(out).read(0, 15).lower().startswith(b"<!doctype html"):
        raise ConfigError(f"{out} exists and is no page: choose another name.", arguments="out")


def _compared(given: str | None) -> str:
    """A comparison belongs to neither of the two, so it lies where the command runs."""
    return given or "changes.html"


def _show(out: Address) -> None:
    if not isinstance(out, Path):
        raise ConfigError(f"{out} is not on this machine: --open needs a report that is, give --out a path.")
    if webbrowser.open(out.absolute().as_uri()) is False:
        print(f"note: This machine has no browser that could be started: open {out} yourself.", file=sys.stderr)
