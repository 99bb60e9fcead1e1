# SPDX-License-Identifier: Apache-2.0
"""Vector quantization."""

from __future__ import annotations

from typing import Any

from purax import numpy as pnp
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact

__all__ = ["vq"]


def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """The nearest code of each observation, and the distance to it.

    Parameters
    ----------
    obs : real[m, n] or real[m]
    code_book : real[k, n] or real[k]
    check_finite : bool
        No effect.

    Returns
    -------
    (int[m], float[m])

    Raises
    ------
    ValueError
        Observations and codes differ in rank, or are neither vectors nor matrices.
    """
    check_arraylike("vq", obs, code_book)
    obs, code_book = promote_dtypes_inexact(obs, code_book)
    if obs.ndim != code_book.ndim:
        raise ValueError(
            f"vq: observations and codes must have as many axes, got shapes {obs.shape} and {code_book.shape}"
        )
    if obs.ndim == 1:
        obs, code_book = obs[..., None], code_book[..., None]
    if obs.ndim != 2:
        raise ValueError(f"vq takes vectors or matrices, got shape {obs.shape}")
    distances = pnp.linalg.norm(obs[:, None] - code_book[None], axis=-1)
    code = pnp.argmin(distances, axis=-1)
    return code, pnp.take_along_axis(distances, code[:, None], axis=-1)[:, 0]
