# SPDX-License-Identifier: Apache-2.0
"""`debug_nans` and `debug_infs`: look at every result that leaves an evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import config, dtypes, errors
from purax.core.source import current_source, format_source
from purax.sharding.mesh import watchers

__all__ = ["active", "check", "unusual"]


class Unusual:
    """Counts the settings in force (current meshes, too), in any thread, that take evaluation off its short way.

    The hot path reads `count` (one attribute) instead of three settings.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def step(self, by: int) -> None:
        """Called by `config.watch`: such a setting was turned on (1) or off (-1)."""
        self.count += by


unusual = Unusual()
for _name in ("debug_nans", "debug_infs", "default_device", "disable_jit", "no_execution"):
    config.watch(_name, unusual.step)
watchers.append(unusual.step)


def active() -> bool:
    """Whether results are to be looked at."""
    if not unusual.count:
        return False
    settings = config.current()
    return bool(settings.debug_nans or settings.debug_infs)


def check(name: str, outputs: Any) -> None:
    """Check that the `outputs` of an operation hold no NaN (or inf) that the settings forbid.

    Raises
    ------
    NonFiniteError
        One does; the message gives `name` and the user's line.
    """
    settings = config.current()
    for out in outputs:
        dtype = out.aval.dtype
        if not isinstance(dtype, np.dtype) or not dtypes.is_inexact(dtype):
            continue
        value = np.asarray(out.host)
        if dtype.kind not in "fc":
            value = value.astype(np.float32)
        for wrong, found in (("NaN", settings.debug_nans and np.isnan(value).any()), ("inf", settings.debug_infs and np.isinf(value).any())):  # fmt: skip
            if found:
                raise errors.NonFiniteError(
                    errors.explain(
                        f"invalid value ({wrong.lower()}) encountered in {name} at {format_source(current_source(2))}",
                        f"the result {out.aval.str_short()} holds {wrong}, and debug_{wrong.lower()}s is on",
                        "look at the operands of this operation",
                    )
                )
