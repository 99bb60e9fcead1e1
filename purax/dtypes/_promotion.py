# SPDX-License-Identifier: Apache-2.0
"""How dtypes meet: the one lattice behind every mixed operation.

Python scalars are weakly typed: they enter as the nodes `int`, `float` and `complex`, which lie below the sized dtypes of
their kind, so that `x + 1.0` keeps the dtype of `x`. Integers of mixed sign go to the next wider signed one; 64-bit
integers and then floats; the two 16-bit floats meet at float32; small integers and small floats meet no other sized dtype.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from purax.config import current
from purax.dtypes import _kinds as k
from purax.dtypes._kinds import DType, KeyDtype
from purax.errors import TypePromotionError, explain

WEAK: dict[DType, type] = {
    k.int32: int, k.int64: int, k.float32: float, k.float64: float, k.complex64: complex, k.complex128: complex,
    k.int8: int, k.int16: int, k.uint8: int, k.uint16: int, k.uint32: int, k.uint64: int,
    k.float16: float, k.bfloat16: float,
}  # fmt: skip

Node = Any  # a sized dtype, or one of int, float, complex for weak values

_SMALL_INTEGERS = (k.int1, k.int2, k.int4, k.uint1, k.uint2, k.uint4)

# Each node with the nodes right above it.
STANDARD: dict[Node, tuple[Node, ...]] = {
    k.bool_: (int,),
    int: (*_SMALL_INTEGERS, k.uint8, k.int8),
    k.uint8: (k.int16, k.uint16),
    k.uint16: (k.int32, k.uint32),
    k.uint32: (k.int64, k.uint64),
    k.uint64: (float,),
    k.int8: (k.int16,),
    k.int16: (k.int32,),
    k.int32: (k.int64,),
    k.int64: (float,),
    float: (*k.NARROW_FLOATS, k.float16, k.bfloat16, complex),
    k.float16: (k.float32,),
    k.bfloat16: (k.float32,),
    k.float32: (k.float64, k.complex64),
    k.float64: (k.complex128,),
    complex: (k.complex64,),
    k.complex64: (k.complex128,),
    k.complex128: (),
    **dict.fromkeys(_SMALL_INTEGERS, ()),
    **dict.fromkeys(k.NARROW_FLOATS, ()),
}

STRICT: dict[Node, tuple[Node, ...]] = {
    int: (*k.SIGNED, *k.UNSIGNED, float),
    float: (*k.FLOATS, complex),
    complex: k.COMPLEXES,
    **dict.fromkeys(k.ALL, ()),
}


def _closure(edges: dict[Node, tuple[Node, ...]]) -> dict[Node, frozenset[Node]]:
    above: dict[Node, frozenset[Node]] = {}

    def climb(node: Node) -> frozenset[Node]:
        if node not in above:
            above[node] = frozenset((node,)).union(*(climb(parent) for parent in edges[node]))
        return above[node]

    for node in edges:
        climb(node)
    return above


_ABOVE = {"standard": _closure(STANDARD), "strict": _closure(STRICT)}


def join(nodes: Iterable[Node], mode: str) -> Node:
    """Return the least node above all of `nodes` in the lattice of a promotion mode.

    Raises
    ------
    TypePromotionError
        No node lies above all of them.
    """
    above = _ABOVE[mode]
    chosen = set(nodes)
    if not chosen <= above.keys():
        raise TypePromotionError(_refusal(chosen, mode) + " float0s do not support any operations by design.")
    common = frozenset.intersection(*(above[node] for node in chosen))
    # The least common node is the one from which all other common nodes are reached.
    for node in common:
        if above[node] == common:
            return node
    raise TypePromotionError(_refusal(chosen, mode))


def _refusal(nodes: Iterable[Node], mode: str) -> str:
    written = ", ".join(sorted(getattr(node, "name", None) or f"Python {node.__name__}" for node in nodes))
    if mode == "strict":
        why = "dtypes are not promoted implicitly while numpy_dtype_promotion is 'strict'."
    else:
        why = "no dtype holds them all without a choice that only you can make."
    return explain(f"operands of dtype {written} meet.", why, "convert them first, such as by x.astype('float32').")


_pairs: dict[tuple[DType, bool, DType, bool, bool, str], tuple[DType, bool]] = {}


def promote_pair(a: DType, a_weak: bool, b: DType, b_weak: bool) -> tuple[DType, bool]:
    """Return the dtype and weak type at which two values meet; the cached form for binary operations."""
    settings = current()
    key = (a, a_weak, b, b_weak, settings.enable_x64, settings.numpy_dtype_promotion)
    found = _pairs.get(key)
    if found is None:
        found = _pairs[key] = promote([(a, a_weak), (b, b_weak)])
    return found


def promote(operands: list[tuple[DType, bool]]) -> tuple[DType, bool]:
    """Return the dtype and weak type at which values of these dtypes and weak types meet.

    Results that no operand has in 64 bits are narrowed unless `enable_x64` is on.
    """
    dtypes = {dtype for dtype, _ in operands}
    weak = all(is_weak for _, is_weak in operands)
    if len(dtypes) == 1:
        dtype = operands[0][0]
        return dtype, weak and not k.is_bool(dtype)
    if any(type(dtype) is KeyDtype for dtype in dtypes):
        raise TypePromotionError(
            explain(
                "operands of dtype " + ", ".join(sorted(str(dtype) for dtype in dtypes)) + " meet.",
                "random keys have no arithmetic and no common dtype with numbers.",
                "use random.key_data(key) to reach their words.",
            )
        )
    settings = current()
    if weak and settings.numpy_dtype_promotion == "standard":
        # Weak values of several dtypes meet where their sized forms do; the result is weak again.
        node = join(dtypes, "standard")
    else:
        node = join(
            (WEAK.get(dtype, dtype) if is_weak else dtype for dtype, is_weak in operands),
            settings.numpy_dtype_promotion,
        )
        weak = isinstance(node, type)
    if isinstance(node, type):
        return k.PYTHON_DTYPES[node][settings.enable_x64 or not k.WIDE.isdisjoint(dtypes)], True
    if not settings.enable_x64 and k.WIDE.isdisjoint(dtypes):
        node = k.narrow(node)
    return node, weak and not k.is_bool(node)


def dtype_and_weak(value: Any) -> tuple[DType, bool]:
    """Return the dtype of an array, scalar, aval or dtype-like, and whether it is weakly typed.

    Parameters
    ----------
    value : array, scalar, aval, dtype-like
        NumPy data is narrowed (see `narrow`); a Python scalar, or a Python scalar type, is weak; a dtype is taken by name; None is
        the default float.
    """
    kind = type(value)
    if kind in k.PYTHON_DTYPES:
        return k.PYTHON_DTYPES[kind][current().enable_x64], kind is not bool
    if isinstance(value, (np.ndarray, np.generic)):
        return k.narrow(k.named(value.dtype)), False
    if isinstance(value, (np.dtype, KeyDtype)):
        return k.named(value), False
    if isinstance(value, type):
        if value in k.PYTHON_DTYPES:
            return k.python_scalar_dtype(value), value is not bool
        return k.named(value), False
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        return k.named(dtype), bool(getattr(value, "weak_type", False))
    if isinstance(value, (bool, int, float, complex)):
        base = next(python for python in (bool, int, float, complex) if isinstance(value, python))
        return k.python_scalar_dtype(base), base is not bool
    return k.default_float() if value is None else k.named(value), False


def lattice_result_type(*values: Any) -> tuple[DType, bool]:
    """Return the dtype and weak type at which arrays, scalars and dtypes meet.

    Parameters
    ----------
    *values : array, scalar, aval, dtype-like
        At least one.

    Returns
    -------
    dtype : np.dtype or KeyDtype
    weak_type : bool

    Raises
    ------
    TypePromotionError
        They have no common dtype.

    Examples
    --------
    >>> lattice_result_type(np.int8(1), 2.0)
    (dtype('float32'), True)
    """
    if len(values) == 2:
        return promote_pair(*dtype_and_weak(values[0]), *dtype_and_weak(values[1]))
    if not values:
        raise ValueError("at least one array or dtype is required")
    return promote([dtype_and_weak(value) for value in values])


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """Return the dtype at which arrays, scalars and dtypes meet.

    Parameters
    ----------
    *args : array, scalar, dtype-like
        At least one; None is the default float.
    return_weak_type_flag : bool

    Returns
    -------
    np.dtype or KeyDtype
        With `return_weak_type_flag` a pair of it and of whether the result is weakly typed.

    Raises
    ------
    TypePromotionError
        They have no common dtype.
    """
    found = lattice_result_type(*args)
    return found if return_weak_type_flag else found[0]


def promote_types(a: Any, b: Any) -> DType:
    """Return the dtype at which two dtypes meet; `int`, `float` and `complex` count as weak.

    Unlike `result_type` it does not narrow: uint32 and int32 give int64.

    Raises
    ------
    TypePromotionError
        They have no common dtype.

    Examples
    --------
    >>> promote_types("int32", "bfloat16"), promote_types("uint32", "int32")
    (dtype(bfloat16), dtype('int64'))
    """
    nodes = []
    for dtype in (a, b):
        weak = isinstance(dtype, type) and dtype in (int, float, complex)
        nodes.append(dtype if weak else k.named(dtype))
    if nodes[0] == nodes[1]:
        return k.named(nodes[0])
    if any(type(node) is KeyDtype for node in nodes):
        return promote([(k.named(node), False) for node in nodes])[0]
    return k.named(join(nodes, current().numpy_dtype_promotion))


def is_weak(value: Any) -> bool:
    """Tell whether a value is weakly typed: a Python scalar, or an array that came from one."""
    return dtype_and_weak(value)[1]


def scalar_type_of(value: Any) -> type:
    """Return the Python type that one element of a value converts to: bool, int, float or complex."""
    dtype = dtype_and_weak(value)[0]
    if k.is_bool(dtype):
        return bool
    if k.is_integer(dtype):
        return int
    if k.is_float(dtype):
        return float
    if k.is_complex(dtype):
        return complex
    raise TypeError(f"a value of dtype {dtype} has no Python scalar type")


def safe_to_cast(source: Any, target: Any) -> bool:
    """Tell whether promotion alone would turn `source` into `target`: no value of the dtype is lost by the lattice."""
    dtype, weak = dtype_and_weak(source)
    wanted = k.named(target)
    if dtype == wanted:
        return True
    node = WEAK.get(dtype, dtype) if weak else dtype
    return wanted in _ABOVE["standard"].get(node, ())
