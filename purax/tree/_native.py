# SPDX-License-Identifier: Apache-2.0
"""The C++ part of pytrees, in a registry of our own.

Only this file and `runtime/_jaxlib.py` import jaxlib. It stands here because trees lie below the runtime in the order of
imports, and because flattening in Python costs ten times as much. The registry is an instance that nothing else in the
process shares, so types that are registered with an installed JAX, or here, do not show up on the other side.
"""

import os
from typing import Any

# jaxlib logs at INFO unless told otherwise before its first import.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

from jaxlib._jax import pytree as _pytree

PyTreeDef = _pytree.PyTreeDef
DictKey = _pytree.DictKey
SequenceKey = _pytree.SequenceKey
GetAttrKey = _pytree.GetAttrKey
FlattenedIndexKey = _pytree.FlattenedIndexKey

registry: Any = _pytree.PyTreeRegistry()
# Structures are pickled with their registry, and that by its global name.
registry.__module__ = __name__
registry.__name__ = "registry"


def all_leaves(values: Any) -> bool:
    """Tell whether none of the values is a node."""
    return bool(_pytree.all_leaves(registry, values))


def treedef_tuple(treedefs: Any) -> Any:
    """Return the structure of a tuple of trees."""
    return _pytree.treedef_tuple(registry, list(treedefs))
