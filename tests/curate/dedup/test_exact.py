"""Documents that are equal byte for byte."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.curate.dedup.exact import Exact, content_hashes, exact_duplicates, hash_documents, text_digests


def _write(batch: Any, path: Path) -> Path:
    pq.write_table(pa.Table.from_batches([batch]), path)
    return path


def _rows(path: Path) -> list[tuple[int, ...]]:
    return [tuple(row.values()) for row in pq.read_table(path).to_pylist()]


def _duplicates(engine: Any, hashes: list[Path], dropped: list[Path], out: Path) -> list[tuple[int, ...]]:
    exact_duplicates(engine, hashes, dropped, out)
    return _rows(out)


def test_what_a_store_keeps_is_the_low_half_of_xxh3_128(make_batch: Any) -> None:
    texts = ["", "a", "größer", "x" * 1000]
    for text, low in zip(texts, content_hashes(make_batch(texts)), strict=True):
        assert int(low) % 2**64 == xxhash.xxh3_128_intdigest(text.encode()) % 2**64


def test_texts_are_compared_by_a_hash_that_nobody_can_forge(make_batch: Any) -> None:
    texts = [*("ä" * n for n in range(300)), "x" * 1000, "y" * 12_345]
    for text, *halves in zip(texts, *text_digests(make_batch(texts)), strict=True):
        assert struct.pack("<qq", *halves) == hashlib.blake2b(text.encode(), digest_size=16).digest()


def test_first_copy_stays_across_units(make_batch: Any, engine: Any, tmp_path: Path) -> None:
    batches = [make_batch(["one", "two", "one"]), make_batch(["two", "three", "one"], unit=1)]
    files = [_write(hash_documents(b, Exact(), {}), tmp_path / f"{i}.parquet") for i, b in enumerate(batches)]
    second = 1 << 32
    assert _duplicates(engine, files, [], tmp_path / "out") == [(2, 0), (second, 1), (second + 2, 0)]


def test_documents_already_gone_are_no_copies(make_batch: Any, engine: Any, tmp_path: Path) -> None:
    hashes = _write(hash_documents(make_batch(["same", "same", "same"]), Exact(), {}), tmp_path / "h.parquet")
    pq.write_table(pa.table({"doc": pa.array([0], pa.int64())}), tmp_path / "gone.parquet")
    assert _duplicates(engine, [hashes], [tmp_path / "gone.parquet"], tmp_path / "out") == [(2, 1)]


def test_source_of_higher_priority_stays(make_batch: Any, engine: Any, tmp_path: Path) -> None:
    documents = make_batch(["same"] * 3, sources=["web", "books", "books"])
    hashes = _write(hash_documents(documents, Exact(keep="priority"), {"books": 1}), tmp_path / "h.parquet")
    assert _duplicates(engine, [hashes], [], tmp_path / "out") == [(0, 1), (2, 1)]


def test_keep_rule_must_be_known() -> None:
    with pytest.raises(ConfigError, match="longest"):
        Exact(keep="longest")  # type: ignore[arg-type]


@given(texts=st.lists(st.text(max_size=6), max_size=20), cut=st.integers(0, 20))
def test_hash_does_not_depend_on_the_batch(make_batch: Any, texts: list[str], cut: int) -> None:
    whole = np.stack(text_digests(make_batch(texts)))
    parts = [np.stack(text_digests(make_batch(part))) for part in (texts[:cut], texts[cut:])]
    assert np.array_equal(whole, np.concatenate(parts, axis=1))
