# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in a command that is still being loaded ends it without a traceback. Imported before everything else."""

import os
import signal
import sys

__all__ = ["command_starts"]

_COMMANDS = ("purax", "-m")  # what argv[0] is while `purax ...` and `python -m purax ...` import the package
_loading = False


def _command_loads() -> None:
    global _loading
    if os.path.basename(sys.argv[0]) in _COMMANDS and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _loading = True


def command_starts() -> None:
    """Hand Ctrl-C back to Python, which raises KeyboardInterrupt."""
    global _loading
    if _loading:
        _loading = False
        signal.signal(signal.SIGINT, signal.default_int_handler)


if getattr(sys, "argv", None):
    _command_loads()
