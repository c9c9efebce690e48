"""The recipe of `gristmill init` knows every key: whoever adds an option adds a line there, or this fails."""

from __future__ import annotations

import dataclasses
import importlib
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from gristmill.curate.clean import CleanOptions
from gristmill.curate.decontaminate import DecontaminateOptions
from gristmill.curate.rules import RULES
from gristmill.recipe import _DEDUPS, MixOptions, Recipe, SourceOptions, StoreOptions, as_recipe

TEMPLATE = files("gristmill").joinpath("recipe_template.yaml").read_text()
# Everything that is commented out, in use; prose in comments has no key at its beginning.
WHOLE: dict[str, Any] = yaml.safe_load(re.sub(r"^#(?= *(- )?\w+:( |$))", "", TEMPLATE, flags=re.MULTILINE))
# Examples: they have no default.
GIVEN = {"name", "paths", "model", "label", "path", "weights", "target", "out", "sources"}


def rule_class(name: str) -> Any:
    module, cls = RULES[name].split(":")
    return getattr(importlib.import_module(f"gristmill.curate.rules.{module}"), cls)


def listed(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: options for entry in entries for name, options in entry.items()}


SECTIONS = {
    "a source": (WHOLE["sources"][0], SourceOptions),
    "clean": (WHOLE["clean"], CleanOptions),
    "decontaminate": (WHOLE["decontaminate"], DecontaminateOptions),
    "mix": (WHOLE["mix"], MixOptions),
    "store": (WHOLE["store"], StoreOptions),
    **{f"the rule {name}": (listed(WHOLE["filters"]).get(name, {}), rule_class(name)) for name in RULES},
    **{f"dedup {name}": (listed(WHOLE["dedup"]).get(name, {}), cls) for name, cls in _DEDUPS.items()},
}


def plain(value: Any) -> Any:
    """A default as YAML has it."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value or [] if value == {} else value


@pytest.mark.parametrize("section", SECTIONS)
def test_every_option_is_shown_with_its_default(section: str) -> None:
    shown, cls = SECTIONS[section]
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init and not field.name.startswith("_")}
    assert set(shown) == set(fields), section
    for name, field in fields.items():
        if name not in GIVEN:
            default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            assert shown[name] == plain(default), f"{section}: {name}"


def test_every_key_of_a_recipe_is_shown_and_nothing_else() -> None:
    assert set(WHOLE) == {field.name for field in dataclasses.fields(Recipe)}
    assert set(listed(WHOLE["filters"])) == set(RULES)


def test_all_of_it_together_is_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rules.py").write_text("def keep(document): return True\n")
    (tmp_path / "toxic.bin").write_bytes((Path(__file__).parents[1] / "data" / "toxic.bin").read_bytes())
    rules = listed(WHOLE["filters"])
    rules["url"]["domains"], rules["language"]["keep"] = ["example.org"], ["en"]
    recipe = as_recipe({**WHOLE, "sources": [{**WHOLE["sources"][0], "fields": ["url"]}]})
    assert len(recipe.filters) == len(RULES) and len(recipe.dedup) == 3 and recipe.mix and recipe.decontaminate
