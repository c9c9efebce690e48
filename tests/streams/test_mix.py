"""Several streams as one: exact shares, and the same batches on any number of ranks and after any restart."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm

from .conftest import Files, assert_equal, bytes_stream, copied, joined, taken

WEIGHTS = {"web": 0.5, "code": "0.3", "books": 0.2}


@pytest.fixture
def streams(files: Files) -> dict[str, Any]:
    made = {name: bytes_stream(files(count, 30, 20, folder=name, seed=count), "pack")
            for count, name in enumerate(WEIGHTS, 1)}  # fmt: skip
    return {
        **made,
        "code": gm.stream(f"{made['code'].sources[0].paths[0]}")
        .filter("length", min_chars=40)
        .tokenize("byte")
        .pack(32),
    }


def test_every_block_has_the_exact_share_of_each_stream(streams: dict[str, Any]) -> None:
    loader = gm.mix(streams, WEIGHTS).batch(64, seed=1).loader()
    labels = np.concatenate([batch["sample_ids"][:, 0] for batch in itertools.islice(loader, 128)])
    for end in (4096, 8192):
        assert np.abs(np.bincount(labels[:end], minlength=3) - np.array([0.5, 0.3, 0.2]) * end).max() <= 1


@pytest.mark.parametrize("cut", ["chunk", "pack", "pad"])
def test_a_mix_goes_on_from_every_step_on_any_number_of_ranks(streams: dict[str, Any], cut: str) -> None:
    cuts = {name: getattr(stream, cut)(24) for name, stream in streams.items()}
    stream = gm.mix(cuts, WEIGHTS).batch(12, seed=3)
    loader = stream.loader(keys="labels", threads=0)
    whole, states = [], [loader.state_dict()]
    for batch in itertools.islice(loader, 14):
        whole += copied(iter([batch]))
        states.append(loader.state_dict())
    assert len(states[3]["lanes"]) == 15 * 12 * 3
    for step, state in enumerate(states[:-3]):
        world = 1 + step % 4
        loaders = [stream.loader(rank, world, keys="labels", threads=step % 2) for rank in range(world)]
        for each in loaders:
            each.load_state_dict(state)
        parts = [taken(each, 3) for each in loaders]
        assert_equal([joined(batches) for batches in zip(*parts, strict=True)], whole[step : step + 3])
        assert gm.merge_states([each.state_dict() for each in loaders]) == states[step + 3]
        for each in loaders:
            each.close(wait=True)


def test_a_lane_gives_what_it_would_give_alone(streams: dict[str, Any]) -> None:
    """Of each stream, row r gets the same rows in the same order as if there were no other stream."""
    mixed = taken(gm.mix(streams, WEIGHTS).batch(4, seed=5).loader(), 40)
    for source, (name, stream) in enumerate(streams.items()):
        alone = taken(gm.mix({name: stream}, {name: 1}).batch(4, seed=5).loader(), 40)
        for row in range(4):
            found = [batch["input_ids"][row] for batch in mixed if batch["sample_ids"][row, 0] == source]
            assert found and all(map(np.array_equal, found, (batch["input_ids"][row] for batch in alone)))


def test_a_stream_of_weight_0_is_never_read(streams: dict[str, Any], tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text("no json\n")
    stream = gm.stream(str(broken)).tokenize("byte").pack(32)
    loader = gm.mix({"web": streams["web"], "broken": stream}, {"web": 1, "broken": 0}).batch(4).loader()
    assert all((batch["sample_ids"][:, 0] == 0).all() for batch in taken(loader, 5))


def test_what_cannot_be_mixed_is_refused_in_a_sentence(streams: dict[str, Any]) -> None:
    for changed, said in [
        (streams["web"].chunk(32), "cut differs"), (streams["web"].pack(16), "seq_len differs"),
        (gm.stream("x").tokenize("gpt2").pack(32), "one tokenizer"), (gm.stream("x"), "chunk"),
    ]:  # fmt: skip
        with pytest.raises(gm.ConfigError, match=said):
            gm.mix({**streams, "books": changed}, WEIGHTS).batch(4)
    with pytest.raises(gm.ConfigError, match="add up to"):
        gm.mix(streams, {"web": 1, "code": 1})
    with pytest.raises(gm.ConfigError, match="unknown source 'book'"):
        gm.mix(streams, {"web": 0.5, "book": 0.5})
