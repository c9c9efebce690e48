"""What Python calls of a compiled entry: parts of its objects as arguments, a call without the GIL, an object again.

Numba makes such a function too, and counts a reference to each array there, to be given back on each way out: a quarter
of all instructions that LLVM got from us. But the tuple of arguments holds them until the call ends, and Numba's
dispatcher has seen that each is what the entry was compiled for. What is left is one call for an array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from llvmlite.ir import Constant, Function, FunctionType, IntType, IRBuilder
from numba import types
from numba.core import cgutils

_CODE = IntType(32)
_FAILED = "a compiled function was given what is no array, or gives back a part of an array that it was given"


def add_wrapper(context: Any, native: Any, description: Any, environment: Any) -> None:
    """Beside the function of an entry the one that Python calls, and that alone calls it."""
    native.linkage = "internal"
    kind = context.get_argument_type(types.pyobject)
    wrapper = Function(native.module, FunctionType(kind, [kind] * 3), description.llvm_cpython_wrapper_name)
    _Wrapper(context, wrapper).call(native, description, environment)


class _Wrapper:
    """One such function, while it is written."""

    def __init__(self, context: Any, function: Any) -> None:
        self._context, self._given = context, function.args[1]
        self._builder = IRBuilder(function.append_basic_block())
        self._api = context.get_python_api(self._builder)
        self._array_failed = Constant(_CODE, 0)
        self._number_failed = cgutils.false_bit

    def call(self, native: Any, description: Any, environment: Any) -> None:
        builder, api = self._builder, self._api
        arguments = [*self._parts(self._given, description.argtypes)]
        self._refuse(builder.icmp_unsigned("!=", self._array_failed, _CODE(0)))
        with builder.if_then(self._number_failed, likely=False):
            builder.ret(api.get_null_object())
        answer, raised = (cgutils.alloca_once(builder, place.type.pointee, zfill=True) for place in native.args[:2])
        thread = api.save_thread()
        code = builder.call(native, [answer, raised, *arguments], attrs=("noinline",))
        api.restore_thread(thread)
        with builder.if_then(builder.icmp_signed(">", code, code.type(0)), likely=False):
            api.raise_object(api.unserialize(builder.load(raised)))
        with builder.if_then(builder.icmp_signed("!=", code, code.type(0)), likely=False):
            builder.ret(api.get_null_object())
        self._give(builder.load(answer), description, environment)

    def _parts(self, objects: Any, kinds: Iterable[Any]) -> Iterator[Any]:
        """The arguments that a tuple of objects becomes."""
        for place, kind in enumerate(kinds):
            one = self._api.tuple_getitem(objects, place)
            if isinstance(kind, types.BaseTuple):
                yield from self._parts(one, kind)
            elif isinstance(kind, types.Array):
                yield from self._array(one, kind)
            else:
                yield self._number(one, kind)

    def _number(self, one: Any, kind: Any) -> Any:
        native = self._api.to_native_value(kind, one)
        self._number_failed = self._builder.or_(self._number_failed, native.is_error)
        return self._context.data_model_manager[kind].as_argument(self._builder, native.value)

    def _array(self, one: Any, kind: Any) -> list[Any]:
        """The fields of an array, as Numba's `ArrayModel` has them; two are references, which nobody counts."""
        builder, model = self._builder, self._context.data_model_manager[kind]
        adapt = FunctionType(_CODE, [one.type, self._api.voidptr])
        with builder.goto_entry_block():
            place = builder.alloca(model.get_value_type())
        given = [one, builder.bitcast(place, self._api.voidptr)]
        function = cgutils.get_or_insert_function(builder.module, adapt, "numba_adapt_ndarray")
        self._array_failed = builder.or_(self._array_failed, builder.call(function, given))
        none = [Constant(field, None) for field in model.get_argument_type()[:2]]
        fields = [(2,), (3,), (4,), *((field, axis) for field in (5, 6) for axis in range(kind.ndim))]
        return none + [builder.load(cgutils.gep_inbounds(builder, place, 0, *field)) for field in fields]

    def _give(self, answer: Any, description: Any, environment: Any) -> None:
        """Return what a call gave."""
        builder, kind = self._builder, description.restype
        value = self._context.get_returned_value(builder, kind, answer)
        for reference in self._context.nrt.get_meminfos(builder, kind, value):
            self._refuse(cgutils.is_null(builder, reference[1]))
        known = builder.load(self._context.declare_env_global(builder.module, self._context.get_env_name(description)))
        held = self._api.get_env_manager(environment, self._context.get_env_body(builder, known), known)
        builder.ret(self._api.from_native_return(kind, value, held))

    def _refuse(self, wrong: Any) -> None:
        with self._builder.if_then(wrong, likely=False):
            self._api.err_set_string("PyExc_TypeError", _FAILED)
            self._builder.ret(self._api.get_null_object())
