"""How functions of ours become LLVM's instructions: less than half as many as Numba makes of them.

Numba gives each variable a place in memory, takes every array apart there to read one element, counts references to
arguments, and asks after each call whether it stands in a `try`. LLVM removes all that again, which took them half of
the time. Here what is assigned once is a value, an array is indexed as it is, and what is not known is left to Numba.

One thing is different: an index that is not written as a number counts from the front and may not be below 0. Numba
adds the size to those, which kept loops from being vectorised; where indices are checked (tests do) it is an error.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from llvmlite.ir import Constant, IRBuilder, Undefined
from llvmlite.ir.instructions import InsertValue
from numba import types
from numba.core import cgutils, ir
from numba.core.callconv import RETCODE_NONE, RETCODE_OK, CPUCallConv, Status
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

from gristmill.core.cached import cached_property
from gristmill.core.wrapping import add_wrapper

_NUMBERS = (types.Integer, types.Float, types.Boolean)


@register_pass(mutates_CFG=True, analysis_only=False)
class LeanLowering(NativeLowering):  # type: ignore[misc]
    """Numba's pass, by the class below."""

    @property
    def lowering_class(self) -> type[Lower]:
        return _Lower


class _Calls(CPUCallConv):  # type: ignore[misc]
    """Calls among functions that catch nothing: an exception of the one that is called is that of its caller."""

    def call_function(
        self, builder: Any, callee: Any, resty: Any, argtys: Any, args: Any, attrs: Any = None
    ) -> tuple[Status, Any]:
        with builder.goto_entry_block():
            returned = builder.alloca(self.get_return_type(resty).pointee)
        arguments = self._get_arg_packer(argtys).as_arguments(builder, args)
        code = builder.call(callee, [returned, self._get_excinfo_argument(builder.function), *arguments])
        fine = builder.icmp_signed("==", code, RETCODE_OK)
        none = fine
        if isinstance(resty, types.Optional):
            none = builder.icmp_signed("==", code, RETCODE_NONE)
            fine = builder.or_(fine, none)
        status = Status(code, fine, none, builder.not_(fine), None, None, None, None)
        return status, self.context.get_returned_value(builder, resty, builder.load(returned))

    def return_status_propagate(self, builder: Any, status: Status) -> None:
        builder.ret(status.code)


class _Context(CPUContext):  # type: ignore[misc]
    """A view of Numba's context, with calls of our own."""

    def __init__(self, context: CPUContext) -> None:
        self.__dict__.update(context.__dict__)

    @cached_property
    def call_conv(self) -> CPUCallConv:
        return _Calls(self)


class _Builder(IRBuilder):  # type: ignore[misc]
    """Knows what was put into a structure, and does not take it out again by an instruction."""

    def extract_value(self, agg: Any, idx: Any, *named: Any, **more: Any) -> Any:
        place = [idx] if isinstance(idx, int) else list(idx)
        within = agg
        while isinstance(within, InsertValue) and within.indices[0] != place[0]:
            within = within.operands[0]
        if isinstance(within, InsertValue) and within.indices == place:
            return within.operands[1]
        return super().extract_value(agg, idx, *named, **more)

    def structure(self, kind: Any, *parts: Any) -> Any:
        """A structure of these parts."""
        made = Constant(kind, Undefined)
        for place, part in enumerate(parts):
            made = self.insert_value(made, part, place)
        return made


class _Lower(Lower):  # type: ignore[misc]
    """One function."""

    context: Any

    def __init__(self, context: CPUContext, *description: Any, **named: Any) -> None:
        super().__init__(_Context(context), *description, **named)
        self._outside = context.subtarget(environment=self.env, fndesc=self.fndesc)

    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        self.builder = _Builder(self.entry_block)
        self.call_helper = self.call_conv.init_call_helper(self.builder)

    def lower_normal_function(self, fndesc: Any) -> None:
        super().lower_normal_function(fndesc)
        if not self.flags.no_cpython_wrapper:
            add_wrapper(self._outside, self.function, fndesc, self.env)

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        """What Python calls is there."""

    def _find_singly_assigned_variable(self) -> None:
        """What is assigned once is a value: Numba's SSA has it that each use comes after that assignment.

        An array that is made here has a place in memory, since it may be let go where it was never made.
        """
        super()._find_singly_assigned_variable()
        made = [inst for block in self.blocks.values() for inst in block.find_insts(ir.Assign)]
        times = Counter(inst.target.name for inst in made)
        single = [inst for inst in made if times[inst.target.name] == 1]
        self._borrowed = {inst.target.name for inst in single if isinstance(inst.value, ir.Arg)}
        self._singly_assigned_vars |= {inst.target.name for inst in single if not self._counted(inst.target.name)}

    def _counted(self, name: str) -> bool:
        """Whether references to what a variable holds are counted."""
        return name not in self._borrowed and self._counts(self.typeof(name))

    def _counts(self, kind: Any) -> bool:
        return bool(self.flags.nrt and self.context.data_model_manager[kind].contains_nrt_meminfo())

    def incref(self, typ: Any, val: Any) -> None:
        if self._counts(typ):
            super().incref(typ, val)

    def decref(self, typ: Any, val: Any) -> None:
        if self._counts(typ):
            super().decref(typ, val)

    def delvar(self, name: str) -> None:
        if self._counted(name):
            super().delvar(name)

    def loadvar(self, name: str) -> Any:
        known = self._blk_local_varmap.get(name)
        return self.builder.load(self.getvar(name)) if known is None else known

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        elif self._counted(name):
            super().storevar(value, name, argidx)
        else:
            self.builder.store(value, self.getvar(name))

    def lower_block(self, block: ir.Block) -> None:
        for inst in block.body:
            self.loc = inst.loc
            try:
                self.lower_inst(inst)
            except Exception as error:
                error.add_note(f"{inst} at {self.loc}")
                raise

    def lower_inst(self, inst: Any) -> None:
        if isinstance(inst, ir.Assign):
            self.storevar(self.lower_assign(self.typeof(inst.target.name), inst), inst.target.name)
        elif isinstance(inst, ir.Del):
            self.delvar(inst.value)
        elif isinstance(inst, ir.SetItem) or (isinstance(inst, ir.StaticSetItem) and self._is_plain(inst.target)):
            index = inst.index if isinstance(inst, ir.SetItem) else inst.index_var
            self.lower_setitem(inst.target, index, inst.value, self.fndesc.calltypes[inst])
        else:
            super().lower_inst(inst)

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        if isinstance(inst.value, ir.Arg) and inst.target.name in self._borrowed:
            argument = self.typeof(f"arg.{inst.value.name}")
            return self.context.cast(self.builder, self.fnargs[inst.value.index], argument, ty)
        return super().lower_assign(ty, inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        if expr.op == "static_getitem" and self._is_plain(expr.value):
            return self.lower_getitem(resty, expr, expr.value, expr.index_var, self.fndesc.calltypes[expr])
        if expr.op == "getattr" and expr.attr == "size" and isinstance(self.typeof(expr.value.name), types.Array):
            return self._field(expr.value, "nitems")
        if expr.op in ("pair_first", "pair_second"):
            return self.builder.extract_value(self.loadvar(expr.value.name), int(expr.op == "pair_second"))
        if expr.op == "getiter" and isinstance(self.typeof(expr.value.name), types.RangeType):
            made = self._range_iterator(resty, expr)
            return super().lower_expr(resty, expr) if made is None else made
        if expr.op == "iternext" and isinstance(self.typeof(expr.value.name), types.RangeIteratorType):
            return self._next_of_range(resty, expr)
        return super().lower_expr(resty, expr)

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        """`range` of one or two numbers is three numbers."""
        kind = signature.return_type
        if not isinstance(kind, types.RangeType) or expr.kws or expr.vararg or len(expr.args) > 2:
            return super()._lower_call_normal(fnty, expr, signature)
        *start, stop = (self._cast_var(number, kind.dtype) for number in expr.args)
        zero, one = (Constant(stop.type, number) for number in (0, 1))
        return self.builder.structure(self.context.get_value_type(kind), *start or [zero], stop, one)

    def _range_iterator(self, resty: Any, expr: Any) -> Any:
        """As Numba has it, for steps of 1: the next number and how many are left, in memory, and stop and step."""
        builder, given = self.builder, self.loadvar(expr.value.name)
        start, stop, step = (builder.extract_value(given, place) for place in range(3))
        if not isinstance(step, Constant) or step.constant != 1:
            return None
        zero = Constant(step.type, 0)
        count = builder.sub(stop, start)
        count = builder.select(builder.icmp_signed(">", count, zero), count, zero)
        following, left = (cgutils.alloca_once_value(builder, number) for number in (start, count))
        return builder.structure(self.context.get_value_type(resty), following, stop, step, left)

    def _next_of_range(self, resty: Any, expr: Any) -> Any:
        """The next number, and whether there is one."""
        builder, given = self.builder, self.loadvar(expr.value.name)
        following, _, step, left = (builder.extract_value(given, place) for place in range(4))
        number, count = builder.load(following), builder.load(left)
        more = builder.icmp_signed(">", count, Constant(count.type, 0))
        with builder.if_then(more):
            builder.store(builder.sub(count, Constant(count.type, 1), flags=["nsw"]), left)
            builder.store(builder.add(number, step), following)
        return builder.structure(self.context.get_value_type(resty), number, more)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        place = self._element(value, index, signature.args[1])
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        kind = self.typeof(value.name)
        item = self.context.unpack_value(self.builder, kind.dtype, place, align=None if kind.aligned else 1)
        return self.context.cast(self.builder, item, kind.dtype, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> None:
        place = self._element(target_var, index_var, signature.args[1])
        if place is None:
            super().lower_setitem(target_var, index_var, value_var, signature)
            return
        kind = self.typeof(target_var.name)
        value = self._cast_var(value_var, kind.dtype)
        self.context.pack_value(self.builder, kind.dtype, value, place, align=None if kind.aligned else 1)

    def _is_plain(self, array: ir.Var) -> bool:
        """Whether this is an array of numbers, without gaps."""
        kind = self.typeof(array.name)
        return isinstance(kind, types.Array) and kind.layout == "C" and isinstance(kind.dtype, _NUMBERS)

    def _element(self, array: ir.Var, index: ir.Var, kind: Any) -> Any:
        """Where an element of a plain array is; None of another, or of a slice."""
        kinds = tuple(kind) if isinstance(kind, types.BaseTuple) else (kind,)
        whole = all(isinstance(one, types.Integer) for one in kinds) and self._is_plain(array)
        if not whole or len(kinds) != self.typeof(array.name).ndim:
            return None
        given = self._cast_var(index, kind)
        indices = cgutils.unpack_tuple(self.builder, given) if isinstance(kind, types.BaseTuple) else [given]
        indices = [self.context.cast(self.builder, *pair, types.intp) for pair in zip(indices, kinds, strict=True)]
        place, shape = None, self._field(array, "shape")
        for axis, one in enumerate(indices):
            size = self.builder.extract_value(shape, axis)
            at = self._checked(one, size, axis)
            place = at if place is None else self.builder.add(self.builder.mul(place, size), at)
        return self.builder.gep(self._field(array, "data"), [place])

    def _checked(self, index: Any, size: Any, axis: int) -> Any:
        """An index from the front; only one that is written as a number may count from the end."""
        if isinstance(index, Constant) and index.constant < 0:
            index = self.builder.add(index, size)
        if self.context.enable_boundscheck:
            cgutils.do_boundscheck(self.context, self.builder, index, size, axis)
        return index

    def _field(self, array: ir.Var, name: str) -> Any:
        model = self.context.data_model_manager[self.typeof(array.name)]
        return model.get(self.builder, self.loadvar(array.name), name)
