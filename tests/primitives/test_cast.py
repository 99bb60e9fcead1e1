# SPDX-License-Identifier: Apache-2.0
"""Changes of dtype: samples for the laws, and every cast between every two dtypes."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import config, dtypes, errors
from purax.primitives import cast
from tests.laws.sample import BadSample, Sample

rng = np.random.default_rng(0)
X = rng.standard_normal((2, 3)).astype(np.float32)
Z = (X + 1j * X[::-1]).astype(np.complex64)
INTS = np.array([[5, -7, 300], [70000, 2, -1]], np.int32)
FLAGS = np.array([True, False])
HALF, BRAIN = X.astype(np.float16), X.astype(ml_dtypes.bfloat16)
EDGES = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 300.7, -1.5, 0.5, -0.0], np.float32)


def to(name, weak_type=False):
    """Parameters of a conversion."""
    return {"new_dtype": np.dtype(name), "weak_type": weak_type}


TARGETS = ("float32", "float16", ml_dtypes.bfloat16, "complex64", "int32", "int8", "uint8", "uint32", "bool")
SAMPLES = [
    *(Sample(cast.convert_element_type_p, (X,), to(t), linear=(0,) if t in ("float32", "complex64") else None,
             differentiable=None if t in ("float32", "complex64") else ()) for t in TARGETS),
    *(Sample(cast.convert_element_type_p, (x,), to(t), differentiable=()) for x in (INTS, FLAGS, HALF, BRAIN, EDGES) for t in TARGETS),
    Sample(cast.convert_element_type_p, (Z,), to("float32"), linear=(0,), differentiable=()),
    Sample(cast.convert_element_type_p, (X[:0],), to("float16"), differentiable=()),
    Sample(cast.convert_element_type_p, (X[0, 0].reshape(()),), to("float32", True)),
    *(Sample(cast.bitcast_convert_type_p, (x,), {"new_dtype": np.dtype(t)}, differentiable=())
      for x, t in ((X, "int32"), (X, "uint8"), (INTS, "float32"), (HALF[:, :2], "int32"), (BRAIN, "uint16"), (X, "float32"))),
    *(Sample(cast.reduce_precision_p, (x,), {"exponent_bits": b, "mantissa_bits": m}, differentiable=())
      for x in (X, EDGES, HALF, BRAIN) for b, m in ((8, 7), (5, 10), (4, 3))),
    *(Sample(cast.copy_p, (x,), linear=(0,)) for x in (X, Z)), Sample(cast.copy_p, (INTS,)), Sample(cast.copy_p, (BRAIN,), differentiable=()),
]  # fmt: skip
BAD_SAMPLES = [
    BadSample(
        cast.bitcast_convert_type_p, (FLAGS,), {"new_dtype": np.dtype("uint8")}, errors.DTypeError, "bool has no bits"
    ),
    BadSample(cast.bitcast_convert_type_p, (Z,), {"new_dtype": np.dtype("float32")}, errors.DTypeError, "complex"),
    BadSample(cast.bitcast_convert_type_p, (HALF,), {"new_dtype": np.dtype("int32")}, errors.ShapeError, "last axis"),
    BadSample(cast.reduce_precision_p, (INTS,), {"exponent_bits": 8, "mantissa_bits": 7}, errors.DTypeError, "int32"),
    BadSample(
        cast.reduce_precision_p, (X,), {"exponent_bits": 0, "mantissa_bits": 7}, errors.ShapeError, "must be positive"
    ),
    BadSample(
        cast.convert_element_type_p,
        (X,),
        {"new_dtype": dtypes.float0, "weak_type": False},
        errors.DTypeError,
        "cannot have",
    ),
]

ALL = [d for d in dtypes.ALL if dtypes.itemsize_bits(d) > 1 and d not in (dtypes.float6_e2m3fn, dtypes.float6_e3m2fn)]


def values(dtype):
    """A few values with the edges of the dtype."""
    if dtypes.is_bool(dtype):
        return np.array([True, False])
    if dtypes.is_integer(dtype):
        limits = dtypes.iinfo(dtype)
        edges = sorted({int(limits.min), -1 * dtypes.is_signed(dtype), 0, 1, int(limits.max)})
        return np.array(edges, object if limits.max > 2**63 else np.int64).astype(dtype)
    if dtype in dtypes.NARROW_FLOATS:
        return np.array([0.5, 1, 2, 4], np.float32).astype(dtype)
    reals = [np.nan, np.inf, -np.inf, 3e9, -3e9, 6e4, 0.5, -0.0, -1.5, 2.5, 255.9]
    with np.errstate(over="ignore"):
        return np.array(reals).astype(dtype)


@pytest.mark.parametrize("old", ALL, ids=str)
def test_every_cast_is_what_the_compiler_computes(old):
    config.update("enable_x64", True)
    x = values(old)
    targets = [d for d in ALL if d != old]
    program = purax.jit(lambda v: [cast.convert_element_type(v, t) for t in targets])
    for target, got in zip(targets, program(x), strict=True):
        with np.errstate(all="ignore"):
            want = cast.cast_array(x, target)
        assert want.dtype == got.dtype == target
        wide = np.complex128 if dtypes.is_complex(target) else np.float64
        np.testing.assert_array_equal(np.asarray(got).astype(wide), want.astype(wide), err_msg=f"{old} to {target}")


def test_floats_saturate_and_nan_becomes_zero_in_integers():
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 1.9, -1.9], np.float32)
    np.testing.assert_array_equal(
        cast.convert_element_type(x, np.int32), [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 1, -1]
    )
    np.testing.assert_array_equal(cast.convert_element_type(x, np.uint8), [0, 255, 0, 255, 0, 1, 0])


def test_conversion_makes_weak_values_strong_and_leaves_equal_ones_alone():
    weak = cast.convert_element_type(1.0, np.float32)
    assert not weak.weak_type
    assert cast.convert_element_type(weak, np.float32) is weak


def test_a_derivative_has_the_dtype_of_what_it_belongs_to():
    x = X.astype(ml_dtypes.bfloat16)
    out, pull = purax.vjp(lambda v: cast.convert_element_type(v, np.float32), x)
    (gradient,) = pull(np.full(out.shape, 1.01, np.float32))
    assert gradient.dtype == ml_dtypes.bfloat16
    _, tangent = purax.jvp(lambda v: cast.convert_element_type(v, np.complex64), (X,), (X,))
    assert tangent.dtype == np.complex64


@pytest.mark.parametrize(
    ("old", "new"),
    [p for p in itertools.product(("int8", "uint16", "float32", "int64", "float64"), repeat=2) if p[0] != p[1]],
)
def test_bits_survive_a_round_trip(old, new):
    config.update("enable_x64", True)
    x = rng.integers(1, 100, 8).astype(old)
    small, large = sorted((np.dtype(old).itemsize, np.dtype(new).itemsize))
    x = x.reshape(-1, large // small) if np.dtype(old).itemsize < np.dtype(new).itemsize else x
    there = cast.bitcast_convert_type(x, new)
    assert np.asarray(there).tobytes() == x.tobytes()
    np.testing.assert_array_equal(cast.bitcast_convert_type(there, old), x)


def test_bits_of_the_last_axis_stay_together_under_vmap():
    x = rng.integers(0, 255, (3, 4), dtype=np.uint8)
    got = purax.vmap(lambda v: cast.bitcast_convert_type(v, np.uint32), 1)(x.T.copy())
    np.testing.assert_array_equal(got, x.view(np.uint32)[:, 0])


@pytest.mark.parametrize(("exponent_bits", "mantissa_bits"), [(8, 7), (5, 10), (4, 3), (5, 2), (2, 0), (8, 0), (8, 23)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_reduced_precision_is_what_the_compiler_computes(dtype, exponent_bits, mantissa_bits):
    params = {"exponent_bits": exponent_bits, "mantissa_bits": mantissa_bits}
    with np.errstate(all="ignore"):
        x = np.concatenate([EDGES, rng.standard_normal(500), 10 ** rng.uniform(-8, 8, 500)]).astype(dtypes.named(dtype))
        (want,) = cast.reduce_precision_p.reference(x, **params)
    got = np.asarray(cast.reduce_precision_p.bind1(x, **params))
    normal = (np.abs(x.astype(np.float64)) >= float(dtypes.finfo(dtype).tiny)) | (x == 0) | np.isnan(x)
    np.testing.assert_array_equal(got[normal].astype(np.float64), want[normal].astype(np.float64))


def test_the_formats_of_reduced_precision_are_those_of_the_narrow_dtypes():
    x = rng.standard_normal(100).astype(np.float32)
    np.testing.assert_array_equal(cast.reduce_precision(x, 8, 7), x.astype(ml_dtypes.bfloat16).astype(np.float32))
    np.testing.assert_array_equal(cast.reduce_precision(x, 5, 10), x.astype(np.float16).astype(np.float32))


def test_a_python_integer_that_only_a_float_holds_becomes_one():
    assert cast.convert_element_type(2**100, np.float32) == np.float32(2.0**100)
    with pytest.raises(OverflowError):
        cast.convert_element_type(2**100, np.int32)
