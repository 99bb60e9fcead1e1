# SPDX-License-Identifier: Apache-2.0
"""Everything that changes in training, in one value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Self, dataclass_transform

import numpy as np

from purax import numpy as pnp
from purax import tree
from purax.optim.apply import apply_updates
from purax.optim.base import GradientTransformation, with_extra_args_support

__all__ = ["TrainState"]


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, tree.static))
class _Node:
    """Turns each subclass into a frozen dataclass that is a node of trees."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        tree.register_dataclass(dataclasses.dataclass(frozen=True)(cls))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed.

        Parameters
        ----------
        **changes
            New values by field.

        Returns
        -------
        same type
            The copy.
        """
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


class TrainState(_Node):
    """Parameters, the optimizer's state and the number of steps: a node of trees, so jit takes and gives it whole.

    Subclass it to carry more, such as `batch_stats: Any`; annotated fields become children of the node.

    Attributes
    ----------
    step : integer scalar
        How many updates were applied.
    apply_fn : callable (static)
        Usually `model.apply`.
    params : tree of arrays
        The parameters.
    tx : GradientTransformation (static)
        The optimizer.
    opt_state : tree
        Its state.

    Examples
    --------
    >>> from purax import numpy as pnp
    >>> from purax import optim
    >>> state = TrainState.create(apply_fn=None, params={"w": pnp.ones(2)}, tx=optim.sgd(0.5))
    >>> state = state.apply_gradients(grads={"w": pnp.ones(2)})
    >>> int(state.step), [float(w) for w in state.params["w"]]
    (1, [0.5, 0.5])
    """

    step: Any
    apply_fn: Callable[..., Any] | None = tree.static()
    params: Any = dataclasses.field()
    tx: GradientTransformation = tree.static()
    opt_state: Any = dataclasses.field()

    @classmethod
    def create(
        cls, *, apply_fn: Callable[..., Any] | None, params: Any, tx: GradientTransformation, **fields: Any
    ) -> Self:
        """Make the state before the first step.

        Parameters
        ----------
        apply_fn : callable
            Usually `model.apply`.
        params : tree of arrays
            The parameters.
        tx : GradientTransformation
            The optimizer.
        **fields
            What a subclass adds.

        Returns
        -------
        TrainState
            Step 0, with a new state of the optimizer.
        """
        return cls(
            step=pnp.asarray(np.int32(0)), apply_fn=apply_fn, params=params, tx=tx, opt_state=tx.init(params), **fields
        )

    def apply_gradients(self, *, grads: Any, **fields: Any) -> Self:
        """Take one step.

        Parameters
        ----------
        grads : tree of arrays
            Of the structure of `params`.
        **fields
            Other fields to change, such as batch_stats.

        Returns
        -------
        TrainState
            One step later.
        """
        updates, opt_state = with_extra_args_support(self.tx).update(grads, self.opt_state, self.params)
        return self.replace(
            step=self.step + 1, params=apply_updates(self.params, updates), opt_state=opt_state, **fields
        )
