"""The registry: every name loads, options are strict, and what a rule depends on is told."""

from __future__ import annotations

import importlib
import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from gristmill.core.errors import ConfigError
from gristmill.curate.rules import RULES, content, make_rule

REQUIRED = {"function": {"path": __file__}, "fasttext": {"model": "model.bin", "label": "toxic"}}


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_made_by_its_name(name):
    rule = make_rule(name, REQUIRED.get(name))
    assert rule.name == name
    assert inspect.getdoc(rule)
    assert hash(rule) == hash(pickle.loads(pickle.dumps(rule)))


@pytest.mark.parametrize("name", sorted(set(RULES) - set(REQUIRED)))
def test_no_options_are_the_defaults(name):
    assert make_rule(name) == make_rule(name, {}) == make_rule(name, None)


@pytest.mark.parametrize("name", sorted(set(RULES) - set(REQUIRED)))
def test_content_survives_json(name):
    told = content(make_rule(name))
    assert told["name"] == name
    assert json.loads(json.dumps(told))["options"].keys() == told["options"].keys()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lenght", {}, "did you mean 'length'"),
        ("length", {"min_char": 3}, "did you mean 'min_chars'"),
        ("length", {"min_chars": "many"}, "min_chars cannot be 'many': it is a whole number"),
        ("length", {"min_chars": True}, "whole number"),
        ("length", {"max_chars": 1.5}, "a whole number of 0 or more or nothing"),
        ("length", [3], "must be a mapping"),
        ("language", {"keep": "en"}, "a list"),
        ("language", {"min_score": "high"}, "a number"),
        ("function", {}, "path"),
    ],
)
def test_mistakes_are_explained(name, options, message):
    with pytest.raises(ConfigError, match=message):
        make_rule(name, options)


def test_a_list_from_a_recipe_is_frozen():
    assert make_rule("language", {"keep": ["en", "de"]}) == make_rule("language", {"keep": ("en", "de")})


def loaded_by(code):
    """Modules of rules, and numba, that are in memory after `code` ran in a fresh process."""
    code += "\nimport sys, json; print(json.dumps(list(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    prefix = "gristmill.curate.rules."
    return [name.removeprefix(prefix) for name in json.loads(out) if name.startswith(prefix) or name == "numba"]


def test_the_registry_imports_no_rule():
    assert loaded_by("import gristmill.curate.rules") == []


def test_rule_modules_do_not_import_numba():
    modules = sorted({target.partition(":")[0] for target in RULES.values()})
    found = loaded_by("\n".join(f"import gristmill.curate.rules.{module}" for module in modules))
    assert set(modules) <= set(found) and "numba" not in found


def test_names_point_to_classes():
    for target in RULES.values():
        module, _, of = target.partition(":")
        assert inspect.isclass(getattr(importlib.import_module(f"gristmill.curate.rules.{module}"), of))


def test_content_is_json_and_free_of_folders(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("def keep(document):\n    return True\n")
    made = content(make_rule("function", {"path": str(tmp_path / "rules.py")}))
    assert json.loads(json.dumps(made)) == made and made["options"]["path"] == "rules.py"
    (tmp_path / "rules.py").write_text("def keep(document):\n    return False\n")
    assert content(make_rule("function", {"path": str(tmp_path / "rules.py")}))["versions"] != made["versions"]
