# SPDX-License-Identifier: Apache-2.0
import ml_dtypes
import numpy as np
import pytest

import purax
from purax import errors, jit
from purax import numpy as pnp
from purax.sharding import NamedSharding, P

V = np.arange(1, 6, dtype=np.float32)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("zeros", ((2, 3),)), ("ones", (3,)), ("full", ((2,), 3)), ("arange", (5,)), ("arange", (1, 7, 2)), ("arange", (0, 1, 0.1)),
        ("arange", (5, 0, -2)), ("linspace", (0, 1, 7)), ("linspace", (0, 1, 7, False)), ("linspace", (V, 2 * V, 3)),
        ("logspace", (0, 3, 5)), ("geomspace", (1, 1000, 4)), ("geomspace", (-1, -1000, 4)), ("eye", (3, 4, 1)), ("identity", (3,)),
        ("tri", (3, 4, 1)), ("indices", ((2, 3),)), ("tril_indices", (3,)), ("triu_indices", (3, 1)), ("vander", (V, 3)),
        ("meshgrid", (V, V[:3])), ("bartlett", (7,)), ("blackman", (7,)), ("hamming", (7,)), ("hanning", (7,)), ("kaiser", (7, 3.0)),
        ("diag", (V, -2)), ("diagflat", (V,)), ("full_like", (V, 3)), ("zeros_like", (V,)),
    ],
)  # fmt: skip
def test_created_arrays_equal_those_of_numpy(name, arguments):
    want, got = getattr(np, name)(*arguments), getattr(pnp, name)(*arguments)
    for a, b in zip(
        want if isinstance(want, (list, tuple)) else [want],
        got if isinstance(got, (list, tuple)) else [got],
        strict=True,
    ):
        assert a.dtype.kind == b.dtype.kind
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)


def test_python_scalars_are_weak_and_lists_are_not():
    assert pnp.array(1).weak_type
    assert not pnp.array([1]).weak_type
    assert pnp.array([1, 2.0]).dtype == np.float32
    assert pnp.array([True, 2]).dtype == np.int32
    assert pnp.array([np.float16(1), 2]).dtype == np.float16
    assert pnp.array([]).shape == (0,)


def test_sequences_may_hold_arrays_and_traced_values():
    assert pnp.array([[pnp.arange(2)], [pnp.ones(2)]]).shape == (2, 1, 2)
    assert jit(lambda x: pnp.array([x, x + 1, 2.5]))(1).tolist() == [1, 2, 2.5]


@pytest.mark.parametrize(
    ("value", "error"),
    [(None, ValueError), ([1, None], ValueError), ("text", TypeError), ({1}, TypeError), ([[1], [1, 2]], ValueError)],
)
def test_what_makes_no_array_is_refused(value, error):
    with pytest.raises(error):
        pnp.array(value)


def test_integers_that_do_not_fit_raise():
    for make in (
        lambda: pnp.array(2**40),
        lambda: pnp.array([2**40]),
        lambda: pnp.array(-1, "uint8"),
        lambda: pnp.int8(300),
    ):
        with pytest.raises(OverflowError):
            make()
    with pytest.raises(ValueError, match="NaN"):
        pnp.array(np.nan, "int32")


def test_later_writes_into_a_numpy_array_do_not_show():
    for size in (10, 10**5):
        source = np.zeros(size, np.float32)
        kept = pnp.asarray(source)
        source[:] = 1
        assert float(kept.sum()) == 0


def test_shapes_must_be_known_and_sensible():
    with pytest.raises(errors.TracerIntegerConversionError):
        jit(pnp.zeros)(3)
    with pytest.raises(errors.ConcretizationTypeError):
        jit(pnp.arange)(3)
    with pytest.raises(TypeError):
        pnp.zeros(-1)
    with pytest.raises(ValueError, match="non-negative"):
        pnp.linspace(0, 1, -1)


def test_large_ranges_of_small_integers_are_checked():
    with pytest.raises(OverflowError):
        pnp.arange(300, dtype="int8")
    assert pnp.arange(-100, 101, 200, dtype="int8").tolist() == [-100, 100]


def test_dtype_names_make_arrays_and_stand_for_dtypes():
    assert pnp.float32(1).dtype == np.float32
    assert pnp.bfloat16([1, 2]).dtype == ml_dtypes.bfloat16
    assert np.dtype(pnp.float16) == np.float16
    assert pnp.float32 == np.float32
    assert hash(pnp.float32) == hash(np.float32)
    assert isinstance(np.float32(1), pnp.float32)
    assert pnp.issubdtype(pnp.bfloat16, pnp.floating)
    assert pnp.zeros(1, pnp.float_).dtype == np.float32
    assert pnp.finfo(pnp.bfloat16).bits == 16


def test_index_notation_makes_arrays():
    for text in ("mgrid[0:2, 0:3]", "mgrid[0:1:5j]", "mgrid[0:2, 0:1:.5]", "r_[1:3, 0, 3]", "r_['0,2', 1:3, 0:2]", "c_[1:3, 0:2]",
                 "c_['1,2,0', [1, 2, 3], [4, 5, 6]]", "r_['0,4,-1', 1:3, 0:2]"):  # fmt: skip
        want, got = eval(f"np.{text}", {"np": np}), eval(f"np.{text}", {"np": pnp})
        np.testing.assert_allclose(np.asarray(want), got, rtol=1e-6)
    assert pnp.s_[1:3, ...] == (slice(1, 3), Ellipsis)


def test_functions_of_indices():
    np.testing.assert_array_equal(
        pnp.fromfunction(lambda i, j: i + 2 * j, (2, 3)), np.fromfunction(lambda i, j: i + 2 * j, (2, 3))
    )


def test_buffers_are_read_in_their_own_dtype():
    assert pnp.frombuffer(b"\x01\x02", "uint8").tolist() == [1, 2]
    assert pnp.frombuffer(np.ones(2).tobytes()).tolist() == [1, 1]


def test_diagonals_are_filled_around_tall_matrices():
    for wrap in (False, True):
        want = np.zeros((7, 3), np.float32)
        np.fill_diagonal(want, [1, 2], wrap=wrap)
        np.testing.assert_array_equal(
            pnp.fill_diagonal(pnp.zeros((7, 3)), pnp.array([1, 2]), wrap=wrap, inplace=False), want
        )


def test_arrays_like_one_that_was_put_somewhere_lie_there_too():
    mesh = purax.make_mesh((4, 2), ("x", "y"))
    array = purax.device_put(np.ones((8, 2), np.float32), NamedSharding(mesh, P("x", "y")))
    for like in (pnp.zeros_like(array), pnp.ones_like(array, int), pnp.full_like(array, 3)):
        assert like.sharding == array.sharding and like.committed
    assert pnp.zeros_like(array, shape=(3,)).sharding.num_devices == 1
    assert pnp.zeros_like(array, device=purax.devices()[1]).devices() == {purax.devices()[1]}
    assert not pnp.zeros_like(pnp.ones(3)).committed
