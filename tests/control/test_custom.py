# SPDX-License-Identifier: Apache-2.0
"""Derivative and batching rules given by users, in every mode, eager and compiled."""

from functools import partial

import numpy as np
import pytest

import purax
from purax import custom_batching, custom_derivatives, errors, lax
from purax import numpy as pnp

# The rules below are wrong on purpose (a factor too much), so that it shows which one ran.


@purax.custom_jvp
def forward(x, y):
    return pnp.sin(x) * y


@forward.defjvp
def _(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return forward(x, y), 2.0 * pnp.cos(x) * y * dx + pnp.sin(x) * dy


@purax.custom_vjp
def backward(x, y):
    return pnp.sin(x) * y


backward.defvjp(lambda x, y: (backward(x, y), (x, y)), lambda r, c: (3.0 * pnp.cos(r[0]) * r[1] * c, pnp.sin(r[0]) * c))
COS = np.cos(0.5)


@pytest.mark.parametrize(("fun", "factor"), [(forward, 2), (backward, 3)])
@pytest.mark.parametrize(
    "derivative",
    [
        lambda f: purax.grad(f)(0.5, 2.0),
        lambda f: purax.jit(purax.grad(f))(0.5, 2.0),
        lambda f: purax.grad(purax.jit(f))(0.5, 2.0),
        lambda f: purax.jvp(f, (0.5, 2.0), (1.0, 0.0))[1],
        lambda f: purax.jvp(purax.jit(f), (0.5, 2.0), (1.0, 0.0))[1],
        lambda f: purax.vmap(purax.grad(f), in_axes=(0, None))(pnp.array([0.1, 0.5]), 2.0)[1],
        lambda f: purax.grad(lambda x: purax.vmap(f, in_axes=(0, None))(x, 2.0).sum())(pnp.array([0.1, 0.5]))[1],
        lambda f: purax.grad(lambda x: lax.scan(lambda c, r: (c, f(x, r)), 0.0, pnp.array([2.0]))[1][0])(0.5),
        lambda f: purax.grad(lambda x: lax.cond(x > 0, f, lambda a, b: a, x, 2.0))(0.5),
        lambda f: purax.grad(purax.checkpoint(f))(0.5, 2.0),
        lambda f: purax.jacrev(f)(0.5, 2.0),
        lambda f: purax.linearize(f, 0.5, 2.0)[1](1.0, 0.0),
    ],
)
def test_the_user_s_rule_is_the_derivative(fun, factor, derivative):
    np.testing.assert_allclose(derivative(fun), factor * 2 * COS, rtol=1e-5)


@pytest.mark.parametrize(("fun", "factor"), [(forward, 2), (backward, 3)])
def test_second_derivatives_differentiate_the_rule(fun, factor):
    np.testing.assert_allclose(purax.grad(purax.grad(fun))(0.5, 2.0), -factor * 2 * np.sin(0.5), rtol=1e-5)
    np.testing.assert_allclose(purax.jit(purax.jacfwd(purax.grad(fun)))(0.5, 2.0), -factor * 2 * np.sin(0.5), rtol=1e-5)


def test_rules_may_look_at_values_in_eager_code():
    @purax.custom_jvp
    def fun(x):
        return pnp.sin(x) if x > 0 else pnp.cos(x)

    @fun.defjvp
    def rule(primals, tangents):
        return fun(*primals), tangents[0] * (2.0 if primals[0] > 0 else 3.0)

    assert float(purax.grad(fun)(2.0)) == 2 and float(purax.grad(fun)(-2.0)) == 3


def test_rules_may_close_over_mapped_values():
    def outer(scale):
        @purax.custom_jvp
        def fun(x):
            return x * scale

        fun.defjvp(lambda p, t: (fun(*p), t[0] * scale * 10.0))
        return fun(1.0), purax.grad(fun)(1.0)

    values, slopes = purax.vmap(outer)(pnp.arange(3.0))
    np.testing.assert_array_equal(values, [0, 1, 2])
    np.testing.assert_array_equal(slopes, [0, 10, 20])
    np.testing.assert_array_equal(purax.jit(purax.vmap(outer))(pnp.arange(3.0))[1], [0, 10, 20])

    def with_backward(scale):
        fun = purax.custom_vjp(lambda x: x * scale)
        fun.defvjp(lambda x: (x * scale, None), lambda _, c: (c * scale * 10.0,))
        return purax.grad(fun)(1.0)

    np.testing.assert_array_equal(purax.vmap(with_backward)(pnp.arange(3.0)), [0, 10, 20])


def test_arguments_that_are_not_differentiated_come_first():
    @partial(purax.custom_jvp, nondiff_argnums=(0,))
    def apply(f, x):
        return f(x)

    @apply.defjvp
    def _(f, primals, tangents):
        return f(*primals), 5.0 * tangents[0]

    assert float(purax.grad(lambda x: apply(pnp.sin, x))(0.3)) == 5

    reverse = purax.custom_vjp(lambda n, x: x**n, nondiff_argnums=0)
    reverse.defvjp(lambda n, x: (x**n, x), lambda n, x, c: (c * n * 100,))
    assert float(purax.grad(lambda x: reverse(3, x))(2.0)) == 300


def test_one_rule_per_argument():
    @purax.custom_jvp
    def fun(x, y):
        return x * y

    fun.defjvps(lambda t, out, x, y: 10.0 * t * y, None)
    assert [float(g) for g in purax.grad(fun, (0, 1))(2.0, 3.0)] == [30, 0]


def test_symbolic_zeros_tell_what_is_not_differentiated():
    seen = []

    @purax.custom_jvp
    def fun(x, y):
        return x * y

    def rule(primals, tangents):
        seen.append([type(t) is custom_derivatives.SymbolicZero for t in tangents])
        return fun(*primals), tangents[0] * primals[1]

    fun.defjvp(rule, symbolic_zeros=True)
    purax.jvp(lambda x: fun(x, 2.0), (1.0,), (1.0,))
    assert seen == [[False, True]]

    both = purax.custom_vjp(lambda x, y: (x, y))
    marks = []

    def forward_rule(x, y):
        marks.append((x.perturbed, y.perturbed))
        return (x.value, y.value), None

    both.defvjp(
        forward_rule,
        lambda _, c: (c[0], None if type(c[1]) is custom_derivatives.SymbolicZero else c[1]),
        symbolic_zeros=True,
    )
    assert float(purax.grad(lambda x: both(x, 2.0)[0])(1.0)) == 1 and marks == [(True, False)]


def test_zeros_of_a_primal():
    assert float(custom_derivatives.zero_from_primal(2.0)) == 0
    assert custom_derivatives.zero_from_primal(3).dtype == purax.float0
    assert type(custom_derivatives.zero_from_primal(3.0, symbolic_zeros=True)) is custom_derivatives.SymbolicZero


def rule_of(rule):
    fun = purax.custom_jvp(lambda x: x)
    fun.defjvp(rule)
    return lambda: purax.jvp(fun, (1.0,), (1.0,))


def rules_of(forward_rule, backward_rule):
    fun = purax.custom_vjp(lambda x: x)
    fun.defvjp(forward_rule, backward_rule)
    return lambda: purax.grad(fun)(1.0)


@pytest.mark.parametrize(
    ("run", "error", "part"),
    [
        (rule_of(lambda p, t: p[0]), TypeError, "must produce a pair"),
        (rule_of(lambda p, t: (p[0], (t[0],))), TypeError, "equal container"),
        (rule_of(lambda p, t: ((p[0],), (t[0],))), TypeError, "same container/pytree structure"),
        (rule_of(lambda p, t: (p[0], pnp.ones(2))), TypeError, "corresponding shapes and dtypes"),
        (rules_of(lambda x: x, lambda r, c: (c,)), TypeError, "must produce a pair"),
        (rules_of(lambda x: (x, None), lambda r, c: c), TypeError, "must produce a tuple"),
        (rules_of(lambda x: (x, None), lambda r, c: ((c, c),)), TypeError, "structure"),
        (rules_of(lambda x: (x, None), lambda r, c: (pnp.ones(2),)), ValueError, "shapes of the primal"),
        (lambda: purax.custom_jvp(lambda x: x)(1.0), AttributeError, "No JVP defined"),
        (lambda: purax.custom_vjp(lambda x: x)(1.0), AttributeError, "No VJP defined"),
        (lambda: custom_batching.custom_vmap(lambda x: x)(1.0), AttributeError, "No batching rule"),
    ],
)
def test_rules_that_do_not_fit_are_refused(run, error, part):
    with pytest.raises(error, match=part):
        run()


def test_methods_and_default_arguments_resolve_to_positions():
    @purax.custom_jvp
    def fun(x, y=3.0):
        return x * y

    fun.defjvp(lambda p, t: (fun(*p), 7.0 * t[0]))
    assert float(fun(2.0)) == 6 and float(fun(y=4.0, x=2.0)) == 8 and float(purax.grad(fun)(2.0)) == 7


def test_a_function_that_gives_its_own_pullback():
    @purax.custom_gradient
    def fun(x):
        return x**2, lambda c: (100.0 * c * x,)

    assert float(fun(3.0)) == 9 and float(purax.grad(fun)(3.0)) == 300


def test_captured_values_become_arguments():
    def outer(a):
        fun, captured = purax.closure_convert(lambda x: pnp.sin(a) * x, 1.0)
        return fun(2.0, *captured), len(captured)

    value, count = purax.vjp(outer, 0.5)[0]
    np.testing.assert_allclose(value, 2 * np.sin(0.5), rtol=1e-6)
    assert int(count) == 1


# --- batching rules


@custom_batching.custom_vmap
def mapped(x, y):
    return x * y


@mapped.def_vmap
def _(axis_size, in_batched, x, y):
    assert axis_size == 3 and in_batched == [True, False]
    return 10.0 * x * y, True


def test_the_user_s_rule_is_the_batched_function():
    assert float(mapped(2.0, 3.0)) == 6
    for run in (purax.vmap(mapped, in_axes=(0, None)), purax.jit(purax.vmap(mapped, in_axes=(0, None))), purax.vmap(purax.jit(mapped), in_axes=(0, None))):  # fmt: skip
        np.testing.assert_array_equal(run(pnp.arange(3.0), 2.0), [0, 20, 40])


def test_forward_derivatives_follow_the_batching_rule():
    run = lambda x, t: purax.jvp(lambda x: mapped(x, 2.0), (x,), (t,))
    np.testing.assert_array_equal(purax.vmap(run)(pnp.arange(3.0), pnp.ones(3))[1], [20, 20, 20])
    np.testing.assert_array_equal(
        purax.jvp(lambda x: purax.vmap(mapped, (0, None))(x, 2.0), (pnp.arange(3.0),), (pnp.ones(3),))[1], [20, 20, 20]
    )
    with pytest.raises(ValueError, match="no reverse mode"):
        purax.grad(lambda x: mapped(x, 2.0))(1.0)


def test_lanes_one_after_the_other():
    fun = custom_batching.sequential_vmap(lambda x, y: {"s": x + y})
    np.testing.assert_array_equal(purax.vmap(fun, in_axes=(0, None))(pnp.arange(3.0), 1.0)["s"], [1, 2, 3])
    assert "scan" in str(purax.make_jaxpr(purax.vmap(fun, in_axes=(0, None)))(pnp.arange(3.0), 1.0))


@pytest.mark.parametrize(
    ("rule", "part"),
    [(lambda n, b, x: ([x, x], True), "do not match"), (lambda n, b, x: ([x], [True]), "does not match that of")],
)
def test_batching_rules_that_do_not_fit_are_refused(rule, part):
    fun = custom_batching.custom_vmap(lambda x: x)
    fun.def_vmap(rule)
    with pytest.raises(ValueError, match=part):
        purax.vmap(fun)(pnp.arange(3.0))


def test_rules_of_two_kinds_on_one_function():
    @purax.custom_jvp
    @custom_batching.custom_vmap
    def fun(x):
        return 2.0 * x

    fun.def_vmap(lambda n, b, x: (3.0 * x, True))
    fun.defjvp(lambda p, t: (fun(*p), 5.0 * t[0]))
    assert float(purax.grad(fun)(1.0)) == 5
    np.testing.assert_array_equal(purax.vmap(fun)(pnp.ones(2)), [3, 3])


def test_closing_over_what_is_differentiated_is_refused():
    def outer(a):
        fun = purax.custom_jvp(lambda x: a * x)
        fun.defjvp(lambda p, t: (fun(*p), t[0]))
        return purax.jit(fun)(2.0)

    with pytest.raises(errors.UnexpectedTracerError, match="closes over a value that is being differentiated"):
        purax.grad(outer)(1.0)


def test_forward_mode_from_a_backward_rule_to_any_order():
    @purax.custom_vjp
    def cube(x, scale):
        return scale * x**3

    cube.defvjp(
        lambda x, s: (s * x**3, (x, s)), lambda saved, ct: (3 * saved[1] * saved[0] ** 2 * ct, saved[0] ** 3 * ct)
    )
    fun = lambda x: cube(x, 2.0)
    first, second = purax.jacfwd(fun), purax.jacfwd(purax.jacfwd(fun))
    third = purax.jacfwd(second)
    np.testing.assert_allclose([first(1.5), second(1.5), third(1.5)], [6 * 1.5**2, 12 * 1.5, 12], rtol=1e-5)
    for mixed in (purax.jacfwd(purax.grad(fun)), purax.grad(purax.jacfwd(fun)), purax.jit(second)):
        np.testing.assert_allclose(mixed(1.5), 12 * 1.5, rtol=1e-5)
    xs = np.array([0.5, 1.5], np.float32)
    np.testing.assert_allclose(purax.vmap(second)(xs), 12 * xs, rtol=1e-5)
    np.testing.assert_allclose(purax.jacfwd(purax.jacfwd(cube, 0), 1)(1.5, 2.0), 3 * 1.5**2, rtol=1e-5)


def test_a_backward_rule_in_a_loop_may_use_arrays_of_its_own():
    @purax.custom_vjp
    def double(x):
        return 2.0 * x

    def pull(x, ct):
        return (ct * lax.scan(lambda total, w: (total + w, None), 0.0 * x, np.array([0.5, 1.5], np.float32))[0],)

    double.defvjp(lambda x: (double(x), x), pull)
    loop = lambda x: lax.scan(lambda c, _: (double(c), None), x, None, length=3)[0]
    for transform in (lambda f: f, purax.jit):
        assert float(transform(purax.grad(loop))(1.0)) == 8
        assert float(transform(purax.grad(lambda x: purax.grad(loop)(x) * x))(1.0)) == 8


def test_forward_mode_of_a_backward_rule_without_transpose_names_the_function():
    @purax.custom_vjp
    def halved(x):
        return x / 2

    pull = lambda _, ct: (lax.while_loop(lambda c: abs(c) > 1.0, lambda c: c / 2, ct),)
    halved.defvjp(lambda x: (halved(x), None), pull)
    with pytest.raises(errors.DifferentiationTypeError, match=r"can't apply forward-mode .* halved"):
        purax.jvp(halved, (1.0,), (1.0,))


def test_python_numbers_among_residuals_stay_python_numbers():
    seen = []

    @purax.custom_vjp
    def double(x):
        return 2 * x

    def backward(residuals, ct):
        seen.append([type(r) for r in residuals[:3]])
        return (ct * 2 if residuals[0] else None,)

    double.defvjp(lambda x: (2 * x, (True, 3, 2.5, x)), backward)
    runs = (
        purax.grad(double), purax.grad(purax.jit(double)), purax.jit(purax.grad(double)),
        purax.grad(lambda x: purax.lax.scan(lambda c, _: (double(c), None), x, None, 1)[0]),
        lambda x: purax.vmap(purax.grad(double))(pnp.stack([x]))[0],
    )  # fmt: skip
    assert [float(run(1.0)) for run in runs] == [2] * len(runs)
    assert all(kinds == [bool, int, float] for kinds in seen)
