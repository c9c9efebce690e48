"""The reference is what the code says now, and has every option, key, error and public name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gristmill as gm

DOCS = Path(__file__).parents[2] / "docs"
NAMES = ("reference_cli.md", "reference_recipe.md", "reference_python.md", "reference_errors.md")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_what_the_code_says_now(reference: Any, name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == reference.PAGES[name](), "Run `make reference`."


def test_every_command_and_option_is_in_it(reference: Any) -> None:
    page = (DOCS / "reference_cli.md").read_text(encoding="utf-8")
    for command, parser in reference.commands().items():
        section = page.partition(f"\n## {command}\n")[2].partition("\n## ")[0]
        for option in (name for action in parser._actions for name in action.option_strings):
            assert f"`{option}`" in section or f"`{option} " in section, (command, option)


def test_every_key_of_a_recipe_is_in_it_with_its_default(reference: Any) -> None:
    page = (DOCS / "reference_recipe.md").read_text(encoding="utf-8")
    for heading, (_, cls, _) in reference.recipe_parts().items():
        section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        for field in reference.keys_of(cls):
            assert f"\n| `{field.name}` | {reference.cell(reference.default(field))} |" in section, (
                heading,
                field.name,
            )


def test_every_public_name_and_error_is_in_it(reference: Any) -> None:
    headings = (DOCS / "reference_python.md").read_text(encoding="utf-8").splitlines()
    missing = [name for name in gm.__all__ if f"### {name}" not in headings]
    assert missing == []
    assert "gristmill.adapters.torch.TorchLoader" in reference.adapter_names()


def test_words_of_the_template_reach_the_key_that_they_stand_beside(reference: Any) -> None:
    comments = reference.template_comments()
    assert comments["filters", "language", "min_score"] == ("0.65", "probability of the language")
    assert comments["store", "compression"][1].startswith("or zstd")


def test_every_class_of_errors_has_its_sentences(reference: Any) -> None:
    said = reference.error_sentences()
    assert {name for name, _, _ in said} == {"ConfigError", "SourceError", "StoreError", "StateError", "EngineError"}
    assert ("ConfigError", "order", "Step … is skipped by this plan: it has no batch.") in said
