# SPDX-License-Identifier: Apache-2.0
from collections import namedtuple

from purax import tree, tree_util

Pair = namedtuple("Pair", "x y")


def test_paths_say_how_python_reaches_a_leaf():
    value = {"a": [1, Pair(2, None)], "b": tree_util.Partial(max, 3, key=4)}
    written = [(tree.keystr(path), leaf) for path, leaf in tree.leaves_with_path(value)]
    assert written == [
        ("['a'][0]", 1),
        ("['a'][1].x", 2),
        ("['b'].args[0]", 3),
        ("['b'].keywords['key']", 4),
    ]


def test_paths_can_be_written_bare():
    path = (tree.DictKey("a"), tree.SequenceKey(1), tree.GetAttrKey("x"), tree.FlattenedIndexKey(3))
    assert tree.keystr(path) == "['a'][1].x[<flat index 3>]"
    assert tree.keystr(path, simple=True, separator="/") == "a/1/x/3"
    assert tree.keystr(()) == ""


def test_nodes_without_keys_number_their_children():
    class Plain:
        pass

    tree.register_pytree_node(Plain, lambda _: ((1, 2), None), lambda _, children: Plain())
    assert [tree.keystr(path) for path, _ in tree.leaves_with_path(Plain())] == ["[<flat index 0>]", "[<flat index 1>]"]


def test_is_leaf_may_take_the_path():
    value = {"a": [1], "b": [2]}
    stop_at_a = tree.leaves_with_path(value, lambda path, _: tree.keystr(path) == "['a']", is_leaf_takes_path=True)
    assert [leaf for _, leaf in stop_at_a] == [[1], 2]
    stop_at_lists = tree.leaves_with_path(value, lambda node: isinstance(node, list))
    assert [leaf for _, leaf in stop_at_lists] == [[1], [2]]


def test_map_with_path_takes_several_trees():
    result = tree.map_with_path(lambda path, x, y: (tree.keystr(path), x, y), {"a": 1}, {"a": [2]})
    assert result == {"a": ("['a']", 1, [2])}
    assert tree_util.generate_key_paths([5]) == [((tree.SequenceKey(0),), 5)]
