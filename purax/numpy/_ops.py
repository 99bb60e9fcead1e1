# SPDX-License-Identifier: Apache-2.0
"""Every strict operation under one short name, for the files of this folder: `ops.reshape`, `ops.add_p`."""

from purax.primitives.bits import *  # noqa: F403
from purax.primitives.cast import *  # noqa: F403
from purax.primitives.contraction import *  # noqa: F403
from purax.primitives.convolution import *  # noqa: F403
from purax.primitives.cumulative import *  # noqa: F403
from purax.primitives.elementwise import *  # noqa: F403
from purax.primitives.indexing import *  # noqa: F403
from purax.primitives.reduction import *  # noqa: F403
from purax.primitives.shape import *  # noqa: F403
from purax.primitives.sorting import *  # noqa: F403
from purax.primitives.special import *  # noqa: F403
from purax.primitives.window import *  # noqa: F403
from purax.primitives.reduction import (
    reduce_and_p,  # noqa: F401
    reduce_max_p,  # noqa: F401
    reduce_min_p,  # noqa: F401
    reduce_or_p,  # noqa: F401
    reduce_prod_p,  # noqa: F401
    reduce_sum_p,  # noqa: F401
)
from purax.primitives.shape import broadcast_to  # noqa: F401
