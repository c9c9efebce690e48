"""`bench`, `warm` and `demo`: what this machine can do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


@pytest.mark.parametrize("extra", [(), ("--keys", "labels,doc_ids", "--cut", "pad")])
def test_bench_measures_each_number_of_threads(gristmill: Command, store: Path, extra: tuple[str, ...]) -> None:
    options = ("--seq-len", 32, "--batch-size", 4, "--seconds", "0.2", *extra)
    rows = gristmill("bench", store, *options, "--json").json
    assert [row["threads"] for row in rows] == [0, 1, 2] and all(row["tokens_per_second"] > 0 for row in rows)


def test_bench_shows_a_table_and_reads_bare_files(gristmill: Command, bare: Path) -> None:
    options = ("--seq-len", 32, "--batch-size", 4, "--seconds", "0.2", "--dtype", "uint16", "--eos", 256)
    assert "million tokens/s" in gristmill("bench", bare, *options).out


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--cut", "pck"), "did you mean 'pack'"), (("--keys", "lables"), "did you mean 'labels'"),
     (("--cut", "pack", "--seq-len", "32"), "gristmill index"), (("--seq-len", "0"), "--seq-len must be")],
)  # fmt: skip
def test_bench_names_a_mistake(call: Command, store: Path, options: tuple[str, ...], message: str) -> None:
    assert message in call("bench", store, "--seconds", "0.1", *options, code=2).said


def test_warm_compiles_what_a_recipe_uses_into_a_folder_once(gristmill: Command, tmp_path: Path) -> None:
    recipe, kept = tmp_path / "r.yaml", tmp_path / "kept"
    recipe.write_text(
        f"out: {tmp_path / 'out'}\nsources: [{{name: a, paths: [{tmp_path / 'a.txt'}]}}]\ntokenizer: byte\n"
    )
    ran = gristmill("warm", "--recipe", recipe, "--dir", kept)
    assert "4 kernels were compiled" in ran.out and "which happens once" in ran.said
    assert {path.suffix for path in kept.iterdir()} == {".kept"}
    assert gristmill("warm", "--recipe", recipe, "--dir", kept, "--json").json == {"compiled": []}


def test_warm_names_a_folder_that_cannot_be_written(call: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in call("warm", "--dir", tmp_path / "file" / "below", code=2).said
