# SPDX-License-Identifier: Apache-2.0
"""References among the arguments of a function that every device of a mesh runs: each device has one to its own piece.

Parameters
----------
axes : tuple of str
    The axes of the mesh that the function sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from purax import errors
from purax.control import refs
from purax.control.ref_scope import Cells
from purax.core.ir import Jaxpr
from purax.primitives import shape
from purax.sharding import PartitionSpec

__all__ = ["Pieces", "of_devices", "refuse_different", "values_of", "with_lane", "without_lane"]

_WHOLE = PartitionSpec()


class Piece(refs.Ref):
    """A reference to what one device has of a reference.

    Attributes
    ----------
    whole : Ref or RefView
    spec : PartitionSpec
        How the devices cut what it holds.
    axes : tuple of str
    lane : int or None
        The axis of size one that a piece has and the function does not see.
    """

    __slots__ = ("axes", "lane", "spec", "whole")

    def __init__(self, whole: Any, value: Any, spec: PartitionSpec, axes: tuple[str, ...], lane: int | None) -> None:
        super().__init__(value, whole.base.kind, whole.base._origin)
        self.whole, self.spec, self.axes, self.lane = whole, spec, axes, lane


def values_of(leaves: Sequence[Any]) -> list[Any]:
    """The leaves, with what references hold in their places: arrays of the same shape and dtype."""
    return [x._load() if refs.is_ref(x) else x for x in leaves]


class Pieces:
    """The references among the operands of a function that devices run.

    Parameters
    ----------
    leaves : sequence of arrays and references
    specs : sequence of PartitionSpec
    lanes : sequence of int or None, optional
        The axis of each operand that the function does not see.

    Attributes
    ----------
    made : list of Piece
        What the function was given.
    """

    def __init__(
        self, leaves: Sequence[Any], specs: Sequence[PartitionSpec], axes: tuple[str, ...], lanes: Sequence[Any] = ()
    ) -> None:
        self.places = [i for i, x in enumerate(leaves) if refs.is_ref(x)]
        self.given = [leaves[i] for i in self.places]
        self.specs = [specs[i] for i in self.places]
        self.lanes = [lanes[i] if lanes else None for i in self.places]
        self.axes = axes
        self.made: list[Piece] = []
        self.begun: list[Any] = []

    def opened(self, pieces: Sequence[Any]) -> list[Any]:
        """What the function gets: the pieces, with references to them where the caller has references."""
        out = list(pieces)
        self.made, self.begun = [], [pieces[i] for i in self.places]
        for i, ref, spec, lane in zip(self.places, self.given, self.specs, self.lanes, strict=True):
            self.made.append(Piece(ref, pieces[i], spec, self.axes, lane))
            out[i] = self.made[-1]
        return out

    def filled(self, operands: Sequence[Any], held: Sequence[Any]) -> list[Any]:
        """The operands with what the references hold now, and then what captured ones hold: `held` is of `cells`, in its order."""
        out = list(operands)
        for i, value in zip(self.places, held, strict=False):
            out[i] = value
        return [*out, *held[len(self.places) :]]

    def last(self) -> list[Any]:
        """What the pieces hold when the function has run."""
        values = []
        for piece, begun in zip(self.made, self.begun, strict=True):
            values.append(with_lane(piece._load(), piece.lane))
            piece._value = begun  # for programs that are derived of this one, which ask for its type
            if piece._kept:
                piece.whole.base._kept = True
        return values

    def cells(self, jaxpr: Jaxpr, consts: int, captured: Cells, names: Callable[[], Sequence[str]]) -> Cells:
        """The caller's references whose values the program takes and gives: those of the pieces, then the captured ones.

        Parameters
        ----------
        jaxpr : Jaxpr
            Its outputs end with what the pieces hold, and then the captured references.
        consts : int
            How many of its inputs come before the operands.
        captured : Cells
        names : callable
            Gives the names of the operands.
        """
        for i, ref in zip(self.places, self.given, strict=True):
            refs.check_apart([ref], captured.refs, names()[i])
        first = len(jaxpr.outvars) - len(self.given) - len(captured)
        written = [jaxpr.outvars[first + k] is not jaxpr.invars[consts + i] for k, i in enumerate(self.places)]
        return Cells((*self.given, *captured.refs), (*written, *captured.written))


def without_lane(x: Any, lane: int | None) -> Any:
    """A piece as the function sees it, of the same dtype: without its axis `lane` of size one, if it has one (None: it has not)."""
    return x if lane is None else shape.squeeze(x, (lane,))


def with_lane(x: Any, lane: int | None) -> Any:
    """The way back: the piece with an axis of size one at `lane`, of the same dtype."""
    return x if lane is None else shape.expand_dims(x, (lane,))


def of_devices(cells: Cells, axes: tuple[str, ...]) -> tuple[Cells, list[PartitionSpec], list[int | None]]:
    """References that a program of the devices takes in, as the program around has them.

    Parameters
    ----------
    cells : Cells

    Returns
    -------
    (Cells, list of PartitionSpec, list of int or None)
        For each reference the one around, how it is cut, and the axis that the devices do not see.
    """
    wholes: list[Any] = []
    specs: list[PartitionSpec] = []
    lanes: list[int | None] = []
    for ref in cells.refs:
        own = type(ref) is Piece and ref.axes == axes
        wholes.append(ref.whole if own else ref)
        specs.append(ref.spec if own else _WHOLE)
        lanes.append(ref.lane if own else None)
    return Cells(tuple(wholes), cells.written), specs, lanes


def refuse_different(
    where: str, cells: Cells, outs: Sequence[Any], specs: Sequence[PartitionSpec], axes: Sequence[str]
) -> None:
    """Raise if devices that have the same piece of a reference would write different values.

    Parameters
    ----------
    where : str
        For the message.
    cells : Cells
    outs : sequence of aval
        Types of what is written last.
    specs : sequence of PartitionSpec

    Raises
    ------
    ReferenceUseError
        They would.
    """
    for ref, written, out, spec in zip(cells.refs, cells.written, outs, specs, strict=True):
        over = [n for n in axes if n in out.varying and n not in spec.axis_names()]
        if written and over:
            raise errors.ReferenceUseError(
                errors.explain(
                    f"{ref!r} was written by {where}, and the values differ along {', '.join(map(repr, over))}",
                    "it has room for one value, and each device would write its own",
                    "combine them (psum, pmax), or pass the reference as an argument that is cut or mapped along the axis",
                )
            )
