"""The pages hold together: no link is dead, every page is in the navigation, and the site builds without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as code hosts and the site make them; a second one of a kind gets a number."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        found.append(name if name not in found else f"{name}-{found.count(name)}")
    return set(found)


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_link_is_dead(build: Any, page: Path) -> None:
    for path, anchor in build.links(page):
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{path} is no file: a site has no listing of a folder"
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_links_are_told_from_code_and_from_other_sites(build: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](b.md#c) [d](https://e.org) `[f](g.md)`\n```\n[h](i.md)\n```\n[j [k]](l.py) [m](#n)\n")
    assert build.links(page) == [("b.md", "c"), ("l.py", ""), ("", "n")]


def listed(entries: list[Any]) -> list[str]:
    """The pages of a navigation, however deep."""
    values = [value for entry in entries for value in entry.values()]
    return [page for value in values for page in (listed(value) if isinstance(value, list) else [value])]


def test_every_page_is_in_the_navigation_once_and_every_entry_is_a_page() -> None:
    pages = listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert len(pages) == len(set(pages))
    written = {path.relative_to(ROOT).as_posix() for path in DOCUMENTS}
    assert written - set(pages) == set()
    assert [page for page in pages if not (ROOT / page).is_file()] == []


def test_the_site_is_built_without_a_warning_and_asks_for_nothing_elsewhere(build: Any, tmp_path: Path) -> None:
    for name in ("README.md", "CONTRIBUTING.md", "mkdocs.yml"):
        shutil.copy(ROOT / name, tmp_path)
    for path in build.reachable():
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    shutil.copy(ROOT / "docs" / "build.py", tmp_path / "docs")
    done = subprocess.run([sys.executable, "docs/build.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in (tmp_path / "build" / "site").rglob("*.html"):
        assert "```" not in page.read_text(), f"{page}: a block of code is not taken for one"
        fetched = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"?(https?:[^\s\">]+)", page.read_text()
        )
        assert fetched == [], page
