# SPDX-License-Identifier: Apache-2.0
"""`purax cache`: the compiled programs on disk."""

from __future__ import annotations

import argparse

from purax.runtime import cache

__all__ = ["describe", "run"]


def describe(info: cache.CacheInfo) -> str:
    """Say in one line what the cache holds.

    Parameters
    ----------
    info : CacheInfo
        From `purax.runtime.cache.info`.

    Returns
    -------
    str
        The line.
    """
    state = "on" if info.enabled else "off (PURAX_CACHE)"
    return (
        f"{info.directory}: {info.files} programs, {info.bytes / 1e6:.1f} MB of at most {info.max_bytes / 1e6:.0f} MB, "
        f"{state}"
    )


def run(options: argparse.Namespace) -> int:
    """Show or clear the cache.

    Parameters
    ----------
    options : argparse.Namespace
        Of `purax cache`.

    Returns
    -------
    int
        0.
    """
    if options.action == "clear":
        folder = cache.directory()
        print(f"removed {cache.clear()} programs from {folder}")
    else:
        print(describe(cache.info()))
    return 0
