# SPDX-License-Identifier: Apache-2.0
"""Where the values of references are while functions are traced.

A staging trace that takes references in (`take`) gets one more input for each reference of outside that is read or written in
it, keeps what the reference holds at this point of the program, and gives what was written last as one more output. So a
function is traced once, whatever it touches: whoever binds the program passes the values, and writes what comes out (`Cells`).
Programs that are derived of others, such as transposes, take in what the rules of users touch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from purax import errors
from purax.control.lanes import calls_python
from purax.control.program import build, varying_over
from purax.core.hooks import hooks
from purax.core.interpret import eval_jaxpr
from purax.core.ir import Jaxpr
from purax.core.stage import StageTrace
from purax.core.trace import Tracer, aval_of, check_escape, current

__all__ = ["NO_CELLS", "Cells", "innermost_stage", "store", "take", "value_in"]


class _Taken:
    """The references that a program takes in, with their values at this point of it."""

    __slots__ = ("derived", "inputs", "values", "written")

    def __init__(self, derived: bool) -> None:
        self.derived = derived
        self.inputs: list[Any] = []
        self.values: dict[Any, Any] = {}
        self.written: set[Any] = set()

    def value(self, ref: Any, trace: StageTrace) -> Any:
        """What the reference holds now; a new input where it is touched for the first time."""
        if ref not in self.values:
            outside = ref._value if self.derived else value_in(ref, trace.parent)
            self.values[ref] = trace.new_input(aval_of(outside))
            self.inputs.append(self.values[ref])
        return self.values[ref]

    def outputs(self) -> list[Any]:
        """The last value of each reference."""
        return list(self.values.values())

    def cells(self) -> Cells:
        """What whoever binds the program needs to know."""
        if not self.values:
            return NO_CELLS
        return Cells(tuple(self.values), tuple([r in self.written for r in self.values]))


def take(trace: Any, derived: bool = False) -> Any:
    """Let a program take references in: its last inputs and outputs are theirs.

    Parameters
    ----------
    trace : StageTrace
    derived : bool
        The program is made of another one: its trace has no parent in which the references are found.

    Returns
    -------
    object
        Its method `cells` gives the references, once the program is recorded.
    """
    trace.taken = taken = _Taken(derived)
    return taken


hooks.take_references = take


class Cells:
    """The references whose values a program takes as last inputs and gives as last outputs.

    Attributes
    ----------
    refs : tuple
    written : tuple of bool
        Which of them the program writes.
    """

    __slots__ = ("refs", "written")

    def __init__(self, refs: tuple[Any, ...], written: tuple[bool, ...]) -> None:
        self.refs, self.written = refs, written

    def __len__(self) -> int:
        return len(self.refs)

    def read(self) -> list[Any]:
        """What the references hold now."""
        return [ref._load() for ref in self.refs]

    def avals(self) -> list[Any]:
        """Types of what the references hold."""
        return [aval_of(x) for x in self.read()]

    def through(self, programs: Sequence[Jaxpr], run: Callable[[list[Any]], Sequence[Any]]) -> list[Any]:
        """Outputs of `run(values of the references)`, whose last ones are written back.

        No other thread writes the references in between. While a program calls Python it may not keep them from others, since the
        function may wait for another thread; so it raises where they were written.
        """
        if not self.refs:
            return list(run([]))
        count = len(self.refs)
        alone = not any(map(calls_python, programs))
        with locked(self.refs if alone else ()):
            before = self.read()
            outs = list(run(before))
            with locked(() if alone else self.refs):
                now = [ref._load() for ref in self.refs] if not alone else before
                for ref, written, old, value, new in zip(
                    self.refs, self.written, before, now, outs[-count:], strict=True
                ):
                    if written and value is not old:
                        raise errors.ReferenceUseError(
                            errors.explain(
                                f"{ref!r} was written while a program ran that writes it, too",
                                "the program calls Python, so it could not keep the reference for itself, and one of the two updates is lost",
                                "let one function write it at a time",
                            )
                        )
                    if written:
                        ref._store(new)
        return outs[:-count]

    def refuse(self, where: str) -> None:
        """Raise if there are any."""
        if self.refs:
            raise errors.ReferenceUseError(
                errors.explain(
                    f"{self.refs[0]!r} was touched by {where}",
                    "its value would be an input, and an output, of a program that cannot have more of them",
                    "pass what it holds (ref[...]), return the new value, and write it outside",
                )
            )

    def widened(self, outs: Sequence[Any]) -> bool:
        """Let what the references hold vary over the named axes of these types; whether that changes something."""
        changed = False
        for ref, out in zip(self.refs, outs, strict=True):
            value = ref._load()
            missing = out.varying - aval_of(value).varying
            if missing:
                ref._store(varying_over(value, missing))
                changed = True
        return changed

    def held_by(self, jaxpr: Jaxpr, own: Cells) -> Jaxpr:
        """A program that takes in the references `own`, with all of these among its inputs and outputs."""
        count, outs = len(jaxpr.invars) - len(own), len(jaxpr.outvars) - len(own)
        if own.refs == self.refs:
            return jaxpr

        def run(*xs: Any) -> list[Any]:
            held = dict(zip(self.refs, xs[count:], strict=True))
            results = eval_jaxpr(jaxpr, (), *xs[:count], *[held[r] for r in own.refs])
            held.update(zip(own.refs, results[outs:], strict=True))
            return [*results[:outs], *held.values()]

        return build(run, [*jaxpr.in_avals[:count], *self.avals()], jaxpr.name)

    @staticmethod
    def union(rows: Sequence[Cells]) -> Cells:
        """The references of several programs."""
        written: dict[Any, bool] = {}
        for row in rows:
            for ref, flag in zip(row.refs, row.written, strict=True):
                written[ref] = written.get(ref, False) or flag
        return Cells(tuple(written), tuple(written.values())) if written else NO_CELLS


NO_CELLS = Cells((), ())


@contextmanager
def locked(refs: Sequence[Any]) -> Iterator[None]:
    """Keep other threads from writing the references; in one order, so that nobody waits in a circle."""
    with ExitStack() as stack:
        for base in sorted({ref.base for ref in refs}, key=lambda base: base._number):
            stack.enter_context(base._lock)
        yield


def innermost_stage(ref: Any, trace: Any) -> Any:
    """The innermost staging trace between here and the home of the reference.

    Parameters
    ----------
    ref : Ref
    trace : Trace or None
        Here.

    Returns
    -------
    StageTrace or None

    Raises
    ------
    UnexpectedTracerError
        The home of the reference is not around.
    """
    home, stage = ref._home, None
    while trace is not None:
        if trace is home or (home is not None and trace.tag is not None and trace.tag is home.tag):
            return stage
        if type(trace) is StageTrace:
            stage = trace if stage is None else stage
            if trace.taken is not None and trace.taken.derived:
                return stage
        trace = trace.parent
    if home is not None:
        raise errors.UnexpectedTracerError(
            f"{ref!r} escaped from a {home.kind} of {home.name or 'a function'}: it holds a value that exists only there. "
            "Return what it holds (purax.freeze(ref))."
        )
    return stage


def value_in(ref: Any, trace: Any) -> Any:
    """What the reference holds at this point of a program.

    Parameters
    ----------
    ref : Ref
    trace : Trace or None
        Where it is read; None is outside of all programs.

    Returns
    -------
    array

    Raises
    ------
    ReferenceUseError
        The program cannot take it in.
    """
    stage = innermost_stage(ref, trace)
    if stage is None:
        return ref._value
    if stage.taken is not None:
        return stage.taken.value(ref, stage)
    if stage.embed and stage.parent is None:
        raise errors.ReferenceUseError(
            errors.explain(
                f"{ref!r} was read inside {stage.kind} of {stage.name or 'a function'}, where a program is derived of another one",
                "what it holds now would be a constant of the program",
                "let the forward rule of the function give what it holds as a residual, or read it in the backward rule",
            )
        )
    return value_in(ref, stage.parent)


def store(ref: Any, value: Any) -> None:
    """Let the reference hold `value` from this point of the program on.

    Parameters
    ----------
    ref : Ref
    value : array

    Raises
    ------
    ReferenceUseError
        It cannot be written here.
    """
    stage = innermost_stage(ref, current.get())
    if stage is not None and stage.taken is None:
        raise errors.ReferenceUseError(
            errors.explain(
                f"{ref!r} was written inside {stage.kind} of {stage.name or 'a function'}",
                "what is written there could not leave it: jit, loops, branches and checkpoints let references be written, "
                "solvers and functions with custom derivatives do not",
                "return the value, and write it outside",
            )
        )
    _refuse_lanes(ref, current.get())
    value = _detached(ref, value, ref._home if stage is None else stage)
    if stage is None:
        ref._value = value
    else:
        stage.taken.value(ref, stage)
        stage.taken.values[ref] = value
        stage.taken.written.add(ref)


def _refuse_lanes(ref: Any, trace: Any) -> None:
    """Raise where a reference of outside of a mapping would be written once for all of its lanes."""
    while (
        trace is not None
        and trace is not ref._home
        and (trace.tag is None or ref._home is None or trace.tag is not ref._home.tag)
    ):
        if type(trace) is StageTrace:
            if trace.taken is not None and trace.taken.derived:
                return
        elif trace.kind == "vmap":
            raise errors.ReferenceUseError(
                errors.explain(
                    f"an unbatched array reference, {ref!r}, was written inside vmap of {trace.name or 'a function'}",
                    "it has room for one value, and each lane would write its own",
                    "make the reference inside the mapped function, or pass one with a mapped axis as an argument",
                )
            )
        trace = trace.parent


def _detached(ref: Any, value: Any, level: Any) -> Any:
    """`value` as it may be kept at a level: without tangents, if the reference is said to have none; never of one lane."""
    while isinstance(value, Tracer) and not (level is not None and level.encloses(value._trace)):
        primal = getattr(value, "primal", None)
        if primal is not None and (ref._kind or "").startswith("no_grad"):
            value = primal
        elif primal is not None:
            raise errors.ReferenceUseError(
                errors.explain(
                    f"a value that is being differentiated was written into {ref!r}, which was made outside the differentiation",
                    "its derivative would be lost",
                    "Move the array reference into the function that is differentiated, make it with kind='no_grad_no_remat', or write "
                    "purax.lax.stop_gradient(x)",
                )
            )
        else:
            check_escape(value, level)
            break
    return value
