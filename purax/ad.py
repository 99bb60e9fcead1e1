# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.ad`: what `with_refs` of a pullback takes and returns. Nothing is defined here."""

from purax.transforms.vjp import DidntWant as DidntWant
from purax.transforms.vjp import DontWant as DontWant
from purax.transforms.vjp import GradRef as GradRef
from purax.transforms.vjp import GradValue as GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]
