"""WebDataset tars: which members make a document, and names that must not matter."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import webdataset
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.core.errors import SourceError
from gristmill.sources.base import Format, InputFile, Mishaps, Part
from gristmill.sources.streams import Stream
from gristmill.sources.tar import TarReader
from gristmill.sources.units import read_from
from gristmill.sources.webdataset import _grouped

Read = Callable[..., list[dict[str, Any]]]


def write_tar(path: Path, *members: tuple[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def test_members_of_one_key_are_a_document(tmp_path: Path, read: Read) -> None:
    path = write_tar(
        tmp_path / "a.tar",
        ("d/1.jpg", b"\xff\xd8"),
        ("d/1.txt", "Grüße".encode()),
        ("d/1.json", b'{"id": "x", "url": "u"}'),
        ("d/2.json", b'{"text": "from the JSON", "n": [1, 2]}'),
        ("d/3.text", b"third"),
    )
    mishaps = Mishaps()
    found = read(path, Format(fields=("url", "n")), mishaps)
    assert [(row["id"], row["row"], row["text"]) for row in found] == [
        ("x", 0, "Grüße"), ("web/a.tar:d/2", 1, "from the JSON"), ("web/a.tar:d/3", 2, "third")]  # fmt: skip
    assert [row["url"] for row in found] == ["u", None, None] and found[1]["n"] == "[1,2]"
    assert mishaps.ignored["web"] == 1 and mishaps.skipped == 0


@pytest.mark.parametrize(("name", "mode"), [("a.tar.gz", "w:gz"), ("a.tgz", "w:gz"), ("a.tar.xz", "w:xz")])
def test_packed_tars_are_read(tmp_path: Path, read: Read, name: str, mode: str) -> None:
    assert read(write_tar(tmp_path / name, ("1.txt", b"one"), mode=mode))[0]["text"] == "one"


def test_names_that_climb_write_nothing_and_are_cleaned(tmp_path: Path, read: Read) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    path = write_tar(inner / "a.tar", ("../../evil.txt", b"one"), ("/etc/evil.txt", b"two"), ("./a/../b.txt", b"three"))
    assert [row["id"] for row in read(path)] == ["web/a.tar:evil", "web/a.tar:etc/evil", "web/a.tar:a/b"]
    assert sorted(tmp_path.rglob("*")) == [inner, path]


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_links_that_are_called_as_texts_are_told_and_others_ignored(tmp_path: Path, read: Read, format: int) -> None:
    (tmp_path / "1.txt").write_text("one")
    (tmp_path / "2.txt").hardlink_to(tmp_path / "1.txt")
    (tmp_path / "3.txt").symlink_to("1.txt")
    (tmp_path / "4.json").symlink_to("1.txt")
    (tmp_path / "5.jpg").symlink_to("1.txt")
    (tmp_path / "5.txt").write_text("five")
    os.mkfifo(tmp_path / "6.pipe")
    (tmp_path / "6.txt").write_text("six")
    (tmp_path / "7.txt").mkdir()
    with tarfile.open(tmp_path / "a.tar", "w", format=format) as tar:
        for path in sorted(path for path in tmp_path.iterdir() if path.name[0].isdigit()):
            tar.add(path, path.name)
    with pytest.raises(SourceError, match=r"sample '2' has a member .txt that is a link.*--hard-dereference"):
        read(tmp_path / "a.tar")
    mishaps = Mishaps("skip")
    assert [row["text"] for row in read(tmp_path / "a.tar", None, mishaps)] == ["one", "five", "six"]
    assert mishaps.skipped == 3 and mishaps.ignored["web"] == 2


def test_samples_that_hold_no_text_are_mishaps(tmp_path: Path, read: Read) -> None:
    members = [("1.jpg", b""), ("2.json", b"{"), ("3.json", b"[]"), ("4.json", b'{"txt": 1}'), ("5.txt", b"\xff"),
               ("6.txt", b"good")]  # fmt: skip
    path = write_tar(tmp_path / "a.tar", *members)
    with pytest.raises(SourceError, match=r"a.tar, sample '1' has no member .text, .txt or .json"):
        read(path)
    mishaps = Mishaps("skip")
    assert [row["text"] for row in read(path, None, mishaps)] == ["good"]
    assert mishaps.skipped == 5 and "sample '5' is not utf-8: byte 0" in mishaps.examples[4]


def test_a_key_that_comes_back_is_a_repeated_id(tmp_path: Path, read: Read) -> None:
    with pytest.raises(SourceError, match=r"the id 'web/a.tar:1' of an earlier document"):
        read(write_tar(tmp_path / "a.tar", ("1.txt", b"a"), ("2.txt", b"b"), ("1.txt", b"c")))


def test_a_tar_that_breaks_off_keeps_what_came_before(tmp_path: Path, read: Read) -> None:
    path = write_tar(tmp_path / "a.tar", *((f"{i}.txt", b"text " * 300) for i in range(20)))
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(SourceError, match=r"a.tar is damaged, cut off or no tar after"):
        read(path)
    mishaps = Mishaps("skip")
    assert len(read(path, None, mishaps)) == 9 and mishaps.skipped == 1
    assert "sample '9' breaks off there, and is left out" in mishaps.examples[0]


DAMAGED = {
    "text": (["4.txt"], "before that, '4', is kept and may lack members", 5),
    "text and another": (["4.txt", "4.jpg"], "before that, '4', is kept and may lack members", 5),
    "JSON alone": (["4.json"], "sample '4' breaks off there, and is left out", 4),
    "another alone": (["4.jpg"], "sample '4' breaks off there, and is left out", 4),
}


@pytest.mark.parametrize(("last", "fate", "count"), DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_the_sample_before_the_damage_is_kept_where_it_has_a_text_and_told_in_any_case(
    tmp_path: Path, read: Read, last: list[str], fate: str, count: int, name: str
) -> None:
    names = [*(f"{i}.txt" for i in range(4)), *last, "5.txt", "6.txt"]
    data = bytearray(write_tar(tmp_path / "b.tar", *((name, b"{}") for name in names)).read_bytes())
    at = 1024 * (4 + len(last))
    data[at : at + 512] = b"damage! " * 64
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(SourceError, match=rf"a wrong checksum|a bad number.*{fate}"):
        read(tmp_path / name)
    mishaps = Mishaps("skip")
    assert len(read(tmp_path / name, None, mishaps)) == count
    assert mishaps.skipped == 1 and fate in mishaps.examples[0]


def test_the_last_sample_of_a_packed_tar_that_breaks_off_is_kept(tmp_path: Path, read: Read) -> None:
    data = write_tar(tmp_path / "b.tar", *((f"{i}.txt", b"text") for i in range(4))).read_bytes()
    begun = zlib.compressobj(wbits=31)
    (tmp_path / "a.tar.gz").write_bytes(begun.compress(data[: 3 * 1024]) + begun.flush(zlib.Z_FULL_FLUSH))
    mishaps = Mishaps("skip")
    assert len(read(tmp_path / "a.tar.gz", None, mishaps)) == 3
    assert mishaps.skipped == 1 and "after 3,072 unpacked bytes" in mishaps.examples[0]
    assert "before that, '2', is kept and may lack members" in mishaps.examples[0]


@pytest.mark.parametrize(("text", "found"), [
    ("text", ["TEXT", "TXT1"]), ("txt", ["TXT", "TXT1"]), ("TXT", ["TXT", "TXT1"]), ("TEXT", ["TEXT"]),
])  # fmt: skip
def test_a_named_text_is_that_one_alone_and_the_default_prefers_it(
    tmp_path: Path, read: Read, text: str, found: list[str]
) -> None:
    path = write_tar(tmp_path / "a.tar", ("0.TEXT", b"TEXT"), ("0.txt", b"TXT"), ("1.Txt", b"TXT1"))
    mishaps = Mishaps("skip")
    assert [row["text"] for row in read(path, Format(text=text), mishaps)] == found
    assert mishaps.skipped == 2 - len(found)
    only = write_tar(tmp_path / "b.tar", ("1.text", b"TEXT"))
    if text.lower() == "txt":
        with pytest.raises(SourceError, match=r"sample '1' has no member \.txt or \.json"):
            read(only, Format(text=text))


NAMES = st.sampled_from(["0.txt", "./0.txt", "../0.json", "0.json", "d/0.txt", "d//0.json", "./d/0.txt", "1.jpg"])


@settings(max_examples=60, deadline=None)
@given(st.lists(NAMES, max_size=8))
def test_samples_are_those_of_the_webdataset_package_by_names_as_they_stand(
    tmp_path_factory: Any, names: list[str]
) -> None:
    path = write_tar(tmp_path_factory.mktemp("tar") / "a.tar", *((name, b"{}") for name in names))
    try:
        theirs = [
            (sample["__key__"], sorted(key for key in sample if not key.startswith("__")))
            for sample in webdataset.WebDataset(str(path), shardshuffle=False, empty_check=False)
        ]
    except ValueError:  # of two members of one name
        theirs = None
    file, found = InputFile("web", path, path.name), []
    with Stream(file) as stream:
        for _, members in _grouped(TarReader(stream), Counter(), "web"):
            each = list(members)
            found.append((each[0].key, sorted(member.suffix for member in each)))
    assert theirs is None or found == theirs
    assert (theirs is None) == any(len(set(suffixes)) < len(suffixes) for _, suffixes in found)


def test_names_that_are_one_only_once_they_are_cleaned_are_two_samples_of_one_id(tmp_path: Path, read: Read) -> None:
    path = write_tar(tmp_path / "a.tar", ("./0.txt", b"one"), ("0.txt", b"two"), ("1.txt", b"three"))
    with pytest.raises(SourceError, match=r"has at 1 the id 'web/a.tar:0' of an earlier document"):
        read(path)
    assert [row["text"] for row in read(path, None, Mishaps("skip"))] == ["one", "three"]


def test_a_file_that_is_no_tar_is_named(tmp_path: Path, read: Read) -> None:
    (tmp_path / "a.tar").write_bytes(b"no tar " * 200)
    with pytest.raises(SourceError, match=r"a.tar is damaged, cut off or no tar"):
        read(tmp_path / "a.tar")


def test_members_without_a_key_belong_to_no_sample_as_in_the_webdataset_package(tmp_path: Path, read: Read) -> None:
    nothing = [(name, b"?") for name in ("README", ".hidden.txt", "d/__meta__", "__info__/x.txt")]
    members = [("1.txt", b"one"), *nothing, ("1.json", b'{"id": "x"}')]
    mishaps = Mishaps()
    assert [row["id"] for row in read(write_tar(tmp_path / "a.tar", *members), None, mishaps)] == ["x"]
    assert mishaps.ignored["web"] == 4


def test_the_text_is_the_member_that_is_called_as_the_text_field(tmp_path: Path, read: Read) -> None:
    path = write_tar(tmp_path / "a.tar", ("1.txt", b"one"), ("1.en.md", b"two"), ("2.txt", b"three"))
    assert [row["text"] for row in read(path)] == ["one", "three"]
    mishaps = Mishaps("skip")
    assert [row["text"] for row in read(path, Format(text="en.md"), mishaps)] == ["two"]
    assert mishaps.skipped == 1  # a text that was not asked for is no text
    with pytest.raises(SourceError, match=r"sample '2' has no member \.en\.md or \.json\. Name the member by text="):
        read(path, Format(text="en.md"))


def test_a_member_that_comes_twice_in_a_sample_is_a_mishap(tmp_path: Path, read: Read) -> None:
    path = write_tar(tmp_path / "a.tar", ("1.txt", b"one"), ("1.TXT", b"other"), ("2.txt", b"two"))
    with pytest.raises(SourceError, match=r"sample '1' has two members .txt"):
        read(path)
    assert [row["text"] for row in read(path, None, Mishaps("skip"))] == ["two"]


# Parts of a tar.


def of_parts(path: Path, edges: list[int], mishaps: Mishaps) -> list[tuple[int, str, str]]:
    """The documents of a tar that is cut at these bytes."""
    file = InputFile("web", path, path.name)
    starts = sorted({0, *edges})
    parts = [Part(file, start, stop) for start, stop in zip(starts, [*starts[1:], None], strict=True)]
    return [row for part in parts for row in of_part(part, None, mishaps)]


def of_part(part: Part, at: int | None, mishaps: Mishaps) -> list[tuple[int, str, str]]:
    batches = read_from(part, at, Format(), mishaps)
    return [(row["row"], row["id"], row["text"]) for batch in batches for row in batch.to_pylist()]


def nested() -> bytes:
    """A tar, which a member of another may well be."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("inner.txt", "inner.json"):
            member = tarfile.TarInfo(name)
            member.size = 2
            tar.addfile(member, io.BytesIO(b"{}"))
    return out.getvalue()


KEYS = st.sampled_from(["a", "b", "d/a", "x" * 120, "ü" * 90, "../c"])
SUFFIXES = st.sampled_from(["txt", "json", "jpg", "tar"])
DATA = st.sampled_from([b"{}", b"[1", b"text " * 200, b"\xff", nested()])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(KEYS, SUFFIXES, DATA), max_size=8),
    st.lists(st.integers(0, 30_000), max_size=5),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    st.none() | st.integers(512, 30_000),
)
def test_a_tar_has_the_same_samples_however_it_is_cut_and_damaged(
    tmp_path_factory: Any, members: list[Any], edges: list[int], format: int, end: int | None
) -> None:
    path = tmp_path_factory.mktemp("tar") / "a.tar"
    with tarfile.open(path, "w", format=format) as tar:
        for key, suffix, data in members:
            member = tarfile.TarInfo(f"{key}.{suffix}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    path.write_bytes(path.read_bytes()[:end])
    whole, cut = Mishaps("skip"), Mishaps("skip")
    wanted = of_parts(path, [], whole)
    assert of_parts(path, edges, cut) == wanted
    assert (cut.skipped, cut.ignored) == (whole.skipped, whole.ignored)
    for i, (at, _, _) in enumerate(wanted):
        assert of_part(Part(InputFile("web", path, path.name)), at, Mishaps("skip")) == wanted[i:]
