"""Parquet files: pages, dictionaries, footers and the values in them."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from _sources import documents, raise_if, read_in_all_ways
from _tables import FIELDS, table

from gristmill.sources.base import Format, Mishaps
from harness import mutate as change_bytes

CASES = (200, 10_000)
# Found here: footers that ended the process (pyarrow 26), and rows that went missing without a word.
CORPUS = Path(__file__).parents[1] / "corpus" / "parquet"


def _written(**options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table(), out, row_group_size=15, **options)
    return out.getvalue()


def seeds() -> list[bytes]:
    return [
        _written(),
        _written(compression="none", use_dictionary=False),
        _written(compression="zstd", data_page_version="2.0"),
        _written(compression="gzip", data_page_size=64, write_batch_size=3),
        _written(compression="lz4", store_schema=False),
        *(path.read_bytes() for path in sorted(CORPUS.glob("*.parquet"))),
    ]


def mutate(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Any bytes, or the footer alone, whose length is kept."""
    if rng.random() < 0.5:
        return change_bytes(rng, seeds)
    data = rng.choice(seeds)
    begin = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    footer = change_bytes(rng, [data[begin:-8]])
    return data[:begin] + footer + struct.pack("<I", len(footer)) + b"PAR1"


def attempt(data: bytes, folder: Path) -> None:
    format = Format(fields=FIELDS)
    rows, skipped = read_in_all_ways(data, folder / "a.parquet", format, cuts=(1,))
    if not skipped:
        assert documents(folder / "a.parquet", format, Mishaps("raise")) == rows
    raise_if(skipped)
