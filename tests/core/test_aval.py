# SPDX-License-Identifier: Apache-2.0
"""Types of values: one object per type, and what stands for an array without being one."""

import copy
import pickle

import numpy as np
import pytest

import purax
from purax import errors
from purax import numpy as pnp
from purax.core.aval import ShapedArray, array_aval
from purax.core.trace import aval_of


def test_there_is_one_object_per_type():
    aval = array_aval((2, 3), np.dtype(np.float32))
    assert ShapedArray((2, np.int64(3)), "float32") is aval
    assert aval.update(weak_type=True) is not aval and aval.update(weak_type=True).strip_weak() is aval
    assert pickle.loads(pickle.dumps(aval)) is aval and copy.deepcopy(aval) is aval
    assert aval.with_varying(frozenset({"i"})) is not aval


def test_a_type_tells_its_size_and_text():
    aval = array_aval((2, 3), np.dtype(np.float32))
    assert (aval.ndim, aval.size, len(aval)) == (2, 6, 2)
    assert aval.str_short() == "float32[2,3]" and aval.str_short(short_dtypes=True) == "f32[2,3]"
    assert aval.hlo == "tensor<2x3xf32>" and bool(array_aval((0,), np.dtype(np.int8)))
    with pytest.raises(TypeError):
        len(array_aval((), np.dtype(np.int8)))


def test_python_scalars_are_weak_and_numpy_values_narrow():
    assert aval_of(1.5) is array_aval((), np.dtype(np.float32), True)
    assert aval_of(True) is array_aval((), np.dtype(bool))
    assert aval_of(np.float64(1)) is array_aval((), np.dtype(np.float32))
    assert aval_of(np.zeros(2, np.int64)) is array_aval((2,), np.dtype(np.int32))
    with purax.enable_x64(True):
        assert aval_of(1.5).dtype == np.float64 and aval_of(np.zeros(2, np.int64)).dtype == np.int64


@pytest.mark.parametrize("value", ["text", object(), np.array("text"), np.array([object()]), None])
def test_what_is_no_array_is_refused(value):
    with pytest.raises(errors.NonArrayArgumentError):
        aval_of(value)


def test_masked_arrays_are_refused():
    with pytest.raises(ValueError, match="masked array of shape"):
        purax.jit(lambda x: x)(np.ma.array([1, 2], mask=[True, False]))


def test_objects_that_convert_to_arrays_are_taken():
    class Wrapped:
        def __purax_array__(self):
            return pnp.arange(3.0)

    np.testing.assert_array_equal(purax.jit(lambda x: x + 1)(Wrapped()), [1, 2, 3])


def test_a_struct_stands_for_an_array():
    struct = purax.ShapeDtypeStruct((2, 3), "float32")
    assert struct == purax.ShapeDtypeStruct((2, 3), np.float32) and hash(struct) == hash(struct.update())
    assert (struct.ndim, struct.size, len(struct)) == (2, 6, 2)
    out = purax.eval_shape(lambda x: {"a": x.sum(0), "b": x[0, 0] > 0}, struct)
    assert out == {"a": purax.ShapeDtypeStruct((3,), np.float32), "b": purax.ShapeDtypeStruct((), bool)}
    assert "float32" in repr(struct)


def test_the_tangents_of_integers_take_part_in_nothing():
    zeros = purax.grad(lambda x: x * 1.0, allow_int=True)(3)
    assert zeros.dtype == purax.float0
    with pytest.raises(TypeError, match="by design"):
        purax.lax.neg(zeros)


def test_a_type_is_no_array():
    struct = purax.ShapeDtypeStruct((2,), np.float32)
    for use in (purax.jit(lambda x: x), pnp.sin, np.asarray, purax.grad(lambda x: x.sum())):
        with pytest.raises(errors.NonArrayArgumentError, match="eval_shape"):
            use(struct)
