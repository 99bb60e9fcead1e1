# SPDX-License-Identifier: Apache-2.0
"""Evaluation of single operations: on the host or compiled, with the same bits; and compilation remembered by text."""

import numpy as np
import pytest

import purax
from purax import config, errors, events
from purax import numpy as pnp
from purax.pipeline.evaluate import as_array


def count(seen, kind):
    return sum(isinstance(e, kind) for e in seen)


def test_small_exact_operations_compile_nothing():
    x = pnp.arange(5, dtype=np.float32) + 1
    with events.listen() as seen:
        result = (pnp.maximum(x * 3 - x, 4.0) + 1.0)[::-1].reshape(5, 1)
    np.testing.assert_array_equal(result[:, 0], [11, 9, 7, 5, 5])
    assert not count(seen, events.Lowered)


@pytest.mark.parametrize("size", [7, 5000])
def test_host_and_device_give_the_same_bits(size):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, size)).astype(np.float32)
    eager = (pnp.asarray(x) * y + x / y, pnp.maximum(x, -y), pnp.floor(x))
    compiled = purax.jit(lambda x, y: (x * y, x / y, pnp.maximum(x, -y), pnp.floor(x)))(x, y)
    np.testing.assert_array_equal(eager[1], compiled[2])
    np.testing.assert_array_equal(eager[2], compiled[3])
    np.testing.assert_array_equal(pnp.asarray(x) * y, compiled[0])
    np.testing.assert_array_equal(pnp.asarray(x) / y, compiled[1])


def test_operations_are_compiled_once_per_type():
    run = lambda n: pnp.exp(pnp.zeros(n) + 0.125)
    run(9001)
    with events.listen() as seen:
        run(9001)
    assert not count(seen, events.Compiled) and not count(seen, events.Lowered)


def test_equal_texts_share_one_executable(cache_folder):
    with events.listen() as seen:
        purax.jit(lambda x: x * 1.001953125)(1.0)
        purax.jit(lambda y: y * 1.001953125, inline=True)(1.0)
    assert count(seen, events.Compiled) == 1


@pytest.mark.parametrize(("setting", "value", "word"), [("debug_nans", -1.0, "nan"), ("debug_infs", 0.0, "inf")])
def test_results_that_are_not_finite_raise_where_they_arise(setting, value, word):
    x = pnp.float32(value)
    config.update(setting, True)
    with pytest.raises(errors.NonFiniteError, match=f"{word}.*test_evaluate.py"):
        pnp.log(x)
    with pytest.raises(errors.NonFiniteError):
        purax.jit(pnp.log)(x)
    assert float(pnp.sin(x)) == pytest.approx(np.sin(value), abs=1e-6)


def test_what_becomes_an_array():
    assert as_array(1.5).weak_type and as_array(np.float32(2)).dtype == np.float32
    with pytest.raises(errors.NonArrayArgumentError):
        as_array("text")


def test_parameters_without_a_hash_are_named():
    from purax.primitives import shape

    with pytest.raises(errors.NonHashableStaticArgumentError, match="new_sizes"):
        shape.reshape_p.bind(pnp.ones(4), new_sizes=[2, 2])
