"""Stores beside streams in a mix: the rows of a plan, exact shares, and the step as their whole state."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gristmill as gm

from .conftest import Files, assert_equal, bytes_stream, copied, joined, taken

KEYS = ("labels", "loss_mask", "doc_ids", "position_ids", "cu_seqlens", "attention_mask")
WEIGHTS = {"web": 0.4, "kept": 0.35, "code": 0.15, "packed": 0.1}
SEQ_LEN = 32
Mixed = Callable[..., Any]


def prepared(folder: Path, raw: Path, **store: Any) -> Any:
    recipe = {"out": str(folder), "sources": [{"name": "data", "paths": [str(raw)]}], "clean": None, "dedup": [],
              "tokenizer": "byte", "store": {"val_fraction": 0.0, "tokens_per_shard": 2000, **store}}  # fmt: skip
    gm.prepare(recipe, progress=False)
    made = gm.open(folder / "train")
    gm.index(made, seq_len=SEQ_LEN, progress=False)
    return made


@pytest.fixture
def stores(files: Files, tmp_path: Path) -> dict[str, Any]:
    """Two stores, one of several shards and one that is compressed."""
    plain, packed = files(2, 40, 25, folder="a", seed=7), files(1, 30, 25, folder="b", seed=8)
    return {"kept": prepared(tmp_path / "kept", plain),
            "packed": prepared(tmp_path / "packed", packed, compression="zstd")}  # fmt: skip


@pytest.fixture
def mixed(files: Files, stores: dict[str, Any]) -> Mixed:
    """Two streams and two stores, cut alike; of each of 4,096 rows its exact share."""
    folders = {name: files(2, 30, 20, folder=name, seed=3) for name in ("web", "code")}

    def make(cut: str, weights: Any = WEIGHTS, lanes: int = 12, locality: Any = None, **options: Any) -> Any:
        streams = {name: bytes_stream(folder, cut, SEQ_LEN) for name, folder in folders.items()}
        named = {**streams, **stores}
        mix = gm.mix({name: named[name] for name in weights}, weights, locality=locality)
        return mix.batch(lanes, **{"seed": 3, **options})

    return make


@pytest.mark.parametrize("cut", ["chunk", "pack", "pad"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shares=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    lanes=st.integers(1, 9),
    seed=st.integers(0, 2**40),
    shuffle=st.sampled_from([False, True, {"block": 4, "window": 3}]),
)
def test_a_store_gives_the_rows_of_a_plan_of_its_own_whatever_it_is_mixed_with(
    mixed: Mixed, stores: dict[str, Any], cut: str, shares: list[int], lanes: int, seed: int, shuffle: Any
) -> None:
    weights = {name: f"{share}/{sum(shares)}" for name, share in zip(WEIGHTS, shares, strict=True)}
    options = {"shuffle": bool(shuffle), "locality": shuffle if isinstance(shuffle, dict) else None}
    stream = mixed(cut, weights, lanes, seed=seed, **options)
    batches = taken(stream.loader(keys=KEYS), 40)
    assert stream.names == ("web", "code", "kept", "packed")
    for number, name in ((2, "kept"), (3, "packed")):
        plan = gm.Plan({name: stores[name]}, seq_len=SEQ_LEN, batch_size=1, seed=seed, steps=10**6,
                       options={"cut": cut, **options})  # fmt: skip
        alone = iter(gm.Loader(plan, keys=KEYS))
        for batch, row in ((batch, row) for batch in batches for row in range(lanes)):
            if batch["sample_ids"][row, 0] == number:
                expected = next(alone)
                for key in batch.keys() - {"sample_ids"}:
                    assert np.array_equal(batch[key][row], expected[key][0]), key
                assert batch["sample_ids"][row].tolist() == [number, *expected["sample_ids"][0, 1:].tolist()]


def test_every_block_has_the_exact_share_of_each_source(mixed: Mixed) -> None:
    loader = mixed("pack", lanes=64).loader()
    labels = np.concatenate([batch["sample_ids"][:, 0] for batch in itertools.islice(loader, 128)])
    for end in (4096, 8192):
        assert np.abs(np.bincount(labels[:end], minlength=4) - np.array([0.4, 0.15, 0.35, 0.1]) * end).max() <= 1


@pytest.mark.parametrize("cut", ["chunk", "pack", "pad"])
def test_a_mix_with_stores_goes_on_from_every_step_on_any_number_of_ranks(mixed: Mixed, cut: str) -> None:
    stream = mixed(cut)
    loader = stream.loader(keys=KEYS, threads=0)
    whole, states = [], [loader.state_dict()]
    for batch in itertools.islice(loader, 14):
        whole += copied(iter([batch]))
        states.append(loader.state_dict())
    assert len(states[3]["lanes"]) == 15 * 12 * 2  # 12 bytes for a row of each stream, and none for stores
    for step, state in enumerate(states[:-3]):
        world, again = 1 + step % 4, pickle.loads(pickle.dumps(stream))
        loaders = [again.loader(rank, world, keys=KEYS, threads=step % 2) for rank in range(world)]
        for each in loaders:
            each.load_state_dict(state)
        parts = [taken(each, 3) for each in loaders]
        assert_equal([joined(batches) for batches in zip(*parts, strict=True)], whole[step : step + 3])
        assert gm.merge_states([each.state_dict() for each in loaders]) == states[step + 3]
        for each in loaders:
            each.close(wait=True)


@pytest.mark.parametrize("cut", ["chunk", "pack", "pad"])
def test_streams_give_what_they_would_give_without_stores(mixed: Mixed, cut: str) -> None:
    batches, weights = taken(mixed(cut).loader(), 40), {"web": 1}
    alone = taken(mixed(cut, weights).loader(), 40)
    for row in range(12):
        found = [batch["input_ids"][row] for batch in batches if batch["sample_ids"][row, 0] == 0]
        assert found and all(map(np.array_equal, found, (batch["input_ids"][row] for batch in alone)))


def test_padding_is_as_wide_as_the_longest_row_be_it_of_a_stream_or_of_a_store(mixed: Mixed) -> None:
    loader, padded, widths = mixed("pad", lanes=6).loader(keys="attention_mask", pad_to_multiple_of=4), 0, set()
    for batch in itertools.islice(loader, 30):
        longest = int(batch["attention_mask"].sum(axis=1).max())
        widths.add(batch["input_ids"].shape[1])
        assert batch["input_ids"].shape[1] == min(-(-longest // 4) * 4, SEQ_LEN)
        padded += int((batch["attention_mask"] == 0).sum())
    assert loader.stats()["padded_tokens"] == padded and SEQ_LEN in widths


@pytest.mark.parametrize("cut", ["pack", "pad"])
def test_what_is_padded_and_cut_off_of_stores_is_counted(mixed: Mixed, stores: dict[str, Any], cut: str) -> None:
    loader = mixed(cut, {"web": 0, "kept": 1}, lanes=4).loader(keys="attention_mask")
    batches = taken(loader, 16)
    plan = gm.Plan({"kept": stores["kept"]}, seq_len=SEQ_LEN, batch_size=4, seed=3, steps=16, options={"cut": cut})
    alone = gm.Loader(plan, keys="attention_mask")
    for one, other in zip(batches, alone, strict=True):
        assert np.array_equal(one["input_ids"], other["input_ids"])
    assert all(loader.stats()[key] == alone.stats()[key] for key in ("padded_tokens", "truncated_tokens", "tokens"))


def test_what_cannot_be_mixed_with_streams_is_refused_in_a_sentence(
    mixed: Mixed, stores: dict[str, Any], files: Files, tmp_path: Path
) -> None:
    stream = bytes_stream(files(folder="again"), "chunk", SEQ_LEN)
    with pytest.raises(gm.ConfigError, match="is a plan"):
        gm.mix({"b": stores["kept"]}, {"b": 1})
    with pytest.raises(gm.ConfigError, match="opened stores"):
        gm.mix({"a": stream, "b": str(tmp_path / "kept")}, {"a": 1, "b": 0})  # type: ignore[dict-item]
    with pytest.raises(gm.ConfigError, match="locality is for the stores of a mix"):
        gm.mix({"a": stream}, {"a": 1}, locality=gm.Locality())
    with pytest.raises(gm.ConfigError, match="leave out one of them"):
        mixed("chunk", locality={"block": 4}, shuffle=False).loader()
    state = mixed("chunk", {"web": 0.5, "kept": 0.5}).loader().state_dict()
    other = mixed("chunk", {"web": 0.5, "packed": 0.5}).loader()
    with pytest.raises(gm.StateError, match="mix, stores"):
        other.load_state_dict(state)


def test_a_store_of_other_tokens_is_refused_and_a_bare_file_goes_by_its_eos(
    stores: dict[str, Any], files: Files, tmp_path: Path
) -> None:
    raw = files(1, 40, folder="c")
    for name, text in (("one", "The mill grinds what it is given. "), ("other", "Nobody asks the flour. ")):
        (tmp_path / f"{name}.txt").write_text(text * 50)
        gm.train_tokenizer(str(tmp_path / f"{name}.txt"), tmp_path / f"{name}.json", vocab_size=270, progress=False)
    made = gm.stream(str(raw)).tokenize(str(tmp_path / "one.json")).chunk(SEQ_LEN)
    gm.prepare({"out": str(tmp_path / "trained"), "sources": [{"name": "d", "paths": [str(raw)]}],
                "tokenizer": str(tmp_path / "other.json")}, progress=False)  # fmt: skip
    for store, said in ((stores["kept"], "end with 256"), (gm.open(tmp_path / "trained" / "train"), "one tokenizer")):
        with pytest.raises(gm.ConfigError, match=said):
            gm.mix({"a": made, "b": store}, {"a": 0.5, "b": 0.5}).batch(4)
    stream, bare = bytes_stream(raw, "chunk", SEQ_LEN), sorted((tmp_path / "kept" / "train").glob("*.bin"))
    for eos in (255, 256):
        named = {"a": stream, "b": gm.open([str(path) for path in bare], dtype="uint16", eos=eos)}
        if eos == 255:
            with pytest.raises(gm.ConfigError, match="open bare token files with eos="):
                gm.mix(named, {"a": 0.5, "b": 0.5}).batch(4)
        else:
            labels = next(iter(gm.mix(named, {"a": 0, "b": 1}).batch(4).loader()))["sample_ids"][:, 0]
            assert labels.tolist() == [1] * 4
