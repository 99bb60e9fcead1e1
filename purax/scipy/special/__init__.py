# SPDX-License-Identifier: Apache-2.0
"""Special functions: `scipy.special` on purax arrays, with derivatives.

Functions map over elements, broadcast their operands, and turn integers into floats. Those beyond the primitives of
`purax.primitives.special` are computed in float64 and rounded once; derivatives are closed forms that stay finite where the
function is smooth.
"""

from purax.scipy.special.bessel import *
from purax.scipy.special.entropies import *
from purax.scipy.special.errors import *
from purax.scipy.special.gammas import *
from purax.scipy.special.hypergeometric import *
from purax.scipy.special.integrals import *
