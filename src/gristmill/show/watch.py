"""A run while it goes: the same figures again and again, in one place of a terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gristmill.figures.run import RunFigures
from gristmill.show.run import run_facts
from gristmill.show.terminal import plain

_BAR = 40


def watch(
    title: str,
    look: Callable[[], RunFigures],
    seconds: float,
    wait: Callable[[float], object],
    console: Console | None = None,
) -> bool:
    """Show what `look` finds every `seconds`, until the run has served its last step; False without a terminal."""
    console = console or Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        return False
    found = look()
    with Live(picture(title, found), console=console, auto_refresh=False) as live:
        while found.steps is None or found.step + 1 < found.steps:
            wait(seconds)
            found = look()
            live.update(picture(title, found), refresh=True)
    return True


def picture(title: str, run: RunFigures) -> Group:
    """A bar where an end is known, the figures, and the mix as bars against their weights."""
    figures = Table.grid(padding=(0, 2))
    for name, value in run_facts(run).items():
        figures.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    parts: list[object] = [Text(plain(title), style="bold")]
    if run.steps:
        parts.append(ProgressBar(run.steps, run.step + 1, width=_BAR))
    parts.append(figures)
    if run.mix:
        parts += [Text(""), _mix(run)]
    return Group(*parts)  # type: ignore[arg-type]  # whatever rich can show


def _mix(run: RunFigures) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row("source", "", "share", "target", "epochs", style="bold")
    for each in run.mix:
        bar = ProgressBar(1.0, each.share, width=_BAR // 2)
        table.add_row(plain(each.source), bar, f"{each.share:.2%}", f"{each.target:.2%}", f"{each.epochs:,.2f}")
    return table
