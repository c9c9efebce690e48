"""Whoever lacks a library is told the extra that brings it, when it is asked for and not when it is needed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import gristmill as gm
from gristmill.core.extras import extra
from gristmill.recipe import Recipe

# An adapter, the library that is hidden, and the extra.
ADAPTERS = [
    ("torch", "torch", "torch"),
    ("parcel", "torch", "torch"),
    ("passes", "torch", "torch"),
    ("local_files", "torch", "torch"),
    ("random_windows", "torch", "torch"),
    ("lightning", "lightning", "lightning"),
    ("local_datamodule", "lightning", "lightning"),
    ("hf_trainer", "transformers", "hf"),
    ("hf_trainer", "torch", "hf"),
    ("olmo_core", "olmo_core", "olmo"),
]


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`hide("torch")`: as if it were not installed; our adapters are imported anew."""

    def hidden(library: str) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == library]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, library, None)
        for name in [name for name in sys.modules if name.startswith("gristmill.adapters.")]:
            monkeypatch.delitem(sys.modules, name)

    return hidden


@pytest.mark.parametrize(("adapter", "library", "name"), ADAPTERS)
def test_an_adapter_without_its_library_names_the_extra(hide: Any, adapter: str, library: str, name: str) -> None:
    hide(library)
    with pytest.raises(ImportError, match=rf"needs {library}, .*pip install 'gristmill\[{name}\]'") as raised:
        __import__(f"gristmill.adapters.{adapter}")
    assert isinstance(raised.value, gm.ConfigError)


RECIPES = [
    *(({"filters": [{rule: {"variant": "datatrove"}}]}, "spacy")
      for rule in ("c4", "fineweb", "gopher_quality", "gopher_repetition")),
    ({"clean": {"ftfy": True}}, "ftfy"),
    ({"filters": [{"fasttext": {"model": "m.bin", "label": "x"}}]}, "fasttext"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "name"), RECIPES)
def test_a_recipe_that_needs_a_library_says_so_when_it_is_read(hide: Any, keys: dict[str, Any], name: str) -> None:
    hide(name)
    with pytest.raises(gm.ConfigError, match=rf"needs {name}, .*pip install 'gristmill\[{name}\]'"):
        Recipe("out", [{"name": "a", "paths": ["a.txt"]}], **keys)  # type: ignore[list-item]


def test_an_error_inside_of_a_library_is_left_as_it_is() -> None:
    with pytest.raises(ImportError, match="cannot import name 'nothing'") as raised, extra("torch", "a test"):
        from json import nothing  # type: ignore[attr-defined]  # noqa: F401
    assert not isinstance(raised.value, gm.ConfigError)


DONE_WITHOUT = """
import sys
import numpy as np
from gristmill.core.extras import do_without
from gristmill.core.watched import watched
def run():
    do_without("pandas")
    import pyarrow as pa
    print(pa.array(np.arange(2)).to_pylist(), "pandas" in sys.modules)
    return 0
sys.exit(watched(run) if sys.argv[1:] else run())
"""


@pytest.mark.parametrize(("given", "imports"), [(["command"], False), ([], True)])
def test_a_command_does_without_pandas_and_nobody_elses_process_does(given: list[str], imports: bool) -> None:
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", DONE_WITHOUT, *given], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"[0, 1] {imports}\n", "")
