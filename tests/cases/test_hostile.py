# SPDX-License-Identifier: Apache-2.0
"""Faults that an attack with hostile inputs found, each as a test of its kind."""

import math

import numpy as np
import pytest

import purax
from purax import errors, lax, linen, optim, random
from purax import numpy as pnp


@pytest.mark.parametrize(
    "use",
    [
        lambda x: np.sin(x) * x,
        lambda x: float(x) ** 2,
        lambda x: math.sin(x),
        lambda x: np.dot(x, x),
        lambda x: pnp.array([float(x), 2.0]).sum(),
        lambda x: pnp.array(x.tolist()).sum(),
        lambda x: x.item() * x,
    ],
)
def test_a_use_that_would_cut_the_derivative_raises_in_both_modes(use):
    kinds = (errors.TracerArrayConversionError, errors.ConcretizationTypeError)
    with pytest.raises(kinds, match="being differentiated"):
        purax.grad(use)(2.0)
    with pytest.raises(kinds, match="being differentiated"):
        purax.jvp(use, (2.0,), (1.0,))


def test_branches_on_known_values_and_stopped_values_stay_allowed():
    assert purax.grad(lambda x: x * x if x > 0 else -x)(2.0) == 4.0
    assert purax.grad(lambda x: float(lax.stop_gradient(x)) * x)(2.0) == 2.0


def power_series(x):
    return lax.scan(lambda c, t: (c * x + t, c), x, pnp.arange(3.0))[0]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda g: g,
        purax.jit,
        purax.checkpoint,
        lambda g: lambda x: lax.cond(x > 0, g, lambda y: y, x),
        lambda g: lambda x: lax.scan(lambda c, _: (g(c), None), x, None, length=1)[0],
    ],
)
def test_a_rule_made_of_jvp_over_a_loop_works_inside_everything(wrap):
    g = purax.custom_jvp(power_series)
    g.defjvp(lambda primals, tangents: purax.jvp(power_series, primals, tangents))
    assert purax.grad(wrap(g))(2.0) == 33.0
    assert purax.jit(purax.grad(wrap(g)))(2.0) == 33.0


def test_a_constant_tangent_of_a_rule_depends_on_no_input():
    g = purax.custom_jvp(lambda x: x)
    g.defjvp(lambda primals, tangents: (primals[0], 5.0))
    assert purax.grad(g)(1.0) == 0.0


@pytest.mark.parametrize(("x", "y"), [(-1.0, np.inf), (1.0, -np.inf), (1.0, np.inf), (-1.0, -np.inf), (0.0, np.inf)])
def test_a_finite_number_divided_by_an_infinite_one_rounds_down(x, y):
    x, y = np.float32(x), np.float32(y)
    assert pnp.floor_divide(pnp.asarray(x), pnp.asarray(y)) == np.floor_divide(x, y)
    assert purax.jit(pnp.floor_divide)(x, y) == np.floor_divide(x, y)


@pytest.mark.parametrize(
    "make", [lambda: pnp.zeros((2**62,)), lambda: pnp.zeros((2**40, 2**40)), lambda: pnp.arange(2**62)]
)
def test_a_size_that_no_machine_can_count_is_an_error_not_an_abort(make):
    with pytest.raises((ValueError, OverflowError)):
        make()


def test_the_image_functions_leave_numpy_alone():
    assert purax.image.resize(pnp.ones((2, 2)), (4, 4), "nearest").shape == (4, 4)
    np.testing.assert_array_equal(pnp.resize(pnp.arange(3), (4,)), np.resize(np.arange(3), (4,)))


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda f: lax.map(f, {"a": pnp.arange(4.0), "b": pnp.arange(6.0)}, batch_size=2), ValueError, r"xs\['b'\]: 6"),
        (lambda f: lax.map(f, 3.0, batch_size=2), ValueError, "xs has shape"),
        (lambda f: lax.map(f, None, batch_size=2), ValueError, "map got no values"),
        (lambda f: lax.map(f, pnp.ones(3), batch_size=-1), ValueError, "batch_size must be"),
        (lambda f: lax.map(f, pnp.ones(3), batch_size=2.0), ValueError, "batch_size must be"),
        (lambda f: lax.associative_scan(lambda a, b: (a + b).sum(), pnp.ones((4, 2))), ValueError, "elementwise along"),
        (lambda f: lax.switch(0, f), TypeError, "sequence of callables"),
        (lambda f: purax.checkpoint(f, policy="everything"), TypeError, "checkpoint_policies, got 'everything'"),
        (lambda f: purax.vmap(lambda x: {"name": "a"})(pnp.ones(3)), TypeError, r"output \['name'\] is 'a'"),
    ],
)
def test_a_mistake_in_control_flow_is_named(use, kind, text):
    with pytest.raises(kind, match=text):
        use(lambda x: x)


def test_the_place_of_an_argument_that_is_not_there_is_named():
    f = purax.custom_jvp(lambda x: x, nondiff_argnums=4)
    f.defjvp(lambda n, primals, tangents: (primals, tangents))
    with pytest.raises(IndexError, match="called with 1 argument"):
        f(1.0)


def test_a_custom_rule_that_closes_over_a_traced_value_is_named():
    @purax.custom_vjp
    def f(y):
        return y

    def outer(x):
        f.defvjp(lambda y: (y, None), lambda _, ct: (ct * x,))
        return f(3.0 * x)

    with pytest.raises(errors.UnexpectedTracerError) as failure:
        purax.grad(outer)(2.0)
    assert "bwd rule of f" in "".join(failure.value.__notes__)


@pytest.mark.parametrize(
    ("use", "kind", "text"),
    [
        (lambda: pnp.ones(6).reshape(4, -1), errors.ShapeError, r"into shape \(4, -1\)"),
        (lambda: pnp.interp(0.5, pnp.zeros(0), pnp.zeros(0)), ValueError, "xp and fp are empty"),
        (lambda: random.key(2**64), OverflowError, "the seed 18446744073709551616"),
        (lambda: linen.Dense(2).init(random.key(0), 1.0), ValueError, "last axis"),
        (lambda: purax.pmap(lambda x: x)(pnp.zeros(0)), ValueError, "mapped axis has size 0"),
        (lambda: purax.ops.segment_sum(pnp.ones(3), pnp.array([0, 1])), errors.ShapeError, r"data have shape \(3,\)"),
        (lambda: linen.Sequential([linen.Dense]), ValueError, r"layers\[0\] is the class Dense"),
        (lambda: optim.adam("fast"), TypeError, "learning rate is a number or a schedule, got 'fast'"),
        (lambda: optim.sgd(None), TypeError, "got None"),
    ],
)
def test_a_mistake_with_arrays_and_layers_is_named(use, kind, text):
    with pytest.raises(kind, match=text):
        use()


@pytest.mark.parametrize("of", [pnp.median, pnp.nanmedian, lambda x, axis: pnp.quantile(x, 0.3, axis)])
def test_a_quantile_of_nothing_is_nan_as_a_mean_is(of):
    np.testing.assert_array_equal(of(pnp.zeros((0, 2)), axis=0), [np.nan, np.nan])
    assert of(pnp.zeros((2, 0)), axis=0).shape == (0,)


@pytest.mark.parametrize("split", [False, True])
def test_a_scanned_layer_may_see_no_steps(split):
    axes = {"variable_axes": {"params": 0}} if split else {"variable_broadcast": "params"}
    scanned = linen.scan(linen.GRUCell, split_rngs={"params": split}, **axes)(4)
    (carry, ys), variables = scanned.init_with_output(random.key(0), pnp.ones(4), pnp.ones((0, 3)))
    np.testing.assert_array_equal(carry, np.ones(4))
    assert ys.shape == (0, 4)
    shapes = {x.shape for x in purax.tree.leaves(variables)}
    assert (4, 4) in shapes if not split else (0, 4, 4) in shapes


@pytest.mark.parametrize("name", ["größe", 'a"b\n\\%s{}', "变 \t", ""])
def test_a_function_or_a_scope_may_have_any_name(name):
    def f(x):
        with purax.named_scope(name):
            return purax.jit(pnp.sin)(x) * 2

    f.__name__ = name
    np.testing.assert_allclose(purax.jit(purax.grad(purax.jit(f)))(0.0), 2)


@pytest.mark.parametrize("axis", ["größe", 'a"b]', "with space"])
def test_a_mesh_axis_may_have_any_name(axis):
    mesh = purax.make_mesh((4,), (axis,))
    spec = purax.P(axis)
    total = purax.shard_map(lambda x: lax.psum(x, axis), mesh=mesh, in_specs=spec, out_specs=purax.P())
    x = purax.device_put(pnp.arange(4.0), purax.NamedSharding(mesh, spec))
    np.testing.assert_array_equal(purax.jit(total)(x + 0), [6])


@pytest.mark.parametrize("cut", ["rows", "columns"])
def test_an_array_without_elements_may_be_cut_over_devices(cut):
    mesh = purax.make_mesh((4,), ("x",))
    spec = purax.P("x") if cut == "rows" else purax.P(None, "x")
    x = purax.device_put(pnp.zeros((0, 4)), purax.NamedSharding(mesh, spec))
    assert (x + 1).shape == np.asarray(x).shape == (0, 4)
    np.testing.assert_array_equal(purax.jit(lambda x: x.sum(0))(x), np.zeros(4))
    assert purax.device_put(x, purax.NamedSharding(mesh, purax.P())).shape == (0, 4)
