# SPDX-License-Identifier: Apache-2.0
"""shard_map: every device its pieces, derivatives from inside and from outside, the reference, errors."""

import numpy as np
import pytest

import purax
from purax import lax
from purax import numpy as pnp
from purax.core.interpret import reference_eval
from purax.sharding import NamedSharding
from purax.sharding import PartitionSpec as P

pytestmark = pytest.mark.devices

W = np.array([1.0, 2.0, 0.5, -1.0], np.float32)
X = np.array([0.0, 1.0, 4.0, 2.0], np.float32)
A = np.array([3.0, 5.0, -1.0, 0.5], np.float32)
TABLE = np.arange(32, dtype=np.float32).reshape(8, 4)


def line():
    return purax.make_mesh((4,), ("i",))


def grid():
    return purax.make_mesh((2, 2), ("i", "j"))


def over(fun, in_specs, out_specs, **options):
    return purax.shard_map(
        fun, mesh=options.pop("mesh", None) or line(), in_specs=in_specs, out_specs=out_specs, **options
    )


def test_each_device_gets_its_piece_and_sums_go_across():
    seen = []

    def fun(x):
        seen.append(x.shape)
        return lax.psum(x, "i")

    out = over(fun, P("i"), P())(TABLE)
    assert seen == [(2, 4)]
    np.testing.assert_array_equal(out, TABLE.reshape(4, 2, 4).sum(0))
    assert out.sharding.is_fully_replicated
    assert len(out.addressable_shards) == 4


def test_eager_and_jitted_calls_agree():
    fun = over(lambda x: x * lax.axis_index("i"), P("i"), P("i"))
    eager, jitted = fun(TABLE), purax.jit(fun)(TABLE)
    np.testing.assert_array_equal(eager, TABLE * np.repeat(np.arange(4), 2)[:, None])
    np.testing.assert_array_equal(eager, jitted)
    assert jitted.sharding.spec == P("i")


def test_two_axes_cut_two_array_axes():
    fun = over(lambda x: x + 10 * lax.axis_index("i") + lax.axis_index("j"), P("i", "j"), P("i", "j"), mesh=grid())
    want = TABLE + 10 * np.repeat([0, 1], 4)[:, None] + np.repeat([0, 1], 2)
    np.testing.assert_array_equal(fun(TABLE), want)
    both = over(lambda x: lax.psum(x, ("i", "j")), P(("i", "j")), P(), mesh=grid())
    np.testing.assert_array_equal(both(TABLE), TABLE.reshape(4, 2, 4).sum(0))


def test_axes_that_are_not_named_stay_with_the_partitioner():
    fun = over(lambda x: lax.psum(x @ x.T, "i"), P("i"), P(), mesh=grid(), axis_names={"i"})
    halves = TABLE.reshape(2, 4, 4)
    np.testing.assert_allclose(purax.jit(fun)(TABLE), sum(h @ h.T for h in halves))


@pytest.mark.parametrize("name", ["all_gather", "psum_scatter", "all_to_all", "ppermute", "pmax", "pbroadcast"])
def test_collectives_do_on_devices_what_they_do_in_vmap(name):
    fun = {
        "all_gather": lambda x: lax.all_gather(x, "i", axis=1),
        "psum_scatter": lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
        "all_to_all": lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True),
        "ppermute": lambda x: lax.ppermute(x, "i", [(0, 2), (3, 1)]),
        "pmax": lambda x: lax.pmax(x, "i"),
        "pbroadcast": lambda x: lax.pbroadcast(x, "i", 2),
    }[name]
    want = purax.vmap(fun, axis_name="i")(TABLE.reshape(4, 2, 4))
    found = over(lambda x: fun(x)[None], P("i"), P("i"))(TABLE)
    np.testing.assert_array_equal(found, want)


def test_groups_of_lanes_reduce_among_themselves():
    fun = over(lambda x: lax.psum(x, "i", axis_index_groups=[[0, 3], [1, 2]]), P("i"), P("i"))
    np.testing.assert_array_equal(fun(X), [2.0, 5.0, 5.0, 2.0])
    np.testing.assert_array_equal(purax.grad(lambda x: pnp.sum(fun(x) * A))(X), [3.5, 4.0, 4.0, 3.5])


def test_specs_can_be_read_from_the_arguments():
    x = purax.device_put(TABLE, NamedSharding(line(), P(None, "i")))
    out = purax.shard_map(lambda x: x.sum(1), mesh=line(), out_specs=P("i"))(x)
    np.testing.assert_array_equal(out, TABLE.T.reshape(4, 8).reshape(-1))
    with purax.set_mesh(line()):
        np.testing.assert_array_equal(
            purax.shard_map(lambda x: lax.psum(x, "i"), in_specs=P("i"), out_specs=P())(X), [7.0]
        )


def test_captured_values_are_the_same_on_all_devices():
    np.testing.assert_array_equal(over(lambda x: x * pnp.asarray(A)[:1], P("i"), P("i"))(X), 3 * X)
    jitted = purax.jit(lambda a: over(lambda x: x * a[1], P("i"), P("i"))(X))
    np.testing.assert_array_equal(jitted(A), 5 * X)


def test_loops_on_devices_may_begin_with_shared_values():
    fun = over(lambda x: lax.fori_loop(0, 3, lambda k, c: c + x + lax.psum(x, "i"), 0.0 * pnp.ones(1)), P("i"), P("i"))
    np.testing.assert_array_equal(fun(X), 3 * (X + 7))


# --- derivatives ------------------------------------------------------------------------------------------------------------------


def _loop(w, x, a):
    c, _ = lax.scan(lambda c, _: (0.5 * c + lax.psum(w * x * c, "i") + a, None), w, None, length=3)
    return lax.psum(pnp.sum(pnp.sin(c) * c), "i")


def _loop_of_all(w, x, a):
    c = w
    for _ in range(3):
        c = 0.5 * c + pnp.sum(w * x * c) + a
    return pnp.sum(pnp.sin(c) * c)


CASES = {
    "sum": (lambda w, x, a: lax.psum(pnp.sum(w * x), "i"), lambda w, x, a: pnp.sum(w * x)),
    "mixed": (
        lambda w, x, a: lax.psum(pnp.sum(lax.psum(w * x, "i") * a), "i") + lax.psum(pnp.sum(w * x), "i") ** 2,
        lambda w, x, a: pnp.sum(w * x) * pnp.sum(a) + pnp.sum(w * x) ** 2,
    ),
    "loop": (_loop, _loop_of_all),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_from_outside_and_from_inside(name):
    lane, whole = CASES[name]
    want = purax.grad(whole)(W, X, A)
    outside = over(lane, P("i"), P())
    np.testing.assert_allclose(outside(W, X, A), whole(W, X, A), rtol=1e-5)
    np.testing.assert_allclose(purax.grad(outside)(W, X, A), want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(purax.jit(purax.grad(outside))(W, X, A), want, rtol=1e-4, atol=1e-4)
    for checked in (True, False):
        inside = over(purax.grad(lane), P("i"), P("i"), check_vma=checked)
        np.testing.assert_allclose(inside(W, X, A), want, rtol=1e-4, atol=1e-4)


def test_second_derivatives_forward_derivatives_and_lanes():
    lane, whole = CASES["loop"]
    sharded, args = over(lane, P("i"), P()), (W * 0.1, X * 0.1, A)
    np.testing.assert_allclose(purax.hessian(sharded)(*args), purax.hessian(whole)(*args), rtol=1e-4, atol=1e-3)
    found, want = (purax.jvp(f, args, (A, W, X)) for f in (sharded, whole))
    np.testing.assert_allclose(found, want, rtol=1e-4)
    stack = np.stack([args[0], 2 * args[0]])
    mapped = purax.vmap(purax.grad(sharded), in_axes=(0, None, None))(stack, *args[1:])
    np.testing.assert_allclose(mapped[1], purax.grad(whole)(stack[1], *args[1:]), rtol=1e-4, atol=1e-4)


def test_a_value_that_all_devices_share_gets_the_sum_of_their_cotangents():
    assert purax.grad(lambda w: over(lambda w, x: lax.psum(pnp.sum(w * x), "i"), (P(), P("i")), P())(w, X))(2.0) == 7.0
    assert purax.grad(lambda w: over(lambda x: lax.psum(pnp.sum(w * x), "i"), P("i"), P())(X))(2.0) == 7.0


def test_inside_a_shared_value_is_one_value_and_unchecked_one_per_device():
    gradient = lambda w, x: purax.grad(lambda w: pnp.sum(w * x))(w)
    assert over(gradient, (P(), P("i")), P())(2.0, X) == 7.0
    each = over(lambda w, x: gradient(w, x)[None], (P(), P("i")), P("i"), check_vma=False)
    np.testing.assert_array_equal(each(2.0, X), X)


def test_promised_copies_share_the_cotangent_and_stacked_copies_add_theirs():
    gathered = over(lambda x: lax.all_gather(x, "i", tiled=True), P("i"), P(), check_vma=False)
    np.testing.assert_array_equal(purax.grad(lambda x: pnp.sum(gathered(x) * A))(X), A)
    stacked = over(lambda x: lax.psum(x, "i"), P("i"), P("i"))
    np.testing.assert_array_equal(purax.grad(lambda x: pnp.sum(stacked(x) * A))(X), np.full(4, A.sum()))


def test_residuals_that_are_scalars_on_each_device():
    fun = over(lambda x: pnp.exp(pnp.sum(x)) * x, P("i"), P("i"))
    want = purax.grad(lambda x: pnp.sum(pnp.exp(x) * x * A))(X)
    np.testing.assert_allclose(purax.grad(lambda x: pnp.sum(fun(x) * A))(X), want, rtol=1e-5)


def test_the_reference_maps_the_local_program_over_the_pieces():
    for lane, whole in CASES.values():
        program = purax.make_jaxpr(over(lane, P("i"), P()))(W, X, A)
        (found,) = reference_eval(program.jaxpr, program.consts, W, X, A)
        np.testing.assert_allclose(found, whole(W, X, A), rtol=1e-5)


def test_unused_results_are_dropped():
    fun = purax.jit(lambda x: over(lambda x: (x * 2, lax.psum(pnp.sin(x), "i")), P("i"), (P("i"), P()))(x)[0])
    assert "sine" not in fun.lower(X).compile().as_text()


def test_keys_can_be_spread():
    keys = purax.random.split(purax.random.key(0), 4)
    found = over(lambda k: purax.random.normal(k[0], (1, 3)), P("i"), P("i"))(keys)
    np.testing.assert_array_equal(found, purax.vmap(lambda k: purax.random.normal(k, (3,)))(keys))


# --- errors -----------------------------------------------------------------------------------------------------------------------


def test_wrong_specs_are_told_with_the_argument():
    with pytest.raises(ValueError, match=r"not evenly divisible.*argument x of type float32\[6\]"):
        over(lambda x: x, P("i"), P("i"))(np.ones(6, np.float32))
    with pytest.raises(ValueError, match="too long"):
        over(lambda x: x, P(None, "i"), P("i"))(X)
    with pytest.raises(ValueError, match="out_specs entry which is too long"):
        over(lambda x: x.sum(), P("i"), P("i"))(X)
    with pytest.raises(ValueError, match="varies over 'i'"):
        over(lambda x: x, P("i"), P())(X)
    with pytest.raises(ValueError, match="names the axis"):
        over(lambda x: x, P("q"), P())(X)
    with pytest.raises(TypeError, match="PartitionSpec"):
        over(lambda x: x, "i", P())(X)
    with pytest.raises(ValueError, match="no mesh"):
        purax.shard_map(lambda x: x, in_specs=P("i"), out_specs=P("i"))(X)
    with pytest.raises(NameError, match="unbound axis name: q"):
        over(lambda x: lax.psum(x, "q"), P("i"), P())(X)


def test_regions_nest_over_the_axes_that_are_left():
    def outer(x):
        return purax.shard_map(
            lambda y: lax.psum(y, "j") * lax.axis_index("i"), mesh=grid(), in_specs=P(None, "j"), out_specs=P()
        )(x)

    fun = purax.shard_map(outer, mesh=grid(), in_specs=P("i"), out_specs=P("i"), axis_names={"i"})
    halves = TABLE[:, :2] + TABLE[:, 2:]
    np.testing.assert_array_equal(purax.jit(fun)(TABLE), halves * np.repeat([0, 1], 4)[:, None])


def test_leaves_without_a_spec_are_passed_on_as_they_are():
    def fun(scale, x, shape):
        return x * scale["a"] + pnp.ones(shape)

    out = over(fun, (None, P("i"), None), P("i"))({"a": 3}, X, (1,))
    np.testing.assert_array_equal(out, 3 * X + 1)


def test_a_gathered_value_may_count_as_the_same_everywhere():
    gathered = over(lambda x: lax.all_gather(x, "i", tiled=True, to="invarying"), P("i"), P())
    np.testing.assert_array_equal(gathered(X), X)
    np.testing.assert_array_equal(purax.grad(lambda x: pnp.sum(gathered(x) * A))(X), A)


def test_the_mapped_axis_of_vmap_may_lie_along_the_mesh():
    inner = purax.shard_map(lambda x: x * lax.psum(x, "j"), mesh=grid(), in_specs=P("j"), out_specs=P("j"))
    out = purax.vmap(inner, spmd_axis_name="i")(TABLE)
    np.testing.assert_array_equal(
        out, (TABLE.reshape(8, 2, 2) * TABLE.reshape(8, 2, 2).sum(1, keepdims=True)).reshape(8, 4)
    )
    assert out.sharding.spec == P("i", "j")
    with pytest.raises(ValueError, match="spmd_axis_name"):
        purax.vmap(inner, spmd_axis_name="j")(TABLE)


def test_a_constraint_by_an_axis_of_the_region_is_refused():
    fun = over(lambda x: lax.with_sharding_constraint(x, NamedSharding(line(), P("i"))), P("i"), P("i"))
    with pytest.raises(ValueError, match="manual axes"):
        fun(X)


def test_smap_names_array_axes():
    with purax.set_mesh(line()):
        fun = purax.smap(lambda x, y: x.sum(0) + y + lax.psum(1.0, "i"), in_axes=(1, None), out_axes=0, axis_name="i")
        np.testing.assert_array_equal(fun(TABLE, 2.0), TABLE.sum(0) + 6)


def test_rules_of_users_run_on_pieces():
    @purax.custom_vjp
    def double(x):
        return 2.0 * x

    double.defvjp(lambda x: (double(x), None), lambda _, ct: (pnp.ones_like(ct),))
    fun = over(lambda x: double(x) * x, P("i"), P("i"))
    np.testing.assert_array_equal(purax.grad(lambda x: pnp.sum(fun(x)))(X), 1 + 2 * X)


NESTED = {
    "pmap in pmap": lambda mesh, x: purax.pmap(lambda y: purax.pmap(lambda z: z, "b")(y), "a")(x.reshape(2, 2)),
    "pmap in shard_map": lambda mesh, x: shard(mesh, lambda y: purax.pmap(lambda z: z)(y))(x),
    "shard_map in pmap": lambda mesh, x: purax.pmap(shard(mesh, lambda y: y))(x.reshape(2, 2)),
    "the same axis": lambda mesh, x: shard(mesh, shard(mesh, lambda y: y, {"x"}), {"x"})(x),
}


def shard(mesh, fun, axes=frozenset()):
    return purax.shard_map(fun, mesh=mesh, in_specs=purax.P("x"), out_specs=purax.P("x"), axis_names=axes)


@pytest.mark.parametrize("kind", NESTED)
def test_devices_in_a_region_are_not_divided_in_another_way(kind):  # XLA ends the process
    mesh = purax.make_mesh((2, 2), ("x", "y"))
    with pytest.raises(ValueError, match="each device is in one place of one mesh"):
        NESTED[kind](mesh, np.arange(4.0))
