# SPDX-License-Identifier: Apache-2.0
"""What a program can ask of the platform that it is compiled for."""

from __future__ import annotations

from typing import Any

import numpy as np

from purax import errors
from purax.core.aval import array_aval
from purax.core.primitive import Primitive, Undefined

__all__ = ["platform_index_p"]


class PlatformIndex(Primitive):
    """The position in `platforms` of the one that the program is compiled for; their number, if `default`, where it is none of them."""

    reference = Undefined("its value is known when the program is compiled")

    def infer(self, *, platforms: tuple[str, ...], default: bool) -> Any:
        return (array_aval((), np.dtype(np.int32)),)

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        return self.bind(**params), (None,)

    def batch(self, axis: Any, operands: Any, dims: Any, **params: Any) -> Any:
        return self.bind(**params), (None,)

    def lower(self, b: Any, ins: Any, outs: Any, *, platforms: tuple[str, ...], default: bool) -> Any:
        here = b.module.target
        found = [i for i, name in enumerate(platforms) if name in (here, b.module.platform)]
        if not found and not default:
            raise NotImplementedError(
                errors.explain(
                    f"there is no function for the platform {here!r} among {', '.join(platforms) or 'none'}, and no default.",
                    fix=f"give platform_dependent one, as {here}= or default=.",
                )
            )
        return [b.constant(found[0] if found else len(platforms), outs[0])]


platform_index_p = PlatformIndex("platform_index")
