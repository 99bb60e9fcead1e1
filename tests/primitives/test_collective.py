# SPDX-License-Identifier: Apache-2.0
"""Collectives among the lanes of vmap: meaning against NumPy, derivatives against the same function of whole arrays."""

import numpy as np
import pytest

import purax
from purax import errors, lax
from purax import numpy as pnp
from purax.primitives import collective
from tests.laws.sample import LaneSample

A = np.array([3.0, 5.0, -1.0], np.float32)
W = np.array([1.0, 2.0, 0.5], np.float32)
X = np.array([0.0, 1.0, 4.0], np.float32)
CUBE = np.arange(3 * 6 * 3, dtype=np.float32).reshape(3, 6, 3)


def normal(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def everywhere(x):
    return (np.repeat(x[None], 4, 0),)


ROWS, BLOCKS = normal(4, 3), normal(4, 8, 2)
HALF = np.array([[1, -2], [3, 4], [5, 0], [-7, 8]], np.int32)
OVER = {"axes": ("i",), "groups": None}
GATHER = {**OVER, "size": 4, "shared": False}
SAMPLES = [
    LaneSample(collective.psum_p, (ROWS,), OVER, linear=(0,), meaning=lambda x: everywhere(x.sum(0))),
    LaneSample(collective.psum_p, (HALF,), OVER, meaning=lambda x: everywhere(x.sum(0, dtype=np.int32))),
    LaneSample(
        collective.psum_p, (ROWS, BLOCKS), OVER, linear=(0, 1),
        meaning=lambda x, y: (*everywhere(x.sum(0)), *everywhere(y.sum(0))),
    ),
    LaneSample(collective.pmax_p, (ROWS,), OVER, meaning=lambda x: everywhere(x.max(0))),
    LaneSample(collective.pmin_p, (HALF,), OVER, meaning=lambda x: everywhere(x.min(0))),
    LaneSample(collective.pvary_p, (ROWS,), {"axes": ("i",)}, linear=(0,), meaning=lambda x: (x,)),
    LaneSample(collective.axis_index_p, (), {"axes": ("i",), "size": 4}, meaning=lambda: (np.arange(4, dtype=np.int32),)),
    LaneSample(
        collective.ppermute_p, (ROWS,), {"axes": ("i",), "perm": ((0, 2), (2, 1), (3, 3))}, linear=(0,),
        meaning=lambda x: (np.stack([0 * x[0], x[2], x[0], x[3]]),),
    ),
    LaneSample(
        collective.all_gather_p, (BLOCKS,), {**GATHER, "dim": 1}, linear=(0,),
        meaning=lambda x: everywhere(np.concatenate(list(x), 1)),
    ),
    LaneSample(
        collective.psum_scatter_p, (BLOCKS,), {**OVER, "dim": 0, "size": 4}, linear=(0,),
        meaning=lambda x: (x.sum(0).reshape(4, 2, 2),),
    ),
    LaneSample(
        collective.all_to_all_p, (BLOCKS,), {**OVER, "split": 0, "joined": 1, "size": 4}, linear=(0,),
        meaning=lambda x: (x.reshape(4, 4, 2, 2).transpose(1, 2, 0, 3).reshape(4, 2, 8),),
    ),
]  # fmt: skip


@pytest.mark.devices
@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.operands], ids=str)
def test_devices_exchange_what_lanes_do(sample):
    outs = purax.pmap(lambda *xs: sample.primitive.bind(*xs, **sample.params), axis_name="i")(*sample.operands)
    for out, want in zip(outs, sample.reference(*sample.operands), strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-6, atol=1e-6)


def test_parts_must_be_equal():
    for p, params in ((collective.psum_scatter_p, {"dim": 1}), (collective.all_to_all_p, {"split": 1, "joined": 0})):
        with pytest.raises(errors.ShapeError, match="axis 1 of size 2 cannot be divided among 4 lanes"):
            p.infer(pnp.zeros((8, 2)).aval, **OVER, **params, size=4)


def lanes(fun, **options):
    return purax.vmap(fun, axis_name="i", **options)


def test_reductions_reduce_over_the_lanes():
    out = lanes(lambda x: (lax.psum(x, "i"), lax.pmean(x, "i"), lax.pmax(x, "i"), lax.pmin(x, "i")))(A)
    for found, want in zip(out, (A.sum(), A.mean(), A.max(), A.min()), strict=True):
        np.testing.assert_allclose(found, np.full(3, want), rtol=1e-6)


def test_a_sum_takes_a_pytree_and_counts_booleans():
    out = lanes(lambda x: lax.psum({"a": x, "b": x > 0}, "i"))(A)
    np.testing.assert_allclose(out["a"], np.full(3, 7.0))
    np.testing.assert_array_equal(out["b"], np.full(3, 2))


def test_the_sum_of_a_python_scalar_is_a_python_scalar():
    seen = []

    def fun(x):
        seen.append((lax.psum(1, "i"), lax.pmean(1.0, "i"), lax.axis_size("i")))
        return x

    lanes(fun)(A)
    assert seen == [(3, 1.0, 3)]
    assert type(seen[0][0]) is int


def test_positional_axes_are_summed_with_the_named_one():
    out = lanes(lambda x: lax.psum(x, (0, "i")))(CUBE)
    np.testing.assert_allclose(out[0], CUBE.sum((0, 1)))
    np.testing.assert_allclose(lanes(lambda x: lax.pmean(x, (0, "i")))(CUBE)[1], CUBE.mean((0, 1)))


def test_sums_over_two_named_axes():
    out = purax.vmap(lanes(lambda x: lax.psum(x, ("i", "j"))), axis_name="j")(CUBE[:, :3, 0])
    np.testing.assert_allclose(out, np.full((3, 3), CUBE[:, :3, 0].sum()))


def test_an_unnamed_axis_is_carried_along():
    out = purax.vmap(lanes(lambda x: lax.psum(x, "i")))(CUBE[:, :, 0])
    np.testing.assert_allclose(out, np.repeat(CUBE[:, :, 0].sum(1)[:, None], 6, 1))


def test_lanes_have_numbers():
    np.testing.assert_array_equal(lanes(lambda x: lax.axis_index("i"))(A), [0, 1, 2])
    both = purax.vmap(lanes(lambda x: lax.axis_index(("j", "i"))), axis_name="j")(CUBE[:2, :4, 0])
    np.testing.assert_array_equal(both, np.arange(8).reshape(2, 4))


def test_permutations_move_values_between_lanes():
    np.testing.assert_array_equal(lanes(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]))(A), [0.0, 3.0, 5.0])
    np.testing.assert_array_equal(lanes(lambda x: lax.pshuffle(x, "i", [2, 0, 1]))(A), A[[2, 0, 1]])
    np.testing.assert_array_equal(lanes(lambda x: lax.pbroadcast(x, "i", 1))(A), np.full(3, 5.0))


def test_gathering_and_scattering_are_stacking_and_summing():
    np.testing.assert_array_equal(lanes(lambda x: lax.all_gather(x, "i", axis=1))(CUBE)[1], CUBE.transpose(1, 0, 2))
    tiled = lanes(lambda x: lax.all_gather(x, "i", axis=1, tiled=True))(CUBE)
    np.testing.assert_array_equal(tiled[0], np.concatenate(list(CUBE), 1))
    np.testing.assert_array_equal(lanes(lambda x: lax.psum_scatter(x, "i", scatter_dimension=1))(CUBE), CUBE.sum(0).T)
    parts = lanes(lambda x: lax.psum_scatter(x, "i", tiled=True))(CUBE)
    np.testing.assert_array_equal(parts, CUBE.sum(0).reshape(3, 2, 3))


def test_all_to_all_exchanges_parts():
    out = lanes(lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True))(CUBE)
    want = [np.concatenate([CUBE[j].reshape(3, 2, 3)[i] for j in range(3)], axis=1) for i in range(3)]
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(lanes(lambda x: lax.pswapaxes(x, "i", 1))(CUBE), CUBE.transpose(2, 1, 0))
    np.testing.assert_array_equal(lanes(lambda x: lax.all_to_all(x, "i", 1, 0))(CUBE), CUBE.transpose(2, 0, 1))


@pytest.mark.parametrize(
    "exchange",
    [
        lambda x, names: lax.all_to_all(x, names, 0, 1, tiled=True),
        lambda x, names: lax.all_to_all(x, names, 1, 1, tiled=True),
        lambda x, names: lax.all_to_all(x[:6], names, 0, 2),
        lambda x, names: lax.all_to_all(x[:, :6], names, 1, 0),
        lambda x, names: lax.all_gather(x, names, axis=1),
        lambda x, names: lax.all_gather(x, names, tiled=True),
        lambda x, names: lax.psum_scatter(x, names, tiled=True),
    ],
)
def test_exchanges_over_two_mapped_axes_are_those_over_their_product(exchange):
    x = normal(2, 3, 12, 12, 2)
    got = purax.vmap(purax.vmap(lambda x: exchange(x, ("i", "j")), axis_name="j"), axis_name="i")(x)
    want = purax.vmap(lambda x: exchange(x, "k"), axis_name="k")(x.reshape(6, 12, 12, 2))
    np.testing.assert_allclose(np.asarray(got).reshape(want.shape), want, rtol=1e-5, atol=1e-6)


def test_names_that_are_not_in_scope_are_name_errors():
    for call in (lax.psum, lax.pmax, lax.all_gather, lax.pvary):
        with pytest.raises(NameError, match="unbound axis name: q"):
            call(A, "q")
    with pytest.raises(NameError, match="unbound axis name: q"):
        lanes(lambda x: lax.axis_index("q"))(A)


def test_wrong_permutations_and_groups_are_refused():
    with pytest.raises(ValueError, match="unique"):
        lanes(lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)]))(A)
    with pytest.raises(ValueError, match="exactly once"):
        lanes(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 0]]))(A)
    with pytest.raises(NotImplementedError, match="axis_index_groups"):
        lanes(lambda x: lax.psum(x, "i", axis_index_groups=[[0], [1], [2]]))(A)


# --- derivatives ----------------------------------------------------------------------------------------------------------------


def test_the_gradient_of_a_sum_over_lanes_is_each_lanes_own_part():
    data, w = np.array([0.0, 1.0], np.float32), np.ones(2, np.float32)
    out = lanes(lambda w, x: purax.grad(lambda w: lax.psum(w * x, "i"))(w))(w, data)
    np.testing.assert_array_equal(out, [0.0, 1.0])


# Each pair: a function of one lane, and the sum over the lanes of its results (of a result that all lanes share: the result).
def _loop(w, x, a):
    def step(c, _):
        return 0.5 * c + lax.psum(w * x * c, "i") + a, c

    c, rows = lax.scan(step, 0.0, None, length=3)
    return lax.psum(pnp.sin(c) * rows.sum(), "i")


def _loop_of_all(w, x, a):
    c, total = pnp.zeros(3), 0.0
    for _ in range(3):
        total = total + c
        c = 0.5 * c + pnp.sum(w * x * c) + a
    return pnp.sum(pnp.sin(c) * total)


CASES = {
    "sum": (lambda w, x, a: lax.psum(w * x, "i"), lambda w, x, a: pnp.sum(w * x)),
    "scaled": (lambda w, x, a: 2.0 * lax.psum(w * x, "i"), lambda w, x, a: 2.0 * pnp.sum(w * x)),
    "added to a lane": (lambda w, x, a: lax.psum(w * x, "i") + a, lambda w, x, a: 3 * pnp.sum(w * x) + pnp.sum(a)),
    "mixed": (
        lambda w, x, a: lax.psum(lax.psum(w * x, "i") * a, "i") + lax.psum(w * x, "i") ** 2,
        lambda w, x, a: pnp.sum(pnp.sum(w * x) * a) + pnp.sum(w * x) ** 2,
    ),
    "mean and variance": (
        lambda w, x, a: lax.pmean((w - lax.pmean(w, "i")) ** 2 * a, "i"),
        lambda w, x, a: pnp.mean((w - pnp.mean(w)) ** 2 * a),
    ),
    "maximum": (lambda w, x, a: lax.pmax(w * a, "i"), lambda w, x, a: pnp.max(w * a)),
    "gather": (
        lambda w, x, a: pnp.sum(lax.all_gather(w * a, "i") ** 2) * x,
        lambda w, x, a: pnp.sum((w * a) ** 2) * pnp.sum(x),
    ),
    "permute": (
        lambda w, x, a: lax.ppermute(w * w, "i", [(0, 1), (1, 2)]) * a,
        lambda w, x, a: pnp.sum(pnp.concatenate([pnp.zeros(1), (w * w)[:2]]) * a),
    ),
    "scatter": (
        lambda w, x, a: lax.psum_scatter(pnp.stack([w, w * w, x * w]), "i") * a,
        lambda w, x, a: pnp.sum(pnp.stack([w, w * w, x * w]).sum(1) * a),
    ),
    "loop": (_loop, _loop_of_all),
    "branch": (
        lambda w, x, a: lax.psum(lax.cond(a > 0, lambda: w * x, lambda: w * w), "i"),
        lambda w, x, a: pnp.sum(pnp.where(a > 0, w * x, w * w)),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("wrap", [lambda f: f, purax.jit, purax.checkpoint], ids=["plain", "jit", "checkpoint"])
def test_gradients_inside_vmap_are_those_of_the_whole(name, wrap):
    lane, whole = CASES[name]
    found = lanes(purax.grad(wrap(lane)))(W, X, A)
    np.testing.assert_allclose(found, purax.grad(whole)(W, X, A), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["mixed", "loop", "gather", "mean and variance"])
def test_second_derivatives_inside_vmap_are_those_of_the_whole(name):
    lane, whole = CASES[name]
    found = lanes(lambda w, x, a: purax.grad(lambda w: purax.grad(lane)(w, x, a) * a)(w))(W, X, A)
    want = purax.grad(lambda w: pnp.sum(purax.grad(whole)(w, X, A) * A))(W)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_vmap_are_those_of_the_whole(name):
    lane, whole = CASES[name]
    outs = lanes(lane)(W, X, A)
    shared = name in ("sum", "scaled", "mixed", "mean and variance", "maximum", "loop", "branch")
    total = (lambda out: out[0]) if shared else pnp.sum
    np.testing.assert_allclose(total(outs), whole(W, X, A), rtol=1e-5)
    found = purax.grad(lambda w: total(lanes(lane)(w, X, A)))(W)
    np.testing.assert_allclose(found, purax.grad(whole)(W, X, A), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["mixed", "maximum", "loop", "permute"])
def test_forward_derivatives_agree(name):
    lane, whole = CASES[name]
    _, found = purax.jvp(lambda w: lanes(lane)(w, X, A), (W,), (A,))
    _, want = purax.jvp(lambda w: whole(w, X, A), (W,), (A,))
    np.testing.assert_allclose(pnp.sum(found) if name == "permute" else found[0], want, rtol=1e-4)


def test_a_lane_differentiates_by_its_own_copy_of_a_shared_value():
    by_argument = lanes(lambda w, x: purax.grad(lambda w: w * x)(w), in_axes=(None, 0))(2.0, X)
    by_closure = lanes(lambda x: purax.grad(lambda w: w * x)(2.0))(X)
    np.testing.assert_array_equal(by_argument, X)
    np.testing.assert_array_equal(by_closure, X)


def test_cotangents_given_per_lane_to_a_shared_result_are_summed():
    def lane(w, x, a):
        _, pullback = purax.vjp(lambda w: lax.psum(w * x, "i"), w)
        return pullback(a)[0]

    np.testing.assert_allclose(lanes(lane)(W, X, A), A.sum() * X)


def test_pvary_makes_a_shared_value_each_lanes_own():
    def lane(w, x, a):
        return purax.grad(lambda z: lax.pcast(z, "i", to="varying") * a)(lax.psum(w * x, "i"))

    np.testing.assert_allclose(lanes(lane)(W, X, A), A)
    with pytest.raises(ValueError, match="varying"):
        lanes(lambda x: lax.pcast(x, "i", to="elsewhere"))(A)


def test_loops_whose_carry_begins_the_same_in_all_lanes():
    out = lanes(
        lambda w, a: lax.while_loop(lambda c: c[0] < a, lambda c: (c[0] + 1, c[1] + lax.psum(w, "i")), (0.0, w))[1]
    )
    np.testing.assert_allclose(out(W, A), W + np.ceil(np.maximum(A, 0)) * W.sum())
