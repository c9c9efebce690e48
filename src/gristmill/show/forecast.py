"""A dry run: what `prepare` would do."""

from __future__ import annotations

from gristmill.show.funnel import commonest
from gristmill.show.terminal import Row, facts, line, paragraph, table
from gristmill.stages.forecast import RunForecast


def show_forecast(forecast: RunForecast) -> None:
    """What a run would do: inputs, steps, what the sample's rules say, an estimate."""
    sources, sample, estimate = forecast["sources"], forecast["sample"], forecast["estimate"]
    table(f"inputs of {forecast['out']}", list(sources[0]), [list(row.values()) for row in sources])
    paragraph(f"steps: {' > '.join(forecast['steps'])}; {forecast['workers']} workers")
    if sample["rules"]:
        line("")
        columns = ("rule", "alone", "only it", "in order")
        rows = [Row((row["rule"], row["alone"], row["only"], row["in_order"]), commonest(row["reasons"]))
                for row in sample["rules"]]  # fmt: skip
        table(f"documents dropped of a sample of {sample['documents']:,}, {sample['kept']:,} kept", columns, rows)
    line("")
    ranges = {name: "" if low == high else f" ({low:,} to {high:,})" for name, (low, high) in forecast["range"].items()}
    facts("estimate, before dedup", {name: f"{value:,}{ranges[name]}" for name, value in estimate.items()})
