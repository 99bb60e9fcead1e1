# SPDX-License-Identifier: Apache-2.0
"""Minimization of functions of one vector."""

from purax.scipy.optimize.minimization import *
from purax.scipy.optimize.minimization import __all__ as __all__
