"""The format `gristmill` of `spark.read`: a Python data source over a store, for Spark 4.0 and later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gristmill.adapters.spark_documents import Documents, Stretch
from gristmill.core.errors import ConfigError
from gristmill.core.extras import extra

with extra("spark", "gristmill.adapters.spark"):
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_FLAGS = {"true": True, "false": False}


class DocumentsSource(DataSource):
    """`spark.read.format("gristmill").option("text", "true").load("/data/corpus")`."""

    @classmethod
    def name(cls) -> str:
        return "gristmill"

    def schema(self) -> str:
        return self._documents.schema

    def reader(self, schema: StructType) -> DocumentsReader:
        return DocumentsReader(self._documents)

    @property
    def _documents(self) -> Documents:
        if "path" not in self.options:
            raise ConfigError("The format gristmill needs the path of a store: .load(PATH).")
        return Documents(self.options["path"], self._flag("tokens", "true"), self._flag("text", "false"))

    def _flag(self, name: str, default: str) -> bool:
        said = self.options.get(name, default).lower()
        if said not in _FLAGS:
            raise ConfigError(f"The option {name} of the format gristmill is true or false, not {said!r}.")
        return _FLAGS[said]


class _Part(InputPartition):
    """A stretch, for Spark."""

    def __init__(self, stretch: Stretch) -> None:
        self.stretch = stretch


class DocumentsReader(DataSourceReader):
    """Stretches of shards as partitions."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def partitions(self) -> Sequence[InputPartition]:
        return [_Part(stretch) for stretch in self._documents.stretches()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        return self._documents.read(partition.stretch)
