"""What Numba does again and again while it compiles, done once or not at all: half of its time, for the same code.

All of it is put back when an entry is compiled: other users of Numba in this process find it as it was. Shares are of
what compiling all kernels took when each was found.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator
from typing import Any

from numba.core import base, entrypoints, event, interpreter, postproc, transforms, typeinfer, types
from numba.core.errors import NumbaError, WarningsFixer, _format_msg  # type: ignore[attr-defined]
from numba.core.targetconfig import ConfigStack
from numba.core.types.abstract import _TypeMetaclass
from numba.core.types.misc import unliteral

_NOTHING = contextlib.nullcontext()


@contextlib.contextmanager
def shortcuts() -> Iterator[None]:
    """Compile without what can be left out, the collector (a fifth) included."""
    ways = _ways()
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in ways]
    collecting = gc.isenabled()
    gc.disable()
    for owner, name, way in ways:
        setattr(owner, name, way)
    try:
        yield
    finally:
        for owner, name, way in before:
            setattr(owner, name, way)
        if collecting:
            gc.enable()


def _ways() -> list[tuple[Any, str, Any]]:
    """What stands in the place of an attribute of Numba's, for one entry."""
    return [
        # Every package that registers with Numba would be imported: awkward, which gigatoken brings, takes 0.4 s.
        (entrypoints, "_already_initialized", True),
        # Every operator is typed anew: a sixth.
        (types.Function, "get_call_type", _call_type),
        # After each pass it looks which variables live where, which only deleting them needs: a twentieth.
        (postproc.PostProcessor, "run", functools.partialmethod(_renew, postproc.PostProcessor.run)),
        # Listeners are told of each of 100,000 calls of LLVM: a thirtieth.
        (event, "start_event", _ignore),
        (event, "end_event", _ignore),
        # Warnings are caught and given again, and errors told where they were, around each operation: a thirtieth.
        (WarningsFixer, "catch_warnings", lambda *_, **__: _NOTHING),
        (typeinfer, "new_error_context", _Told),
        # Whether a function takes an argument `loc` is asked for each call of it: a hundredth, as are the next two.
        (base, "_has_loc", functools.cache(base._has_loc)),
        # Types are classes that others could register with; none do.
        (_TypeMetaclass, "__instancecheck__", type.__instancecheck__),
        # There is no `with`.
        (interpreter, "peep_hole_delete_with_exit", lambda function: function),
    ]


def _ignore(*_arguments: Any, **_named: Any) -> None: ...


class Current:
    """A context that is up to date, and need not ask all registries for what is new: a fortieth, for each function."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def refresh(self) -> None: ...


class _Told:
    """Adds to an error of Numba's where it was, as `new_error_context` does, by a class rather than a generator."""

    def __init__(self, text: str, *arguments: Any, **named: Any) -> None:
        self._told = text, arguments, named

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        if isinstance(error, NumbaError):
            error.add_context(_format_msg(*self._told))


def _renew(self: Any, lifetimes: Callable[..., None], emit_dels: bool = False, **options: Any) -> None:
    """Bring what is known of a function up to date after a pass."""
    if emit_dels or self.func_ir.is_generator:
        lifetimes(self, emit_dels, **options)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)
    self.func_ir.generator_info = None


def _call_type(self: Any, context: Any, arguments: Any, named: Any) -> Any:
    """The signature of a call of one of Numba's functions; that of an operator or built-in is looked for once."""
    resolve = super(types.Function, self).get_call_type
    if named or getattr(self.typing_key, "__module__", "") not in ("_operator", "builtins"):
        return resolve(context, arguments, named)
    known = vars(self).setdefault("_known_by_gristmill", {})
    plain = tuple(map(unliteral, arguments))
    key = (plain, ConfigStack.top_or_none().nrt)
    if key not in known:
        known[key] = resolve(context, plain, named)
    return known[key]
