"""Training from a Spark DataFrame: a real cluster, a small DataFrame, and batches that nothing but the rows decide."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gristmill as gm
from gristmill.adapters.spark_stream import SparkStreamLoader, clustered, stream_frame
from gristmill.adapters.streams import TorchStreamLoader
from gristmill.streams.frame_queries import find_columns, packed_table, rows_within

# An epoch is about 100 batches.
ROWS, DOCUMENTS, SEQ_LEN, COUNT, STOP = 4, 240, 64, 120, 70


@pytest.fixture(scope="module")
def documents(spark: Any) -> Any:
    """Rows of an id, a text that begins with it, and the bytes of that text as token ids."""
    texts = "concat('<', id, '> ', repeat('word ', 1 + cast(id % 40 as int)))"
    made = spark.range(0, DOCUMENTS, 1, 3).selectExpr("concat('d', id) as id", f"{texts} as text")
    ids = "transform(split(text, ''), letter -> ascii(letter))"
    return made.selectExpr("id", "text", f"{ids} as ids").cache()


@pytest.fixture(scope="module")
def loader(documents: Any) -> SparkStreamLoader:
    """One that has not begun; others of its stream need not count again."""
    return make(documents)


@pytest.fixture(scope="module")
def straight(loader: SparkStreamLoader) -> list[np.ndarray[Any, Any]]:
    """The first batches of a run that nothing happened to."""
    return taken(loader.stream.loader(), COUNT)


def make(df: Any, rank: int = 0, world_size: int = 1, seed: int = 0, **options: Any) -> SparkStreamLoader:
    said = {"id_col": "id", **options}
    return SparkStreamLoader(df, "byte", SEQ_LEN, ROWS, seed=seed, rank=rank, world_size=world_size, options=said)


def taken(loader: Any, count: int) -> list[np.ndarray[Any, Any]]:
    found = iter(loader)
    batches = [np.array(next(found)["input_ids"]) for _ in range(count)]
    loader.close()
    return batches


def read(stream: Any, rank: int = 0, world_size: int = 1) -> list[tuple[int, str]]:
    """The (epoch, text) of all rows of a rank of a stream whose rows are a document each."""
    found = []
    for batch in stream.loader(rank, world_size, keys="attention_mask"):
        rows = zip(batch["input_ids"], batch["attention_mask"], batch["sample_ids"].tolist(), strict=True)
        found += [(epoch, bytes(ids[there > 0][:-1].tolist()).decode()) for ids, there, (source, epoch, _) in rows
                  if source >= 0]  # fmt: skip
    return found


@pytest.mark.parametrize("partitions", [1, 7, 50])
def test_the_batches_are_those_of_the_rows_however_they_are_partitioned(
    documents: Any, straight: Any, partitions: int
) -> None:
    again = taken(make(documents.repartition(partitions)), 10)
    assert np.array_equal(again, straight[:10]) and again[0].shape == (ROWS, SEQ_LEN)


def test_a_run_that_was_killed_goes_on_with_the_same_batches_on_other_ranks(
    loader: SparkStreamLoader, straight: Any
) -> None:
    ranks = [loader.stream.loader(rank, 2) for rank in range(2)]
    before = [taken(rank, STOP) for rank in ranks]
    saved = json.dumps([rank.state_dict() for rank in ranks])
    assert len(saved) < 2_000
    for rank in range(2):
        assert np.array_equal(before[rank], [batch[rank::2] for batch in straight[:STOP]])
    for rank, world_size in [(0, 1), (1, 4), (3, 4)]:
        resumed = loader.stream.loader(rank, world_size)
        resumed.load_state_dict(gm.merge_states(json.loads(saved)))
        assert np.array_equal(taken(resumed, COUNT - STOP), [batch[rank::world_size] for batch in straight[STOP:]])


def test_ranks_have_all_documents_of_an_epoch_and_each_once_and_the_second_is_in_another_order(documents: Any) -> None:
    stream = stream_frame(documents, id_col="id").tokenize("byte").pad(256).batch(ROWS, seed=3, epochs=2)
    ranks = [read(stream, rank, 2) for rank in range(2)]
    everything = sorted(row.text for row in documents.select("text").collect())
    orders = [[text for rank in ranks for number, text in rank if number == epoch] for epoch in range(2)]
    assert sorted(orders[0]) == everything and sorted(orders[1]) == everything
    assert orders[0] != orders[1]


def test_a_rank_has_its_share_of_the_tokens_of_a_batch(documents: Any, straight: Any) -> None:
    rank = make(documents, 1, 2)
    assert rank.rank_batch_size == ROWS // 2 * SEQ_LEN == taken(rank, 1)[0].size
    assert "rank 1 of 2" in repr(rank)
    assert not np.array_equal(taken(make(documents, seed=1), 1), straight[:1])


def test_a_dataframe_that_changes_from_query_to_query_is_found_out(documents: Any) -> None:
    changing = documents.selectExpr("id", "concat(text, now()) as text")
    with pytest.raises(gm.SourceError, match=r"does not give the same rows twice.*other contents"):
        taken(make(changing), 1)
    fading = documents.where("xxhash64(id, now()) % 2 = 0")
    with pytest.raises(gm.SourceError, match=r"does not give the same rows twice.*rows when it was counted"):
        taken(make(fading), 1)


def test_a_state_of_other_rows_is_refused(documents: Any, loader: SparkStreamLoader) -> None:
    state = loader.state_dict()
    other = make(documents.where("id != 'd7'"))
    with pytest.raises(gm.StateError, match="another stream: files or rows differs"):
        other.load_state_dict(state)


def test_what_cannot_be_read_is_told_before_anything_is(documents: Any) -> None:
    with pytest.raises(gm.ConfigError, match=r"no column 'txt' .did you mean 'text'.*it has id, text, ids"):
        make(documents, text_col="txt")
    with pytest.raises(gm.ConfigError, match="no column 'key'"):
        make(documents, id_col="key")
    with pytest.raises(gm.ConfigError, match="'n' is double: it must be string, or array<int>"):
        make(documents.selectExpr("id", "1.5D as n"), text_col="n")
    with pytest.raises(gm.ConfigError, match="'ids' is array<int>: ids are string"):
        make(documents, id_col="ids")
    with pytest.raises(gm.ConfigError, match="The DataFrame is empty"):
        make(documents.where("id is null"))
    with pytest.raises(gm.ConfigError, match="a Spark DataFrame, or a function"):
        make("documents.parquet")
    with pytest.raises(gm.ConfigError, match="cut"):
        make(documents, cut="slice")


def test_columns_of_token_ids_are_not_tokenised(documents: Any) -> None:
    stream = stream_frame(documents, text_col="ids", id_col="id").tokenize("byte")
    found = read(stream.pad(256).batch(ROWS, epochs=1))
    assert sorted(text for _, text in found) == sorted(row.text for row in documents.select("text").collect())
    with pytest.raises(gm.ConfigError, match="holds token ids"):
        stream.filter("length")
    with pytest.raises(gm.ConfigError, match="which cuts between them"):
        stream.augment(gm.FIM(0.5, level="character"))
    with pytest.raises(gm.SourceError, match="token id 70,000, and the tokenizer byte has"):
        taken(make(documents.selectExpr("id", "array(70000L) as text")), 1)
    with pytest.raises(gm.SourceError, match="no token ids"):
        taken(make(documents.where("id = 'd1'").selectExpr("id", "array(-1) as text")), 1)


def test_rows_without_a_text_are_an_error_or_counted(documents: Any) -> None:
    holey = documents.selectExpr("id", "nullif(text, '<8> word word word word word word word word word ') as text")
    with pytest.raises(gm.SourceError, match="'d8' of the DataFrame has no text under 'text' but null"):
        list(make(holey, epochs=1))
    loader = make(holey, epochs=1, on_error="skip")
    assert len(list(loader)) and loader.stats()["unreadable"] == 1


def test_rows_without_an_id_go_by_their_text_and_equal_ones_all_count(documents: Any) -> None:
    twice = documents.select("text").union(documents.select("text"))
    stream = stream_frame(twice).tokenize("byte").pad(256).batch(ROWS, epochs=1)
    assert len(read(stream)) == 2 * DOCUMENTS


def test_a_clustered_table_gives_the_same_batches_and_spark_passes_over_what_is_not_asked_for(
    documents: Any, straight: Any, spark: Any, tmp_path: Path
) -> None:
    clustered(documents, id_col="id").write.parquet(str(tmp_path / "table"))
    table = spark.read.parquet(str(tmp_path / "table"))
    assert np.array_equal(taken(make(table), 10), straight[:10])
    asked = rows_within(table, find_columns(table, "text", "id", ()), [-8, 3], 60)
    plan = asked._jdf.queryExecution().toString()
    assert "PushedFilters: [Or(And(GreaterThanOrEqual(gristmill_key" in plan


def test_filters_and_carried_fields_are_those_of_every_stream(documents: Any) -> None:
    stream = stream_frame(documents.selectExpr("*", "length(text) as long"), id_col="id", fields=["long"], name="web")
    kept = stream.filter(lambda document: int(document["long"]) > 100 and document["source"] == "web")
    texts = [text for _, text in read(kept.tokenize("byte").pad(256).batch(ROWS, epochs=1))]
    assert texts and all(len(text) > 100 for text in texts)


def test_by_spark_connect_the_batches_are_the_same_and_a_session_that_ended_is_opened_again(
    straight: Any, spark_connect: str
) -> None:
    client = Path(__file__).with_name("connect_client.py")
    command = [sys.executable, client, spark_connect, str(COUNT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    digests = [hashlib.sha256(np.array(straight[:count]).tobytes()).hexdigest() for count in (COUNT, 10)]
    assert [found["batches"], found["worked"]] == digests and found["opened"] == 2
    assert "does not give the same rows twice" in found["changing"]


def test_a_spark_without_to_arrow_gives_the_same_rows(documents: Any) -> None:
    rows = packed_table(documents.repartition(3)).sort_by("id").to_pylist()
    assert rows == [row.asDict() for row in documents.orderBy("id").collect()]
    assert packed_table(documents.where("id is null")).column_names == documents.columns


def test_torch_has_the_same_batches(loader: SparkStreamLoader, straight: Any) -> None:
    batches = taken(TorchStreamLoader(loader.stream, 1, 2), 2)
    assert np.array_equal(batches, [batch[1::2] for batch in straight[:2]])
