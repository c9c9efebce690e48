"""DataFrames of Spark for `gristmill.frames`: columns checked, rows hashed and spread by Spark itself, and handed over
as Arrow batches by `mapInArrow`, the one door that classic sessions and Spark Connect both have.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from gristmill.core.arguments import refuse
from gristmill.core.cached import cached_property
from gristmill.core.errors import ConfigError, did_you_mean
from gristmill.core.extras import extra
from gristmill.frames.cluster import SparkEngine, Task, itself, spark_errors, taken
from gristmill.frames.judging import VERDICT, Judge
from gristmill.frames.making import Survey
from gristmill.frames.recipe import FrameRecipe
from gristmill.frames.rows import LOW_BITS, RowFiles, Written

with extra("spark", "gristmill.adapters.spark"):
    from pyspark import cloudpickle
    from pyspark.sql import functions as F
    from pyspark.sql.types import DoubleType, StringType, StructField, StructType

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_TEXT = {"string", "char", "varchar"}
_IDS = _TEXT | {"byte", "short", "integer", "long", "decimal"}
_NESTED = {"array", "map", "struct"}
_FIELDS = _IDS | _NESTED | {"boolean", "float", "double", "date", "timestamp", "timestamp_ntz", "binary"}
_MOST_NAMES = 20
_ANSWERS = "answer binary"
Batches = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


class SparkRows:
    """The rows of a DataFrame as a source; a column that is missing, or of another type, is refused here."""

    def __init__(self, df: DataFrame, made: FrameRecipe) -> None:
        check_columns(df, made)
        self._df, self._made = df, made

    @cached_property
    def _rows(self) -> DataFrame:
        """Each row's sort key, hash, whether its id is that of its text, id, text and fields, under names of ours."""
        types, source = _types(self._df), self._made.source
        text = _column(source.text).cast("string")
        id = _column(self._made.id_col).cast("string") if self._made.id_col else F.lit(None).cast("string")
        fields = [_carried(name, types[name]) for name in source.fields]
        by_text = F.substring(F.sha2(text.cast("binary"), 256), 1, 32)
        own = zip(self._own, (F.coalesce(id, by_text), text, *fields), strict=True)
        rows = self._df.select(id.isNull().alias("by_text"), *(column.alias(name) for name, column in own))
        return rows.select(F.xxhash64("c0").alias("key"), F.xxhash64(*self._own).alias("hash"), "by_text", *self._own)

    @property
    def _own(self) -> list[str]:
        """Names for id, text and fields, whatever the DataFrame calls them."""
        return [f"c{i}" for i in range(2 + len(self._made.source.fields))]

    def survey(self) -> Survey:
        """One pass that gives one row."""
        text, hash = F.col("c1"), F.col("hash")
        with spark_errors("counting the rows of the DataFrame"):
            found = self._rows.agg(
                F.count(F.lit(1)), F.sum(F.octet_length(text)), F.expr("bit_xor(hash)"),
                F.sum(hash.bitwiseAND(F.lit(LOW_BITS).cast("long"))),
                F.count(F.when(text.isNull(), 1)), F.min(F.when(text.isNull(), F.col("c0"))),
            ).collect()[0]  # fmt: skip
        rows, size, xor, low, nulls, null_id = found
        return Survey(rows, size or 0, xor or 0, low or 0, nulls, null_id)

    def write(self, files: RowFiles, buckets: int) -> list[Written]:
        """A shuffle by bucket: a stretch of the hashes of ids, so that buckets and rows in them come in one order."""
        bits = buckets.bit_length() - 1
        bucket = F.shiftright("key", 64 - bits) + F.lit(buckets // 2) if bits else F.lit(0).cast("long")
        rows = self._rows.withColumn("bucket", bucket).repartition(buckets, "bucket")
        rows = rows.sortWithinPartitions("key", *self._own).select("bucket", "hash", "by_text", *self._own)
        with spark_errors("writing the rows of the DataFrame"):
            answers = rows.mapInArrow(_answering(files), _ANSWERS).collect()
        return [cast(Written, taken(bytes(row["answer"]))) for row in answers]

    def engine(self, memory: int) -> SparkEngine:
        """The Spark that the DataFrame is of; its session stays open."""
        return SparkEngine(self._df.sparkSession, memory=memory)


@dataclass(frozen=True)
class Curated:
    """Every row of a DataFrame with the rule that dropped it, and why; all DataFrames are lazy.

    `judged` has the columns that came, the text as cleaning and rules left it, and `rule`, `reason`, `value` (what was
    measured) and `detail`, which are null in rows that are kept. Cache it to ask for both parts.
    """

    judged: DataFrame

    @property
    def kept(self) -> DataFrame:
        """The documents that no rule dropped, with the columns that came."""
        return self.judged.where(F.col("rule").isNull()).drop(*(name for name, _ in VERDICT))

    @property
    def dropped(self) -> DataFrame:
        """The others, with their reasons."""
        return self.judged.where(F.col("rule").isNotNull())


def judged_frame(df: DataFrame, made: FrameRecipe) -> Curated:
    """Each row judged where it lies, when somebody asks for it."""
    types = check_columns(df, made)
    for name, _ in VERDICT:
        if name in types:
            raise ConfigError(f"The DataFrame has a column {name!r}, which curate adds: rename it first.")
    kinds = {"value": DoubleType()}
    added = [StructField(name, kinds.get(name, StringType())) for name, _ in VERDICT]
    judged = df.mapInArrow(_whole(Judge.of(made)), StructType([*df.schema.fields, *added]))
    return Curated(judged)


def check_columns(df: DataFrame, made: FrameRecipe) -> Mapping[str, DataType]:
    """Refuse columns that are missing or of another type, before any job runs; the types of all columns."""
    if not (hasattr(df, "mapInArrow") and hasattr(df, "schema")):
        raise refuse("df", "a DataFrame of Spark", df)
    if df.isStreaming:
        raise ConfigError("df is a stream, which has no end: write it to a table, and read that.", arguments="df")
    types, source = _types(df), made.source
    _check(types, source.text, _TEXT, "text_col", "text (a string)")
    if made.id_col:
        _check(types, made.id_col, _IDS, "id_col", "text or whole numbers")
    for name in source.fields:
        _check(types, name, _FIELDS, "recipe", "what can be carried as text")
    return types


def _types(df: DataFrame) -> dict[str, DataType]:
    found: dict[str, DataType] = {}
    for field in df.schema.fields:
        if field.name in found:
            raise ConfigError(f"The DataFrame has two columns called {field.name!r}: rename one.", arguments="df")
        found[field.name] = field.dataType
    return found


def _check(types: Mapping[str, DataType], name: str, kinds: set[str], argument: str, wanted: str) -> None:
    if name not in types:
        shown = ", ".join([*types][:_MOST_NAMES]) + (", ..." if len(types) > _MOST_NAMES else "")
        close = did_you_mean(name, types) if "did you mean" in did_you_mean(name, types) else ""
        raise ConfigError(f"The DataFrame has no column {name!r}{close}: it has {shown}.", arguments=argument)
    if types[name].typeName() not in kinds:
        raise ConfigError(
            f"Column {name!r} of the DataFrame is {types[name].simpleString()[:80]}, and must be {wanted}: cast it.",
            arguments=argument,
        )


def _column(name: str) -> Column:
    """A column by its very name, whatever characters it has."""
    return F.col("`" + name.replace("`", "``") + "`")


def _carried(name: str, kind: DataType) -> Column:
    """A field as a file holds it; what has parts is JSON, which has an order and a size."""
    if kind.typeName() in _NESTED:
        return F.to_json(_column(name))
    return _column(name).cast("string") if kind.typeName() in _TEXT else _column(name)


def _whole(function: Batches) -> Batches:
    """A function of ours, on an executor of the same version that works where the driver does."""
    pickled = pickle.dumps(Task.of(itself, function, cloudpickle.dumps))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from gristmill.frames.cluster import received

        yield from received(pickled)(batches)

    return run


def _answering(files: RowFiles) -> Batches:
    """What writes the rows of a partition; its answers, or its error, as bytes."""
    pickled = pickle.dumps(Task.of(itself, files, cloudpickle.dumps))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from gristmill.frames.cluster import answers

        for answer in answers(pickled, batches):
            yield pa.RecordBatch.from_arrays([pa.array([answer], pa.binary())], names=["answer"])

    return run
