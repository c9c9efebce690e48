"""Numba's compiler as three decorators. Importing this module imports Numba (0.2 s), so kernels are imported lazily.

Numba by itself makes machine code of every function, optimised and wrapped for Python, though most are only called by
others. Here a helper is typed and lowered, no more; an entry takes in the helpers that it reaches, is optimised as a
whole and kept on disk (`kept_code`). Passes that change nothing in such code are left out, the type that an operator
gives is looked up once, and the garbage collector waits: a third of the compiler's time for the same loops.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numba
from numba.core import entrypoints, typed_passes, types, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.registry import CPUDispatcher
from numba.core.targetconfig import ConfigStack
from numba.core.types.misc import unliteral

from gristmill.core.kept_code import KeptCode
from gristmill.core.locks import Lock

Function = Callable[..., Any]
# Two threads may import modules of kernels at the same time.
_compiling = Lock()


def compiled(function: Function) -> Function:
    """`function` for the use of other compiled functions: it may read, write and pass on arrays, but give none back.

    Numba otherwise counts references to each array of each call, atomically: 5 ns a count, or half of the time of
    functions that look at one word.
    """
    return _helper(function, _nrt=False)


def maker(function: Function) -> Function:
    """`function` for the use of other compiled functions, which gives back arrays that it made."""
    return _helper(function)


def entry(signature: Any) -> Callable[[Function], Function]:
    """A compiled function that Python calls: for one signature only, without the GIL.

    It is compiled when its module is first imported on a machine, and read from disk afterwards. Arrays of any other
    layout are a TypeError rather than a second compilation in the middle of a run.
    """

    def decorate(function: Function) -> Function:
        if numba.config.DISABLE_JIT:  # a debugger is at work
            return function
        options = {"nopython": True, "nogil": True, "no_cfunc_wrapper": True}
        made = CPUDispatcher(function, targetoptions=options, pipeline_class=_EntryCompiler)
        made._cache = KeptCode(function)
        with _compiling, _no_extensions(), _quick():
            made.compile(signature)
        made.disable_compile()
        return made  # type: ignore[no-any-return]

    return decorate


def _helper(function: Function, **options: Any) -> Function:
    if numba.config.DISABLE_JIT:
        return function
    options |= {"nopython": True, "nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _Helper(function, targetoptions=options, pipeline_class=_HelperCompiler)


class _Helper(CPUDispatcher):  # type: ignore[misc]
    """A function that has no machine code of its own, and is not compiled anew for each constant that it is given."""

    def get_call_template(self, arguments: Any, named: Any) -> Any:
        return super().get_call_template([unliteral(argument) for argument in arguments], named)

    def __call__(self, *_arguments: Any, **_named: Any) -> Any:
        raise TypeError(f"{self.__name__} is part of compiled functions, and cannot be called from Python.")


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """The code of a helper as it was lowered: it is optimised in the entries that it becomes part of."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        """Nothing is linked and no machine code made."""
        self._finalized = True

    def get_pointer_to_function(self, _name: str) -> int:
        return 0

    @property
    def codegen(self) -> Any:
        """Whom Numba tells where the environment of a function is, once it has an address: this one has none."""
        return self

    def set_env(self, _name: str, _environment: Any) -> None: ...


class _Whole(JITCodeLibrary):  # type: ignore[misc]
    """The code of an entry and of all helpers that it reaches."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def add_linking_library(self, library: Any) -> None:
        """Take in another library with those that it leans on itself."""
        if library not in self._linking_libraries:
            super().add_linking_library(library)
            for other in library._linking_libraries if isinstance(library, _Part) else ():
                self.add_linking_library(other)


# Of Numba's passes those that our code needs: it has no closures, array expressions, `with`, or literal arguments.
_PASSES = (
    untyped_passes.TranslateByteCode,
    untyped_passes.FixupArgs,
    untyped_passes.IRProcessing,
    untyped_passes.GenericRewrites,
    untyped_passes.ReconstructSSA,
    typed_passes.NopythonTypeInference,
    typed_passes.PreLowerStripPhis,
    typed_passes.NoPythonSupportedFeatureValidation,
    typed_passes.IRLegalization,
    typed_passes.AnnotateTypes,
    typed_passes.NativeLowering,
    typed_passes.NoPythonBackend,
)


class _HelperCompiler(CompilerBase):  # type: ignore[misc]
    """Some of Numba's passes, into a library of ours."""

    library: type[JITCodeLibrary] = _Part

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        passes = PassManager("gristmill")
        for step in _PASSES:
            passes.add_pass(step, step.__name__)
        passes.finalize()
        return [passes]


class _EntryCompiler(_HelperCompiler):
    library = _Whole


@contextlib.contextmanager
def _no_extensions() -> Iterator[None]:
    """Keep Numba from importing every package that registers with it: awkward, which gigatoken brings, takes 0.4 s.

    They are still found by the first compilation outside of this block.
    """
    before = getattr(entrypoints, "_already_initialized", True)
    entrypoints._already_initialized = True
    try:
        yield
    finally:
        entrypoints._already_initialized = before


@contextlib.contextmanager
def _quick() -> Iterator[None]:
    """Compile without what takes Numba longest: collecting garbage (a fifth) and typing every operator (a sixth)."""
    collecting = gc.isenabled()
    gc.disable()
    types.Function.get_call_type = _call_type  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del types.Function.get_call_type
        if collecting:
            gc.enable()


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
