"""Plain text by files, lines and paragraphs, in UTF-8 and other encodings: the lines that Python splits."""

from __future__ import annotations

from pathlib import Path

from _sources import raise_if, read_in_all_ways

from gristmill.sources.base import Format

CASES = (500, 100_000)
FORMATS = (
    Format(), Format(documents="line"), Format(documents="paragraph"), Format(documents="line", encoding="utf-16"),
    Format(documents="line", encoding="utf-7"), Format(documents="paragraph", encoding="cp1252"),
    Format(documents="line", encoding="shift_jis"), Format(documents="line", encoding="unicode_escape"),
)  # fmt: skip


def seeds() -> list[bytes]:
    text = "A line.\nGrüße\r\n\n \t\nTwo paragraphs, 世界\n\x0b\n last \\u00e9 \\ud800 +AGE-"
    return [text.encode(), text.encode("utf-16"), b"\xef\xbb\xbf" + text.encode(), b"\n\n\r\n", b"a\0b", b"caf\xe9"]


def attempt(data: bytes, folder: Path) -> None:
    format = FORMATS[(len(data) + 1) % len(FORMATS)]
    rows, skipped = read_in_all_ways(data, folder / "a.txt", format)
    if format is FORMATS[1] and not skipped:
        lines = [line.removesuffix(b"\r") for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
        assert [row["text"].encode() for row in rows] == [line for line in lines if line.strip(b" \t\n\r\x0b\x0c")]
    raise_if(skipped)
