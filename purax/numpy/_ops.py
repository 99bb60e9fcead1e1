# SPDX-License-Identifier: Apache-2.0
"""Every strict operation under one short name, for the files of this folder: `ops.reshape`, `ops.add_p`."""

# ruff: noqa: F403
from purax.primitives.bits import *
from purax.primitives.cast import *
from purax.primitives.comparison import *
from purax.primitives.complex import *
from purax.primitives.contraction import *
from purax.primitives.convolution import *
from purax.primitives.cumulative import *
from purax.primitives.elementwise import *
from purax.primitives.gather import *
from purax.primitives.indexing import *
from purax.primitives.joining import *
from purax.primitives.log_sums import *
from purax.primitives.power import *
from purax.primitives.reduction import *
from purax.primitives.reduction import reduce_and_p as reduce_and_p
from purax.primitives.reduction import reduce_max_p as reduce_max_p
from purax.primitives.reduction import reduce_min_p as reduce_min_p
from purax.primitives.reduction import reduce_or_p as reduce_or_p
from purax.primitives.reduction import reduce_prod_p as reduce_prod_p
from purax.primitives.reduction import reduce_sum_p as reduce_sum_p
from purax.primitives.rolling import *
from purax.primitives.scatter import *
from purax.primitives.shape import *
from purax.primitives.shape import broadcast_to as broadcast_to
from purax.primitives.slicing import *
from purax.primitives.sorting import *
from purax.primitives.special import *
from purax.primitives.transcendental import *
from purax.primitives.window import *
