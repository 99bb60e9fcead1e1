# SPDX-License-Identifier: Apache-2.0
"""Arithmetic, comparison, complex parts, powers and transcendental functions: samples for the laws, values, derivatives."""

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import config, dtypes, errors
from purax.primitives import elementwise as e
from purax.primitives import reduction, shape
from purax.primitives.log_sums import logaddexp2_p, logaddexp_p
from tests.laws.sample import BadSample, Sample

rng = np.random.default_rng(0)
X = rng.uniform(0.2, 2.5, (2, 3)).astype(np.float32) * np.array([[1, -1, 1], [-1, 1, 1]], np.float32)
Y = rng.uniform(0.3, 2.0, (2, 3)).astype(np.float32)
UNIT = rng.uniform(-0.8, 0.8, (2, 3)).astype(np.float32)
ABOVE = Y + np.float32(1.1)
Z = (X + 1j * Y).astype(np.complex64)
W = (Y - 0.5j * X).astype(np.complex64)
INTS = np.array([[5, -7, 0], [3, 2, -1]], np.int32)
MORE = np.array([[2, 3, -4], [-3, 5, 7]], np.int32)
BYTES = np.array([0, 3, 200, 255], np.uint8)
FLAGS = np.array([[True, False, True], [False, False, True]])
EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 0.49999997, 3.4e38, 1e-30], np.float32
)
LEFT, RIGHT = (a.ravel() for a in np.meshgrid(EDGES, EDGES))
HALF = X.astype(np.float16)
BRAIN = X.astype(ml_dtypes.bfloat16)
SCALAR = np.float32(0.7).reshape(())
EMPTY = np.zeros((0, 3), np.float32)

REAL_ROWS = [
    (e.neg_p, X), (e.sign_p, X), (e.abs_p, X), (e.floor_p, X), (e.ceil_p, X), (e.square_p, X), (e.sqrt_p, Y), (e.rsqrt_p, Y),
    (e.cbrt_p, X), (e.exp_p, X), (e.exp2_p, X), (e.expm1_p, X), (e.log_p, Y), (e.log1p_p, Y), (e.logistic_p, X), (e.sin_p, X),
    (e.cos_p, X), (e.tan_p, UNIT), (e.asin_p, UNIT), (e.acos_p, UNIT), (e.atan_p, X), (e.sinh_p, X), (e.cosh_p, X),
    (e.tanh_p, X), (e.asinh_p, X), (e.acosh_p, ABOVE), (e.atanh_p, UNIT), (e.is_finite_p, X),
]  # fmt: skip
COMPLEX_UNARY = [
    e.neg_p, e.square_p, e.sqrt_p, e.rsqrt_p, e.exp_p, e.exp2_p, e.expm1_p, e.log_p, e.log1p_p, e.logistic_p, e.sin_p, e.cos_p,
    e.tan_p, e.asin_p, e.acos_p, e.atan_p, e.sinh_p, e.cosh_p, e.tanh_p, e.asinh_p, e.acosh_p, e.atanh_p,
]  # fmt: skip
BINARY = [e.add_p, e.sub_p, e.mul_p, e.div_p, e.max_p, e.min_p]
LOG_SUMS = [logaddexp_p, logaddexp2_p]
ORDER = [e.lt_p, e.le_p, e.gt_p, e.ge_p, e.eq_to_p, e.lt_to_p, e.le_to_p]
LINEAR = {e.neg_p: (0,), e.add_p: (0, 1), e.sub_p: (0, 1), e.mul_p: (0,), e.div_p: (0,)}

SAMPLES = [
    *(Sample(p, (x,), linear=LINEAR.get(p)) for p, x in REAL_ROWS),
    *(Sample(p, (x.astype(t),), differentiable=()) for p, x in REAL_ROWS for t in (np.float16, ml_dtypes.bfloat16)),
    *(Sample(p, (Z * np.complex64(0.3),), tolerance=1e-5) for p in COMPLEX_UNARY),
    *(Sample(p, (SCALAR,)) for p in (e.exp_p, e.sqrt_p, e.tanh_p)),
    *(Sample(p, (EMPTY,)) for p in (e.neg_p, e.exp_p, e.sign_p)),
    *(Sample(p, (INTS,)) for p in (e.neg_p, e.sign_p, e.abs_p, e.square_p)),
    *(Sample(p, (BYTES,)) for p in (e.neg_p, e.sign_p)),
    *(Sample(p, (Z,), differentiable=()) for p in (e.sign_p, e.abs_p)),
    *(Sample(p, (X, Y), linear=LINEAR.get(p)) for p in (*BINARY, e.rem_p, e.atan2_p, e.eq_p, e.ne_p, *ORDER)),
    *(Sample(p, (INTS, MORE)) for p in (*BINARY, e.rem_p, e.eq_p, e.ne_p, *ORDER)),
    *(Sample(p, (BYTES, BYTES[::-1].copy())) for p in (e.add_p, e.sub_p, e.mul_p, e.max_p, e.min_p, e.lt_p)),
    *(Sample(p, (HALF, HALF[::-1].copy()), differentiable=()) for p in (*BINARY, e.rem_p, e.lt_p)),
    *(Sample(p, (BRAIN, BRAIN[::-1].copy()), differentiable=()) for p in (*BINARY, e.rem_p, e.lt_p)),
    *(Sample(p, (Z, W), tolerance=1e-5) for p in (e.add_p, e.sub_p, e.mul_p, e.div_p)),
    *(Sample(p, (Z, W), differentiable=()) for p in (e.max_p, e.min_p, e.eq_p, e.ne_p)),
    *(Sample(p, (FLAGS, FLAGS[::-1].copy())) for p in (e.max_p, e.min_p, e.eq_p, e.lt_p)),
    *(Sample(p, (EMPTY, EMPTY)) for p in (e.add_p, e.max_p, e.lt_p)),
    *(Sample(p, (SCALAR, SCALAR), differentiable=()) for p in (e.add_p, e.mul_p, e.eq_p)),
    *(Sample(p, (LEFT, RIGHT), differentiable=()) for p in (e.add_p, e.mul_p, e.max_p, e.min_p, e.eq_p, *ORDER)),
    *(Sample(e.round_p, (X,), {"rounding_method": m}) for m in e.RoundingMethod),
    *(Sample(e.round_p, (EDGES,), {"rounding_method": m}, differentiable=()) for m in e.RoundingMethod),
    *(Sample(p, (X, Y)) for p in LOG_SUMS), *(Sample(p, (LEFT, RIGHT), differentiable=()) for p in LOG_SUMS),
    *(Sample(p, (Z, W), tolerance=1e-5) for p in LOG_SUMS), *(Sample(p, (EMPTY, EMPTY)) for p in LOG_SUMS),
    *(Sample(p, (x, x[::-1].copy()), differentiable=()) for p in LOG_SUMS for x in (HALF, BRAIN)),
    Sample(e.nextafter_p, (X, Y)), Sample(e.nextafter_p, (HALF, HALF[::-1].copy())),
    *(Sample(e.integer_pow_p, (X,), {"y": y}) for y in (-3, -1, 0, 1, 2, 3, 7)),
    *(Sample(e.integer_pow_p, (x,), {"y": 3}, differentiable=()) for x in (INTS, HALF, BRAIN)),
    Sample(e.integer_pow_p, (Z,), {"y": 3}, tolerance=1e-5),
    Sample(e.pow_p, (Y, X)), Sample(e.pow_p, (Y, INTS), differentiable=(0,)), Sample(e.pow_p, (Z, W), tolerance=1e-5),
    Sample(e.pow_p, (np.abs(HALF), HALF), differentiable=()), Sample(e.pow_p, (np.abs(BRAIN), BRAIN), differentiable=()),
    *(Sample(e.strong_mul_p, (X, Y), {"both": both}, linear=(0,)) for both in (False, True)),
    Sample(e.strong_mul_p, (np.array([0, 0, -0.0, 1, 2], np.float32), np.array([np.inf, np.nan, 1, np.inf, 0], np.float32)),
           {"both": False}, differentiable=()),
    Sample(e.strong_mul_p, (np.array([0, np.inf, -0.0, 1, 2], np.float32), np.array([np.inf, 0, 1, np.inf, 0], np.float32)),
           {"both": True}, differentiable=()),
    Sample(e.strong_mul_p, (Z, W), {"both": False}, linear=(0,), tolerance=1e-5),
    Sample(e.strong_div_p, (X, Y), linear=(0,)), Sample(e.strong_div_p, (HALF, HALF[::-1].copy()), differentiable=()),
    Sample(e.strong_div_p, (np.array([0, 0, -0.0, 1, 2, 0], np.float32), np.array([0, np.nan, -0.0, 0, np.inf, 3], np.float32)),
           differentiable=()),
    Sample(e.real_p, (Z,), linear=(0,)), Sample(e.imag_p, (Z,), linear=(0,)), Sample(e.conj_p, (Z,), differentiable=()),
    Sample(e.complex_p, (X, Y), linear=(0, 1)),
    *(Sample(e.select_n_p, (FLAGS, x, y), linear=(1, 2)) for x, y in ((X, Y), (Z, W))),
    Sample(e.select_n_p, (np.asarray(True), X, Y), linear=(1, 2)), Sample(e.select_n_p, (np.asarray(False), SCALAR, SCALAR)),
    Sample(e.select_n_p, (np.abs(INTS) % 3, X, Y, UNIT), linear=(1, 2, 3)), Sample(e.select_n_p, (FLAGS, INTS, MORE)),
    Sample(e.select_n_p, (FLAGS, BRAIN, BRAIN), differentiable=()), Sample(e.select_n_p, (FLAGS[:0], EMPTY, EMPTY)),
    Sample(e.clamp_p, (np.float32(-0.5).reshape(()), X, np.float32(1.5).reshape(()))),
    Sample(e.clamp_p, (UNIT - 1, X, UNIT + 1)), Sample(e.clamp_p, (np.int32(0).reshape(()), INTS, np.int32(3).reshape(()))),
]  # fmt: skip
BAD_SAMPLES = [
    *(BadSample(p, (INTS, INTS), {}, errors.DTypeError, "int32; floating or complex is needed") for p in LOG_SUMS),
    BadSample(e.add_p, (X, X[:1]), {}, errors.ShapeError, "shapes (2, 3) and (1, 3)"),
    BadSample(e.add_p, (X, INTS), {}, errors.DTypeError, "float32 and int32"),
    BadSample(e.add_p, (FLAGS, FLAGS), {}, errors.DTypeError, "bool"),
    BadSample(e.sin_p, (INTS,), {}, errors.DTypeError, "int32; floating or complex is needed"),
    BadSample(e.floor_p, (Z,), {}, errors.DTypeError, "complex64; real floating"),
    BadSample(e.lt_p, (Z, Z), {}, errors.DTypeError, "complex64"),
    BadSample(e.abs_p, (BYTES,), {}, errors.DTypeError, "uint8"),
    BadSample(e.real_p, (X,), {}, errors.DTypeError, "float32; complex"),
    BadSample(e.complex_p, (HALF, HALF), {}, errors.DTypeError, "float16"),
    BadSample(e.integer_pow_p, (INTS,), {"y": -1}, errors.DTypeError, "negative power -1"),
    BadSample(e.pow_p, (INTS, INTS), {}, errors.DTypeError, "the first must be floating"),
    BadSample(e.pow_p, (X, Y[:1]), {}, errors.ShapeError, "must be equal"),
    BadSample(e.select_n_p, (X, X, X), {}, errors.DTypeError, "which has dtype float32"),
    BadSample(e.select_n_p, (FLAGS, X, X, X), {}, errors.DTypeError, "there are 3"),
    BadSample(e.select_n_p, (FLAGS[0], X, X), {}, errors.ShapeError, "which has shape (3,)"),
    BadSample(e.select_n_p, (FLAGS, X, INTS), {}, errors.DTypeError, "cases have dtypes"),
    BadSample(e.clamp_p, (X[0], X, X), {}, errors.ShapeError, "min has shape (3,)"),
    BadSample(e.clamp_p, (INTS, X, X), {}, errors.DTypeError, "min has dtype int32"),
]


def compiled(primitive, *operands, **params):
    """What XLA gives."""
    return np.asarray(purax.jit(lambda *xs: primitive.bind1(*xs, **params))(*operands))


def reference(primitive, *operands, **params):
    """What NumPy gives."""
    with np.errstate(all="ignore"):
        return np.asarray(primitive.reference(*map(np.asarray, operands), **params)[0])


def bits(x):
    """Bits, with one NaN."""
    x = np.where(np.isnan(x), np.nan, x).astype(x.dtype) if x.dtype.kind == "f" else x
    return x.view(f"u{x.dtype.itemsize}")


EXACT = [
    (p, params)
    for p, params in [
        *((p, {}) for p in (*BINARY, e.strong_div_p, e.neg_p, e.sign_p, e.abs_p, e.floor_p, e.ceil_p, e.sqrt_p, e.square_p, e.is_finite_p)),
        *((p, {}) for p in (e.eq_p, e.ne_p, *ORDER)), *((e.round_p, {"rounding_method": m}) for m in e.RoundingMethod),
        *((e.integer_pow_p, {"y": y}) for y in (-2, 0, 3, 5)), *((e.strong_mul_p, {"both": b}) for b in (False, True)),
    ]
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("primitive", "params"), EXACT, ids=str)
def test_what_the_host_may_compute_has_the_bits_of_the_compiler(primitive, params, dtype):
    config.update("enable_x64", True)
    usual = EDGES[np.abs(EDGES) != np.float32(3.4e38)]  # its reciprocal is subnormal, which XLA flushes
    pairs = [a.ravel().astype(dtype) for a in np.meshgrid(usual, usual)][: len(primitive.accepts)]
    mine, theirs = reference(primitive, *pairs, **params), compiled(primitive, *pairs, **params)
    assert mine.dtype == theirs.dtype
    np.testing.assert_array_equal(bits(mine), bits(theirs))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("primitive", [e.add_p, e.sub_p, e.mul_p, e.div_p, e.rem_p, e.max_p, e.min_p, e.lt_p], ids=str)
def test_integers_wrap_and_divide_as_documented(primitive, dtype):
    config.update("enable_x64", True)
    limits = np.iinfo(dtype)
    values = [0, 1, 2, 3, 7, limits.max, limits.max - 1, limits.min, limits.min // 2, limits.max // 3]
    small = [0, 1, 2, 7] if limits.min == 0 else [-7, -2, -1, 0, 1, 3]
    x, y = (a.ravel() for a in np.meshgrid(np.array(values, dtype), np.array(small, dtype)))
    np.testing.assert_array_equal(reference(primitive, x, y), compiled(primitive, x, y))


def test_integer_division_by_zero_gives_all_bits_and_keeps_the_remainder():
    x = np.array([7, -7, 0], np.int32)
    np.testing.assert_array_equal(e.div(x, 0), [-1, -1, -1])
    np.testing.assert_array_equal(e.rem(x, 0), x)
    np.testing.assert_array_equal(e.div(np.array([7, -7], np.int32), 2), [3, -3])


FUNCTIONS = [
    (e.exp_p, np.exp, (-80, 80)), (e.exp2_p, np.exp2, (-120, 120)), (e.expm1_p, np.expm1, (-20, 80)),
    (e.log_p, np.log, (1e-30, 1e30)), (e.log1p_p, np.log1p, (-0.99, 1e3)), (e.sin_p, np.sin, (-100, 100)),
    (e.cos_p, np.cos, (-100, 100)), (e.tan_p, np.tan, (-1.5, 1.5)), (e.asin_p, np.arcsin, (-1, 1)),
    (e.acos_p, np.arccos, (-0.99, 0.99)), (e.atan_p, np.arctan, (-50, 50)), (e.sinh_p, np.sinh, (-89, 89)),
    (e.cosh_p, np.cosh, (-89, 89)), (e.tanh_p, np.tanh, (-9, 9)), (e.asinh_p, np.arcsinh, (-1e5, 1e5)),
    (e.acosh_p, np.arccosh, (1, 1e5)), (e.atanh_p, np.arctanh, (-0.999, 0.999)), (e.cbrt_p, np.cbrt, (-1e9, 1e9)),
    (e.rsqrt_p, lambda x: 1 / np.sqrt(x), (1e-30, 1e30)), (e.logistic_p, lambda x: 1 / (1 + np.exp(-x)), (-80, 80)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("primitive", "function", "interval"), FUNCTIONS, ids=lambda v: str(v) if hasattr(v, "bind") else ""
)
def test_values_are_within_a_few_units_in_the_last_place(primitive, function, interval, dtype):
    config.update("enable_x64", True)
    low, high = interval
    x = np.concatenate([np.linspace(low, high, 997), np.geomspace(max(low, 1e-6), high, 997)]).astype(dtype)
    exactly = function(x.astype(np.longdouble))
    got = compiled(primitive, x)
    scale = np.maximum(np.abs(exactly), 1e-3 if primitive in (e.sin_p, e.cos_p, e.log_p) else 0) * np.finfo(dtype).eps
    assert float(np.max(np.abs(got - exactly)[exactly != 0] / scale[exactly != 0])) < 6


def test_powers_of_two_are_exact():
    n = np.arange(-126, 128).astype(np.float32)
    np.testing.assert_array_equal(e.exp2(n), np.ldexp(np.float32(1), n.astype(np.int32)))


@pytest.mark.xla
@pytest.mark.parametrize("y", [-1.5, -0.5, 0.5, 1.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_by_roots_are_powers(y, dtype):
    tiny, huge = dtypes.finfo(dtype).tiny, dtypes.finfo(dtype).max
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -huge, tiny, huge, huge ** (-2 / 3) * 1.1, huge ** (2 / 3) * 0.9]
    x = np.array([*edges, *np.linspace(0.01, 9, 50)], dtype)
    with purax.enable_x64(True):
        program = purax.jit(lambda x: e.pow(x, y)).lower(x)
        assert "stablehlo.power" not in program.as_text()
        got = np.asarray(program.compile()(x))
    with np.errstate(all="ignore"):
        exact = np.array([np.nan if -np.inf < v < 0 else abs(np.longdouble(v)) ** y for v in x]).astype(dtype)
    np.testing.assert_allclose(got, exact, rtol=4 * float(dtypes.finfo(dtype).eps), atol=float(tiny))
    assert not np.signbit(got[~np.isnan(got)]).any()


@pytest.mark.xla
def test_operations_on_known_numbers_are_not_written():
    text = purax.jit(lambda x: e.strong_mul(x, e.mul(shape.full(X.shape, 3.0), 2.0))).lower(X).as_text()
    assert "select" not in text and text.count("stablehlo.multiply") == 1 and "dense<6" in text


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_rounded_once(dtype):
    x = np.linspace(-6, 6, 101).astype(dtype)
    for primitive, function in (
        (e.logistic_p, lambda v: 1 / (1 + np.exp(-v))),
        (e.sinh_p, np.sinh),
        (e.exp2_p, np.exp2),
    ):
        want = function(x.astype(np.float64)).astype(dtype)
        np.testing.assert_allclose(
            compiled(primitive, x).astype(np.float64), want.astype(np.float64), rtol=float(dtypes.finfo(dtype).eps)
        )


# --- operands ------------------------------------------------------------------------------------------------------


def test_python_numbers_adopt_the_dtype_and_shape_of_arrays():
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.complex64):
        out = e.add(np.ones((2, 3), dtype), 2)
        assert out.dtype == dtype and out.shape == (2, 3) and not out.weak_type
    assert e.mul(np.ones(2, np.int8), 3).dtype == np.int8
    assert e.add(1.0, 2.0).weak_type and e.add(1.0, 2.0).dtype == np.float32
    assert e.eq(1.0, 2.0).dtype == np.bool_ and not e.eq(1.0, 2.0).weak_type


def test_scalars_and_sizes_of_one_are_repeated_and_nothing_else():
    assert e.add(np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)).shape == (2, 3)
    assert e.add(np.ones((2, 3), np.float32), np.float32(1)).shape == (2, 3)
    with pytest.raises(errors.ShapeError, match="numbers of axes"):
        e.add(np.ones((2, 3), np.float32), np.ones(3, np.float32))
    with pytest.raises(errors.ShapeError, match="do not fit"):
        e.add(np.ones(3, np.float32), np.ones(4, np.float32))


def test_dtypes_are_not_promoted():
    with pytest.raises(errors.DTypeError, match="add: operands have dtypes float32 and int32"):
        e.add(np.ones(3, np.float32), np.ones(3, np.int32))
    with pytest.raises(errors.DTypeError, match=r"2\.5"):
        e.add(np.ones(3, np.int32), 2.5)
    with pytest.raises(errors.DTypeError, match="1j"):
        e.add(np.ones(3, np.float32), 1j)
    with pytest.raises(errors.IntegerOverflowError, match="300 does not fit int8"):
        e.max(np.ones(3, np.int8), 300)


@pytest.mark.parametrize("function", [e.add, e.div, e.max, e.eq, e.lt, e.pow])
def test_numbers_of_two_kinds_are_not_promoted(function):
    with pytest.raises(errors.DTypeError, match=r"int32 and float32"):
        function(0, 1.0)


def test_a_power_that_is_no_integer_is_not_cut_to_one():
    with pytest.raises(TypeError):
        e.integer_pow(2.0, 1.5)
    assert e.integer_pow(2.0, np.int64(3)) == 8


def test_negative_zero_is_not_taken_for_zero():
    assert np.signbit(np.asarray(e.mul(np.float32(1), -0.0)))
    assert not np.signbit(np.asarray(e.mul(np.float32(1), 0.0)))


# --- derivatives where it is delicate ------------------------------------------------------------------------------


def chosen(function):
    """A function that is computed everywhere and selected nowhere."""
    return lambda x: e.select(e.lt(x, -1e30), function(x), e.max(e.min(e.mul(x, 3.0), 1e6), -1e6))


INF, NAN = float("inf"), float("nan")
UNSELECTED = [
    (e.sqrt, 0.0), (e.sqrt, -1.0), (e.log, 0.0), (e.rsqrt, 0.0), (e.cbrt, 0.0), (e.reciprocal, 0.0), (e.asin, 1.0),
    (e.acos, 2.0), (e.acosh, 1.0), (e.acosh, -2.0), (e.atanh, 1.0), (e.tan, INF), (e.exp, 1000.0), (e.exp2, 1000.0),
    (e.expm1, 1000.0), (e.sin, INF), (e.sinh, 1000.0), (e.cosh, 1000.0), (e.log1p, -1.0), (e.square, NAN), (e.asinh, INF),
    (e.logistic, -INF), (e.tanh, INF), (e.abs, NAN),
    (lambda x: e.pow(x, 0.5), 0.0), (lambda x: e.pow(x, -0.5), 0.0), (lambda x: e.pow(0.0, x), -1.0),
    (lambda x: e.pow(-1.0, x), 0.5), (lambda x: e.div(x, 0.0), 1.0), (lambda x: e.div(1.0, x), 0.0),
    (lambda x: e.div(0.0, x), 0.0), (lambda x: e.integer_pow(x, -2), 0.0), (lambda x: e.integer_pow(x, 3), INF),
    (lambda x: e.mul(x, x), NAN), (lambda x: e.mul(e.log(x), x), 0.0), (lambda x: e.atan2(x, 0.0), 0.0),
    (lambda x: e.rem(1.0, x), 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("function", "x"), UNSELECTED)
def test_what_is_not_selected_stays_out_of_every_derivative(function, x):
    f = chosen(function)
    first, second, third = purax.grad(f), purax.grad(purax.grad(f)), purax.grad(purax.grad(purax.grad(f)))
    for derivative in (first, second, third):
        assert np.isfinite(np.asarray(derivative(x)))
    for mixed in (lambda v: purax.jvp(f, (v,), (1.0,))[1], lambda v: purax.jvp(first, (v,), (1.0,))[1]):
        assert np.isfinite(np.asarray(mixed(x)))
    assert np.isfinite(np.asarray(purax.grad(lambda v: purax.jvp(f, (v,), (1.0,))[1])(x)))


def test_what_is_selected_still_shows_its_pole():
    assert np.isinf(np.asarray(purax.grad(e.sqrt)(0.0))) and np.isinf(np.asarray(purax.grad(e.log)(0.0)))
    assert np.isnan(np.asarray(purax.grad(e.log)(NAN)))


def test_a_masked_nan_does_not_reach_the_mean_of_squares():
    x = np.array([NAN, 1, 2, 3, 4], np.float32)
    for square in (e.square, lambda v: e.mul(v, v), lambda v: e.integer_pow(v, 2)):
        masked = lambda v, square=square: reduction.reduce_sum(
            e.select(e.ne(v, v), np.zeros(5, np.float32), square(v)), (0,)
        )
        np.testing.assert_array_equal(purax.grad(masked)(x), [0, 2, 4, 6, 8])


def test_the_mixed_derivative_of_a_power_at_exponent_zero():
    one_way, other_way = purax.grad(purax.grad(e.pow, 0), 1), purax.grad(purax.grad(e.pow, 1), 0)
    np.testing.assert_allclose([one_way(23.0, 0.0), other_way(23.0, 0.0)], [1 / 23, 1 / 23], rtol=1e-6)


@pytest.mark.parametrize(
    ("x", "y", "want"), [(0.0, 2.0, (0, 0)), (0.0, 1.0, (1, 0)), (0.0, 0.0, (0, 0)), (3.0, 0.0, (0, np.log(3)))]
)
def test_powers_of_zero_have_finite_derivatives(x, y, want):
    np.testing.assert_allclose(purax.grad(e.pow, (0, 1))(x, y), want, rtol=1e-6)


def test_the_table_of_derivatives_at_kinks():
    assert float(purax.grad(e.abs)(0.0)) == 1.0 and complex(purax.grad(e.abs)(np.complex64(0))) == 0
    assert [float(g) for g in purax.grad(e.max, (0, 1))(1.0, 1.0)] == [0.5, 0.5]
    assert [float(purax.grad(lambda v: e.clamp(0.0, v, 1.0))(x)) for x in (0.0, 0.5, 1.0)] == [0, 1, 0]
    assert float(purax.grad(e.sign)(0.0)) == 0.0
    assert [float(g) for g in purax.grad(e.rem, (0, 1))(7.5, -2.0)] == [1.0, 3.0]


def test_the_gradient_of_a_complex_modulus_is_that_of_the_root_of_squares():
    z = np.complex64(1 + 0.5j)
    root = lambda v: e.sqrt(e.add(e.square(e.real(v)), e.square(e.imag(v))))
    np.testing.assert_allclose(purax.grad(e.abs)(z), 0.8944272 - 0.4472136j, rtol=1e-6)
    np.testing.assert_allclose(purax.grad(root)(z), 0.8944272 - 0.4472136j, rtol=1e-6)


def test_parts_of_complex_numbers_transpose_without_conjugation():
    z, c = Z, W
    for function in (e.real, e.imag, e.conj):
        out, pull = purax.vjp(function, z)
        ct = c.real.copy() if out.dtype == np.float32 else c
        direction = (UNIT + 1j * X).astype(np.complex64)
        _, push = purax.jvp(function, (z,), (direction,))
        left, right = np.sum(np.asarray(push) * ct), np.sum(direction * np.asarray(pull(ct)[0]))
        np.testing.assert_allclose(np.real(left), np.real(right), rtol=1e-5)


# --- batching ------------------------------------------------------------------------------------------------------


def test_choices_are_batched_over_scalar_and_full_conditions():
    which = np.array([True, False])
    cases = X, Y
    np.testing.assert_array_equal(purax.vmap(e.select_n)(which, *cases), np.where(which[:, None], Y, X))
    np.testing.assert_array_equal(purax.vmap(e.select_n, (0, None, None))(which, *cases), [Y, X])
    np.testing.assert_array_equal(purax.vmap(e.select_n, (None, 1, 1))(np.array(True), *cases), Y.T)
    np.testing.assert_array_equal(purax.vmap(e.select_n, (1, 0, None), 1)(FLAGS.T, X, Y[0]), np.where(FLAGS, Y[0], X).T)


def test_limits_are_batched_as_scalars_and_arrays():
    low = np.array([0.0, 1.0], np.float32)
    got = purax.vmap(lambda a, x: e.clamp(a, x, 2.0))(low, X)
    np.testing.assert_array_equal(got, np.clip(X, low[:, None], 2.0))
    got = purax.vmap(lambda x: e.clamp(UNIT[0] - 1, x, UNIT[0] + 1), 1)(np.stack([X[0], X[1]], 1))
    np.testing.assert_array_equal(got, np.clip(X, UNIT[0] - 1, UNIT[0] + 1))


def test_unmapped_operands_are_repeated_along_the_mapped_axis():
    np.testing.assert_array_equal(purax.vmap(e.add, (1, None), 1)(X, Y[:, 0]), X + Y[:, :1])
    np.testing.assert_array_equal(purax.vmap(e.sub, (None, 0))(Y[0], X), Y[0] - X)
    np.testing.assert_array_equal(purax.vmap(e.mul, (0, 1))(X, Y.T.copy()), X * Y)


def test_tangents_that_are_divided_by_one_number_are_multiplied_with_one_reciprocal():
    gradient = purax.jit(purax.grad(lambda x, row: purax.numpy.sin(x / row).sum()))
    x, row = np.linspace(-2, 3, 24, dtype=np.float32).reshape(4, 6), np.array([[1], [2], [0.3], [4]], np.float32)
    divided = [line.split(" : ")[1] for line in gradient.lower(x, row).as_text().splitlines() if "divide" in line]
    assert divided == ["tensor<4x6xf32>", "tensor<4x1xf32>"]
    np.testing.assert_allclose(gradient(x, row), np.cos(x / row) / row, rtol=1e-5)


def test_tangents_are_divided_where_the_reciprocal_overflows():
    large = np.float32(3e38)  # its reciprocal is subnormal, which XLA flushes
    for transform in (lambda f: f, purax.jit):
        assert transform(lambda t, y: purax.jvp(lambda x: x / y, (t,), (t,))[1])(large, large) == 1
