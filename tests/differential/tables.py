# SPDX-License-Identifier: Apache-2.0
"""All tables in one: the dotted name of each public function, and how it is compared."""

from __future__ import annotations

from tests.differential import arrays, elementwise, linear, scientific, statistics
from tests.differential.entry import Entry, Other

# Modules whose public names must all be in the table.
SCIPY = (
    "cluster.vq fft integrate interpolate linalg ndimage optimize signal sparse.linalg spatial.transform special stats"
)
STATS = (*scientific.DISTRIBUTIONS, "dirichlet", "multinomial", "multivariate_normal")
MODULES = (
    *("purax.numpy", "purax.numpy.linalg", "purax.numpy.fft"),
    *(f"purax.scipy.{name}" for name in SCIPY.split()),
    *(f"purax.scipy.stats.{name}" for name in STATS),
)

DTYPES = """
bfloat16 bool bool_ cdouble character complex128 complex64 complex_ complexfloating csingle double dtype flexible float16 float32
float4_e2m1fn float64 float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz
float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float_ floating generic inexact int1 int16 int2 int32 int4 int64 int8 int_ integer number
object_ signedinteger single uint uint1 uint16 uint2 uint32 uint4 uint64 uint8 unsignedinteger
"""
LATTICE = "can_cast promote_types result_type issubdtype isdtype finfo iinfo"
CONSTANTS = "e euler_gamma inf nan newaxis pi"
OBJECTS = "c_ r_ s_ index_exp mgrid ogrid ndarray ufunc ComplexWarning array_namespace"
FILES = "load save savez fromfile from_dlpack frombuffer fromiter fromstring"
TEXT = "array_repr array_str get_printoptions set_printoptions printoptions"
WRAPPERS = "vectorize frompyfunc einsum_path"
METHODS = "byteswap_method reshape_method view_method getitem index_update"

OTHERS: dict[str, Other] = {
    **{name: Other("a dtype or a class of dtypes: tests/numpy/test_creation.py") for name in DTYPES.split()},
    **{name: Other("follows the lattice of JAX: tests/numpy/test_promotion.py") for name in LATTICE.split()},
    **{name: Other("a constant") for name in CONSTANTS.split()},
    **{name: Other("an object, not a function: tests/numpy/test_creation.py") for name in OBJECTS.split()},
    **{name: Other("reads or writes memory and files: tests/numpy/test_files.py") for name in FILES.split()},
    **{name: Other("gives text: tests/numpy/test_files.py") for name in TEXT.split()},
    **{
        name: Other("gives a function or a plan: tests/numpy/test_ufunc.py, test_contraction.py")
        for name in WRAPPERS.split()
    },
    **{
        name: Other("what a method of arrays calls: tests/numpy/test_indexing.py, test_shape.py")
        for name in METHODS.split()
    },
}

TABLE: dict[str, Entry | Other] = {
    **{
        f"purax.numpy.{name}": entry
        for table in (OTHERS, elementwise.ENTRIES, arrays.ENTRIES, statistics.ENTRIES, linear.PRODUCTS)
        for name, entry in table.items()
    },
    **{f"purax.numpy.linalg.{name}": entry for name, entry in linear.LINALG.items()},
    **{
        f"purax.numpy.linalg.{name}": Other("a type of results or errors")
        for name in "EigResult EighResult LinAlgError QRResult SVDResult SlogdetResult".split()
    },
    **{f"purax.numpy.fft.{name}": entry for name, entry in linear.FFT.items()},
    **{f"purax.scipy.{name}": entry for name, entry in scientific.ENTRIES.items()},
}
