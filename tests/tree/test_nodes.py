# SPDX-License-Identifier: Apache-2.0
import dataclasses
import functools

import pytest

from purax import tree, tree_util


def test_classes_become_nodes_by_decorators():
    @tree_util.register_pytree_node_class
    class Sum:
        def __init__(self, *terms):
            self.terms = terms

        def tree_flatten(self):
            return self.terms, len(self.terms)

        @classmethod
        def tree_unflatten(cls, static_data, children):
            return cls(*children)

    assert tree.map(lambda x: x + 1, Sum(1, 2)).terms == (2, 3)
    with pytest.raises(ValueError, match="Duplicate"):
        tree_util.register_pytree_node_class(Sum)


def test_classes_with_keys_become_nodes_by_decorators():
    @tree_util.register_pytree_with_keys_class
    class Named:
        def __init__(self, left, right):
            self.left, self.right = left, right

        def tree_flatten_with_keys(self):
            return ((tree.GetAttrKey("left"), self.left), (tree.GetAttrKey("right"), self.right)), None

        @classmethod
        def tree_unflatten(cls, static_data, children):
            return cls(*children)

    assert tree.leaves(Named(1, 2)) == [1, 2]
    assert [tree.keystr(path) for path, _ in tree.leaves_with_path(Named(1, 2))] == [".left", ".right"]


def test_subclasses_of_nodes_are_leaves():
    class MyList(list):
        pass

    assert tree.leaves(MyList([1, 2])) == [MyList([1, 2])]
    assert tree_util.is_tree_node(list) and not tree_util.is_tree_node(MyList)


def test_a_dataclass_says_which_of_its_fields_are_static():
    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Model:
        weight: object
        bias: object = 0
        name: str = tree.static(default="m")

    model = Model(1, 2, "first")
    assert tree.leaves(model) == [1, 2]
    assert tree.structure(model) != tree.structure(Model(1, 2, "second"))
    assert tree.map(lambda x: -x, model) == Model(-1, -2, "first")
    assert [tree.keystr(path) for path, _ in tree.leaves_with_path(model)] == [".weight", ".bias"]


def test_fields_of_a_dataclass_can_be_named_and_dropped():
    @dataclasses.dataclass
    class Point:
        x: object
        y: object
        cache: object = None

    tree_util.register_dataclass(Point, data_fields=["x"], meta_fields=["y"], drop_fields=["cache"])
    assert tree.map(lambda x: x + 1, Point(1, "static", "cached")) == Point(2, "static", None)


def test_wrong_fields_are_named():
    @dataclasses.dataclass
    class Point:
        x: object
        y: object

    with pytest.raises(ValueError, match=r"missing \['y'\], unexpected \['z'\]"):
        tree_util.register_dataclass(Point, data_fields=["x"], meta_fields=["z"])
    with pytest.raises(ValueError, match="no default"):
        tree_util.register_dataclass(Point, data_fields=["x"], meta_fields=[], drop_fields=["y"])
    with pytest.raises(TypeError, match="together"):
        tree_util.register_dataclass(Point, data_fields=["x"])
    with pytest.raises(TypeError, match=r"dataclasses\.dataclass first"):
        tree_util.register_dataclass(int)


def test_objects_of_a_static_class_are_structure():
    @tree_util.register_static
    class Name(str):
        pass

    assert tree.leaves([Name("a"), 1]) == [1]
    assert tree.structure(Name("a")) == tree.structure(Name("a")) != tree.structure(Name("b"))


def test_partial_is_a_node_of_its_arguments():
    add = tree_util.Partial(lambda x, y: x + y, 1)
    assert tree.map(lambda x: x + 10, add)(2) == 13
    assert tree_util.Partial(max, 1, key=None)(5) == 5
    inner = functools.partial(max, 7)
    nested = tree_util.Partial(inner, 3)
    assert tree.leaves(nested) == [3] and nested(1) == 7
    assert tree.structure(nested) == tree.structure(tree_util.Partial(inner, 4))
    assert tree.leaves(tree_util.Partial(tree_util.Partial(max, 7), 3)) == [3]


def test_one_level_at_a_time():
    assert tree_util.flatten_one_level({"b": [1], "a": 2}) == ((2, [1]), ("a", "b"))
    children, _ = tree_util.flatten_one_level_with_keys((5, [6]))
    assert [(key.idx, child) for key, child in children] == [(0, 5), (1, [6])]
    with pytest.raises(ValueError, match="leaf"):
        tree_util.flatten_one_level(5)
