# SPDX-License-Identifier: Apache-2.0
"""Sequential, and BatchApply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from purax import numpy as pnp
from purax import tree
from purax.linen.declare import compact
from purax.linen.module import Module

__all__ = ["BatchApply", "Sequential"]


class Sequential(Module):
    """Apply layers one after the other.

    Parameters
    ----------
    layers : sequence of callable
        Modules and functions. A tuple that one returns becomes the arguments of the next, a dictionary its keywords.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> model = linen.Sequential([linen.Dense(4), linen.relu, linen.Dense(2)])
    >>> sorted(model.init(random.key(0), pnp.ones((1, 3)))["params"])
    ['layers_0', 'layers_2']
    """

    layers: Sequence[Callable[..., Any]]

    def __post_init__(self) -> None:
        """Check the layers."""
        if not isinstance(self.layers, Sequence):
            raise ValueError(f"layers must be a sequence, got {type(self.layers).__name__}.")
        for i, layer in enumerate(self.layers):
            if isinstance(layer, type):
                raise ValueError(f"layers are modules or functions, but layers[{i}] is the class {layer.__name__}.")
        super().__post_init__()

    @compact
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output of the last layer."""
        if not self.layers:
            raise ValueError("Sequential has no layers.")
        outputs = self.layers[0](*args, **kwargs)
        for layer in self.layers[1:]:
            if isinstance(outputs, tuple):
                outputs = layer(*outputs)
            elif isinstance(outputs, dict):
                outputs = layer(**outputs)
            else:
                outputs = layer(outputs)
        return outputs


class BatchApply:
    """Call a function with the leading axes of its arguments merged into one.

    Parameters
    ----------
    f : callable
        Takes arrays with one leading axis.
    num_dims : int
        How many axes to merge. Arguments of lower rank are passed as they are.

    Examples
    --------
    >>> from purax import linen, numpy as pnp
    >>> linen.BatchApply(lambda x: x + 1)(pnp.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    def __init__(self, f: Callable[..., Any], num_dims: int = 2) -> None:
        self._f = f
        self.num_dims = num_dims

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result with the leading axes as they were."""
        count = self.num_dims
        leading = next(
            (pnp.shape(leaf)[:count] for leaf in tree.leaves((args, kwargs)) if pnp.ndim(leaf) >= count), None
        )
        if leading is None:
            raise ValueError(f"BatchApply needs an argument with at least {count} axes.")

        def merged(leaf: Any) -> Any:
            shape = pnp.shape(leaf)
            return pnp.reshape(leaf, (prod(shape[:count]), *shape[count:])) if len(shape) >= count else leaf

        args, kwargs = tree.map(merged, (args, kwargs))
        return tree.map(lambda leaf: pnp.reshape(leaf, leading + leaf.shape[1:]), self._f(*args, **kwargs))
