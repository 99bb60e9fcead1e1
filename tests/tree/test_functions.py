# SPDX-License-Identifier: Apache-2.0
import pickle
from collections import OrderedDict, defaultdict, namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purax import errors, tree, tree_util

Pair = namedtuple("Pair", "x y")

TREES = st.recursive(
    st.integers() | st.none(),
    lambda children: (
        st.lists(children, max_size=3)
        | st.tuples(children, children)
        | st.dictionaries(st.sampled_from("abc"), children, max_size=3)
        | st.builds(Pair, children, children)
        | st.dictionaries(st.sampled_from("abc"), children, max_size=3).map(OrderedDict)
    ),
    max_leaves=8,
)


@given(TREES)
def test_flatten_and_unflatten_are_inverse(value):
    leaves, treedef = tree.flatten(value)
    assert tree.unflatten(treedef, leaves) == value
    assert treedef.num_leaves == len(leaves) and None not in leaves
    assert tree.structure(value) == treedef and hash(tree.structure(value)) == hash(treedef)
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert [leaf for _, leaf in tree.leaves_with_path(value)] == leaves


@given(TREES)
def test_map_keeps_the_structure_and_follows_the_leaves(value):
    doubled = tree.map(lambda x: 2 * x, value)
    assert tree.leaves(doubled) == [2 * x for x in tree.leaves(value)]
    assert tree.structure(doubled) == tree.structure(value)
    assert tree.map(lambda x, y: (x, y), value, doubled) == tree.map(lambda x: (x, 2 * x), value)


def test_dicts_are_taken_in_the_order_of_their_keys_and_ordered_dicts_in_their_own():
    assert tree.leaves({"z": 1, "a": 2}) == [2, 1]
    assert tree.leaves(OrderedDict([("z", 1), ("a", 2)])) == [1, 2]
    mapped = tree.map(str, defaultdict(list, b=1, a=2))
    assert mapped == {"a": "2", "b": "1"} and mapped.default_factory is list


def test_none_is_a_node_without_leaves_unless_asked():
    assert tree.leaves([None, 1]) == [1]
    assert tree.leaves([None, 1], is_leaf=lambda x: x is None) == [None, 1]
    assert tree.map(lambda x, y: (x, y), (None, 2), (None, 3)) == (None, (2, 3))


def test_is_leaf_stops_the_descent():
    assert tree.leaves({"a": [1, 2]}, is_leaf=lambda x: isinstance(x, list)) == [[1, 2]]
    assert tree.map(len, {"a": [1, 2], "b": [3]}, is_leaf=lambda x: isinstance(x, list)) == {"a": 2, "b": 1}


def test_map_takes_trees_that_go_deeper():
    assert tree.map(lambda x, y: (x, y), [1, 2], [{"a": 3}, (4, 5)]) == [(1, {"a": 3}), (2, (4, 5))]


@pytest.mark.parametrize(
    ("first", "other", "part"),
    [
        ({"a": [1]}, {"a": (1,)}, r"at \['a'\] one has a list, the other a tuple"),
        ({"a": 1}, {"b": 1}, "only the first has 'a', only the other has 'b'"),
        ([[1, 2], 3], [[1], 3], r"at \[0\] a list has 2 children, the other 1"),
        ((1, None), (1, 2), r"at \[1\] one has a NoneType, the other a int"),
        (Pair(1, 2), (1, 2), "at the root one has a Pair, the other a tuple"),
        (OrderedDict(a=1, b=2), OrderedDict(b=1, a=2), "static data"),
    ],
)
def test_structures_that_differ_are_named_with_the_place(first, other, part):
    with pytest.raises(errors.TreeMismatchError, match=part) as info:
        tree.map(lambda x, y: x, first, other)
    assert isinstance(info.value, ValueError)


def test_an_error_inside_the_mapped_function_stays_its_own():
    with pytest.raises(ValueError, match="mine"):
        tree.map(lambda x, y: (_ for _ in ()).throw(ValueError("mine")), [1], [2])


def test_wrong_numbers_of_leaves_are_refused():
    treedef = tree.structure([1, 2])
    with pytest.raises(ValueError, match="few"):
        tree.unflatten(treedef, [1])
    with pytest.raises(ValueError, match="many"):
        tree.unflatten(treedef, [1, 2, 3])


def test_reduce_from_the_left_and_in_pairs():
    value = {"a": ["x", "y"], "b": ("z",)}
    assert tree.reduce(lambda a, b: f"({a}{b})", value) == "((xy)z)"
    assert tree.reduce(lambda a, b: a + b, value, "0") == "0xyz"
    assert tree.reduce_associative(lambda a, b: a + b, list("abcdefg")) == "abcdefg"
    assert tree.reduce_associative(lambda a, b: f"({a}{b})", list("abcd")) == "((ab)(cd))"
    assert tree.reduce_associative(max, [], identity=0) == 0
    with pytest.raises(TypeError):
        tree.reduce(max, [])
    with pytest.raises(TypeError, match="identity"):
        tree.reduce_associative(max, [])


def test_all_and_all_leaves():
    assert tree.all([True, {"a": 1}]) and not tree.all([True, (0,)])
    assert tree_util.all_leaves([1, 2]) and not tree_util.all_leaves([1, (2,)])
    assert tree_util.all_leaves([(1, 2)], is_leaf=lambda x: isinstance(x, tuple))
    assert not tree_util.all_leaves([None])


def test_transpose_turns_trees_inside_out():
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert tree.transpose(tree.structure([0, 0]), tree.structure({"a": 0, "b": 0}), rows) == {"a": [1, 3], "b": [2, 4]}
    assert tree.transpose(tree.structure([0, 0]), None, rows) == {"a": [1, 3], "b": [2, 4]}
    with pytest.raises(TypeError, match="expected"):
        tree.transpose(tree.structure([0, 0]), tree.structure({"a": 0}), rows)


def test_structures_can_be_taken_apart_and_put_together():
    first, second = tree.structure([1]), tree.structure({"a": (1, 2)})
    both = tree_util.treedef_tuple((first, second))
    assert both == tree.structure(([1], {"a": (1, 2)}))
    assert tree_util.treedef_children(both) == [first, second]
    assert tree_util.treedef_is_leaf(tree.structure(1)) and not tree_util.treedef_is_leaf(first)
    assert tree.is_leaf_structure(tree.structure(1)) and not tree.is_leaf_structure(tree.structure(None))


def test_a_tree_that_contains_itself_is_told():
    cycle = [1]
    cycle.append(cycle)
    for use in (tree.flatten, tree.leaves, tree.structure, lambda t: tree.map(abs, t)):
        with pytest.raises(RecursionError, match="contains itself"):
            use(cycle)
