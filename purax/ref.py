# SPDX-License-Identifier: Apache-2.0
"""The names of `jax.ref`. Nothing is defined here."""

from purax.control.refs import Ref as Ref
from purax.control.refs import addupdate as addupdate
from purax.control.refs import empty_ref as empty_ref
from purax.control.refs import free_ref as free_ref
from purax.control.refs import freeze as freeze
from purax.control.refs import get as get
from purax.control.refs import new_ref as new_ref
from purax.control.refs import set as set
from purax.control.refs import swap as swap

__all__ = ["Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set", "swap"]
