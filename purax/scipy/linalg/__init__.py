# SPDX-License-Identifier: Apache-2.0
"""Linear algebra with SciPy's names: factorizations, functions of matrices, special matrices.

Functions of matrices map over leading axes. Arguments that tell LAPACK what it may overwrite or need not check are taken and have
no effect.
"""

from purax.scipy.linalg.factorizations import *
from purax.scipy.linalg.functions import *
from purax.scipy.linalg.matrices import *
from purax.scipy.linalg.polar_form import *
