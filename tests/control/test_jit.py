# SPDX-License-Identifier: Apache-2.0
"""`jit`: what is traced and compiled when, static and donated arguments, errors that name arguments."""

import functools
import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest

import purax
from purax import errors, events, lax
from purax import numpy as pnp
from purax.sharding import SingleDeviceSharding


def double(x, factor=2):
    return x * factor


def kinds(seen, kind):
    return [e for e in seen if isinstance(e, kind)]


# --- when functions are traced and compiled


def test_a_function_is_traced_once_per_type():
    traces = []

    @purax.jit
    def fun(x, y):
        traces.append(1)
        return x + y["a"]

    for x in (1.0, pnp.float32(1), pnp.ones(3), np.ones(3, np.float32), pnp.ones(3, np.int32), 2.0):
        fun(x, {"a": 1})
    assert len(traces) == 4  # weak scalar, float32 scalar, float32[3], int32[3]
    fun(1.0, y={"a": 1})
    fun(1.0, {"a": 1.5})
    assert len(traces) == 6


def test_two_jits_of_one_function_share_what_was_traced():
    traces = []

    def fun(x):
        traces.append(1)
        return x

    purax.jit(fun)(2)
    purax.jit(fun)(3)
    purax.jit(fun, static_argnums=0)(3)
    assert len(traces) == 2


def test_a_function_made_anew_compiles_nothing_new(cache_folder):
    def run(scale):
        return purax.jit(lambda x: lax.scan(lambda c, r: (c * r + scale, c), x, pnp.arange(3.0)))(1.0)

    run(1.25)
    with events.listen() as seen:
        run(1.25)
        assert len(kinds(seen, events.Traced)) == 1 and not kinds(seen, events.Compiled)
        run(1.75)
    assert len(kinds(seen, events.Compiled)) == 1


@pytest.mark.parametrize(
    "run",
    [
        lambda f: purax.grad(purax.jit(f))(0.5),
        lambda f: purax.vmap(purax.jit(f))(pnp.arange(3.0)),
        lambda f: lax.cond(True, f, lambda x: x, 2.0),
        lambda f: lax.while_loop(lambda x: x < 1, lambda x: f(x) + 2, 0.0),
        lambda f: purax.grad(purax.checkpoint(f))(0.5),
    ],
)
def test_derived_programs_of_fresh_lambdas_compile_nothing_new(run, cache_folder):
    make = lambda: lambda x: pnp.sin(x) * 1.375
    run(make())
    with events.listen() as seen:
        run(make())
    assert not kinds(seen, events.Compiled) and not [e for e in kinds(seen, events.CacheHit) if e.where == "disk"]


def test_settings_are_part_of_the_key():
    traces = []

    @purax.jit
    def fun(x):
        traces.append(1)
        return x + x

    x = pnp.ones((2, 2))
    fun(x)
    with purax.numpy_rank_promotion("warn"):
        fun(x)
        fun(x)
    fun(x)
    assert len(traces) == 2


def test_a_context_of_one_s_own_is_part_of_the_key():
    context = purax.make_user_context(1)
    fun = purax.jit(lambda x: x * context.value)
    assert float(fun(2.0)) == 2
    with context(5):
        assert float(fun(2.0)) == 10 and context.value == 5
    assert float(fun(2.0)) == 2 and context.get_global() == 1


def test_clearing_forgets_what_was_traced(no_cache):
    traces = []

    @purax.jit
    def fun(x):
        traces.append(1)
        return x * 1.0625

    fun(1.0)
    fun.clear_cache()
    fun(1.0)
    purax.clear_caches()
    with events.listen() as seen:
        fun(1.0)
    assert len(traces) == 3 and len(kinds(seen, events.Compiled)) == 1


def test_what_a_dead_function_captured_is_let_go():
    def call():
        big = pnp.zeros(1000) + 1
        purax.jit(lambda x: x + big)(1.0)
        return weakref.ref(big)

    held = call()
    gc.collect()
    assert held() is None


def test_misses_are_explained():
    def misses(run):
        with events.listen() as seen:
            run()
        return [e for e in kinds(seen, events.CacheMiss) if e.where == "memory"]

    fun = purax.jit(lambda x, y: x, static_argnames="y")
    (first,) = misses(lambda: fun(1.0, y=2))
    assert first.part == "function" and "never seen" in first.new
    (types,) = misses(lambda: fun(pnp.ones(2), y=2))
    assert types.part == "different input types" and "at x, now f32[2]" in types.new
    (structure,) = misses(lambda: fun((1.0,), y=2))
    assert structure.part == "different input pytree"
    (static,) = misses(lambda: fun(1.0, y=3))
    assert static.part == "different static arguments" and "now 3 and before 2" in static.new
    with purax.numpy_rank_promotion("warn"):
        (context,) = misses(lambda: fun(1.0, y=2))
    assert context.part == "different tracing context" and "numpy_rank_promotion: now warn and before" in context.new


def test_a_function_made_on_one_line_again_and_again_is_noticed():
    with events.listen() as seen:
        for _ in range(2):
            purax.jit(lambda x: 2 * x)(3)
    assert "another function defined on the same line" in kinds(seen, events.CacheMiss)[-1].new


def test_tracing_and_running_can_be_forbidden():
    fun = purax.jit(lambda x: x)
    fun(pnp.arange(3))
    with purax.no_tracing():
        fun(pnp.arange(3))
        with pytest.raises(RuntimeError, match="no_tracing"):
            fun(pnp.arange(4))
    with purax.no_execution(), pytest.raises(RuntimeError, match="no_execution"):
        fun(pnp.arange(3))  # which ran before


def test_without_jit_python_runs():
    calls = []
    with purax.disable_jit():
        assert purax.jit(lambda x: (calls.append(x), x > 0 and 1)[1])(3) == 1
    assert calls == [3]
    known = purax.jit(lambda x: (calls.append(x), x + 1)[1])
    for _ in range(2):
        known(pnp.ones(3))
    with purax.disable_jit():  # also of a function that is compiled
        known(pnp.ones(3))
    assert len(calls) == 3


# --- static arguments


def test_static_arguments_are_values_of_the_program():
    fun = purax.jit(lambda n, x, flag: x * n if flag else x, static_argnums=0, static_argnames="flag")
    assert float(fun(3, 2.0, flag=True)) == 6 and float(fun(3, 2.0, flag=False)) == 2
    by_name = purax.jit(double, static_argnames="factor")
    assert float(by_name(2.0, 5)) == 10 and float(by_name(2.0, factor=7)) == 14 and float(by_name(2.0)) == 4
    assert float(purax.jit(lambda *xs: xs[-1] * xs[0], static_argnums=(-1,))(2.0, 1.0, 4)) == 8


def test_equal_static_values_of_other_types_are_told_apart():
    fun = purax.jit(lambda x, n: x + n, static_argnums=1)
    assert fun(pnp.int32(1), 1).dtype == np.int32 and fun(pnp.int32(1), 1.0).dtype == np.float32


def test_static_values_must_be_hashable_and_comparable():
    class Incomparable:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            raise NotImplementedError

    fun = purax.jit(lambda x, n: x, static_argnums=1)
    with pytest.raises(errors.NonHashableStaticArgumentError, match="position 1 of type list"):
        fun(1.0, [2])
    with pytest.raises(ValueError, match="comparable using __eq__"):
        fun(1.0, Incomparable())
        fun(1.0, Incomparable())


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        ({"static_argnums": 5}, ValueError, "only accepts 2 positional"),
        ({"static_argnums": -3}, ValueError, "only accepts 2 positional"),
        ({"static_argnums": "x"}, TypeError, "must be an int"),
        ({"static_argnames": 3}, TypeError, "must be a string"),
        ({"static_argnames": "z"}, ValueError, "invalid argnames"),
        ({"donate_argnames": "z"}, ValueError, "invalid argnames"),
        ({"static_argnums": 0, "donate_argnums": 0}, ValueError, "cannot intersect"),
        ({"static_argnames": "x", "donate_argnums": 0}, ValueError, "cannot intersect"),
    ],
)
def test_arguments_that_do_not_exist_are_refused(options, error, part):
    with pytest.raises(error, match=part):
        purax.jit(double, **options)


def test_positional_only_and_variadic_names_are_no_keywords():
    def fun(a, /, b, c, *args, **kwargs):
        return b

    purax.jit(fun, static_argnames=("b", "anything"))
    for name in ("a", "args"):
        with pytest.raises(ValueError, match="invalid argnames"):
            purax.jit(fun, static_argnames=name)


def test_methods_are_compiled_per_instance():
    class Scaler:
        def __init__(self, factor):
            self.factor = factor

        @purax.jit
        def of_pytree(self, x):
            return x

        from functools import partial

        @partial(purax.jit, static_argnums=0)
        def scale(self, x):
            return x * self.factor

    assert float(Scaler(2).scale(3.0)) == 6 and float(Scaler(5).scale(3.0)) == 15
    with pytest.raises(TypeError, match="argument self"):
        Scaler(2).of_pytree(3.0)


# --- donation


def test_donated_arrays_are_gone():
    x, y = pnp.arange(4.0) + 1, pnp.arange(4.0) + 2
    out = purax.jit(lambda x, y: x + y, donate_argnums=0)(x, y)
    np.testing.assert_array_equal(out, 2 * np.arange(4) + 3)
    assert x.is_deleted() and not y.is_deleted()
    with pytest.raises(errors.DeletedArrayError):
        x + 1
    z = pnp.arange(4.0) + 1
    purax.jit(lambda x, *, z: x + z, donate_argnames="z")(1.0, z=z)
    assert z.is_deleted()


def test_donation_that_helps_nothing_is_told_once():
    fun = purax.jit(lambda x, y: x.sum() + y.astype(float).sum(), donate_argnums=(0, 1))
    with pytest.warns(UserWarning, match="Some donated buffers were not usable"):
        fun(pnp.ones(2) + 1, pnp.arange(3) + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fun(pnp.ones(2) + 1, pnp.arange(3) + 1)


def test_inside_another_program_nothing_is_donated():
    inner = purax.jit(lambda x: x * 2.0, donate_argnums=0)
    x = pnp.ones(3) + 1
    np.testing.assert_array_equal(purax.jit(lambda x: inner(x) + x)(x), [6, 6, 6])
    np.testing.assert_array_equal(purax.grad(lambda x: inner(x).sum())(x), [2, 2, 2])
    assert not x.is_deleted()


# --- what is and is not a function


def test_what_cannot_be_compiled_is_refused():
    def generator(x):
        yield x

    for thing, part in [
        (3, "callable value"),
        (generator, "generator function"),
        (staticmethod(double), "staticmethod"),
    ]:
        with pytest.raises(TypeError, match=part):
            purax.jit(thing)
    with pytest.raises(TypeError, match="callable value"):
        purax.jit(static_argnums=0)(classmethod(double))


def test_arguments_and_outputs_that_are_no_arrays_are_named():
    with pytest.raises(errors.NonArrayArgumentError, match=r"argument params\['name'\] is 'n'"):
        purax.jit(lambda params: 1.0)({"name": "n"})
    with pytest.raises(TypeError, match=r"output\['b'\]"):
        purax.jit(lambda x: {"a": x, "b": "text"})(1.0)


def test_a_jitted_function_looks_like_its_function_and_can_be_pickled():
    fun = purax.jit(double, static_argnums=1)
    assert fun.__name__ == "double" and fun.__wrapped__ is double and "PjitFunction of <function double" in repr(fun)
    assert float(pickle.loads(pickle.dumps(fun))(2.0, 3)) == 6


def test_integers_without_tangent_pass_through():
    zeros = np.zeros((2,), purax.float0)
    out = purax.jit(lambda z, x: (x, {"z": z}))(zeros, 1.0)
    assert out[1]["z"].dtype == purax.float0 and float(out[0]) == 1
    assert (
        purax.jit(purax.grad(lambda x, i: x[i], argnums=(0, 1), allow_int=True))(pnp.ones(2), 1)[1].dtype
        == purax.float0
    )


def test_options_reach_the_compiler():
    fun = purax.jit(lambda x, y: x * y, compiler_options={"xla_cpu_enable_fast_math": False})
    assert [float(fun(2.0, y)) for y in (3.0, 4.0, pnp.float32(5), pnp.float32(6))] == [6, 8, 10, 12]
    assert float(purax.jit(lambda x: x + 1, compiler_options={"optimization_level": 1})(1.0)) == 2
    with pytest.raises(errors.JaxRuntimeError, match="no_such_flag"):
        purax.jit(lambda x: x, compiler_options={"no_such_flag": True})(1.0)


def test_types_of_outputs_say_where_they_were_asked_to_lie():
    sharding = SingleDeviceSharding(purax.devices()[0])
    fun = purax.jit(lambda x: (x, np.zeros(2, purax.float0), {"y": x}), out_shardings=(sharding, None, None))
    first, zeros, rest = fun.eval_shape(np.arange(3))
    assert first.sharding == sharding == fun.lower(np.arange(3)).out_info[0].sharding
    assert zeros.dtype == purax.float0 and rest["y"].sharding is None
    assert purax.jit(lambda x: x).eval_shape(np.arange(3)).sharding is None


def test_types_of_outputs_and_a_call_share_one_trace():
    traces = []

    def fun(x):
        traces.append(1)
        return x

    purax.eval_shape(fun, pnp.ones(3))
    purax.make_jaxpr(fun)(pnp.ones(3))
    purax.jit(fun)(pnp.ones(3))
    assert len(traces) == 1


def test_inlined_functions_leave_no_call():
    fun = purax.jit(lambda x: pnp.sin(x) * 2.0, inline=True)
    assert "jit" not in str(purax.make_jaxpr(lambda x: fun(x) + 1.0)(1.0))
    assert "jit" in str(purax.make_jaxpr(lambda x: purax.jit(lambda v: pnp.sin(v) * 2.0)(x) + 1.0)(1.0))
    np.testing.assert_allclose(purax.grad(fun)(0.5), 2 * np.cos(0.5), rtol=1e-6)


def test_python_scalars_keep_type_and_sign_from_call_to_call():
    inverse = purax.jit(lambda x: 1 / x)
    for _ in range(2):
        assert [float(inverse(x)) for x in (0.0, -0.0, 2.0, 2, True)] == [np.inf, -np.inf, 0.5, 0.5, 1.0]
        assert np.isnan(inverse(np.nan))
    same = purax.jit(lambda x: x)
    first, second = same(7), same(7)
    first.delete()
    assert int(second) == int(same(7)) == 7
    with purax.enable_x64(True):
        assert same(7.5).dtype == np.float64
    assert same(7.5).dtype == np.float32


def test_a_wrapper_that_copies_a_jitted_function_is_its_own():
    inner = purax.jit(lambda x: x + 1)
    outer = purax.jit(functools.wraps(inner)(lambda x: inner(x) * 10))
    assert outer(1.0) == 20


# --- arguments that are not needed


def test_what_is_not_needed_is_not_put():
    seen = []
    function = purax.jit(lambda x, unused, y: x * y["a"])
    expected = np.full(3, 6, np.float32)
    for kind in (np.asarray, pnp.asarray):
        x, unused, y = (kind(np.full(n, v, np.float32)) for n, v in ((3, 2), (5000, 0), (3, 3)))
        for _ in range(3):
            with events.listen(seen.append):
                np.testing.assert_array_equal(function(x, unused, {"a": y, "b": unused}), expected)
    assert not [e for e in kinds(seen, events.Transferred) if e.bytes == 20000]
    assert len(kinds(seen, events.Traced)) == 1


def test_arguments_that_are_not_needed_may_lie_anywhere_and_be_deleted():
    function = purax.jit(lambda x, y: x + 1)
    gone = pnp.ones(3)
    gone.delete()
    far = purax.device_put(np.ones(3, np.float32), purax.devices()[-1])
    near = purax.device_put(np.ones(3, np.float32), purax.devices()[0])
    for other in (gone, far):
        for x in (pnp.ones(3), near, 1.0):
            for _ in range(2):
                np.testing.assert_array_equal(function(x, other), np.ones(np.shape(x)) + 1)
    with pytest.raises(ValueError, match="incompatible devices"):
        purax.jit(lambda x, y: x + 1, keep_unused=True)(near, far)


def test_a_donated_argument_that_is_not_needed_stays():
    function = purax.jit(lambda x, y: x * 2, donate_argnums=(0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, y = pnp.ones(3), pnp.ones(4)
        np.testing.assert_array_equal(function(x, y), [2, 2, 2])
    assert x.is_deleted() and not y.is_deleted()


def test_one_function_may_need_all_for_some_types_and_less_for_others():
    table = pnp.arange(3.0)

    @purax.jit
    def function(x, y=0.0):
        return x + table if np.ndim(x) else x + y

    for _ in range(3):
        assert function(1.0, 2.0) == 3 and function(1.0, y=2.0) == 3
        np.testing.assert_array_equal(function(np.ones(3, np.float32), 5.0), [1, 2, 3])
        np.testing.assert_array_equal(function(pnp.ones(3), y=np.ones(7)), [1, 2, 3])
    np.testing.assert_array_equal(purax.vmap(function)(pnp.ones((2, 3)), pnp.ones(2)), [[1, 2, 3]] * 2)
    assert purax.grad(lambda x: function(x, x).sum())(pnp.ones(3)).shape == (3,)


def test_references_that_are_only_written_need_not_be_read():
    ref = purax.new_ref(pnp.zeros(2))

    @purax.jit
    def write(x, unused):
        ref[...] = x
        return unused * 0 + 1

    for value in (1.0, 2.0):
        assert write(pnp.full(2, value), 3.0) == 1
        np.testing.assert_array_equal(ref[...], [value, value])
