"""Repeated lines and paragraphs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.core.errors import ConfigError
from gristmill.curate.base import KEEP
from gristmill.curate.dedup import lines as module
from gristmill.curate.dedup.lines import (
    Lines,
    Removals,
    by_hash,
    line_hashes,
    removals_of,
    remove_lines,
    repeated_lines,
)

BLANKS = " \t\r\v\f"
SHORT = Lines(min_chars=1)


def _after(engine: Any, batches: list[Any], options: Lines, work: Path, dropped: list[Path]) -> list[Any]:
    """The verdict on each batch (a unit) after all three passes."""
    work.mkdir(parents=True, exist_ok=True)
    files = [work / f"hashes-{i}.parquet" for i in range(len(batches))]
    for documents, file in zip(batches, files, strict=True):
        pq.write_table(by_hash([line_hashes(documents.batch, options)]), file)
    tables = {"lines": files, **({"dropped": dropped} if dropped else {})}
    count = module.passes(sum(pq.read_metadata(file).num_rows for file in files))
    found = [pq.read_table(engine.query(repeated_lines(i, count, bool(dropped)), tables, work / f"lines-{i}.parquet"))
             for i in range(count)]  # fmt: skip
    units = [[table.filter((pc.field("doc") >= i << 32) & (pc.field("doc") < (i + 1) << 32)) for table in found]
             for i in range(len(batches))]  # fmt: skip
    return [remove_lines(documents, removals_of(unit), options) for documents, unit in zip(batches, units, strict=True)]


def _texts(verdict: Any) -> list[str]:
    return verdict.documents.batch.column("text").to_pylist()


def test_first_copy_in_the_corpus_stays(make_batch: Any, engine: Any, tmp_path: Path) -> None:
    licence = "Licensed under the Apache License, Version 2.0"
    batches = [
        make_batch([f"{licence}\nfirst body\n}}\n}}", f"second\n  {licence}  \n}}"]),
        make_batch([f"{licence}\n{licence}", "untouched\n\n"], unit=1),
    ]
    first, second = _after(engine, batches, Lines(), tmp_path / "w", [])
    assert _texts(first) == [f"{licence}\nfirst body\n}}\n}}", "second\n}"]
    assert first.codes.tolist() == [KEEP, KEEP] and first.values.tolist() == [0, 1]
    assert second.codes.tolist() == [0, KEEP] and second.reasons == ("repeated_lines",)
    assert _texts(second)[1] == "untouched\n\n"


def test_lines_of_documents_already_gone_are_no_copies(make_batch: Any, engine: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"doc": pa.array([0], pa.int64())}), tmp_path / "gone.parquet")
    batch = make_batch(["a line of more than twenty letters"] * 3)
    (verdict,) = _after(engine, [batch], Lines(), tmp_path / "w", [tmp_path / "gone.parquet"])
    assert verdict.codes.tolist() == [KEEP, KEEP, 0]


def test_short_lines_are_counted_in_characters(make_batch: Any) -> None:
    nineteen, twenty = "ä" * 19, "ä" * 20
    rows = line_hashes(make_batch([f"\n  {nineteen}  \n{twenty}\n"]).batch, Lines())
    assert rows.column("line").to_pylist() == [2]


def test_paragraphs_go_as_a_whole(make_batch: Any, engine: Any, tmp_path: Path) -> None:
    notice = "Copyright by somebody,\nall rights are reserved."
    texts = [f"{notice}\n\nOne.\n", f"\n\nTwo.\n \n{notice}\n\n\nThree.", f"{notice}\n\nFour.", f"Five.\n\n{notice}\n"]
    (verdict,) = _after(engine, [make_batch(texts)], Lines(unit="paragraph"), tmp_path / "w", [])
    assert _texts(verdict) == [texts[0], "\n\nTwo.\n\n\nThree.", "Four.", "Five.\n"]


def test_passes_and_engines_find_the_same(
    make_batch: Any, texts_of: Any, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["\n".join(re.findall(r"(?:\S+\s+){1,8}", text)) for text in texts_of(60)]
    batches = [make_batch(texts), make_batch(texts[30:] + texts_of(20, seed=1), unit=1)]
    whole = _after(engine, batches, Lines(), tmp_path / "whole", [])
    monkeypatch.setattr(module, "LINES_A_PASS", 400)
    cut = _after(engine, batches, Lines(), tmp_path / "cut", [])
    assert len(list((tmp_path / "cut").glob("lines-*"))) > 3
    assert [_texts(v) for v in whole] == [_texts(v) for v in cut]
    assert whole[1].values.sum() > 100


def _forged(line: bytes) -> bytes:
    """Another line of letters with the multiply-and-shift hash of this one, which told lines apart once."""
    mask, factor, seed = (1 << 64) - 1, 0x589965CC75374CC3, 0x8EBC6AF09C88C6E3

    def after(word: int) -> int:
        hashed = ((seed ^ len(line) ^ word) * factor) & mask
        return hashed ^ (hashed >> 32)

    first, second = (int.from_bytes(line[i : i + 8], "little") for i in (0, 8))
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    for number in range(20_000_000):
        other = bytes(letters[number // 52**i % 52] for i in range(5)) + line[5:8]
        rest = (after(first) ^ second ^ after(int.from_bytes(other, "little"))).to_bytes(8, "little")
        if other != line[:8] and all(32 < byte < 127 for byte in rest):
            return other + rest + line[16:]
    raise AssertionError


def test_a_line_that_was_made_to_collide_removes_no_other(make_batch: Any, engine: Any, tmp_path: Path) -> None:
    line = b"The first line that was written."
    documents = make_batch([_forged(line).decode(), line.decode()])
    (verdict,) = _after(engine, [documents], Lines(), tmp_path / "w", [])
    assert verdict.codes.tolist() == [KEEP, KEEP] and _texts(verdict)[1] == line.decode()


LINE = st.text(st.sampled_from("ab \t\r§"), max_size=4)


@given(texts=st.lists(st.lists(LINE, max_size=6).map("\n".join), min_size=1, max_size=4), data=st.data())
def test_lines_are_what_split_gives(make_batch: Any, texts: list[str], data: st.DataObject) -> None:
    documents = make_batch(texts)
    rows = line_hashes(documents.batch, SHORT)
    expected = [
        (doc, number, line.strip(BLANKS))
        for doc, text in enumerate(texts)
        for number, line in enumerate(text.split("\n"))
        if line.strip(BLANKS)
    ]
    assert [row[:2] for row in expected] == list(zip(rows["doc"].to_pylist(), rows["line"].to_pylist(), strict=True))
    assert len({row[2] for row in expected}) == len(set(rows["hash"].to_pylist()))
    gone = sorted(data.draw(st.sets(st.sampled_from([row[:2] for row in expected])))) if expected else []
    docs, lines = (pa.array([row[i] for row in gone], pa.int64()).to_numpy() for i in (0, 1))
    left = [
        "\n".join(line for number, line in enumerate(text.split("\n")) if (doc, number) not in gone)
        for doc, text in enumerate(texts)
    ]
    assert _texts(remove_lines(documents, Removals(docs, lines), SHORT)) == left


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="unit"):
        Lines(unit="word")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="min_chars"):
        Lines(min_chars=0)
