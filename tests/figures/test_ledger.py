"""The ledger: its sums by source, domain and licence, and a take-down list of many ids."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import gristmill as gm
from gristmill.core.progress import Quiet
from gristmill.figures.ledger import make_ledger, take_down
from gristmill.testing import tiny_store


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> gm.Plan:
    """Two stores; that of the web has two sources, addresses and licences, that of code is a bare file."""
    folder = tmp_path_factory.mktemp("ledger")
    for name in ("news", "wiki"):
        rows = [{"id": f"{name}-{i}", "text": f"{name} number {i} " * (i % 7 + 1), "license": "cc0" if i % 3 else None,
                 "url": f"https://user@{'ABC'[i % 3]}.org:80/{i}?q"} for i in range(300)]  # fmt: skip
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    sources = [{"name": name, "paths": [str(folder / f"{name}.jsonl")], "fields": ["url", "license"]}
               for name in ("news", "wiki")]  # fmt: skip
    gm.prepare({"out": str(folder / "web"), "tokenizer": "byte", "sources": sources,
                "store": {"tokens_per_shard": 6000}}, progress=False)  # fmt: skip
    tiny_store(folder / "code", shards=2)
    code = gm.open([folder / "code" / f"part-{i}.bin" for i in range(2)], dtype="uint16", eos=256)
    return gm.Plan({"web": folder / "web" / "train", "code": code}, {"web": "3/4", "code": "1/4"}, seq_len=16,
                   batch_size=8, steps=60, options={"exclude": [gm.Exclude("news-5", from_step=10)]})  # fmt: skip


def test_the_sums_agree_with_one_another_and_with_the_rows(plan: gm.Plan, tmp_path: Path) -> None:
    ledger = make_ledger(plan, 50, tmp_path / "ledger.parquet", Quiet())
    rows = pq.read_table(tmp_path / "ledger.parquet").to_pylist()
    assert ledger.tokens == sum(row["tokens"] for row in rows) == sum(each.tokens for each in ledger.sources)
    assert ledger.documents == len(rows) == sum(each.documents for each in ledger.licences)
    lost = sum(each.end - each.start for step in range(10, 50) for each in plan.trace(step) if each.excluded)
    assert ledger.tokens == 50 * 8 * 16 - lost
    assert {"web: news", "web: wiki"} < {each.name for each in ledger.sources}
    assert {each.name for each in ledger.domains} == {"a.org", "b.org", "c.org", None} and ledger.domain_count == 3
    assert {each.name for each in ledger.licences} == {"cc0", None}


def test_nothing_is_left_where_no_file_is_asked_for(plan: gm.Plan) -> None:
    assert make_ledger(plan, 1, None, Quiet()).steps == 1


def test_many_ids_are_answered_as_one_is(plan: gm.Plan) -> None:
    ids = [f"{name}-{i}" for name in ("news", "wiki") for i in range(320)]
    found = take_down(plan, [*ids, ids[0]], 50)
    assert found.asked == 640 and set(found.unknown) >= {f"news-{i}" for i in range(300, 320)}
    rows = {row["id"]: row for row in found.table.to_pylist()}
    for text in ("news-3", "wiki-299", "wiki-100", "news-5"):
        if text in rows:
            steps = [each.step for each in plan.find(text, until=10 if text == "news-5" else 50)]
            assert rows[text]["steps"] == steps and rows[text]["rows"] == len(steps)
            assert (rows[text]["first_step"] is None) == (not steps)
    assert found.trained == sum(row["tokens"] > 0 for row in rows.values())
    assert found.known == len(rows) > 500


def test_a_list_of_strangers_is_answered_too(plan: gm.Plan) -> None:
    found = take_down(plan, ["nobody"], 50)
    assert (found.known, found.trained, found.tokens, found.table.num_rows) == (0, 0, 0, 0)
