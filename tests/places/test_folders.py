"""Claims on folders, temporary names, and what may be deleted by them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.places.door import place_at
from gristmill.places.folders import LOCK, UNFINISHED, OwnFolder, claim, only_run, read_claim, refuse_others, remove
from gristmill.places.local import is_temporary, temporary_path


def test_temporary_names_are_ours_beyond_doubt_and_never_the_same(tmp_path: Path) -> None:
    names = {temporary_path(tmp_path / "x.bin").name for _ in range(1000)}
    assert len(names) == 1000 and all(is_temporary(name) for name in names)
    for name in (".x.tmp", ".x.bin.123.tmp", "x.bin.gristmill-0123456789abcdef.tmp", ".x.gristmill-0123.tmp"):
        assert not is_temporary(name)


def test_what_a_killed_writer_left_goes_and_what_is_being_written_stays(tmp_path: Path) -> None:
    left = temporary_path(tmp_path / "x.bin")
    left.write_bytes(b"half")
    others = [tmp_path / ".x.bin.tmp", temporary_path(tmp_path / "y.bin")]
    for other in others:
        other.write_bytes(b"mine")
    with place_at(tmp_path / "x.bin").writing() as file:
        file.write(b"whole")
        place_at(tmp_path / "x.bin").clear_leftovers()
    assert sorted(tmp_path.iterdir()) == sorted([*others, tmp_path / "x.bin"])
    assert (tmp_path / "x.bin").read_bytes() == b"whole"


def test_a_file_that_is_written_replaces_a_link_and_not_its_target(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    place_at(tmp_path / "link").write("ours")
    assert (tmp_path / "precious").read_text() == "mine" and not (tmp_path / "link").is_symlink()


def test_a_claim_names_files_before_they_appear_and_is_read_back(tmp_path: Path) -> None:
    made = claim(tmp_path, {"making": "store"}, ["a"])
    made.add(["b", "c"])
    with open(tmp_path / UNFINISHED, "a") as file:
        file.write('"cut o')  # killed while it wrote a name: that file has not appeared
    found = read_claim(tmp_path)
    assert found is not None and (found.about, found.names) == ({"making": "store"}, {"a", "b", "c"})
    claim(tmp_path, {"making": "store"}).add(["d"])
    found = read_claim(tmp_path)
    assert found is not None and found.names == {"a", "b", "c", "d"}
    made.release()
    assert read_claim(tmp_path) is None


def test_only_what_is_ours_is_removed_and_no_link_is_followed(tmp_path: Path) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    for path in (folder / "own" / "a", folder / "own" / "b", folder / "mine" / "a", other / "a"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (folder / "linked").symlink_to(other)
    remove(folder, lambda name: name in ("own/", "own/a", "linked", "linked/", "linked/a", "mine/a"))
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if not path.is_dir())
    assert left == ["folder/mine/a", "folder/own/b", "other/a"]


def test_a_refused_folder_gets_no_lock(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    def look() -> None:
        refuse_others(tmp_path, lambda name: name == ".lock", "a store")

    with pytest.raises(ConfigError, match=r"mine is no part of a store"), only_run(tmp_path, look):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@dataclass(frozen=True)
class Jar(OwnFolder):
    """A thing of grains (`*.grain`), finished by its lid, which lists them; a run goes on from grains that it named."""

    making = "empty jar"
    last = "lid"

    root: Path
    colour: str = "blue"

    @property
    def about(self) -> dict[str, object]:
        return {"making": self.making, "command": "fill", "colour": self.colour}

    def listed(self) -> set[str] | None:
        lid = self.root / self.last
        return set(lid.read_text().split()) if lid.exists() else None

    def is_own(self, name: str, files: set[str] | None) -> bool:
        return files is not None and (name == self.last or name in files)

    def resumes(self, name: str, files: set[str]) -> bool:
        return name in files and name.endswith(".grain")

    def fill(self, *grains: str, overwrite: bool = False, cut: bool = False) -> set[str]:
        """Put grains in and the lid on, unless the run is cut short before that; what the run found in the jar."""
        with self.held(overwrite) as made:
            found = {path.name for path in self.root.iterdir()} - {LOCK, UNFINISHED}
            made.add(grains)
            for grain in grains:
                (self.root / grain).touch()
            if not cut:
                (self.root / self.last).write_text("\n".join(grains))
                self.end(made)
        return found


def inside(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {LOCK}


def test_a_thing_is_known_by_its_last_file_and_is_replaced_only_if_that_is_said(tmp_path: Path) -> None:
    jar = Jar(tmp_path)
    jar.fill("a.grain", "b.grain")
    assert inside(tmp_path) == {"a.grain", "b.grain", "lid"}
    with pytest.raises(ConfigError, match="already holds an empty jar"):
        jar.fill("c.grain")
    with pytest.raises(ConfigError, match="already holds an empty jar"):
        jar.look(overwrite=False)
    assert jar.fill("c.grain", overwrite=True) == set()
    assert inside(tmp_path) == {"c.grain", "lid"}


def test_a_run_that_was_cut_short_goes_on_from_what_it_made_and_another_begins_anew(tmp_path: Path) -> None:
    jar, other = Jar(tmp_path), Jar(tmp_path, "red")
    jar.fill("a.grain", "a.dust", cut=True)
    assert jar.fill("b.grain", cut=True) == {"a.grain"}
    with pytest.raises(ConfigError, match="holds an unfinished fill: run that again"):
        other.fill("c.grain")
    assert other.fill("c.grain", overwrite=True) == set()
    assert inside(tmp_path) == {"c.grain", "lid"}


def test_what_is_killed_between_its_last_two_steps_is_whole(tmp_path: Path) -> None:
    jar = Jar(tmp_path)
    jar.fill("a.grain", cut=True)
    (tmp_path / "lid").write_text("a.grain")
    with pytest.raises(ConfigError, match="already holds"):
        jar.look(overwrite=False)
    assert inside(tmp_path) == {"a.grain", "lid"}


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut short"])
@pytest.mark.parametrize("overwrite", [False, True], ids=["new", "overwrite"])
def test_a_file_of_others_stops_every_run_before_it_writes_or_deletes(
    tmp_path: Path, cut: bool, overwrite: bool
) -> None:
    jar = Jar(tmp_path)
    jar.fill("a.grain", cut=cut)
    (tmp_path / "b.grain").write_text("of somebody, though it looks like ours")
    before = inside(tmp_path)
    with pytest.raises(ConfigError, match=r"b\.grain is no part of an empty jar"):
        jar.fill("c.grain", overwrite=overwrite)
    assert inside(tmp_path) == before


def test_the_claim_of_another_kind_of_thing_is_a_file_of_others(tmp_path: Path) -> None:
    claim(tmp_path, {"making": "store"}, ["a.grain"])
    with pytest.raises(ConfigError, match=f"{UNFINISHED} is no part of an empty jar"):
        Jar(tmp_path).fill("a.grain", overwrite=True)
