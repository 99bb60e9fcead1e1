# SPDX-License-Identifier: Apache-2.0
"""Pytrees: nested containers as the arguments and results of everything.

`purax.tree` has the short names (`map`, `leaves`, `flatten`, ...), `purax.tree_util` the long ones.
"""

from purax.tree._native import DictKey, FlattenedIndexKey, GetAttrKey, PyTreeDef, SequenceKey, registry
from purax.tree.functions import (
    all_leaves,
    flatten_up_to,
    is_leaf_structure,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)
from purax.tree.functions import tree_all as all
from purax.tree.functions import tree_broadcast as broadcast
from purax.tree.functions import tree_flatten as flatten
from purax.tree.functions import tree_leaves as leaves
from purax.tree.functions import tree_map as map
from purax.tree.functions import tree_map_with_path as map_with_path
from purax.tree.functions import tree_reduce as reduce
from purax.tree.functions import tree_reduce_associative as reduce_associative
from purax.tree.functions import tree_structure as structure
from purax.tree.functions import tree_transpose as transpose
from purax.tree.functions import tree_unflatten as unflatten
from purax.tree.nodes import (
    Partial,
    flatten_one_level,
    flatten_one_level_with_keys,
    is_tree_node,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    static,
)
from purax.tree.path import KeyEntry, KeyPath, generate_key_paths, keystr, paths
from purax.tree.path import tree_flatten_with_path as flatten_with_path
from purax.tree.path import tree_leaves_with_path as leaves_with_path
from purax.tree.prefix import broadcast_prefix, flatten_axes, mismatch, prefix_sizes

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all",
    "all_leaves",
    "broadcast",
    "broadcast_prefix",
    "flatten",
    "flatten_axes",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "flatten_up_to",
    "flatten_with_path",
    "generate_key_paths",
    "is_leaf_structure",
    "is_tree_node",
    "keystr",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "mismatch",
    "paths",
    "prefix_sizes",
    "reduce",
    "reduce_associative",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "registry",
    "static",
    "structure",
    "transpose",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
    "unflatten",
]
