"""A data set over Arrow files: its order, its functions, its state, and torch's and torchdata's own loaders over it."""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gristmill as gm
from gristmill.arrow.dataset import ArrowIterableDataset
from gristmill.arrow.files import Piece, count_rows
from gristmill.arrow.left import sealed
from gristmill.core.errors import ConfigError, StateError

pytestmark = pytest.mark.filterwarnings("ignore:.*worker processes in total", "ignore:.*set_vital")
FILES, ROWS, ROWS_PER_BATCH = 3, 90, 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three Arrow streams of 90 rows in record batches of 40."""
    folder = tmp_path_factory.mktemp("arrow")
    for number in range(FILES):
        rows = [{"id": i, "text": f"document {i}", "tokens": list(range(i, i + i % 5))} for i in ids_of(number)]
        table = pa.Table.from_pylist(rows)
        with pa.ipc.new_stream(folder / f"{number}.arrow", table.schema) as stream:
            stream.write_table(table, max_chunksize=ROWS_PER_BATCH)
    return folder


def ids_of(number: int) -> range:
    return range(number * ROWS, (number + 1) * ROWS)


@pytest.fixture
def dataset(folder: Path) -> ArrowIterableDataset:
    torch.set_num_threads(1)
    files = [count_rows(str(path)) for path in sorted(folder.iterdir())]
    return ArrowIterableDataset(files, [Piece(number, 0, file.rows) for number, file in enumerate(files)])


def few_rows(dataset: ArrowIterableDataset, count: int) -> ArrowIterableDataset:
    return ArrowIterableDataset(dataset._files, [Piece(0, 0, count)])


def ids(rows: Any) -> list[int]:
    return [row["id"] for row in rows]


def flat(batches: Any) -> list[int]:
    return [int(i) for batch in batches for i in batch["id"]]


# What is read


def test_numbers_are_views_of_the_mapped_file(dataset: ArrowIterableDataset) -> None:
    rows = list(dataset.with_format("numpy"))
    assert all(np.array_equal(row["tokens"], kept["tokens"]) for row, kept in zip(rows, dataset, strict=True))
    tokens = next(row["tokens"] for row in rows if len(row["tokens"]))
    address = tokens.__array_interface__["data"][0]
    ranges = [line.split()[0] for line in Path("/proc/self/maps").read_text().splitlines() if ".arrow" in line]
    assert any(int(low, 16) <= address < int(high, 16) for low, high in (found.split("-") for found in ranges))
    assert not tokens.flags.writeable


def test_an_unknown_format_names_the_known_ones(dataset: ArrowIterableDataset) -> None:
    with pytest.raises(ConfigError, match="did you mean 'numpy'"):
        dataset.with_format("numy")


# The order


def test_shuffle_moves_files_and_if_asked_rows(dataset: ArrowIterableDataset) -> None:
    by_file = ids(dataset.shuffle(1))
    by_row = ids(dataset.shuffle(1, rows=True))
    assert by_file != ids(dataset) and sorted(by_file) == sorted(by_row) == ids(dataset)
    assert all(later == earlier + 1 for earlier, later in itertools.pairwise(by_file) if later % ROWS)
    assert [i // ROWS for i in by_row] == [i // ROWS for i in by_file]
    assert sum(later == earlier + 1 for earlier, later in itertools.pairwise(by_row)) < 10
    assert ids(dataset.shuffle(1, rows=True)) == by_row != ids(dataset.shuffle(2, rows=True))


def test_a_set_in_one_file_is_shuffled_by_rows(dataset: ArrowIterableDataset) -> None:
    one = few_rows(dataset, ROWS)
    assert ids(one.shuffle(1)) == ids(one.shuffle(1, rows=True)) != ids(one)
    assert sorted(ids(one.shuffle(1))) == ids(one) == ids(one.shuffle(1, rows=False))
    parts = ArrowIterableDataset(dataset._files, [Piece(1, 0, 40), Piece(1, 40, 50)])
    assert sum(later == earlier + 1 for earlier, later in itertools.pairwise(ids(parts.shuffle(1)))) < 10


def test_the_order_of_a_seed_never_changes(dataset: ArrowIterableDataset) -> None:
    assert ids(dataset.shuffle(7, rows=True))[:6] == GOLDEN


GOLDEN = [99, 124, 96, 146, 158, 160]


def test_shards_differ_by_one_row_at_most_and_join_to_the_whole(dataset: ArrowIterableDataset) -> None:
    shards = [dataset.shuffle(5).shard(7, index) for index in range(7)]
    assert {len(shard) for shard in shards} <= {FILES * ROWS // 7, FILES * ROWS // 7 + 1}
    assert [i for shard in shards for i in ids(shard)] == ids(dataset.shuffle(5))


@pytest.mark.parametrize(("num_shards", "index"), [(0, 0), (2, 2), (2, -1)])
def test_a_shard_that_is_not_there_is_refused(dataset: ArrowIterableDataset, num_shards: int, index: int) -> None:
    with pytest.raises(ConfigError, match="asks for no shard"):
        dataset.shard(num_shards, index)


# Functions


def test_map_and_filter_do_what_datasets_does(dataset: ArrowIterableDataset) -> None:
    def count(row: Any) -> Any:
        return {"words": len(row["text"].split())}

    def split(columns: Any) -> Any:
        return {"word": [word for text in columns["text"] for word in text.split()]}

    def even(row: Any) -> bool:
        return bool(row["id"] % 2 == 0)

    import datasets

    parts = [datasets.Dataset.from_file(file.path) for file in dataset._files]
    theirs = datasets.concatenate_datasets(parts).to_iterable_dataset()
    assert list(dataset) == list(theirs)
    assert list(dataset.map(count).filter(even)) == list(theirs.map(count).filter(even))
    names = ["id", "text", "tokens"]
    ours = dataset.filter(even).map(split, batched=True, batch_size=16, remove_columns=names)
    assert list(ours) == list(theirs.filter(even).map(split, batched=True, batch_size=16, remove_columns=names))
    assert len(dataset.map(count)) == len(dataset)
    for unknown in (ours, dataset.filter(even)):
        with pytest.raises(TypeError, match=r"known only by reading them all: count them by sum"):
            len(unknown)


def test_batches_that_a_function_sees_are_as_long_as_asked_for(dataset: ArrowIterableDataset) -> None:
    seen: list[tuple[str, int]] = []

    def note(name: str) -> Any:
        return lambda columns: seen.append((name, len(columns["id"]))) or {}

    list(dataset.take(90).map(note("a"), batched=True, batch_size=40).map(note("b"), batched=True, batch_size=25))
    assert [size for name, size in seen if name == "a"] == [40, 40, 10]
    assert [size for name, size in seen if name == "b"] == [25, 25, 25, 15], "as long as datasets makes them"


def test_a_function_that_gives_nonsense_is_named(dataset: ArrowIterableDataset) -> None:
    with pytest.raises(ConfigError, match="must return a dict of columns, it returned int"):
        next(iter(dataset.map(len)))
    with pytest.raises(ConfigError, match=r"different lengths .*remove_columns="):
        next(iter(dataset.map(lambda columns: {"one": [1]}, batched=True)))
    with pytest.raises(ConfigError, match="must return columns, and 'one' is one int: return a list"):
        next(iter(dataset.map(lambda columns: {"one": 1}, batched=True)))
    with pytest.raises(ConfigError, match="batch_size must be a whole number above 0"):
        dataset.map(len, batched=True, batch_size=0)


# What Hugging Face's words mean


def theirs_of(dataset: ArrowIterableDataset) -> Any:
    import datasets

    parts = [datasets.Dataset.from_file(file.path) for file in dataset._files]
    return datasets.concatenate_datasets(parts).to_iterable_dataset()


def third(row: Any, by: int = 3) -> bool:
    return bool(row["id"] % by == 0)


def thirds(columns: Any) -> list[bool]:
    return [i % 3 == 0 for i in columns["id"]]


def numbered(row: Any, index: int, plus: int = 0) -> Any:
    return {"index": index + plus}


def all_numbered(columns: Any, indices: list[int]) -> Any:
    return {"index": indices}


def counted(batch: Any) -> Any:
    return {"count": len(batch["id"])}


CHAINS: dict[str, Any] = {
    "take": lambda rows: rows.take(7),
    "take more than there is": lambda rows: rows.take(1000),
    "take none": lambda rows: rows.take(0),
    "skip": lambda rows: rows.skip(100),
    "skip all": lambda rows: rows.skip(1000),
    "skip, take": lambda rows: rows.skip(100).take(30),
    "map, skip": lambda rows: rows.map(numbered, with_indices=True).skip(100).take(30),
    "filter, take": lambda rows: rows.filter(third).take(20),
    "filter, skip": lambda rows: rows.filter(third).skip(20),
    "filter, skip, map, filter, take": lambda rows: rows.filter(third).skip(20).map(counter).filter(longer).take(5),
    "filter, take more": lambda rows: rows.filter(third).take(1000),
    "indices": lambda rows: rows.map(numbered, with_indices=True, fn_kwargs={"plus": 5}),
    "indices of batches": lambda rows: rows.map(all_numbered, with_indices=True, batched=True, batch_size=40),
    "filter by index": lambda rows: rows.filter(lambda row, i: i % 5 == 0, with_indices=True),
    "filter with keywords": lambda rows: rows.filter(third, fn_kwargs={"by": 7}),
    "filter of batches": lambda rows: rows.filter(thirds, batched=True, batch_size=32),
    "one column removed": lambda rows: rows.map(counter, remove_columns="text"),
    "batch": lambda rows: rows.batch(7),
    "batch without a short one": lambda rows: rows.batch(7, drop_last_batch=True),
    "filter, batch": lambda rows: rows.filter(third).batch(7),
    "filter, batch, map": lambda rows: rows.filter(third).batch(7).map(counted).filter(lambda row: row["count"] == 7),
    "batched map, skip, batch": lambda rows: rows.map(doubled, batched=True, batch_size=10,
        remove_columns=["text", "tokens"]).skip(33).batch(4),
}  # fmt: skip


def counter(row: Any) -> Any:
    return {"words": len(row["text"].split()), "long": row["id"] % 4}


def longer(row: Any) -> bool:
    return bool(row["long"] > 1)


@pytest.mark.parametrize("chain", CHAINS)
def test_words_mean_what_they_do_in_datasets(dataset: ArrowIterableDataset, chain: str) -> None:
    assert list(CHAINS[chain](dataset)) == list(CHAINS[chain](theirs_of(dataset)))


def test_names_of_columns_and_lengths_are_known_where_no_function_decides(dataset: ArrowIterableDataset) -> None:
    assert dataset.filter(third).column_names == theirs_of(dataset).filter(third).column_names
    assert dataset.map(counter).column_names is theirs_of(dataset).map(counter).column_names is None
    assert len(dataset.take(50)) == 50 and len(dataset.skip(50)) == FILES * ROWS - 50
    assert len(dataset.batch(7)) == len(list(dataset.batch(7)))
    assert len(dataset.batch(7, drop_last_batch=True)) == len(list(dataset.batch(7, drop_last_batch=True)))


def test_tensors_are_what_functions_see_and_add(dataset: ArrowIterableDataset) -> None:
    def double(row: Any) -> Any:
        assert isinstance(row["id"], torch.Tensor)
        return {"twice": row["id"] * 2, "plain": 3}

    ours = list(dataset.with_format("torch").take(9).map(double).batch(4))
    theirs = list(theirs_of(dataset).with_format("torch").take(9).map(double).batch(4))
    assert [(batch["twice"].tolist(), batch["plain"].tolist()) for batch in ours] == [
        (batch["twice"].tolist(), batch["plain"].tolist()) for batch in theirs
    ]
    assert all(batch["id"].dtype == torch.int64 for batch in ours)


def test_each_epoch_has_an_order_of_its_own(dataset: ArrowIterableDataset) -> None:
    shuffled = dataset.shuffle(3, rows=True)
    first = ids(shuffled)
    shuffled.set_epoch(1)
    second = ids(shuffled)
    assert sorted(first) == sorted(second) and first != second
    state = shuffled.state_dict()
    shuffled.set_epoch(0)
    assert ids(shuffled) == first
    again = dataset.shuffle(3, rows=True)
    again.load_state_dict(state)
    assert ids(again) == [] and ids(again) == second, "a state knows its epoch"


@pytest.mark.parametrize(("wrong", "message"), [
    (lambda rows: rows.filter(third).map(numbered, with_indices=True), "call that function before"),
    (lambda rows: rows.batch(3).batch(2), "batched already"),
    (lambda rows: rows.batch(3).take(2), r"take\(2\) of batches: say take\(6\) before"),
    (lambda rows: rows.batch(3).map(counted, batched=True), "leave out batched=True"),
    (lambda rows: list(rows.filter(len, batched=True)), "must return 270 times yes or no, it returned int"),
])  # fmt: skip
def test_what_cannot_be_told_is_refused(dataset: ArrowIterableDataset, wrong: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        wrong(dataset)


# State


def doubled(columns: Any) -> Any:
    """Each row twice, but none of every third."""
    ids = [i for i in columns["id"] for _ in range(2 * (i % 3 > 0))]
    return {"id": ids, "tokens": ids}


def variants(dataset: ArrowIterableDataset) -> dict[str, ArrowIterableDataset]:
    part = dataset.shuffle(3, rows=True).shard(4, 1)
    batched = part.map(doubled, batched=True, batch_size=9, remove_columns=["text", "tokens"])
    return {
        "plain": part,
        "filter": part.filter(lambda row: row["id"] % 4 == 1),
        "batched": batched,
        "batched, filter": batched.filter(lambda row: row["id"] % 2),
    }


@pytest.mark.parametrize("variant", ["plain", "filter", "batched", "batched, filter"])
def test_a_state_taken_at_any_row_goes_on_there(dataset: ArrowIterableDataset, variant: str) -> None:
    rows = ids(variants(dataset)[variant])
    states = [variants(dataset)[variant].state_dict()]
    running = variants(dataset)[variant]
    states += [running.state_dict() for _ in running]
    for done, state in enumerate(states):
        resumed = variants(dataset)[variant]
        resumed.load_state_dict(json.loads(json.dumps(state)))
        assert resumed.state_dict() == state
        assert ids(resumed) == rows[done:]
        assert ids(resumed) == rows, "the iteration after the resumed one starts anew"
    assert len(json.dumps(states[-1])) < 1024


def test_resume_reads_neither_earlier_files_nor_earlier_rows(
    dataset: ArrowIterableDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = iter(dataset)
    rows = list(itertools.islice(running, 2 * ROWS + 50))
    state = dataset.state_dict()
    opened: list[int] = []
    monkeypatch.setattr(
        "gristmill.arrow.files.MappedFile.take",
        lambda self, rows: opened.append(int(rows[0])) or iter(()),
    )
    dataset.load_state_dict(state)
    assert list(dataset) == [] and opened == [50] and len(rows) == 2 * ROWS + 50


def test_an_abandoned_iteration_leaves_no_trace_in_the_next(dataset: ArrowIterableDataset) -> None:
    next(iter(dataset))
    assert ids(dataset) == list(range(FILES * ROWS))


def test_a_derived_data_set_begins_at_its_start(dataset: ArrowIterableDataset) -> None:
    list(itertools.islice(dataset, 5))
    assert dataset.shuffle(1).state_dict()["left"] == [[0, FILES * ROWS, 0]]


def test_a_foreign_state_is_refused_with_the_difference(dataset: ArrowIterableDataset) -> None:
    state = dataset.shuffle(1).state_dict()
    with pytest.raises(StateError, match=r"order 'shuffle\(1, rows=False\)', this data set has ''"):
        dataset.load_state_dict(state)
    with pytest.raises(StateError, match="other Arrow files"):
        few_rows(dataset, 50).load_state_dict(dataset.state_dict())
    with pytest.raises(StateError, match="no state of an ArrowIterableDataset"):
        dataset.load_state_dict({"step": 3})
    with pytest.raises(StateError, match=r"from 0 to 1/2, and 0 to 1 is to be read: .*merge_states"):
        dataset.load_state_dict(dataset.shard(2, 0).state_dict())
    skipped = dataset.map(counter).skip(5)
    with pytest.raises(StateError, match=r"order 'map skip\(5\)', this data set has 'map skip\(5 examples\)'"):
        skipped.load_state_dict(sealed({**skipped.state_dict(), "order": "map skip(5)"}))
    old = {"version": 1, "data": "", "order": "", "workers": [1, 0], "file": 0, "row": 3, "given": 0}
    with pytest.raises(StateError, match=r"of an older version.*begin the epoch anew"):
        dataset.load_state_dict(old)


# torch


def loader(dataset: Any, workers: int, batch_size: int = 8) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    return StatefulDataLoader(dataset, batch_size=batch_size, num_workers=workers, collate_fn=collate)


def collate(rows: list[Any]) -> dict[str, list[int]]:
    return {"id": ids(rows)}


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
@pytest.mark.parametrize("world_size", [1, 2])
def test_workers_and_ranks_read_every_row_once(dataset: ArrowIterableDataset, workers: int, world_size: int) -> None:
    shuffled = dataset.shuffle(9, rows=True)
    read = [
        flat(torch.utils.data.DataLoader(part, batch_size=8, num_workers=workers, collate_fn=collate))
        for part in (shuffled.shard(world_size, rank) for rank in range(world_size))
    ]
    assert sorted(itertools.chain(*read)) == list(range(FILES * ROWS))
    assert workers > 1 or world_size > 1 or read == [ids(shuffled)]


@pytest.mark.parametrize(("workers", "steps"), [(0, 5), (1, 5), (2, 1), (2, 5), (2, 16), (4, 5)])
def test_a_stateful_loader_resumes_exactly(dataset: ArrowIterableDataset, workers: int, steps: int) -> None:
    shuffled = dataset.shuffle(9, rows=True).filter(odd)
    whole = list(loader(shuffled, workers))
    running = loader(shuffled, workers)
    began = list(itertools.islice(iter(running), steps))
    state = pickle.loads(pickle.dumps(running.state_dict()))
    resumed = loader(dataset.shuffle(9, rows=True).filter(odd), workers)
    resumed.load_state_dict(state)
    assert began + list(resumed) == whole
    assert list(resumed) == whole, "the next epoch is whole"
    assert sorted(flat(whole)) == list(range(1, FILES * ROWS, 2))


def odd(row: Any) -> bool:
    return bool(row["id"] % 2)


def test_more_workers_than_rows_leave_some_without_work(dataset: ArrowIterableDataset) -> None:
    assert sorted(flat(loader(few_rows(dataset, 3), 5))) == [0, 1, 2]


def test_the_length_of_a_torch_loader_is_known(dataset: ArrowIterableDataset) -> None:
    assert len(torch.utils.data.DataLoader(dataset, batch_size=8)) == -(-FILES * ROWS // 8)


# Any number of ranks and workers


WORDS = st.sampled_from([
    lambda rows: rows,
    lambda rows: rows.shuffle(1, rows=True),
    lambda rows: rows.shuffle(2).filter(odd),
    lambda rows: rows.map(doubled, batched=True, batch_size=9, remove_columns=["text", "tokens"]),
    lambda rows: rows.shuffle(3).filter(odd).map(doubled, batched=True, batch_size=7, remove_columns=["text"]),
    lambda rows: rows.filter(odd).skip(11).take(70),
    lambda rows: rows.filter(odd).take(70).shuffle(4),
    lambda rows: rows.map(doubled, batched=True, batch_size=9, remove_columns=["text"]).skip(5).shuffle(5).take(90),
])  # fmt: skip
NUMBERS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 60)), max_size=4)


@given(st.lists(st.integers(1, 70), min_size=1, max_size=4), WORDS, NUMBERS)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_example_is_given_once_however_ranks_and_workers_change(
    dataset: ArrowIterableDataset, lengths: list[int], words: Any, numbers: list[tuple[int, int, int]]
) -> None:
    pieces = [Piece(i % FILES, i // FILES * 70 % 20, length) for i, length in enumerate(lengths)]
    made = words(ArrowIterableDataset(dataset._files, pieces))
    state, expected, seen = made.state_dict(), ids(made), []
    for ranks, workers, steps in [*numbers, (1, 1, 10_000)]:
        kept = []
        for rank in range(ranks):
            for worker in range(workers):
                share = made.shard(ranks, rank).shard(workers, worker)
                share.load_state_dict(json.loads(json.dumps(state)))
                seen += ids(itertools.islice(share, steps))
                kept.append(share.state_dict())
        state = gm.merge_states(kept)
    assert sorted(seen) == sorted(expected) and state["left"] == []


@pytest.mark.parametrize("variant", ["plain", "filter", "batched", "batched, filter"])
def test_a_state_of_one_process_goes_on_in_several_at_every_step(dataset: ArrowIterableDataset, variant: str) -> None:
    running = variants(dataset)[variant]
    rows = ids(running)
    for done, _ in enumerate(running, 1):
        state, seen = running.state_dict(), []
        for worker in range(3):
            share = variants(dataset)[variant].shard(3, worker)
            share.load_state_dict(state)
            seen += ids(share)
        assert seen == rows[done:], "shares lie end to end"


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (2, 3), (3, 1), (4, 2)])
@pytest.mark.parametrize("world_size", [1, 2])
def test_a_snapshot_goes_on_with_another_number_of_workers_and_ranks(
    dataset: ArrowIterableDataset, before: int, after: int, world_size: int
) -> None:
    from gristmill.adapters.streams import stream_state_from_snapshot

    words = CHANGING[before % 2]
    began, states = [], []
    for rank in range(world_size):
        running = loader(words(dataset).shard(world_size, rank), before)
        began += flat(itertools.islice(iter(running), 5))
        states.append(stream_state_from_snapshot(pickle.loads(pickle.dumps(running.state_dict()))))
    whole = gm.merge_states(states)
    rest, second = [], []
    for rank in range(3 - world_size):
        part = words(dataset).shard(3 - world_size, rank)
        part.load_state_dict(whole)
        resumed = loader(part, after)
        rest += flat(resumed)
        second += flat(resumed)
    assert sorted(began + rest) == sorted(second) == sorted(ids(words(dataset))), "and the pass after it is whole"


CHANGING = [
    lambda rows: rows.shuffle(9, rows=True).filter(odd),
    lambda rows: rows.shuffle(9).map(doubled, batched=True, batch_size=9, remove_columns=["text", "tokens"]),
]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_follow_the_epoch_and_resume_once(dataset: ArrowIterableDataset, context: str) -> None:
    made = dataset.shuffle(5, rows=True)
    list(itertools.islice(made, 100))
    made.load_state_dict(made.state_dict())
    workers = torch.utils.data.DataLoader(
        made, batch_size=10, num_workers=2, collate_fn=collate, persistent_workers=True, multiprocessing_context=context
    )
    assert [len(flat(workers)) for _ in range(3)] == [170, 270, 270]
    before = flat(workers)
    made.set_epoch(1)
    assert flat(workers) != before and sorted(flat(workers)) == list(range(FILES * ROWS))


def test_a_shard_that_is_shuffled_or_cut_stays_the_same_rows(dataset: ArrowIterableDataset) -> None:
    halves = [dataset.shard(2, i).shuffle(i, rows=True) for i in range(2)]
    assert sorted(ids(halves[0]) + ids(halves[1])) == list(range(FILES * ROWS))
    assert ids(dataset.shard(2, 1).take(3)) == ids(dataset.shard(2, 1))[:3]
    assert ids(dataset.filter(odd).shard(2, 1).skip(3)) == ids(dataset.filter(odd).shard(2, 1))[3:]
