# SPDX-License-Identifier: Apache-2.0
"""`scan`, `while_loop`, `fori_loop`, `map`, `associative_scan`: values, derivatives, lanes, and errors that list leaves."""

import numpy as np
import pytest

import purax
from purax import errors, lax
from purax import numpy as pnp

XS = np.array([0.5, -1.0, 2.0, 0.3, 1.1], np.float32)


def body(carry, x):
    a, b = carry
    a = pnp.sin(a) * x + b
    return (a, b + 1.0), a * b


def reference(a, b, xs, reverse=False):
    rows = np.zeros(len(xs), np.float64)
    order = range(len(xs))
    for i in reversed(order) if reverse else order:
        a = np.sin(a) * xs[i] + b
        rows[i] = a * b
        b = b + 1
    return a, b, rows


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 5, 7, True, False, 0])
def test_a_scan_is_a_loop(reverse, unroll):
    scan = purax.jit(lambda xs: lax.scan(body, (0.3, 0.1), xs, reverse=reverse, unroll=unroll))
    (a, b), rows = scan(XS)
    want = reference(0.3, 0.1, XS, reverse)
    for found, w in zip((a, b, rows), want, strict=True):
        np.testing.assert_allclose(found, w, rtol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_a_scan_equal_those_of_the_unrolled_loop(reverse):
    def unrolled(a, xs):
        carry, rows = (a, 0.1), [0.0] * 5
        for i in reversed(range(5)) if reverse else range(5):
            carry, rows[i] = body(carry, xs[i])
        return carry[0] + sum(r * (k + 1.0) for k, r in enumerate(rows))

    def scanned(a, xs):
        (last, _), rows = lax.scan(body, (a, 0.1), xs, reverse=reverse)
        return last + (rows * pnp.arange(1.0, 6.0)).sum()

    for transform in (purax.grad, lambda f, argnums: purax.jacfwd(f, argnums)):
        found, want = transform(scanned, (0, 1))(0.3, XS), transform(unrolled, (0, 1))(0.3, XS)
        for f, w in zip(found, want, strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)
    found = purax.hessian(scanned, 1)(0.3, XS)
    np.testing.assert_allclose(found, purax.hessian(unrolled, 1)(0.3, XS), rtol=1e-3, atol=1e-4)


def test_lanes_of_a_scan_equal_single_runs():
    run = lambda a, xs: lax.scan(body, (a, 0.1), xs)[1]
    starts = pnp.arange(3.0)
    np.testing.assert_allclose(
        purax.vmap(run, in_axes=(0, None))(starts, XS), np.stack([run(a, XS) for a in starts]), rtol=1e-5
    )
    rows = np.stack([XS, 2 * XS], 1)
    np.testing.assert_allclose(
        purax.vmap(run, in_axes=(None, 1))(0.5, rows), np.stack([run(0.5, XS), run(0.5, 2 * XS)]), rtol=1e-5
    )


@pytest.mark.parametrize("unroll", [1, 0, 3])
def test_a_scan_of_no_steps_returns_its_start(unroll):
    def run(start, xs):
        (end, _), rows = lax.scan(body, (start, 2.0), xs, unroll=unroll)
        return end, rows

    last, rows = run(1.5, pnp.zeros((0,)))
    assert float(last) == 1.5 and rows.shape == (0,)
    assert float(purax.grad(lambda s: run(s, pnp.zeros((0,)))[0])(1.5)) == 1
    assert purax.vmap(run, in_axes=(0, None))(pnp.ones(3), pnp.zeros((0,)))[1].shape == (3, 0)
    assert lax.scan(lambda c, _: (c, None), 1.0, None, length=0)[0] == 1


def test_what_a_scan_passes_through_is_not_carried():
    def run(w, xs):
        return lax.scan(lambda c, x: ((c[0] * c[1] + x, c[1]), (x, c[0])), (0.0, w), xs)

    text = str(purax.make_jaxpr(run)(2.0, XS))
    assert "consts=1 carry=1" in text
    (_, w), (xs, _) = run(2.0, XS)
    assert float(w) == 2 and np.array_equal(xs, XS)
    want = purax.grad(lambda w: sum(float(x) * w ** (4 - i) for i, x in enumerate(XS)))(2.0)
    np.testing.assert_allclose(purax.grad(lambda w: run(w, XS)[0][0])(2.0), want, rtol=1e-5)


def test_weak_carries_take_the_type_of_the_body():
    last, rows = lax.scan(lambda c, x: (c + x, c), 0.0, pnp.ones(3, np.float16))
    assert last.dtype == rows.dtype == np.float16
    assert lax.scan(lambda c, x: (c * x, None), 1, pnp.ones(3))[0].dtype == np.float32
    (a, b, c), _ = lax.scan(
        lambda s, x: ((s[0] + x, s[1] + s[0], s[2] + s[1]), None), (0.0, 0.0, 0.0), pnp.ones(3, np.float16)
    )
    assert a.dtype == b.dtype == c.dtype == np.float16


def test_every_leaf_that_changes_its_type_is_listed_with_a_cast():
    def changes(carry, x):
        return {"n": carry["n"] + x, "w": pnp.stack([carry["w"], carry["w"]]), "ok": carry["ok"]}, None

    with pytest.raises(errors.CarryTypeError) as caught:
        lax.scan(changes, {"n": pnp.int32(0), "w": pnp.float32(1), "ok": 0.0}, pnp.ones(2))
    text = str(caught.value)
    assert "carry['n'] goes in as int32[] and comes out as float32[]" in text and ".astype(int32)" in text
    assert (
        "carry['w'] goes in as float32[] and comes out as float32[2]: the shapes differ" in text and "'ok'" not in text
    )
    with pytest.raises(errors.CarryTypeError, match="same pytree structure"):
        lax.scan(lambda c, x: ((c, c), None), 1.0, pnp.ones(2))
    with pytest.raises(TypeError, match="must be a pair"):
        lax.scan(lambda c, x: c, 1.0, pnp.ones(2))


@pytest.mark.parametrize(
    ("run", "error", "part"),
    [
        (lambda: lax.scan(body, 0.0, (pnp.ones(2), pnp.ones(3))), ValueError, "different leading axis sizes"),
        (lambda: lax.scan(body, 0.0, pnp.ones(2), length=3), ValueError, "disagrees with leading axis sizes"),
        (lambda: lax.scan(body, 0.0), ValueError, "no values to scan over"),
        (lambda: lax.scan(body, 0.0, 1.0), ValueError, "no leading axis"),
        (lambda: lax.scan(body, 0.0, XS, unroll=-1), ValueError, "unroll"),
        (lambda: lax.scan(3, 0.0, XS), TypeError, "callable"),
        (
            lambda: purax.jit(lambda n: lax.scan(body, (0.0, 0.0), None, n))(3),
            errors.ConcretizationTypeError,
            "`length` argument",
        ),
    ],
)
def test_scans_without_a_length_are_refused(run, error, part):
    with pytest.raises(error, match=part):
        run()


# --- while


def test_a_while_loop_runs_until_its_condition_fails():
    fun = purax.jit(lambda x, limit: lax.while_loop(lambda s: s[0] < limit, lambda s: (s[0] * 2, s[1] + 1), (x, 0)))
    value, steps = fun(1.0, 100.0)
    assert float(value) == 128 and int(steps) == 7


def test_forward_derivatives_follow_the_steps_that_were_taken():
    fun = lambda x: lax.while_loop(lambda s: s < 100, lambda s: s * s + x, x)
    inner = 3.0**2 + 3
    first = 2 * 3 + 1
    np.testing.assert_allclose(purax.jvp(fun, (3.0,), (1.0,))[1], 2 * inner * first + 1, rtol=1e-6)
    found = purax.vmap(lambda x: purax.jvp(fun, (x,), (1.0,))[1])(pnp.array([3.0, 200.0]))
    np.testing.assert_allclose(found, [2 * inner * first + 1, 1.0], rtol=1e-6)


def test_reverse_derivatives_of_a_loop_of_unknown_length_are_refused():
    with pytest.raises(errors.ReverseModeError, match=r"lax\.scan"):
        purax.grad(lambda x: lax.while_loop(lambda s: s < 9, lambda s: s * x, x))(2.0)
    with pytest.raises(errors.ReverseModeError):
        purax.jit(purax.grad(lambda x: lax.fori_loop(0.0, x, lambda i, s: s * x, x)))(2.0)


def test_each_lane_ends_by_itself():
    fun = lambda n, x: lax.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - 1, s[1] * x), (n, 1.0))[1]
    found = purax.vmap(fun, in_axes=(0, None))(pnp.array([0, 2, 5]), 3.0)
    np.testing.assert_array_equal(found, [1, 9, 243])
    found = purax.vmap(fun, in_axes=(None, 0))(3, pnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(found, [1, 8])


@pytest.mark.parametrize(
    ("condition", "step", "part"),
    [
        (lambda s: s, lambda s: s, "boolean scalar"),
        (lambda s: (s > 0, s > 1), lambda s: s, "boolean scalar"),
        (lambda s: s > pnp.zeros(2), lambda s: s, "boolean scalar"),
        (lambda s: s > 0, lambda s: (s, s), "same type structure"),
        (lambda s: s > 0, lambda s: pnp.stack([s, s]), "equal types"),
    ],
)
def test_conditions_and_bodies_that_do_not_fit_are_refused(condition, step, part):
    with pytest.raises(TypeError, match=part):
        lax.while_loop(condition, step, 1.0)


# --- counted loops


def test_a_counted_loop_with_known_bounds_can_be_differentiated():
    fun = lambda x: lax.fori_loop(0, 4, lambda i, s: s * x + i, 1.0)
    want = lambda x: (((x + 0) * x + 1) * x + 2) * x + 3
    assert float(fun(2.0)) == want(2.0)
    np.testing.assert_allclose(purax.grad(fun)(2.0), 4 * 8 + 2 * 2 + 2, rtol=1e-6)
    assert float(purax.jit(lambda n: lax.fori_loop(1, n, lambda i, s: s + i, 0.0))(5)) == 10
    assert float(lax.fori_loop(3, 1, lambda i, s: s + 1, 0.0)) == 0
    assert float(lax.fori_loop(0.0, 2.5, lambda i, s: s + 1, 0.0)) == 3


def test_bounds_that_do_not_fit_are_refused():
    with pytest.raises(OverflowError, match="does not fit"):
        lax.fori_loop(0, 10**14, lambda i, s: s, 0)
    with pytest.raises(TypeError, match="equal types"):
        lax.fori_loop(np.int16(0), np.int32(3), lambda i, s: s, 0)
    with pytest.raises(TypeError, match="scalars"):
        lax.fori_loop(0, pnp.ones(2, int), lambda i, s: s, 0)


@pytest.mark.parametrize("batch_size", [None, 0, 1, 2, 5, 8])
def test_mapping_in_blocks_equals_mapping_one_by_one(batch_size):
    found = lax.map(lambda t: {"y": t[0] ** 2 + t[1]}, (XS, 2 * XS), batch_size=batch_size)
    np.testing.assert_allclose(found["y"], XS**2 + 2 * XS, rtol=1e-6)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_all_prefixes_are_combined(size, reverse):
    x = np.random.default_rng(0).standard_normal((2, size)).astype(np.float32)
    found = lax.associative_scan(
        lambda a, b: {"s": a["s"] + b["s"], "m": pnp.maximum(a["m"], b["m"])}, {"s": x, "m": x}, reverse, 1
    )
    flip = (slice(None), slice(None, None, -1 if reverse else 1))
    np.testing.assert_allclose(found["s"], np.cumsum(x[flip], 1)[flip], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["m"], np.maximum.accumulate(x[flip], 1)[flip])


def test_without_jit_loops_are_python_loops():
    seen = []
    with purax.disable_jit():
        last, rows = lax.scan(lambda c, x: (seen.append(float(x)), (c + x, c))[1], 0.0, XS)
        assert len(seen) == 5 and np.allclose(last, XS.sum()) and rows.shape == (5,)
        assert float(lax.while_loop(lambda s: s < 5, lambda s: s * 2, 1.0)) == 8
        assert float(lax.fori_loop(0, 3, lambda i, s: s + i, 0.0)) == 3


# --- rows


def _stencil(u):
    return pnp.roll(u, 1, 0) + pnp.roll(u, -1, 1) - 2 * u


@pytest.mark.xla
@pytest.mark.parametrize("reverse", [False, True])
def test_rows_of_which_several_parts_are_used_are_read_apart(reverse):
    xs = np.random.default_rng(0).standard_normal((5, 6, 7)).astype(np.float32)

    def run(body, xs):
        return lax.scan(lambda c, x: (c + body(x), (c * x).sum()), pnp.zeros((6, 7)), xs, reverse=reverse)

    for body, apart in (
        (_stencil, True),
        (lambda u: pnp.sin(u) * 2, False),
        (lambda u: pnp.pad(pnp.tanh(u)[1:] - u[:-1], ((0, 1), (0, 0))), True),
        (lambda u: (u @ u.T) @ u, False),
        (purax.jit(_stencil), True),
        (lambda u: lax.optimization_barrier(u)[:, ::-1][:, :1], False),
    ):
        program = purax.jit(lambda xs, body=body: run(body, xs)).lower(xs)
        assert ('inlineable = "false"' in program.as_text()) == apart
        with purax.disable_jit():
            want = run(body, xs)
        for got, exact in zip(program.compile()(xs), want, strict=True):
            np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-5)


def test_the_gradient_through_checkpointed_stencils():
    xs = np.random.default_rng(0).standard_normal((4, 6, 9)).astype(np.float32)

    def loss(step, xs):
        return (lax.scan(lambda c, x: (step(c, x), None), pnp.ones((6, 9)), xs)[0] ** 2).sum()

    step = lambda c, x: c * 0.5 + _stencil(pnp.sin(c) * x)
    found = purax.jit(purax.grad(lambda xs: loss(purax.checkpoint(step), xs)))(xs)
    np.testing.assert_allclose(found, purax.grad(lambda xs: loss(step, xs))(xs), rtol=1e-3, atol=1e-4)


# --- memory


@pytest.mark.xla
@pytest.mark.parametrize(
    "loop",
    [
        lambda a: lax.fori_loop(0, 999, lambda i, a: a.at[i + 1].add(a[i]), a),
        lambda a: lax.scan(lambda a, i: (a.at[i].set(0.5), i * 2), a, pnp.arange(1000)),
        lambda a: lax.while_loop(lambda s: s[0] < 999, lambda s: (s[0] + 1, s[1].at[s[0]].mul(2.0)), (0, a)),
        lambda a: lax.fori_loop(
            0, 999, lambda i, a: lax.cond(i % 2 == 0, lambda a: a.at[i].set(1.0), lambda a: a, a), a
        ),
    ],
    ids=["fori", "scan", "while", "cond"],
)
def test_updates_in_a_loop_are_made_in_place(loop):
    compiled = purax.jit(loop, donate_argnums=0).lower(pnp.zeros(1000)).compile()
    copies = [
        line for line in compiled.as_text().splitlines() if " copy(" in line and "[1000]" in line.split(" copy(")[0]
    ]
    assert copies == []


def test_a_negative_number_of_steps_is_refused():
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        lax.scan(lambda c, x: (c, x), 0.0, None, length=-1)
