"""What a run has been trained on, counted by arithmetic, against every step visited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gristmill as gm
from gristmill.order.trace import sightings
from gristmill.order.trained import trained_tokens

T = 8


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory, make_store: Callable[..., Path]) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("trained")
    made = {}
    for name, count in (("web", 60), ("code", 25)):
        documents = [[i % 50 + 1] * (i * 7 % 23 + 1) for i in range(count)]
        made[name] = make_store(root / name, documents, tokens_per_shard=200) / "train"
        gm.index(made[name], seq_len=T)
    return made


def plan_of(stores: dict[str, Path], cut: str, **options: object) -> gm.Plan:
    options = {"cut": cut, **options}
    weights = {"web": "2/3", "code": "1/3"}
    return gm.Plan(stores, weights, seq_len=T, batch_size=6, steps=40, seed=3, options=options)


def visited(plan: gm.Plan, until: int) -> Counter[tuple[str, str]]:
    """Tokens of each document, by a visit to every step."""
    found: Counter[tuple[str, str]] = Counter()
    for step in range(until):
        if not plan.skips.covers(step):
            for row in plan.trace(step):
                if not row.excluded:
                    found[row.source, row.doc_id] += row.end - row.start
    return found


def counted(plan: gm.Plan, until: int) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for k, source in enumerate(plan.sources):
        documents = np.arange(source.store.documents_in(source.store.num_shards))
        tokens = trained_tokens(plan, k, documents, until)
        found.update({(source.name, source.store.document_id(i)): n for i, n in enumerate(tokens.tolist()) if n})
    return found


@pytest.mark.parametrize("cut", ["chunk", "pack", "pad", "window"])
@pytest.mark.parametrize("until", [1, 7, 40])
def test_every_cut_is_counted_as_it_was_served(stores: dict[str, Path], cut: str, until: int) -> None:
    plan = plan_of(stores, cut)
    assert counted(plan, until) == visited(plan, until)


@pytest.mark.parametrize("cut", ["chunk", "pack"])
def test_phases_skips_and_exclusions_count(stores: dict[str, Path], cut: str) -> None:
    some = [gm.open(path).document(3).id for path in stores.values()]
    options = {
        "phases": [gm.Phase(from_step=15, weights={"web": "1/2", "code": "1/2"}, batch_size=4)],
        "skip": [(3, 5), (20, 21)],
        "exclude": [gm.Exclude(some[0], "web", from_step=10), gm.Exclude(some[1], "code", mode="loss")],
    }
    plan = plan_of(stores, cut, **options)
    found = counted(plan, 40)
    assert found == visited(plan, 40)
    assert ("code", some[1]) not in found


def test_a_change_of_length_counts_both_lengths(stores: dict[str, Path]) -> None:
    plan = plan_of(stores, "chunk", unit=T, phases=[gm.Phase(from_step=9, seq_len=T // 2)])
    assert counted(plan, 30) == visited(plan, 30)


def test_one_pass_with_a_short_last_batch_counts_each_token_once(stores: dict[str, Path]) -> None:
    plan = gm.Plan(stores["web"], seq_len=T, batch_size=7, options=gm.PlanOptions(cut="pad", drop_last=False))
    assert counted(plan, len(plan)) == visited(plan, len(plan))


@pytest.mark.parametrize("cut", ["chunk", "pack", "pad", "window"])
def test_many_documents_are_seen_where_each_of_them_is(stores: dict[str, Path], cut: str) -> None:
    plan = plan_of(stores, cut, skip=[(3, 5)])
    store = plan.sources[0].store
    documents = np.array([40, 3, 17, 3])
    found = sightings(plan, 0, documents, 30)
    for i, document in enumerate(documents.tolist()):
        one = [each for each in plan.find(store.document_id(document), until=30) if each.source == "web"]
        here = found.which == i
        assert sorted(zip(found.step[here].tolist(), found.row[here].tolist(), strict=True)) == [
            (each.step, each.row) for each in one
        ]
