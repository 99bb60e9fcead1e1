# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.interpreters` that purax has: the rules of primitives that users define."""

from purax.interpreters import ad as ad
from purax.interpreters import batching as batching
from purax.interpreters import mlir as mlir
from purax.interpreters import partial_eval as partial_eval
