# SPDX-License-Identifier: Apache-2.0
import dataclasses
import pickle
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import purax
from purax import config, contexts, dtypes, errors
from purax import numpy as pnp

SCALARS = {"int*": 1, "float*": 1.0, "complex*": 1j}


def tables():
    lines = (Path(__file__).parent / "data" / "promotion.txt").read_text().splitlines()
    names = lines[0].split()[1:]
    for start in range(1, len(lines), len(names) + 1):
        _, mode, bits = lines[start].split()
        yield mode, bits, names, [line.split() for line in lines[start + 1 : start + 1 + len(names)]]


def operand(name):
    return SCALARS[name] if name in SCALARS else dtypes.named(name)


@pytest.mark.parametrize(
    ("mode", "bits", "names", "rows"), list(tables()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_pair_of_dtypes_and_python_scalars_meets_where_jax_says(mode, bits, names, rows):
    with contexts.numpy_dtype_promotion(mode), contexts.enable_x64(bits == "64"):
        for a, row in zip(names, rows, strict=True):
            for b, expected in zip(names, row, strict=True):
                if expected == ".":
                    continue
                if expected == "-":
                    with pytest.raises(errors.TypePromotionError):
                        dtypes.lattice_result_type(operand(a), operand(b))
                    continue
                dtype, weak = dtypes.lattice_result_type(operand(a), operand(b))
                assert str(dtype) + "*" * weak == expected, (a, b)
                assert dtypes.result_type(operand(b), operand(a)) == dtype


def test_numpy_data_narrows_and_dtypes_asked_for_by_name_do_not():
    assert dtypes.result_type(np.float64(1)) == np.float32
    assert dtypes.result_type(np.zeros(3, np.int64)) == np.int32
    assert dtypes.result_type(np.float64) == np.float64
    assert dtypes.named("complex128") == np.complex128
    assert dtypes.narrow(dtypes.complex128) == np.complex64
    assert dtypes.canonicalize_dtype("uint64") == np.uint32
    with contexts.enable_x64(True):
        assert dtypes.result_type(np.float64(1)) == np.float64
        assert dtypes.narrow(dtypes.complex128) == np.complex128


def test_a_64_bit_operand_keeps_its_width_and_mixed_signs_stay_narrow():
    assert dtypes.result_type(dtypes.int64, dtypes.uint32) == np.int64
    assert dtypes.result_type(dtypes.float64, 1.0) == np.float64
    assert dtypes.result_type(dtypes.float64, dtypes.complex64) == np.complex128
    assert dtypes.result_type(dtypes.uint32, dtypes.int32) == np.int32
    assert dtypes.promote_types("uint32", "int32") == np.int64


def test_python_types_are_weak_and_have_default_dtypes():
    assert dtypes.named(float) == np.float32 and dtypes.named(int) == np.int32
    assert dtypes.named(bool) == np.bool_ and dtypes.named(complex) == np.complex64
    assert dtypes.promote_types(int, "int8") == np.int8
    assert dtypes.lattice_result_type(True) == (np.dtype(bool), False)
    assert dtypes.lattice_result_type(True, 1) == (np.dtype(np.int32), True)
    with contexts.enable_x64(True):
        assert dtypes.default_float() == np.float64 and dtypes.default_int() == np.int64
        assert dtypes.default_uint() == np.uint64 and dtypes.default_complex() == np.complex128


def test_values_with_dtype_and_weak_type_are_read_by_attribute():
    @dataclasses.dataclass
    class Value:
        dtype: object
        weak_type: bool

    assert dtypes.lattice_result_type(Value(dtypes.float32, True), dtypes.int8) == (np.dtype(np.float32), True)
    assert dtypes.lattice_result_type(Value(dtypes.float32, False), np.int8(1)) == (np.dtype(np.float32), False)
    assert dtypes.lattice_result_type(Value(dtypes.int32, True), np.int8(1)) == (np.dtype(np.int8), False)
    assert dtypes.is_weak(1) and not dtypes.is_weak(np.float32(1))


def test_more_than_two_operands_meet_at_once():
    assert dtypes.result_type(1, dtypes.int8, 2.0, dtypes.bfloat16) == dtypes.bfloat16
    assert dtypes.result_type(dtypes.float16, dtypes.bfloat16, dtypes.int64) == np.float32


def test_the_refusal_names_the_operands_and_the_way_out():
    with pytest.raises(errors.TypePromotionError, match=r"float32, float8_e4m3fn meet(.|\n)*astype"):
        dtypes.result_type(dtypes.float8_e4m3fn, dtypes.float32)
    with contexts.numpy_dtype_promotion("strict"), pytest.raises(errors.TypePromotionError, match="strict"):
        dtypes.result_type(dtypes.int32, dtypes.float32)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_each_dtype_has_a_kind_a_size_and_a_stablehlo_name(dtype):
    kinds = [dtypes.is_bool(dtype), dtypes.is_signed(dtype), dtypes.is_unsigned(dtype), dtypes.is_float(dtype)]
    assert sum(kinds) + dtypes.is_complex(dtype) == 1
    assert dtypes.issubdtype(dtype, np.integer) == dtypes.is_integer(dtype)
    assert dtypes.issubdtype(dtype, np.floating) == dtypes.is_float(dtype)
    assert dtypes.issubdtype(dtype, np.inexact) == dtypes.is_inexact(dtype)
    assert dtypes.named(dtype) is dtype and dtypes.named(dtype.name) is dtype and dtypes.named(dtype.type) is dtype
    assert dtypes.HLO_NAMES[dtype]
    assert dtypes.itemsize_bits(dtype) <= 8 * dtype.itemsize
    assert dtypes.tangent_dtype(dtype) == (dtype if dtypes.is_inexact(dtype) else dtypes.float0)


def test_stablehlo_names_and_bit_sizes():
    assert dtypes.HLO_NAMES[np.dtype("float32")] == "f32"
    assert dtypes.HLO_NAMES[np.dtype(bool)] == "i1"
    assert dtypes.HLO_NAMES[dtypes.uint4] == "ui4" and dtypes.HLO_NAMES[dtypes.int64] == "i64"
    assert dtypes.HLO_NAMES[dtypes.complex64] == "complex<f32>"
    assert dtypes.HLO_NAMES[dtypes.float8_e4m3fn] == "f8E4M3FN"
    bits = [dtypes.itemsize_bits(one) for one in (dtypes.int4, dtypes.float8_e5m2, dtypes.float6_e2m3fn, dtypes.bool_)]
    assert bits == [4, 8, 6, 8]
    assert dtypes.short_name(np.dtype(dtypes.bfloat16)) == "bf16" and dtypes.short_name(dtypes.uint8) == "u8"


def test_supports_inf_agrees_with_what_a_cast_of_inf_gives():
    for dtype in dtypes.FLOATS:
        with np.errstate(all="ignore"):
            cast = np.float32(np.array(np.inf, np.float32).astype(dtype))
        assert dtypes.supports_inf(dtype) == np.isinf(cast), dtype


@dataclasses.dataclass(frozen=True)
class Implementation:
    name: str = "test_words"
    tag: str = "tst"
    key_shape: tuple = (2,)


def test_a_key_dtype_is_one_object_per_implementation():
    dtype = dtypes.key_dtype(Implementation())
    assert dtype is dtypes.key_dtype(Implementation())
    assert str(dtype) == dtype.name == "key<tst>" and dtype.itemsize == 8
    assert dtypes.issubdtype(dtype, dtypes.prng_key) and dtypes.issubdtype(dtype, dtypes.extended)
    assert not dtypes.issubdtype(dtype, np.number) and not dtypes.issubdtype(np.float32, dtypes.prng_key)
    assert dtypes.is_key(dtype) and dtypes.named(dtype) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert {dtype: 1}[dtype] == 1
    with pytest.raises(errors.TypePromotionError, match="key_data"):
        dtypes.result_type(dtype, dtypes.float32)
    with pytest.raises(ValueError, match="random keys"):
        dtypes.canonicalize_dtype(dtype)


def test_conversions_between_kinds():
    assert dtypes.to_inexact(dtypes.int8) == np.float32 and dtypes.to_inexact(dtypes.int64) == np.float64
    assert dtypes.to_inexact(np.dtype(dtypes.bfloat16)) == dtypes.bfloat16
    assert dtypes.to_complex(dtypes.float16) == np.complex64 and dtypes.to_complex(dtypes.float64) == np.complex128
    assert dtypes.real_dtype(dtypes.complex128) == np.float64 and dtypes.real_dtype(dtypes.int8) == np.int8
    assert dtypes.to_floating(dtypes.complex64) == np.float32 and dtypes.to_floating(dtypes.bool_) == np.float32
    assert dtypes.to_numeric(dtypes.bool_) == np.int32 and dtypes.to_numeric(dtypes.int8) == np.int8


def test_limits():
    assert dtypes.finfo("bfloat16").eps == ml_dtypes.finfo(ml_dtypes.bfloat16).eps
    assert dtypes.finfo(np.complex128).max == np.finfo(np.float64).max
    assert dtypes.iinfo("int4").max == 7 and dtypes.iinfo(np.uint8).max == 255
    with pytest.raises(ValueError, match="not inexact"):
        dtypes.finfo("int8")
    with pytest.raises(ValueError, match="not an integer"):
        dtypes.iinfo("float32")


def test_isdtype_follows_the_array_api():
    assert dtypes.isdtype("int4", "signed integer") and dtypes.isdtype("uint8", ("bool", "integral"))
    assert dtypes.isdtype("bfloat16", "real floating") and dtypes.isdtype("complex64", "numeric")
    assert not dtypes.isdtype("bool", "numeric") and dtypes.isdtype("float32", np.float32)
    with pytest.raises(ValueError, match="no kind"):
        dtypes.isdtype("float32", "smooth")


def test_scalar_types_and_safe_casts():
    assert [dtypes.scalar_type_of(one) for one in (True, np.int8(1), 2.0, 1j)] == [bool, int, float, complex]
    assert dtypes.safe_to_cast("int8", "float32") and not dtypes.safe_to_cast("float32", "int8")
    assert dtypes.safe_to_cast(1, "int8") and not dtypes.safe_to_cast(dtypes.int32, "int8")
    assert dtypes.can_cast("int8", "int16") and not dtypes.can_cast("float32", "int32")


def test_types_that_numpy_has_twice_are_named():
    assert dtypes.named(np.longlong) == np.int64 and dtypes.canonicalize_dtype(np.ulonglong) == np.uint32
    assert dtypes.named(np.intc) == np.int32


def test_what_is_no_dtype_of_arrays_is_refused():
    with pytest.raises(ValueError, match="None"):
        dtypes.itemsize_bits(None)
    with pytest.raises(ValueError, match="array was given as a dtype"):
        dtypes.named(np.arange(3))
    for bad in ("U3", object, np.dtype([("a", np.int8)])):
        with pytest.raises(TypeError):
            dtypes.named(bad)
    with pytest.raises(TypeError):
        dtypes.named("float33")


def test_promotion_follows_a_setting_at_once():
    assert dtypes.result_type(1.0) == np.float32
    config.update("enable_x64", True)
    assert dtypes.result_type(1.0) == np.float64
    assert dtypes.result_type(dtypes.uint32, dtypes.int32) == np.int64


def test_result_types_tell_whether_they_are_weak():
    assert dtypes.result_type(None) == np.float32 and dtypes.result_type(1.0, return_weak_type_flag=True) == (
        np.float32,
        True,
    )
    assert dtypes.result_type(np.int8(1), 1, return_weak_type_flag=True) == (np.int8, False)
    with contexts.enable_x64(True):
        assert dtypes.result_type(None) == np.float64


def test_numbers_of_less_than_a_byte_have_a_dtype_that_holds_them():
    for dtype in dtypes.ALL:
        wide = dtypes.whole_bytes(dtype)
        assert (wide == dtype) is (dtypes.is_bool(dtype) or dtypes.itemsize_bits(dtype) >= 8)
        assert dtypes.itemsize_bits(wide) >= 8
    assert dtypes.whole_bytes(dtypes.uint2) == np.uint8 and dtypes.whole_bytes(dtypes.float4_e2m1fn) == np.float16


def test_limits_are_those_of_the_dtype_of_an_array():
    for array in (pnp.arange(3, dtype="int8"), np.int8(1), np.zeros(2, np.int8)):
        assert dtypes.iinfo(array).max == 127
    for array in (pnp.ones(2, "bfloat16"), pnp.ones(2, "bfloat16").dtype, "bfloat16"):
        assert float(dtypes.finfo(array).eps) == 2**-7
    assert purax.jit(lambda x: x * pnp.iinfo(x).max)(pnp.ones(1, "int8"))[0] == 127
