"""English text for the curation benchmark, from packages that every Debian mirror has; nothing is installed.

Manuals and books in HTML: a paragraph becomes a line, as in text that was taken from the web. Without apt-get, what
Python itself explains (the manual's topics and the docstrings of its library) stands in, which is a few megabytes.
"""

from __future__ import annotations

import ast
import gzip
import json
import pydoc_data.topics
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

Document = tuple[str, str]

# The name of a package (the highest version where it has one in it) and where its English pages are.
PACKAGES = (
    (r"anarchism", "usr/share/doc/anarchism/html/*.html"),
    (r"debian-handbook", "usr/share/doc/debian-handbook/html/en-US/*.html"),
    (r"debian-reference-en", "usr/share/debian-reference/*.en.html"),
    (r"installation-guide-amd64", "usr/share/doc/installation-guide-amd64/en/*.html"),
    (r"libreoffice-help-en-us", "usr/share/libreoffice/help/en-US/text/**/*.html"),
    (r"linux-doc-[\d.]+", "usr/share/doc/linux-doc-*/html/**/*.html"),
    (r"openjdk-\d+-doc", "usr/share/doc/openjdk-*/api/java.*/**/*.html"),
    (r"postgresql-doc-\d+", "usr/share/doc/postgresql-doc-*/html/*.html"),
    (r"python3\.\d+-doc", "usr/share/doc/python3.*/html/**/*.html"),
    (r"rust-doc", "usr/share/doc/rust-doc/html/*book*/**/*.html"),
    (r"rust-doc", "usr/share/doc/rust-doc/html/std/**/*.html"),
)
# Pages that repeat others: books on one page, indexes, sources, translations.
_REPEATS = re.compile(r"print\.html|genindex|/_sources/|/_modules/|/translations/|/html/src/|index-all|/class-use/")
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "blockquote",
        "br",
        "dd",
        "div",
        "dl",
        "dt",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "td",
        "th",
        "tr",
        "ul",
    ]
)
_UNSEEN = frozenset(["button", "footer", "form", "head", "header", "nav", "noscript", "script", "style", "svg"])
_EXPLAINED = "Python's own manual and docstrings"
_MIN_CHARACTERS = 100
# Some packages have tens of thousands of pages.
_MAX_PAGES = 2_000


@dataclass(frozen=True)
class Text:
    """A corpus on disk: JSONL with `id` and `text`, and what it was made from."""

    path: Path
    origin: str

    def documents(self) -> list[dict[str, str]]:
        """All documents."""
        with self.path.open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


def english(folder: Path, megabytes: int) -> Text:
    """About so many megabytes of English in `folder`, fetched and made once."""
    path, origin = folder / f"english-{megabytes}.jsonl", folder / f"english-{megabytes}.txt"
    if not origin.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made_from, documents = _make(folder / "packages", megabytes * 10**6)
        write(path, documents)
        origin.write_text(made_from)
    return Text(path, origin.read_text())


def explained(folder: Path) -> Text:
    """Python's own manual and docstrings, a few megabytes in `folder`: nothing is fetched."""
    path = folder / "python.jsonl"
    if not path.exists():
        write(path, _python_explained())
    return Text(path, _EXPLAINED)


def write(path: Path, documents: Iterable[Document]) -> None:
    """Documents as JSONL."""
    with path.open("w", encoding="utf-8") as out:
        for name, text in documents:
            out.write(json.dumps({"id": name, "text": text}, ensure_ascii=False) + "\n")


def evenly(documents: Sequence[Document], limit: int) -> list[Document]:
    """About `limit` bytes of the documents, taken at equal distances, in their order."""
    total = sum(len(text) for _, text in documents)
    seen = taken = 0
    chosen = []
    for name, text in documents:
        if taken * total <= limit * seen:
            chosen.append((name, text))
            taken += len(text)
        seen += len(text)
    return chosen


def _make(cache: Path, limit: int) -> tuple[str, list[Document]]:
    """What the text was made from, and its documents."""
    cache.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Document]] = {}
    for pattern, pages in PACKAGES:
        if (package := _fetched(cache, pattern)) and (documents := list(_pages(cache / package, pages))):
            found.setdefault(package, []).extend(documents)
    if not found:
        return f"{_EXPLAINED} (no package could be fetched)", list(_python_explained())
    made = [document for package, share in _shares(found, limit) for document in evenly(found[package], share)]
    return f"the Debian packages {', '.join(found)}", made


def _shares(found: dict[str, list[Document]], limit: int) -> Iterator[tuple[str, int]]:
    """Bytes to take of each package: equal shares, where small ones leave more to the others."""
    sizes = {package: sum(len(text) for _, text in documents) for package, documents in found.items()}
    left = limit
    for rank, package in enumerate(sorted(sizes, key=lambda name: sizes[name])):
        share = min(sizes[package], left // (len(sizes) - rank))
        left -= share
        yield package, share


def _fetched(cache: Path, pattern: str) -> str | None:
    """The newest package of that name, unpacked in the cache; None where there is none to be had."""
    have = [path.name for path in cache.iterdir() if re.fullmatch(pattern, path.name)]
    package = max(have or _known(pattern), key=_version, default=None)
    if package is None or have:
        return package
    with tempfile.TemporaryDirectory(dir=cache, prefix=".") as folder:
        try:
            _quiet(["apt-get", "download", "-qq", package], folder)
            (file,) = Path(folder).glob("*.deb")
            _quiet(["dpkg-deb", "-x", file.name, "content"], folder)
        except (OSError, subprocess.CalledProcessError):
            return None
        (Path(folder) / "content").rename(cache / package)
    return package


def _known(pattern: str) -> list[str]:
    """The names of packages that apt knows of."""
    try:
        names = subprocess.run(["apt-cache", "pkgnames"], check=True, capture_output=True, text=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []
    return [name for name in names if re.fullmatch(pattern, name)]


def _version(package: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", package)]


def _quiet(command: list[str], folder: str) -> None:
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _pages(root: Path, pattern: str) -> Iterator[Document]:
    """The texts of a package's pages, by their paths; of very many, pages at equal distances."""
    paths = [path for path in sorted(root.glob(pattern)) if not path.is_symlink() and not _REPEATS.search(str(path))]
    for path in paths[:: len(paths) // _MAX_PAGES + 1]:
        text = page_text(_read(path))
        if len(text) >= _MIN_CHARACTERS:
            yield f"{root.name}/{path.relative_to(root)}", text


def _read(path: Path) -> str:
    content = path.read_bytes()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    return content.decode("utf-8", "replace")


class _Page(HTMLParser):
    """Collects what a reader sees; blocks end lines, preformatted text keeps its own."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.unseen = self.preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._step(tag, 1)

    def handle_endtag(self, tag: str) -> None:
        self._step(tag, -1)

    def _step(self, tag: str, by: int) -> None:
        if tag in _UNSEEN:
            self.unseen = max(0, self.unseen + by)
        if tag == "pre":
            self.preformatted = max(0, self.preformatted + by)
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self.unseen:
            self.parts.append(data if self.preformatted else re.sub(r"\s+", " ", data))


def page_text(page: str) -> str:
    """The text of an HTML page: a paragraph a line, no empty lines."""
    parser = _Page()
    parser.feed(page)
    parser.close()
    lines = (line.rstrip() for line in "".join(parser.parts).splitlines())
    return "\n".join(line.removeprefix(" ") for line in lines if line.strip())


def _python_explained() -> Iterator[Document]:
    """The topics of Python's manual, and each library module's docstrings."""
    for topic, text in pydoc_data.topics.topics.items():
        yield f"topics/{topic}", text
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if "site-packages" not in path.parts and len(text := _docstrings(path)) >= _MIN_CHARACTERS:
            yield f"library/{path.relative_to(library)}", text


def _docstrings(path: Path) -> str:
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError):
        return ""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return "\n\n".join(text for node in nodes if isinstance(node, kinds) and (text := ast.get_docstring(node)))


if __name__ == "__main__":
    print(english(Path(sys.argv[1]), int(sys.argv[2])))
