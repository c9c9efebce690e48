"""Local token files under torch's DataLoader: what is in the batches, resume, and bad input."""

import itertools
import json
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

import gristmill as gm
from gristmill.adapters.local_files import LocalTokenizedDataset, LocalTokenizedDatasetFixed, create_dataloaders

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

T, B = 32, 4
SEQUENCES = 70  # 17 batches of 4, two sequences left over


@pytest.fixture(scope="module")
def tokens():
    """Ids of GPT-2's vocabulary, small ones more often, as in text."""
    drawn = np.random.default_rng(0).zipf(1.2, 10 * SEQUENCES * T)
    return drawn[drawn < 50_257][: SEQUENCES * T + 5].astype("uint16")


@pytest.fixture(scope="module")
def files(tmp_path_factory, tokens):
    """The same tokens as a bare uint16 `.bin`, a bare int32 `.npy`, and a real `.npy`."""
    folder = tmp_path_factory.mktemp("files")
    tokens.astype("uint16").tofile(folder / "bare.bin")
    tokens.astype("int32").tofile(folder / "bare.npy")
    np.save(folder / "real.npy", tokens)
    return folder


def make(files, name="bare.bin", **changes):
    return create_dataloaders(files / name, files / name, **{"batch_size": B, "max_length": T, "seed": 1, **changes})


def ids_of(batches):
    return [batch["input_ids"].tolist() for batch in batches]


def sequences(tokens):
    return tokens[: SEQUENCES * T].reshape(-1, T).tolist()


# What is in the batches


@pytest.mark.parametrize("name", ["bare.bin", "bare.npy", "real.npy"])
def test_header_or_none_int32_or_uint16_the_tokens_are_the_same(files, tokens, name):
    _, val = make(files, name)
    assert [row for batch in ids_of(val) for row in batch] == sequences(tokens)


def test_batches_are_int64_and_labels_are_the_next_tokens(files, tokens):
    for loader in make(files):
        batch = next(iter(loader))
        assert {key: (tuple(value.shape), value.dtype) for key, value in batch.items()} == {
            "input_ids": ((B, T), torch.int64),
            "labels": ((B, T), torch.int64),
        }
        following = {tuple(row): int(tokens[(i + 1) * T]) for i, row in enumerate(sequences(tokens))}
        for ids, labels in zip(batch["input_ids"].tolist(), batch["labels"].tolist(), strict=True):
            assert labels == [*ids[1:], following[tuple(ids)]]


def test_the_last_token_of_a_file_has_no_label(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(8, dtype="uint16"))
    assert LocalTokenizedDatasetFixed(tmp_path / "x.npy", 4)[1]["labels"].tolist() == [5, 6, 7, -100]


def test_a_pass_is_shuffled_and_serves_no_sequence_twice(files, tokens):
    train, _ = make(files)
    rows = [tuple(row) for batch in ids_of(train) for row in batch]
    assert len(train) == 17 and len(rows) == len(set(rows)) == 68
    assert rows != [tuple(row) for row in sequences(tokens)][:68]
    assert set(rows) <= {tuple(row) for row in sequences(tokens)}


def test_each_pass_has_another_order_and_what_one_leaves_over_comes_next(files, tokens):
    train, _ = make(files)
    first, second = ids_of(train), ids_of(train)
    assert first != second and len(second) == 17
    rows = [tuple(row) for batch in first + second for row in batch]
    assert set(rows[:70]) == {tuple(row) for row in sequences(tokens)}


def test_the_seed_decides_the_order(files):
    one, same, other = (ids_of(make(files, seed=seed)[0]) for seed in (1, 1, 2))
    assert one == same != other


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_the_batches_are_the_same_for_every_number_of_workers(files, num_workers):
    alone, many = make(files), make(files, num_workers=num_workers, prefetch_factor=3)
    for expected, found in zip(alone, many, strict=True):
        assert ids_of(found) == ids_of(expected)


def test_iterating_leaves_the_trainers_random_numbers_alone(files):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    for loader in make(files):
        list(loader)
    assert torch.equal(torch.rand(3), expected)


def test_what_there_is_is_printed(files, capsys):
    make(files)
    train, val = capsys.readouterr().out.splitlines()
    figures = "2,245 uint16 tokens, 70 sequences of 32 (5 tokens at its end fill none)"
    assert train == f"train: {files / 'bare.bin'}: {figures}, 17 batches a pass"
    assert val == f"val: {files / 'bare.bin'}: {figures}"


def test_a_prepared_store_is_taken_too(tmp_path, make_store, make_documents, stream):
    documents = make_documents(200)
    root = make_store(tmp_path / "store", documents, val=documents[:30])
    _, val = create_dataloaders(root / "train", root / "val", batch_size=2, max_length=16)
    rows = [token for batch in ids_of(val) for row in batch for token in row]
    assert rows == stream(documents[:30])[: len(rows)].tolist()


# The data sets by themselves


def test_the_map_style_data_set_is_a_sequence_and_can_be_pickled(files, tokens):
    data = pickle.loads(pickle.dumps(LocalTokenizedDatasetFixed(files / "bare.bin", T)))
    assert len(data) == SEQUENCES
    assert data[-1]["input_ids"].tolist() == data[SEQUENCES - 1]["input_ids"].tolist() == sequences(tokens)[-1]
    with pytest.raises(IndexError):
        data[SEQUENCES]


def test_distributed_sampler_splits_the_map_style_data_set(files, tokens):
    data = LocalTokenizedDatasetFixed(files / "bare.bin", T)
    samplers = [DistributedSampler(data, 2, rank, shuffle=True, seed=5) for rank in range(2)]
    rows = [tuple(row) for sampler in samplers for b in ids_of(DataLoader(data, 5, sampler=sampler)) for row in b]
    assert sorted(rows) == sorted(tuple(row) for row in sequences(tokens))


def test_a_plain_dataloader_changes_its_pass_by_set_epoch(files):
    data = LocalTokenizedDataset(files / "bare.bin", T, batch_size=B, seed=1)
    passes = []
    for epoch in range(2):
        data.set_epoch(epoch)
        passes.append(ids_of(DataLoader(data, B, num_workers=2)))
    train, _ = make(files)
    assert passes == [ids_of(train), ids_of(train)]


# Resume


@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 2), (2, 0), (3, 2)])
@pytest.mark.parametrize("at", [0, 1, 16, 17, 25])
def test_a_state_goes_on_exactly_with_any_number_of_workers(files, before, after, at):
    whole, _ = make(files)
    expected = ids_of(whole) + ids_of(whole)
    train, _ = make(files, num_workers=before)
    taken = list(itertools.islice(itertools.chain(train, train), at))
    state = json.loads(json.dumps(train.state_dict()))
    assert len(json.dumps(state)) < 1024
    resumed, _ = make(files, num_workers=after)
    resumed.load_state_dict(state)
    left = 17 - at % 17
    assert ids_of(taken) + ids_of(resumed) == expected[: at + left]


def test_a_loop_that_is_broken_off_goes_on(files):
    whole, train = make(files)[0], make(files)[0]
    assert ids_of(itertools.islice(train, 5)) + ids_of(train) == ids_of(whole)


def test_a_state_loaded_inside_the_loop_takes_effect_at_once(files):
    expected = ids_of(make(files)[0])
    train, _ = make(files, num_workers=2)
    beginning, seen = train.state_dict(), []
    for batch in train:
        seen.append(batch)
        if len(seen) == 3:
            train.load_state_dict(beginning)
    assert ids_of(seen) == expected[:3] + expected


def test_a_state_of_other_data_or_another_seed_is_refused(files, tmp_path):
    train, _ = make(files)
    next(iter(train))
    state = train.state_dict()
    with pytest.raises(gm.StateError, match=r"seed \(was 1, is 2\)"):
        make(files, seed=2)[0].load_state_dict(state)
    np.save(tmp_path / "real.npy", np.arange(5000, dtype="uint16"))
    with pytest.raises(gm.StateError, match="sources"):
        make(tmp_path, "real.npy")[0].load_state_dict(state)


# Ranks


def test_ranks_share_the_batches_and_each_has_the_whole_of_val(files, monkeypatch, capsys):
    whole, parts = ids_of(make(files)[0]), []
    capsys.readouterr()
    for rank in range(2):
        monkeypatch.setattr("gristmill.adapters.local_files.data_parallel_rank", lambda rank=rank: (rank, 2))
        train, val = make(files, batch_size=B // 2)
        parts.append(ids_of(train))
        assert len(val.dataset) == SEQUENCES
    assert [rows[0::2] for rows in whole] == parts[0] and [rows[1::2] for rows in whole] == parts[1]
    assert len(capsys.readouterr().out.splitlines()) == 2  # one rank prints


# Bad input


def test_bad_input_is_one_clear_sentence(files, tmp_path):
    with pytest.raises(gm.ConfigError, match=r"missing\.bin does not exist"):
        create_dataloaders(tmp_path / "missing.bin", files / "bare.bin")
    with pytest.raises(gm.ConfigError, match=r"has 2,245 tokens, too few for one sequence of 4,096: lower max_length"):
        make(files, max_length=4096)
    with pytest.raises(gm.ConfigError, match=r"has 2 sequences of 1,024 tokens, too few for a batch of 4: lower"):
        make(files, max_length=1024)
    for name in ("max_length", "batch_size"):
        with pytest.raises(gm.ConfigError, match=f"{name} must be a whole number above 0"):
            make(files, **{name: 0})


def test_a_file_that_does_not_tell_its_dtype_is_asked_about(tmp_path):
    tokens = np.random.default_rng(0).integers(0, 65_536, 10_000).astype("uint16")
    tokens.tofile(tmp_path / "x.bin")
    with pytest.raises(gm.ConfigError, match="say dtype="):
        make(tmp_path, "x.bin")
    assert make(tmp_path, "x.bin", dtype="uint16")[1].dataset[0]["input_ids"].tolist() == tokens[:T].tolist()


def test_a_dtype_against_the_header_and_a_cut_file_are_refused(files, tmp_path):
    with pytest.raises(gm.ConfigError, match="says in its header"):
        make(files, "real.npy", dtype="int32")
    (tmp_path / "cut.bin").write_bytes((files / "bare.bin").read_bytes()[:-1])
    with pytest.raises(gm.StoreError, match="no multiple of 2"):
        make(tmp_path, "cut.bin", dtype="uint16")
