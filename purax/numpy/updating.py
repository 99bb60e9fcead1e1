# SPDX-License-Identifier: Apache-2.0
"""Functional updates: `x.at[index].set(values)` and its siblings, `put`, `put_along_axis`, `place`.

A window at one place is read, combined and written back by dynamic_update_slice, which loops do in place (`_windows.py` says when
not); everything else is a scatter. Updates outside the array are dropped unless the mode says otherwise.

Results have the dtype and the shape of the array that is updated.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from purax import dtypes, errors
from purax.core.aval import array_aval
from purax.core.hooks import hooks
from purax.core.source import here
from purax.core.trace import aval_of
from purax.numpy import _ops as ops
from purax.numpy import _windows as windows
from purax.numpy.index_rules import Layout, is_basic, parse
from purax.numpy.indexing import host_index, read, settle
from purax.numpy.positions import nonzero
from purax.numpy.promotion import as_operand, check_arraylike
from purax.pipeline import debug
from purax.pipeline.evaluate import quiet
from purax.primitives import shape as shapes
from purax.primitives.gather import GatherScatterMode
from purax.primitives.resharding import out_sharded
from purax.primitives.scatter import ScatterDimensionNumbers
from purax.runtime.array import Array, wrap_host
from purax.runtime.transfer import HOST_LIMIT

__all__ = ["index_update", "place", "put", "put_along_axis"]

_NOT_IN_PLACE = "purax arrays are immutable: purax.numpy.{0} returns the changed array and needs inplace=False to say that this is meant."


class IndexUpdate:
    """What `x.at` gives: index it, then choose an update."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdateRef:
        return IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"IndexUpdate({self.array!r})"


def _spread(method: Any) -> Any:
    """The method with `out_sharding`: how the result lies on explicit mesh axes."""

    @functools.wraps(method)
    def update(self: Any, *args: Any, out_sharding: Any = None, **kwargs: Any) -> Any:
        if out_sharding is None:
            return method(self, *args, **kwargs)

        def updated(array: Any, index: Any, args: Any, kwargs: Any) -> Any:
            return method(IndexUpdateRef(array, index), *args, **kwargs)

        return out_sharded(updated, out_sharding, self.array, self.index, args, kwargs)

    return update


class IndexUpdateRef:
    """What `x.at[index]` gives: each method returns a changed copy of `x`, except `get`, which reads.

    Each takes `indices_are_sorted` and `unique_indices` (promises that may make it faster), `mode` ("drop", "fill", "clip" or
    "promise_in_bounds"; by default updates outside are dropped, and indices known to Python or NumPy raise) and
    `wrap_negative_indices`. Values are converted to the dtype of `x`: a FutureWarning tells when that loses information, and a
    Python value that does not fit raises.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"IndexUpdateRef({self.array!r}, {self.index!r})"

    def get(
        self, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None, fill_value: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Any:  # fmt: skip
        """`x[index]`, with a mode and a fill value for indices outside."""
        options = {
            "mode": mode, "fill_value": fill_value, "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique_indices, "wrap_negative_indices": wrap_negative_indices,
        }  # fmt: skip
        if out_sharding is not None:
            return out_sharded(read, out_sharding, self.array, self.index, **options)
        return read(self.array, self.index, **options)

    @_spread
    def set(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Any:  # fmt: skip
        """`x[index] = values`."""
        return _update(
            _SET, self.array, self.index, values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    @_spread
    def add(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Any:  # fmt: skip
        """`x[index] += values`, once for each time an element is named."""
        return _update(
            _ADD, self.array, self.index, values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    @_spread
    def subtract(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Any:  # fmt: skip
        """`x[index] -= values`, once for each time an element is named."""
        return _update(
            _SUB, self.array, self.index, values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    @_spread
    def multiply(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Any:  # fmt: skip
        """`x[index] *= values`, once for each time an element is named."""
        return _update(
            _MUL, self.array, self.index, values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    mul = multiply

    @_spread
    def divide(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Any:  # fmt: skip
        """`x[index] /= values`; integers become floats, as by division."""
        ones = hooks.numpy.ones_like(self.array)
        divisor = _update(
            _MUL, ones, self.index, values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )
        return hooks.numpy.true_divide(self.array, divisor)

    @_spread
    def power(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Any:  # fmt: skip
        """`x[index] **= values`."""
        ones = hooks.numpy.ones_like(self.array)
        exponent = _update(
            _MUL, ones, self.index, values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )
        return hooks.numpy.power(self.array, exponent)

    @_spread
    def min(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Any:  # fmt: skip
        """`x[index] = minimum(x[index], values)`."""
        return _update(
            _MIN, self.array, self.index, values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    @_spread
    def max(
        self, values: Any, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        out_sharding: Any = None, wrap_negative_indices: bool = True,
    ) -> Any:  # fmt: skip
        """`x[index] = maximum(x[index], values)`."""
        return _update(
            _MAX, self.array, self.index, values, indices_are_sorted, unique_indices, mode, wrap_negative_indices
        )

    @_spread
    def apply(
        self, func: Callable[[Any], Any], *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:  # fmt: skip
        """`x[index] = func(x[index])` for a function of a scalar, once for each time an element is named."""
        x = self.array
        parts = parse(
            x.aval.shape, self.index, checked=mode is None and wrap_negative_indices, wrap=wrap_negative_indices
        )
        layout = Layout(x.aval.shape, parts)
        return ops.scatter_apply(
            x, layout.vectors(wrap_negative_indices), func, _numbers(layout), update_shape=layout.bare_shape,
            indices_are_sorted=indices_are_sorted or layout.sorted, unique_indices=unique_indices or layout.distinct, mode=mode,
        )  # fmt: skip


def index_update(x: Any) -> IndexUpdate:
    """The object behind `x.at`."""
    return IndexUpdate(x)


# --- how an update is done -----------------------------------------------------------------------------------------------------


def _update_host(ufunc: Any, x: Any, index: Any, values: Any) -> Any:
    """An update of a small array on the host, by a NumPy ufunc of old and new (None replaces); None where it is not so simple."""
    if type(x) is not Array:
        return None
    old, aval = x._np, x.aval
    if old is None or x._placement is not None or aval.size > HOST_LIMIT or type(aval.dtype) is dtypes.KeyDtype:
        return None
    kind = type(values)
    if kind is float:
        if old.dtype.kind != "f" or not -65504.0 <= values <= 65504.0:  # beyond the range of float16 NumPy may warn
            return None
    elif kind is int:
        if old.dtype.kind not in "iuf" or not -65504 <= values <= 65504:
            return None
    elif kind is Array and values.aval.dtype == aval.dtype and old.dtype.kind in "iuf":
        values = values._np
        if values is None:
            return None
    else:
        return None
    basic = type(index) is int or is_basic(index)
    if not basic:
        index = host_index(aval.shape, index, clip=False, limit=HOST_LIMIT)
        if index is None:
            return None
    elif debug.active():
        return None
    new = old.copy()
    try:
        if ufunc is None:
            new[index] = values
        elif basic:
            new[index] = quiet(ufunc, old[index], values)
        else:
            quiet(ufunc.at, new, index, values)
    except (IndexError, ValueError, OverflowError):
        return None  # the other way words the message
    return wrap_host(array_aval(aval.shape, aval.dtype), new)


class _Update:
    """One kind of update: as a scatter, and on the two halves of a window."""

    __slots__ = ("combine", "primitive", "ufunc")

    def __init__(self, primitive: Any, combine: Any, ufunc: Any) -> None:
        self.primitive, self.combine, self.ufunc = primitive, combine, ufunc


def _sum(x: Any, y: Any) -> Any:
    return ops.bitwise_or(x, y) if dtypes.is_bool(x.aval.dtype) else ops.add(x, y)


_SET = _Update(ops.scatter_p, lambda old, new: new, None)
_ADD = _Update(ops.scatter_add_p, _sum, np.add)
_SUB = _Update(ops.scatter_sub_p, lambda old, new: ops.sub(old, new), np.subtract)
_MUL = _Update(ops.scatter_mul_p, lambda old, new: ops.mul(old, new), np.multiply)
_MIN = _Update(ops.scatter_min_p, lambda old, new: ops.min(old, new), np.minimum)
_MAX = _Update(ops.scatter_max_p, lambda old, new: ops.max(old, new), np.maximum)


def _update(
    kind: _Update,
    x: Any,
    index: Any,
    values: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Any,
    wrap: bool,
) -> Any:
    if mode is None and wrap:
        found = _update_host(kind.ufunc, x, index, values)
        if found is not None:
            return found
    parsed = GatherScatterMode.from_any(mode)
    parts = parse(x.aval.shape, index, checked=mode is None and wrap, wrap=wrap)
    layout = Layout(x.aval.shape, settle(parts, x.aval.shape, wrap))
    updates = converted(values, x.aval)
    if x.aval.weak_type and not updates.aval.weak_type:
        x = ops.convert_element_type(x, x.aval.dtype)
    if 0 in layout.shape or 0 in x.aval.shape:
        _bare(updates, layout)
        return x
    if layout.window:
        return _update_window(kind, x, updates, layout, parsed, wrap)
    distinct = layout.distinct or _are_distinct(layout)
    return kind.primitive.bind1(
        x, layout.vectors(wrap), _bare(updates, layout), dimension_numbers=_numbers(layout),
        indices_are_sorted=bool(indices_are_sorted or layout.sorted), unique_indices=bool(unique_indices or distinct),
        mode=parsed,
    )  # fmt: skip


def _numbers(layout: Layout) -> ScatterDimensionNumbers:
    return ScatterDimensionNumbers(layout.offset_dims, layout.collapsed, layout.operand_axes())


def _are_distinct(layout: Layout) -> bool:
    """Whether known index vectors do not repeat, so that derivatives need not ask which update counts."""
    count = math.prod(layout.batch)
    if count <= 1:
        return True
    if not layout.static or count > 1 << 16:
        return False
    vectors = np.asarray(layout.vectors()).reshape(count, -1)
    return len(np.unique(vectors, axis=0)) == count


def _bare(updates: Any, layout: Layout) -> Any:
    """Values broadcast to what the index selects, without its new axes."""
    shape = updates.aval.shape
    tail = layout.shape[len(layout.shape) - len(shape) :] if len(shape) <= len(layout.shape) else None
    extra = len(shape) - len(layout.shape)
    if tail is None and all(n == 1 for n in shape[:extra]):  # NumPy lets values have leading axes of size 1
        updates = shapes.reshape(updates, shape[extra:])
        shape, tail = shape[extra:], layout.shape
    if tail is None or any(n not in (1, m) for n, m in zip(shape, tail, strict=True)):
        raise errors.ShapeError(
            f"Incompatible shapes for broadcasting, at {here()}: values of shape {updates.aval.shape} do not broadcast to the shape "
            f"{layout.shape} that the index selects"
        )
    if layout.new_axes and shape:
        full = (*[1] * (len(layout.shape) - len(shape)), *shape)
        shape = tuple([n for d, n in enumerate(full) if d not in layout.new_axes])
        updates = shapes.reshape(updates, shape)
    return shapes.broadcast_to(updates, layout.bare_shape)


def _update_window(kind: _Update, x: Any, updates: Any, layout: Layout, mode: GatherScatterMode, wrap: bool) -> Any:
    """Read the window, combine, write it back; where it would leave the array, write back what was read."""
    starts = layout.starts(wrap)
    window = layout.slice_sizes
    new = _bare(updates, layout)
    if new.aval.shape != window:
        new = ops.reshape_p.bind1(new, new_sizes=window)
    dropping = mode in (GatherScatterMode.FILL_OR_DROP, GatherScatterMode.ONE_HOT)
    outside_possible = not layout.static or any(
        not 0 <= value <= layout.sizes[axis] - window[axis] for axis, value, _ in layout.columns
    )
    whole = window == layout.sizes
    if kind is _SET and whole and not outside_possible:
        return new
    if (
        layout.static
        and not outside_possible
        and windows.is_most(window, layout.sizes)
        and not dtypes.is_key(new.aval.dtype)
    ):
        known = {axis: int(value) for axis, value, _ in layout.columns}
        places = [known.get(axis, 0) for axis in range(len(window))]
        if kind is _SET:
            return windows.replace(x, new, places)
        if kind in (_ADD, _SUB):
            return windows.add(x, new, places, negative=kind is _SUB)
    if kind is _SET and not (dropping and outside_possible):
        return ops.dynamic_update_slice_p.bind1(x, new, *starts)
    old = x if whole else ops.dynamic_slice_p.bind1(x, *starts, slice_sizes=window)
    result = kind.combine(old, new)
    if dropping and outside_possible:
        inside: Any = None
        for axis, value, _ in layout.columns:
            if isinstance(value, (int, np.ndarray)) and 0 <= value <= layout.sizes[axis] - window[axis]:
                continue
            start, last = starts[axis], layout.sizes[axis] - window[axis]
            fits = ops.bitwise_and(ops.ge(start, 0), ops.le(start, last))
            inside = fits if inside is None else ops.bitwise_and(inside, fits)
        result = ops.select(inside, result, old)
    return result if whole and not outside_possible else ops.dynamic_update_slice_p.bind1(x, result, *starts)


# --- values ------------------------------------------------------------------------------------------------------------------


def converted(values: Any, aval: Any) -> Any:
    """Values of an update as an array of the dtype of the array that `aval` describes.

    Raises
    ------
    IntegerOverflowError
        A Python integer does not fit.
    ValueError
        A NaN that Python or NumPy knows would become an integer.
    """
    check_arraylike("scatter", values)
    dtype = aval.dtype
    if type(values) is bool and not dtypes.is_key(dtype):
        return shapes.scalar(values if dtypes.is_bool(dtype) else int(values), dtype)
    if isinstance(values, (int, float, complex)) and not isinstance(values, (bool, np.generic)):
        return _converted_scalar(values, dtype, aval)
    given = aval_of(values)
    if given.dtype == dtype:
        return as_operand(values)
    if dtypes.is_key(dtype) or dtypes.is_key(given.dtype):
        raise errors.DTypeError(f"values of dtype {given.dtype} cannot be put into an array of dtype {dtype}")
    dtypes.promote_pair(given.dtype, given.weak_type, dtype, aval.weak_type)  # refuses what strict promotion forbids
    if not dtypes.safe_to_cast(values, dtype):
        _warn_of_loss(given.dtype, dtype)
        if isinstance(values, (np.ndarray, np.generic)) and dtypes.is_integer(dtype) and np.isnan(values).any():
            raise ValueError(f"cannot put NaN into an array of dtype {dtype}")
    return _cast(as_operand(values), dtype)


def _cast(x: Any, dtype: Any) -> Any:
    if dtypes.is_complex(x.aval.dtype) and not dtypes.is_complex(dtype):
        x = ops.real(x)
    return ops.convert_element_type(x, dtype)


def _converted_scalar(value: Any, dtype: Any, aval: Any) -> Any:
    if dtypes.is_key(dtype):
        raise errors.DTypeError(f"the Python scalar {value!r} cannot be put into an array of dtype {dtype}")
    if isinstance(value, int) and dtypes.is_integer(dtype):
        info = dtypes.iinfo(dtype)
        if not info.min <= value <= info.max:
            raise errors.IntegerOverflowError(
                errors.explain(
                    f"the Python integer {value} is out of bounds for {dtype}, at {here()}.",
                    f"an array of {dtype} holds {info.min} to {info.max}.",
                    "convert the array to a wider dtype first.",
                )
            )
        return shapes.scalar(value, dtype)
    if not dtypes.safe_to_cast(value, dtype):
        _warn_of_loss(aval_of(value).dtype, dtype)
        value = value.real if isinstance(value, complex) and not dtypes.is_complex(dtype) else value
        if dtypes.is_integer(dtype) and not math.isfinite(value):
            if math.isnan(value):
                raise ValueError(f"cannot put NaN into an array of dtype {dtype}")
            raise errors.IntegerOverflowError(f"cannot put an infinite value into an array of dtype {dtype}")
        return ops.convert_element_type(hooks.as_array(value), dtype)
    return shapes.scalar(value, dtype)


def _warn_of_loss(source: Any, target: Any) -> None:
    warnings.warn(
        f"scatter inputs have incompatible types: values of dtype {source} lose information in an array of dtype {target}; "
        "convert them first (values.astype(x.dtype)). This will be an error.",
        FutureWarning,
        stacklevel=5,
    )


# --- NumPy's functions that write ---------------------------------------------------------------------------------------------


def _refuse_in_place(name: str, inplace: bool) -> None:
    if inplace:
        raise ValueError(_NOT_IN_PLACE.format(name))


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Any:
    """A copy of `a` with the elements at flat indices `ind` replaced by `v`, which repeats if it is shorter.

    Parameters
    ----------
    a : array
    ind : integer array
    v : array
    mode : "clip", "wrap" or "drop", optional
        What happens outside; by default updates are dropped, and indices known to Python or NumPy raise. With "clip", negative
        indices do not count from the end.
    inplace : bool
        Must be False.

    Returns
    -------
    array like `a`

    Raises
    ------
    ValueError
        `inplace` is True, or another mode.
    """
    _refuse_in_place("put", inplace)
    check_arraylike("put", a, ind, v)
    a, v = as_operand(a), as_operand(v)
    known = isinstance(ind, (int, np.ndarray, np.generic))
    places = np.ravel(np.asarray(ind)) if known else shapes.reshape(as_operand(ind), (aval_of(ind).size,))
    count = places.size
    if not count or not v.aval.size or not a.aval.size:
        return a
    if mode == "wrap":
        places = np.mod(places, a.aval.size) if known else hooks.numpy.mod(places, a.aval.size)
        mode = None
    elif mode not in (None, "clip", "drop"):
        raise ValueError(f"mode should be one of 'wrap' or 'clip'; got {mode=}")
    flat = shapes.reshape(v, (v.aval.size,))
    if v.aval.size != 1 and v.aval.size != count:
        flat = hooks.numpy.resize(flat, (count,))
    base = shapes.reshape(a, (a.aval.size,))
    result = IndexUpdateRef(base, places).set(flat, mode=mode, wrap_negative_indices=mode != "clip")
    return shapes.reshape(result, a.aval.shape)


def put_along_axis(
    arr: Any, indices: Any, values: Any, axis: int | None, inplace: bool = True, *, mode: str | None = None
) -> Any:
    """A copy of `arr` with the elements that `take_along_axis(arr, indices, axis)` reads replaced by `values`.

    Parameters
    ----------
    arr : array
    indices : integer array
        Of the rank of `arr`.
    values : array
        Broadcasts to `indices`.
    axis : int or None
        None: `arr` is flattened.
    inplace : bool
        Must be False.
    mode : str, optional
        As in `x.at[...]`.

    Returns
    -------
    array like `arr`

    Raises
    ------
    ShapeError
        Indices of another rank.
    ValueError
        `inplace` is True.
    """
    _refuse_in_place("put_along_axis", inplace)
    check_arraylike("put_along_axis", arr, indices, values)
    arr = as_operand(arr)
    shape = arr.aval.shape
    if axis is None:
        arr, axis = shapes.reshape(arr, (arr.aval.size,)), 0
    axis = shapes.canonical_axis(axis, arr.aval.ndim)
    given = aval_of(indices)
    if given.ndim != arr.aval.ndim:
        raise errors.ShapeError(f"put_along_axis: indices must have {arr.aval.ndim} axes, got shape {given.shape}")
    others = tuple([1 if d == axis else n for d, n in enumerate(arr.aval.shape)])
    full = shapes.broadcast_shapes(others, tuple([n for n in given.shape]))
    known = isinstance(indices, np.ndarray)
    element = np.broadcast_to(indices, full) if known else shapes.broadcast_to(as_operand(indices), full)
    index: list[Any] = []
    for d, n in enumerate(full):
        form = [1] * len(full)
        form[d] = n
        index.append(element if d == axis else np.arange(n).reshape(form))
    result = IndexUpdateRef(arr, tuple(index)).set(values, mode=mode)
    return shapes.reshape(result, shape)


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Any:
    """A copy of `arr` with the elements where `mask` holds replaced by the values in turn, which repeat if they are fewer.

    Parameters
    ----------
    arr : array
    mask : bool[...]
        Of as many elements.
    vals : array
    inplace : bool
        Must be False.

    Returns
    -------
    array like `arr`

    Raises
    ------
    ShapeError
        Sizes that differ, or no values.
    ValueError
        `inplace` is True.
    """
    _refuse_in_place("place", inplace)
    check_arraylike("place", arr, mask, vals)
    data, mask, values = as_operand(arr), as_operand(mask), as_operand(vals)
    if data.aval.size != mask.aval.size:
        raise errors.ShapeError("place: arr and mask must be the same size.")
    if not values.aval.size:
        raise errors.ShapeError("Cannot place values from an empty array")
    if not data.aval.size:
        return data
    size = data.aval.size
    places = nonzero(shapes.reshape(mask, (size,)), size=size, fill_value=size)[0]
    repeated = hooks.numpy.resize(shapes.reshape(values, (values.aval.size,)), (size,))
    flat = IndexUpdateRef(shapes.reshape(data, (size,)), places).set(repeated, mode="drop")
    return shapes.reshape(flat, data.aval.shape)
