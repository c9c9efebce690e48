"""A run that was cut short goes on; what changed is done again, and only that."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill.curate.dedup.near import Near
from gristmill.stages import work

Run = Callable[..., Path]
Read = Callable[[Path], dict[str, Any]]

# What is written into the store itself, and not into work that is kept.
OF_THE_STORE = {"shards", "account"}


class Cut(Exception):
    """A run's sudden end."""


@pytest.fixture
def performed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs that were really done, as STAGE/NUMBER; `cut_after(n)` is in test_a_run_that_ends_after_any_job."""
    done: list[str] = []
    original = work.perform

    def noting(job: Any) -> Any:
        result = original(job)
        done.append(f"{job.marker.parent.name}/{job.marker.stem}")
        return result

    monkeypatch.setattr(work, "perform", noting)
    return done


@pytest.fixture
def cut_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    def set_limit(limit: int) -> None:
        original, count = work.perform, iter(range(limit))

        def limited(job: Any) -> Any:
            if next(count, None) is None:
                raise Cut
            return original(job)

        monkeypatch.setattr(work, "perform", limited)

    return set_limit


def cuts() -> Iterator[int]:
    """Six jobs a pass (curate, lines, trim, sign, tokens), then shards."""
    yield from (0, 1, 5, 6, 7, 13, 20, 26, 31, 33)


@pytest.mark.parametrize("limit", list(cuts()))
def test_a_run_that_ends_after_any_job_goes_on_to_the_same_bytes(
    run: Run, read: Read, whole: dict[str, Any], cut_after: Callable[[int], None], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path, limit: int,
) -> None:  # fmt: skip
    with monkeypatch.context():
        cut_after(limit)
        with pytest.raises(Cut):
            run("out")
    monkeypatch.undo()
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert read(run("out")) == whole


def test_nothing_is_done_twice(run: Run, performed: list[str]) -> None:
    run("one", run={"work": "kept"})
    first = list(performed)
    performed.clear()
    run("two", run={"work": "kept"})
    assert len(first) > 30 and stages(performed) == OF_THE_STORE


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def stages(performed: list[str]) -> set[str]:
    return {name.partition("/")[0] for name in performed}


def test_another_tokenizer_is_no_reason_to_filter_again(run: Run, performed: list[str]) -> None:
    run("one", run={"work": "kept"})
    performed.clear()
    run("two", run={"work": "kept"}, tokenizer="gpt2")
    assert stages(performed) == {"tokens", "split", "plan", *OF_THE_STORE}


def test_another_dedup_is_no_reason_to_read_again(run: Run, performed: list[str]) -> None:
    run("one", run={"work": "kept"}, dedup=["exact", "near"])
    performed.clear()
    run("two", run={"work": "kept"}, dedup=["exact", Near(threshold=0.9)])
    assert stages(performed) == {"sign", "sets", "edges", "resolved", "tokens", "plan", *OF_THE_STORE}


def test_a_changed_file_is_read_again_and_the_others_are_not(
    run: Run, read: Read, corpus: Path, tmp_path: Path, performed: list[str]
) -> None:
    raw = Path(shutil.copytree(corpus, tmp_path / "copy"))
    run("one", raw=raw, run={"work": "kept"})
    with open(raw / "3.jsonl", "a") as file:
        file.write('{"id": "new", "text": "' + "Another text, which the corpus did not have before. " * 9 + '"}\n')
    performed.clear()
    again = run("two", raw=raw, run={"work": "kept"})
    assert [name for name in performed if name.startswith("curate")] == ["curate/00300000"]
    assert read(again) == read(run("fresh", raw=raw))


def test_a_lost_file_of_finished_work_is_made_again(run: Run, read: Read, whole: dict[str, Any]) -> None:
    run("one", run={"work": "kept"})
    for path in (*Path("kept/curate").glob("*2*.parquet"), *Path("kept/tokens").glob("*4*.bin")):
        path.unlink()
    assert read(run("two", run={"work": "kept"})) == whole


def test_a_finished_run_leaves_no_work(run: Run) -> None:
    assert not (run("out") / ".work").exists()
