# SPDX-License-Identifier: Apache-2.0
"""The functions of `optim.tree` under their long names: names only."""

from purax.optim.tree import NamedTupleKey
from purax.optim.tree import add as tree_add
from purax.optim.tree import add_scale as tree_add_scale
from purax.optim.tree import allclose as tree_allclose
from purax.optim.tree import bias_correction as tree_bias_correction
from purax.optim.tree import cast as tree_cast
from purax.optim.tree import cast_like as tree_cast_like
from purax.optim.tree import clip as tree_clip
from purax.optim.tree import conj as tree_conj
from purax.optim.tree import div as tree_div
from purax.optim.tree import dtype as tree_dtype
from purax.optim.tree import full_like as tree_full_like
from purax.optim.tree import get as tree_get
from purax.optim.tree import get_all_with_path as tree_get_all_with_path
from purax.optim.tree import map_params as tree_map_params
from purax.optim.tree import max as tree_max
from purax.optim.tree import min as tree_min
from purax.optim.tree import mul as tree_mul
from purax.optim.tree import norm as tree_norm
from purax.optim.tree import ones_like as tree_ones_like
from purax.optim.tree import random_like as tree_random_like
from purax.optim.tree import real as tree_real
from purax.optim.tree import scale as tree_scale
from purax.optim.tree import set as tree_set
from purax.optim.tree import size as tree_size
from purax.optim.tree import split_key_like as tree_split_key_like
from purax.optim.tree import sub as tree_sub
from purax.optim.tree import sum as tree_sum
from purax.optim.tree import update_infinity_moment as tree_update_infinity_moment
from purax.optim.tree import update_moment as tree_update_moment
from purax.optim.tree import update_moment_per_elem_norm as tree_update_moment_per_elem_norm
from purax.optim.tree import vdot as tree_vdot
from purax.optim.tree import where as tree_where
from purax.optim.tree import zeros_like as tree_zeros_like

__all__ = [
    "NamedTupleKey",
    "tree_add",
    "tree_add_scale",
    "tree_allclose",
    "tree_bias_correction",
    "tree_cast",
    "tree_cast_like",
    "tree_clip",
    "tree_conj",
    "tree_div",
    "tree_dtype",
    "tree_full_like",
    "tree_get",
    "tree_get_all_with_path",
    "tree_map_params",
    "tree_max",
    "tree_min",
    "tree_mul",
    "tree_norm",
    "tree_ones_like",
    "tree_random_like",
    "tree_real",
    "tree_scale",
    "tree_set",
    "tree_size",
    "tree_split_key_like",
    "tree_sub",
    "tree_sum",
    "tree_update_infinity_moment",
    "tree_update_moment",
    "tree_update_moment_per_elem_norm",
    "tree_vdot",
    "tree_where",
    "tree_zeros_like",
]
