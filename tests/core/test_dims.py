# SPDX-License-Identifier: Apache-2.0
"""Sizes that are not known yet: what arithmetic and order say of them holds for every value of their variables."""

import itertools
import operator

import numpy as np
import pytest

from purax import errors
from purax.core.dims import Dim, SymbolicScope, bounds, evaluate, max_dim, min_dim, parse, variables, writing

SCOPE = SymbolicScope()
A, B = parse("a", SCOPE), parse("b", SCOPE)
VALUES = [dict(a=a, b=b) for a, b in itertools.product((1, 2, 3, 7, 10), (1, 2, 5, 6))]
OPERATIONS = [
    operator.add, operator.sub, operator.mul, max_dim, min_dim,
    lambda x, y: x // y if not at_most_zero(y) else x, lambda x, y: x % y if not at_most_zero(y) else y,
]  # fmt: skip


def at_most_zero(x):
    return bounds(x)[0] < 1


def random_expression(rng, depth, a, b):
    if depth == 0:
        return [a, b, int(rng.integers(-4, 9))][rng.integers(3)]
    operation = OPERATIONS[rng.integers(len(OPERATIONS))]
    return operation, random_expression(rng, depth - 1, a, b), random_expression(rng, depth - 1, a, b)


def compute(tree, values=None):
    """The expression with Dims, or with the ints that stand for them. Whether a division is made is the Dims' choice."""
    if not isinstance(tree, tuple):
        return tree if values is None or type(tree) is not Dim else values[str(tree)]
    operation, *parts = tree
    symbolic = [compute(part) for part in parts]
    if values is None:
        return operation(*symbolic)
    numbers = [compute(part, values) for part in parts]
    if operation in OPERATIONS[5:] and at_most_zero(symbolic[1]):
        return numbers[0] if operation is OPERATIONS[5] else numbers[1]
    return operation(*numbers)


@pytest.mark.parametrize("seed", range(60))
def test_expressions_have_the_values_of_python_s_integers(seed):
    tree = random_expression(np.random.default_rng(seed), 3, A, B)
    symbolic = compute(tree)
    low, high = bounds(symbolic)
    for values in VALUES:
        number = compute(tree, values)
        assert evaluate(symbolic, values) == number
        assert low <= number <= high
    assert parse(str(symbolic), SCOPE) == symbolic


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (A + A + 1, "2*a + 1"), (A - A, "0"), (B * A * A, "a^2*b"), ((A + 1) * (A - 1) // (A + 1), "a - 1"), (6 * A // 3, "2*a"),
        ((B + 13) % B, "mod(13, b)"), (-A + 3, "-a + 3"), (max_dim(A - 5, 0), "max(a - 5, 0)"), (max_dim(A, 1), "a"),
        ((A + B) ** 2, "b^2 + a^2 + 2*a*b"),
    ],
)  # fmt: skip
def test_one_normal_form(expression, text):
    assert str(expression) == text
    with writing():
        assert str(expression) == (f"«{text}»" if isinstance(expression, Dim) else text)


def test_order_is_decided_for_all_values_or_refused():
    assert A >= 1 and 2 * A > A and A + B >= 2 and not A < 1 and 3 * A != A and A == A and A < 2**31
    assert A + 5 - A % 4 >= 3
    for question in (lambda: A >= 2, lambda: A > B, lambda: A * A <= 4 * A):
        with pytest.raises(errors.InconclusiveDimensionOperation, match="depends on the values of dimension variables"):
            question()
    for use in (int, range, operator.index, float):
        with pytest.raises(errors.InconclusiveDimensionOperation, match="must be known"):
            use(A)


def test_constraints_decide_and_replace():
    scope = SymbolicScope(["a >= 8", "b <= 2*a", "mod(a, 4) == 0", "c == 3*b"])
    a, b = parse("a", scope), parse("b", scope)
    assert a >= 8 and 2 * a >= b and a % 4 == 0 and parse("c + 1", scope) == 3 * b + 1
    assert variables(parse("c*a", scope)) == {"a", "b"}
    for wrong in ("a > 3", "a", "2*a == 4", "a >= b >= c"):
        with pytest.raises(ValueError):
            SymbolicScope([wrong])


def test_scopes_do_not_mix():
    other = parse("a", SymbolicScope())
    assert other != A
    with pytest.raises(ValueError, match="two scopes"):
        A + other


@pytest.mark.parametrize("text", ["a +", "a.b", "f(a, b)", "mod(a)", "1.5", "a if b else 1", "'a'", "a/2"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="is no size"):
        parse(text, SCOPE)
