"""The commands about a training run: what it has been trained on, and how it goes now."""

from __future__ import annotations

import argparse
import time

from gristmill.cli_options import answer, progress_bar
from gristmill.core.arguments import as_whole
from gristmill.core.errors import ConfigError
from gristmill.figures.ledger import make_ledger, take_down
from gristmill.figures.run import run_figures
from gristmill.figures.served import as_run
from gristmill.loader.plan_file import load_plan
from gristmill.loader.record import is_run
from gristmill.order.plan import Plan
from gristmill.places.address import Address
from gristmill.places.door import address_of, as_target, place_at
from gristmill.show.ledger import show_ledger, show_take_down
from gristmill.show.run import show_run
from gristmill.show.terminal import paragraph
from gristmill.show.watch import watch


def run_ledger(chosen: argparse.Namespace) -> None:
    plan, until = _plan_until(address_of(chosen.path), chosen.until)
    out = None if chosen.out is None else as_target("out", chosen.out)
    if chosen.ids is not None:
        _take_down(plan, until, out, chosen)
        return
    with progress_bar(chosen) as bar:
        ledger = make_ledger(plan, until, out, bar)
    if chosen.html is not None:
        from gristmill.report.ledger import ledger_page

        place_at(as_target("html", chosen.html)).write(ledger_page(chosen.path, ledger))
    answer(chosen, ledger, lambda: show_ledger(chosen.path, ledger))


def _plan_until(path: Address, until: int | None) -> tuple[Plan, int]:
    """The plan of a run or of a file, and how far it has been trained: of a run, as far as it is recorded."""
    if not is_run(path):
        if until is None:
            raise ConfigError(f"{path} is a plan: say --until N, the step that the model has been trained up to.")
        return load_plan(path), until
    run = as_run(path)
    if run.plan is None:
        raise ConfigError(f"{path} has no plan.json, as a stream has none: its documents cannot be told.")
    return run.plan, int(run.served().step[-1]) + 1 if until is None else as_whole("until", until)


def _take_down(plan: Plan, until: int, out: Address | None, chosen: argparse.Namespace) -> None:
    if chosen.html is not None:
        raise ConfigError("--html is the page of the whole ledger: leave out --ids, or write their steps by --out.")
    try:
        ids = place_at(address_of(chosen.ids)).read().decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--ids {chosen.ids} cannot be read: {error}.") from error
    found = take_down(plan, [text for text in ids if text], until)
    if out is not None:
        import pyarrow.parquet as pq

        with place_at(out).writing() as file:
            pq.write_table(found.table, file, compression="zstd")
    figures = {key: value for key, value in vars(found).items() if key != "table"}
    answer(chosen, {**figures, "documents": found.table.to_pylist()}, lambda: show_take_down(found))


def run_watch(chosen: argparse.Namespace) -> None:
    path = address_of(chosen.path)
    run = as_run(path)
    if chosen.json or chosen.once:
        figures = run_figures(run)
        answer(chosen, figures, lambda: show_run(chosen.path, figures))
    elif not watch(chosen.path, lambda: run_figures(as_run(path)), chosen.seconds, time.sleep):
        paragraph("There is no terminal to watch on, so this is one look: --once says so.")
        show_run(chosen.path, run_figures(run))
