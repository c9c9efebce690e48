"""A dry run: what `prepare` would do."""

from __future__ import annotations

from typing import Any

from gristmill.show.terminal import console, print_json, table


def show_forecast(forecast: dict[str, Any], as_json: bool) -> None:
    """What a run would do: inputs, steps, what the sample's rules say, an estimate."""
    if as_json:
        print_json(forecast)
        return
    sources, sample, estimate = forecast["sources"], forecast["sample"], forecast["estimate"]
    table(f"inputs of {forecast['out']}", list(sources[0]), [list(row.values()) for row in sources])
    console.print(f"steps: {' > '.join(forecast['steps'])}; {forecast['workers']} workers", soft_wrap=True)
    if sample["rules"]:
        columns = ("rule", "alone", "only it", "in order", "reasons")
        rows = [(row["rule"], row["alone"], row["only"], row["in_order"],
                 ", ".join(f"{reason} {count:,}" for reason, count in row["reasons"].items()))
                for row in sample["rules"]]  # fmt: skip
        table(f"documents dropped of a sample of {sample['documents']:,}, {sample['kept']:,} kept", columns, rows)
    table("estimate, before dedup", list(estimate), [list(estimate.values())])
