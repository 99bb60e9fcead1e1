# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import grad
from purax import numpy as pnp

RNG = np.random.default_rng(2)
X = RNG.normal(size=(3, 4)).astype(np.float32)
NAN = np.where(RNG.uniform(size=(3, 4)) < 0.3, np.nan, X).astype(np.float32)
NAN[:, 0] = X[:, 0]
MASK = X > 0


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("name", "sum prod max min mean var std any all ptp".split())
def test_reductions_give_what_numpy_gives(name, axis):
    for keepdims in (False, True):
        got = getattr(pnp, name)(X, axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(got, getattr(np, name)(X, axis=axis, keepdims=keepdims), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize(
    "name", "nansum nanprod nanmax nanmin nanmean nanvar nanstd nanargmax nanargmin nanmedian".split()
)
def test_nan_is_left_out(name, axis):
    np.testing.assert_allclose(
        getattr(pnp, name)(NAN, axis=axis), getattr(np, name)(NAN, axis=axis), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", "sum prod mean var std any all".split())
def test_masks_choose_what_counts(name):
    np.testing.assert_allclose(
        getattr(pnp, name)(X, axis=1, where=MASK), getattr(np, name)(X, axis=1, where=MASK), rtol=1e-5
    )


def test_extrema_of_masked_or_empty_arrays_need_a_start():
    with pytest.raises(ValueError, match="initial"):
        pnp.max(X, where=MASK)
    with pytest.raises(ValueError, match="zero-size"):
        pnp.max(pnp.zeros(0))
    assert pnp.max(pnp.zeros(0), initial=-1.0) == -1
    np.testing.assert_allclose(
        pnp.max(X, axis=0, where=MASK, initial=-3.0), np.max(X, axis=0, where=MASK, initial=-3.0)
    )


def test_small_integers_are_widened_and_dtypes_obeyed():
    x = pnp.full(300, 2, "int8")
    assert pnp.sum(x).dtype == np.int32
    assert pnp.sum(x) == 600
    assert pnp.sum(x, promote_integers=False).dtype == np.int8
    assert pnp.sum(pnp.array([True, True])).dtype == np.int32
    assert pnp.sum(x, dtype="float64").dtype == np.float64
    assert pnp.mean(x).dtype == np.float32


def test_half_precision_is_accumulated_in_single():
    assert pnp.mean(pnp.full(2**20, 1e-5, "float16")).item() == pytest.approx(1e-5, rel=2e-2)
    assert pnp.nanmean(pnp.full(4350, 300.0, "float16")) == 300
    normals = np.random.default_rng(0).normal(size=10**5).astype(np.float16)
    assert pnp.var(normals).item() == pytest.approx(1, abs=0.02)


def test_what_a_mask_leaves_out_puts_no_nan_into_gradients():
    x = pnp.array([np.nan, 1, 2, 3, 4])
    assert grad(lambda v: pnp.nanmean(v**2))(x).tolist() == [0, 0.5, 1, 1.5, 2]
    assert grad(lambda v: pnp.nanmax(v * v))(x).tolist() == [0, 0, 0, 0, 8]
    assert np.isfinite(grad(pnp.nanvar)(x)).all()
    masked = grad(lambda v: pnp.mean(pnp.log(v), where=v > 0))(pnp.array([-1.0, 0, 2]))
    assert masked.tolist() == [0, 0, 0.5]


def test_the_gradient_of_a_deviation_of_equal_numbers_is_zero():
    assert grad(pnp.std)(pnp.ones(3)).tolist() == [0, 0, 0]


def test_equal_largest_elements_share_the_gradient():
    assert grad(pnp.max)(pnp.array([1.0, 1, 0])).tolist() == [0.5, 0.5, 0]


def test_positions_count_the_first_and_prefer_nan():
    assert pnp.argmax(pnp.array([1, 3, 3])) == 1
    assert pnp.argmax(pnp.array([1.0, np.nan, 3])) == 1
    assert pnp.argmin(pnp.array([[3, 1], [0, 2]]), axis=1, keepdims=True).tolist() == [[1], [0]]
    assert pnp.nanargmax(pnp.array([np.nan, np.nan])) == -1


def test_weighted_means():
    weights = np.arange(1.0, 5, dtype=np.float32)
    got, total = pnp.average(X, axis=1, weights=weights, returned=True)
    want = np.average(X, axis=1, weights=weights, returned=True)
    np.testing.assert_allclose(got, want[0], rtol=1e-5)
    np.testing.assert_allclose(total, want[1])


@pytest.mark.parametrize("name", "cumsum cumprod nancumsum nancumprod".split())
def test_running_totals_give_what_numpy_gives(name):
    for axis in (None, 0, 1):
        np.testing.assert_allclose(
            getattr(pnp, name)(NAN, axis=axis), getattr(np, name)(NAN, axis=axis), rtol=1e-5, atol=1e-6
        )
    assert pnp.cumulative_sum(pnp.array([1, 2]), include_initial=True).tolist() == [0, 1, 3]


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf"])
def test_quantiles_give_what_numpy_gives(method):
    q = np.array([0.0, 0.3, 0.9, 1.0], np.float32)
    np.testing.assert_allclose(
        pnp.quantile(X, q, axis=1, method=method), np.quantile(X, q, axis=1, method=method), rtol=1e-5
    )
    np.testing.assert_allclose(pnp.nanquantile(NAN, 0.4, axis=0), np.nanquantile(NAN, 0.4, axis=0), rtol=1e-5)
    np.testing.assert_allclose(pnp.percentile(X, 30, keepdims=True), np.percentile(X, 30, keepdims=True), rtol=1e-5)


def test_a_nan_makes_the_median_nan_and_not_its_neighbours():
    x = NAN.copy()
    x[0, 1], x[1] = np.nan, 1
    np.testing.assert_array_equal(np.isnan(pnp.median(x, axis=1)), np.isnan(np.median(x, axis=1)))
    assert pnp.nanmedian(pnp.log(pnp.array([np.nan, np.e, np.nan]))).item() == pytest.approx(1)
