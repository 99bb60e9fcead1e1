# SPDX-License-Identifier: Apache-2.0
"""Kernels of users, by the example of kernels that jaxlib carries anyway."""

import ctypes
import os

import numpy as np
import pytest

from purax.core.aval import array_aval
from purax.runtime import _jaxlib, ffi
from purax.runtime.executable import compile_text
from purax.runtime.transfer import device_put

PROGRAM = """
module @cholesky {
  func.func public @main(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %0:2 = stablehlo.custom_call @my_cholesky(%a) {api_version = 4 : i32, backend_config = {uplo = 76 : ui8},
      operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>,
      dense<> : tensor<0xindex>]} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)
    return %0#0 : tensor<2x2xf32>
  }
}
"""


def address_of(capsule, name=None):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return pointer(capsule, name)


@pytest.mark.xla
def test_a_registered_kernel_is_called_by_its_name():
    _jaxlib.ensure_lapack()
    kernel = _jaxlib.lapack._lapack.registrations()["lapack_spotrf_ffi"]
    ffi.register_ffi_target("my_cholesky", kernel)
    program = compile_text(PROGRAM, out_avals=[array_aval((2, 2), np.dtype(np.float32))])
    matrix = np.array([[4, 2], [2, 3]], np.float32)
    np.testing.assert_allclose(np.tril(program.call([device_put(matrix)])[0]), np.linalg.cholesky(matrix), rtol=1e-6)


def test_a_function_of_a_library_becomes_a_capsule_of_its_address():
    function = ctypes.CDLL(None).getpid
    assert address_of(ffi.pycapsule(function)) == ctypes.cast(function, ctypes.c_void_p).value


def test_a_library_without_the_symbol_is_refused():
    with pytest.raises(AttributeError):
        ffi.register_library(None, {"purax_test_missing": "no_such_symbol"})
    with pytest.raises(OSError, match="missing"):
        ffi.register_library("/missing.so", {})


def test_the_headers_for_writing_kernels_are_found():
    assert os.path.exists(os.path.join(ffi.include_dir(), "xla", "ffi", "api", "ffi.h"))
