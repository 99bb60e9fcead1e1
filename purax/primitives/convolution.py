# SPDX-License-Identifier: Apache-2.0
"""Convolution with strides, padding, dilation and groups: one primitive, closed under both of its transposes and under batching."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes, errors
from purax.core.aval import ShapedArray, array_aval
from purax.core.primitive import Primitive
from purax.core.trace import aval_of
from purax.primitives import base, contraction, convolution_cpu, elementwise, resharding, shape
from purax.sharding import rules

__all__ = [
    "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "conv_dimension_numbers", "conv_general_dilated",
    "conv_general_dilated_p", "conv_general_permutations", "padtype_to_pads",
]  # fmt: skip


class ConvDimensionNumbers(NamedTuple):
    """Where the axes of a convolution lie, each as (batch or output feature, feature, spatial...).

    Attributes
    ----------
    lhs_spec, out_spec : tuple of int
        (batch, feature, spatial...).
    rhs_spec : tuple of int
        (output feature, input feature, spatial...).
    """

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]


class Window(NamedTuple):
    """One spatial axis: sizes of the operands and how the window moves."""

    size: int
    kernel: int
    stride: int
    low: int
    high: int
    dilation: int
    kernel_dilation: int

    @property
    def extent(self) -> int:
        """Size of the dilated operand."""
        return dilated(self.size, self.dilation)

    @property
    def kernel_extent(self) -> int:
        """Size of the dilated kernel."""
        return dilated(self.kernel, self.kernel_dilation)

    @property
    def out(self) -> int:
        """Number of places of the window."""
        if self.kernel == 0:
            return max(0, (self.low + self.extent + self.high) // self.stride + 1)
        return max(0, (self.low + self.extent + self.high - self.kernel_extent) // self.stride + 1)


def dilated(size: int, dilation: int) -> int:
    """Extent of `size` elements that lie `dilation` apart."""
    return 0 if size == 0 else (size - 1) * dilation + 1


def windows_of(
    lhs: Sequence[int],
    rhs: Sequence[int],
    dims: ConvDimensionNumbers,
    strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
) -> list[Window]:
    """The spatial axes of a convolution, from the shapes of its operands."""
    return [
        Window(lhs[left], rhs[right], stride, low, high, ld, rd)
        for left, right, stride, (low, high), ld, rd in zip(
            dims.lhs_spec[2:], dims.rhs_spec[2:], strides, padding, lhs_dilation, rhs_dilation, strict=True
        )
    ]


# --- axes taken apart and put together ----------------------------------------------------------------------------------------


def split_axis(x: Any, axis: int, outer: int) -> Any:
    """Axis of size n as two axes, `outer` and n // outer."""
    sizes = aval_of(x).shape
    return shape.reshape(x, (*sizes[:axis], outer, sizes[axis] // outer, *sizes[axis + 1 :]))


def join_axes(x: Any, axis: int) -> Any:
    """Axes `axis` and `axis + 1` as one."""
    sizes = aval_of(x).shape
    return shape.reshape(x, (*sizes[:axis], sizes[axis] * sizes[axis + 1], *sizes[axis + 2 :]))


def move_into(x: Any, source: int, target: int, groups: int = 1) -> Any:
    """Take axis `source` out and fold it into axis `target` (numbered without it): outermost, or just inside `groups` groups."""
    sizes = aval_of(x).shape
    rest = [a for a in range(len(sizes)) if a != source]
    if groups == 1:
        order = [*rest[:target], source, *rest[target:]]
        return join_axes(shape.transpose(x, order), target)
    position = rest[target]
    x = split_axis(x, position, groups)
    source += source > position
    rest = [a for a in range(len(sizes) + 1) if a != source]
    order = [*rest[: target + 1], source, *rest[target + 1 :]]
    return join_axes(join_axes(shape.transpose(x, order), target), target)


# --- the primitive ------------------------------------------------------------------------------------------------------------


class ConvGeneralDilated(Primitive):
    """Convolution (cross-correlation) of `lhs` with the kernel `rhs`; params as in `lax.conv_general_dilated`, canonical."""

    def spread(self, ins: Any, avals: Any, outs: Any, params: Any) -> Any:
        """As the images; their features and the filters must not be cut."""
        rules.refuse_sums(self.name, ins)
        images, filters = ins
        numbers = params["dimension_numbers"]
        if not filters.uncut() or images.parts[numbers.lhs_spec[1]]:
            raise errors.ShardingTypeError(
                f"it is ambiguous how the result lies for images cut by {images.spec} and filters cut by {filters.spec}; "
                "say it: out_sharding=P(...)"
            )
        old, new = numbers.lhs_spec, numbers.out_spec
        before, after = [0] * len(new), [0] * len(new)
        parts: list[Any] = [()] * len(new)
        for a, b in zip(old, new, strict=True):
            before[b], after[b], parts[b] = avals[0].shape[a], outs[0].shape[b], images.parts[a]
        return [rules.changed_sizes(images.replace(parts, reduced=frozenset()), before, after)]

    def infer(
        self, lhs: ShapedArray, rhs: ShapedArray, *, window_strides: Any, padding: Any, lhs_dilation: Any, rhs_dilation: Any,
        dimension_numbers: ConvDimensionNumbers, feature_group_count: int, batch_group_count: int, precision: Any,
        preferred_element_type: Any,
    ) -> tuple[ShapedArray, ...]:  # fmt: skip
        """Type of the result."""
        dims = dimension_numbers
        for what, value in (("feature_group_count", feature_group_count), ("batch_group_count", batch_group_count)):
            if value < 1:
                raise errors.ShapeError(f"{what} must be positive, got {value}")
        if feature_group_count > 1 and batch_group_count > 1:
            raise errors.ShapeError("only one of feature_group_count and batch_group_count may exceed 1")
        spatial = lhs.ndim - 2
        if lhs.ndim != rhs.ndim or spatial < 0:
            raise errors.ShapeError(f"operands must have equal rank, at least 2, got {lhs.ndim} and {rhs.ndim}")
        for what, values in (
            ("window_strides", window_strides), ("padding", padding), ("lhs_dilation", lhs_dilation), ("rhs_dilation", rhs_dilation),
        ):  # fmt: skip
            if len(values) != spatial:
                raise errors.ShapeError(f"{what} must have one entry per spatial axis ({spatial}), got {values}")
        for what, values in (
            ("window_strides", window_strides),
            ("lhs_dilation", lhs_dilation),
            ("rhs_dilation", rhs_dilation),
        ):
            if any(v < 1 for v in values):
                raise errors.ShapeError(f"{what} must be positive, got {values}")
        features, kernel_features = lhs.shape[dims.lhs_spec[1]], rhs.shape[dims.rhs_spec[1]]
        out_features, batch = rhs.shape[dims.rhs_spec[0]], lhs.shape[dims.lhs_spec[0]]
        if features != kernel_features * feature_group_count:
            raise errors.ShapeError(
                f"the operand has {features} features, the kernel takes {kernel_features} in each of {feature_group_count} groups: "
                f"they must be equal in number"
            )
        if out_features % feature_group_count or out_features % batch_group_count:
            raise errors.ShapeError(
                f"the kernel's {out_features} output features do not divide into {max(feature_group_count, batch_group_count)} groups"
            )
        if batch % batch_group_count:
            raise errors.ShapeError(f"the batch of {batch} does not divide into {batch_group_count} groups")
        windows = windows_of(lhs.shape, rhs.shape, dims, window_strides, padding, lhs_dilation, rhs_dilation)
        sizes = [0] * lhs.ndim
        for axis, size in zip(
            dims.out_spec, (batch // batch_group_count, out_features, *(w.out for w in windows)), strict=True
        ):
            sizes[axis] = size
        weak = lhs.weak_type and rhs.weak_type and preferred_element_type is None
        return (array_aval(tuple(sizes), contraction.result_dtype(lhs.dtype, rhs.dtype, preferred_element_type), weak),)

    def reference(
        self, lhs: Any, rhs: Any, *, window_strides: Any, padding: Any, lhs_dilation: Any, rhs_dilation: Any,
        dimension_numbers: ConvDimensionNumbers, feature_group_count: int, batch_group_count: int, precision: Any,
        preferred_element_type: Any,
    ) -> tuple[np.ndarray, ...]:  # fmt: skip
        """Sum over the places in the window of a grouped product of features."""
        dims = dimension_numbers
        out_dtype = contraction.result_dtype(lhs.dtype, rhs.dtype, preferred_element_type)
        total = contraction.compute_dtypes(lhs.dtype, rhs.dtype, out_dtype)[1]
        windows = windows_of(lhs.shape, rhs.shape, dims, window_strides, padding, lhs_dilation, rhs_dilation)
        left = lhs.transpose(dims.lhs_spec).astype(total)
        kernel = rhs.transpose(dims.rhs_spec).astype(total)
        groups = feature_group_count
        if batch_group_count > 1:  # batch groups are feature groups that happen to lie in the batch axis
            groups, batch = batch_group_count, left.shape[0] // batch_group_count
            left = np.moveaxis(left.reshape(groups, batch, *left.shape[1:]), 0, 1).reshape(
                batch, groups * left.shape[1], *left.shape[2:]
            )
        for axis, w in enumerate(windows):
            left = _numpy_pad(left, axis + 2, w)
        left = left.reshape(left.shape[0], groups, left.shape[1] // groups, *left.shape[2:])
        kernel = kernel.reshape(groups, kernel.shape[0] // groups, *kernel.shape[1:])
        out = np.zeros((left.shape[0], groups, kernel.shape[1], *(w.out for w in windows)), total)
        for place in np.ndindex(*(w.kernel for w in windows)):
            cut = tuple(
                slice(
                    p * w.kernel_dilation, p * w.kernel_dilation + (w.out - 1) * w.stride + 1 if w.out else 0, w.stride
                )
                for p, w in zip(place, windows, strict=True)
            )
            out += np.einsum("ngc...,goc->ngo...", left[(slice(None),) * 3 + cut], kernel[(slice(None),) * 3 + place])
        out = out.reshape(out.shape[0], groups * out.shape[2], *out.shape[3:])
        return (np.ascontiguousarray(out.transpose(np.argsort(dims.out_spec))).astype(out_dtype),)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """Bilinear."""
        (lhs, rhs), (dl, dr) = primals, tangents
        left = None if dl is None else self.bind1(dl, rhs, **params)
        right = None if dr is None else self.bind1(lhs, dr, **params)
        return self.bind(lhs, rhs, **params), (base.add_tangents(left, right),)

    def transpose(
        self, cotangents: Any, operands: Any, *, window_strides: Any, padding: Any, lhs_dilation: Any, rhs_dilation: Any,
        dimension_numbers: ConvDimensionNumbers, feature_group_count: int, batch_group_count: int, precision: Any,
        preferred_element_type: Any,
    ) -> Any:  # fmt: skip
        """Again a convolution: of the cotangent with the reversed kernel, or of the operand with the cotangent as kernel."""
        (ct,), (lhs, rhs) = cotangents, operands
        if ct is None:
            return None, None
        dims = dimension_numbers
        left, right = aval_of(lhs), aval_of(rhs)
        windows = windows_of(left.shape, right.shape, dims, window_strides, padding, lhs_dilation, rhs_dilation)
        own = left if base.is_linear(lhs) else right
        to_real = dtypes.is_complex(aval_of(ct).dtype) and not dtypes.is_complex(own.dtype)
        params = {"precision": precision, "preferred_element_type": aval_of(ct).dtype if to_real else own.dtype}
        if base.is_linear(lhs):
            params.update(window_strides=lhs_dilation, lhs_dilation=window_strides, rhs_dilation=rhs_dilation)
            result = self._cotangent_of_lhs(ct, rhs, dims, windows, feature_group_count, batch_group_count, params)
        else:
            params.update(window_strides=rhs_dilation, lhs_dilation=lhs_dilation, rhs_dilation=window_strides)
            result = self._cotangent_of_rhs(ct, lhs, dims, windows, feature_group_count, batch_group_count, params)
        result = elementwise.real(result) if to_real else result
        return (result, None) if base.is_linear(lhs) else (None, result)

    def _cotangent_of_lhs(
        self,
        ct: Any,
        rhs: Any,
        dims: ConvDimensionNumbers,
        windows: Any,
        feature_groups: int,
        batch_groups: int,
        params: Any,
    ) -> Any:
        groups = max(feature_groups, batch_groups)
        out_feature, in_feature, *spatial = dims.rhs_spec
        if groups > 1:  # (groups * out, in) -> (out, groups * in)
            rhs = split_axis(rhs, out_feature, groups)
            rhs = move_into(rhs, out_feature, in_feature)
        rhs = shape.rev(rhs, tuple(spatial)) if spatial else rhs
        padding = []
        for w in windows:
            low = w.kernel_extent - w.low - 1
            padding.append((low, w.extent + w.kernel_extent - 1 - dilated(w.out, w.stride) - low))
        result = self.bind1(
            ct, rhs, padding=tuple(padding), feature_group_count=groups, batch_group_count=1,
            dimension_numbers=ConvDimensionNumbers(dims.out_spec, (in_feature, out_feature, *spatial), dims.lhs_spec), **params,
        )  # fmt: skip
        if batch_groups > 1:  # (batch, groups * feature) -> (groups * batch, feature)
            batch, feature = dims.lhs_spec[:2]
            result = split_axis(result, feature, groups)
            result = move_into(result, feature, batch)
        return result

    def _cotangent_of_rhs(
        self,
        ct: Any,
        lhs: Any,
        dims: ConvDimensionNumbers,
        windows: Any,
        feature_groups: int,
        batch_groups: int,
        params: Any,
    ) -> Any:
        padding = tuple(
            (
                w.low,
                w.kernel_extent - 1 + dilated(w.out, w.stride) - w.extent - w.low
                if w.out
                else -w.low - w.extent + w.kernel_extent,
            )
            for w in windows
        )

        def swapped(spec: tuple[int, ...]) -> tuple[int, ...]:
            return (spec[1], spec[0], *spec[2:])

        return self.bind1(
            lhs, ct, padding=padding, feature_group_count=batch_groups, batch_group_count=feature_groups,
            dimension_numbers=ConvDimensionNumbers(swapped(dims.lhs_spec), swapped(dims.out_spec), swapped(dims.rhs_spec)), **params,
        )  # fmt: skip

    def batch(
        self, axis: Any, operands: Any, dims: Any, *, dimension_numbers: ConvDimensionNumbers, feature_group_count: int,
        batch_group_count: int, **params: Any,
    ) -> Any:  # fmt: skip
        """The mapped axis becomes more groups (both operands), more batch (lhs) or more output features (rhs)."""
        (lhs, rhs), (ld, rd) = operands, dims
        spec = dimension_numbers
        groups = max(feature_group_count, batch_group_count)
        counts = {"feature_group_count": feature_group_count, "batch_group_count": batch_group_count}
        inside = 1  # groups outside of the mapped axis in the result
        if ld is not None and rd is not None:
            name = "batch_group_count" if batch_group_count > 1 else "feature_group_count"
            lhs = move_into(lhs, ld, spec.lhs_spec[0 if batch_group_count > 1 else 1])
            rhs = move_into(rhs, rd, spec.rhs_spec[0])
            counts[name] *= axis.size
            out_axis = spec.out_spec[1]
        elif ld is not None:
            lhs = move_into(lhs, ld, spec.lhs_spec[0], batch_group_count)
            out_axis = spec.out_spec[0]
        else:
            rhs = move_into(rhs, rd, spec.rhs_spec[0], groups)
            out_axis, inside = spec.out_spec[1], groups
        out = self.bind1(lhs, rhs, dimension_numbers=spec, **counts, **params)
        if inside == 1:
            return (split_axis(out, out_axis, axis.size),), (out_axis,)
        out = split_axis(split_axis(out, out_axis, inside), out_axis + 1, axis.size)
        order = [a for a in range(aval_of(out).ndim) if a != out_axis + 1]
        out = shape.transpose(out, (out_axis + 1, *order))
        return (join_axes(out, out_axis + 1),), (0,)

    def lower(self, b: Any, ins: Any, outs: Any, **params: Any) -> list[Any]:
        """`stablehlo.convolution`, or on CPU a faster form."""
        (lhs, rhs), (out,) = ins, outs
        operand, total = contraction.compute_dtypes(lhs.dtype, rhs.dtype, out.dtype)
        if getattr(b.module, "platform", "cpu") == "cpu":
            form = convolution_cpu.form_of(lhs.aval, rhs.aval, params)
            if form is not None:
                found = b.inline(form, [b.convert(lhs, total), b.convert(rhs, total)])[0]
                return [b.convert(found, out.dtype)]
        lhs, rhs = b.convert(lhs, operand), b.convert(rhs, operand)
        aval = array_aval(out.shape, total)
        dims: ConvDimensionNumbers = params["dimension_numbers"]
        layout = (
            f"[{_spec(dims.lhs_spec, 'b', 'f')}]x[{_spec(dims.rhs_spec, 'o', 'i')}]->[{_spec(dims.out_spec, 'b', 'f')}]"
        )
        left, right = (
            f"#stablehlo<precision {name.strip()}>"
            for name in contraction.precision_text(params["precision"]).split(",")
        )
        strides, padding, groups = params["window_strides"], params["padding"], params["feature_group_count"]
        lhs_dilation, rhs_dilation, batches = (
            params["lhs_dilation"],
            params["rhs_dilation"],
            params["batch_group_count"],
        )
        text = (
            f"stablehlo.convolution({lhs}, {rhs}) dim_numbers = {layout}, window = {{stride = {list(strides)}, "
            f"pad = {[list(p) for p in padding]}, lhs_dilate = {list(lhs_dilation)}, rhs_dilate = {list(rhs_dilation)}}} "
            f"{{batch_group_count = {batches} : i64, feature_group_count = {groups} : i64, "
            f"precision_config = [{left}, {right}]}} : ({lhs.hlo}, {rhs.hlo}) -> {aval.hlo}"
        )
        return [b.convert(b.emit(text, aval), out.dtype)]


def _spec(spec: Sequence[int], first: str, second: str) -> str:
    names = dict(zip(spec, (first, second, *map(str, range(len(spec) - 2))), strict=True))
    return ", ".join(names[axis] for axis in range(len(spec)))


def _numpy_pad(x: np.ndarray, axis: int, w: Window) -> np.ndarray:
    """`x` dilated and padded (negative padding cuts) along one axis."""
    sizes = list(x.shape)
    sizes[axis] = w.extent
    spread = np.zeros(sizes, x.dtype)
    head = (slice(None),) * axis
    if w.size:
        spread[(*head, slice(None, None, w.dilation))] = x
    spread = spread[(*head, slice(max(0, -w.low), max(0, w.extent + min(0, w.high))))]
    pads = [(0, 0)] * x.ndim
    pads[axis] = (max(0, w.low), max(0, w.high))
    return np.pad(spread, pads)


conv_general_dilated_p = ConvGeneralDilated("conv_general_dilated")


# --- functions ----------------------------------------------------------------------------------------------------------------


def conv_dimension_numbers(lhs_shape: Any, rhs_shape: Any, dimension_numbers: Any) -> ConvDimensionNumbers:
    """Where the axes of a convolution lie.

    Parameters
    ----------
    lhs_shape, rhs_shape : tuple of int
    dimension_numbers : None, ConvDimensionNumbers or (str, str, str)
        Letters of lhs, rhs and out: N batch, C feature, O and I output and input feature of the kernel, other letters spatial,
        such as ``("NHWC", "HWIO", "NHWC")``. None is ``("NCHW", "OIHW", "NCHW")`` for any number of spatial axes.

    Returns
    -------
    ConvDimensionNumbers

    Raises
    ------
    ShapeError
        The letters do not fit the shapes or one another.
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise errors.ShapeError(
            f"convolution takes operands of equal rank, got shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}"
        )
    if dimension_numbers is None:
        axes = tuple(range(len(lhs_shape)))
        return ConvDimensionNumbers(axes, axes, axes)
    if len(dimension_numbers) != 3 or not all(isinstance(part, str) for part in dimension_numbers):
        raise errors.ShapeError(f"dimension_numbers must be three strings, got {dimension_numbers!r}")
    for part in dimension_numbers:
        if len(part) != len(lhs_shape):
            raise errors.ShapeError(
                f"dimension_numbers {part!r} names {len(part)} axes, the operands have {len(lhs_shape)}"
            )
    return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))


def conv_general_permutations(dimension_numbers: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Axes of lhs, rhs and out in the order (batch, feature, spatial as in rhs) from three strings of letters.

    Returns
    -------
    (tuple of int, tuple of int, tuple of int)

    Raises
    ------
    ShapeError
        A letter is missing or occurs twice, or the spatial letters differ.

    Examples
    --------
    >>> purax.lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    lhs, rhs, out = dimension_numbers
    for part, (first, second) in ((lhs, "NC"), (rhs, "OI"), (out, "NC")):
        if part.count(first) != 1 or part.count(second) != 1 or len(set(part)) != len(part):
            raise errors.ShapeError(
                f"dimension_numbers {part!r} must have each of {first!r}, {second!r} and its spatial letters once"
            )
    spatial = [letter for letter in rhs if letter not in "OI"]
    if not set(lhs) - set("NC") == set(spatial) == set(out) - set("NC"):
        raise errors.ShapeError(f"dimension_numbers {tuple(dimension_numbers)} name different spatial axes")

    def places(part: str, first: str, second: str) -> tuple[int, ...]:
        return tuple(part.index(letter) for letter in (first, second, *spatial))

    return places(lhs, "N", "C"), places(rhs, "O", "I"), places(out, "N", "C")


def padtype_to_pads(in_shape: Any, window_shape: Any, window_strides: Any, padding: Any) -> list[tuple[int, int]]:
    """(low, high) padding per axis of "VALID", "SAME" (the odd element goes high) or "SAME_LOWER" (low).

    Parameters
    ----------
    in_shape, window_shape, window_strides : sequence of int
        Along the spatial axes; a dilated window counts with its gaps.
    padding : str

    Returns
    -------
    list of (int, int)

    Raises
    ------
    ShapeError
        Another padding, or strides below 1.

    Examples
    --------
    >>> purax.lax.padtype_to_pads((5,), (2,), (2,), "SAME")
    [(0, 1)]
    """
    kind = getattr(padding, "name", padding)
    kind = kind.upper() if isinstance(kind, str) else kind
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise errors.ShapeError(f"unknown padding {padding!r}: use 'VALID', 'SAME', 'SAME_LOWER' or (low, high) pairs")
    in_shape, window_shape, window_strides = (
        tuple(map(operator.index, v)) for v in (in_shape, window_shape, window_strides)
    )
    if any(stride <= 0 for stride in window_strides):
        raise errors.ShapeError(f"window_strides must be positive, got {window_strides}")
    pads = []
    for size, window, stride in zip(in_shape, window_shape, window_strides, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + window - size)
        small = total // 2
        pads.append((small, total - small) if kind == "SAME" else (total - small, small))
    return pads


def pairs_of(padding: Any) -> tuple[tuple[int, int], ...]:
    """Explicit padding as a tuple of pairs of ints.

    Raises
    ------
    ShapeError
        An entry is no pair.
    """
    entries = tuple(padding)
    if any(np.shape(pair) != (2,) for pair in entries):
        raise errors.ShapeError(
            f"the padding argument must be 'VALID', 'SAME', 'SAME_LOWER' or a (low, high) pair for each axis, got {entries}"
        )
    return tuple((operator.index(low), operator.index(high)) for low, high in entries)


def conv_general_dilated(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None, feature_group_count: int = 1,
    batch_group_count: int = 1, precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None,
) -> Any:  # fmt: skip
    """Convolve (cross-correlate) `lhs` with the kernel `rhs`.

    Parameters
    ----------
    lhs : array
        By default (batch, features, *spatial).
    rhs : array
        By default (output features, features / feature_group_count, *spatial).
    window_strides : sequence of int
    padding : "VALID", "SAME", "SAME_LOWER" or sequence of (low, high)
        Negative padding cuts.
    lhs_dilation, rhs_dilation : sequence of int, optional
        Distance between neighbouring elements of the operand and of the kernel.
    dimension_numbers : see `conv_dimension_numbers`
    feature_group_count, batch_group_count : int
        Groups of features (batch elements) that are convolved apart, each with its share of the output features.
    precision, preferred_element_type
        As in `dot_general`.
    out_sharding : PartitionSpec or NamedSharding, optional
        How the result lies on explicit mesh axes.

    Returns
    -------
    array
        By default (batch / batch_group_count, output features, *spatial).

    Raises
    ------
    ShapeError
        Shapes, groups or dimension numbers do not fit.
    """
    if out_sharding is not None:
        return resharding.out_sharded(
            conv_general_dilated, out_sharding, lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers,
            feature_group_count, batch_group_count, precision, preferred_element_type,
        )  # fmt: skip
    left, right = aval_of(lhs), aval_of(rhs)
    dims = conv_dimension_numbers(left.shape, right.shape, dimension_numbers)
    spatial = len(dims.lhs_spec) - 2
    lhs_dilation = (1,) * spatial if lhs_dilation is None else tuple(lhs_dilation)
    rhs_dilation = (1,) * spatial if rhs_dilation is None else tuple(rhs_dilation)
    if isinstance(padding, str):
        if len(window_strides) != spatial:
            raise errors.ShapeError(
                f"window_strides must have one entry per spatial axis ({spatial}), got {window_strides}"
            )
        if any(d != 1 for d in lhs_dilation):
            raise errors.ShapeError(
                "padding by name has no one meaning with lhs_dilation: give pairs, or use conv_transpose"
            )
        kernel = [dilated(right.shape[axis], d) for axis, d in zip(dims.rhs_spec[2:], rhs_dilation, strict=True)]
        padding = padtype_to_pads([left.shape[axis] for axis in dims.lhs_spec[2:]], kernel, window_strides, padding)
    return conv_general_dilated_p.bind1(
        lhs, rhs, window_strides=tuple(map(operator.index, window_strides)), padding=pairs_of(padding),
        lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation, dimension_numbers=dims,
        feature_group_count=operator.index(feature_group_count), batch_group_count=operator.index(batch_group_count),
        precision=contraction.canonical_precision(precision),
        preferred_element_type=None if preferred_element_type is None else dtypes.named(preferred_element_type),
    )  # fmt: skip
