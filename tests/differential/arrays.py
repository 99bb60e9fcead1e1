# SPDX-License-Identifier: Apache-2.0
"""Functions of `purax.numpy` that make, reshape, join, cut and index arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.differential.draw import Drawer
from tests.differential.entry import Call, Entry, call

ALL = "biufhc"


def one(kinds: str = ALL, low: int = 0, high: int = 3, **options: Any) -> Entry:
    """A function of one array with `low` to `high` dimensions."""
    return Entry(lambda d: call(d.array(kinds, d.shape(low, high))), signs=True, **options)


def then(more: Callable[[Drawer, np.ndarray], Call], low: int = 0) -> Entry:
    """A function whose other arguments depend on the array that was drawn first, which has `low` dimensions at least."""
    return Entry(lambda d: more(d, d.array(ALL, d.shape(low))))


def many(d: Drawer, low: int = 1) -> tuple[list[np.ndarray], int]:
    """Arrays of one dtype that are alike but along one axis."""
    shape = d.shape(low)
    axis = d.axis(len(shape))
    dtype = d.dtype(ALL)
    shapes = [tuple(d.one_of(n, 1, 0) if i == axis % len(shape) else n for i, n in enumerate(shape)) for _ in range(3)]
    return [d.array(shape=s, dtype=dtype) for s in shapes[: d.integer(1, 3)]], axis


def joined(d: Drawer) -> Call:
    """What is concatenated, along which axis."""
    arrays, axis = many(d)
    return call(arrays, axis=axis)


def stacked(d: Drawer) -> Call:
    """Arrays of one shape, and the place of the new axis."""
    shape, dtype = d.shape(), d.dtype(ALL)
    return call(
        [d.array(shape=shape, dtype=dtype) for _ in range(d.integer(1, 3))], axis=d.integer(-len(shape) - 1, len(shape))
    )


def alike(low: int, high: int = 3) -> Entry:
    """A function of a list of arrays of one shape."""

    def arguments(d: Drawer) -> Call:
        shape = d.shape(low, high)
        return call([d.array(ALL, shape) for _ in range(d.integer(1, 3))])

    return Entry(arguments)


def parted(low: int, axis: int | None = None) -> Entry:
    """A function that cuts an array into equal parts, or at places."""

    def arguments(d: Drawer) -> Call:
        x = d.array(ALL, d.shape(low, 3, (2, 4, 1)))
        where = d.axis(x.ndim) if axis is None else min(axis, x.ndim - 1)
        at = d.one_of(1, x.shape[where], [1], [0, 1], [1, 1, 5])
        return call(x, at, axis=where) if axis is None else call(x, at)

    return Entry(arguments)


def reshaped(d: Drawer) -> Call:
    """An array and another shape of the same size."""
    x = d.array(ALL)
    return call(x, d.one_of(-1, (x.size,), x.shape[::-1], (1, *x.shape)), order=d.one_of("C", "F"))


def broadcast(d: Drawer) -> Call:
    """An array and a shape that it can take."""
    x = d.array(ALL)
    return call(x, (*d.shape(0, 1), *(3 if n == 1 else n for n in x.shape)))


def moved(d: Drawer) -> Call:
    """Two axes of an array."""
    x = d.array(ALL, d.shape(1))
    return call(x, d.axis(x.ndim), d.axis(x.ndim))


def turned(d: Drawer) -> Call:
    """An array and an order of its axes."""
    x = d.array(ALL)
    return call(x, tuple(int(a) for a in d.generator().permutation(x.ndim)))


def squeezed(d: Drawer) -> Call:
    """An array, and which of its axes of size 1 go."""
    x = d.array(ALL, d.shape(sizes=(1, 2)))
    ones = tuple(a for a, n in enumerate(x.shape) if n == 1)
    return call(x, axis=d.one_of(None, ones, *ones))


def rolled(d: Drawer) -> Call:
    """An array and by how many places it is rolled."""
    x = d.array(ALL, d.shape(1))
    axis = d.axis(x.ndim)
    shift, axes = d.one_of((d.integer(-4, 4), None), (1, axis), ((1, -2), (0, axis)))
    return call(x, shift, axis=axes)


def rotated(d: Drawer) -> Call:
    """An array that is turned in a plane."""
    x = d.array(ALL, d.shape(2))
    return call(x, d.integer(-3, 5), d.one_of((0, 1), (1, 0)))


def padded(d: Drawer) -> Call:
    """An array and how it is padded."""
    x = d.array("biuf", d.shape(1, 2, (3, 2, 1)), special=False)
    mode = d.one_of(
        "constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "linear_ramp", "median"
    )
    extra = {"constant_values": 2} if mode == "constant" and x.dtype != bool and d.one_of(False, True) else {}
    return call(
        x.astype(np.float32) if mode == "linear_ramp" else x,
        d.one_of(1, (2, 1), [(0, 1)] * x.ndim, (0, 5)),
        mode,
        **extra,
    )


def repeated(d: Drawer) -> Call:
    """An array and how often its parts are repeated."""
    x = d.array(ALL, d.shape(1))
    axis = d.one_of(None, d.axis(x.ndim))
    length = x.size if axis is None else x.shape[axis]
    return call(x, d.one_of(2, 0, d.array("i", (length,), low=0, high=3, special=False, dtype=np.int32)), axis=axis)


def taken(d: Drawer) -> Call:
    """An array and indices along an axis."""
    x = d.array(ALL, d.shape(1, 3, (2, 1, 3)))
    axis = d.one_of(None, d.axis(x.ndim))
    n = x.size if axis is None else x.shape[axis]
    return call(x, d.array("iu", d.shape(0, 2), low=0, high=n - 1, special=False), axis=axis)


def taken_along(d: Drawer) -> Call:
    """An array and indices for each of its rows."""
    x = d.array(ALL, d.shape(1, 3, (2, 1, 3)))
    axis = d.axis(x.ndim)
    shape = tuple(2 if a == axis % x.ndim else n for a, n in enumerate(x.shape))
    return call(
        x, d.array("i", shape, low=-x.shape[axis], high=x.shape[axis] - 1, special=False, dtype=np.int64), axis=axis
    )


def chosen(d: Drawer) -> Call:
    """A condition and two operands."""
    x, y = d.pair(ALL)
    return call(d.array("b", x.shape), x, y)


def selected(d: Drawer) -> Call:
    """Conditions and values, the first that holds wins."""
    shape, dtype = d.shape(), d.dtype("iuf")
    n = d.integer(1, 3)
    return call([d.array("b", shape) for _ in range(n)], [d.array(shape=shape, dtype=dtype) for _ in range(n)], 0)


def choices(d: Drawer) -> Call:
    """Which of several arrays each element comes from."""
    shape, dtype = d.shape(), d.dtype("iuf")
    mode = d.one_of("raise", "wrap", "clip")
    index = d.array("i", shape, low=0 if mode == "raise" else -5, high=1 if mode == "raise" else 5, special=False)
    return call(index, [d.array(shape=shape, dtype=dtype) for _ in range(2)], mode=mode)


def masked(d: Drawer) -> Call:
    """A mask and an array of its shape."""
    x = d.array(ALL)
    return call(d.array("b", x.shape), x)


def compressed(d: Drawer) -> Call:
    """A mask along an axis."""
    x = d.array(ALL, d.shape(1))
    axis = d.one_of(None, d.axis(x.ndim))
    return call(d.array("b", (x.size if axis is None else x.shape[axis],)), x, axis=axis)


def appended(d: Drawer) -> Call:
    """Two arrays, the second behind the first."""
    arrays, axis = many(d)
    return call(arrays[0], arrays[-1], axis=d.one_of(None, axis))


def deleted(d: Drawer) -> Call:
    """An array and which of its parts go."""
    x = d.array(ALL, d.shape(1, 2, (3, 2)))
    axis = d.axis(x.ndim)
    return call(x, d.one_of(0, -1, slice(None, None, 2), np.array([1, 1]), np.array([0, 1])), axis=axis)


def inserted(d: Drawer) -> Call:
    """An array, places, and what is put there."""
    x = d.array("iuf", d.shape(1, 2, (3, 2)))
    return call(
        x, d.one_of(0, 1, -1, np.array([0, 2]), slice(0, 2)), d.one_of(1, 2), axis=d.one_of(None, d.axis(x.ndim))
    )


def diagonals(least: int, most: int = 2) -> Entry:
    """A function of an array with `least` to `most` dimensions and the number of a diagonal."""
    return Entry(lambda d: call(d.array(ALL, d.shape(least, most)), d.integer(-3, 3)))


def diagonal_of(d: Drawer) -> Call:
    """An array, the number of a diagonal, and a plane."""
    x = d.array(ALL, d.shape(2))
    return call(x, d.integer(-3, 3), *d.one_of((0, 1), (1, 0), (-1, 0)))


def trimmed(d: Drawer) -> Call:
    """A vector with zeros at its ends."""
    return call(
        np.pad(d.array("iuf", d.shape(1, 1, (3, 2, 0))), (d.integer(0, 2), d.integer(0, 2))), d.one_of("fb", "f", "b")
    )


def places(d: Drawer) -> Call:
    """Flat indices and a shape."""
    shape = d.shape(1, 3, (2, 1, 3))
    return call(d.array("i", d.shape(), low=0, high=int(np.prod(shape)) - 1, special=False), shape)


def flat_places(d: Drawer) -> Call:
    """Indices for each axis and a shape."""
    shape, size = d.shape(1, 3, (2, 1, 3)), d.shape(0, 2)
    index = tuple(d.array("i", size, low=0, high=n - 1, special=False, dtype=np.int32) for n in shape)
    return call(index, shape, mode=d.one_of("clip", "wrap", "raise"), order=d.one_of("C", "F"))


def filled_diagonal(d: Drawer) -> Call:
    """A matrix and what goes on its diagonal."""
    return call(
        d.array("iuf", (d.integer(1, 4), d.integer(1, 3))), d.one_of(1, np.array([2, 3])), wrap=d.one_of(False, True)
    )


def changed(name: str) -> Any:
    """NumPy's function that changes its argument, as one that returns the changed array."""

    def reference(x: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
        x = x.copy()
        getattr(np, name)(x, *args, **kwargs)
        return x

    return reference


def not_in_place(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Ask for the changed array as the result."""
    return function(*args, **kwargs, inplace=False)


def put_flat(d: Drawer) -> Call:
    """An array, flat places, and values."""
    x = d.array("iuf", d.shape(1, 3, (2, 3)))
    return call(
        x,
        d.array("i", (2,), low=0, high=x.size - 1, special=False),
        np.array([1, 2], x.dtype),
        mode=d.one_of("clip", "wrap"),
    )


def put_along(d: Drawer) -> Call:
    """An array, indices along an axis, and a value."""
    done = taken_along(d)
    return call(*done.args, np.ones((), done.args[0].dtype), **done.kwargs)


def placed(d: Drawer) -> Call:
    """An array, a mask with something in it, and values that go there in turn."""
    x = d.array("iuf", d.shape(1, 3, (2, 3)))
    return call(x, d.array("b", x.shape), np.array([1, 2], x.dtype))


def grid(d: Drawer) -> Call:
    """Vectors that span a grid."""
    vectors = [d.array("iuf", d.shape(1, 1)) for _ in range(d.integer(1, 3))]
    return call(*vectors, indexing=d.one_of("xy", "ij"), sparse=d.one_of(False, True))


def ramp(d: Drawer) -> Call:
    """Ends of a range that is cut evenly; arrays of them at times."""
    shape = d.shape(0, 2)
    ends = [d.array("f", shape, low=0.5, high=5, special=False) for _ in range(2)]
    return call(
        *ends, d.one_of(5, 1, 0, 2), endpoint=d.one_of(True, False), axis=d.integer(-len(shape) - 1, len(shape))
    )


def window(d: Drawer) -> Call:
    """The length of a window."""
    return call(d.one_of(5, 4, 1, 2, 0))


def like(*extra: Any) -> Entry:
    """A function that makes an array after the pattern of another."""
    return Entry(
        lambda d: call(d.array(ALL), *extra, **d.one_of({}, {"dtype": np.float32}, {"shape": (2,)}, {"dtype": bool}))
    )


def made(*extra: Any, **options: Any) -> Entry:
    """A function that makes an array from a shape."""
    return Entry(
        lambda d: call(d.one_of(d.shape(), 3), *extra, dtype=d.one_of(np.float32, np.int8, bool, np.complex64)),
        **options,
    )


def powers(d: Drawer) -> Call:
    """Numbers, and how many powers of them are taken."""
    return call(d.array("ifc", d.shape(1, 1), special=False), d.one_of(None, 0, 4), increasing=d.one_of(False, True))


def steps(d: Drawer) -> Call:
    """Start, stop and step of a range."""
    return call(
        *d.one_of((5,), (0,), (-3,), (2, 7), (5, 1, -2), (0.0, 1.0, 0.25), (1, 2, 0.5)),
        **d.one_of({}, {"dtype": np.float32}),
    )


def upper(d: Drawer) -> Call:
    """The size of a triangle."""
    return call(d.integer(0, 4), d.integer(-2, 2), d.one_of(None, 3))


def changes_bits(d: Drawer) -> Call:
    """Zeros and ones of a byte dtype."""
    x = d.array("b", d.shape(1))
    return call(x, axis=d.one_of(None, d.axis(x.ndim)), bitorder=d.one_of("big", "little"))


def bytes_of(d: Drawer) -> Call:
    """Bytes that are unpacked."""
    x = d.array(shape=d.shape(1, 3, (2, 1, 3)), dtype=np.uint8)
    return call(x, axis=d.one_of(None, d.axis(x.ndim)), bitorder=d.one_of("big", "little"), count=d.one_of(None, 3, -2))


def pieces(d: Drawer) -> Call:
    """An array and functions by condition."""
    x = d.array("if", special=False)
    return call(x, [np.asarray(x < 0), np.asarray(x >= 2)], d.one_of([1, 2, 3], [lambda v: -v, lambda v: v + 1]))


def cast(d: Drawer) -> Call:
    """Numbers and a dtype that can hold them."""
    return call(d.array("biuf", low=0, special=False), dtype=d.one_of(np.float32, np.int32, np.complex64, np.float16))


MOVE, JOIN, TRIANGLE = Entry(moved), Entry(joined), Entry(upper)

ENTRIES: dict[str, Entry] = {
    **{name: one() for name in "array asarray copy ndim size shape iscomplexobj isrealobj atleast_1d atleast_2d atleast_3d".split()},
    "isscalar": Entry(lambda d: call(d.one_of(1.0, True, "text", None, [1]))),
    "iterable": one(compiled=False),
    "ravel": Entry(lambda d: call(d.array(ALL), order=d.one_of("C", "F"))),
    "reshape": Entry(reshaped),
    "resize": Entry(lambda d: call(d.array(ALL), d.one_of(d.shape(), 3))),
    "transpose": Entry(turned),
    "permute_dims": Entry(turned),
    "matrix_transpose": one(low=2),
    "swapaxes": MOVE,
    "moveaxis": MOVE,
    "rollaxis": then(lambda d, x: call(x, d.axis(x.ndim), d.integer(-x.ndim, x.ndim)), 1),
    "expand_dims": then(lambda d, x: call(x, d.one_of(0, -1, x.ndim, (0, -1)))),
    "squeeze": Entry(squeezed),
    "broadcast_to": Entry(broadcast),
    "broadcast_arrays": Entry(lambda d: call(*map(np.asarray, d.pair(ALL)), d.array(ALL, (1,)))),
    "broadcast_shapes": Entry(lambda d: call(d.shape(sizes=(1, 3)), (1,), (3, 3))),
    "flip": then(lambda d, x: call(x, d.axes(x.ndim))),
    "fliplr": one(low=2),
    "flipud": one(low=1),
    "roll": Entry(rolled),
    "rot90": Entry(rotated),
    "pad": Entry(padded, absolute=8, dtypes=False),
    "tile": Entry(lambda d: call(d.array(ALL), d.one_of(2, 0, (2, 1), (1, 2, 1, 1), ()))),
    "repeat": Entry(repeated, compiled=False),
    "concatenate": JOIN,
    "concat": JOIN,
    "stack": Entry(stacked),
    "vstack": alike(0),
    "hstack": alike(0),
    "dstack": alike(0),
    "column_stack": alike(1, 2),
    "block": then(lambda d, x: call([[x, x[..., :1]], [x, x[..., :1]]]), 2),
    "split": parted(1),
    "array_split": parted(1),
    "hsplit": parted(1, 1),
    "vsplit": parted(2, 0),
    "dsplit": parted(3, 2),
    "unstack": then(lambda d, x: call(x, axis=d.axis(x.ndim)), 1),
    "append": Entry(appended),
    "delete": Entry(deleted, compiled=False),
    "insert": Entry(inserted),
    "trim_zeros": Entry(trimmed, compiled=False),
    "take": Entry(taken, compiled=False),
    "take_along_axis": Entry(taken_along, compiled=False),
    "put_along_axis": Entry(put_along, changed("put_along_axis"), not_in_place, compiled=False),
    "put": Entry(put_flat, changed("put"), not_in_place, compiled=False),
    "place": Entry(placed, changed("place"), not_in_place),
    "fill_diagonal": Entry(filled_diagonal, changed("fill_diagonal"), not_in_place),
    "where": Entry(chosen),
    "select": Entry(selected),
    "choose": Entry(choices, compiled=False),
    "piecewise": Entry(pieces),
    "extract": Entry(masked, compiled=False),
    "compress": Entry(compressed, compiled=False),
    **{name: one(ALL, 1, compiled=False) for name in "argwhere nonzero flatnonzero".split()},
    "diag": Entry(lambda d: call(d.array(ALL, d.shape(1, 2)), d.integer(-3, 3))),
    "diagflat": diagonals(0),
    "diagonal": Entry(diagonal_of),
    "tril": diagonals(2, 3),
    "triu": diagonals(2, 3),
    "tri": Entry(lambda d: call(d.integer(0, 3), d.one_of(None, 2), d.integer(-2, 2), dtype=d.one_of(np.float32, bool))),
    **{name: TRIANGLE for name in "tril_indices triu_indices".split()},
    **{name: diagonals(2, most=2) for name in "tril_indices_from triu_indices_from".split()},
    "mask_indices": Entry(lambda d: call(d.integer(0, 3), np.triu, d.integer(-1, 1)), compiled=False),
    "diag_indices": Entry(lambda d: call(d.integer(0, 3), d.integer(1, 3))),
    "diag_indices_from": Entry(lambda d: call(d.array("f", (d.one_of(2, 1, 0),) * 2))),
    "indices": Entry(lambda d: call(d.shape(), sparse=d.one_of(False, True))),
    "ix_": Entry(lambda d: call(d.array("i", d.shape(1, 1, (2, 1, 3))), d.array("b", d.shape(1, 1))), compiled=False),
    "unravel_index": Entry(places, compiled=False),
    "ravel_multi_index": Entry(flat_places, compiled=False),
    "meshgrid": Entry(grid),
    "linspace": Entry(ramp, absolute=4),
    "logspace": Entry(ramp, ulps=256),
    "geomspace": Entry(ramp, ulps=256),
    "arange": Entry(steps),
    "zeros": made(),
    "ones": made(),
    "empty": made(view=lambda out, *args, **kwargs: np.zeros_like(out)),
    "full": made(1),
    **{name: like() for name in ("zeros_like", "ones_like")},
    "empty_like": Entry(lambda d: call(d.array(ALL)), view=lambda out, *args: np.zeros_like(out)),
    "full_like": like(1),
    "eye": Entry(lambda d: call(d.integer(0, 3), d.one_of(None, 2), d.integer(-2, 2), dtype=d.one_of(np.float32, np.int8))),
    "identity": Entry(lambda d: call(d.integer(0, 3), dtype=d.one_of(np.float32, np.int8))),
    "vander": Entry(powers, ulps=128),
    **{name: Entry(window, absolute=64, scale=1) for name in "bartlett blackman hamming hanning".split()},
    "kaiser": Entry(lambda d: call(d.one_of(5, 4, 1, 2), d.one_of(0.0, 3.0)), absolute=64, scale=1),
    "fromfunction": Entry(lambda d: call(lambda *i: sum(i), d.shape(1), dtype=np.int32)),
    "astype": Entry(cast, np.ndarray.astype, lambda f, x, *, dtype: f(x, dtype)),
    "packbits": Entry(changes_bits),
    "unpackbits": Entry(bytes_of),
}  # fmt: skip
