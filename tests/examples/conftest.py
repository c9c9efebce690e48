"""Examples as modules: their folder is on the path, as for every script."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def load_example() -> Iterator[Callable[[str], ModuleType]]:
    """`load_example("train_gpt")`: the example as a module."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    sys.path.insert(0, str(FOLDER))
    yield load
    sys.path.remove(str(FOLDER))
