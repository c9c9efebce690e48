"""The library's front door: its names, its errors, what importing it costs, and the code in its documents."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gristmill as gm
from gristmill.core import errors
from gristmill.recipe import Recipe, SourceOptions, StoreOptions

ROOT = Path(__file__).parents[1]
HEAVY = ("numpy", "numba", "pyarrow", "torch", "tokenizers", "tiktoken", "gigatoken", "rich", "yaml")


def loaded_after(code: str) -> set[str]:
    """Which heavy libraries a fresh interpreter holds after `code`."""
    script = f"import sys\n{code}\nprint(*(name for name in {HEAVY} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_public_name_can_be_had_and_is_listed_in_order() -> None:
    assert gm.__all__ == sorted(gm.__all__) == dir(gm)
    for name in gm.__all__:
        assert getattr(gm, name).__doc__, name


def test_no_public_name_is_missing() -> None:
    declared = re.search(r"if TYPE_CHECKING:\n(.*?)\n\n", Path(inspect.getfile(gm)).read_text(), re.DOTALL)
    assert declared
    names = set(re.findall(r"\b(\w+)(?:,|\n|$)", re.sub(r"from [\w.]+ import|\w+ as ", "", declared[1])))
    assert names == set(gm.__all__) == set(gm._HOMES)


def test_the_version_is_the_installed_one_wherever_it_is_asked_for() -> None:
    installed = importlib.metadata.version("gristmill")
    assert gm.__version__ == installed
    for start in (["-m", "gristmill"], ["-m", "gristmill.cli"]):
        done = subprocess.run([sys.executable, *start, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout == f"gristmill {installed}\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Lodaer'"):
        _ = gm.Lodaer  # type: ignore[attr-defined]


def test_the_error_tree() -> None:
    tree = {
        name: (cls.__bases__[0].__name__, cls.exit_code)
        for name, cls in vars(errors).items()
        if isinstance(cls, type) and issubclass(cls, errors.GristmillError)
    }
    assert tree == {
        "GristmillError": ("Exception", 1),
        "ConfigError": ("GristmillError", 2),
        "SourceError": ("GristmillError", 2),
        "StoreError": ("GristmillError", 1),
        "StateError": ("GristmillError", 2),
        "EngineError": ("GristmillError", 1),
    }
    assert set(tree) <= set(gm.__all__)


def test_importing_gristmill_imports_nothing_heavy() -> None:
    assert loaded_after("import gristmill") == set()


def test_the_plan_and_the_loader_need_numpy_alone() -> None:
    assert loaded_after("import gristmill as gm; gm.Loader; gm.Plan") == {"numpy"}


def test_the_help_of_the_command_line_imports_nothing_heavy() -> None:
    assert loaded_after("from gristmill.cli import build_parser; build_parser()") == set()


def test_each_room_opens_with_what_it_is_for() -> None:
    for folder in sorted(path.parent for path in (ROOT / "src" / "gristmill").glob("*/__init__.py")):
        text = importlib.import_module(f"gristmill.{folder.name}").__doc__ or ""
        assert "In:" in text and "Out:" in text and "Promise:" in text, folder.name


# The documents' code


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a reader has it: `data/corpus` and `data/zen`, by the byte tokenizer. To be copied."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "raw").mkdir()
    for i in range(200):
        (folder / "raw" / f"{i:03d}.txt").write_text(
            f"Document {i}. " + "The mill grinds what it is given. " * (i % 40)
        )
    store = StoreOptions(tokens_per_shard=50_000, val_fraction=0.1)
    with contextlib.chdir(folder):
        for out in ("data/corpus", "data/zen"):
            gm.prepare(Recipe(out, [SourceOptions("raw", ["raw"])], tokenizer="byte", store=store))
    return folder


@pytest.fixture
def workshop(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory of one's own, as a reader has it."""
    monkeypatch.chdir(shutil.copytree(prepared, tmp_path / "reader"))


def blocks(document: Path) -> list[tuple[int, str]]:
    """The (line, code) of every ```python block."""
    text = document.read_text(encoding="utf-8")
    found = re.finditer(r"^```python[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start(1)].count("\n"), match[1]) for match in found]


# docs/start.md is followed from its first command to its last by tests/docs/test_start.py.
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "start.md")]


@pytest.mark.usefixtures("workshop")
@pytest.mark.parametrize("document", filter(blocks, PAGES), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_code_of_a_document_runs(document: Path) -> None:
    names: dict[str, object] = {"__name__": "document"}
    for line, code in blocks(document):
        exec(compile("\n" * line + code, str(document), "exec"), names)
