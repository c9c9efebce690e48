"""Random windows: from a text, from a store, seeded, resumable, with few files open."""

import json
import pydoc_data.topics
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tiktoken
import torch

import gristmill as gm
from gristmill.adapters.random_windows import GPTDataConfig, GPTDataLoader
from gristmill.store.export import export_store
from gristmill.tokenize.tokenizer import load_tokenizer

torch.set_num_threads(1)

TEXT = "\n".join(pydoc_data.topics.topics.values())[:20_000]
CONFIG = GPTDataConfig(batch_size=4, block_size=16, seed=3)


def over_text(config=CONFIG, text=TEXT, tokenizer="byte"):
    data = GPTDataLoader(config, tokenizer)
    data.prepare_data(text)
    return data


def batches(data, count, split="train"):
    return [[part.tolist() for part in data.get_batch(split)] for _ in range(count)]


@pytest.fixture(scope="module")
def store(tmp_path_factory, make_store, make_documents):
    documents = make_documents(600)
    return make_store(tmp_path_factory.mktemp("windows") / "store", documents, val=documents[:40], tokens_per_shard=200)


# What is in a batch


def test_y_is_x_shifted_by_one_and_both_come_from_the_text():
    x, y = over_text().get_batch("train")
    assert x.shape == y.shape == (4, 16) and x.dtype == y.dtype == torch.int64
    assert torch.equal(x[:, 1:], y[:, :-1]) and x.is_contiguous() and y.is_contiguous()
    assert x.device == y.device == torch.device("cpu")
    data = TEXT.encode()
    for row, last in zip(x.tolist(), y[:, -1].tolist(), strict=True):
        assert bytes([*row, last]) in data


def test_val_is_the_end_of_the_text_and_train_the_rest():
    data = over_text(text="a" * 900 + "b" * 100)
    assert {x for part in batches(data, 20) for row in part[1] for x in row} == {ord("a")}
    assert {x for part in batches(data, 20, "val") for row in part[1] for x in row} == {ord("b")}


def test_every_start_comes_once_before_any_comes_again():
    letters = "".join(map(chr, range(128)))
    data = over_text(GPTDataConfig(batch_size=8, block_size=16, val_fraction=0), letters)
    starts = [row[0] for x, _ in batches(data, 28) for row in x]  # 128 - 16 = 112 windows
    assert sorted(starts[:112]) == list(range(112)) and sorted(starts[112:]) == list(range(112))
    assert starts[:112] not in (starts[112:], sorted(starts[:112]))


def test_windows_of_a_store_cross_its_shards_and_are_its_tokens(store):
    stream = gm.open(store / "train")
    assert stream.num_shards > 100
    whole = stream.tokens(0, stream.num_tokens)
    windows = {tuple(row) for row in np.lib.stride_tricks.sliding_window_view(whole, 17).tolist()}
    data = GPTDataLoader(CONFIG, None, store)
    for x, y in batches(data, 50):
        assert all((*row, last[-1]) in windows for row, last in zip(x, y, strict=True))


def test_a_compressed_store_gives_the_same_windows(tmp_path, make_store, make_documents):
    roots = [make_store(tmp_path / kind, make_documents(60), compression=kind) for kind in ("none", "zstd")]
    plain, compressed = (batches(GPTDataLoader(CONFIG, None, root), 10) for root in roots)
    assert plain == compressed


def test_a_folder_of_nanogpt_files_is_taken(tmp_path):
    np.arange(4000, dtype="uint16").tofile(tmp_path / "train.bin")
    np.arange(4000, 5000, dtype="uint16").tofile(tmp_path / "val.bin")
    data = GPTDataLoader(CONFIG, None, tmp_path)
    assert data.get_batch("train")[0].max() < 4000 <= data.get_batch("val")[0].min()


class Characters:
    """nanoGPT's tokenizer for small texts."""

    def __init__(self, text):
        self._ids = {character: i for i, character in enumerate(sorted(set(text)))}

    def encode(self, text):
        return [self._ids[character] for character in text]


@pytest.mark.parametrize("make", [lambda: "byte", lambda: load_tokenizer("byte"), lambda: Characters(TEXT)])
def test_tokenizers_by_name_as_objects_and_of_ones_own(make):
    tokenizer = make()
    x, _ = over_text(tokenizer=tokenizer).get_batch("train")
    letters = sorted(set(TEXT)) if isinstance(tokenizer, Characters) else [chr(byte) for byte in range(256)]
    assert all("".join(letters[token] for token in row) in TEXT for row in x.tolist())


def test_an_encoding_of_tiktoken_gives_the_ids_of_its_own_encode():
    tokenizer = tiktoken.Encoding(
        "bytes", pat_str=r"(?s).", mergeable_ranks={bytes([i]): i for i in range(256)}, special_tokens={}
    )
    assert batches(over_text(tokenizer=tokenizer), 3) == batches(over_text(), 3)


@pytest.mark.parametrize("config", [SimpleNamespace(**vars(CONFIG), n_layer=12), {**vars(CONFIG), "n_layer": 12}])
def test_a_trainers_own_config_does(config):
    assert batches(over_text(config), 3) == batches(over_text(), 3)


# Seeds and resume


def test_the_seed_decides_the_windows():
    one, same, other = (batches(over_text(GPTDataConfig(4, 16, seed=seed)), 5) for seed in (1, 1, 2))
    assert one == same != other


@pytest.mark.parametrize("train", [0, 1, 7])
def test_a_state_goes_on_exactly_in_both_splits(store, train):
    for make in (over_text, lambda: GPTDataLoader(CONFIG, None, store)):
        data = make()
        batches(data, train)
        batches(data, 2, "val")
        state = json.loads(json.dumps(data.state_dict()))
        assert len(json.dumps(state)) < 2048
        rest = batches(data, 5), batches(data, 5, "val")
        resumed = make()
        batches(resumed, 3)
        resumed.load_state_dict(state)
        assert (batches(resumed, 5), batches(resumed, 5, "val")) == rest


def test_ranks_share_the_windows_of_a_batch(monkeypatch):
    whole, parts = batches(over_text(), 3), []
    for rank in range(2):
        monkeypatch.setattr("gristmill.adapters.random_windows.data_parallel_rank", lambda rank=rank: (rank, 2))
        parts.append(batches(over_text(GPTDataConfig(batch_size=2, block_size=16, seed=3)), 3))
    for (x, _), (first, _), (second, _) in zip(whole, *parts, strict=True):
        assert x[0::2] == first and x[1::2] == second


def test_evaluating_does_not_move_the_training_windows():
    expected = batches(over_text(), 4)
    data = over_text()
    found = batches(data, 2)
    batches(data, 9, "val")
    assert found + batches(data, 2) == expected


def test_a_state_of_another_text_or_config_is_refused():
    data = over_text()
    batches(data, 2)
    with pytest.raises(gm.StateError, match="sources"):
        over_text(text=TEXT[::-1]).load_state_dict(data.state_dict())
    with pytest.raises(gm.StateError, match="seed"):
        over_text(GPTDataConfig(4, 16, seed=4)).load_state_dict(data.state_dict())
    with pytest.raises(gm.StateError, match="prepare the same data first"):
        GPTDataLoader(CONFIG, "byte").load_state_dict(data.state_dict())


# What it leaves open and behind


def test_many_shards_hold_no_files_open(store, open_files):
    data = GPTDataLoader(CONFIG, None, store)
    batches(data, 100)
    assert not open_files(store)


def test_a_text_leaves_no_files_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = over_text()
    data.prepare_data(TEXT[::-1])
    assert len(list(tmp_path.iterdir())) == 1
    del data
    assert list(tmp_path.iterdir()) == []


# Bad input


def test_what_cannot_be_asked_for_is_said_clearly(store, tmp_path, make_store, make_documents):
    data = GPTDataLoader(CONFIG, "byte")
    with pytest.raises(gm.ConfigError, match=r"call prepare_data\(text\) first, or give dataset_dir"):
        data.get_batch("train")
    with pytest.raises(gm.ConfigError, match="train has 9 tokens, too few for a window of block_size"):
        data.prepare_data("too little")
    with pytest.raises(gm.ConfigError, match="did you mean 'val'"):
        over_text().get_batch("vall")
    with pytest.raises(gm.ConfigError, match="no tokens for val"):
        over_text(GPTDataConfig(4, 16, val_fraction=0)).get_batch("val")
    with pytest.raises(gm.ConfigError, match="leave out prepare_data"):
        GPTDataLoader(CONFIG, None, store).prepare_data(TEXT)
    with pytest.raises(gm.ConfigError, match=r"train\.bin does not exist"):
        GPTDataLoader(CONFIG, None, tmp_path)
    with pytest.raises(gm.ConfigError, match=r"a name or an object with encode\(text\), not None"):
        over_text(tokenizer=None)


def test_a_store_without_val_serves_train(tmp_path, make_store):
    data = GPTDataLoader(CONFIG, None, make_store(tmp_path / "store"))
    assert len(batches(data, 2)) == 2
    with pytest.raises(gm.ConfigError, match="no tokens for val"):
        data.get_batch("val")


def test_a_store_of_another_tokenizer_is_refused(store):
    with pytest.raises(gm.ConfigError, match="was made with the tokenizer test, not with byte"):
        GPTDataLoader(CONFIG, "byte", store)


def test_configs_that_cannot_be_are_refused():
    with pytest.raises(gm.ConfigError, match="needs block_size"):
        GPTDataLoader({"batch_size": 4}, "byte")
    with pytest.raises(gm.ConfigError, match="block_size must be a whole number above 0"):
        GPTDataConfig(4, 0)
    with pytest.raises(gm.ConfigError, match="val_fraction"):
        GPTDataConfig(4, 16, val_fraction=1)


# Folders of raw uint32 shards, as scripts make them


def raw_shards(root, kind="gpt2", chars=None):
    for split, shards in (("train", 3), ("val", 1)):
        (root / split).mkdir(parents=True)
        for number in range(shards):
            ids = np.arange(number * 20, number * 20 + 20, dtype=np.uint32)
            ids.tofile(root / split / f"shard_{number:05d}.bin")
    (root / "dataset_metadata.json").write_text(json.dumps({"train_shards": 3, "val_shards": 1}))
    (root / "tokenizer_state.json").write_text(json.dumps({"token_kind": kind, "chars": chars}))
    return root


def test_a_folder_of_raw_shards_serves_both_splits_across_its_shards(tmp_path):
    data = GPTDataLoader(CONFIG, "gpt2", dataset_dir=raw_shards(tmp_path / "data"))
    starts = {row[0] for x, _ in batches(data, 11) for row in x}
    assert starts == set(range(44))
    x, y = data.get_batch("val")
    assert torch.equal(y, x + 1) and int(y.max()) < 20


def test_raw_shards_of_another_tokenizer_are_refused(tmp_path):
    for kind, chars in (("char", ["a", "b"]), ("gpt2", None)):
        with pytest.raises(gm.ConfigError, match=f"tokenizer {kind}, not with byte"):
            GPTDataLoader(CONFIG, "byte", dataset_dir=raw_shards(tmp_path / kind, kind, chars))


def test_an_export_to_raw_shards_knows_its_tokenizer(tmp_path, make_store):
    byte = load_tokenizer("byte")
    root = make_store(tmp_path / "s", [[1] * 40], val=[[2] * 40], vocab=257, tokenizer=byte.fingerprint)
    export_store(root, "sharded-bin", tmp_path / "out")
    x, _ = GPTDataLoader(CONFIG, byte, dataset_dir=tmp_path / "out").get_batch("train")
    assert x.shape == (4, 16)
    with pytest.raises(gm.ConfigError, match="not with gpt2"):
        GPTDataLoader(CONFIG, "gpt2", dataset_dir=tmp_path / "out")


def test_an_export_without_val_trains(tmp_path, make_store):
    export_store(make_store(tmp_path / "s", [[1] * 40], vocab=257), "sharded-bin", tmp_path / "out")
    data = GPTDataLoader(CONFIG, None, dataset_dir=tmp_path / "out")
    assert data.get_batch("train")[0].shape == (4, 16)
    with pytest.raises(gm.ConfigError, match="no tokens for val"):
        data.get_batch("val")


def test_a_store_is_served_without_the_writing_half(store):
    code = (
        "import sys; from gristmill.adapters.random_windows import GPTDataLoader\n"
        f"GPTDataLoader({{'batch_size': 2, 'block_size': 8}}, None, {str(store)!r}).get_batch('train')\n"
        "assert not {'sources', 'curate', 'tokenize', 'engine', 'stages'} & {name.split('.')[1] for name in sys.modules"
        " if name.startswith('gristmill.')}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
