"""Raw memory: addresses, words and vectors that are not aligned, bytes looked for and copied."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from gristmill.core.compiled import compiled, maker

_WORD = ir.IntType(64)
# Bytes of a vector that is looked at at once: whoever asks for one makes sure that so many are there.
WIDTH = 64
_BYTE = ir.IntType(8)
_VECTOR = ir.VectorType(_BYTE, WIDTH)


def _pointer_to(typing_context: Any, address: Any, dtype: Any) -> Any:
    """An integer address as a pointer to `dtype`."""
    kind = types.CPointer(dtype.dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(kind))

    return kind(types.int64, dtype), generate


def _word_at_address(typing_context: Any, address: Any) -> Any:
    """A possibly unaligned int64: Megatron's arrays follow a header of 34 bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()), align=1)

    return types.int64(types.int64), generate


def _place(context: Any, builder: Any, kind: Any, at: Any, what: Any) -> Any:
    """Where `what` lies that begins at a position of a byte array; `at` is both."""
    data = context.make_array(kind)(context, builder, at[0]).data
    return builder.bitcast(cgutils.pointer_add(builder, data, at[1]), what.as_pointer())


def _word_at_position(typing_context: Any, data: Any, position: Any) -> Any:
    """The eight bytes at `position` of a byte array as one little-endian number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place(context, builder, signature.args[0], arguments, _WORD), align=1)

    return types.uint64(data, types.int64), generate


def _compared(relation: str) -> Any:
    """Of the 64 bytes at `position` of a byte array, a bit for each that is so related to `byte`, the first the lowest.

    Vector instructions: a few for all of them.
    """

    def bits(typing_context: Any, data: Any, position: Any, byte: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = builder.load(_place(context, builder, signature.args[0], arguments[:2], _VECTOR), align=1)
            one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), arguments[2], ir.IntType(32)(0))
            first = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
            each = builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), first)
            return builder.bitcast(builder.icmp_unsigned(relation, vector, each), _WORD)

        return types.uint64(data, types.int64, types.uint8), generate

    return bits


def _vector_copied(typing_context: Any, data: Any, position: Any, out: Any, to: Any) -> Any:
    """Write the 64 bytes at `position` of a byte array at `to` of another, whatever of them is wanted there."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given, made = (_place(context, builder, signature.args[i], arguments[i : i + 2], _VECTOR) for i in (0, 2))
        builder.store(builder.load(given, align=1), made, align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, out, types.int64), generate


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


def _words_past_caches(typing_context: Any, address: Any, to: Any, dtype: Any) -> Any:
    """Widen eight numbers at an address to words and write them at `to`, a multiple of 64, past the caches.

    A line of memory that is written whole need not be read before; `written` must follow before others look.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        narrow, wide = (ir.VectorType(kind, 8) for kind in (context.get_value_type(dtype.dtype), _WORD))
        numbers = builder.load(builder.inttoptr(arguments[0], narrow.as_pointer()), align=1)
        words = numbers if narrow == wide else builder.zext(numbers, wide)
        store = builder.store(words, builder.inttoptr(arguments[1], wide.as_pointer()), align=64)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, dtype), generate


def _fence(typing_context: Any) -> Any:
    """Let all that was written be seen by others before what is written next."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


def _low_zeros(typing_context: Any, number: Any) -> Any:
    """How many low bits are 0: 64 of the number 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, False))

    return types.int64(types.uint64), generate


def _new_array(typing_context: Any, shape: Any, dtype: Any) -> Any:
    """An array of this shape, a number or a tuple of numbers; np.empty is compiled anew for every kind of array."""
    sizes = types.UniTuple(types.int64, len(shape)) if isinstance(shape, types.BaseTuple) else types.int64
    kind = types.Array(dtype.dtype, getattr(sizes, "count", 1), "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from numba.core.imputils import impl_ret_new_ref  # of Numba's library, which code that is kept does without
        from numba.np.arrayobj import _empty_nd_impl

        counts = arguments[:1] if kind.ndim == 1 else cgutils.unpack_tuple(builder, arguments[0])
        made = _empty_nd_impl(context, builder, kind, counts)
        return impl_ret_new_ref(context, builder, kind, made._getvalue())

    return kind(sizes, dtype), generate


empty: Any = intrinsic(_new_array)
pointer: Any = intrinsic(_pointer_to)
int64_at: Any = intrinsic(_word_at_address)
uint64_at: Any = intrinsic(_word_at_position)
equal_bits: Any = intrinsic(_compared("=="))
lower_bits: Any = intrinsic(_compared("<"))
copy_vector: Any = intrinsic(_vector_copied)
prefetch: Any = intrinsic(_prefetch_line)
widen_past_caches: Any = intrinsic(_words_past_caches)
written: Any = intrinsic(_fence)
trailing_zeros: Any = intrinsic(_low_zeros)


@maker
def filled(size: int, value: Any, dtype: Any) -> Any:
    """An array of so many equal values."""
    made = empty(size, dtype)
    for i in range(size):
        made[i] = value
    return made


@compiled
def copy(data: Any, begin: int, end: int, out: Any, at: int) -> Any:
    """Write data[begin:end] at out[at:]; the place after it."""
    for i in range(end - begin):
        out[np.uint64(at + i)] = data[np.uint64(begin + i)]
    return at + end - begin


@compiled
def next_byte(data: Any, at: int, wanted: Any) -> Any:
    """The next place from `at` on that holds a byte, or the end of the data."""
    while at + WIDTH <= data.size:
        found = equal_bits(data, at, wanted)
        if found:
            return at + trailing_zeros(found)
        at += WIDTH
    while at < data.size and data[at] != wanted:
        at += 1
    return at


@compiled
def common(data: Any, begin: int, other: Any, other_begin: int, size: int) -> Any:
    """How many of `size` bytes are equal before the first that is not."""
    for i in range(size):
        if data[begin + i] != other[other_begin + i]:
            return i
    return size


@compiled
def place_of(ordered: Any, wanted: Any) -> Any:
    """Where `wanted` stands among rising values, or would; np.searchsorted takes 0.7 s to compile."""
    low, high = 0, ordered.size
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def holds(values: Any, wanted: Any) -> Any:
    """Whether any of the values is the wanted one: all are looked at, by vector instructions."""
    found = False
    for i in range(values.size):
        found |= values[i] == wanted
    return found


@compiled
def count(values: Any, wanted: Any) -> Any:
    """How many of the values are the wanted one."""
    found = 0
    for i in range(values.size):
        found += values[i] == wanted
    return found


@compiled
def largest(values: Any) -> Any:
    """The largest of some values that are not below 0; 0 of none. np.max takes 0.5 s to compile."""
    found = 0
    for i in range(values.size):
        found = max(found, values[i])
    return found


@compiled
def smallest(values: Any) -> Any:
    """The smallest of one or more values."""
    found = values[0]
    for i in range(values.size):
        found = min(found, values[i])
    return found


@compiled
def longest_row(offsets: Any) -> Any:
    """The most that any row has; 0 where there are no rows."""
    longest = 0
    for row in range(offsets.size - 1):
        longest = max(longest, offsets[row + 1] - offsets[row])
    return longest
