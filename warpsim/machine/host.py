"""What the compiled kernels need of the host: arrays without reference counts, and prefetches."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from warpsim.compilation import njit

__all__ = ["borrowed", "compiled", "prefetch", "smallest"]

compiled = njit(error_model="numpy", nogil=True)


@intrinsic
def borrowed(typingctx: Any, array: Any) -> Any:
    """The array without its owner: passing it on costs no atomic reference counting. The caller keeps the owner."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(array)(context, builder, args[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), codegen


@intrinsic
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Start to bring an element's line of memory into the host's cache."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(array)(context, builder, args[0])
        word = ir.IntType(64)
        offset = builder.mul(args[1], ir.Constant(word, context.get_abi_sizeof(context.get_data_type(array.dtype))))
        pointer = ir.IntType(8).as_pointer()
        address = builder.inttoptr(builder.add(builder.ptrtoint(view.data, word), offset), pointer)
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [address, ir.Constant(i32, 1), ir.Constant(i32, 3), ir.Constant(i32, 1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), codegen


@intrinsic
def smallest(typingctx: Any, array: Any, first: Any) -> Any:
    """The smallest of 64 int64 from an index on, without a branch."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(array)(context, builder, args[0])
        word = ir.IntType(64)
        vector = ir.VectorType(word, 64)
        pointer = builder.bitcast(builder.gep(view.data, [args[1]]), vector.as_pointer())
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(word, [vector]), "llvm.vector.reduce.smin.v64i64"
        )
        return builder.call(function, [builder.load(pointer, align=8)])

    return types.int64(array, types.int64), codegen
