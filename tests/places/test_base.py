"""What every place has for nothing, once it can open and begin a file."""

from __future__ import annotations

import io
from typing import IO, Any

import pyarrow as pa
import pytest

from gristmill.places.base import Place, Range, read_at


class Scratch(Place):
    """Two methods over a dictionary, and nothing else."""

    files: dict[str, bytes] = {}  # noqa: RUF012 - one for all of a test

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, *, buffered: bool = True) -> IO[bytes]:
        return io.BytesIO(self.files[self.path])

    def attempt(self, buffering: int = -1) -> Any:
        return Begun(self.path)


class Begun:
    def __init__(self, path: str) -> None:
        self.path, self.file = path, io.BytesIO()

    def keep(self) -> None:
        Scratch.files[self.path] = self.file.getvalue()

    def abandon(self) -> None:
        self.file.close()


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scratch, "files", {"a": b"0123456789", "b": b"abcdef"})


def test_parts_are_read_from_any_byte_on() -> None:
    place = Scratch("a")
    assert (place.read(), place.read(3, 2), place.read(8, 9)) == (b"0123456789", b"34", b"89")
    assert read_at(io.BytesIO(b"xyz"), 1, 1) == b"y"


def test_memory_is_filled_with_what_there_is() -> None:
    place, memory = Scratch("a"), bytearray(b"......")
    assert place.read_into(2, memoryview(memory)[:3]) == (3, 0) and memory == b"234..."
    assert place.read_into(8, memoryview(memory)) == (2, 0) and memory == b"894..."


def test_ranges_of_many_files_come_in_their_order() -> None:
    wanted = [Range("a", 2, 3), Range("a", 0, 1), Range("b", 4, 9), Range("a", 9, 1)]
    assert list(Scratch.fetch(wanted)) == [b"234", b"0", b"ef", b"9"]


def test_what_cannot_be_mapped_in_place_is_copied_and_streamed_to_arrow() -> None:
    assert not Scratch.maps and Scratch("b").view().tobytes() == b"abcdef"
    assert isinstance(Scratch("b").arrow(), pa.PythonFile) and Scratch("b").arrow().read() == b"abcdef"


def test_a_file_appears_when_its_block_ends_well_and_not_at_all_when_it_does_not() -> None:
    with Scratch("c").writing() as file:
        file.write(b"new")
        assert "c" not in Scratch.files
    assert Scratch.files["c"] == b"new"
    with pytest.raises(TypeError), Scratch("c").writing() as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert Scratch.files["c"] == b"new"
    Scratch("c").write("text")
    assert Scratch.files["c"] == b"text"
