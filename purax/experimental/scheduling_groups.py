# SPDX-License-Identifier: Apache-2.0
"""Calls that carry attributes for XLA's scheduler and inliner."""

from __future__ import annotations

import functools
from typing import Any

from purax.control.jit import jit
from purax.core.name_stack import Metadata
from purax.core.source import opened

__all__ = ["scheduling_group", "xla_metadata_call"]


def xla_metadata_call(fun: Any = None, **attributes: Any) -> Any:
    """`fun` as a function of its own in programs that call it; the call has attributes.

    Parameters
    ----------
    fun : callable, optional
        Without it, a decorator is returned.
    **attributes : object
        As of `set_xla_metadata`, such as ``inlineable="false"``; the operations inside do not get them.

    Returns
    -------
    callable
        With the results of `fun`.
    """
    if fun is None:
        return lambda f: xla_metadata_call(f, **attributes)
    metadata = Metadata(tuple(sorted(attributes.items())))

    @functools.wraps(fun, updated=())
    def body(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    body.__name__ = "xla_metadata_call"
    held = jit(body)

    @functools.partial(jit, inline=True)  # evaluated eagerly, too, the call is part of a program
    @functools.wraps(fun, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        with opened(metadata):
            return held(*args, **kwargs)

    return call


def scheduling_group(name: str) -> Any:
    """What the function does is one group for XLA's scheduler, called `name` (``"outer:inner"`` within another).

    Returns
    -------
    callable
        A decorator.
    """
    return xla_metadata_call(scheduling_group=name)
