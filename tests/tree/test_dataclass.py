# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest

from purax import tree
from purax.tree.dataclass import PyTreeNode, dataclass, field


@dataclass
class State:
    step: int
    params: object
    name: str = field(pytree_node=False, default="run")


class Node(PyTreeNode):
    value: object
    size: int = field(pytree_node=False, default=1)


def test_a_struct_is_frozen_and_a_node():
    state = State(1, {"w": 2})
    assert tree.leaves(state) == [1, 2]
    assert tree.map(lambda x: x + 1, state) == State(2, {"w": 3})
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.step = 5


def test_replace_changes_some_fields():
    assert State(1, 2).replace(step=3, name="other") == State(3, 2, "other")
    with pytest.raises(TypeError):
        State(1, 2).replace(unknown=1)


def test_static_fields_are_structure():
    assert tree.structure(State(1, 2, "a")) != tree.structure(State(1, 2, "b"))


def test_the_base_class_needs_no_decorator_and_takes_options():
    assert tree.leaves(Node(3, 2)) == [3] and Node(3).replace(value=4) == Node(4)

    class Keyword(PyTreeNode, kw_only=True):
        value: object

    assert Keyword(value=1).replace(value=2).value == 2
    with pytest.raises(TypeError):
        Keyword(1)


def test_subclasses_add_fields_and_decorating_twice_is_harmless():
    @dataclass
    class More(State):
        extra: object = None

    assert dataclass(More) is More
    assert tree.leaves(More(1, 2, extra=3)) == [1, 2, 3]


def test_a_class_keeps_its_own_replace():
    @dataclass(frozen=False)
    class Own:
        value: object

        def replace(self, **updates):
            return "mine"

    assert Own(1).replace(value=2) == "mine"
    own = Own(1)
    own.value = 5
    assert tree.leaves(own) == [5]
