# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest

import purax
from purax import errors, jit, lax
from purax import numpy as pnp


@pytest.mark.parametrize(
    ("x", "y", "dtype", "weak"),
    [
        (np.int8(1), 1, "int8", False),
        (np.float16(1), 1.0, "float16", False),
        (np.float16(1), np.int32(1), "float16", False),
        (ml_dtypes.bfloat16(1), np.float16(1), "float32", False),
        (np.uint8(1), np.int8(1), "int16", False),
        (np.int32(1), 1.0, "float32", True),
        (np.float32(1), 1j, "complex64", False),
        (True, 1, "int32", True),
        (1, 2.0, "float32", True),
        (np.bool_(True), np.bool_(True), "bool", False),
    ],
)
def test_operands_meet_in_the_lattice(x, y, dtype, weak):
    x, y = (v if type(v) in (int, float, complex, bool) else pnp.asarray(v) for v in (x, y))
    result = pnp.add(x, y)
    assert result.dtype == np.dtype(dtype)
    assert result.weak_type == weak
    assert jit(pnp.add)(x, y).dtype == np.dtype(dtype)


def test_a_python_integer_that_does_not_fit_raises():
    with pytest.raises(OverflowError, match="300 is out of bounds for int8"):
        pnp.int8(1) + 300
    with pytest.raises(errors.IntegerOverflowError):
        300 * pnp.zeros(2, "int8")
    with pytest.raises(OverflowError):
        pnp.uint8(1) - (-1)
    with pytest.raises(OverflowError):
        pnp.negative(1 << 32)


def test_comparisons_with_integers_out_of_range_are_exact():
    x = pnp.array([-5, 3], "int8")
    assert (x < 300).tolist() == [True, True]
    assert (300 < x).tolist() == [False, False]
    assert (pnp.array([3], "uint8") == -1).tolist() == [False]
    assert (pnp.array([3], "uint8") != 1000).tolist() == [True]


def test_traced_weak_integers_wrap():
    assert int(jit(lambda n: pnp.int8(1) + n)(300)) == 45


def test_a_python_float_that_overflows_becomes_infinite():
    assert np.isinf(pnp.float16(1) + 1e10)


def test_under_jit_a_python_scalar_stays_weak():
    assert jit(lambda x: x + abs(1.0))(pnp.float16(1)).dtype == np.float16
    assert (pnp.float32(1) + 1j).dtype == np.complex64


def test_what_is_no_array_is_refused_by_name_position_and_type():
    with pytest.raises(errors.NonArrayArgumentError, match=r"add requires .* got <class 'list'> at position 1"):
        pnp.add(pnp.ones(2), [1, 2])
    with pytest.raises(TypeError, match=r"sin requires .* <class 'str'>"):
        pnp.sin("x")


def test_out_and_where_are_refused():
    with pytest.raises(NotImplementedError, match="out="):
        pnp.add(1, 2, out=pnp.ones(2))
    with pytest.raises(NotImplementedError, match="where="):
        pnp.multiply(pnp.ones(2), pnp.ones(2), where=True)


def test_rank_promotion_can_raise():
    x, y = pnp.ones((2, 3)), pnp.ones(3)
    assert (x + y).shape == (2, 3)
    with purax.numpy_rank_promotion("raise"):
        with pytest.raises(errors.RankPromotionError):
            x + y
        assert (x + 1.0).shape == (2, 3)
    with purax.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="rank promotion"):
        x + y


def test_strict_promotion_refuses_mixed_dtypes_after_they_were_met_in_standard_mode():
    x, y = pnp.ones(2), pnp.ones(2, "int32")
    assert (x + y).dtype == np.float32
    with purax.numpy_dtype_promotion("strict"):
        with pytest.raises(errors.TypePromotionError):
            x + y
        assert (x + 1).dtype == np.float32
    assert (x + y).dtype == np.float32


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(errors.ShapeError, match=r"\(2,\).*\(3,\)"):
        pnp.ones(2) + pnp.ones(3)


def test_sixty_four_bits_come_by_name_and_not_by_data():
    assert pnp.asarray(np.ones(2)).dtype == np.float32
    assert pnp.zeros(2, "float64").dtype == np.float64
    assert (pnp.float64(0.1) + 0.2).item() == 0.1 + 0.2
    assert pnp.arange(3, dtype=pnp.int64).dtype == np.int64
    with purax.enable_x64(True):
        assert pnp.asarray(np.ones(2)).dtype == np.float64
        assert (pnp.arange(3) + 0.5).dtype == np.float64


def test_positive_and_negative_zero_constants_are_kept_apart():
    x = pnp.ones(2)
    assert (1 / (x * 0.0)).tolist() == [np.inf, np.inf]
    assert (1 / (x * -0.0)).tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize(
    "function",
    [
        pnp.add, pnp.hypot, pnp.minimum, pnp.isclose, lax.add, lambda x, y: x - y, lambda x, y: pnp.where(x > 0, x, y),
        lambda x, y: pnp.broadcast_to(x, (5,)), lambda x, y: pnp.full((2,), y), lambda x, y: x.at[0].set(y),
        lambda x, y: pnp.sum(x, where=y > 0), pnp.polyval, lambda x, y: pnp.vectorize(pnp.add)(x, y), pnp.select,
        lambda x, y: pnp.int8(1) + 300, lambda x, y: x[7],
    ],
)  # fmt: skip
def test_operands_that_do_not_fit_name_the_line_of_the_user(function):
    x, y = pnp.ones((2, 3)), pnp.ones(4)
    if function is pnp.select:
        function = lambda x, y: pnp.select([x > 0], [y])
    for run in (function, jit(function)):
        with pytest.raises((ValueError, OverflowError, IndexError), match=r"at .*test_promotion\.py:\d+"):
            run(x, y)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize(
    "name",
    "cov corrcoef var std mean average median square diff gradient trapezoid convolve cumsum sinc i0 angle".split(),
)
def test_no_function_of_one_array_promotes_where_promotion_is_strict(name, dtype):
    x = pnp.asarray(np.array([1, 0, 1, 1])).astype(dtype)
    function = getattr(pnp, name)
    arguments = (x, x) if name == "convolve" else (x,)
    try:
        want = purax.eval_shape(function, *arguments)
    except (TypeError, ValueError):
        return  # not a function of this dtype
    with purax.numpy_dtype_promotion("strict"):
        assert purax.eval_shape(function, *arguments) == want


def test_a_python_bool_is_written_into_numbers_under_strict_promotion_too():
    with purax.numpy_dtype_promotion("strict"):
        found = pnp.arange(3).at[1].set(True)
    assert found.tolist() == [0, 1, 2] and found.dtype == np.int32
    assert pnp.zeros(2).at[0].add(True).tolist() == [1.0, 0.0]
