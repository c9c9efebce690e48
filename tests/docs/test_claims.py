"""What the pages claim is there: error sentences in the source, figures in the results, promises among the tests."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from gristmill.core import errors

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TROUBLE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
PEERS = (DOCS / "peers.md").read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """The cells of every row of every table, heads included."""
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]


@functools.cache
def sentences() -> set[str]:
    """Every text of the source, with three dots for what is filled in."""
    found = set[str]()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.add("".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


# Of a table of errors, the first cell is the sentence; the other tables have other heads.
QUOTED = [row[0].strip("`") for section in re.split(r"^## ", TROUBLE, flags=re.MULTILINE)
          if "| it says |" in section for row in rows(section) if row[0].startswith("`")]  # fmt: skip


@pytest.mark.parametrize("quoted", QUOTED)
def test_an_error_sentence_is_one_of_the_source(quoted: str) -> None:
    wanted = quoted.rstrip("…").strip()
    assert any(wanted in sentence for sentence in sentences())


def test_the_page_of_errors_has_every_class_with_its_exit_code() -> None:
    shown = {row[0].strip("`"): row[-1].strip(" |") for row in rows(TROUBLE) if row[0].strip("`").endswith("Error")}
    tree = {name: cls for name, cls in vars(errors).items() if name.endswith("Error") and isinstance(cls, type)}
    assert shown == {name: str(cls.exit_code) for name, cls in tree.items() if name != "GristmillError"}


MEASURED = [row for row in rows(PEERS) if "../benchmarks/results/" in row[-1]]


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row[0])
def test_a_figure_of_the_comparison_stands_in_its_source(row: list[str]) -> None:
    (name,) = re.findall(r"\(\.\./benchmarks/results/(\w+\.md)\)", row[-1])
    result = (ROOT / "benchmarks" / "results" / name).read_text(encoding="utf-8")
    for figure in re.findall(r"(?<![\w,.])\d[\d,.]*\d|\b\d\b", " ".join(row[1:-1])):
        assert re.search(rf"(?<![\d.,]){re.escape(figure)}(?![\d]|[.,]\d)", result), figure


def test_the_comparison_has_figures_to_check() -> None:
    assert len(MEASURED) > 20


PROMISES = re.findall(
    r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)", (DOCS / "promises.md").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(("name", "path"), PROMISES)
def test_a_promise_is_held_by_a_test_that_exists(name: str, path: str) -> None:
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")
