# SPDX-License-Identifier: Apache-2.0
"""What tools/house.py asks of docstrings, on small functions."""

import ast

import pytest

from tools import house


def faults(source: str, head: str = "") -> list[str]:
    (function,) = ast.parse(source).body
    return list(house.untold(function, house.sections(head)))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('def f(x):\n    """Twice x."""\n    raise ValueError', "say when it raises ValueError"),
        ('def f(x):\n    """Twice x."""\n    raise errors.ShapeError("no")', "say when it raises ShapeError"),
        ('def f(x):\n    """Twice x."""\n    def g():\n        raise KeyError', "say when it raises KeyError"),
        ('def f(x, y):\n    """Twice x."""', "tell the argument y"),
        ('def f(x, y, *z):\n    """Of x, y and z."""', "tell the 3 arguments in a section Parameters"),
        (
            'def f(x, y):\n    """Of both.\n\n    Parameters\n    ----------\n    x : y\n    """',
            "tell the arguments y in the section Parameters",
        ),
        ('def f(x) -> Any:\n    """Twice x."""', "say which dtype or shape"),
    ],
)
def test_what_a_docstring_leaves_out_is_named(source: str, said: str) -> None:
    (fault,) = faults(source)
    assert fault.startswith(said)


@pytest.mark.parametrize(
    "source",
    [
        'def f(x) -> Any:\n    """Twice x, of its dtype."""\n    error = ValueError()\n    raise error',
        'def f(x, y) -> int:\n    """How often x has y."""',
        'def f(x) -> None:\n    """Look at x.\n\n    Raises\n    ------\n    TypeError, ValueError\n    """\n    raise TypeError',
        'def f(x, y, z) -> Any:\n    """Sum.\n\n    Parameters\n    ----------\n    x, y : array\n    *z : array\n\n    Returns\n    -------\n    array\n    """',
    ],
)
def test_docstrings_that_tell_everything_pass(source: str) -> None:
    assert faults(source) == []


def test_the_docstring_of_the_module_tells_what_its_functions_share() -> None:
    source = 'def f(x, axis, keepdims) -> Any:\n    """Sum of x."""'
    head = "Sums.\n\nResults have the dtype of x.\n\nParameters\n----------\naxis, keepdims : optional\n    As usual."
    assert faults(source, head) == []
    assert len(faults(source)) == 2
