"""What is compiled ahead for a recipe is what a run of it imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gristmill.curate.rules import RULES
from gristmill.recipe import as_recipe
from gristmill.stages.warming import _DEDUP, _RULES, _all_kernels, _shares, kernels

RUN = """
import dataclasses, json, sys
import gristmill as gm
from gristmill.core.kept_entries import entries
from gristmill.curate.chain import Curation
from gristmill.recipe import as_recipe
recipe = as_recipe(json.loads(sys.argv[1]))
Curation(recipe.clean, tuple(recipe.filters)).warm()  # each rule by itself, whatever the others drop
gm.prepare(dataclasses.replace(recipe, filters=()), progress=False)
print(json.dumps([name for name in sys.modules if name.startswith("gristmill.") and entries(name)]))
"""
FILTERS: list[Any] = [
    "length", {"language": {"keep": ["en"], "min_score": 0}}, "gopher_quality", "gopher_repetition", "c4", "fineweb",
    "profanity", {"code_ratio": {"max": 1.0}}, "code_quality", "c4_paragraph",
]  # fmt: skip


@pytest.fixture
def recipe(tmp_path: Path) -> dict[str, Any]:
    words = "The miller said that it would be good to have flour with the bread of the town, and more of it still. "
    lines = [json.dumps({"text": f"Number {number}. {words * 9}\n{words * 3}"}) for number in range(20)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    return {"out": str(tmp_path / "out"), "sources": [{"name": "in", "paths": [str(tmp_path / "in.jsonl")]}],
            "tokenizer": "byte"}  # fmt: skip


def imported(recipe: dict[str, Any]) -> set[str]:
    """The modules with kernels that a run imports, in a fresh process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", RUN, json.dumps(recipe)]
    return set(json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout))


@pytest.mark.parametrize("parts", [
    {},
    {"clean": {"redact": ["email"]}, "filters": FILTERS, "dedup": ["exact", "lines", "near"]},
    {"filters": [{"gopher_quality": {"variant": "datatrove"}}, {"c4": {"variant": "datatrove"}}]},
], ids=["nothing", "everything", "datatrove"])  # fmt: skip
def test_all_that_a_run_compiles_is_compiled_ahead(recipe: dict[str, Any], parts: dict[str, Any]) -> None:
    ahead = {name for name in kernels(as_recipe(recipe | parts)) if ":" not in name}
    found = imported(recipe | parts)
    assert found <= ahead and ahead - found <= {"gristmill.sources.json_arrays", "gristmill.core.kernels.texts"}


def test_looking_for_what_is_missing_does_not_import_numba(recipe: dict[str, Any]) -> None:
    looked = """
import json, sys
from gristmill.recipe import as_recipe
from gristmill.stages.warming import _missing, kernels
_missing(kernels(as_recipe(json.loads(sys.argv[1]))))
print("numba" in sys.modules)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", looked, json.dumps(recipe | {"filters": FILTERS, "dedup": ["near"]})]
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == "False\n"


def test_every_rule_has_said_what_it_compiles() -> None:
    assert _RULES.keys() == RULES.keys() and _DEDUP.keys() == {"exact", "lines", "near"}
    named = {f"gristmill.curate.rules.{name}_kernels" for names in _RULES.values() for name in names}
    named |= {f"gristmill.curate.dedup.{name}_kernels" for names in _DEDUP.values() for name in names}
    assert named <= set(_all_kernels())


def test_shares_are_whole_and_about_even() -> None:
    tasks = _all_kernels()
    first, second = _shares(tasks, 2)
    assert sorted(first + second) == tasks and abs(len(first) - len(second)) < 10
    assert [task for share in _shares(tasks, 40) for task in share if share] and len(_shares(tasks, 40)) == 40
