# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.lax`: the primitives and the control flow, strict about shapes and dtypes. Nothing is defined here."""

from purax.control.associative import *
from purax.control.branch import *
from purax.control.composite import *
from purax.control.custom import *
from purax.control.loop import *
from purax.control.scan import scan_p as scan_p
from purax.control.sharded import *
from purax.control.solve import *
from purax.control.while_loop import while_p as while_p
from purax.lax import linalg as linalg
from purax.primitives.barrier import *
from purax.primitives.bits import *
from purax.primitives.cast import *
from purax.primitives.collective import *
from purax.primitives.comparison import *
from purax.primitives.complex import *
from purax.primitives.contraction import *
from purax.primitives.convolution import *
from purax.primitives.convolution_forms import *
from purax.primitives.cumulative import *
from purax.primitives.dimension import *
from purax.primitives.dot_algorithm import *
from purax.primitives.elementwise import *
from purax.primitives.fft import *
from purax.primitives.generator import *
from purax.primitives.indexing import *
from purax.primitives.ragged import *
from purax.primitives.ragged_exchange import *
from purax.primitives.reducer import *
from purax.primitives.reduction import *
from purax.primitives.selecting import *
from purax.primitives.shape import *
from purax.primitives.sink import *
from purax.primitives.sorting import *
from purax.primitives.special import *
from purax.primitives.stop_gradient import *
from purax.primitives.transcendental import *
from purax.primitives.window import *
