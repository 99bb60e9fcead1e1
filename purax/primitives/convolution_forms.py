# SPDX-License-Identifier: Apache-2.0
"""Forms of convolution built on `conv_general_dilated`: plain, transposed, patches, and with a kernel for each place.

Parameters
----------
precision, preferred_element_type
    As in `dot_general`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from purax import errors
from purax.core.trace import aval_of
from purax.primitives import cast, contraction, convolution, joining, operands, shape
from purax.primitives.convolution import ConvDimensionNumbers, dilated

__all__ = [
    "conv", "conv_general_dilated_local", "conv_general_dilated_patches", "conv_general_shape_tuple", "conv_shape_tuple",
    "conv_transpose", "conv_transpose_shape_tuple", "conv_with_general_padding",
]  # fmt: skip


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """Convolution of (batch, features, *spatial) with (output features, features, *spatial).

    See `purax.primitives.convolution_forms` for the arguments that its functions share.

    Parameters
    ----------
    lhs : array[b, f, ...]
    rhs : array[o, f, ...]
    window_strides : sequence of int
    padding : "VALID", "SAME" or "SAME_LOWER"

    Returns
    -------
    array[b, o, ...]
    """
    return convolution.conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type
    )


def conv_with_general_padding(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None, precision: Any = None, preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """`conv` with explicit padding and dilation.

    See `purax.primitives.convolution_forms` for the arguments that its functions share.

    Parameters
    ----------
    lhs : array[b, f, ...]
    rhs : array[o, f, ...]
    window_strides : sequence of int
    padding : str or sequence of (low, high)
    lhs_dilation, rhs_dilation : sequence of int or None

    Returns
    -------
    array[b, o, ...]
    """
    return convolution.conv_general_dilated(
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


# --- transposed ---------------------------------------------------------------------------------------------------------------

_CHANNELS_LAST = {3: ("NHC", "HIO", "NHC"), 4: ("NHWC", "HWIO", "NHWC"), 5: ("NHWDC", "HWDIO", "NHWDC")}


def _transpose_padding(kernel: int, stride: int, padding: str) -> tuple[int, int]:
    """Padding of the dilated operand that undoes a forward convolution with SAME or VALID padding."""
    if padding == "SAME":
        total = kernel + stride - 2
        low = kernel - 1 if stride > kernel - 1 else -(-total // 2)
    elif padding == "VALID":
        total = kernel + stride - 2 + max(kernel - stride, 0)
        low = kernel - 1
    else:
        raise errors.ShapeError(f"conv_transpose takes padding 'SAME', 'VALID' or (low, high) pairs, got {padding!r}")
    return low, total - low


def conv_transpose(
    lhs: Any, rhs: Any, strides: Sequence[int], padding: Any, rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None, transpose_kernel: bool = False, precision: Any = None, preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Any:  # fmt: skip
    """Transposed (fractionally strided) convolution: the operand is dilated by `strides`, then convolved.

    See `purax.primitives.convolution_forms` for the arguments that its functions share.

    Parameters
    ----------
    lhs, rhs : arrays
        Features last by default: (batch, *spatial, features) and (*spatial, features, output features).
    strides : sequence of int
    padding : "SAME", "VALID" or sequence of (low, high)
        Pairs pad the dilated operand, or, with `use_consistent_padding`, are those of the forward convolution.
    rhs_dilation : sequence of int, optional
    dimension_numbers : optional
        See `conv_dimension_numbers`.
    transpose_kernel : bool
        Reverse the kernel and swap its features: the gradient of the forward convolution with `rhs`.
    use_consistent_padding : bool

    Returns
    -------
    array

    Raises
    ------
    ShapeError
        An unknown padding, or a rank without default dimension numbers.
    """
    left, right = aval_of(lhs), aval_of(rhs)
    if dimension_numbers is None:
        if left.ndim not in _CHANNELS_LAST:
            raise errors.ShapeError(f"conv_transpose needs dimension_numbers for operands of {left.ndim} axes")
        dimension_numbers = _CHANNELS_LAST[left.ndim]
    dims = convolution.conv_dimension_numbers(left.shape, right.shape, dimension_numbers)
    spatial = dims.rhs_spec[2:]
    rhs_dilation = (1,) * len(spatial) if rhs_dilation is None else tuple(rhs_dilation)
    kernel = [dilated(right.shape[axis], d) for axis, d in zip(spatial, rhs_dilation, strict=True)]
    if isinstance(padding, str):
        pads = [_transpose_padding(k, s, padding.upper()) for k, s in zip(kernel, strides, strict=True)]
    elif use_consistent_padding:
        pads = [(k - 1 - low, k - 1 - high) for k, (low, high) in zip(kernel, padding, strict=True)]
    else:
        pads = list(padding)
    if transpose_kernel:
        rhs = shape.rev(rhs, spatial)
        dims = dims._replace(rhs_spec=(dims.rhs_spec[1], dims.rhs_spec[0], *spatial))
    return convolution.conv_general_dilated(
        lhs, rhs, (1,) * len(spatial), pads, tuple(strides), rhs_dilation, dims, precision=precision,
        preferred_element_type=preferred_element_type,
    )  # fmt: skip


# --- patches ------------------------------------------------------------------------------------------------------------------


def conv_general_dilated_patches(
    lhs: Any, filter_shape: Sequence[int], window_strides: Sequence[int], padding: Any, lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None, precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """The windows that a convolution would see.

    See `purax.primitives.convolution_forms` for the arguments that its functions share.

    Parameters
    ----------
    lhs : array
        By default (batch, features, *spatial).
    filter_shape : sequence of int
        Sizes of a window along the spatial axes.
    window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers
        As in `conv_general_dilated`.

    Returns
    -------
    array
        As the result of a convolution, with `features * prod(filter_shape)` features: for each feature of `lhs` in turn,
        its window in row-major order.
    """
    aval = aval_of(lhs)
    filter_shape = tuple(filter_shape)
    dims = convolution.conv_dimension_numbers(aval.shape, (1, 1, *filter_shape), dimension_numbers)
    rank = len(filter_shape)
    lhs_dilation = (1,) * rank if lhs_dilation is None else tuple(lhs_dilation)
    rhs_dilation = (1,) * rank if rhs_dilation is None else tuple(rhs_dilation)
    x = shape.transpose(lhs, dims.lhs_spec)  # batch, features, spatial
    sizes = aval_of(x).shape
    if isinstance(padding, str):
        extents = [dilated(k, d) for k, d in zip(filter_shape, rhs_dilation, strict=True)]
        padding = convolution.padtype_to_pads(sizes[2:], extents, window_strides, padding)
    padding = convolution.pairs_of(padding)
    x = joining.pad(
        x, operands.scalar(0, aval.dtype),
        [(0, 0, 0), (0, 0, 0), *((low, high, d - 1) for (low, high), d in zip(padding, lhs_dilation, strict=True))],
    )  # fmt: skip
    for axis, (window, stride, dilation) in enumerate(zip(filter_shape, window_strides, rhs_dilation, strict=True), 2):
        # each step puts the places in the window of one spatial axis behind the features: N, C, k1, ..., S1, S2, ...
        x = _unfold(x, axis + (axis - 2), axis, window, stride, dilation)
    sizes = aval_of(x).shape
    x = shape.reshape(x, (sizes[0], sizes[1] * math.prod(filter_shape), *sizes[2 + rank :]))
    x = shape.transpose(x, shape.inverse_permutation(dims.out_spec))
    return x if preferred_element_type is None else cast.convert_element_type(x, preferred_element_type)


def _unfold(x: Any, axis: int, target: int, window: int, stride: int, dilation: int) -> Any:
    """Windows along `axis`: the place of the window stays there (one further on), the place in the window comes at `target`."""
    size = aval_of(x).shape[axis]
    count = max(0, (size - dilated(window, dilation)) // stride + 1)
    cuts = [
        joining.slice_in_dim(
            x, k * dilation, k * dilation + (count - 1) * stride + 1 if count else k * dilation, stride, axis
        )
        for k in range(window)
    ]
    return joining.concatenate([shape.expand_dims(cut, (target,)) for cut in cuts], target)


def conv_general_dilated_local(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None,
    precision: Any = None,
) -> Any:  # fmt: skip
    """Convolution with a kernel of its own for each place of the window (no sharing of weights).

    See `purax.primitives.convolution_forms` for the arguments that its functions share.

    Parameters
    ----------
    rhs : array
        By default (output features, features * prod(filter_shape), *spatial of the result).
    lhs : array
        By default (batch, features, *spatial).
    filter_shape : sequence of int
        Sizes of a window along the spatial axes.
    window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers
        As in `conv_general_dilated`.

    Returns
    -------
    array
        By default (batch, output features, *spatial).
    """
    left, right = aval_of(lhs), aval_of(rhs)
    dims = convolution.conv_dimension_numbers(left.shape, right.shape, dimension_numbers)
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation,
        ConvDimensionNumbers(dims.lhs_spec, dims.rhs_spec, dims.lhs_spec),
    )  # fmt: skip
    feature, *kernel_spatial = dims.rhs_spec[1:]
    patch_feature, *spatial = dims.lhs_spec[1:]
    out = contraction.dot_general(
        rhs, patches, (((feature,), (patch_feature,)), (tuple(kernel_spatial), tuple(spatial))), precision
    )  # spatial, output feature, batch
    rank = len(spatial)
    return shape.transpose(out, shape.inverse_permutation(tuple(dims.out_spec[i] for i in (*range(2, 2 + rank), 1, 0))))


# --- shapes of results --------------------------------------------------------------------------------------------------------


def conv_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, strides: Any, pads: Any, batch_group_count: int = 1
) -> tuple[int, ...]:
    """Shape of `conv` with padding by name or pairs, for (batch, features, ...) and (output features, features, ...).

    Parameters
    ----------
    lhs_shape, rhs_shape : sequence of int
    strides : sequence of int
    pads : str or sequence of (low, high)
    batch_group_count : int

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> purax.lax.conv_shape_tuple((8, 3, 28, 28), (16, 3, 5, 5), (2, 2), "SAME")
    (8, 16, 14, 14)
    """
    if isinstance(pads, str):
        pads = convolution.padtype_to_pads(lhs_shape[2:], rhs_shape[2:], strides, pads)
    spatial = [
        max(0, (n + low + high - k) // s + 1)
        for n, k, s, (low, high) in zip(lhs_shape[2:], rhs_shape[2:], strides, pads, strict=True)
    ]
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *spatial)


def conv_general_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> tuple[int, ...]:
    """Shape of `conv_general_dilated` without dilation, for dimension numbers by letters.

    Parameters
    ----------
    lhs_shape, rhs_shape : sequence of int
    window_strides : sequence of int
    padding : str or sequence of (low, high)
    dimension_numbers : (str, str, str)

    Returns
    -------
    tuple of int
    """
    lhs, rhs, out = convolution.conv_general_permutations(dimension_numbers)
    found = conv_shape_tuple([lhs_shape[i] for i in lhs], [rhs_shape[i] for i in rhs], window_strides, padding)
    return tuple(found[i] for i in shape.inverse_permutation(out))


def conv_transpose_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> tuple[int, ...]:
    """Shape of `conv_transpose`, for dimension numbers by letters.

    Parameters
    ----------
    lhs_shape, rhs_shape : sequence of int
    window_strides : sequence of int
    padding : "SAME", "VALID" or sequence of (low, high)
    dimension_numbers : (str, str, str)

    Returns
    -------
    tuple of int
    """
    lhs, rhs, out = convolution.conv_general_permutations(dimension_numbers)
    sizes, kernel = [lhs_shape[i] for i in lhs], [rhs_shape[i] for i in rhs]
    if isinstance(padding, str):
        padding = [_transpose_padding(k, s, padding.upper()) for k, s in zip(kernel[2:], window_strides, strict=True)]
    spatial = [
        dilated(n, s) + low + high - k + 1
        for n, k, s, (low, high) in zip(sizes[2:], kernel[2:], window_strides, padding, strict=True)
    ]
    found = (sizes[0], kernel[0], *spatial)
    return tuple(found[i] for i in shape.inverse_permutation(out))
