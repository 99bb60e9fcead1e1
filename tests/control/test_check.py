# SPDX-License-Identifier: Apache-2.0
"""Checks of values: where they raise, what the exception tells, what leaves them out, what makes them by itself."""

import threading

import numpy as np
import pytest

import purax
import purax.numpy as pnp
from purax import config, errors, lax

eager_and_compiled = pytest.mark.parametrize("transform", [lambda f: f, purax.jit], ids=["eager", "jit"])


def positive(x):
    """Twice a number that must be positive."""
    purax.check(x > 0, "must be positive, got {x:.1f}", x=x)
    return 2 * x


def failure(f, *args):
    """The exception of a failed check."""
    with pytest.raises(errors.CheckError) as caught:
        purax.block_until_ready(f(*args))
    return caught.value


@eager_and_compiled
def test_a_check_that_holds_changes_nothing_and_one_that_fails_raises(transform):
    f = transform(positive)
    assert f(1.0) == 2
    error = failure(f, -1.5)
    assert type(error) is errors.FailedCheckError
    assert "must be positive, got -1.5" in str(error) and "test_check.py" in str(error)
    assert (error.lane, error.steps) == ((), ())
    assert f(2.0) == 4


@eager_and_compiled
def test_vmap_tells_the_first_lane_that_failed(transform):
    assert failure(transform(purax.vmap(positive)), np.array([1.0, 2, -3, -4])).lane == (2,)
    nested = transform(purax.vmap(purax.vmap(positive), in_axes=1))
    assert failure(nested, np.array([[1.0, 2], [3, 4], [5, -6]])).lane == (1, 2)
    np.testing.assert_array_equal(nested(np.ones((3, 2))), np.full((2, 3), 2))


@eager_and_compiled
def test_vmap_over_no_lanes_fails_nowhere(transform):
    assert transform(purax.vmap(positive))(np.zeros((0,))).shape == (0,)


@eager_and_compiled
def test_scan_tells_the_step(transform):
    f = transform(lambda xs: lax.scan(lambda c, x: (c + positive(x), None), 0.0, xs)[0])
    assert f(np.ones(4)) == 8
    error = failure(f, np.array([1.0, 2, -1, -2]))
    assert error.steps == (2,) and "step 2" in str(error) and "got -1.0" in str(error)


@eager_and_compiled
def test_nested_loops_tell_the_steps_outermost_first(transform):
    inner = lambda c, x: (c - positive(x - c), None)
    f = transform(lambda xs: lax.scan(lambda c, row: (lax.scan(inner, c, row)[0], None), 0.0, xs)[0])
    assert failure(f, np.array([[1.0, 1], [1, -90], [1, 1]])).steps == (1, 1)


@eager_and_compiled
def test_the_body_and_the_condition_of_while_tell_the_step(transform):
    def body(c):
        return c[0] + 1, c[1] - positive(c[1]) / 2 - 1

    def condition(c):
        purax.check(c[0] < 7, "condition")
        return c[0] < 9

    f = transform(lambda x: lax.while_loop(condition, body, (0, x)))
    assert failure(f, 0.5).steps == (1,)
    error = failure(transform(lambda: lax.while_loop(condition, lambda c: (c[0] + 1, c[1]), (0, 0.0))))
    assert error.steps == (7,) and "condition" in str(error)
    assert "condition" in str(failure(transform(lambda: lax.while_loop(condition, lambda c: c, (8, 0.0)))))


def test_a_loop_that_would_not_end_after_a_failure_ends():
    f = purax.jit(lambda x: lax.while_loop(lambda x: x != 0, lambda x: (positive(x), x - 2)[1], x))
    assert failure(f, 3.0).steps == (2,)


@eager_and_compiled
def test_only_the_branch_that_runs_is_checked(transform):
    other = lambda x: (purax.check(x < -1, "other {}", x), x)[1]
    f = transform(lambda x: lax.cond(x > 0, lambda x: positive(x - 1), other, x))
    assert f(2.0) == 2 and f(-2.0) == -2
    assert "positive" in str(failure(f, 0.5))
    assert "other -0.5" in str(failure(f, -0.5))


@eager_and_compiled
def test_of_several_checks_the_first_that_fails_is_told(transform):
    def f(x):
        lax.scan(lambda c, y: (c, positive(y)), 0.0, x)
        purax.check(x[0] > 5, "first element {} of {}", x[0], x)
        lax.cond(x[1] > 5, lambda: positive(x[1]), lambda: positive(-x[1]))
        return x

    f = transform(f)
    f(np.array([6.0, 6]))
    assert "positive" in str(failure(f, np.array([1.0, -1])))
    assert "first element 1.0 of [1. 1.]" in str(failure(f, np.array([1.0, 1])))
    assert "got -1.0" in str(failure(f, np.array([6.0, 1])))


def test_derivatives_check_values():
    for derivative in (purax.grad(positive), purax.jit(purax.grad(positive)), purax.grad(purax.jit(positive))):
        assert derivative(1.0) == 2
        assert "got -1.0" in str(failure(derivative, -1.0))
    assert "got -1.0" in str(failure(lambda x: purax.jvp(positive, (x,), (x,)), -1.0))
    scanned = lambda xs: lax.scan(lambda c, x: (c * positive(x), None), 1.0, xs)[0]
    np.testing.assert_allclose(purax.jit(purax.grad(scanned))(np.array([1.0, 2])), [8, 4])
    assert failure(purax.jit(purax.grad(scanned)), np.array([1.0, -2])).steps == (1,)
    assert "got -1.0" in str(failure(purax.jit(purax.grad(purax.checkpoint(positive))), -1.0))


def test_custom_rules_survive_checks():
    @purax.custom_jvp
    def f(x):
        return positive(x)

    f.defjvps(lambda t, _, x: 7 * t)
    assert purax.jit(f)(1.0) == 2
    assert failure(purax.jit(f), -1.0)
    assert purax.jit(purax.grad(f))(1.0) == 7


def test_checks_on_many_devices_raise_without_leaving_devices_waiting():
    devices = purax.devices()[:4]
    f = purax.pmap(lambda x: lax.psum(positive(x), "i"), axis_name="i", devices=devices)
    np.testing.assert_array_equal(f(np.ones(4)), np.full(4, 8.0))
    assert failure(f, np.array([1.0, 2, -3, 4])).lane == (2,)
    mesh = purax.make_mesh((4,), ("x",), devices=devices)
    x = purax.device_put(np.arange(8.0), purax.NamedSharding(mesh, purax.P("x")))
    g = purax.jit(lambda x: (purax.check(pnp.all(x < 8), "sum {}", x.sum()), x + 1)[1])
    assert g(x).sharding.is_equivalent_to(x.sharding, 1)
    assert "sum 36" in str(failure(g, x + 1))


def test_threads_are_told_their_own_failures():
    f = purax.jit(positive)
    found = {}

    def run(i):
        for k in range(20):
            value = float(i + 1) * (-1 if k % 2 else 1)
            try:
                f(value)
                found.setdefault(i, []).append(k % 2 == 0)
            except errors.CheckError as error:
                found.setdefault(i, []).append(k % 2 == 1 and f"got {value}" in str(error))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert all(all(found[i]) and len(found[i]) == 20 for i in range(3))


def test_equal_programs_with_other_messages_are_told_apart():
    first = purax.jit(lambda x: purax.check(x > 0, "first"))
    second = purax.jit(lambda x: purax.check(x > 0, "second"))
    assert "first" in str(failure(first, -1.0)) and "second" in str(failure(second, -1.0))


@eager_and_compiled
def test_checks_can_be_left_out(transform):
    config.update("checks", False)
    f = transform(positive)
    assert f(-1.0) == -2
    assert not purax.make_jaxpr(positive)(1.0).effects
    config.update("checks", True)
    assert failure(f, -1.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: purax.check(x > 0, "all"), TypeError, "scalar pred"),
        (lambda x: purax.check("yes", "all"), TypeError, "scalar pred"),
        (lambda x: purax.check(True, "{}", "text"), TypeError, "Formatting arguments"),
        (lambda x: purax.check(True, "{}"), IndexError, "more fields without a name"),
        (lambda x: purax.check(True, "{x}", y=x), KeyError, "x"),
        (lambda x: purax.check(True, f"{1}", x=x), ValueError, "f-string"),
    ],
)
@eager_and_compiled
def test_mistakes_are_found_where_the_check_is_written(call, error, message, transform):
    with pytest.raises(error, match=message):
        transform(call)(np.ones(2))


def test_a_check_survives_unused_results_and_common_subexpressions():
    f = purax.jit(lambda x: (purax.jit(positive)(x), purax.jit(positive)(x), 0)[2])
    assert f(1.0) == 0 and failure(f, -1.0)


# --- automatic checks


@pytest.fixture
def automatic():
    config.update("automatic_checks", "all")


@eager_and_compiled
@pytest.mark.parametrize(
    ("f", "good", "bad", "kind", "message"),
    [
        (pnp.log, (1.0,), (-1.0,), errors.NanCheckError, "nan generated by primitive: log"),
        (lambda x, y: x / y, (1.0, 2.0), (1.0, np.array([1.0, 0])), errors.DivisionCheckError, "division by zero"),
        (lambda x, i: x[i], (np.ones(3), 2), (np.ones(3), 7), errors.IndexCheckError, "index 7 is out of bounds for axis 0 with size 3"),
        (lambda x, i: x.at[:, i].set(0), (pnp.ones((2, 3)), 2), (pnp.ones((2, 3)), 4), errors.IndexCheckError, "index 4 is out of bounds for axis 1 with size 3"),
        (lambda x, i: lax.dynamic_slice(x, (i,), (2,)), (np.ones(3), 1), (np.ones(3), 2), errors.IndexCheckError, "index 2"),
    ],
)  # fmt: skip
def test_a_setting_makes_checks_by_itself(automatic, transform, f, good, bad, kind, message):
    del automatic
    on_device = lambda args: [pnp.asarray(a) for a in args]
    purax.block_until_ready(transform(f)(*on_device(good)))
    error = failure(transform(f), *on_device(bad))
    assert type(error) is kind and message in str(error)


def test_automatic_checks_reach_loops_derivatives_and_mapped_functions(automatic):
    del automatic
    root = lambda x: lax.scan(lambda c, _: (pnp.sqrt(c) - 1, None), x, None, length=4)[0]
    assert failure(root, 2.0).steps == failure(purax.jit(root), 2.0).steps == (2,)
    assert isinstance(failure(purax.grad(purax.jit(pnp.sqrt)), -1.0), errors.NanCheckError)
    assert failure(purax.vmap(purax.jit(pnp.sqrt)), np.array([1.0, -1])).lane == (1,)
    config.update("automatic_checks", "")
    assert np.isnan(root(2.0)) and np.isnan(purax.jit(root)(2.0)) and np.isnan(pnp.log(-1.0))


def test_kinds_of_automatic_checks_are_chosen_by_name():
    config.update("automatic_checks", "div")
    assert np.isnan(pnp.log(-1.0))
    assert failure(lambda: pnp.ones(2) / pnp.zeros(2))
    with pytest.raises(errors.SettingValueError, match="nan"):
        config.update("automatic_checks", "everything")


# --- bounds of device indices


@eager_and_compiled
def test_debug_bounds_raises_for_indices_on_devices_and_an_explicit_mode_wins(transform):
    config.update("debug_bounds", True)
    x, i = pnp.arange(3.0), pnp.asarray([0, 10])
    for f in (
        lambda i: x[i], lambda i: x.at[i].set(1.0), lambda i: x.at[i].add(1.0), lambda i: pnp.take(x, i),
        lambda i: pnp.take_along_axis(x, i, 0), lambda i: x.at[i].apply(pnp.sin),
    ):  # fmt: skip
        with pytest.raises(IndexError, match="index 10 is out of bounds for axis 0 with size 3"):
            purax.block_until_ready(transform(f)(i))
        purax.block_until_ready(transform(f)(pnp.asarray([-3, 2])))
    np.testing.assert_array_equal(transform(lambda i: x.at[i].get(mode="clip"))(i), [0, 2])
    np.testing.assert_array_equal(transform(lambda i: x.at[i].set(5.0, mode="drop"))(i), [5, 1, 2])
    assert failure(purax.jit(purax.vmap(lambda i: x[i])), i).lane == (1,)


@pytest.mark.parametrize("name", [None, "i"])
def test_checks_in_mapped_branches_and_loops_tell_lane_and_step_and_leave_other_lanes_alone(name):
    def step(x):
        purax.check(x < 5, "got {}", x)
        return x + 1

    loop = purax.vmap(lambda x, end: lax.while_loop(lambda x: x < end, step, x), axis_name=name)
    np.testing.assert_array_equal(loop(np.array([9, 1]), np.array([7, 5])), [9, 5])
    for run in (loop, purax.jit(loop)):
        error = failure(lambda x, run=run: run(x, np.array([7, 5, 7])), np.array([9, 1, 3]))
        assert (error.lane, error.steps) == ((2,), (2,)) and "got 5" in str(error)

    branch = purax.vmap(lambda p, x: lax.cond(p, step, lambda x: x, x), axis_name=name)
    np.testing.assert_array_equal(branch(np.array([False, True]), np.array([9, 1])), [9, 2])
    error = failure(lambda x: purax.jit(branch)(np.array([True, True]), x), np.array([1, 9]))
    assert (error.lane, error.steps) == ((1,), ())


@pytest.mark.parametrize("name", [None, "i"])
def test_prints_and_checks_in_mapped_branches_are_those_of_lanes_that_take_them(name, capsys):
    def taken(x):
        purax.debug.print("in {}", x)
        purax.check(x > 0, "got {}", x)
        return x

    branch = purax.vmap(lambda p, x: lax.cond(p, taken, lambda x: x, x), axis_name=name)
    branch(np.array([False, True]), np.array([-1, 2]))
    assert capsys.readouterr().out == "in 2\n"
    assert failure(lambda x: branch(np.array([False, True]), x), np.array([2, -1])).lane == (1,)


def test_input_and_output_in_a_branch_that_works_across_lanes_is_refused():
    def noted(x):
        purax.experimental.io_callback(lambda: None, None)
        return lax.psum(x, "i")

    with pytest.raises(errors.CallbackBatchingError, match="works across the lanes"):
        purax.vmap(lambda p, x: lax.cond(p, noted, lambda x: x, x), axis_name="i")(np.array([True, False]), np.ones(2))
