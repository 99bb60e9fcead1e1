# SPDX-License-Identifier: Apache-2.0
"""`ffi_call`, by the example of kernels that jaxlib carries anyway."""

import numpy as np
import pytest

import purax
from purax import ShapeDtypeStruct, errors, ffi
from purax import numpy as pnp
from purax.runtime import _jaxlib

RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 3, 3)).astype(np.float32)
SPD = A @ A.swapaxes(-1, -2) + np.eye(3, dtype=np.float32)


@pytest.fixture(scope="module", autouse=True)
def _kernels():
    _jaxlib.ensure_lapack()


def cholesky(x, **options):
    """The lower factor by LAPACK, which reads matrices by columns; what lies above it is left as it was."""
    columns = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    call = ffi.ffi_call(
        "lapack_spotrf_ffi", (x, ShapeDtypeStruct(x.shape[:-2], np.int32)), input_layouts=[columns],
        output_layouts=[columns, tuple(range(x.ndim - 2))], input_output_aliases={0: 0}, **options,
    )  # fmt: skip
    factor, info = call(x, uplo=np.uint8(ord("L")))
    return pnp.tril(factor), info


@pytest.mark.parametrize("run", [lambda f: f, purax.jit])
def test_a_kernel_is_called_with_its_layouts_and_attributes(run):
    factor, info = run(cholesky)(SPD)
    np.testing.assert_allclose(factor, np.linalg.cholesky(SPD), rtol=1e-5)
    assert info.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"]
)
def test_vmap_calls_as_it_is_told(method):
    factor, info = purax.vmap(lambda x: cholesky(x, vmap_method=method))(SPD)
    np.testing.assert_allclose(factor, np.linalg.cholesky(SPD), rtol=1e-5)
    assert info.shape == (4,)


def test_what_vmap_does_with_operands_that_are_not_mapped():
    def shapes(method):
        call = ffi.ffi_call("kernel", ShapeDtypeStruct((2,), np.float32), vmap_method=method)
        lowered = purax.jit(purax.vmap(call, in_axes=(0, None))).lower(np.ones((5, 2), "f4"), np.ones(3, "f4"))
        return lowered.as_text().split("custom_call")[1].splitlines()[0]

    assert shapes("expand_dims").endswith(" : (tensor<5x2xf32>, tensor<1x3xf32>) -> (tensor<5x2xf32>)")
    assert shapes("broadcast_all").endswith(" : (tensor<5x2xf32>, tensor<5x3xf32>) -> (tensor<5x2xf32>)")
    assert shapes("legacy_vectorized").endswith(" : (tensor<5x2xf32>, tensor<3xf32>) -> (tensor<5x2xf32>)")


def test_transformations_without_a_rule_say_so():
    with pytest.raises(errors.KernelError, match="cannot be differentiated"):
        purax.grad(lambda x: cholesky(x)[0].sum())(SPD[0])
    with pytest.raises(errors.KernelError, match="vmap_method"):
        purax.vmap(cholesky)(SPD)
    derived = purax.custom_jvp(lambda x: cholesky(x)[0])
    derived.defjvp(lambda primals, tangents: purax.jvp(pnp.linalg.cholesky, primals, tangents))
    np.testing.assert_allclose(
        purax.grad(lambda x: derived(x).sum())(SPD[0]),
        purax.grad(lambda x: pnp.linalg.cholesky(x).sum())(SPD[0]),
        rtol=1e-4,
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"), (3, "3 : i64"), (0.5, "5.000000e-01 : f64"), ("a\n", '"a\\0A"'), (np.float32(2), "2.000000e+00 : f32"),
        (np.uint8(7), "7 : ui8"), (np.array([1, 2], np.int16), "dense<[1, 2]> : tensor<2xi16>"), ([1, "b"], '[1, "b"]'),
        ({"c": np.int32(4)}, "{c = 4 : i32}"), (np.array(1.0, np.float16), "dense<1.000000e+00> : tensor<f16>"),
    ],
)  # fmt: skip
def test_attributes_have_the_types_of_their_values(value, text):
    call = ffi.ffi_call("kernel", (), has_side_effect=True)
    program = purax.jit(lambda x: call(x, name=value) and x).lower(1.0).as_text()
    assert f"{{name = {text}}}" in str(_jaxlib.parse(program))


def test_a_kernel_with_side_effects_is_kept():
    call = ffi.ffi_call("kernel", (), has_side_effect=True)
    assert "has_side_effect = true" in purax.jit(lambda x: [x, *call(x)][0]).lower(1.0).as_text()


def test_keys_are_handed_over_as_their_words():
    call = ffi.ffi_call("kernel", (), has_side_effect=True)
    assert '"kernel"' in purax.jit(call).lower(purax.random.key(0)).as_text()


def test_64_bits_are_given_by_name():
    assert (
        "tensor<i64>" in purax.jit(lambda: ffi.ffi_call("kernel", ShapeDtypeStruct((), np.int64))()).lower().as_text()
    )


F4 = ShapeDtypeStruct((5,), np.float32)


@pytest.mark.parametrize(
    ("results", "options", "attributes", "message"),
    [
        (None, {}, {}, "position 0"), ((F4, ()), {}, {}, "position 1"), (F4, {"vmap_method": "fast"}, {}, "vmap_method"),
        (F4, {"input_output_aliases": {1: 0}}, {}, "input index 1"), (F4, {"input_output_aliases": {0: 1}}, {}, "output index 1"),
        (ShapeDtypeStruct((5,), np.int32), {"input_output_aliases": {0: 0}}, {}, "types differ"),
        (F4, {"legacy_backend_config": "1"}, {}, "before version 4"), (F4, {"custom_call_api_version": 2}, {"a": 1}, "need version 4"),
        (F4, {"input_layouts": [(1,)]}, {}, "name each axis once"), (F4, {"input_layouts": []}, {}, "0 entries for 1"),
        (F4, {}, {"a": object()}, "an attribute is"),
    ],
)  # fmt: skip
def test_what_cannot_be_called_is_refused(results, options, attributes, message):
    with pytest.raises(ValueError, match=message):
        ffi.ffi_call("kernel", results, **options)(pnp.ones(5), **attributes)
