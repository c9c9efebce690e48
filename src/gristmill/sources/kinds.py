"""Which reader a file gets: by the source's format, else by the file's suffix."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from gristmill.sources.arrow import cut_batches, read_arrow
from gristmill.sources.base import Format, InputFile, Mishaps, Part
from gristmill.sources.jsonl import cut_json, read_json, read_jsonl
from gristmill.sources.lines import cut_bytes
from gristmill.sources.parquet import cut_row_groups, read_parquet
from gristmill.sources.streams import packing_of, unpacked_name
from gristmill.sources.text import cut_text, read_text
from gristmill.sources.webdataset import cut_nothing, read_webdataset, resume_webdataset


@dataclass(frozen=True)
class Kind:
    """How a format is read, how a file of it larger than a unit is cut, and whether documents may bring own ids.

    A file of 0 bytes holds no documents where a format needs bytes; as plain text it is an empty one. `resume` reads a
    part that may begin and end at any byte, or goes on from the document at a byte, if the file is not packed.
    """

    read: Callable[[Part, Format, Mishaps], Iterator[pa.RecordBatch]]
    cut: Callable[[InputFile, Format, int, int], list[Part]]
    brings_ids: bool = True
    needs_bytes: bool = True
    resume: Callable[[Part, int | None, Format, Mishaps], Iterator[pa.RecordBatch]] | None = None


_KINDS = {
    "text": Kind(read_text, cut_text, brings_ids=False, needs_bytes=False),
    "jsonl": Kind(read_jsonl, cut_bytes),
    "json": Kind(read_json, cut_json),
    "parquet": Kind(read_parquet, cut_row_groups),
    "arrow": Kind(read_arrow, cut_batches),
    "webdataset": Kind(read_webdataset, cut_nothing, resume=resume_webdataset),
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
    return _KINDS[format.format or _named(file.spelt)]


@functools.lru_cache(maxsize=1024)
def _named(path: str) -> str:
    """The format that a file's name tells."""
    return _SUFFIXES.get(os.path.splitext(unpacked_name(path))[1].lower(), "text")


def resumes_anywhere(file: InputFile, format: Format) -> bool:
    """Whether a file can be read from any of its documents on, and be cut at any byte."""
    return packing_of(file.spelt) is None and kind_of(file, format).resume is not None
