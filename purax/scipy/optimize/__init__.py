# SPDX-License-Identifier: Apache-2.0
"""Minimization, roots, fixed points and nonlinear least squares."""

from purax.scipy.optimize.least_squares import *
from purax.scipy.optimize.least_squares import __all__ as _least_squares
from purax.scipy.optimize.minimization import *
from purax.scipy.optimize.minimization import __all__ as _minimize
from purax.scipy.optimize.root_finding import *
from purax.scipy.optimize.root_finding import __all__ as _root_finding

__all__ = [*_least_squares, *_minimize, *_root_finding]
