# SPDX-License-Identifier: Apache-2.0
"""Rotations of three-dimensional space, held as unit quaternions (x, y, z, w), and interpolation between them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from purax import dtypes, random
from purax import numpy as pnp
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact

__all__ = ["Rotation", "Slerp"]


# --- quaternions, rotation vectors, matrices: all map over leading axes -------------------------------------------------------


def _operand(name: str, x: Any) -> Any:
    check_arraylike(name, x)
    return promote_dtypes_inexact(x)[0]


def _unit(q: Any) -> Any:
    return q / pnp.linalg.norm(q, axis=-1, keepdims=True)


def _product(p: Any, q: Any) -> Any:
    """The rotation q, then p."""
    v, w, u, s = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    vector = w * u + s * v + pnp.cross(v, u)
    return pnp.concatenate([vector, w * s - pnp.sum(v * u, axis=-1, keepdims=True)], axis=-1)


def _conjugate(q: Any) -> Any:
    return q * pnp.asarray(np.array([-1, -1, -1, 1]).reshape((1,) * (q.ndim - 1) + (4,)), q.dtype)


def _matrix(q: Any) -> Any:
    x, y, z, w = (q[..., i] for i in range(4))
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
    ]
    return pnp.stack([pnp.stack(row, axis=-1) for row in rows], axis=-2)


def _from_matrix(m: Any) -> Any:
    """By the largest of the four components, which loses no digits."""
    d = [m[..., i, i] for i in range(3)]
    trace = d[0] + d[1] + d[2]
    candidates = [
        pnp.stack(
            [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1], 1 + trace], -1
        )
    ]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts: list[Any] = [None] * 4
        parts[i] = 1 - trace + 2 * d[i]
        parts[j], parts[k] = m[..., j, i] + m[..., i, j], m[..., k, i] + m[..., i, k]
        parts[3] = m[..., k, j] - m[..., j, k]
        candidates.append(pnp.stack(parts, axis=-1))
    choice = pnp.argmax(pnp.stack([trace, *d], axis=-1), axis=-1)[..., None]
    out = candidates[0]
    for i in range(3):
        out = pnp.where(choice == i + 1, candidates[i + 1], out)
    return _unit(out)


def _sinc_half(angle: Any) -> Any:
    """sin(angle / 2) / angle, smooth at 0."""
    small = angle < 1e-3
    series = 0.5 - angle**2 / 48 + angle**4 / 3840
    safe = pnp.where(small, 1, angle)
    return pnp.where(small, series, pnp.sin(safe / 2) / safe)


def _norm(v: Any) -> Any:
    return pnp.linalg.norm(v, axis=-1, keepdims=True)


def _from_rotvec(v: Any) -> Any:
    angle = _norm(v)
    return pnp.concatenate([v * _sinc_half(angle), pnp.cos(angle / 2)], axis=-1)


def _rotvec(q: Any) -> Any:
    q = pnp.where(q[..., 3:] < 0, -q, q)
    length = _norm(q[..., :3])
    angle = 2 * pnp.arctan2(length, q[..., 3:])
    small = angle < 1e-3
    series = 2 + angle**2 / 12 + 7 * angle**4 / 2880
    scale = pnp.where(small, series, angle / pnp.where(small, 1, pnp.sin(angle / 2)))
    return q[..., :3] * scale


def _axis_turn(axis: int, angle: Any) -> Any:
    parts = [pnp.zeros_like(angle)] * 3
    parts[axis] = pnp.sin(angle / 2)
    return pnp.stack([*parts, pnp.cos(angle / 2)], axis=-1)


def _sequence(seq: str) -> tuple[list[int], bool]:
    """Axes, and whether they turn along (capitals)."""
    if not re.fullmatch("[xyz]{1,3}|[XYZ]{1,3}", seq):
        raise ValueError(f"Expected axes to be 1 to 3 of 'xyz' or of 'XYZ', got {seq}")
    if any(a == b for a, b in itertools.pairwise(seq)):
        raise ValueError(f"two turns about one axis in a row are one turn, got axes {seq!r}")
    return ["xyz".index(c) for c in seq.lower()], seq.isupper()


def _euler(q: Any, seq: str) -> Any:
    """Angles from the quaternion directly (Bernardes, Viollet, 2022)."""
    if len(seq) != 3:
        raise ValueError(f"Expected 3 axes, got {seq}.")
    axes, along = _sequence(seq)
    i, j, k = axes if not along else axes[::-1]
    symmetric = i == k
    if symmetric:
        k = 3 - i - j
    sign = (i - j) * (j - k) * (k - i) // 2
    w = q[..., 3]
    a, b, c, d = (
        (w, q[..., i], q[..., j], q[..., k] * sign)
        if symmetric
        else (w - q[..., j], q[..., i] + q[..., k] * sign, q[..., j] + w, q[..., k] * sign - q[..., i])
    )
    middle = 2 * pnp.arctan2(pnp.hypot(c, d), pnp.hypot(a, b))
    locked_low, locked_high = middle <= 1e-7, middle >= math.pi - 1e-7
    half_sum, half_difference = pnp.arctan2(b, a), pnp.arctan2(d, c)
    locked = locked_low | locked_high
    first = half_sum - half_difference
    last = half_sum + half_difference
    if along:
        free, lock_low, lock_high = last, 2 * half_sum, 2 * half_difference
        first, last = pnp.where(locked, pnp.where(locked_low, lock_low, lock_high), free), pnp.where(locked, 0, first)
    else:
        lock = pnp.where(locked_low, 2 * half_sum, -2 * half_difference)
        first, last = pnp.where(locked, lock, first), pnp.where(locked, 0, last)
    if not symmetric:
        middle = middle - math.pi / 2
        if along:
            first = first * sign
        else:
            last = last * sign
    angles = pnp.stack([first, middle, last], axis=-1)
    return pnp.where(angles < -math.pi, angles + 2 * math.pi, pnp.where(angles > math.pi, angles - 2 * math.pi, angles))


# --- classes ------------------------------------------------------------------------------------------------------------------


class Rotation(NamedTuple):
    """One rotation, or a row of them.

    Parameters
    ----------
    quat : float[4] or float[n, 4]
        Unit quaternions (x, y, z, w).
    """

    quat: Any

    @classmethod
    def concatenate(cls, rotations: Sequence[Any]) -> Rotation:
        """All rotations in one row."""
        return cls(pnp.concatenate([pnp.atleast_2d(r.quat) for r in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Turns about the axes `seq`, one after another: fixed ("xyz") or turning along ("XYZ").

        Parameters
        ----------
        seq : str of 1 to 3 axes
        angles : float[] (one axis), float[len(seq)] or float[n, len(seq)]
        degrees : bool
        """
        axes, along = _sequence(seq)
        angles = _operand("Rotation.from_euler", angles)
        if degrees:
            angles = pnp.deg2rad(angles)
        if angles.ndim == 0:
            angles = angles[None]
        if angles.shape[-1] != len(axes):
            raise ValueError(f"Expected angles of {len(axes)} axes, got shape {angles.shape}")
        total = _axis_turn(axes[0], angles[..., 0])
        for place, axis in enumerate(axes[1:], 1):
            turn = _axis_turn(axis, angles[..., place])
            total = _product(total, turn) if along else _product(turn, total)
        return cls(total)

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """Of orthogonal matrices float[..., 3, 3]."""
        return cls(_from_matrix(_operand("Rotation.from_matrix", matrix)))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """Of modified Rodrigues parameters float[..., 3]: tan(angle / 4) times the axis."""
        mrp = _operand("Rotation.from_mrp", mrp)
        square = pnp.sum(mrp * mrp, axis=-1, keepdims=True)
        return cls(pnp.concatenate([2 * mrp, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """Of quaternions float[..., 4] of any length but 0."""
        return cls(_unit(_operand("Rotation.from_quat", quat)))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """Of vectors float[..., 3] along the axis whose length is the angle."""
        rotvec = _operand("Rotation.from_rotvec", rotvec)
        return cls(_from_rotvec(pnp.deg2rad(rotvec) if degrees else rotvec))

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """No rotation, or `num` of it."""
        quat = pnp.asarray([0, 0, 0, 1], dtypes.named(dtype))
        return cls(quat if num is None else pnp.tile(quat, (num, 1)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """Uniformly distributed rotations."""
        return cls(_unit(random.normal(random_key, (4,) if num is None else (num, 4))))

    def __getitem__(self, indexer: Any) -> Rotation:
        """Some of the row."""
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        """Number of rotations in the row."""
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    def __mul__(self, other: Any) -> Rotation:
        """The rotation `other`, then this."""
        p, q = self.quat, other.quat
        if p.ndim != q.ndim:
            p, q = pnp.atleast_2d(p), pnp.atleast_2d(q)
        return Rotation(_product(*pnp.broadcast_arrays(p, q)))

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """The vectors float[3] or float[n, 3], rotated (back, if `inverse`)."""
        vectors = _operand("Rotation.apply", vectors)
        matrix = self.as_matrix()
        if inverse:
            matrix = pnp.matrix_transpose(matrix)
        if matrix.ndim == 2 and vectors.ndim == 1:
            return pnp.matmul(matrix, vectors, precision="highest")
        matrix, vectors = pnp.reshape(matrix, (-1, 3, 3)), pnp.atleast_2d(vectors)
        return pnp.sum(matrix * vectors[:, None, :], axis=-1)

    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """Angles float[..., 3] about the axes `seq`, as in `from_euler`; where two axes coincide, the third angle is 0."""
        angles = _euler(self.quat, seq)
        return pnp.rad2deg(angles) if degrees else angles

    def as_matrix(self) -> Any:
        """Matrices float[..., 3, 3]."""
        return _matrix(self.quat)

    def as_mrp(self) -> Any:
        """Modified Rodrigues parameters float[..., 3] of the shorter way."""
        q = pnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return q[..., :3] / (1 + q[..., 3:])

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Any:
        """Quaternions float[..., 4]; `canonical`: the first of w, x, y, z that is not 0 is positive; `scalar_first`: w first."""
        q = self.quat
        if canonical:
            order = pnp.concatenate([q[..., 3:], q[..., :3]], axis=-1)
            first = pnp.take_along_axis(order, pnp.argmax(order != 0, axis=-1)[..., None], axis=-1)
            q = pnp.where(first < 0, -q, q)
        return pnp.concatenate([q[..., 3:], q[..., :3]], axis=-1) if scalar_first else q

    def as_rotvec(self, degrees: bool = False) -> Any:
        """Vectors float[..., 3] along the axis, their length the angle."""
        vector = _rotvec(self.quat)
        return pnp.rad2deg(vector) if degrees else vector

    def inv(self) -> Rotation:
        """The rotation back."""
        return Rotation(_conjugate(self.quat))

    def magnitude(self) -> Any:
        """Angles float[...], from 0 to pi."""
        return 2 * pnp.arctan2(_norm(self.quat[..., :3])[..., 0], pnp.abs(self.quat[..., 3]))

    def mean(self, weights: Any = None) -> Rotation:
        """The rotation of the smallest (weighted) sum of squared chordal distances."""
        q = pnp.atleast_2d(self.quat)
        weights = pnp.ones(q.shape[0], q.dtype) if weights is None else pnp.asarray(weights, q.dtype)
        if weights.shape != (q.shape[0],):
            raise ValueError(f"there must be one weight for each of {len(q)} rotations, got shape {weights.shape}")
        moments = pnp.matmul(q.T * weights[None], q, precision="highest")
        return Rotation(pnp.linalg.eigh(moments).eigenvectors[:, -1])

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not a row."""
        return self.quat.ndim == 1


class Slerp(NamedTuple):
    """Interpolation between rotations at a constant rate; make it by `Slerp.init`.

    Parameters
    ----------
    times : float[n]
    timedelta : float[n - 1]
    rotations : Rotation
        The first n - 1.
    rotvecs : float[n - 1, 3]
        From each to the next.
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """From ascending times float[n] and n rotations.

        Raises
        ------
        ValueError
            Fewer than two rotations, or not as many times.
        """
        if rotations.single or len(rotations) < 2:
            raise ValueError("Slerp goes from rotation to rotation: it needs two or more")
        times = pnp.asarray(times, rotations.quat.dtype)
        if times.shape != (len(rotations),):
            raise ValueError(f"there must be one time for each of {len(rotations)} rotations, got shape {times.shape}")
        before, after = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(times, pnp.diff(times), before, (before.inv() * after).as_rotvec())

    def __call__(self, times: Any) -> Rotation:
        """The rotations at times float[] or float[m] within the range."""
        at = pnp.asarray(times, self.times.dtype)
        flat = pnp.atleast_1d(at)
        cell = pnp.clip(pnp.searchsorted(self.times, flat) - 1, 0, self.timedelta.shape[0] - 1)
        share = (flat - self.times[cell]) / self.timedelta[cell]
        found = self.rotations[cell] * Rotation.from_rotvec(self.rotvecs[cell] * share[:, None])
        return found[0] if at.ndim == 0 else found
