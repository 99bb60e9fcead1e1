# SPDX-License-Identifier: Apache-2.0
import pytest

from purax import errors, tree


def test_broadcast_repeats_the_leaves_of_a_prefix():
    assert tree.broadcast(0, {"a": 1, "b": [2, 3]}) == {"a": 0, "b": [0, 0]}
    assert tree.broadcast_prefix((0, [1, 2]), ({"a": 5, "b": 6}, [7, (8, 9)])) == [0, 0, 1, 2, 2]
    assert tree.broadcast([1, None], [{"a": 3}, None]) == [{"a": 1}, None]
    assert tree.broadcast((1,), (2,), is_leaf=lambda x: isinstance(x, tuple)) == ((1,),)
    with pytest.raises(errors.TreeMismatchError, match="2 children, the other 3"):
        tree.broadcast([1, 2], [1, 2, 3])


def test_axes_are_given_to_each_leaf_and_none_is_an_axis():
    structure = tree.structure((1, {"a": 2, "b": [3, 4]}))
    assert tree.flatten_axes("in_axes", structure, 0) == [0, 0, 0, 0]
    assert tree.flatten_axes("in_axes", structure, None) == [None] * 4
    assert tree.flatten_axes("in_axes", structure, (0, {"a": None, "b": 1})) == [0, None, 1, 1]
    assert tree.flatten_axes("in_axes", tree.structure((None, 1)), (None, 0)) == [0]


def test_axes_that_are_no_prefix_name_the_specification():
    structure = tree.structure((1, [2, 3]))
    for bad in ((0,), (0, (1, 1)), [0, 1], (0, [1])):
        with pytest.raises(errors.TreeMismatchError, match="vmap in_axes specification"):
            tree.flatten_axes("vmap in_axes", structure, bad)


def test_mismatch_is_none_for_a_prefix():
    assert tree.mismatch((1, [2]), ({"a": 1}, [(3, 4)])) is None
    assert "at [1]" in tree.mismatch((1, [2]), (1, (2,)))


def test_static_data_is_part_of_the_structure():
    class Tagged:
        def __init__(self, tag, value):
            self.tag, self.value = tag, value

    tree.register_pytree_node(Tagged, lambda t: ((t.value,), t.tag), lambda tag, children: Tagged(tag, *children))
    assert tree.prefix_sizes(tree.structure(Tagged("x", 0)), tree.structure(Tagged("x", (1, 2)))) == [2]
    assert tree.prefix_sizes(tree.structure(Tagged("x", 0)), tree.structure(Tagged("y", 0))) is None
    with pytest.raises(errors.TreeMismatchError, match="static data of Tagged"):
        tree.map(lambda a, b: a, Tagged("x", 0), Tagged("y", 0))
