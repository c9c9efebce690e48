"""Plans, their steps and batches, and checkpoints."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gristmill.core.errors import ConfigError
from gristmill.loader.state import check_state
from gristmill.order.plan import Plan
from gristmill.run import load_plan
from gristmill.show.terminal import console, print_json, table


def show_json_file(path: Path, chosen: argparse.Namespace) -> None:
    """A plan or a checkpoint."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}.") from error
    if isinstance(values, dict) and "gristmill_plan" in values:
        _show_plan(load_plan(path), chosen)
    elif isinstance(values, dict) and "digest" in values:
        _show_state(values, chosen)
    else:
        raise ConfigError(f"{path} is neither a plan nor a checkpoint of a loader.")


def _show_plan(plan: Plan, chosen: argparse.Namespace) -> None:
    if chosen.step is not None:
        _show_rows([vars(row) for row in plan.trace(chosen.step)], f"step {chosen.step:,}", chosen.json)
    elif chosen.doc is not None:
        _show_rows(
            [vars(seen) for seen in plan.find(chosen.doc, chosen.until)], f"{chosen.doc} is seen in", chosen.json
        )
    else:
        forecast = plan.forecast(chosen.until or (None if plan.total_steps else 1000)).to_dict()
        if chosen.json:
            print_json({"fingerprint": plan.fingerprint, "steps": plan.total_steps, "forecast": forecast})
            return
        console.print(f"{plan!r}\nfingerprint {plan.fingerprint}", soft_wrap=True)
        _show_rows(forecast["sources"], f"after {forecast['step']:,} steps, {forecast['tokens']:,} tokens", False)


def _show_rows(rows: list[dict[str, Any]], title: str, as_json: bool) -> None:
    if as_json:
        print_json(rows)
    elif rows:
        table(title, list(rows[0]), [list(row.values()) for row in rows])
    else:
        console.print(f"{title} no step")


def _show_state(state: dict[str, Any], chosen: argparse.Namespace) -> None:
    if chosen.plan:
        check_state(load_plan(chosen.plan), state)
        state = {**state, "belongs to": chosen.plan}
    if chosen.json:
        print_json(state)
    else:
        table("checkpoint", ("field", "value"), [(key, value) for key, value in state.items() if key != "parts"])


def show_batch(plan: Plan, batch: dict[str, Any], step: int, decode: Callable[[Any], str], rows: int = 4) -> None:
    """The first rows of a batch as text, with the documents behind them."""
    traced = plan.trace(step)
    cells = []
    for row in range(min(rows, len(batch["input_ids"]))):
        documents = [item for item in traced if item.row == row]
        first = documents[0]
        more = f" and {len(documents) - 1} more" if len(documents) > 1 else ""
        text = decode(batch["input_ids"][row][:24]).replace("\n", "⏎")
        ids = " ".join(str(token) for token in batch["input_ids"][row][:6])
        cells.append((row, first.source, f"{first.doc_id} [{first.start}:{first.end}]{more}", f"{ids} …", text[:60]))
    table(f"step {step:,}", ("row", "source", "documents", "input_ids", "text"), cells)
