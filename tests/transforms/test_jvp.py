# SPDX-License-Identifier: Apache-2.0
"""Forward mode."""

import numpy as np
import pytest

import purax
from purax import float0, lax
from purax import numpy as pnp
from purax.core import ir
from purax.transforms.jvp import jvp_jaxpr


def test_a_value_and_its_directional_derivative():
    out, tangent = purax.jvp(lambda x, y: {"p": pnp.sin(x) * y["a"]}, (1.5, {"a": 2.0}), (1.0, {"a": 0.5}))
    np.testing.assert_allclose(out["p"], 2 * np.sin(1.5), rtol=1e-6)
    np.testing.assert_allclose(tangent["p"], 2 * np.cos(1.5) + 0.5 * np.sin(1.5), rtol=1e-6)


def test_outputs_that_do_not_depend_have_zero_tangents():
    out, tangent = purax.jvp(lambda x: (x, pnp.ones(3), 2), (1.0,), (1.0,))
    np.testing.assert_array_equal(tangent[1], np.zeros(3))
    assert tangent[2].dtype == float0 and int(out[2]) == 2


def test_integers_take_float0_tangents():
    _, tangent = purax.jvp(lambda x, n: x * n, (2.0, 3), (1.0, np.zeros((), float0)))
    assert float(tangent) == 3.0


def test_auxiliary_data_are_values():
    out, tangent, aux = purax.jvp(lambda x: (x**2, {"x": x, "name": "n"}), (3.0,), (1.0,), has_aux=True)
    assert (float(out), float(tangent), float(aux["x"]), aux["name"]) == (9.0, 6.0, 3.0, "n")


def test_outputs_are_arrays_with_the_weak_type_of_their_primals():
    out, tangent = purax.jvp(lambda x: x, (1.0,), (2.0,))
    assert isinstance(out, purax.Array) and out.weak_type and tangent.weak_type
    _, tangent = purax.jvp(lambda x: x * 2.0, (1.0,), (pnp.float32(1),))
    assert tangent.weak_type


def test_nested_directions_are_kept_apart():
    # The inner derivative must not see the outer direction: d/dx (x * d/dy (x + y)) = 1.
    inner = lambda x: purax.jvp(lambda y: x + y, (1.0,), (1.0,))[1]
    assert float(purax.jvp(lambda x: x * inner(x), (3.0,), (1.0,))[1]) == 1.0


@pytest.mark.parametrize(
    ("primals", "tangents", "error", "part"),
    [
        ((1.0,), (1,), TypeError, "do not match"),
        ((1,), (1.0,), TypeError, "float0"),
        ((pnp.ones(3),), (pnp.ones(2),), ValueError, "different primal and tangent shapes"),
        ((1.0,), ((1.0,),), TypeError, "same tree structure"),
        (1.0, 1.0, TypeError, "tuples or lists"),
    ],
)
def test_directions_must_be_like_the_primals(primals, tangents, error, part):
    with pytest.raises(error, match=part):
        purax.jvp(lambda x: x, primals, tangents)


def test_the_derivative_of_a_program_is_made_once():
    jaxpr = ir.intern(purax.make_jaxpr(lambda x, y: (x * y, pnp.sin(y)))(1.0, 2.0).jaxpr)
    first, nonzero = jvp_jaxpr(jaxpr, (True, False))
    assert jvp_jaxpr(jaxpr, (True, False))[0] is first and nonzero == (True, False)
    wide, nonzero = jvp_jaxpr(jaxpr, (True, False), (False, True))
    assert nonzero == (True, True) and len(wide.outvars) == 4


def test_forward_mode_goes_through_a_jitted_function():
    fun = purax.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: c * pnp.sin(x), 1.0))
    _, tangent = purax.jvp(fun, (0.7,), (1.0,))
    np.testing.assert_allclose(tangent, 3 * np.sin(0.7) ** 2 * np.cos(0.7), rtol=1e-5)
