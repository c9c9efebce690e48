"""Every query of a run means the same in DuckDB's dialect and in Spark's.

What the two would read differently and no parser shows: an order puts nulls last in one and first in the other, so no
key of an order is null; a cast that fails is an error in one and a null in the other, so none can fail. How Spark is to
part rows among tasks may stand in a hint, which is a comment to DuckDB and changes no row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

import gristmill as gm
from gristmill.curate.dedup.resolve import GONE, LEFT, NEIGHBOURS, RESTLESS, STARS, dealt
from gristmill.engine.inline import InlineEngine

WIDE = {"id", "exact", "repeated", "members", "crowded", "pairs", "candidates", "wanted", "near", "largest", "kept",
        "layout", "counts", "evidence", "rounds"}  # fmt: skip


class Recording(InlineEngine):
    """Keeps every statement by the step that asked for it."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(1 << 28, scratch)
        self.statements: list[tuple[str, str]] = []

    def query(self, sql: str, tables: Mapping[str, Sequence[Path]], out: Path) -> list[Path]:
        self.statements.append((out.parent.name, sql))
        return super().query(sql, tables, out)


@pytest.fixture(scope="module")
def statements(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Those of runs with every wide step in every form."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("it's a", "b"):
        texts = [f"Text {i // 2} of {name}, with words of its own: " + f"{name}{i // 2} " * 30 for i in range(40)]
        rows = [{"id": f"{name}{i}", "text": text, "my field": "x"} for i, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources = [
        {"name": name, "paths": [str(folder / f"{name}.jsonl")], "fields": ["my field"]} for name in ("it's a", "b")
    ]
    mix = {"weights": {"it's a": 0.5, "b": 0.5}, "target": 100}
    engine = Recording(folder / "scratch")
    runs: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"dedup": [{"near": {"max_bucket": 2}}, "exact", "lines"]}, {"save_index": str(folder / "index")}),
        ({"dedup": ["exact", "lines", {"near": {"index": str(folder / "index"), "max_bucket": 2}}]}, {}),
        ({"dedup": [{"near": {"verify": False}}], "shuffle": True}, {}),
        ({"mix": mix}, {}),
        ({"mix": {**mix, "unit": "tokens", "target": 9_000}, "shuffle": True}, {}),
    ]
    for number, (options, run) in enumerate(runs):
        recipe = {"out": str(folder / f"{number}"), "sources": sources, "tokenizer": "byte", **options}
        if number == 1:
            (folder / "c.jsonl").write_text('{"text": "Another text, which no index has seen before."}\n')
            recipe["sources"] = [*sources, {"name": "c", "paths": [str(folder / "c.jsonl")]}]
        gm.prepare(recipe, progress=False, options=run, engine=engine)
    engine.close()
    # Those of more near duplicates than a task holds.
    rounds = (GONE, LEFT, NEIGHBOURS, STARS, RESTLESS, dealt(4))
    return [*engine.statements, *(("rounds", sql) for sql in rounds)]


def parsed(sql: str, dialect: str) -> exp.Expression:
    """The statement as a dialect reads it, but for what the head of this file says of nulls and casts."""
    (tree,) = sqlglot.parse(sql, read=dialect, error_level=sqlglot.ErrorLevel.RAISE)
    assert tree is not None
    for ordered in tree.find_all(exp.Ordered):
        ordered.set("nulls_first", None)
    for hint in list(tree.find_all(exp.Hint)):
        assert [type(each) is exp.Anonymous and each.name for each in hint.expressions] == ["REPARTITION"]
        hint.pop()
    return tree.transform(lambda node: exp.Cast(**node.args) if type(node) is exp.TryCast else node)


def test_every_wide_step_has_been_asked_for(statements: list[tuple[str, str]]) -> None:
    assert {step for step, _ in statements} == WIDE


def test_both_dialects_read_the_same_in_every_statement(statements: list[tuple[str, str]]) -> None:
    for step, sql in dict.fromkeys(statements):
        duck, spark = (parsed(sql, dialect) for dialect in ("duckdb", "spark"))
        assert duck == spark, step
        assert duck.sql("spark", comments=False) == spark.sql("spark", comments=False), step


def test_no_statement_quotes_a_name_or_holds_a_text_of_users(statements: list[tuple[str, str]]) -> None:
    for step, sql in dict.fromkeys(statements):
        assert not any(name.args.get("quoted") for name in parsed(sql, "duckdb").find_all(exp.Identifier)), step
        assert "it's" not in sql and "my field" not in sql, step
