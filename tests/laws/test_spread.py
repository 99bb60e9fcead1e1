# SPDX-License-Identifier: Apache-2.0
"""Laws of explicit mesh axes: an operation on values that are cut gives what it gives on whole ones, where its type says, or refuses."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import purax
from purax import numpy as pnp
from purax.errors import ShardingTypeError
from purax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from tests.laws.gather import SAMPLES, differentiable, is_float, label
from tests.laws.sample import Sample
from tests.laws.test_laws import assert_close, tolerance_of


def chosen():
    """Up to three samples of each primitive that have an axis which 2 or 3 devices can share."""
    found: dict[str, list[Sample]] = {}
    for sample in SAMPLES:
        if type(sample) is Sample and pieces(sample) and len(found.setdefault(sample.primitive.name, [])) < 3:
            found[sample.primitive.name].append(sample)
    return [s for row in found.values() for s in row]


def pieces(sample):
    """Operand, axis and number of pieces of one way to cut a sample, drawn by its name; None if there is none."""
    ways = [
        (i, axis, n)
        for i, x in enumerate(sample.operands)
        for axis, size in enumerate(x.shape)
        for n in (2, 3)
        if size and size % n == 0
    ]
    return ways[zlib.crc32(str(sample).encode()) % len(ways)] if ways else None


def mesh_of(count):
    return Mesh(np.array(purax.devices()[:count]), ("x",), axis_types=(AxisType.Explicit,))


def placed(sample):
    """The operands: one is cut, and those of its shape with it; the others are whole on each device."""
    which, axis, count = pieces(sample)
    mesh, shape = mesh_of(count), sample.operands[which].shape
    spec = PartitionSpec(*[None] * axis, "x")
    return [
        purax.device_put(x, NamedSharding(mesh, spec if x.shape == shape else PartitionSpec())) for x in sample.operands
    ]


def check_place(x):
    assert x.aval.spread is not None
    assert x.sharding.spec == x.aval.sharding.spec


CHOSEN = chosen()
SMOOTH = [s for s in CHOSEN if differentiable(s) and any(map(is_float, s.reference(*s.operands)))]


@pytest.mark.xla
@pytest.mark.parametrize("sample", CHOSEN, ids=label)
def test_cut_operands_give_the_same_values(sample):
    function = purax.jit(lambda *xs: sample.apply(*xs))
    try:
        results = function(*placed(sample))
    except ShardingTypeError as error:
        assert sample.primitive.name in str(error)
        return
    expected = sample.reference(*sample.operands)
    for actual, want in zip(results, expected, strict=True):
        check_place(actual)
        want = np.asarray(want)
        assert_close(np.asarray(actual), want, max(tolerance_of(sample, want.dtype), 1e-6))


@pytest.mark.xla
@pytest.mark.parametrize(
    "sample", [s for s in CHOSEN if differentiable(s) and any(map(is_float, s.reference(*s.operands)))], ids=label
)
def test_derivatives_lie_as_what_they_belong_to(sample):
    own = differentiable(sample)

    def loss(*values):
        operands = list(given)
        for i, x in zip(own, values, strict=True):
            operands[i] = x
        outs = [x for x in sample.apply(*operands) if is_float(x)]
        return sum(pnp.sum(pnp.real(x * np.linspace(1, 2, x.size).reshape(x.shape).astype(x.dtype))) for x in outs)

    given = placed(sample)
    gradient = purax.jit(purax.grad(loss, argnums=tuple(range(len(own)))))
    try:
        found = gradient(*[given[i] for i in own])
    except ShardingTypeError:
        return
    cut = given
    given = [pnp.asarray(x) for x in sample.operands]
    expected = gradient.__wrapped__(*[given[i] for i in own])
    for i, actual, want in zip(own, found, expected, strict=True):
        assert actual.aval.spread is cut[i].aval.spread
        assert_close(np.asarray(actual), np.asarray(want), 10 * tolerance_of(sample, want.dtype))


@pytest.mark.xla
@pytest.mark.parametrize("sample", CHOSEN, ids=label)
def test_lanes_that_lie_on_different_devices_give_the_same_values(sample):
    mesh = mesh_of(2)
    lanes = [np.stack([x, np.roll(x.reshape(-1), 1).reshape(x.shape)]) for x in sample.operands]
    mapped = purax.vmap(lambda *xs: sample.apply(*xs))
    sharding = NamedSharding(mesh, PartitionSpec("x"))
    try:
        results = purax.jit(mapped)(*[purax.device_put(x, sharding) for x in lanes])
    except ShardingTypeError:
        return
    expected = mapped(*lanes)
    for actual, want in zip(results, expected, strict=True):
        check_place(actual)
        assert_close(np.asarray(actual), np.asarray(want), max(tolerance_of(sample, want.dtype), 1e-6))


@pytest.mark.xla
@pytest.mark.parametrize("sample", SMOOTH, ids=label)
def test_cotangents_of_reduced_operands_are_terms_of_the_gradient(sample):
    own = differentiable(sample)
    reduced = NamedSharding(mesh_of(2), PartitionSpec(reduced={"x"}))

    def gradient(operands):
        def loss(*values):
            given = list(operands)
            for i, x in zip(own, values, strict=True):
                given[i] = x
            outs = [x for x in sample.apply(*given) if is_float(x)]
            return sum(pnp.sum(pnp.real(x * np.linspace(1, 2, x.size).reshape(x.shape).astype(x.dtype))) for x in outs)

        return purax.jit(purax.grad(loss, argnums=tuple(range(len(own)))))(*[operands[i] for i in own])

    try:
        found = gradient([purax.device_put(x, reduced) for x in sample.operands])
    except ShardingTypeError:
        return
    expected = gradient([pnp.asarray(x) for x in sample.operands])
    for actual, want in zip(found, expected, strict=True):
        assert actual.aval.spread.unreduced == {"x"}
        assert_close(np.asarray(actual), np.asarray(want), 10 * tolerance_of(sample, want.dtype))


@pytest.mark.xla
@pytest.mark.parametrize("sample", [s for s in CHOSEN if s.linear], ids=label)
def test_terms_of_a_sum_go_through_what_is_linear(sample):
    unreduced = NamedSharding(mesh_of(2), PartitionSpec(unreduced={"x"}))
    given = [purax.device_put(x, unreduced) if i in sample.linear else x for i, x in enumerate(sample.operands)]
    try:
        results = purax.jit(lambda *xs: sample.apply(*xs))(*given)
    except ShardingTypeError:
        return
    for actual, want in zip(results, sample.reference(*sample.operands), strict=True):
        want = np.asarray(want)
        assert_close(np.asarray(actual), want, max(tolerance_of(sample, want.dtype), 1e-6))
