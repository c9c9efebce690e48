"""Which compiled code is kept, by the names of entries: asking for it imports no kernel, and not Numba (0.5 s)."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable

from gristmill.core.hashing import hash64
from gristmill.core.kept import is_kept, module_path, text_of

_ENTRY = re.compile(r"^@entry\(.*?^def (\w+)", re.MULTILINE | re.DOTALL)
# Where Numba is told of another processor than the one that is there.
_TOLD = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX")


def missing_code(modules: Iterable[str]) -> list[str]:
    """Those of these modules that have an entry whose code is not kept; none of them is imported."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":  # a debugger is at work
        return []
    return [module for module in modules if not all(_is_kept(module, entry) for entry in entries(module))]


def entries(module: str) -> list[str]:
    """The names of a module's entries, as its source has them."""
    return _ENTRY.findall(text_of(module_path(module)))


def _is_kept(module: str, entry: str) -> bool:
    return is_kept(module_path(module), code_name(module, entry))


def code_name(module: str, function: str) -> str:
    """The name under which the code of an entry is kept."""
    return f"{module}.{function}.{_machine()}"


@functools.cache
def _machine() -> str:
    """Names what runs the code: Python, Numba and the processor."""
    from llvmlite import binding  # a tenth of a second, for those who ask

    told = tuple(os.environ[name] for name in _TOLD if name in os.environ)
    processor = binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    runs = sys.implementation.cache_tag, importlib.metadata.version("numba"), processor, *told
    return f"{hash64(repr(runs)):016x}"
