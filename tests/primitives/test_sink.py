# SPDX-License-Identifier: Apache-2.0
"""Uses that keep a computation in the program."""

import numpy as np
import pytest

import purax
from purax import lax
from purax.primitives.sink import dce_sink_p
from tests.laws.sample import Sample

SAMPLES = [Sample(dce_sink_p, (np.ones(3, np.float32),), {"prevent_mlir_dce": False})]


def used(x, **how):
    lax.dce_sink({"a": x + 1, "b": 2}, **how)
    return 2 * x


@pytest.mark.parametrize("prevent", [False, True])
def test_what_is_used_stays(prevent):
    fun = purax.jit(lambda x: used(x, prevent_mlir_dce=prevent))
    assert "dce_sink" in str(purax.make_jaxpr(purax.jit(fun))(1.0))
    assert ("add" in fun.lower(1.0).compile().as_text()) is prevent
    assert float(fun(1.0)) == 2


def test_uses_change_no_result():
    assert float(purax.grad(used)(1.0)) == float(purax.jit(purax.grad(purax.checkpoint(used)))(1.0)) == 2
    np.testing.assert_array_equal(purax.vmap(used)(np.arange(3.0)), [0, 2, 4])
    assert float(lax.scan(lambda c, _: (used(c), None), 1.0, None, length=3)[0]) == 8
