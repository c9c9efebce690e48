"""What compiled functions do with raw addresses. Importing this module imports Numba (0.2 s)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _pointer_to(typing_context: Any, address: Any, dtype: Any) -> Any:
    """An integer address as a pointer to `dtype`."""
    kind = types.CPointer(dtype.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(kind))

    return kind(types.int64, dtype), generate


pointer: Any = intrinsic(_pointer_to)


def _unaligned_int64(typing_context: Any, address: Any) -> Any:
    """A possibly unaligned int64: Megatron's arrays follow a header of 34 bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(types.int64)))
        return builder.load(place, align=1)

    return types.int64(types.int64), generate


int64_at: Any = intrinsic(_unaligned_int64)


def _prefetch_line(typing_context: Any, address: Any) -> Any:
    """Ask for the cache line at an address, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        instruction = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data = word(0), word(3), word(1)
        builder.call(instruction, [builder.inttoptr(arguments[0], byte), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


prefetch: Any = intrinsic(_prefetch_line)
