"""The documents of a step: what the rows of its batch hold, token for token, whatever they were cut and mixed from."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gristmill as gm

from .conftest import Files, bytes_stream, copied

CUTS = ("chunk", "pack", "pad")
KEYS = ("attention_mask", "doc_ids")


def texts_of(folder: Path) -> dict[str, str]:
    rows = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return {row["id"]: row["text"] for row in rows}


def row_tokens(batch: Any, row: int) -> list[int]:
    found: list[int] = batch["input_ids"][row][batch["attention_mask"][row] > 0].tolist()
    return found


def traced_tokens(traced: list[Any], row: int, texts: dict[str, str]) -> list[int]:
    """What a row holds by its documents alone, their bytes and the EOS."""
    return [
        token
        for each in traced
        if each.row == row
        for token in [*texts[each.doc_id].encode(), 256][each.start : each.end]
    ]


@pytest.mark.parametrize("cut", CUTS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_documents_of_a_step_are_the_tokens_of_its_rows(
    tmp_path_factory: pytest.TempPathFactory, cut: str, data: Any
) -> None:
    folder = tmp_path_factory.mktemp("raw")
    lengths = data.draw(st.lists(st.lists(st.integers(0, 90), min_size=1, max_size=12), min_size=1, max_size=4))
    for i, each in enumerate(lengths):
        rows = [{"id": f"{i}-{j}", "text": chr(97 + (i + j) % 26) * length} for j, length in enumerate(each)]
        (folder / f"{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if not any(any(each) for each in lengths):
        return
    stream = bytes_stream(folder, cut, 16).batch(
        data.draw(st.integers(1, 5)), seed=data.draw(st.integers(0, 99)), shuffle=data.draw(st.booleans()), epochs=2
    )
    loader, texts, states, batches = stream.loader(keys=KEYS, threads=0), texts_of(folder), [], []
    states.append(loader.state_dict())
    for batch in loader:
        batches += copied(iter([batch]))
        states.append(loader.state_dict())
    step = data.draw(st.integers(0, len(batches) - 1))
    traced = stream.trace(step, states[data.draw(st.integers(0, step))])
    assert traced == stream.trace(step)
    for row in range(stream.batch_size):
        assert traced_tokens(traced, row, texts) == row_tokens(batches[step], row)
    with pytest.raises(gm.ConfigError, match=f"There is no step {len(batches)}: this stream ends after {len(batches)}"):
        stream.trace(len(batches), states[-1])


def test_ranks_tell_the_rows_of_the_global_batch(files: Files) -> None:
    stream = bytes_stream(files(), "pack").batch(6, seed=1)
    parts = [stream.loader(rank, 3).trace() for rank in range(3)]
    assert sorted(itertools.chain(*parts), key=lambda each: each.row) == stream.trace(0)
    assert {each.row for each in parts[1]} == {1, 4}


def test_documents_of_a_mix_are_told_by_source_and_those_of_stores_as_in_a_plan(files: Files, tmp_path: Path) -> None:
    raw, other = files(3, 40, 20), files(2, 40, 20, folder="other", seed=4)
    gm.prepare({"out": str(tmp_path / "kept"), "sources": [{"name": "kept", "paths": [str(other)]}], "clean": None,
                "dedup": [], "tokenizer": "byte", "store": {"val_fraction": 0.0}}, progress=False)  # fmt: skip
    store = gm.open(tmp_path / "kept" / "train")
    stream = gm.mix({"fresh": bytes_stream(raw), "kept": store}, {"fresh": 0.5, "kept": 0.5}).batch(8, seed=2)
    texts = {"fresh": texts_of(raw), "kept": texts_of(other)}
    for step, batch in enumerate(copied(itertools.islice(stream.loader(keys=KEYS), 4))):
        traced = stream.trace(step)
        for row in range(8):
            name = stream.names[batch["sample_ids"][row, 0]]
            own = [each for each in traced if each.row == row]
            assert {each.source for each in own} == {name}
            assert traced_tokens(own, row, texts[name]) == row_tokens(batch, row)


def test_what_rules_drop_and_functions_change_is_told_as_it_is_served(files: Files) -> None:
    raw = files(2, 30, 30)
    words = gm.stream(f"{raw}/*.jsonl").filter("length", min_chars=60).map(lambda row: row["text"].upper())
    stream = words.tokenize("byte").pad(4096).batch(4, seed=3, epochs=1)
    texts, served = {id: text.upper() for id, text in texts_of(raw).items()}, list[str]()
    for step, batch in enumerate(copied(iter(stream.loader(keys=KEYS)))):
        traced = stream.trace(step)
        served += [each.doc_id for each in traced]
        assert all(traced_tokens(traced, row, texts) == row_tokens(batch, row) for row in range(4))
    assert sorted(served) == sorted(id for id, text in texts.items() if len(text) >= 60)


def test_documents_that_are_rearranged_keep_their_names(files: Files) -> None:
    raw = files(2, 20, 10)
    stream = gm.stream(f"{raw}/*.jsonl").tokenize("byte").augment(lambda tokens, rng: np.append(tokens, 65)).pad(256)
    served = stream.batch(4, seed=0)
    batch, traced = copied(itertools.islice(served.loader(keys=KEYS), 1))[0], served.trace(0)
    for each in traced:
        tokens = row_tokens(batch, each.row)
        assert bytes(tokens[:-2]).decode() == texts_of(raw)[each.doc_id] and tokens[-2:] == [65, 256]


def test_a_state_of_a_later_step_and_of_another_stream_are_refused(files: Files) -> None:
    raw = files()
    stream = bytes_stream(raw).batch(4)
    loader = stream.loader()
    for _ in zip(range(3), loader, strict=False):
        pass
    with pytest.raises(gm.ConfigError, match="This state is of step 3, which comes after step 2"):
        stream.trace(2, loader.state_dict())
    with pytest.raises(gm.StateError, match="seed"):
        bytes_stream(raw).batch(4, seed=1).trace(5, loader.state_dict())
    with pytest.raises(gm.ConfigError, match="step"):
        stream.trace(-1)
    with pytest.raises(gm.StateError, match="no state of a Gristmill stream"):
        stream.trace(5, {"version": 1, "step": 3, "plan": "a", "digest": "b", "tokens": 5})
    ended = bytes_stream(raw).batch(4, epochs=1)
    with pytest.raises(gm.ConfigError, match=f"There is no step {2**63:,}"):
        ended.trace(2**63)


def test_where_nothing_is_left_the_reason_is_told(files: Files) -> None:
    nothing = gm.stream(f"{files()}/*.jsonl").filter("length", min_chars=10**6).tokenize("byte").pack(8)
    for step in (0, 1):
        with pytest.raises(gm.SourceError, match="length dropped 120"):
            nothing.batch(2, epochs=1).trace(step)


def test_the_sources_of_a_recipe_are_told_by_their_names(files: Files) -> None:
    raw = {name: files(1, 30, 20, folder=name, seed=seed) for seed, name in enumerate(("web", "books"))}
    sources = [{"name": name, "paths": [str(folder)]} for name, folder in raw.items()]
    recipe = {"out": "new", "sources": sources, "tokenizer": "byte", "clean": None, "dedup": [],
              "store": {"val_fraction": 0.0}}  # fmt: skip
    stream = gm.stream_recipe(recipe, progress=False).pad(512).batch(60, epochs=1)
    texts = {name: texts_of(folder) for name, folder in raw.items()}
    traced = stream.trace(0)
    batch = copied(iter(stream.loader(keys=KEYS)))[0]
    assert {each.source for each in traced} == {"web", "books"}
    for each in traced:
        assert traced_tokens([each], each.row, texts[each.source]) == row_tokens(batch, each.row)
