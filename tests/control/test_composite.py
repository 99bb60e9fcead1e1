# SPDX-License-Identifier: Apache-2.0
"""Functions that are one named operation of the program."""

import functools

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import errors, lax
from purax import numpy as pnp
from purax.lowering.emit import attribute


@functools.partial(lax.composite, name="my.scaled", version=2)
def scaled(x, y, *, factor, **_):
    return {"sum": (x + y) * factor, "difference": x - y}


def test_the_operation_computes_its_decomposition():
    x, y = np.arange(3.0, dtype=np.float32), np.float32(2)
    for call in (scaled, purax.jit(scaled, static_argnames="factor")):
        out = call(x, y, factor=3)
        np.testing.assert_array_equal(out["sum"], (x + y) * 3)
        np.testing.assert_array_equal(out["difference"], x - y)
    mapped = purax.vmap(lambda x: scaled(x, y, factor=3))(x)
    np.testing.assert_array_equal(mapped["sum"], (x + y) * 3)
    assert float(lax.composite(lambda: pnp.array(1.0), "my.one")()) == 1


def test_the_program_names_operation_version_and_attributes():
    lowered = purax.jit(lambda x: scaled(x, x, factor=3, note='a "b"', left_out=None)).lower(np.float32(1))
    text = lowered.as_text()
    assert (
        'stablehlo.composite "my.scaled" %arg0, %arg0 {composite_attributes = {factor = 3 : i64, note = "a \\"b\\""}'
        in text
    )
    assert "decomposition = @my.scaled, version = 2 : i32}" in text
    assert "func.func private @my.scaled(" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (-3, "-3 : i64"),
        (0.5, "5.000000e-01 : f64"),
        (0.1234567891, f"{0.1234567891:.17e} : f64"),
        (np.zeros((1, 2), np.float32), "dense<0.000000e+00> : tensor<1x2xf32>"),
        (np.inf, "0x7FF0000000000000 : f64"),
        ("a\\b", '"a\\\\b"'),
        (np.float32, "f32"),
        (np.dtype(ml_dtypes.bfloat16), "bf16"),
        ((1, "x"), '[1 : i64, "x"]'),
        (np.array([1, 2], np.int8), "dense<[1, 2]> : tensor<2xi8>"),
        (np.bool_(False), "false"),
    ],
)
def test_attributes_are_written_as_what_they_are(value, text):
    assert attribute(value) == text
    purax.jit(lambda x: lax.composite(lambda x, **_: x, "my.id")(x, a=value)).lower(1.0).compile()


def test_what_is_no_attribute_is_refused():
    with pytest.raises(TypeError, match="no StableHLO attribute"):
        lax.composite(lambda x, **_: x, "my.id")(1.0, a=object())


def test_arrays_from_outside_are_written_into_the_decomposition_and_traced_values_refused():
    scale = pnp.array([0.5, 2.0])

    def fun(x, scale):
        return lax.composite(lambda x: x / scale, "my.scale")(x)

    np.testing.assert_array_equal(purax.jit(lambda x: fun(x, scale))(scale), [1, 1])
    with pytest.raises(errors.UnexpectedTracerError, match="pass them as arguments"):
        purax.jit(fun)(scale, scale)
    with pytest.raises(errors.UnexpectedTracerError, match="attribute 'factor'"):
        purax.jit(lambda x: scaled(x, x, factor=x))(1.0)


def test_its_derivative_is_the_users_to_give():
    square = lax.composite(lax.square, "my.square")
    for derive in (purax.grad(square), lambda x: purax.jvp(square, (x,), (x,))):
        with pytest.raises(ValueError, match="custom_jvp"):
            derive(1.0)
    known = purax.custom_jvp(square)
    known.defjvps(lambda t, y, x: 2 * x * t)
    assert float(purax.grad(known)(3.0)) == 6
