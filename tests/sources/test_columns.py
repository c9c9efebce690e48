"""Parquet and Arrow: rows as documents, the columns that are carried, and tables that do not fit."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import SourceError
from gristmill.sources import base
from gristmill.sources.base import Format, Mishaps, expand

Read = Callable[..., list[dict[str, Any]]]


def write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=10)


def write_stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=10)


def write_ipc_file(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=10)


KINDS = {
    "parquet": ("a.parquet", write_parquet),
    "stream": ("a.arrow", write_stream),
    "file": ("b.arrow", write_ipc_file),
}


@pytest.fixture(params=KINDS)
def table_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    name, write = KINDS[request.param]

    def of(columns: dict[str, Any]) -> Path:
        write(pa.table(columns), tmp_path / name)
        return tmp_path / name

    return of


Table = Callable[[dict[str, Any]], Path]


def test_a_row_is_a_document_named_by_its_number(table_of: Table, read: Read) -> None:
    path = table_of({"text": ["a", "ü"], "other": [1, 2]})
    assert read(path) == [
        {"id": f"web/{path.name}:0", "source": "web", "path": path.name, "row": 0, "text": "a"},
        {"id": f"web/{path.name}:1", "source": "web", "path": path.name, "row": 1, "text": "ü"},
    ]


def test_ids_and_fields_are_carried_as_strings(table_of: Table, read: Read) -> None:
    columns = {"body": ["a", "b"], "n": [7, None], "o": [{"k": [1]}, None], "f": [0.5, 2.0], "s": ["x", None]}
    found = read(table_of(columns), Format("body", "n", ("o", "f", "s", "missing")))
    assert found[0]["id"] == "7" and found[1]["id"].endswith(":1")
    assert [row["o"] for row in found] == ['{"k":[1]}', None] and [row["s"] for row in found] == ["x", None]
    assert [row["f"] for row in found] == ["0.5", "2.0"] and found[0]["missing"] is None


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_every_kind_of_string_is_text(tmp_path: Path, read: Read, kind: Any) -> None:
    texts = pa.array(["a", "b", "a"]).cast(pa.string() if pa.types.is_dictionary(kind) else kind)
    texts = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts
    write_stream(pa.table({"text": texts}), tmp_path / "a.arrow")
    assert [row["text"] for row in read(tmp_path / "a.arrow")] == ["a", "b", "a"]
    assert [row["text"] for row in read(tmp_path / "a.arrow", unit_bytes=1)] == ["a", "b", "a"]


def test_a_table_without_the_column_names_the_close_one(table_of: Table, read: Read) -> None:
    with pytest.raises(SourceError, match=r"has no column 'text' \(did you mean 'texts'\?\)\. Name it by text="):
        read(table_of({"texts": ["a"], "id": ["b"]}))


def test_a_column_of_another_type_is_refused(table_of: Table, read: Read) -> None:
    with pytest.raises(SourceError, match=r"has int64 in column 'text', which must be text"):
        read(table_of({"text": [1, 2]}))


def test_rows_without_text_or_over_the_limit_are_mishaps(
    table_of: Table, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MAX_DOCUMENT_BYTES", 3)
    path = table_of({"text": ["a", None, "long", "b"], "id": ["1", "2", "3", "4"]})
    with pytest.raises(SourceError, match=r", row 1 \(id '2'\) has no text under 'text' but null"):
        read(path)
    mishaps = Mishaps("skip")
    assert [(row["id"], row["row"]) for row in read(path, None, mishaps)] == [("1", 0), ("4", 3)]
    assert mishaps.skipped == 2 and ", row 2 (id '3') is longer than" in mishaps.examples[1]


def test_bytes_that_are_not_utf8_in_a_text_column_are_one_mishap(table_of: Table, read: Read) -> None:
    bad = pa.StringArray.from_buffers(3, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffb"))
    mishaps = Mishaps("skip")
    found = read(table_of({"text": bad}), None, mishaps)
    assert [row["text"] for row in found] == ["a", "b"] and ", row 1 is not UTF-8" in mishaps.examples[0]


def test_damage_is_named_and_counted_once(table_of: Table, read: Read) -> None:
    path = table_of({"text": [f"document {i} " * 40 for i in range(100)]})
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(SourceError, match=f"{path.name} is damaged, encrypted or no "):
        read(path)
    mishaps = Mishaps("skip")
    read(path, None, mishaps)
    assert mishaps.skipped == 1


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_file_that_is_no_table_is_named(tmp_path: Path, read: Read, name: str) -> None:
    (tmp_path / name).write_bytes(b"no table at all, but some bytes")
    with pytest.raises(SourceError, match=f"{name} is damaged, encrypted or no "):
        read(tmp_path / name)


def test_an_encrypted_parquet_file_is_named(tmp_path: Path, read: Read) -> None:
    write_parquet(pa.table({"text": ["a"]}), tmp_path / "a.parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(b"PARE" + data[4:-4] + b"PARE")  # the magic of an encrypted footer
    with pytest.raises(SourceError, match=r"a.parquet is damaged, encrypted or no Parquet"):
        read(tmp_path / "a.parquet")


def test_a_packed_table_is_unpacked_first(table_of: Table, read: Read, tmp_path: Path) -> None:
    path = table_of({"text": ["a", "b"]})
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert [row["text"] for row in read(packed)] == ["a", "b"]


def test_a_hugging_face_folder_is_its_arrow_files(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
        for name in ("state.json", "dataset_info.json", "cache-1234.arrow", "x.lock"):
            (tmp_path / split / name).write_text("{}")
        write_stream(pa.table({"text": [split]}), tmp_path / split / "data-00000-of-00001.arrow")
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    found = [file.name for file in expand("web", [str(tmp_path)])]
    assert found == ["test/data-00000-of-00001.arrow", "train/data-00000-of-00001.arrow"]
