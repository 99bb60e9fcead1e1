# SPDX-License-Identifier: Apache-2.0
"""Random numbers from explicit keys: `key`, `split`, and a function per distribution.

A key is spent by drawing from it: split it first, and use each part once. Bits and uniform draws depend on the key, the shape
and the dtype only: not on the device, on `jit` or `vmap`, nor on how arrays are spread over devices.
"""

from purax.random.bits import *
from purax.random.continuous import *
from purax.random.counting import *
from purax.random.discrete import *
from purax.random.gamma import *
from purax.random.keys import *
from purax.random.multivariate import *
