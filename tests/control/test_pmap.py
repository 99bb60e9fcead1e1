# SPDX-License-Identifier: Apache-2.0
"""pmap: one lane per device."""

import numpy as np
import pytest

import purax
from purax import lax
from purax import numpy as pnp
from purax.sharding import NamedSharding

pytestmark = pytest.mark.devices

X = np.array([0.0, 1.0, 4.0], np.float32)
W = np.array([1.0, 2.0, 0.5], np.float32)
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_lanes_run_on_devices_of_their_own():
    out = purax.pmap(lambda x: x * 2)(TABLE)
    np.testing.assert_array_equal(out, TABLE * 2)
    assert isinstance(out.sharding, NamedSharding)
    assert [s.device for s in out.addressable_shards] == purax.local_devices()[:3]
    np.testing.assert_array_equal(out.addressable_shards[1].data, TABLE[1:2] * 2)


def test_collectives_see_the_axis():
    out = purax.pmap(
        lambda x: (lax.psum(x, "i"), lax.pmean(x, "i"), lax.axis_index("i"), lax.psum(1, "i")), axis_name="i"
    )(X)
    for found, want in zip(out, ([5, 5, 5], [5 / 3] * 3, [0, 1, 2], [3, 3, 3]), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_axes_of_arguments_and_results():
    out = purax.pmap(lambda w, x: w * x, in_axes=(None, 1), out_axes=1)(2.0, TABLE.T)
    np.testing.assert_array_equal(out, 2 * TABLE.T)
    total = purax.pmap(lambda t: lax.psum(t["a"] + t["b"], "i"), "i", in_axes=({"a": 0, "b": None},), out_axes=None)(
        {"a": X, "b": 1.0}
    )
    assert total.shape == ()
    assert total == 8.0
    np.testing.assert_array_equal(purax.pmap(lambda x, *, y: x + y)(X, y=W), X + W)


def test_static_arguments_choice_of_devices_and_given_size():
    np.testing.assert_array_equal(purax.pmap(lambda x, n: x**n, static_broadcasted_argnums=1)(X, 2), X**2)
    devices = purax.devices()[4:7]
    out = purax.pmap(lambda x: x, devices=devices)(X)
    assert [s.device for s in out.addressable_shards] == devices
    np.testing.assert_array_equal(purax.pmap(lambda: lax.axis_index("i"), "i", axis_size=2)(), [0, 1])


def test_vmap_nests_inside_and_outside():
    inner = purax.pmap(lambda x: purax.vmap(lambda y: lax.psum(y, ("i", "j")), axis_name="j")(x), axis_name="i")(TABLE)
    np.testing.assert_array_equal(inner, np.full((3, 4), TABLE.sum()))
    outer = purax.vmap(purax.pmap(lambda x: x - lax.pmean(x, "i"), axis_name="i"))(TABLE.T)
    np.testing.assert_allclose(outer, TABLE.T - TABLE.T.mean(1, keepdims=True), atol=1e-6)


def test_jit_around_pmap():
    np.testing.assert_array_equal(
        purax.jit(lambda x: purax.pmap(lambda y: lax.psum(y, "i"), "i")(x) + 1)(X), np.full(3, 6.0)
    )


def test_the_gradient_of_a_sum_over_devices_is_each_devices_own_part():
    data, w = np.array([0.0, 1.0], np.float32), np.ones(2, np.float32)
    out = purax.pmap(lambda w, x: purax.grad(lambda w: lax.psum(w * x, "i"))(w), axis_name="i")(w, data)
    np.testing.assert_array_equal(out, [0.0, 1.0])


def test_a_device_differentiates_by_its_own_copy_of_a_shared_value():
    out = purax.pmap(lambda w, x: purax.grad(lambda w: w * x)(w), axis_name="i", in_axes=(None, 0))(2.0, X)
    np.testing.assert_array_equal(out, X)


def test_gradients_through_pmap():
    shared = lambda w: purax.pmap(lambda w, x: lax.psum(w * x, "i"), "i", in_axes=(None, 0), out_axes=None)(w, X)
    assert purax.grad(shared)(2.0) == 5.0
    stacked = lambda w: purax.pmap(lambda w, x: lax.psum(w * w * x, "i"), "i")(w, X)[0]
    np.testing.assert_allclose(purax.grad(stacked)(W), 2 * W * X)
    np.testing.assert_allclose(purax.grad(lambda w: pnp.sum(purax.pmap(pnp.sin)(w) * X))(W), np.cos(W) * X, rtol=1e-6)


def test_a_data_parallel_step_equals_the_step_of_one_device():
    rng = np.random.default_rng(0)
    params = {"a": rng.normal(size=(8, 16)).astype(np.float32), "b": rng.normal(size=(16, 3)).astype(np.float32)}
    x, y = rng.normal(size=(32, 8)).astype(np.float32), rng.normal(size=(32, 3)).astype(np.float32)

    def loss(p, x, y):
        return pnp.mean((pnp.tanh(x @ p["a"]) @ p["b"] - y) ** 2)

    def step(p, x, y):
        value, gradient = purax.value_and_grad(loss)(p, x, y)
        value, gradient = lax.pmean((value, gradient), "devices")
        return purax.tree.map(lambda p, g: p - 0.1 * g, p, gradient), value

    spread = purax.pmap(step, axis_name="devices", in_axes=(None, 0, 0), out_axes=(None, None))
    found, value = spread(params, x.reshape(4, 8, 8), y.reshape(4, 8, 3))
    want, gradient = purax.value_and_grad(loss)(params, x, y)
    np.testing.assert_allclose(value, want, rtol=1e-6)
    for name in params:
        np.testing.assert_allclose(found[name], params[name] - 0.1 * gradient[name], rtol=1e-5, atol=1e-6)
    again, _ = spread(found, x.reshape(4, 8, 8), y.reshape(4, 8, 3))
    assert np.isfinite(again["a"]).all()


def test_donated_arguments_are_gone():
    fun = purax.pmap(lambda x, y: (x * 2, y + 1), donate_argnums=0)
    place = purax.pmap(lambda x: x)
    for _ in range(3):
        x, y = place(TABLE), place(TABLE)
        out = fun(x, y)
        assert x.is_deleted()
        assert not y.is_deleted()
        np.testing.assert_array_equal(out[0], TABLE * 2)


def test_random_keys_are_mapped():
    keys = purax.random.split(purax.random.key(1), 3)
    draw = lambda k: purax.random.normal(k, (2,))
    np.testing.assert_array_equal(purax.pmap(draw)(keys), purax.vmap(draw)(keys))


def test_many_launches_under_way_at_once():
    reduce = purax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    chain = purax.pmap(lambda x: lax.pmean(x, "i") * 0.5 + x * 0.5, axis_name="i", donate_argnums=0)
    x = purax.pmap(lambda x: x)(np.arange(8 * 1000, dtype=np.float32).reshape(8, 1000))
    results = [reduce(x) for _ in range(300)]
    np.testing.assert_array_equal(results[-1][3], np.asarray(x).sum(0))
    mean, y = np.asarray(x).mean(0), x + 0
    for _ in range(60):
        y = chain(y)
    np.testing.assert_allclose(y[5], mean, rtol=1e-5)


def test_errors_name_what_is_wrong():
    with pytest.raises(ValueError, match="requires 9 logical devices, but only 8 XLA devices are available"):
        purax.pmap(lambda x: x)(np.ones(9, np.float32))
    with pytest.raises(ValueError, match=r"inconsistent sizes.*\n.*x: axis 0.*size 3\n.*y: axis 0.*size 2"):
        purax.pmap(lambda x, y: x)(X, X[:2])
    with pytest.raises(ValueError, match="requires at least one argument with a mapped axis"):
        purax.pmap(lambda x: x, in_axes=None)(X)
    with pytest.raises(ValueError, match="argument x has rank only 0"):
        purax.pmap(lambda x: x)(1.0)
    with pytest.raises(ValueError, match="must equal the number of devices"):
        purax.pmap(lambda x: x, devices=purax.devices()[:2])(X)
    with pytest.raises(TypeError, match="callable"):
        purax.pmap(3)


def test_arrays_that_hold_nothing_go_around_the_program():
    nothing = np.zeros((3, 2), purax.float0)
    out = purax.pmap(lambda x, n: (x + 1, n), out_axes=(0, 1))(X, nothing)
    np.testing.assert_array_equal(out[0], X + 1)
    assert out[1].dtype == purax.float0
    assert out[1].shape == (2, 3)


def test_axes_are_integers_and_static_arguments_come_by_position():
    for axes in ({"in_axes": False}, {"in_axes": (0, "a")}, {"out_axes": 0.5}):
        with pytest.raises(TypeError, match="must be an int or None"):
            purax.pmap(lambda x, *_: x, **axes)
    with pytest.raises(ValueError, match="called with only 1 positional"):
        purax.pmap(lambda a, b: a, static_broadcasted_argnums=(1,))(np.ones((1, 1)), b=1)
