"""What the compiled kernels need of the host: arrays without reference counts, and prefetches."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from warpsim.compilation import cgutils, intrinsic, njit, types

__all__ = [
    "below",
    "borrowed",
    "compiled",
    "eldest",
    "high_product",
    "inlined",
    "lowest",
    "matches",
    "ones",
    "prefetch",
]

compiled = njit(error_model="numpy", nogil=True)
inlined = njit(error_model="numpy", nogil=True, forceinline=True)  # passing an array costs seven words on the stack


@intrinsic
def borrowed(typingctx: Any, arrays: Any) -> Any:
    """A named tuple's arrays without their owners and lengths, so that passing one on and indexing it cost nothing.

    Indices are not negative then. The caller keeps the owners.
    """

    def bare(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if not isinstance(kind, types.Array):
            return value
        view = context.make_array(kind)(context, builder, value)
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        view.nitems = cgutils.get_null_value(view.nitems.type)
        view.shape = cgutils.get_null_value(view.shape.type)  # what would be added to a negative index
        return view._getvalue()

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = cgutils.unpack_tuple(builder, args[0])
        values = [bare(context, builder, kind, value) for kind, value in zip(arrays.types, values, strict=True)]
        return context.make_tuple(builder, arrays, values)

    return arrays(arrays), codegen


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
def below(typingctx: Any, array: Any, first: Any, limit: Any) -> Any:
    """Which of 64 int64 from an index on, where a line of the host's cache begins, are less than a limit: a bit map."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(array)(context, builder, args[0])
        word, i32 = ir.IntType(64), ir.IntType(32)
        vector = ir.VectorType(word, 64)
        pointer = builder.bitcast(builder.gep(view.data, [args[1]]), vector.as_pointer())
        empty, zeros = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(i32, 64), [0] * 64)
        limits = builder.shuffle_vector(builder.insert_element(empty, args[2], ir.Constant(i32, 0)), empty, zeros)
        return builder.bitcast(builder.icmp_signed("<", builder.load(pointer, align=64), limits), word)

    return types.int64(array, types.int64, types.int64), codegen


def _equal(builder: Any, pointer: Any, value: Any, bits: int, count: int, align: int) -> Any:
    """A bit map of which of `count` integers at a pointer equal a value."""
    vector = ir.VectorType(ir.IntType(bits), count)
    loaded = builder.load(builder.bitcast(pointer, vector.as_pointer()), align=align)
    empty, i32 = ir.Constant(vector, ir.Undefined), ir.IntType(32)
    wanted = builder.insert_element(empty, builder.trunc(value, ir.IntType(bits)), ir.Constant(i32, 0))
    wanted = builder.shuffle_vector(wanted, empty, ir.Constant(ir.VectorType(i32, count), [0] * count))
    found = builder.bitcast(builder.icmp_unsigned("==", loaded, wanted), ir.IntType(count))
    return found if count == 64 else builder.zext(found, ir.IntType(64))


@intrinsic
def matches(typingctx: Any, array: Any, first: Any, value: Any) -> Any:
    """Which of 64 bytes of an array, or of 32 integers of 16 bits, from an index on equal a value, as a bit map.

    They begin at a line of the host's cache.
    """
    bits = array.dtype.bitwidth

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(array)(context, builder, args[0])
        return _equal(builder, builder.gep(view.data, [args[1]]), args[2], bits, 512 // bits, 64)

    return types.int64(array, types.int64, types.int64), codegen


@intrinsic
def eldest(typingctx: Any, array: Any, first: Any, now: Any, allowed: Any) -> Any:
    """Which of 32 bytes from an index on, stamps of a clock modulo 256 before `now`, lies farthest back; 32: none.

    Only those whose bits of `allowed` are set; the index is a multiple of 32.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(array)(context, builder, args[0])
        byte, i32 = ir.IntType(8), ir.IntType(32)
        vector = ir.VectorType(byte, 32)
        empty, zeros = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(i32, 32), [0] * 32)

        def everywhere(value: Any) -> Any:
            return builder.shuffle_vector(builder.insert_element(empty, value, ir.Constant(i32, 0)), empty, zeros)

        stamps = builder.load(builder.bitcast(builder.gep(view.data, [args[1]]), vector.as_pointer()), align=32)
        bits = builder.trunc(args[3], i32)
        open_ones = builder.bitcast(bits, ir.VectorType(ir.IntType(1), 32))
        ages = builder.sub(everywhere(builder.trunc(args[2], byte)), stamps)
        ages = builder.select(open_ones, ages, ir.Constant(vector, [0] * 32))
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(byte, [vector]), "llvm.vector.reduce.umax.v32i8"
        )
        same = builder.bitcast(builder.icmp_unsigned("==", ages, everywhere(builder.call(function, [ages]))), i32)
        return builder.zext(builder.cttz(builder.and_(same, bits), ir.Constant(ir.IntType(1), 0)), ir.IntType(64))

    return types.int64(array, types.int64, types.int64, types.int64), codegen


@intrinsic
def lowest(typingctx: Any, bits: Any) -> Any:
    """Number of the lowest bit that is set; there is one."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@intrinsic
def high_product(typingctx: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of two unsigned integers."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def ones(typingctx: Any, bits: Any) -> Any:
    """How many bits are set."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.int64), codegen
