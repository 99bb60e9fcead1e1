# SPDX-License-Identifier: Apache-2.0
"""The laws: each holds for every sample of every primitive."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from purax import config, contexts
from purax.core import verify
from purax.core.axes import Axis
from purax.core.interpret import reference_eval
from purax.core.ir import open_constants
from purax.core.primitive import Undefined
from purax.core.stage import stage
from purax.core.trace import aval_of
from purax.pipeline.compile import compile_jaxpr
from purax.pipeline.evaluate import as_array, evaluate, quiet
from purax.transforms.jet import jet_flat
from purax.transforms.jvp import jvp_flat
from purax.transforms.reverse import linearize_flat
from purax.transforms.transpose import linear_transpose
from purax.transforms.vmap import batch_flat
from tests.laws.gather import (
    BAD_SAMPLES,
    SAMPLES,
    differentiable,
    is_float,
    label,
    on_reference,
    widened,
    without_samples,
)

TOLERANCE = {
    "float64": 1e-10,
    "complex128": 1e-10,
    "float32": 2e-5,
    "complex64": 2e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
}


def rng_of(sample):
    return np.random.default_rng(zlib.crc32(str(sample).encode()))


def tolerance_of(sample, dtype):
    own = sample.tolerance or 0.0
    return max(own, TOLERANCE.get(np.dtype(dtype).name, 0.0))


def assert_close(actual, expected, tolerance):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    if not is_float(actual):
        np.testing.assert_array_equal(actual, expected)
        return
    wide = np.complex128 if np.dtype(actual.dtype).kind == "c" else np.float64
    actual, expected = actual.astype(wide), expected.astype(wide)
    scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * max(scale, 1e-30))


def has_rule(primitive, name):
    return not isinstance(getattr(primitive, name), Undefined)


@pytest.mark.xla
@pytest.mark.parametrize("sample", SAMPLES, ids=label)
def test_the_compiled_program_means_what_reference_says(sample):
    expected = sample.reference(*sample.operands)
    arrays = [as_array(x) for x in sample.operands]
    jaxpr, consts = open_constants(stage(sample.apply, [x.aval for x in arrays]))
    verify.verify(jaxpr)
    results = compile_jaxpr(jaxpr, sample.primitive.name).call([*map(as_array, consts), *arrays])
    assert len(results) == len(expected)
    for actual, want, aval in zip(results, expected, jaxpr.out_avals, strict=True):
        assert actual.aval is aval
        want = np.asarray(want)
        assert want.dtype == aval.dtype, "reference keeps the dtype that infer gives"
        if sample.exact():
            assert_same_bits(np.asarray(actual), want)
        else:
            assert_close(np.asarray(actual), want, tolerance_of(sample, aval.dtype))


def assert_same_bits(actual, expected):
    """Equal to the last bit, signed zeros included; payloads of NaN aside."""
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    if is_float(actual):
        np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
        keep = ~np.isnan(expected)
        np.testing.assert_array_equal(actual[keep], expected[keep])
        np.testing.assert_array_equal(np.signbit(actual.real[keep]), np.signbit(expected.real[keep]))
    else:
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("sample", SAMPLES, ids=label)
def test_staging_records_what_evaluation_computes(sample):
    closed = stage(sample.apply, [aval_of(x) for x in sample.operands])
    verify.verify(closed.jaxpr)
    expected = sample.reference(*sample.operands)
    for actual, want in zip(
        quiet(reference_eval, closed.jaxpr, closed.consts, *sample.operands), expected, strict=True
    ):
        assert_close(np.asarray(actual), np.asarray(want), 0.0)


def smooth_samples():
    return [
        s
        for s in SAMPLES
        if differentiable(s) and all(np.dtype(x.dtype).itemsize >= 4 for x in s.operands if is_float(x))
    ]


def direction(sample, rng):
    """A random tangent for each differentiable operand, None for the others."""
    chosen = differentiable(sample)
    tangents = []
    for i, x in enumerate(sample.operands):
        x = widened(x)
        if i not in chosen:
            tangents.append(None)
        elif x.dtype.kind == "c":
            tangents.append(rng.standard_normal(x.shape) + 1j * rng.standard_normal(x.shape))
        else:
            tangents.append(rng.standard_normal(x.shape))
    return tangents


def derivative(sample, operands, tangents):
    outs, out_tangents = jvp_flat(sample.apply, operands, tangents)
    return [np.asarray(o) for o in outs], [None if t is None else np.asarray(t) for t in out_tangents]


def difference(function, operands, tangents, step=1e-6):
    """Central difference along the tangents."""

    def shifted(sign):
        return [x if t is None else x + sign * step * t for x, t in zip(operands, tangents, strict=True)]

    high, low = function(shifted(+1)), function(shifted(-1))
    pairs = [(np.asarray(h), np.asarray(w)) for h, w in zip(high, low, strict=True)]
    return [(h - w) / (2 * step) if is_float(h) else None for h, w in pairs]


@pytest.mark.parametrize("sample", smooth_samples(), ids=label)
def test_the_jvp_rule_is_the_derivative(sample):
    rng = rng_of(sample)
    with contexts.enable_x64(True), on_reference():
        operands = [widened(x) for x in sample.operands]
        tangents = direction(sample, rng)
        outs, out_tangents = derivative(sample, operands, tangents)
        expected = difference(lambda xs: [np.asarray(o) for o in sample.apply(*xs)], operands, tangents)
        for out, tangent, want in zip(outs, out_tangents, expected, strict=True):
            if not is_float(out):
                assert tangent is None
                continue
            got = np.zeros_like(out) if tangent is None else tangent
            assert got.dtype == out.dtype
            if np.finfo(out.dtype).bits < 64:  # a difference of narrow floats has no digits to compare
                continue
            keep = np.isfinite(want)
            scale = np.max(np.abs(want[keep]), initial=1.0)
            np.testing.assert_allclose(got[keep], want[keep], rtol=max(1e-5, sample.tolerance or 0), atol=1e-6 * scale)


@pytest.mark.parametrize("sample", smooth_samples(), ids=label)
def test_forward_and_reverse_mode_are_adjoint(sample):
    rng = rng_of(sample)
    with contexts.enable_x64(True), on_reference():
        operands = [widened(x) for x in sample.operands]
        tangents = direction(sample, rng)
        outs, out_tangents = derivative(sample, operands, tangents)
        _, tape = linearize_flat(sample.apply, operands, [t is not None for t in tangents])
        assert [t is None for t in tape.outputs] == [t is None for t in out_tangents]
        cotangents = [
            rng.standard_normal(o.shape) if t is not None else None for o, t in zip(outs, out_tangents, strict=True)
        ]
        cotangents = [None if c is None else c.astype(o.dtype) for c, o in zip(cotangents, outs, strict=True)]
        pulled = tape.backward([c if t is not None else None for c, t in zip(cotangents, tape.outputs, strict=True)])
        forward = sum(np.sum(t * c) for t, c in zip(out_tangents, cotangents, strict=True) if c is not None)
        reverse = sum(
            np.sum(t * np.asarray(p)) for t, p in zip(tangents, pulled, strict=True) if t is not None and p is not None
        )
        for p, x in zip(pulled, operands, strict=True):
            if p is not None:
                assert (np.asarray(p).shape, np.asarray(p).dtype) == (x.shape, x.dtype)
        if np.isfinite(forward):
            # The real part: for maps between real and complex spaces the pairing Re(sum(t * c)) is the one that is kept.
            np.testing.assert_allclose(np.real(reverse), np.real(forward), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.linear], ids=label)
def test_the_transpose_rule_is_the_adjoint(sample):
    rng = rng_of(sample)
    with contexts.enable_x64(True), on_reference():
        operands = [widened(x) for x in sample.operands]

        def drawn():
            return [rng.standard_normal(operands[i].shape).astype(operands[i].dtype) for i in sample.linear]

        def linear(*given):
            chosen = dict(zip(sample.linear, given, strict=True))
            return list(sample.apply(*[chosen.get(i, x) for i, x in enumerate(operands)]))

        x, y = drawn(), drawn()
        outs, others = [np.asarray(o) for o in linear(*x)], [np.asarray(o) for o in linear(*y)]
        for total, one, other in zip(linear(*[a + b for a, b in zip(x, y, strict=True)]), outs, others, strict=True):
            close = max(1e-9, tolerance_of(sample, one.dtype))
            np.testing.assert_allclose(
                widened(np.asarray(total)), widened(one) + widened(other), rtol=close, atol=close
            )
        cotangents = [rng.standard_normal(o.shape).astype(o.dtype) for o in outs]
        pulled = linear_transpose(linear, *x)(cotangents)
        forward = sum(np.sum(widened(o) * widened(c)) for o, c in zip(outs, cotangents, strict=True))
        reverse = sum(np.sum(a * widened(np.asarray(p))) for a, p in zip(x, pulled, strict=True))
        close = max([1e-9, *[tolerance_of(sample, o.dtype) for o in outs]])
        np.testing.assert_allclose(np.real(reverse), np.real(forward), rtol=close, atol=close)


@pytest.mark.parametrize("sample", smooth_samples(), ids=label)
def test_the_derivative_of_the_derivative_is_right(sample):
    rng = rng_of(sample)
    with contexts.enable_x64(True), on_reference():
        operands = [widened(x) for x in sample.operands]
        first, second = direction(sample, rng), direction(sample, rng)

        def tangent_only(*xs):
            _, out_tangents = jvp_flat(sample.apply, xs, first)
            return [t for t in out_tangents if t is not None]

        _, nested = jvp_flat(tangent_only, operands, second)
        expected = difference(lambda xs: [np.asarray(t) for t in tangent_only(*xs)], operands, second)
        for got, want in zip(nested, expected, strict=True):
            got = np.zeros_like(want) if got is None else np.asarray(got)
            keep = np.isfinite(want)
            scale = np.max(np.abs(want[keep]), initial=1.0)
            np.testing.assert_allclose(got[keep], want[keep], rtol=max(1e-4, sample.tolerance or 0), atol=1e-5 * scale)


@pytest.mark.parametrize("sample", smooth_samples(), ids=label)
def test_taylor_mode_agrees_with_the_derivative_along_a_curve(sample):
    """The second coefficient of `f(x(t))` is half the derivative of `f'(x(t)) x'(t)` by `t`."""
    rng = rng_of(sample)
    with contexts.enable_x64(True), on_reference():
        operands = [widened(x) for x in sample.operands]
        first, second = direction(sample, rng), direction(sample, rng)
        curve = [None if v is None else [v, w] for v, w in zip(first, second, strict=True)]
        _, terms = jet_flat(sample.apply, operands, curve, 2)
        _, slopes = derivative(sample, operands, first)

        def slope(t):
            at = [x if v is None else x + t * v + t * t * w for x, v, w in zip(operands, first, second, strict=True)]
            along = [None if v is None else v + 2 * t * w for v, w in zip(first, second, strict=True)]
            return derivative(sample, at, along)[1]

        step = 1e-6
        high, low = slope(step), slope(-step)
        for row, s, h, w in zip(terms, slopes, high, low, strict=True):
            if s is None or h is None or w is None or np.finfo(s.dtype).bits < 64:
                continue
            got = [np.zeros_like(s) if t is None else np.asarray(t) for t in (row or (None, None))]
            for found, want, tolerance in ((got[0], s, 1e-9), (got[1], (h - w) / (4 * step), 1e-4)):
                keep = np.isfinite(want)
                scale = np.max(np.abs(want[keep]), initial=1.0)
                own = max(tolerance, sample.tolerance or 0)
                np.testing.assert_allclose(found[keep], want[keep], rtol=own, atol=tolerance * scale)


def batch_choices(sample):
    """Which operands are mapped, and where: all in front, each alone at its end."""
    count = len(sample.operands)
    choices = [tuple(0 for _ in range(count))] if count else []
    choices += [
        tuple(sample.operands[i].ndim if i == j else None for i in range(count)) for j in range(count) if count > 1
    ]
    return dict.fromkeys(choices)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if has_rule(s.primitive, "batch")], ids=label)
def test_mapping_equals_stacking(sample):
    lanes = 3
    for dims in batch_choices(sample):
        stacked, per_lane = [], []
        for x, d in zip(sample.operands, dims, strict=True):
            copies = [x if lane == 0 else perturbed(x, lane) for lane in range(lanes)]
            stacked.append(x if d is None else np.stack(copies, axis=d))
            per_lane.append([x] * lanes if d is None else copies)
        with on_reference():
            outs, out_dims = batch_flat(sample.apply, Axis(None, lanes), [as_array(x) for x in stacked], dims)
        for lane in range(lanes):
            expected = sample.reference(*[copies[lane] for copies in per_lane])
            for out, d, want in zip(outs, out_dims, expected, strict=True):
                got = np.asarray(out) if d is None else np.take(np.asarray(out), lane, axis=d)
                want = np.asarray(want)
                assert_close(got, want, tolerance_of(sample, want.dtype))


def perturbed(x, lane):
    """Another valid operand of the same kind: the elements in another order."""
    flat = np.roll(np.asarray(x).reshape(-1), lane)
    return flat.reshape(np.shape(x)).astype(x.dtype)


@pytest.mark.parametrize("bad", BAD_SAMPLES, ids=label)
def test_bad_operands_raise_a_clear_error(bad):
    with pytest.raises(bad.error) as caught:
        evaluate(bad.primitive, tuple(as_array(x) for x in bad.operands), bad.params)
    assert bad.message in str(caught.value)


def test_every_primitive_has_samples():
    assert not without_samples()


def test_the_verifier_is_on():
    assert config.enable_checks
