# SPDX-License-Identifier: Apache-2.0
"""Traced values: what they refuse, how they are found when they escape, and who may use them."""

import pickle
import threading

import numpy as np
import pytest

import purax
from purax import errors, lax
from purax import numpy as pnp


def test_a_truth_value_that_is_not_known_names_the_argument_and_the_line():
    @purax.jit
    def decide(params):
        if params["w"] > 0:  # the line
            return 1.0
        return 2.0

    with pytest.raises(errors.TracerBoolConversionError) as caught:
        decide({"w": 1.0})
    text = str(caught.value)
    assert "test_trace.py" in text and "(decide)" in text


def test_the_message_names_the_argument_path():
    with pytest.raises(errors.TracerIntegerConversionError, match=r"argument params\['n'\] of jit\(count\)"):

        @purax.jit
        def count(params):
            return range(params["n"])

        count({"n": 3})


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (bool, errors.TracerBoolConversionError),
        (int, errors.ConcretizationTypeError),
        (float, errors.ConcretizationTypeError),
        (np.asarray, errors.TracerArrayConversionError),
        (lambda x: [1, 2][x], errors.TracerIntegerConversionError),
        (lambda x: x.item(), errors.ConcretizationTypeError),
        (lambda x: x.tolist(), errors.ConcretizationTypeError),
        (lambda x: x.tobytes(), errors.ConcretizationTypeError),
        (pickle.dumps, errors.ConcretizationTypeError),
        (hash, TypeError),
    ],
)
def test_values_that_are_not_known_convert_to_nothing(use, error):
    with pytest.raises(error):
        purax.jit(lambda x: use(x))(1)


@pytest.mark.parametrize("value", [np.zeros(0), np.zeros(3)])
def test_the_truth_of_several_elements_is_ambiguous_traced_too(value):
    with pytest.raises(ValueError, match="ambiguous"):
        purax.jit(bool)(value)
    with pytest.raises(TypeError, match="Only scalar arrays"):
        purax.jit(float)(value)


def test_known_values_inside_eager_derivatives_decide():
    def branch(x):
        return x**2 if x > 0 else -x

    assert float(purax.grad(branch)(3.0)) == 6 and float(purax.grad(branch)(-3.0)) == -1
    assert purax.jvp(branch, (3.0,), (1.0,))[1] == 6


# --- escapes


def test_a_value_kept_in_a_list_is_found_when_it_is_used():
    kept = []

    @purax.jit
    def careless(x):
        kept.append(x * 2)
        return x

    careless(1.0)
    with pytest.raises(errors.UnexpectedTracerError) as caught:
        kept[0] + 1
    text = str(caught.value)
    assert "escaped from the jit of careless" in text and "return it from the transformed function" in text


@pytest.mark.parametrize("transform", [purax.grad, lambda f: lambda x: purax.vmap(f)(pnp.ones(2) * x), purax.jit])
def test_values_of_ended_transformations_are_refused(transform):
    kept = []
    transform(lambda x: (kept.append(x), x * 1.0)[1])(2.0)
    with pytest.raises(errors.UnexpectedTracerError):
        lax.sin(kept[0])
    with pytest.raises(errors.UnexpectedTracerError):
        purax.jit(lambda y: y + kept[0])(1.0)


def test_a_value_used_in_another_thread_is_named_as_such():
    found = []

    def use(x):
        try:
            x + 1
        except errors.UnexpectedTracerError as error:
            found.append(str(error))

    def fun(x):
        thread = threading.Thread(target=use, args=(x,))
        thread.start()
        thread.join()
        return x

    purax.jit(fun)(1.0)
    assert len(found) == 1 and "another thread" in found[0]


# --- leaks


@pytest.mark.parametrize(
    "run",
    [
        lambda f: purax.jit(f)(3.0),
        lambda f: purax.grad(f)(3.0),
        lambda f: purax.jvp(f, (3.0,), (1.0,)),
        lambda f: purax.vmap(f)(pnp.arange(3.0)),
        lambda f: lax.scan(lambda c, x: (f(c) * x, None), 1.0, pnp.arange(3.0)),
        lambda f: lax.cond(True, f, lambda x: x, 2.0),
    ],
)
def test_a_leak_is_found_when_the_transformation_ends(run):
    kept = []

    def leaky(x):
        kept.append(x)
        return x * 1.0

    with purax.check_tracer_leaks(True), pytest.raises(errors.TracerLeakError, match="Leaked trace") as caught:
        run(leaky)
    assert "is referred to by <list" in str(caught.value)


def test_what_leaks_nothing_is_left_alone():
    def fun(x):
        y, pull, extra = purax.vjp(lambda v: (pnp.sin(v) * x, {"kept": v}), x, has_aux=True)
        return lax.scan(lambda c, _: (purax.jit(pnp.cos)(c) * pull(y)[0], c), x, None, length=3), extra

    with purax.check_tracer_leaks(True):
        purax.vmap(fun)(pnp.arange(3.0))
        purax.jit(fun)(1.0)
        purax.value_and_grad(lambda x: (fun(x)[0][0], x), has_aux=True)(1.0)
        purax.hessian(lambda x: pnp.sin(x) ** 2)(1.0)


def test_the_holders_of_a_leaked_value_are_named():
    class Holder:
        pass

    holder = Holder()

    def keep(x):
        holder.found = {"key": [lambda: x]}
        return x

    with purax.check_tracer_leaks(True), pytest.raises(errors.TracerLeakError) as caught:
        purax.vmap(keep)(pnp.arange(3))
    text = str(caught.value)
    assert "which closes over it" in text and "['key']" in text and "<Holder" in text


def test_a_primitive_may_be_evaluated_the_users_way():
    calls, own = [], lax.sin_p.impl
    assert float(own(0.0)) == 0
    lax.sin_p.def_impl(lambda x: calls.append(x) or own(x))
    try:
        assert float(lax.sin(0.5)) == float(own(0.5))
    finally:
        lax.sin_p.def_impl(own)
    lax.sin(0.5)
    assert len(calls) == 1
    assert [x.tolist() for x in lax.top_k_p.impl(np.ones(3, np.float32), k=1, axis=0)] == [[1], [0]]
