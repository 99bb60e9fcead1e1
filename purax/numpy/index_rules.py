# SPDX-License-Identifier: Apache-2.0
"""NumPy's index rules as data: what an index selects, before anything is read or written.

`parse` turns an index into one part per axis. `Layout` arranges the parts as StableHLO's gather and scatter want them: windows
along axes that are sliced with step 1, index vectors for everything else, and the order of the result's axes.

Python and NumPy integers are checked here and raise IndexOutOfBoundsError. Index arrays on devices are never waited for.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes, errors
from purax.control.check import reporting
from purax.core.aval import array_aval, refuse_masked, unwrapped
from purax.core.dims import Dim, as_size, max_dim, min_dim
from purax.core.hooks import hooks
from purax.core.trace import Tracer, aval_of
from purax.numpy import _ops as ops
from purax.primitives import bounds, slicing
from purax.primitives import shape as shapes
from purax.runtime.array import wrap_host

__all__ = ["Layout", "Part", "is_basic", "parse"]

_LIST_ADVICE = (
    "Using a non-tuple sequence for multidimensional indexing is not allowed; use `arr[array(seq)]` instead of `arr[seq]` "
    "(or `arr[tuple(seq)]`)."
)
_VALID = (
    "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean arrays are valid indices."
)


class Part(NamedTuple):
    """What an index says of one axis.

    Attributes
    ----------
    kind : str
        "new" (None), "slice", "int" (a known integer), "array" (integers, known if a NumPy array), "flag" (a known boolean).
    axis : int
        Axis of the operand; -1 for "new" and "flag", which use none.
    value : tuple (start, step, count), int, array or bool
    ordered : bool
        For arrays made of a mask: sorted and without repetition.
    """

    kind: str
    axis: int = -1
    value: Any = None
    ordered: bool = False


def is_basic(index: Any) -> bool:
    """Whether an index consists of Python ints, slices of Python ints, None and Ellipsis only, so that NumPy reads it alike."""
    kind = type(index)
    if kind is tuple:
        for element in index:
            part = type(element)
            if part is int or element is None or element is Ellipsis:
                continue
            if part is not slice or not _is_plain(element):
                return False
        return True
    return kind is int or index is None or index is Ellipsis or (kind is slice and _is_plain(index))


def _is_plain(s: slice) -> bool:
    return (
        (s.start is None or type(s.start) is int)
        and (s.stop is None or type(s.stop) is int)
        and (s.step is None or type(s.step) is int)
    )


def parse(sizes: tuple[int, ...], index: Any, checked: bool = True, wrap: bool = True) -> list[Part]:
    """The parts of an index of an array of shape `sizes`.

    Parameters
    ----------
    sizes : tuple of int
    index : any index
    checked : bool
        Whether known integers outside the array raise; otherwise they are left to the mode.
    wrap : bool
        Whether negative integers count from the end.

    Returns
    -------
    list of Part

    Raises
    ------
    IndexOutOfBoundsError, IndexError, TypeError
        By the rules of NumPy.
    NonConcreteBooleanIndexError
        A mask whose values are not known.
    """
    checked = checked and not reporting.get()
    elements = [_element(e) for e in _as_tuple(index)]
    used = sum(_axes_used(e) for e in elements)
    if used > len(sizes):
        raise IndexError(f"Too many indices: array is {len(sizes)}-dimensional, but {used} were indexed")
    ellipses = sum(e is Ellipsis for e in elements)
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    parts: list[Part] = []
    axis = 0
    for e in elements if ellipses else [*elements, Ellipsis]:
        if e is Ellipsis:
            for _ in range(len(sizes) - used):
                parts.append(Part("slice", axis, (0, 1, sizes[axis])))
                axis += 1
        elif e is None:
            parts.append(Part("new"))
        elif type(e) is slice:
            parts.append(Part("slice", axis, _slice_of(e, sizes[axis])))
            axis += 1
        elif type(e) is int:
            parts.append(Part("int", axis, _known(e, axis, sizes[axis], checked, wrap)))
            axis += 1
        elif e.dtype == np.bool_:
            parts += _mask(e, axis, sizes)
            axis += e.ndim
        else:
            if isinstance(e, np.ndarray):
                e = _known_array(e, axis, sizes[axis], checked, wrap)
            elif checked:
                if sizes[axis] == 0 and e.aval.size:
                    raise errors.IndexOutOfBoundsError(f"any index is out of bounds for axis {axis} with size 0")
                bounds.check_device(e, axis, sizes[axis])
            parts.append(Part("array", axis, e))
            axis += 1
    return parts


def _as_tuple(index: Any) -> tuple[Any, ...]:
    if isinstance(index, tuple):
        return tuple(index)
    if isinstance(index, list):
        raise TypeError(_LIST_ADVICE)
    return (index,)


def _element(e: Any) -> Any:
    """An element as None, Ellipsis, slice, int, NumPy array (of integers or booleans), Array or Tracer."""
    if e is None or e is Ellipsis or type(e) is slice or type(e) is int:
        return e
    if isinstance(e, (bool, np.bool_)):
        return np.asarray(e)
    if isinstance(e, (str, bytes)):
        raise TypeError(f"purax arrays have no named fields: an index cannot be a string; got {e!r}")
    if isinstance(e, (list, tuple)):
        leaves = _leaves(e)
        for leaf in leaves:
            refuse_masked(leaf)
        traced = any(hasattr(leaf, "aval") for leaf in leaves)
        e = hooks.numpy.asarray(e) if traced else np.asarray(e, None if leaves else np.int32)
    if isinstance(e, (np.ndarray, np.generic)):
        refuse_masked(e)
        if e.dtype != np.bool_ and not dtypes.is_integer(e.dtype):
            raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {e.dtype}")
        return int(e) if e.ndim == 0 and e.dtype != np.bool_ else np.asarray(e)
    if hasattr(e, "aval"):
        dtype = e.aval.dtype
        if dtypes.is_key(dtype) or not (dtypes.is_bool(dtype) or dtypes.is_integer(dtype)):
            raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {dtype}")
        return e
    array = unwrapped(e)
    if array is not e:
        return _element(array)
    if isinstance(e, (float, complex)):
        raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {type(e).__name__}")
    try:
        return operator.index(e)
    except TypeError:
        raise IndexError(f"{_VALID} Got {e!r}") from None


def _leaves(e: Any) -> list[Any]:
    return [leaf for v in e for leaf in (_leaves(v) if isinstance(v, (list, tuple)) else [v])]


def _axes_used(e: Any) -> int:
    if e is None or e is Ellipsis:
        return 0
    return int(e.ndim) if hasattr(e, "ndim") and e.dtype == np.bool_ else 1


def _slice_of(s: slice, size: Any) -> tuple[Any, int, Any]:
    for bound in (s.start, s.stop, s.step):
        if isinstance(bound, Tracer) and bound.concrete() is None:
            raise IndexError(
                errors.explain(
                    f"Slice entries must be static integers. Got {s}.",
                    "The size of the result would depend on a traced value.",
                    "use lax.dynamic_slice(x, (start,), (size,)), or mark the argument static.",
                )
            )
    if type(size) is Dim:
        return _open_slice(s, size)
    start, stop, step = slice(*[None if v is None else operator.index(v) for v in (s.start, s.stop, s.step)]).indices(
        size
    )
    count = len(range(start, stop, step))
    return (start, 1, count) if count <= 1 and step != 1 else (start, step, count)


def _open_slice(s: slice, size: Dim) -> tuple[Any, int, Any]:
    """The same for a size that is not known yet; `max_dim` and `min_dim` stand where bounds may lie outside."""
    step = 1 if s.step is None else operator.index(s.step)
    if step < 0:
        if s.start is not None or s.stop is not None:
            raise IndexError(f"{s} of an axis of open size {size}: a slice with a negative step takes the whole axis")
        return size - 1, step, (size - 1) // -step + 1
    start, stop = [_inside(bound, size, default) for bound, default in ((s.start, 0), (s.stop, size))]
    return start, step, max_dim((stop - start + step - 1) // step, 0)


def _inside(bound: Any, size: Dim, default: Any) -> Any:
    if bound is None:
        return default
    bound = as_size(bound)
    return min_dim(bound, size) if bound >= 0 else max_dim(size + bound, 0)


def _known(value: int, axis: int, size: int, checked: bool, wrap: bool) -> int:
    if checked and not -size <= value < size:
        raise bounds.out_of_bounds(value, axis, size)
    return value + size if wrap and value < 0 else value


def _known_array(values: np.ndarray, axis: int, size: int, checked: bool, wrap: bool) -> np.ndarray:
    if checked:
        bounds.check_known(values, axis, size)
    return np.where(values < 0, values + size, values) if wrap and values.size and values.min() < 0 else values


def _mask(mask: Any, axis: int, sizes: tuple[int, ...]) -> list[Part]:
    """A boolean index as the integer indices of its true elements."""
    if any(m not in (0, n) for m, n in zip(mask.shape, sizes[axis:], strict=False)):
        raise IndexError(
            f"boolean index did not match shape of indexed array in index {axis}: got {mask.shape}, "
            f"expected {list(sizes[axis : axis + mask.ndim])}"
        )
    if isinstance(mask, Tracer):
        known = mask.concrete()
        if known is None:
            raise errors.NonConcreteBooleanIndexError(
                errors.explain(
                    f"Array boolean indices must be concrete; got {mask.aval.str_short()}.",
                    "The number of selected elements would depend on traced values.",
                    "use purax.numpy.where(mask, x, other), or nonzero(mask, size=n).",
                )
            )
        mask = known
    values = np.asarray(mask)
    if values.ndim == 0:
        return [Part("flag", -1, bool(values))]
    return [Part("array", axis + k, found, True) for k, found in enumerate(np.nonzero(values))]


class Layout:
    """The parts of an index, arranged for gather and scatter.

    Attributes
    ----------
    shape : tuple of int
        Shape of what is selected, new axes included.
    bare_shape : tuple of int
        The same without new axes.
    new_axes : tuple of int
        Places of the new axes in `shape`.
    batch : tuple of int
        Shape of the array of index vectors.
    columns : list of (operand axis, values, axes of batch that they vary over)
    slice_sizes, collapsed, offset_dims : tuple of int
        As in GatherDimensionNumbers.
    window : bool
        One window alone is selected: no axis comes from an index array or a stepped slice.
    sizes : tuple of int
        Shape of the operand.
    """

    def __init__(self, sizes: tuple[int, ...], parts: Sequence[Part]) -> None:
        self.sizes = sizes
        self.parts = parts
        advanced = [p for p in parts if p.kind in ("array", "flag")]
        chosen = {i for i, p in enumerate(parts) if p.kind in ("array", "flag") or (p.kind == "int" and advanced)}
        block = shapes.broadcast_shapes(*[_shape_of(p) for p in advanced]) if advanced else ()
        first = min(chosen, default=0)
        together = max(chosen, default=0) - first + 1 == len(chosen)

        axes: list[tuple[str, int, Any]] = []  # of the result: (kind, size, part)
        for i, p in enumerate(parts):
            if chosen and i == first and together:
                axes += [("block", n, None) for n in block]
            if p.kind == "new":
                axes.append(("new", 1, p))
            elif p.kind == "slice":
                axes.append(("window" if p.value[1] == 1 else "step", p.value[2], p))
        if chosen and not together:
            axes = [("block", n, None) for n in block] + axes

        bare = [a for a in axes if a[0] != "new"]
        self.shape = tuple([n for _, n, _ in axes])
        self.bare_shape = tuple([n for _, n, _ in bare])
        self.new_axes = tuple([d for d, a in enumerate(axes) if a[0] == "new"])
        self.offset_dims = tuple([d for d, a in enumerate(bare) if a[0] == "window"])
        outer = [a for a in bare if a[0] != "window"]
        self.batch = tuple([n for _, n, _ in outer])
        self.window = not outer
        block_axes = tuple([d for d, a in enumerate(outer) if a[0] == "block"])

        slice_sizes = list(sizes)
        collapsed: list[int] = []
        columns: list[tuple[int, Any, tuple[int, ...]]] = []
        for p in parts:
            if p.kind == "slice":
                start, step, count = p.value
                slice_sizes[p.axis] = count if step == 1 else 1
                if step != 1:
                    collapsed.append(p.axis)
                    place = next(d for d, a in enumerate(outer) if a[2] is p)
                    columns.append((p.axis, start + step * np.arange(count), (place,)))
                elif count and start:
                    columns.append((p.axis, start, ()))
            elif p.kind in ("int", "array"):
                slice_sizes[p.axis] = min(1, sizes[p.axis])
                collapsed.append(p.axis)
                ndim = len(_shape_of(p))
                columns.append((p.axis, p.value, block_axes[len(block_axes) - ndim :]))
        self.slice_sizes = tuple(slice_sizes)
        self.collapsed = tuple(collapsed)
        self.columns = columns
        self.static = all(isinstance(v, (int, np.ndarray)) for _, v, _ in columns)
        self.distinct = all(p.ordered or p.kind == "flag" for p in advanced)
        self.sorted = self.distinct and all(p.kind != "slice" or p.value[1] > 0 for p in parts)

    def vectors(self, wrap: bool = True) -> Any:
        """The index vectors: an integer array of shape (*batch, number of columns)."""
        dtype = slicing.index_dtype([v for _, v, _ in self.columns if not isinstance(v, np.ndarray)], self.sizes)
        if self.static:
            out = np.empty((*self.batch, len(self.columns)), np.int64)
            for k, (_, values, axes) in enumerate(self.columns):
                out[..., k] = _spread_known(values, axes, len(self.batch))
            info = np.iinfo(dtype)
            known = np.clip(out, info.min, info.max).astype(dtype)
            return wrap_host(array_aval(known.shape, dtype), known)
        pieces = []
        target = (*self.batch, 1)
        for axis, values, axes in self.columns:
            if isinstance(values, (int, np.ndarray)):
                known = np.clip(np.asarray(values), np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
                column: Any = wrap_host(array_aval(known.shape, dtype), known)
            else:
                column = dynamic(values, self.sizes[axis], dtype, wrap)
            pieces.append(_spread(column, axes, target))
        return pieces[0] if len(pieces) == 1 else ops.concatenate_p.bind1(*pieces, dimension=len(self.batch))

    def starts(self, wrap: bool = True) -> list[Any]:
        """Start of the only window along each operand axis: ints, or integer scalars of one dtype."""
        found: list[Any] = [0] * len(self.sizes)
        for axis, values, _ in self.columns:
            found[axis] = values
        dtype = slicing.index_dtype(found, self.sizes)
        scalars = []
        for axis, value in enumerate(found):
            if isinstance(value, (int, np.ndarray)):
                scalars.append(shapes.scalar(min(max(int(value), np.iinfo(dtype).min), np.iinfo(dtype).max), dtype))
            else:
                scalars.append(dynamic(value, self.sizes[axis], dtype, wrap))
        return scalars

    def operand_axes(self) -> tuple[int, ...]:
        """Operand axis of each column."""
        return tuple([axis for axis, _, _ in self.columns])


def _shape_of(p: Part) -> tuple[int, ...]:
    if p.kind == "flag":
        return (int(p.value),)
    return () if p.kind == "int" else tuple(p.value.shape)


def _spread_known(values: Any, axes: tuple[int, ...], ndim: int) -> np.ndarray:
    values = np.asarray(values)
    form = [1] * ndim
    for n, d in zip(values.shape, axes, strict=True):
        form[d] = n
    return values.reshape(form)


def _spread(column: Any, axes: tuple[int, ...], target: tuple[int, ...]) -> Any:
    """A column with its axes at `axes` of `target`, where sizes may be 1."""
    return ops.broadcast_in_dim_p.bind1(column, shape=target, broadcast_dimensions=axes)


def dynamic(values: Any, size: int, dtype: Any, wrap: bool) -> Any:
    """Index values on a device as `dtype`, negative ones counted from the end."""
    aval = aval_of(values)
    if dtypes.is_unsigned(aval.dtype):
        if aval.dtype.itemsize >= dtype.itemsize:
            largest = int(np.iinfo(dtype).max)
            values = ops.min_p.bind1(values, shapes.full_like_aval(aval, largest))
        return ops.convert_element_type(values, dtype)
    values = ops.convert_element_type(values, dtype)
    return slicing.wrap_negative(values, size) if wrap else values
