"""Chains of words mean what they do in `datasets`: each is done to what those before it give."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pytest
import torch

from gristmill.arrow.dataset import ArrowIterableDataset
from gristmill.arrow.files import Piece, count_rows
from gristmill.core.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore:To copy construct")
ROWS = 40


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """40 rows of many kinds in record batches of 7."""
    rows = [
        {"id": i, "x": i / 2, "flag": i % 3 == 0, "text": f"t{i}", "tokens": list(range(i % 4)),
         "even": [[i, 1], [2, 3]], "part": {"a": i, "b": "q"}}
        for i in range(ROWS)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows)
    path = tmp_path_factory.mktemp("chains") / "rows.arrow"
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table, max_chunksize=7)
    return str(path)


@pytest.fixture
def ours(path: str) -> ArrowIterableDataset:
    file = count_rows(path)
    return ArrowIterableDataset([file], [Piece(0, 0, file.rows)])


@pytest.fixture
def theirs(path: str) -> Any:
    return datasets.Dataset.from_file(path).to_iterable_dataset()


def ids(rows: Any) -> list[int]:
    return [int(row["id"]) for row in rows]


def even(row: Any) -> bool:
    return int(row["id"]) % 2 == 0


def numbered(row: Any, index: int) -> Any:
    return {"index": index}


def first_one(columns: Any) -> Any:
    return {name: values[:1] for name, values in columns.items()}


def nothing(row: Any) -> Any:
    return {}


# The format


@pytest.mark.parametrize("chain", [
    lambda rows: rows.filter(lambda row: row["id"] in {1, 2, 3}).with_format("torch"),
    lambda rows: rows.map(lambda row: {"s": str(row["id"])}).with_format("torch"),
    lambda rows: rows.with_format("torch").map(lambda row: {"s": str(row["id"])}).with_format("numpy"),
    lambda rows: rows.with_format("torch").map(lambda row: {"s": 1}).with_format("python"),
    lambda rows: rows.with_format("numpy").batch(4),
    lambda rows: rows.with_format("torch").map(lambda columns: {"s": columns["id"] * 2}, batched=True, batch_size=3),
    lambda rows: rows.batch(4).with_format("torch").map(lambda row: {"sum": row["id"].sum()}),
])  # fmt: skip
def test_a_function_sees_the_format_that_was_in_force_when_it_was_added(ours: Any, theirs: Any, chain: Any) -> None:
    found = [spelt(row) for row in chain(ours)]
    assert found == [spelt(dict(row)) for row in chain(theirs)] and found


def spelt(value: Any) -> Any:
    """A value with its types, for comparing; numbers of NumPy by their kind, and a truth as one or as an array."""
    if isinstance(value, dict):
        return {name: spelt(each) for name, each in value.items()}
    if isinstance(value, torch.Tensor):
        return ["tensor", str(value.dtype), value.tolist()]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return ["objects", value.shape, *map(spelt, value)]
    if isinstance(value, np.ndarray | np.bool_):
        return ["array", value.dtype.kind, value.tolist()]
    if isinstance(value, np.number):
        return ["number", value.dtype.kind, value.item()]
    return list(map(spelt, value)) if isinstance(value, list) else value


# Which examples


@pytest.mark.parametrize("chain", [
    lambda rows: rows.filter(even).take(5),
    lambda rows: rows.filter(even).skip(5),
    lambda rows: rows.map(nothing).take(6),
    lambda rows: rows.map(first_one, batched=True, batch_size=4),
    lambda rows: rows.map(first_one, batched=True, batch_size=4).skip(3).take(5),
    lambda rows: rows.map(numbered, with_indices=True),
    lambda rows: rows.skip(3).map(numbered, with_indices=True).take(9).filter(even),
    lambda rows: rows.filter(lambda columns: [i % 3 < 2 for i in range(len(columns["id"]))], batched=True).take(7),
])  # fmt: skip
def test_shuffle_and_shard_move_the_examples_that_come_to_them_and_no_others(
    ours: Any, theirs: Any, chain: Any
) -> None:
    made, whole = chain(ours), sorted(chain(theirs), key=str)
    assert sorted(made.shuffle(3), key=str) == whole == sorted(chain(theirs).shuffle(3), key=str)
    assert sorted(made.shuffle(3).shuffle(4, rows=True).take(ROWS), key=str) == whole
    shards = [made.shard(3, i) for i in range(3)]
    rows = list(map(list, shards))
    assert sorted(itertools.chain(*rows), key=str) == whole
    assert [list(shard.take(100)) for shard in shards] == rows
    assert [list(shard.take(2)) for shard in shards] == [some[:2] for some in rows]
    assert [list(shard.skip(2)) for shard in shards] == [some[2:] for some in rows]
    assert [sorted(shard.shuffle(1), key=str) for shard in shards] == [sorted(some, key=str) for some in rows]


def test_an_index_stays_the_place_where_it_was_counted(ours: Any) -> None:
    made = ours.map(numbered, with_indices=True)
    assert all(row["index"] == row["id"] for row in made.shuffle(1))
    assert [row["index"] for row in made.shard(2, 1).take(3)] == [20, 21, 22]
    again = ours.shuffle(5).map(numbered, with_indices=True).skip(4).shuffle(6).shard(2, 0)
    order = ids(ours.shuffle(5))
    assert all(order[row["index"]] == row["id"] for row in again) and len(again) == 18
    assert [row["index"] for row in ours.shard(2, 1).map(numbered, with_indices=True)] == list(range(20))


def test_batches_may_not_be_shuffled(ours: Any) -> None:
    with pytest.raises(ConfigError, match=r"call shuffle before batch\(\)"):
        ours.batch(4).shuffle(1)


def test_a_shuffle_of_batches_is_another_in_each_epoch_and_resumes(ours: Any) -> None:
    made = ours.map(first_one, batched=True, batch_size=2).shuffle(3)
    first = ids(made)
    made.set_epoch(1)
    second = ids(made)
    assert sorted(first) == sorted(second) == list(range(0, ROWS, 2)) and first != second != sorted(second)
    for done, _ in enumerate(made, 1):
        state = made.state_dict()
        resumed = ours.map(first_one, batched=True, batch_size=2).shuffle(3)
        resumed.load_state_dict(state)
        assert ids(resumed) == second[done:]


def test_batches_of_two_sizes_are_those_of_datasets(ours: Any, theirs: Any) -> None:
    def sizes(rows: Any) -> Any:
        seen: dict[str, list[int]] = {"a": [], "b": []}
        rows = rows.take(12).map(lambda columns: seen["a"].append(len(columns["id"])) or {}, batched=True, batch_size=4)
        list(rows.map(lambda columns: seen["b"].append(len(columns["id"])) or {}, batched=True, batch_size=6))
        return seen

    assert sizes(ours) == sizes(theirs) == {"a": [4, 4, 4], "b": [6, 6]}
    with pytest.raises(ConfigError, match="only every 999,000 rows"):
        ours.map(nothing, batched=True, batch_size=1000).map(nothing, batched=True, batch_size=999)


def test_lengths_are_known_where_no_filter_decides(ours: Any) -> None:
    assert len(ours.map(nothing).take(5)) == 5 and len(ours.map(nothing).skip(5)) == ROWS - 5
    assert "35 rows of 1 file).map.skip(5 examples)" in repr(ours.map(nothing).skip(5))
    with pytest.raises(TypeError, match="after filter or a batched map"):
        len(ours.filter(even).take(5))


# What functions are given, and what becomes of it


@pytest.mark.parametrize("chain", [
    lambda rows: rows.map(lambda row: {"odd": 1} if row["id"] % 2 else {}).batch(4),
    lambda rows: rows.map(lambda row: {"odd": 1} if row["id"] % 2 else {}).map(first_one, batched=True, batch_size=4),
    lambda rows: rows.map(lambda row: {"odd": 1} if row["id"] % 2 else {}).filter(
        lambda columns: [True] * len(columns["odd"]), batched=True, batch_size=4),
    lambda rows: rows.filter(lambda row: (row.pop("id"), True)[1]),
    lambda rows: rows.map(lambda row: (row.__setitem__("id", 9), {"z": 1})[1]),
    lambda rows: rows.map(lambda row: (row.pop("id"), row)[1]),
    lambda rows: rows.map(lambda row: row, remove_columns="id"),
    lambda rows: rows.map(lambda columns: (columns.pop("id"), {})[1], batched=True, batch_size=4),
])  # fmt: skip
def test_columns_are_neither_lost_nor_changed_by_the_way(ours: Any, theirs: Any, chain: Any) -> None:
    assert list(chain(ours)) == list(chain(theirs))


def test_a_function_that_fails_is_named_with_the_row_and_the_file(ours: Any) -> None:
    def divide(row: Any) -> Any:
        return {"y": 1 / (row["id"] - 12)}

    def divide_all(columns: Any) -> Any:
        return {"y": [1 / (i - 12) for i in columns["id"]]}

    with pytest.raises(ConfigError, match=r"divide failed on row 12 of .*rows\.arrow: ZeroDivisionError:") as raised:
        list(ours.map(divide))
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(ConfigError, match=r"divide failed on row 12 of "):
        list(ours.shuffle(1).filter(divide))
    with pytest.raises(ConfigError, match=r"divide_all failed on the 8 rows from row 8 on of .*rows\.arrow"):
        list(ours.map(divide_all, batched=True, batch_size=8))
    with pytest.raises(ConfigError, match=r"divide_first failed on batch 3 of this pass: ZeroDivisionError"):
        list(ours.batch(4).map(divide_first))


def divide_first(batch: Any) -> Any:
    return {"y": 1 / (batch["id"][0] - 12)}


# Any chain


FUNCTIONS: dict[str, Any] = {
    "ten": lambda row: {"y": row["id"] * 10},
    "lists": lambda row: {"z": [int(row["id"])] * (int(row["id"]) % 3), "w": [0.5, 1]},
    "odd": lambda row: {"odd": 1} if row["id"] % 2 else {},
    "change": lambda row: (row.__setitem__("id", 9), {"m": 1})[1],
    "sums": lambda columns: {"sum": [sum(int(i) for i in columns["id"])] * len(columns["id"])},
    "first": first_one,
    "twice": lambda columns: {name: [v for v in values for _ in range(2)] for name, values in columns.items()},
}
WORDS = ["map", "filter", "take", "skip", "batched", "some", "format", "format", "shuffle", "index", "batch"]
Words = list[tuple[str, int, str]]


def random_words(choose: random.Random) -> Words:
    found: Words = []
    for word in choose.choices(WORDS, k=choose.randint(1, 5)):
        which = {"map": ["ten", "lists", "odd", "change"], "batched": ["sums", "first", "twice"],
                 "format": ["python", "numpy", "torch"]}.get(word, [""])  # fmt: skip
        number = choose.randint(0, 30) if word in ("take", "skip") else choose.choice([1, 2, 3, 4, 6, 8])
        found.append((word, number, choose.choice(which)))
    return found


def chained(rows: Any, words: Words) -> Any:
    for word, number, which in words:
        rows = {
            "map": lambda rows, _, which: rows.map(FUNCTIONS[which]),
            "filter": lambda rows, *_: rows.filter(even),
            "take": lambda rows, number, _: rows.take(number),
            "skip": lambda rows, number, _: rows.skip(number),
            "batched": lambda rows, number, which: rows.map(FUNCTIONS[which], batched=True, batch_size=number),
            "some": lambda rows, number, _: rows.filter(
                lambda columns: [i % 3 > 0 for i in range(len(columns["id"]))], batched=True, batch_size=number),
            "format": lambda rows, _, which: rows.with_format(which),
            "shuffle": lambda rows, number, _: rows.shuffle(number),
            "index": lambda rows, *_: rows.map(numbered, with_indices=True),
            "batch": lambda rows, number, _: rows.batch(number),
        }[word](rows, number, which)  # fmt: skip
    return rows


def comparable(words: Words) -> bool:
    """Whether the documented differences stay out: batches after what drops or shuffles, and orders after a shuffle."""
    dropped = shuffled = batched = False
    for word, number, which in words:
        by_several = word in ("batched", "some") and number > 1
        if (by_several and (dropped or shuffled)) or (shuffled and word in ("take", "skip", "batch", "index")):
            return False
        dropped |= word in ("filter", "some") or which in ("first", "twice") or (word == "skip" and batched)
        batched |= word in ("batched", "some")
        shuffled |= word == "shuffle"
    return True


@pytest.mark.parametrize("seed", range(4))
def test_any_chain_gives_what_datasets_gives_and_resumes_at_any_example(ours: Any, theirs: Any, seed: int) -> None:
    choose, compared = random.Random(seed), 0
    while compared < 60:
        words = random_words(choose)
        try:
            made = chained(ours, words)
        except ConfigError:
            continue
        try:
            found = [spelt(row) for row in made]
        except ConfigError:  # a function that these values are not for
            with pytest.raises(Exception):  # noqa: B017 - whatever it is there
                list(chained(theirs, words))
            continue
        resume_somewhere(made, chained(ours, words), found, choose)
        if comparable(words):
            expected = [spelt(dict(row)) for row in chained(theirs, words)]
            both = (found, expected) if "shuffle" not in dict.fromkeys(word for word, *_ in words) else (
                sorted(found, key=str), sorted(expected, key=str))  # fmt: skip
            assert both[0] == both[1], words
            compared += 1


def resume_somewhere(made: Any, again: Any, found: list[Any], choose: random.Random) -> None:
    done = choose.randint(0, len(found))
    list(itertools.islice(made, done))
    again.load_state_dict(json.loads(json.dumps(made.state_dict())))
    assert [spelt(row) for row in again] == found[done:]
