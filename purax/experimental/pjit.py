# SPDX-License-Identifier: Apache-2.0
"""`pjit`: an older form of `jit`, which runs on the devices of ``with mesh:``, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from purax import tree
from purax.control.jit import JitFunction, jit
from purax.control.sharded import WHOLE

__all__ = ["pjit"]


class _Unspecified:
    """Stands for shardings that nobody gave."""

    def __repr__(self) -> str:
        return "Unspecified"


UNSPECIFIED: Any = _Unspecified()


def pjit(
    fun: Callable[..., Any], in_shardings: Any = UNSPECIFIED, out_shardings: Any = UNSPECIFIED,
    static_argnums: Any = None, static_argnames: Any = None, donate_argnums: Any = None, donate_argnames: Any = None,
    keep_unused: bool = False, device: Any = None, backend: Any = None, inline: bool = False, compiler_options: Any = None,
) -> Any:  # fmt: skip
    """As `jit`, but it runs on the devices of ``with mesh:`` as on those of `set_mesh`, and there None is the empty spec.

    Parameters
    ----------
    fun : callable
    in_shardings, out_shardings : pytree prefixes of Sharding, PartitionSpec or None, optional
        As they lie, and as the partitioner chose, by default.
    static_argnums, static_argnames, donate_argnums, donate_argnames, keep_unused, device, backend, inline, compiler_options
        As in `jit`.

    Returns
    -------
    JitFunction
    """
    made = jit(
        fun, in_shardings=_said(in_shardings), out_shardings=_said(out_shardings), static_argnums=static_argnums,
        static_argnames=static_argnames, donate_argnums=donate_argnums, donate_argnames=donate_argnames,
        keep_unused=keep_unused, device=device, backend=backend, inline=inline, compiler_options=compiler_options,
    )  # fmt: skip
    return JitFunction(fun, {**made.options, "entered": True})


def _said(shardings: Any) -> Any:
    if shardings is UNSPECIFIED:
        return None
    return tree.map(lambda s: WHOLE if s is None else s, shardings, is_leaf=lambda s: s is None)
