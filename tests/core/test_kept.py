"""What is kept is found again whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.core.kept import is_kept, keep, keep_in, module_path, read_kept, sources


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    path = tmp_path / "module.py"
    path.write_text("X = 1\n")
    return path


def kept(source: Path) -> Path:
    (found,) = (source.parent / "kept").iterdir()
    return found


def test_what_was_kept_is_read_under_its_name(source: Path) -> None:
    assert read_kept(source, "table") is None and not is_kept(source, "table")
    keep(source, "table", b"content")
    assert read_kept(source, "table") == b"content" and is_kept(source, "table")
    assert read_kept(source, "other") is None


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:5] + b"x" + data[6:], lambda data: b""])
def test_a_file_that_is_not_whole_is_not_found(source: Path, damage: object) -> None:
    keep(source, "table", b"content")
    kept(source).write_bytes(damage(kept(source).read_bytes()))  # type: ignore[operator]
    assert read_kept(source, "table") is None


def test_what_other_sources_made_goes_when_the_new_comes(source: Path) -> None:
    keep(source, "table", b"content")
    other = source.with_name("changed.py")
    other.write_text("X = 2\n")
    assert read_kept(other, "table") is None
    keep(other, "table", b"new")
    assert read_kept(other, "table") == b"new" and kept(source).name.startswith("table.")


def test_a_module_stands_on_all_of_ours_that_it_imports() -> None:
    found = sources(module_path("gristmill.core.kept"))
    assert {module_path(f"gristmill.core.{name}") for name in ("kept", "errors", "hashing")} <= found
    assert module_path("gristmill.core").name == "__init__.py"


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        keep_in(str(tmp_path / "file" / "folder"))
