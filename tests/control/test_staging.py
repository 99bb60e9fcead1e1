# SPDX-License-Identifier: Apache-2.0
"""Looking at programs and waiting for results."""

import gc

import numpy as np
import pytest

import purax
from purax import config, errors
from purax import numpy as pnp


def test_a_program_of_types_only():
    class Like:
        shape, dtype = (2, 3), np.dtype(np.float32)

    jaxpr, out = purax.make_jaxpr(lambda x, n: {"y": x.sum(n)}, static_argnums=1, return_shape=True)(Like(), 1)
    assert jaxpr.in_avals[0].shape == (2, 3) and out["y"].shape == (2,)
    assert purax.make_jaxpr(pnp.sin).__name__ == "make_jaxpr(sin)"
    with pytest.raises(TypeError, match="callable"):
        purax.make_jaxpr(3)


def test_a_program_may_name_axes():
    jaxpr = purax.make_jaxpr(lambda x: purax.lax.psum(x, "i"), axis_env=[("i", 4)])(1.0)
    assert "psum" in str(jaxpr)


def test_shapes_are_found_without_computing():
    big = purax.ShapeDtypeStruct((10**6, 10**6), np.float32)
    out = purax.eval_shape(lambda x, s: (x @ x, s, None), big, 3.0)
    assert out[0].shape == (10**6, 10**6) and out[1].weak_type and out[2] is None
    assert purax.eval_shape(purax.jit(lambda x: x[0]), big).shape == (10**6,)
    assert purax.typeof(1.0).weak_type and purax.typeof(pnp.ones(3)).str_short() == "float32[3]"


def test_types_that_a_function_returns_are_their_own():
    struct = purax.ShapeDtypeStruct((3,), np.float16)
    assert purax.eval_shape(lambda x: (struct, x), 1.0)[0] == struct
    with pytest.raises(errors.NonArrayArgumentError, match="used as an array"):
        purax.jit(lambda: struct)()


def test_waiting_and_copying_keep_the_structure():
    values = {"a": pnp.arange(3), "b": (1.5, np.ones(2))}
    assert purax.block_until_ready(values) is values and purax.copy_to_host_async(values) is values
    got = purax.device_get(values)
    assert isinstance(got["a"], np.ndarray) and got["b"][0] == 1.5
    put = purax.device_put(values)
    assert isinstance(put["b"][1], purax.Array)


def test_live_arrays_are_found():
    x = pnp.arange(5.0) * 3
    assert any(found is x for found in purax.live_arrays())
    x.delete()
    gc.collect()
    assert not any(found is x for found in purax.live_arrays("cpu"))


def test_named_parts_of_programs_change_nothing():
    with purax.named_scope("part"):
        assert float(pnp.sin(0.0)) == 0
    fun = purax.named_call(lambda x, flag: x if flag else None, name="n")
    assert float(purax.jit(fun, static_argnums=1)(2.0, True)) == 2
    with pytest.raises(TypeError, match="string"), purax.named_scope(3):
        pass


def test_the_environment_can_be_told():
    text = purax.print_environment_info(return_string=True)
    assert "purax" in text and "jaxlib" in text and "device" in text


def test_settings_of_jax_without_meaning_here_are_taken():
    with purax.transfer_guard("disallow"), purax.legacy_prng_key("error"):
        assert config.read("jax_transfer_guard") == "disallow"
        assert float(pnp.sin(0.0)) == 0
    assert config.read("jax_transfer_guard") == "allow"
