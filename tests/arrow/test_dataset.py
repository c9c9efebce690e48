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

from gristmill.arrow.dataset import ArrowIterableDataset
from gristmill.arrow.files import Piece, count_rows
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

    list(dataset.shard(3, 0).map(note("a"), batched=True, batch_size=40).map(note("b"), batched=True, batch_size=25))
    assert seen == [("a", 40), ("b", 25), ("b", 15), ("a", 40), ("b", 25), ("b", 15), ("a", 10), ("b", 10)]


def test_a_function_that_gives_nonsense_is_named(dataset: ArrowIterableDataset) -> None:
    with pytest.raises(ConfigError, match="must return a dict of columns, it returned int"):
        next(iter(dataset.map(len)))
    with pytest.raises(ConfigError, match=r"different lengths .*remove_columns="):
        next(iter(dataset.map(lambda columns: {"one": [1]}, batched=True)))
    with pytest.raises(ConfigError, match="batch_size must be a whole number above 0"):
        dataset.map(len, batched=True, batch_size=0)


# State


def doubled(columns: Any) -> Any:
    """Each row twice, but none of every third."""
    return {"id": [i for i in columns["id"] for _ in range(2 * (i % 3 > 0))]}


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
    assert dataset.shuffle(1).state_dict()["row"] == 0


def test_a_foreign_state_is_refused_with_the_difference(dataset: ArrowIterableDataset) -> None:
    state = dataset.shuffle(1).state_dict()
    with pytest.raises(StateError, match=r"order 'shuffle\(1, rows=False\)', this data set has ''"):
        dataset.load_state_dict(state)
    with pytest.raises(StateError, match="other Arrow files"):
        few_rows(dataset, 50).load_state_dict(dataset.state_dict())
    with pytest.raises(StateError, match="no state of an ArrowIterableDataset"):
        dataset.load_state_dict({"step": 3})
    dataset.load_state_dict(dataset.state_dict() | {"workers": [2, 1]})
    with pytest.raises(StateError, match="taken in worker 1 of 2 and is read in worker 0 of 1"):
        iter(dataset)


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
