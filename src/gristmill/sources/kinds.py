"""Which reader a file gets: by the source's format, else by the file's suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

import pyarrow as pa

from gristmill.sources.arrow import cut_batches, read_arrow
from gristmill.sources.base import Format, InputFile, Mishaps, Part
from gristmill.sources.jsonl import cut_json, read_json, read_jsonl
from gristmill.sources.lines import cut_bytes
from gristmill.sources.parquet import cut_row_groups, read_parquet
from gristmill.sources.streams import unpacked_name
from gristmill.sources.text import cut_text, read_text
from gristmill.sources.webdataset import cut_nothing, read_webdataset


@dataclass(frozen=True)
class Kind:
    """How a format is read, how a file of it larger than a unit is cut, and whether documents may bring own ids.

    A file of 0 bytes holds no documents where a format needs bytes; as plain text it is an empty one.
    """

    read: Callable[[Part, Format, Mishaps], Iterator[pa.RecordBatch]]
    cut: Callable[[InputFile, Format, int, int], list[Part]]
    brings_ids: bool = True
    needs_bytes: bool = True


_KINDS = {
    "text": Kind(read_text, cut_text, brings_ids=False, needs_bytes=False),
    "jsonl": Kind(read_jsonl, cut_bytes),
    "json": Kind(read_json, cut_json),
    "parquet": Kind(read_parquet, cut_row_groups),
    "arrow": Kind(read_arrow, cut_batches),
    "webdataset": Kind(read_webdataset, cut_nothing),
}

# Any other suffix is plain text.
_SUFFIXES = {
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    ".json": "json",
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    ".tar": "webdataset",
}


def kind_of(file: InputFile, format: Format) -> Kind:
    """The reader and cutter of a file."""
    return _KINDS[format.format or _SUFFIXES.get(PurePath(unpacked_name(file.path)).suffix.lower(), "text")]
