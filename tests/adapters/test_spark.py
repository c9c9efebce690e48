"""DataFrames on a real cluster: a store's bytes depend on the rows alone, and are those of the same rows in files."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gristmill as gm

pytest.importorskip("pyspark")

from gristmill.adapters import spark_rows
from gristmill.adapters.spark import curate, read_documents, write_store
from gristmill.adapters.spark_documents import Documents, mapped_frame
from gristmill.frames import making
from gristmill.store.manifest import Manifest
from spark_again import LOST, RowsAgain, Troubled

Row = tuple[str, str | None, int]
BUCKET_BYTES = 4 << 10
SCHEMA = "key string, body string, stars int"
WORDS = ("mill", "stone", "grain", "water", "wheel", "flour", "sack", "river", "gear", "belt", "dust", "sieve")
RULES: dict[str, Any] = {
    "tokenizer": "byte", "filters": [{"length": {"min_chars": 40}}], "store": {"tokens_per_shard": 4_000},
    "sources": [{"name": "web", "text": "body", "id": "key", "fields": ["stars"]}],
}  # fmt: skip
NARROW: dict[str, Any] = {**RULES, "dedup": None}


def written(i: int) -> str:
    rng = random.Random(i // 2 if i % 9 == 0 else i)  # some are equal
    return " ".join(rng.choices(WORDS, k=rng.randrange(3, 30))) + "  \u00e9."


ROWS: list[Row] = [(f"d{i}", written(i), i % 5) for i in range(240)]


def frame(spark: Any, rows: list[Row], parts: int = 3) -> Any:
    return spark.createDataFrame(rows, SCHEMA).repartition(parts)


def content(store: Path) -> dict[str, bytes]:
    """Every file but that of times and hosts."""
    files = (path for path in sorted(store.rglob("*")) if path.is_file())
    return {str(path.relative_to(store)): path.read_bytes() for path in files if path.name not in ("run.json", ".lock")}


def splits(store: Path) -> dict[str, tuple[str, bytes]]:
    return {document.id: (split, document.tokens.tobytes()) for split in ("train", "val")
            for document in gm.open(store / split)}  # fmt: skip


def dropped(store: Path) -> set[tuple[Any, ...]]:
    rows = pq.read_table(store / "dropped.parquet").to_pylist()
    return {(row["id"], row["rule"], row["reason"], row["value"]) for row in rows}


@pytest.fixture(scope="module", autouse=True)
def small_buckets() -> Iterator[None]:
    """Some rows are many buckets already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(making, "BUCKET_BYTES", BUCKET_BYTES)
        yield


@pytest.fixture(scope="module")
def store(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of rows in one partition, with all passes."""
    out = tmp_path_factory.mktemp("frames") / "one"
    write_store(frame(spark, ROWS, 1), out, recipe=RULES, progress=False)
    return out


@pytest.mark.parametrize("parts", [7, 50])
def test_the_bytes_of_a_store_do_not_depend_on_order_and_partitions(
    spark: Any, store: Path, tmp_path: Path, parts: int
) -> None:
    rows = random.Random(parts).sample(ROWS, len(ROWS))
    write_store(frame(spark, rows, parts), tmp_path / "out", recipe=RULES, progress=False)
    assert len(list(store.glob("train/*.bin"))) > 3 and len(pq.read_table(store / "inputs.parquet")) > 3
    assert content(tmp_path / "out") == content(store)


def test_killed_executors_tasks_that_fail_once_published_and_second_attempts_change_no_byte(
    spark: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = tmp_path / "trouble"
    trouble.mkdir()
    monkeypatch.setenv(LOST, str(trouble))
    monkeypatch.setattr(making, "RowFiles", RowsAgain)
    monkeypatch.setattr(spark_rows, "SparkEngine", Troubled)
    monkeypatch.setattr(Troubled, "places", trouble)
    monkeypatch.setattr(Troubled, "kinds", {**Troubled.kinds, "ShardJob": "late"})
    write_store(frame(spark, ROWS), tmp_path / "out", recipe=RULES, progress=False)
    assert content(tmp_path / "out") == content(store)
    troubles = {"rows", "CurateJob", "CurateJob-again", "TokensJob", "TokensJob-again", "ShardJob", "ShardJob-again"}
    assert {place.name for place in trouble.iterdir()} == troubles


@pytest.fixture(scope="module")
def narrow(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    """Of rows that are judged one by one, and its manifest."""
    out = tmp_path_factory.mktemp("narrow") / "out"
    return out, write_store(frame(spark, ROWS), out, recipe=NARROW, progress=False)


def test_documents_splits_and_funnel_are_those_of_the_same_rows_in_files(narrow: Any, tmp_path: Path) -> None:
    out, manifest = narrow
    columns = dict(zip(("key", "body", "stars"), zip(*ROWS, strict=True), strict=True))
    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), tmp_path / "rows.parquet")
    sources = [{**NARROW["sources"][0], "paths": [str(tmp_path / "rows.parquet")]}]
    here = gm.prepare({**NARROW, "sources": sources, "out": str(tmp_path / "here")}, progress=False)
    assert splits(out) == splits(tmp_path / "here")
    assert manifest.funnel == here.funnel and dropped(out) == dropped(tmp_path / "here")


def test_curate_drops_what_a_run_drops_and_keeps_every_other_row(spark: Any, narrow: Any) -> None:
    judged = curate(frame(spark, ROWS), NARROW)
    gone = {(row["key"], row["rule"], row["reason"], row["value"]) for row in judged.dropped.collect()}
    assert gone == dropped(narrow[0]) and gone
    kept = {row["key"]: row["body"] for row in judged.kept.collect()}
    assert judged.kept.columns == ["key", "body", "stars"]
    texts = {document.id: document.text for split in ("train", "val") for document in gm.open(narrow[0] / split)}
    assert kept == texts


def test_a_store_comes_back_as_a_dataframe_with_data_sources_and_without(spark: Any, narrow: Any) -> None:
    found = read_documents(spark, narrow[0], text=True).collect()
    opened = {split: gm.open(narrow[0] / split) for split in ("train", "val")}
    ours = {document.id: (split, document.tokens.tolist(), document.text)
            for split, each in opened.items() for document in each}  # fmt: skip
    assert {row["id"]: (row["split"], row["tokens"], row["text"]) for row in found} == ours
    assert {(row["source"], row["fields"]["stars"]) for row in found} == {("web", str(i)) for i in range(5)}
    documents = Documents(str(narrow[0]), tokens=True, text=True)
    mapped = mapped_frame(spark, documents, documents.schema).collect()
    assert sorted(map(str, mapped)) == sorted(map(str, found))


def test_one_split_without_tokens_is_a_dataframe_of_names(spark: Any, narrow: Any) -> None:
    found = read_documents(spark, narrow[0] / "train", tokens=False)
    assert found.columns == ["id", "source", "split", "fields"]
    assert found.count() == len(gm.open(narrow[0] / "train"))


def test_a_path_without_a_store_is_told_at_once(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(gm.ConfigError, match="does not exist"):
        read_documents(spark, tmp_path / "nothing")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"text_col": "bdy"}, r"no column 'bdy' \(did you mean 'body'\?\): it has key, body, stars"),
        ({"text_col": "stars"}, "Column 'stars' of the DataFrame is int, and must be text"),
        ({"text_col": "body", "id_col": "ID"}, "no column 'ID'.*key, body, stars"),
    ],
)
def test_a_column_that_is_missing_or_of_another_type_is_refused_before_any_job(
    spark: Any, tmp_path: Path, columns: dict[str, str], said: str
) -> None:
    df = frame(spark, ROWS[:5])
    spark.sparkContext.setJobGroup("columns", "")
    try:
        for refused in (lambda: write_store(df, tmp_path / "out", **columns), lambda: curate(df, {}, **columns)):
            with pytest.raises(gm.ConfigError, match=said):
                refused()
        assert list(spark.sparkContext.statusTracker().getJobIdsForGroup("columns")) == []
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert not (tmp_path / "out").exists()


def test_what_is_no_dataframe_and_rules_that_compare_are_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(gm.ConfigError, match="a DataFrame of Spark"):
        write_store([{"text": "a"}], tmp_path / "out")
    with pytest.raises(gm.ConfigError, match="write_store"):
        curate(frame(spark, ROWS[:5]), {"dedup": ["exact"]})
    with pytest.raises(gm.ConfigError, match="'rule', which curate adds"):
        curate(frame(spark, ROWS[:5]).withColumnRenamed("stars", "rule"), {}, text_col="body")


def test_an_output_that_cannot_be_written_is_told_and_nothing_is_published(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(gm.GristmillError, match="cannot be written"):
        write_store(frame(spark, ROWS[:5]), tmp_path / "file" / "out", text_col="body", tokenizer="byte")


def test_poison_rows_end_the_run_by_name_or_are_quarantined(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    broken = F.when(F.col("key") == "bad", F.unhex(F.lit("c328"))).otherwise(F.col("body").cast("binary"))
    rows: list[Row] = [*ROWS[:20], ("bad", "-", 0)]
    df = frame(spark, rows).withColumn("body", broken.cast("string"))
    with pytest.raises(gm.SourceError, match=r"\(id 'bad'\) is not UTF-8"):
        write_store(df, tmp_path / "out", recipe=RULES, progress=False)
    assert not (tmp_path / "out" / "manifest.json").exists()
    nulls = df.unionByName(frame(spark, [("none", None, 0)]))
    with pytest.raises(gm.SourceError, match=r"no text in 'body'.*'none'"):
        write_store(nulls, tmp_path / "out", recipe=RULES, progress=False)
    manifest = write_store(nulls, tmp_path / "out", recipe={**RULES, "on_error": "skip"}, progress=False)
    said = {row["detail"] for row in pq.read_table(tmp_path / "out/dropped.parquet").to_pylist()
            if row["rule"] == "unreadable"}  # fmt: skip
    assert len(said) == 2 and all(any(f"(id {id!r})" in each for each in said) for id in ("bad", "none"))
    assert manifest.splits["train"]


def test_a_dataframe_of_chance_is_found_out(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    chance = F.udf(lambda: os.urandom(8).hex(), "string").asNondeterministic()
    df = frame(spark, ROWS[:9]).withColumn("body", chance())
    with pytest.raises(gm.SourceError, match="same rows twice"):
        write_store(df, tmp_path / "out", text_col="body", tokenizer="byte", progress=False)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_without_an_id_column_texts_make_ids_and_equal_ones_are_told_apart(spark: Any, tmp_path: Path) -> None:
    rows: list[Row] = [("", "the same text", 1), ("", "the same text", 2), ("", "another text", 3)]
    recipe = {"dedup": None, "tokenizer": "byte", "store": {"val_fraction": 0}}
    write_store(frame(spark, rows, 2), tmp_path / "out", text_col="body", recipe=recipe, progress=False)
    ids = sorted(document.id for document in gm.open(tmp_path / "out"))
    assert len(ids) == 3 and sum(id.endswith("~2") for id in ids) == 1
    assert all(len(id.removesuffix("~2")) == 32 for id in ids)


CONNECT = """
import sys
from pyspark.sql import SparkSession, functions as F
sys.path[:0] = sys.argv[3].split(":")
from test_spark import BUCKET_BYTES, NARROW, ROWS, RULES, SCHEMA
from gristmill.adapters.spark import curate, read_documents, write_store
from gristmill.frames import making

spark = SparkSession.builder.remote(sys.argv[4]).config("spark.sql.shuffle.partitions", "3").getOrCreate()
df = spark.createDataFrame(ROWS, SCHEMA)
out, large = sys.argv[1:3]
large_buckets, making.BUCKET_BYTES = making.BUCKET_BYTES, BUCKET_BYTES
write_store(df.repartition(5), out, recipe=RULES, progress=False)
making.BUCKET_BYTES = large_buckets
judged = curate(df, NARROW)
print(judged.kept.count() + judged.dropped.count(), read_documents(spark, out).count())

long = F.when(F.col("id") == 5, F.expr("repeat(char(65 + id % 2), 200000000)"))
short = F.concat(F.lit("row "), F.lpad(F.col("id").cast("string"), 6, "0"))
rows = spark.range(1_000_000).select("id", F.coalesce(long, short).alias("text"))
lengths = {"length": {"min_chars": 1, "max_chars": 100}}
recipe = {"tokenizer": "byte", "clean": None, "dedup": None, "filters": [lengths]}
manifest = write_store(rows, large, id_col="id", recipe=recipe, progress=False)
print(sum(shard.documents for split in manifest.splits.values() for shard in split))
"""


def test_connect_gives_the_same_bytes_and_200_mb_beside_a_million_rows_pass(
    store: Path, tmp_path: Path, spark_connect: str
) -> None:
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    command = [sys.executable, "-c", CONNECT, tmp_path / "out", tmp_path / "large", os.pathsep.join(folders),
               spark_connect]  # fmt: skip
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-3000:]
    assert made.stdout.splitlines() == [f"{len(ROWS)} {sum(map(len, map(gm.open, [store, store / 'val'])))}", "999999"]
    assert content(tmp_path / "out") == content(store)
    (gone,) = pq.read_table(tmp_path / "large" / "dropped.parquet").to_pylist()
    assert (gone["id"], gone["rule"], gone["value"]) == ("5", "length", 200_000_000)
