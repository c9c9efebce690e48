"""Functions of the user's as data: the name by which one is found again, and what its code is known by.

What a function calls and closes over is not seen: whoever changes that gives it another name.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
from collections.abc import Callable

from gristmill.core.errors import ConfigError

Function = Callable[..., object]


def called(function: Function) -> str:
    """What errors call it."""
    return str(getattr(function, "__name__", type(function).__name__))


def path_of(function: Function) -> str:
    """Where it is found again: `package.module:name`; a lambda, or a function in a function, is found nowhere."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or not name or "<" in name:
        raise ConfigError(
            f"The function {called(function)} cannot be found again by its name: define it at the top of a module."
        )
    return f"{module}:{name}"


def function_at(path: str) -> Function:
    """The function that `path_of` named."""
    module, _, name = path.partition(":")
    try:
        found: object = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"The function {path} cannot be imported ({error}): put its module on the path.") from error
    if not callable(found):
        raise ConfigError(f"{path} is no function.")
    return found


def source_digest(function: Function) -> str:
    """32 hex digits of its source, or of its compiled code where there is none."""
    try:
        source = inspect.getsource(function).encode()
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        source = code.co_code if code else b""
    return hashlib.sha256(source).hexdigest()[:32]
