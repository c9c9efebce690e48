"""A run that was simulated: its figures as a table, and its course as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from gristmill.core.sizes import megabytes, speed
from gristmill.show.terminal import facts, line, paragraph
from gristmill.simulate.options import SimulateOptions
from gristmill.simulate.simulation import Simulation

_BARS = " ▁▂▃▄▅▆▇█"
_NOTICED = 0.01


def show_simulation(title: str, options: SimulateOptions, found: Simulation) -> None:
    """What was assumed, what comes of it, and how that goes over the run."""
    line(title)
    paragraph(_assumed(options))
    line("")
    facts("a node", _figures(options, found))
    _show_course(found)
    for note in _notes(found):
        paragraph(note)


def _assumed(options: SimulateOptions) -> str:
    limit = "" if options.requests_per_second is None else f", {options.requests_per_second:,g} requests a second"
    network = f"{speed(int(options.bytes_per_second), 1)} and {seconds(options.latency_seconds)} a node{limit}"
    return f"{options.nodes:,} x {options.ranks:,} ranks, a step of {seconds(options.step_seconds)}, {network}"


def _figures(options: SimulateOptions, found: Simulation) -> dict[str, object]:
    ratio = f" ({found.bytes / found.served_bytes:.3f} x what is served)" if found.served_bytes else ""
    return {
        "fetched": f"{megabytes(found.bytes)}{ratio}",
        "requests": found.requests,
        **({} if found.cost is None else {"cost of all nodes": f"{found.cost:,.2f}"}),
        "first batch": seconds(found.first_batch_seconds),
        "run": seconds(found.seconds),
        "stalled": f"{seconds(found.stalled_seconds)} ({found.stalled_share:.2%} of the time)",
        "cache in use": megabytes(found.cache_bytes) if options.cache_bytes else "none",
        "smallest cache that spares stalls": _smallest(found),
    }


def _smallest(found: Simulation) -> str:
    if not found.smallest_cache_bytes:
        return "none is needed" if found.least_stalled_share < _NOTICED else "none helps: the network is too slow"
    return f"{megabytes(found.smallest_cache_bytes)} (then {found.least_stalled_share:.2%} of the time is stalled)"


def _show_course(found: Simulation) -> None:
    """Rows of bars over the run, each up to its own highest figure, which stands behind it."""
    stretches = found.stretches
    rows = {
        "MB a step": [stretch.bytes / 1e6 / (stretch.to_step - stretch.from_step) for stretch in stretches],
        "stalled %": [100 * stretch.stalled_seconds / max(stretch.seconds, 1e-9) for stretch in stretches],
        "cache MB": [stretch.cache_bytes / 1e6 for stretch in stretches],
    }  # fmt: skip
    line("")
    line(f"steps {stretches[0].from_step:,} to {stretches[-1].to_step:,}", bold=True)
    for name, values in rows.items():
        if max(values):
            line(f"{name:9}  {_bars(values)}  {max(values):,.4g}")


def _bars(values: Sequence[float]) -> str:
    """A bar each, of eight heights; what is above nothing is seen."""
    top = max(values) or 1
    return "".join(_BARS[-int(-8 * value // top)] for value in values)


def _notes(found: Simulation) -> list[str]:
    notes = []
    if found.simulated_steps < found.steps:
        notes.append(
            f"Simulated were the first {found.simulated_steps:,} of {found.steps:,} steps; the rest is taken to go on "
            "like the second half of these."
        )
    return notes


def seconds(value: float) -> str:
    """`80 ms`, `12.5 s`, `3.2 h`"""
    for unit, size in (("h", 3600), ("min", 60), ("s", 1)):
        if value >= (2 * size if size > 1 else size):
            return f"{value / size:,.1f} {unit}"
    return f"{value * 1000:,.3g} ms"
