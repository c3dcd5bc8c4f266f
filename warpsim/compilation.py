"""Functions compiled by numba, which is imported only when one of them has to be compiled.

`njit` and `cfunc` decorate functions, as numba's do; nothing is compiled before it is needed. What Python calls, and
C functions whose address is asked for, are compiled with all that they call and stored as object code, which loads in
a millisecond without numba.

Everything stored lies under a digest of the sources that compiled functions come from, so an upgrade or an edit never
meets stale code.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import operator
import shutil
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpsim import cache

__all__ = ["carray", "cfunc", "cgutils", "intrinsic", "memory", "njit", "types"]

_KEEP_SECONDS = 14 * 86400
# Of numba's passes, those that plain loops over integers and records need: no closures, literal tuples, expressions of
# whole arrays, or variables that own memory.
_PASSES = {
    "TranslateByteCode", "FixupArgs", "IRProcessing", "ReconstructSSA", "NopythonTypeInference", "PreLowerStripPhis",
    "AnnotateTypes", "NativeLowering", "NoPythonBackend",
}  # fmt: skip
_SOURCES = {
    # compiled functions call each other within a group only
    "machine": ("compilation.py", "machine/*.py", "frontend/trace.py"),
    "access": (
        "compilation.py",
        "coalescing.py",
        "frontend/context.py",
        "frontend/*mem*.py",
        "frontend/atomics.py",
        "frontend/divergence.py",
        "frontend/simt.py",
        "frontend/blocks.py",
    ),
}


def _group(module: str) -> str:
    return "machine" if module.startswith("warpsim.machine") else "access"


@functools.cache
def _state(group: str) -> str:
    package = Path(__file__).parent
    sources = sorted(path for pattern in _SOURCES[group] for path in package.glob(pattern))
    return cache.digest(*(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in sources))


@functools.cache
def _folder(group: str) -> str:
    """Name of the folder, in the cache directory, of what is compiled from these sources."""
    folder = f"numba-{_state(group)[:16]}"
    if not (cache.directory() / folder).exists():
        for old in cache.directory().glob("numba-*"):
            with contextlib.suppress(OSError):
                if time.time() - old.stat().st_mtime > _KEEP_SECONDS:
                    shutil.rmtree(old, ignore_errors=True)
    return folder


class _Deferred:
    """Something that numba makes or has, made when it is first used; compiled code may use it by its global name."""

    @functools.cached_property
    def real(self) -> Any:
        """What it stands for."""
        _introduce()
        return self._make()

    def _make(self) -> Any:
        raise NotImplementedError


class _Imported(_Deferred):
    """A module, or something in one."""

    def __init__(self, module: str, name: str = "") -> None:
        self._module, self._name = module, name

    def _make(self) -> Any:
        module = importlib.import_module(self._module)
        return getattr(module, self._name) if self._name else module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


class _Intrinsic(_Deferred):
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def _make(self) -> Any:
        from numba.core.registry import cpu_target
        from numba.extending import intrinsic as numba_intrinsic

        made = numba_intrinsic(self._function)
        cpu_target.typing_context.refresh()  # else known from the next function on
        return made


types: Any = _Imported("numba.core.types")
cgutils: Any = _Imported("numba.core.cgutils")
npydecl: Any = _Imported("numba.core.typing.npydecl")
numpy_arrays: Any = _Imported("numba.np.arrayobj")


def intrinsic(function: Callable[..., Any]) -> Any:
    """`numba.extending.intrinsic`."""
    return _Intrinsic(function)


@functools.cache
def _introduce() -> None:
    """Teach numba to see through `_Deferred`."""
    from numba.core.registry import cpu_target
    from numba.core.typing.typeof import typeof_impl

    typeof_impl.register(_Deferred, lambda value, _context: cpu_target.typing_context.resolve_value_type(value.real))


@functools.cache
def _part_compiler() -> Any:
    """numba's compiler for what only compiled functions call: it stops at LLVM's text.

    That is optimised, and made into machine code, as a part of what calls it, once instead of at every level.
    """
    from numba import _dynfunc
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import register_pass
    from numba.core.typed_passes import NativeLowering

    class Part(JITCodeLibrary):  # type: ignore[misc]
        def _optimize_functions(self, module: Any) -> None:
            module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._verify_declare_only_symbols()
            self._finalized = True

    def executable(library: Any, description: Any, environment: Any) -> Any:
        name = description.qualname.split(".")[-1]
        return _dynfunc.make_function(description.lookup_module(), name, "", 0, environment, (library,))

    class PartLowering(NativeLowering):  # type: ignore[misc]
        _name = "part_lowering"

        def run_pass(self, state: Any) -> bool:
            state.library = Part(state.targetctx.codegen(), state.func_id.func_qualname)
            state.targetctx.get_executable = executable
            return bool(super().run_pass(state))

    register_pass(mutates_CFG=True, analysis_only=False)(PartLowering)

    class PartCompiler(CompilerBase):  # type: ignore[misc]
        def define_pipelines(self) -> list[Any]:
            manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
            manager.passes = [
                (PartLowering if p is NativeLowering else p, text)
                for p, text in manager.passes
                if p.__name__ in _PASSES
            ]
            manager.finalize()
            return [manager]

    return PartCompiler


_OPERATORS = {value for value in vars(operator).values() if callable(value)} | {max, min, abs, int, bool}
_known: dict[Any, Any] = {}


@contextlib.contextmanager
def _compiling() -> Iterator[None]:
    """What is made is not searched for garbage again and again; operators are resolved once for their types."""
    kind: Any = importlib.import_module("numba.core.types").BaseFunction
    resolve = kind.get_call_type

    def resolve_once(function: Any, context: Any, arguments: Any, keywords: Any) -> Any:
        if keywords or function.key[0] not in _OPERATORS:
            return resolve(function, context, arguments, keywords)
        signature = _known.get((function, arguments))
        if signature is None:
            signature = _known[function, arguments] = resolve(function, context, arguments, keywords)
        return signature

    collecting = gc.isenabled()
    gc.disable()
    kind.get_call_type = resolve_once
    try:
        yield
    finally:
        kind.get_call_type = resolve
        if collecting:
            gc.enable()


def _object_code(key: str, module: str, make: Callable[[], Any]) -> int:
    """Address of the numba.cfunc that `make` gives, or of what was stored of it under this key."""
    from warpsim import machinecode

    file = f"{_folder(_group(module))}/" + cache.digest(key, machinecode.host(), np.__version__)
    stored = cache.read(file)
    if stored is None:
        with _compiling():
            function = make()
        stored = function.native_name.encode() + b"\n" + function._library._get_compiled_object()
        cache.write(file, stored)
    name, _, code = stored.partition(b"\n")
    return machinecode.load(code, name.decode())


class _Function:
    """A C function, compiled when its address is first asked for."""

    def __init__(self, signature: str, function: Callable[..., Any]) -> None:
        self._signature, self._function = signature, function

    def _compile(self) -> Any:
        import numba

        _introduce()
        return numba.cfunc(self._signature, _nrt=False)(self._function)

    @functools.cached_property
    def address(self) -> int:
        """Where its code lies."""
        function = self._function
        key = f"{function.__module__}.{function.__qualname__} {self._signature}"
        return _object_code(key, function.__module__, self._compile)


def cfunc(signature: str) -> Callable[[Callable[..., Any]], _Function]:
    """`numba.cfunc`, compiled when it is needed."""
    return functools.partial(_Function, signature)


def _array(context: Any, builder: Any, kind: Any, address: Any, sizes: Sequence[Any]) -> Any:
    """A C-contiguous array that nobody owns, at an address (an integer or a pointer)."""
    word = context.get_value_type(types.intp)
    array = context.make_array(kind)(context, builder)
    target = array.data.type
    data = builder.bitcast(address, target) if cgutils.is_pointer(address.type) else builder.inttoptr(address, target)
    step = word(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    steps = [step]
    for size in reversed(sizes[1:]):
        steps.insert(0, builder.mul(steps[0], size))
    numpy_arrays.populate_array(array, data, [*sizes], steps, step, None)
    return array._getvalue()


@intrinsic
def carray(typingctx: Any, address: Any, shape: Any, dtype: Any) -> Any:
    """`numba.carray`, of an integer address as well, without an owner to count."""
    sizes = shape.count if isinstance(shape, types.BaseTuple) else 1
    kind = types.Array(npydecl.parse_dtype(dtype), sizes, "C")
    plain = types.UniTuple(types.intp, sizes)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _array(context, builder, kind, arguments[0], cgutils.unpack_tuple(builder, arguments[1]))

    def codegen_1d(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _array(context, builder, kind, arguments[0], arguments[1:2])

    if isinstance(shape, types.BaseTuple):
        return kind(address, plain, dtype), codegen
    return kind(address, types.intp, dtype), codegen_1d


def memory(name: str) -> Any:
    """For compiled functions: memory at an integer address as an array, without bounds, of what has that NumPy name."""

    @intrinsic
    def view(typingctx: Any, address: Any) -> Any:
        kind = types.Array(getattr(types, name), 1, "C")

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _array(context, builder, kind, arguments[0], [context.get_constant(types.intp, 1 << 45)])

        return kind(types.int64), codegen

    return view


def _words(value: Any, words: list[int]) -> Any:
    """Append an argument to words, an array as address and sizes, a named tuple field by field; return its kind."""
    kind = type(value)
    if kind is int or kind is np.int64:
        words.append(int(value))
        return int
    if kind is np.ndarray and value.flags.c_contiguous and value.flags.writeable and value.dtype.isnative:
        words.append(value.ctypes.data)
        words.extend(value.shape)
        return value.dtype, value.ndim
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return kind, *(_words(field, words) for field in value)
    raise TypeError


def _text(kind: Any) -> str:
    """A kind as a key of stored code."""
    if kind is int:
        return "int"
    if isinstance(kind[0], np.dtype):
        return f"{kind[0]!r} {kind[1]}"
    return f"{kind[0].__qualname__}({', '.join(map(_text, kind[1:]))})"


class _Adapter:
    """A function of one argument, words, that calls another with what they stand for."""

    def __init__(self, function: _Compiled, kinds: tuple[Any, ...]) -> None:
        self._names: dict[str, Any] = {"call": function, "carray": carray}
        self._place = 0
        arguments = [self._expression(kind) for kind in kinds]
        result = function.result(tuple(self._type(kind) for kind in kinds))
        call = f"call({', '.join(arguments)})"
        text = (
            f"def entry(words):\n    {call}\n    return 0\n"
            if result == types.none
            else (f"def entry(words):\n    return {call}\n")
        )
        exec(text, self._names)

    def compile(self) -> Any:
        import numba

        return numba.cfunc("int64(CPointer(int64))", _nrt=False)(self._names["entry"])

    def _next(self) -> str:
        self._place += 1
        return f"words[{self._place - 1}]"

    def _expression(self, kind: Any) -> str:
        if kind is int:
            return self._next()
        name = f"n{len(self._names)}"
        self._names[name] = kind[0]
        if isinstance(kind[0], np.dtype):
            address = self._next()
            sizes = "".join(self._next() + ", " for _ in range(kind[1]))
            return f"carray({address}, ({sizes}), {name})"
        return f"{name}({', '.join(self._expression(field) for field in kind[1:])})"

    def _type(self, kind: Any) -> Any:
        if kind is int:
            return types.int64
        if isinstance(kind[0], np.dtype):
            from numba import from_dtype

            return types.Array(from_dtype(kind[0]), kind[1], "C")
        return types.BaseTuple.from_types([self._type(field) for field in kind[1:]], kind[0])


class _Compiled(_Deferred):
    """A function that numba compiles: for compiled functions, and for Python, whose calls go through stored code."""

    def __init__(self, function: Callable[..., Any], signature: str | None, options: dict[str, Any]) -> None:
        self.py_func, self._signature, self._options = function, signature, options
        self._entries: dict[Any, Callable[[Any], int]] = {}
        self._kinds: dict[Any, Any] = {}
        self._known: tuple[Any, ...] = (None, None, [], None)
        functools.update_wrapper(self, function)

    def _make(self) -> Any:
        import numba

        # What numba makes to be called from Python, or from C, is never called: Python calls what is below.
        options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False, **self._options}
        made = numba.njit(self._signature, pipeline_class=_part_compiler(), **options)(self.py_func)
        template = made.get_call_template  # a constant's type is that of others, else it would have code of its own
        made.get_call_template = lambda arguments, names: template(tuple(map(types.unliteral, arguments)), names)
        return made

    def result(self, arguments: tuple[Any, ...]) -> Any:
        """Compile for arguments of these types and return the type of the result."""
        self.real.compile(arguments)
        return self.real.overloads[arguments].signature.return_type

    @functools.cached_property
    def _plain(self) -> Any:
        """The function as numba offers it to Python."""
        import numba

        _introduce()
        return numba.njit(**self._options)(self.py_func)

    def __call__(self, *arguments: Any) -> Any:
        words: list[int] = []
        try:
            kinds = (self._first(arguments[0], words), *[_words(value, words) for value in arguments[1:]])
        except TypeError:
            return self._plain(*arguments)
        key = (id(kinds[0]), *kinds[1:])
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = self._entry(kinds)
        return entry((ctypes.c_int64 * len(words))(*words))

    def _first(self, value: Any, words: list[int]) -> Any:
        """As `_words`; of equal kinds always the same one. A tuple that came last time is known."""
        known, array, old, kind = self._known
        if known == id(value) and array is not None and array() is value[0]:
            words += old
            return kind
        kind = _words(value, words)
        kind = self._kinds.setdefault(kind, kind)
        if isinstance(value, tuple) and isinstance(value[0], np.ndarray):
            self._known = id(value), weakref.ref(value[0]), list(words), kind
        return kind

    def _entry(self, kinds: tuple[Any, ...]) -> Callable[[Any], int]:
        function = self.py_func
        key = f"{function.__module__}.{function.__qualname__} {', '.join(map(_text, kinds))}"
        address = _object_code(key, function.__module__, lambda: _Adapter(self, kinds).compile())
        return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)


def njit(function: Callable[..., Any] | None = None, *, signature: str | None = None, **options: Any) -> Any:
    """`numba.njit`, as a decorator with or without options; with a signature it is compiled for these types only."""
    if function is None:
        return lambda f: njit(f, signature=signature, **options)
    return _Compiled(function, signature, options)
