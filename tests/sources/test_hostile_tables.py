"""Tables that lie: offsets outside of their data, bytes that are no text, names that come twice, sizes that bite."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gristmill.core.errors import SourceError
from gristmill.sources import arrow, parquet_pages
from gristmill.sources.base import Format, Mishaps

Read = Callable[..., list[dict[str, Any]]]


def write_stream(table: pa.Table, path: Path, **options: Any) -> None:
    with pa.ipc.new_stream(str(path), table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)


@pytest.fixture(params=["a.parquet", "a.arrow"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[pa.Table], Path]:
    def to(table: pa.Table) -> Path:
        path = tmp_path / request.param
        (pq.write_table if path.suffix == ".parquet" else write_stream)(table, path)
        return path

    return to


Write = Callable[[pa.Table], Path]
BAD = pa.StringArray.from_buffers(3, pa.py_buffer(np.array([0, 1, 2, 3], np.int32)), pa.py_buffer(b"a\xffb"))


@pytest.mark.parametrize("column", ["text", "id", "url"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_offsets_that_leave_their_data_are_found_before_they_are_followed(
    tmp_path: Path, read: Read, column: str, kind: pa.DataType
) -> None:
    values = {name: pa.array([f"{name}-{i}-{'x' * 20}" for i in range(3)], kind) for name in ("text", "id", "url")}
    write_stream(
        pa.table({**values, column: pa.array([f"spot{i}" + "y" * 40 for i in range(3)], kind)}), tmp_path / "a.arrow"
    )
    data = (tmp_path / "a.arrow").read_bytes()
    width = 8 if kind == pa.large_string() else 4
    if kind == pa.string_view():  # length, four bytes, buffer, offset
        old, new = b"spot" + bytes(8), b"spot" + bytes(4) + b"\0\0\0\x60"
    else:
        edges = [n.to_bytes(width, "little") for n in (0, 45, 90, 135)]
        old, new = b"".join(edges), b"".join((edges[0], edges[1], (2**31 - 9).to_bytes(width, "little"), edges[3]))
    assert data.count(old) == 1
    (tmp_path / "a.arrow").write_bytes(data.replace(old, new))
    with pytest.raises(SourceError, match=r"a.arrow is damaged, encrypted or no Arrow IPC"):
        read(tmp_path / "a.arrow", Format(fields=["url"]))


@pytest.mark.parametrize("column", ["id", "url"])
def test_an_id_or_field_that_is_not_utf8_is_one_mishap(write: Write, read: Read, column: str) -> None:
    columns = {"text": pa.array(["x", "y", "z"]), "id": pa.array(["1", "2", "3"]), "url": pa.array(["p", "q", "r"])}
    path, mishaps = write(pa.table({**columns, column: BAD})), Mishaps("skip")
    assert [row["text"] for row in read(path, Format(fields=["url"]), mishaps)] == ["x", "z"]
    named = "" if column == "id" else " (id '2')"
    assert mishaps.examples == [f"{path}, row 1{named} is not UTF-8 in {column!r}."]


@pytest.mark.parametrize("column", ["text", "id"])
def test_words_of_a_dictionary_that_are_not_utf8_are_mishaps_of_their_rows(
    tmp_path: Path, read: Read, column: str
) -> None:
    columns = {"text": pa.array(["x", "y", "z"]), "id": pa.array(["1", "2", "3"])}
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), BAD)
    write_stream(pa.table({**columns, column: words}), tmp_path / "a.arrow")
    mishaps = Mishaps("skip")
    assert [row["row"] for row in read(tmp_path / "a.arrow", None, mishaps)] == [0, 2] and mishaps.skipped == 1


def test_a_column_name_that_is_not_utf8_is_told_or_does_not_matter(tmp_path: Path, read: Read) -> None:
    table = pa.table({"text": ["a"], "qqqq": ["b"]})
    pq.write_table(table, tmp_path / "a.parquet")
    write_stream(table, tmp_path / "a.arrow")
    for path in (tmp_path / "a.parquet", tmp_path / "a.arrow"):
        path.write_bytes(path.read_bytes().replace(b"qqqq", b"\xff\xfe\xfd\xfc"))
        with pytest.raises(SourceError, match=f"{path.name} is damaged, encrypted or no"):
            read(path, Format("no such column"))
    assert [row["text"] for row in read(tmp_path / "a.arrow")] == ["a"]


def test_a_stream_that_does_not_begin_with_a_schema_is_refused(tmp_path: Path, read: Read) -> None:
    """Arrow reads any first message as a schema: case 16,372 of the fuzzed streams ended the process so."""
    write_stream(pa.table({"text": ["a"]}), path := tmp_path / "a.arrow")
    _, batch = pa.ipc.MessageReader.open_stream(path.read_bytes())
    path.write_bytes(batch.serialize().to_pybytes())
    with pytest.raises(SourceError, match="begins with a message of the kind 'record batch' and not with a schema"):
        read(path)


def test_columns_of_one_name_are_refused_where_they_are_asked_for(write: Write, read: Read) -> None:
    path = write(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"]), pa.array(["c"])], ["text", "x", "x"]))
    assert [row["text"] for row in read(path)] == ["a"]
    with pytest.raises(SourceError, match=r"has 2 columns called 'x'. Rename all but one of them"):
        read(path, Format(fields=["x"]))


def test_bytes_of_a_fixed_length_are_spelt_as_hexadecimal_digits(write: Write, read: Read) -> None:
    ids = [uuid.UUID(int=n) for n in (7, 2**127 + 5)]
    for column in (pa.array([id.bytes for id in ids], pa.binary(16)), pa.array([id.bytes for id in ids], pa.uuid())):
        assert [row["id"] for row in read(write(pa.table({"text": ["a", "b"], "id": column})))] == [
            id.hex for id in ids
        ]
    column = pa.array([b"plain", ids[1].bytes], pa.binary())
    assert [row["id"] for row in read(write(pa.table({"text": ["a", "b"], "id": column})))] == ["plain", ids[1].hex]


NUMBERS: dict[str, tuple[Any, pa.DataType]] = {
    "7": (7, pa.int64()),
    "-9223372036854775808": (-(2**63), pa.int64()),
    "18446744073709551615": (2**64 - 1, pa.uint64()),
    "100000.0": (1e5, pa.float64()),
    "0.5": (0.5, pa.float64()),
    "1e+16": (1e16, pa.float64()),
    "NaN": (float("nan"), pa.float64()),
    "0.1": (0.1, pa.float32()),
    "true": (True, pa.bool_()),
}


@pytest.mark.parametrize("spelling", NUMBERS)
def test_a_number_is_the_same_id_in_every_format(write: Write, read: Read, tmp_path: Path, spelling: str) -> None:
    value, kind = NUMBERS[spelling]
    (tmp_path / "a.jsonl").write_text(f'{{"text": "a", "id": {spelling}}}\n')
    for path in (write(pa.table({"text": ["a"], "id": pa.array([value], kind)})), tmp_path / "a.jsonl"):
        assert [row["id"] for row in read(path)] == [spelling]


def test_a_field_inside_a_column_is_named_with_dots(write: Write, read: Read) -> None:
    rows = [{"text": "a", "id": {"n": 1}}, {"text": "b", "id": {"n": 2}}, None]
    path, mishaps = write(pa.table({"data": rows, "a.b": ["x", "y", "z"]})), Mishaps("skip")
    found = read(path, Format("data.text", "data.id.n", ["a.b"]), mishaps)
    assert [(row["id"], row["text"], row["a.b"]) for row in found] == [("1", "a", "x"), ("2", "b", "y")]
    assert mishaps.examples == [f"{path}, row 2 has no text under 'data.text' but null."]


def test_a_type_that_cannot_be_text_is_named(tmp_path: Path, read: Read) -> None:
    months = pa.array([pa.MonthDayNano([1, 2, 3])])
    write_stream(pa.table({"text": ["a"], "d": months}), tmp_path / "a.arrow")
    with pytest.raises(
        SourceError, match=r"has month_day_nano_interval in column 'd', which cannot be carried as text"
    ):
        read(tmp_path / "a.arrow", Format(fields=["d"]))


LONG = """
import resource, sys
import pyarrow as pa, pyarrow.parquet as pq
from pathlib import Path
from gristmill.sources.base import Format, InputFile, Mishaps
from gristmill.sources.units import cut_units, read_unit
path = Path(sys.argv[1])
units = cut_units([InputFile("web", path, path.name)], {"web": Format()})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = size = 0
for unit in units:
    for batch in read_unit(unit, Format(), Mishaps()):
        count += len(batch)
        size += batch.column("text").nbytes
print(count, size >> 20, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def read_apart(path: Path) -> tuple[int, int, int]:
    """Documents, MiB of text, and MiB by which a process grew that read them."""
    ran = subprocess.run([sys.executable, "-c", LONG, str(path)], capture_output=True, text=True, check=True)
    count, size, grown = map(int, ran.stdout.split())
    return count, size, grown


@pytest.mark.parametrize("kind", ["parquet", "arrow dictionary", "arrow views"])
def test_a_text_that_many_rows_share_is_read_in_bounded_memory(tmp_path: Path, kind: str) -> None:
    text, rows = "x" * (4 << 20), 100
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))
    path = tmp_path / ("a.parquet" if kind == "parquet" else "a.arrow")
    if kind == "parquet":
        pq.write_table(pa.table({"text": same.cast(pa.string())}), path)
    elif kind == "arrow dictionary":
        write_stream(pa.table({"text": same}), path)
    else:
        views = np.tile(np.frombuffer(np.array([len(text), 0x78787878, 0, 0], np.int32).tobytes(), np.uint8), rows)
        column = pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(views), pa.py_buffer(text.encode())])
        write_stream(pa.table({"text": column}), path)
    count, size, grown = read_apart(path)
    assert (count, size) == (rows, rows * 4) and grown < 250


def test_rows_are_read_one_by_one_where_texts_are_long(tmp_path: Path) -> None:
    """Many short rows and then some of 4 MiB: the average says nothing."""
    texts = [*("short" for _ in range(2000)), *(chr(97 + i % 26) * (4 << 20) for i in range(70))]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", use_dictionary=False, write_batch_size=1)
    count, size, grown = read_apart(tmp_path / "a.parquet")
    assert (count, size) == (2070, 280) and grown < 250


def test_what_can_only_be_read_at_once_has_a_limit(tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_pages, "MAX_PAGE_BYTES", 1 << 20)
    monkeypatch.setattr(arrow, "MAX_BATCH_BYTES", 1 << 20)
    table = pa.table({"text": ["x" * (2 << 20)]})
    pq.write_table(table, tmp_path / "a.parquet")
    write_stream(table, tmp_path / "a.arrow", compression="zstd")
    with pytest.raises(SourceError, match=r"a.parquet has a page of 2 MiB in column 'text', and 1 are the most"):
        read(tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a.arrow has a record batch that unpacks to 2 MiB, and 1 are the most"):
        read(tmp_path / "a.arrow")
