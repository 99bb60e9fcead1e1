# SPDX-License-Identifier: Apache-2.0
"""purax: composable transformations of array programs, compiled by XLA."""

from purax import config as config
from purax import errors as errors
from purax import tree as tree
from purax.contexts import *  # noqa: F403
from purax.control.jit import jit as jit
from purax.transforms.jacobian import hessian as hessian
from purax.transforms.jacobian import jacfwd as jacfwd
from purax.transforms.jacobian import jacrev as jacrev
from purax.transforms.jvp import jvp as jvp
from purax.transforms.reverse import grad as grad
from purax.transforms.reverse import linearize as linearize
from purax.transforms.reverse import value_and_grad as value_and_grad
from purax.transforms.reverse import vjp as vjp
from purax.transforms.transpose import linear_transpose as linear_transpose
from purax.transforms.vmap import vmap as vmap

__version__ = "0.1.0"
