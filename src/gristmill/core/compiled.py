"""Numba's compiler as three decorators. Importing this module imports Numba (0.2 s), so kernels are imported lazily.

Numba by itself makes machine code of every function, optimised and wrapped for Python, though most are only called by
others. Here a helper is typed and lowered, no more; an entry takes in the helpers that it reaches, is optimised as a
whole and kept on disk (`kept_code`). Passes that change nothing in such code are left out, the type that an operator
gives is looked up once, and the garbage collector waits: a third of the compiler's time for the same loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite.binding import create_new_module_pass_manager
from numba.core import typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.registry import CPUDispatcher
from numba.core.types.misc import unliteral

from gristmill.core.kept_code import KeptCode
from gristmill.core.locks import Lock
from gristmill.core.lowering import LeanLowering
from gristmill.core.shortcuts import Current, shortcuts

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
        with _compiling, shortcuts():
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

    def _optimize_final_module(self) -> None:
        """LLVM's passes, after three of the cheap ones that Numba has first: some loops are a tenth slower without."""
        first = create_new_module_pass_manager()
        first.add_sroa_pass()
        first.add_instruction_combine_pass()
        first.add_jump_threading_pass()
        first.run(self._final_module, self._codegen._pass_builder(opt=0))
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)

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
    LeanLowering,
    typed_passes.NoPythonBackend,
)


class _Passes(PassManager):  # type: ignore[misc]
    """Passes one after the other; Numba times each, prints the types that it is given and checks what it leaves."""

    def _runPass(self, _index: int, step: Any, state: Any) -> None:
        if isinstance(step, typed_passes.IRLegalization) and not state.flags.nrt:
            return  # where variables end is of no interest where references are not counted
        step.run_pass(state)


class _HelperCompiler(CompilerBase):  # type: ignore[misc]
    """Some of Numba's passes, into a library of ours."""

    library: type[JITCodeLibrary] = _Part

    def __init__(self, typing: Any, target: Any, *description: Any, **named: Any) -> None:
        if self.library is _Part:  # the entry that needs it has just been begun
            super().__init__(Current(typing), Current(target), *description, **named)
            self.state.typingctx = typing
        else:
            super().__init__(typing, target, *description, **named)

    def define_pipelines(self) -> list[Any]:
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        passes = _Passes("gristmill")
        for step in _PASSES:
            passes.add_pass(step, step.__name__)
        passes.finalize()
        return [passes]


class _EntryCompiler(_HelperCompiler):
    library = _Whole
