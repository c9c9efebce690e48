"""Documents that are equal byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import ConfigError
from gristmill.curate.dedup.exact import Exact, equal_documents
from gristmill.curate.dedup.near import keep_keys
from gristmill.curate.documents import Documents
from gristmill.curate.ledger import text_digests


def _write(documents: Documents, path: Path, priorities: dict[str, int] | None = None) -> Path:
    high, low = text_digests(documents)
    keys = keep_keys(documents, "priority", priorities or {})
    pq.write_table(
        pa.table({"doc": documents.batch.column("doc"), "keep_key": keys, "hash_hi": high, "hash_lo": low}), path
    )
    return path


def _rows(path: Path) -> list[tuple[int, ...]]:
    return [tuple(row.values()) for row in pq.read_table(path).to_pylist()]


def _duplicates(engine: Any, hashes: list[Path], dropped: list[Path], out: Path) -> list[tuple[int, ...]]:
    tables = {"documents": hashes, **({"dropped": dropped} if dropped else {})}
    (found,) = engine.query(equal_documents(bool(dropped)), tables, out)
    return _rows(found)


def test_first_copy_stays_across_units(make_batch: Any, engine: Any, tmp_path: Path) -> None:
    batches = [make_batch(["one", "two", "one"]), make_batch(["two", "three", "one"], unit=1)]
    files = [_write(b, tmp_path / f"{i}.parquet") for i, b in enumerate(batches)]
    second = 1 << 32
    assert _duplicates(engine, files, [], tmp_path / "out") == [(2, 0), (second, 1), (second + 2, 0)]


def test_documents_already_gone_are_no_copies(make_batch: Any, engine: Any, tmp_path: Path) -> None:
    hashes = _write(make_batch(["same", "same", "same"]), tmp_path / "h.parquet")
    pq.write_table(pa.table({"doc": pa.array([0], pa.int64())}), tmp_path / "gone.parquet")
    assert _duplicates(engine, [hashes], [tmp_path / "gone.parquet"], tmp_path / "out") == [(2, 1)]


def test_source_of_higher_priority_stays(make_batch: Any, engine: Any, tmp_path: Path) -> None:
    documents = make_batch(["same"] * 3, sources=["web", "books", "books"])
    hashes = _write(documents, tmp_path / "h.parquet", {"books": 1})
    assert _duplicates(engine, [hashes], [], tmp_path / "out") == [(0, 1), (2, 1)]


def test_keep_rule_must_be_known() -> None:
    with pytest.raises(ConfigError, match="longest"):
        Exact(keep="longest")  # type: ignore[arg-type]
