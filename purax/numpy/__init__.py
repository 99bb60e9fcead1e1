# SPDX-License-Identifier: Apache-2.0
"""NumPy's functions on purax arrays: `from purax import numpy as pnp`.

Names, signatures and dtypes of results are those of `jax.numpy`; values are NumPy's. Arrays are immutable, Python scalars give way
in promotion, and 64-bit dtypes come only by name or with `enable_x64`.
"""

from typing import Any as _Any

from purax.core.operators import Operators as ndarray
from purax.lazy import lazy as _lazy
from purax.numpy.arithmetic import *
from purax.numpy.array_api import API_VERSION as __array_api_version__
from purax.numpy.array_api import ArrayNamespaceInfo as __array_namespace_info__
from purax.numpy.array_api import array_namespace as array_namespace
from purax.numpy.bits import *
from purax.numpy.comparison import *
from purax.numpy.contraction import *
from purax.numpy.creation import *
from purax.numpy.cumulative import *
from purax.numpy.einsum import *
from purax.numpy.elementwise import *
from purax.numpy.files import *
from purax.numpy.grids import *
from purax.numpy.indexing import *
from purax.numpy.matrices import *
from purax.numpy.padding import *
from purax.numpy.polynomial import *
from purax.numpy.positions import *
from purax.numpy.quantile import *
from purax.numpy.reduction import *
from purax.numpy.scalar_types import *
from purax.numpy.selection import *
from purax.numpy.sets import *
from purax.numpy.shape import *
from purax.numpy.shape import byteswap_method as byteswap_method
from purax.numpy.shape import reshape_method as reshape_method
from purax.numpy.shape import view_method as view_method
from purax.numpy.sorting import *
from purax.numpy.statistics import *
from purax.numpy.ufunc import *
from purax.numpy.updating import *
from purax.numpy.vectorize import *
from purax.numpy.window_functions import *

fft = _lazy("purax.numpy.fft")
linalg = _lazy("purax.numpy.linalg")
