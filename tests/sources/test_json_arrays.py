"""A `.json` file that is one array: its elements are documents, in bounded memory, wherever its lines break."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import SourceError
from gristmill.sources import lines
from gristmill.sources.base import Format, InputFile, Mishaps
from gristmill.sources.units import cut_units, read_unit

Read = Callable[..., list[dict[str, Any]]]
ROWS = [
    {"id": f"d{i}", "text": f'the text ["{i}"], with {{braces}}\n', "more": {"n": [i, [1.5, None]]}} for i in range(50)
]


@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_each_element_is_a_document(
    tmp_path: Path, read: Read, indent: int | None, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_text(" \n" + json.dumps(ROWS, indent=indent))
    monkeypatch.setattr(lines, "CHUNK_BYTES", chunk)
    found = read(tmp_path / "a.json", Format(fields=["more"]))
    assert [(row["id"], row["text"]) for row in found] == [(row["id"], row["text"]) for row in ROWS]
    assert [json.loads(row["more"]) for row in found] == [row["more"] for row in ROWS]


def test_an_array_may_be_packed_and_begin_with_a_byte_order_mark(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + json.dumps(ROWS).encode()))
    assert len(read(tmp_path / "a.json.gz")) == len(ROWS)
    (tmp_path / "b.json").write_bytes(json.dumps(ROWS).encode("utf-16"))
    assert len(read(tmp_path / "b.json", Format(encoding="utf-16"))) == len(ROWS)


def test_elements_without_an_id_are_named_by_their_byte(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.json").write_text('[{"text": "a"},{"text": "b"}]')
    assert [row["id"] for row in read(tmp_path / "a.json")] == ["web/a.json@0", "web/a.json@15"]


def test_an_array_stays_whole_and_lines_are_cut_however_large_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(ROWS, indent=1))
    (tmp_path / "b.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for name, several in (("a.json", False), ("b.json", True)):
        units = cut_units([InputFile("web", tmp_path / name, name)], {"web": Format()}, 500)
        assert (len(units) > 1) is several
        texts = [row for unit in units for batch in read_unit(unit, Format(), Mishaps()) for row in batch.to_pylist()]
        assert [row["text"] for row in texts] == [row["text"] for row in ROWS]


@pytest.mark.parametrize(("data", "message"), [
    (b'[{"text": "a"}', "breaks off before its end"),
    (b'[{"text": "a', "breaks off before its end"),
    (b'[{"text": "a"}] 7', "is none from byte 16 on"),
    (b'[{"text": "a"}}', "is none from byte 14 on"),
])  # fmt: skip
def test_an_array_that_has_no_end_or_more_is_named(tmp_path: Path, read: Read, data: bytes, message: str) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(SourceError, match=f"a.json begins as a JSON array, and {message}"):
        read(tmp_path / "a.json")


def test_a_bad_element_is_one_mishap(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.json").write_bytes(b'[{"text": "a"}, "b", 3, {"text": "c\nd"}, {"text": x}, {"text": "e"}]')
    mishaps = Mishaps("skip")
    assert [row["text"] for row in read(tmp_path / "a.json", None, mishaps)] == ["a", "e"] and mishaps.skipped == 4


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.fixed_dictionaries({"text": st.text()}, optional={"a": VALUES})), st.sampled_from([None, 0, 3]))
def test_any_array_gives_what_python_reads(tmp_path_factory: Any, rows: list[Any], indent: int | None) -> None:
    path = tmp_path_factory.mktemp("json") / "a.json"
    path.write_text(json.dumps(rows, indent=indent, ensure_ascii=False))
    (unit,) = cut_units([InputFile("web", path, path.name)], {"web": Format()})
    found = [row["text"] for batch in read_unit(unit, Format(), Mishaps()) for row in batch.to_pylist()]
    assert found == [row["text"] for row in rows]
