# SPDX-License-Identifier: Apache-2.0
"""Convolution: samples for the laws over all parameters, SciPy as oracle, and the derived forms."""

import itertools

import ml_dtypes
import numpy as np
import pytest
import scipy.signal

import purax
from purax import errors
from purax.core.aval import array_aval
from purax.primitives import contraction, convolution, convolution_cpu, convolution_forms, elementwise, reduction
from purax.primitives.convolution import ConvDimensionNumbers
from tests.laws.sample import BadSample, Sample

rng = np.random.default_rng(0)


def normal(*sizes, dtype=np.float32):
    """Normal numbers."""
    return rng.standard_normal(sizes).astype(dtype)


PLAIN = ConvDimensionNumbers(*((tuple(range(4)),) * 3))
LAST = convolution.conv_dimension_numbers((1,) * 4, (1,) * 4, ("NHWC", "HWIO", "NHWC"))
ODD = convolution.conv_dimension_numbers((1,) * 4, (1,) * 4, ("HNCW", "IWOH", "CWHN"))


def case(lhs, rhs, dims=PLAIN, strides=(1, 1), padding=((0, 0), (0, 0)), dilation=(1, 1), kernel_dilation=(1, 1), features=1,
         batches=1, preferred=None, **kwargs):  # fmt: skip
    """A sample of conv_general_dilated."""
    params = {
        "window_strides": strides, "padding": padding, "lhs_dilation": dilation, "rhs_dilation": kernel_dilation,
        "dimension_numbers": dims, "feature_group_count": features, "batch_group_count": batches, "precision": None,
        "preferred_element_type": preferred,
    }  # fmt: skip
    return Sample(convolution.conv_general_dilated_p, (lhs, rhs), params, **kwargs)


SAMPLES = [
    case(normal(2, 3, 6, 5), normal(4, 3, 3, 2)),
    case(normal(2, 6, 5, 3), normal(3, 2, 3, 4), LAST, padding=((1, 1), (0, 1))),
    case(normal(6, 2, 3, 5), normal(3, 2, 4, 3), ODD, strides=(2, 1), padding=((1, 2), (1, 0))),
    case(
        normal(2, 3, 7, 6),
        normal(2, 3, 2, 3),
        strides=(2, 3),
        dilation=(2, 1),
        kernel_dilation=(1, 2),
        padding=((2, 1), (3, 0)),
    ),
    case(normal(2, 3, 7, 6), normal(2, 3, 3, 3), padding=((-1, 0), (2, -1))),
    case(normal(2, 4, 5, 5), normal(6, 2, 3, 3), features=2, strides=(2, 1)),
    case(normal(2, 5, 5, 4), normal(3, 3, 1, 8), LAST, features=4, padding=((1, 1), (1, 1))),
    case(normal(2, 6, 6, 4), normal(3, 3, 1, 4), LAST, features=4, padding=((1, 1), (1, 1)), strides=(2, 2)),
    case(normal(4, 3, 5, 5), normal(6, 3, 3, 3), batches=2, padding=((1, 0), (0, 1))),
    case(normal(4, 4, 3, 3), normal(4, 4, 2, 2), batches=4, strides=(1, 2)),
    case(normal(2, 3, 5, 4), normal(2, 3, 5, 4), padding=((1, 1), (1, 1))),
    case(normal(2, 3, 4, 4), normal(5, 3, 1, 1)),
    case(normal(2, 5, 4, 3), normal(1, 1, 3, 4), LAST, strides=(2, 1)),
    case(normal(2, 5, 4, 6), normal(2, 2, 2, 3), LAST, features=3),
    case(normal(2, 5, 4, 12), normal(2, 2, 2, 12), LAST, features=6),
    case(normal(2, 4, 5, 5), normal(8, 1, 3, 2), features=4, strides=(2, 1), dilation=(1, 2), padding=((1, 0), (2, 1))),
    case(
        normal(3, 2, 5, 5),
        normal(2, 3, 4, 3),
        ConvDimensionNumbers((1, 0, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3)),
        batches=2,
        padding=((1, 0), (0, 0)),
        kernel_dilation=(1, 2),
    ),
    case((normal(1, 2, 4, 4) + 1j * normal(1, 2, 4, 4)), (normal(2, 2, 2, 2) + 1j * normal(2, 2, 2, 2))),
    case(normal(1, 2, 4, 4, dtype=ml_dtypes.bfloat16), normal(2, 2, 2, 2, dtype=ml_dtypes.bfloat16), differentiable=()),
    case(rng.integers(-5, 5, (1, 2, 4, 4)).astype(np.int32), rng.integers(-5, 5, (2, 2, 2, 2)).astype(np.int32)),
]
BAD_SAMPLES = [
    BadSample(
        convolution.conv_general_dilated_p,
        (normal(1, 3, 4, 4), normal(2, 2, 2, 2)),
        SAMPLES[0].params,
        errors.ShapeError,
        "features",
    ),
    BadSample(
        convolution.conv_general_dilated_p,
        (normal(1, 4, 4), normal(2, 4, 2)),
        SAMPLES[0].params,
        errors.ShapeError,
        "one entry per spatial",
    ),
]


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_convolution_agrees_with_scipy(padding):
    x, k = normal(8, 9), normal(3, 4)
    got = convolution.conv_general_dilated(x[None, None], k[None, None], (1, 1), padding)
    want = scipy.signal.correlate2d(x, k, mode="valid" if padding == "VALID" else "same")
    if padding == "SAME":  # an even window leans the other way there
        want = scipy.signal.correlate2d(np.pad(x, ((1, 1), (1, 2))), k, mode="valid")
    np.testing.assert_allclose(np.asarray(got)[0, 0], want, rtol=1e-5, atol=1e-5)


def test_padding_by_name_puts_the_odd_element_high_or_low():
    assert convolution.padtype_to_pads((5, 6), (2, 3), (1, 2), "SAME") == [(0, 1), (0, 1)]
    assert convolution.padtype_to_pads((5, 6), (2, 3), (1, 2), "SAME_LOWER") == [(1, 0), (1, 0)]
    assert convolution.padtype_to_pads((5,), (2,), (1,), "VALID") == [(0, 0)]
    with pytest.raises(errors.ShapeError, match="unknown padding"):
        convolution.padtype_to_pads((5,), (2,), (1,), "FULL")


X, K = np.arange(1.0, 4.0, dtype=np.float32)[None, :, None], np.array([1.0, 10, 100, 1000], np.float32)[:, None, None]
TRANSPOSED = [
    ("SAME", 2, False, [100, 2010, 201, 3020, 302, 30]),
    ("VALID", 1, False, [1000, 2100, 3210, 321, 32, 3]),
    ("SAME", 5, False, [1000, 100, 10, 1, 0, 2000, 200, 20, 2, 0, 3000, 300, 30, 3, 0]),
    (((1, 0),), 2, False, [2010, 201, 3020]),
    (((1, 0),), 2, True, [100, 2010, 201, 3020, 302, 30, 3]),
]


@pytest.mark.parametrize(("padding", "stride", "consistent", "want"), TRANSPOSED)
def test_transposed_convolution_spreads_the_kernel(padding, stride, consistent, want):
    got = convolution_forms.conv_transpose(X, K, (stride,), padding, use_consistent_padding=consistent)
    np.testing.assert_allclose(np.asarray(got).ravel(), want)


def test_transposed_convolution_with_transposed_kernel_is_the_gradient():
    x, k = normal(1, 9, 3), normal(3, 3, 5)
    dims = ("NHC", "HIO", "NHC")

    def forward(v):
        return convolution.conv_general_dilated(v, k, (2,), "SAME", dimension_numbers=dims)

    out, pullback = purax.vjp(forward, x)
    g = normal(*out.shape)
    back = convolution_forms.conv_transpose(g, k, (2,), ((1, 1),), transpose_kernel=True)
    np.testing.assert_allclose(pullback(g)[0], back, rtol=1e-4, atol=1e-5)


def test_patches_are_the_windows_feature_by_feature():
    x = normal(1, 3, 4, 2)
    got = np.asarray(
        convolution_forms.conv_general_dilated_patches(
            x, (2, 2), (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
    )
    for i, j in itertools.product(range(2), range(3)):
        np.testing.assert_array_equal(got[0, i, j], np.moveaxis(x[0, i : i + 2, j : j + 2], -1, 0).ravel())


def test_patches_times_the_kernel_are_the_convolution():
    x, k = normal(2, 3, 7, 6), normal(4, 3, 3, 2)
    args = ((2, 1), ((1, 1), (0, 2)), (1, 2), (2, 1))
    patches = convolution_forms.conv_general_dilated_patches(x, (3, 2), *args)
    got = contraction.dot_general(k.reshape(4, -1), patches, (((1,), (1,)), ((), ())))
    want = convolution.conv_general_dilated(x, k, *args)
    np.testing.assert_allclose(np.moveaxis(np.asarray(got), 0, 1), want, rtol=1e-4, atol=1e-5)


def test_local_convolution_has_a_kernel_for_each_place():
    x, k = normal(2, 3, 4, 5), normal(4, 12, 3, 4)
    got = np.asarray(convolution_forms.conv_general_dilated_local(x, k, (1, 1), "VALID", (2, 2)))
    for i, j in itertools.product(range(3), range(4)):
        window = x[:, :, i : i + 2, j : j + 2].reshape(2, -1)
        np.testing.assert_allclose(got[:, :, i, j], window @ k[:, :, i, j].T, rtol=1e-4, atol=1e-5)


def test_dimension_numbers_are_checked():
    for wrong, message in (
        (("NHWC", "HWIO"), "three strings"),
        (("NHWC", "HWIO", "NHCC"), "once"),
        (("NHWC", "HWIO", "NHXC"), "spatial"),
    ):
        with pytest.raises(errors.ShapeError, match=message):
            convolution.conv_dimension_numbers((1, 2, 3, 4), (1, 2, 3, 4), wrong)
    with pytest.raises(errors.ShapeError, match="use conv_transpose"):
        convolution.conv_general_dilated(normal(1, 1, 4, 4), normal(1, 1, 2, 2), (1, 1), "SAME", lhs_dilation=(2, 2))
    for padding in ("VALID", "SAME", "SAME_LOWER", ((0, 0), (1, 1))):
        with pytest.raises(errors.ShapeError, match="window_strides must be positive"):
            convolution.conv_general_dilated(normal(1, 1, 4, 4), normal(1, 1, 2, 2), (0, 1), padding)
    with pytest.raises(errors.ShapeError, match="pair for each axis"):
        convolution_forms.conv_general_dilated_patches(normal(1, 1, 4, 4), (2, 2), (1, 1), (3, 3))
    pads = convolution.padtype_to_pads(np.array([5, 6]), np.array([3, 3]), np.array([2, 1]), "SAME")
    assert all(type(n) is int for pair in pads for n in pair)


def test_shapes_of_results_are_told_beforehand():
    dims = ("NHWC", "HWIO", "NHWC")
    assert convolution_forms.conv_general_shape_tuple((1, 8, 8, 3), (3, 3, 3, 4), (2, 1), "SAME", dims) == (1, 4, 8, 4)
    assert convolution_forms.conv_transpose_shape_tuple((1, 8, 8, 3), (3, 3, 3, 4), (2, 1), "SAME", dims) == (
        1,
        16,
        8,
        4,
    )
    assert convolution_forms.conv_shape_tuple((1, 2, 3, 4), (5, 2, 3, 3), (1, 1), [(0, 0), (0, 0)]) == (1, 5, 1, 2)


def test_forms_for_the_processor_are_found():
    def form(sample):
        return convolution_cpu.form_of(*[array_aval(a.shape, a.dtype) for a in sample.operands], sample.params)

    assert form(case(normal(1, 4, 4, 8), normal(3, 3, 1, 8), LAST, features=8)) is not None
    assert form(case(normal(1, 4, 4, 8), normal(1, 1, 8, 3), LAST)) is not None
    assert form(case(normal(1, 4, 4, 8), normal(3, 3, 4, 6), LAST, features=2)) is not None
    assert form(case(normal(1, 4, 4, 8), normal(3, 3, 8, 3), LAST)) is None
    # What vmap makes of the gradient by the kernel for each of two examples: four results from each one's feature.
    assert form(case(normal(3, 8, 8, 2), normal(6, 6, 1, 8), LAST, features=2)) is None


def test_many_groups_are_products_of_matrices():
    sample = case(
        normal(2, 4, 5, 132), normal(2, 3, 2, 198), LAST, features=66, padding=((0, 1), (1, 1)), strides=(1, 2)
    )
    got = convolution.conv_general_dilated_p.bind1(*sample.operands, **sample.params)
    (want,) = convolution.conv_general_dilated_p.reference(*sample.operands, **sample.params)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_gradients_of_many_groups():
    x, k = normal(2, 4, 4, 130), normal(2, 2, 2, 130)
    dims = ("NHWC", "HWIO", "NHWC")

    def total(k):
        out = convolution.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=dims, feature_group_count=65)
        return reduction.reduce_sum(elementwise.mul(out, out), (0, 1, 2, 3))

    gradient, step, direction = purax.grad(total)(k), 1e-2, normal(*k.shape)
    slope = (float(total(k + step * direction)) - float(total(k - step * direction))) / (2 * step)
    np.testing.assert_allclose(np.vdot(gradient, direction), slope, rtol=1e-2)


def test_second_derivatives_of_a_convolution():
    x, k = normal(1, 2, 5, 5), normal(2, 2, 3, 3)

    def energy(v, w):
        y = convolution.conv_general_dilated(v, w, (2, 2), "SAME")
        return reduction.reduce_sum(elementwise.mul(y, y), (0, 1, 2, 3))

    v, w = normal(*x.shape), normal(*k.shape)
    _, tangents = purax.jvp(purax.grad(energy, (0, 1)), (x, k), (v, w))
    step = 1e-2
    plus, minus = (
        purax.grad(energy, (0, 1))(x + step * v, k + step * w),
        purax.grad(energy, (0, 1))(x - step * v, k - step * w),
    )
    for t, p, m in zip(tangents, plus, minus, strict=True):
        np.testing.assert_allclose(t, (np.asarray(p) - np.asarray(m)) / (2 * step), rtol=2e-2, atol=2e-2)
