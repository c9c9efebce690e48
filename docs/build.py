"""Builds the site of the documents into build/site, warnings as errors, without network: `make docs`.

The pages are those that a code host shows: README.md, docs/, and whatever they link to. They are copied side by side
into build/pages, so that every relative link is as good on the site as it is in the repository.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
_CODE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)[^\n]*$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")


def documents() -> list[Path]:
    """What a reader begins with."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def links(page: Path) -> list[tuple[str, str]]:
    """The (path, anchor) of every link of a page that leads to a file or a heading of ours; code has none."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    found = (target for target in _LINK.findall(text) if not re.match(r"[a-z]+:", target))
    return [(path, anchor) for path, _, anchor in (target.partition("#") for target in found)]


def reachable() -> list[Path]:
    """Every document, and every file that one of them leads to, pages in their turn."""
    waiting, seen = documents(), set[Path]()
    while waiting:
        page = waiting.pop()
        seen.add(page)
        near = {(page.parent / path).resolve() for path, _ in links(page) if path} if page.suffix == ".md" else set()
        waiting += sorted(path for path in near - seen if path.is_file())
    return sorted(seen)


def gather() -> None:
    """Copy them, in the folders that they have here."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for path in reachable():
        target = PAGES / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
        if path.suffix == ".md":
            target.write_text(plain_fences(path.read_text(encoding="utf-8")), encoding="utf-8")


def plain_fences(text: str) -> str:
    """A page whose blocks of code say their language alone: other words, which tell tests what to run, end a fence."""
    return re.sub(r"^```(\w+) [^\n]+$", r"```\1", text, flags=re.MULTILINE)


def main() -> int:
    """Gather and build; the exit code is the builder's, 1 after any warning."""
    gather()
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(ROOT / "mkdocs.yml")]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code == 0:
        print(f"Built {SITE.relative_to(ROOT)}; look at it with: python -m http.server -d build/site -b 127.0.0.1")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
