# SPDX-License-Identifier: Apache-2.0
"""Every error class of purax, and the one helper that words their messages.

Each class keeps the built-in base that array libraries raise for the same fault, so an `except TypeError` goes on working.
Its docstring tells the cause, the smallest program that raises it and the right form of that program.
"""

__all__ = [
    "AxisNameError",
    "BranchTypeError",
    "CallbackBatchingError",
    "CallbackDerivativeError",
    "CallbackResultError",
    "CarryTypeError",
    "CheckError",
    "CheckpointMismatchError",
    "ConcretizationTypeError",
    "DTypeError",
    "DamagedFileError",
    "DeletedArrayError",
    "DifferentiationTypeError",
    "DivisionCheckError",
    "DonationError",
    "FailedCheckError",
    "IndexCheckError",
    "IndexOutOfBoundsError",
    "IntegerOverflowError",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "KernelError",
    "KeyReuseError",
    "LayerError",
    "MaskedArrayError",
    "MissingRuleError",
    "NanCheckError",
    "NonArrayArgumentError",
    "NonConcreteBooleanIndexError",
    "NonFiniteError",
    "NonHashableStaticArgumentError",
    "PlatformError",
    "PuraxError",
    "RankPromotionError",
    "ReferenceUseError",
    "ReverseModeError",
    "SealedSettingError",
    "SettingValueError",
    "ShapeError",
    "TextFieldError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerError",
    "TracerIntegerConversionError",
    "TracerLeakError",
    "TreeMismatchError",
    "TypePromotionError",
    "UnexpectedTracerError",
    "UnknownSettingError",
    "VerifierError",
    "explain",
]


def explain(got: str, why: str = "", fix: str = "") -> str:
    """Word a message in its three parts: what was met, why that is wrong, what to do.

    Parameters
    ----------
    got : str
        The operation, the argument, and the shapes, dtypes or values that were met.
    why : str
        The rule that they break; left out when `got` says it.
    fix : str
        What to write instead.

    Returns
    -------
    str
        The parts that are not empty, one paragraph each.

    Examples
    --------
    >>> print(explain("dot got float32[3] and float32[4].", "The sizes differ.", "Slice the second operand."))
    dot got float32[3] and float32[4].
    Why: The sizes differ.
    Fix: Slice the second operand.
    """
    parts = [got]
    if why:
        parts.append(f"Why: {why}")
    if fix:
        parts.append(f"Fix: {fix}")
    return "\n".join(parts)


class PuraxError(Exception):
    """Base of all errors that purax raises on purpose: `except PuraxError` catches each of them."""

    located = False  # True once the message names the operation and the line that called it


# ---- shapes and dtypes


class ShapeError(PuraxError, TypeError, ValueError):
    """Operands have shapes that do not fit together.

    Wrong: ``lax.add(pnp.zeros(3), pnp.zeros(4))``

    Right: ``lax.add(pnp.zeros(3), pnp.zeros(4)[:3])``
    """


class InconclusiveDimensionOperation(PuraxError, TypeError):
    """A decision is asked of a size that is not known yet.

    Wrong: ``export.export(jit(lambda x: x if x.shape[0] > 3 else -x))(spec)`` with an open first axis

    Right: a constraint: ``export.symbolic_shape("a, 4", constraints=["a >= 4"])``
    """


class ShardingTypeError(PuraxError, TypeError, ValueError):
    """Operands lie on the explicit axes of a mesh in ways that do not determine how the result does.

    Wrong: ``x @ y`` with ``x: f32[8,4@x]`` and ``y: f32[4@x,8]``

    Right: ``pnp.matmul(x, y, out_sharding=P(None, None))``, or `reshard` an operand first
    """


class ShardingAssertionError(ShardingTypeError, AssertionError):
    """A sharding constraint contradicts the type of a value on explicit mesh axes.

    Wrong: ``with_sharding_constraint(x, P(None, "x"))`` with ``x: f32[8@x,2]``

    Right: ``purax.sharding.reshard(x, P(None, "x"))``
    """


class UnreducedError(ShardingTypeError, NotImplementedError):
    """An operation that is not linear got a term of a sum that is yet to be taken.

    Wrong: ``pnp.sin(x)`` with ``x: f32[8]{U:x}``

    Right: ``pnp.sin(purax.sharding.reshard(x, P()))``
    """


class RankPromotionError(ShapeError):
    """Arrays of different rank were broadcast while `numpy_rank_promotion` is "raise".

    Wrong: ``pnp.ones((2, 3)) + pnp.ones(3)``

    Right: ``pnp.ones((2, 3)) + pnp.ones(3)[None, :]``
    """


class DTypeError(PuraxError, TypeError):
    """An operand has a dtype that the operation does not take.

    Wrong: ``lax.sin(pnp.arange(3))`` (integers)

    Right: ``lax.sin(pnp.arange(3.0))``
    """


class TypePromotionError(DTypeError, ValueError):
    """Operands have dtypes without a common one, or promotion is "strict" and they differ.

    Wrong: ``pnp.ones(3, "float8_e4m3fn") + pnp.ones(3)``

    Right: ``pnp.ones(3, "float8_e4m3fn").astype("float32") + pnp.ones(3)``
    """


class IntegerOverflowError(PuraxError, OverflowError):
    """A Python integer does not fit the dtype of the array that it meets.

    Wrong: ``pnp.int8(1) + 300``

    Right: ``pnp.int16(1) + 300``
    """


class NonArrayArgumentError(PuraxError, TypeError):
    """A function of arrays was given something that is no array.

    Wrong: ``jit(lambda x: x)("text")``

    Right: ``jit(lambda x, name: x, static_argnames="name")(1.0, name="text")``
    """


class MaskedArrayError(PuraxError, ValueError):
    """A masked array of NumPy was given; its mask would be lost.

    Wrong: ``pnp.sum(np.ma.masked_array([1.0, 2.0], [0, 1]))``

    Right: ``pnp.sum(np.ma.masked_array([1.0, 2.0], [0, 1]).filled(0.0))``
    """


class IndexOutOfBoundsError(PuraxError, IndexError):
    """A Python or NumPy index lies outside its axis.

    Wrong: ``pnp.arange(3)[10]``

    Right: ``pnp.arange(3).at[10].get(mode="clip")``, or an index below 3.
    """


class NonFiniteError(PuraxError, FloatingPointError):
    """A result holds NaN or inf while `debug_nans` or `debug_infs` is on.

    Wrong: ``with debug_nans(True): pnp.log(-1.0)``

    Right: ``with debug_nans(True): pnp.log(pnp.maximum(x, 1e-6))``
    """


# ---- tracing


class TracerError(PuraxError, TypeError):
    """Base of the errors about abstract values; ``JAXTypeError`` is its other name."""


class ConcretizationTypeError(TracerError):
    """The value of an array is needed where only its shape and dtype are known.

    Wrong: ``jit(lambda n: pnp.zeros(n))(3)``

    Right: ``jit(lambda n: pnp.zeros(n), static_argnums=0)(3)``
    """


class TracerBoolConversionError(ConcretizationTypeError):
    """Python control flow asks a traced array for its truth value.

    Wrong: ``jit(lambda x: x if x > 0 else -x)(1.0)``

    Right: ``jit(lambda x: pnp.where(x > 0, x, -x))(1.0)``
    """


class TracerIntegerConversionError(TracerError):
    """Python needs an integer and was given a traced array.

    Wrong: ``jit(lambda i: (10, 20)[i])(0)``

    Right: ``jit(lambda i: pnp.array((10, 20))[i])(0)``
    """


class TracerArrayConversionError(TracerError):
    """NumPy was asked to compute on a traced array.

    Wrong: ``jit(lambda x: np.sin(x))(1.0)``

    Right: ``jit(lambda x: pnp.sin(x))(1.0)``
    """


class NonConcreteBooleanIndexError(PuraxError, IndexError):
    """A traced boolean mask was used as an index: the size of the result is unknown.

    Wrong: ``jit(lambda x: x[x > 0].sum())(x)``

    Right: ``jit(lambda x: pnp.where(x > 0, x, 0).sum())(x)``
    """


class UnexpectedTracerError(TracerError):
    """A traced value is used after the transformation that made it has ended.

    Wrong: ``kept = []; jit(lambda x: kept.append(x))(1.0); kept[0] + 1``

    Right: ``kept = jit(lambda x: x)(1.0); kept + 1`` (return what is needed later)
    """


class TracerLeakError(PuraxError, RuntimeError):
    """A traced value is still referred to when its transformation ends, and `check_tracer_leaks` is on.

    Wrong: ``with check_tracer_leaks(True): jit(lambda x: kept.append(x))(1.0)``

    Right: ``kept.append(jit(lambda x: x)(1.0))``
    """


class KeyReuseError(TracerError):
    """A random key is used twice while `debug_key_reuse` is on.

    Wrong: ``random.normal(key); random.uniform(key)``

    Right: ``a, b = random.split(key); random.normal(a); random.uniform(b)``
    """


class NonHashableStaticArgumentError(PuraxError, ValueError):
    """A static argument cannot be hashed, so it cannot be part of the key of a compiled function.

    Wrong: ``jit(f, static_argnums=0)([1, 2])``

    Right: ``jit(f, static_argnums=0)((1, 2))``
    """


class VerifierError(PuraxError, TypeError):
    """A jaxpr breaks its own rules: an undefined variable, or an aval that its equation does not give.

    It tells of a fault in a transformation or in a hand-made jaxpr, not in the traced function.

    Wrong: an equation that reads a variable bound further down.

    Right: equations in the order of their data.
    """


class AxisNameError(PuraxError, NameError):
    """A named axis is used outside the transformation that binds its name.

    Wrong: ``lax.psum(x, "batch")``

    Right: ``vmap(lambda x: lax.psum(x, "batch"), axis_name="batch")(x)``
    """


# ---- derivatives and control flow


class MissingRuleError(PuraxError, NotImplementedError):
    """A transformation needs a rule that the primitive lacks: its class left it out, or it cannot exist.

    Wrong: ``linear_transpose(pnp.sort, x)(y)`` (sorting is not linear)

    Right: ``vjp(pnp.sort, x)`` (the derivative is)
    """


class DifferentiationTypeError(PuraxError, TypeError):
    """A derivative is asked for an input or output that has none.

    Wrong: ``grad(lambda x: x * 2.0)(3)`` (an integer), ``grad(lambda x: x)(pnp.ones(3))`` (not a scalar)

    Right: ``grad(lambda x: x * 2.0)(3.0)``, ``grad(lambda x: x.sum())(pnp.ones(3))``
    """


class ReverseModeError(PuraxError, ValueError):
    """Reverse mode meets a loop whose number of steps is not known when it is traced.

    Wrong: ``grad(lambda x: lax.while_loop(lambda v: v < 9, lambda v: v * 2, x))(1.0)``

    Right: ``lax.while_loop(..., max_steps=N)``, ``lax.fori_loop``, ``lax.scan``, or forward mode (``jvp``).
    """


class ReferenceUseError(PuraxError, ValueError):
    """A mutable reference is used as an array, written where that cannot be seen outside, or with a value that does not fit.

    Wrong: ``jit(lambda x: purax.new_ref(x))(1.0)``

    Right: ``jit(lambda x: purax.freeze(purax.new_ref(x)))(1.0)``
    """


class CarryTypeError(PuraxError, TypeError):
    """The carry that a loop body returns differs in structure, shape or dtype from the one it takes.

    Wrong: ``lax.scan(lambda c, x: (c + x, None), 0, pnp.ones(3))`` (an integer becomes a float)

    Right: ``lax.scan(lambda c, x: (c + x, None), 0.0, pnp.ones(3))``
    """


class BranchTypeError(PuraxError, TypeError):
    """The branches of a conditional return different structures, shapes or dtypes.

    Wrong: ``lax.cond(p, lambda: 1.0, lambda: (1.0, 2.0))``

    Right: ``lax.cond(p, lambda: (1.0, 0.0), lambda: (1.0, 2.0))``
    """


# ---- checks of values while a program runs


class CheckError(PuraxError, ValueError):
    """A check of a value failed while a program ran; the classes below say which kind of check.

    Attributes
    ----------
    lane : tuple of int
        The lane of `vmap`, one number per mapped axis, outermost first.
    steps : tuple of int
        The step of each loop that the check is in, outermost first.

    Wrong: ``check(x > 0, "x must be positive, got {x}", x=x)`` with an `x` of -1

    Right: an `x` that is positive, or ``except CheckError``.
    """

    lane: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


class FailedCheckError(CheckError):
    """The user's own `check` failed.

    Wrong: ``check(x > 0, "x is {}", x)`` where a value of `x` is negative

    Right: find out where `x` becomes negative, or ``except FailedCheckError``
    """


class NanCheckError(CheckError, FloatingPointError):
    """An operation gave NaN, and checks for NaN are on.

    Wrong: ``jnp.log(x)`` of a negative `x`

    Right: ``jnp.log(jnp.where(x > 0, x, 1.0))``
    """


class DivisionCheckError(CheckError, ZeroDivisionError):
    """A divisor is zero, and checks of divisors are on.

    Wrong: ``x / y`` where `y` holds zero

    Right: ``x / jnp.where(y == 0, 1.0, y)``
    """


class IndexCheckError(CheckError, IndexError):
    """An index on a device is out of bounds, and checks of indices are on.

    Wrong: ``x[i]`` for an `x` of 3 elements and an `i` of 3

    Right: ``x[jnp.minimum(i, 2)]``, or a mode: ``x.at[i].get(mode='clip')``
    """


# ---- calls of Python functions


class CallbackResultError(PuraxError, RuntimeError):
    """A Python function that a program calls returned other types than were promised.

    Wrong: ``pure_callback(lambda x: x[:1], x, x)`` for an `x` of more than one element

    Right: ``pure_callback(lambda x: x[:1], ShapeDtypeStruct((1,), x.dtype), x)``
    """


class TextFieldError(PuraxError, IndexError, KeyError, ValueError):
    """The fields of a text do not fit the values that it is given.

    Wrong: ``debug.print("{x} {y}", x=x)``

    Right: ``debug.print("{x} {y}", x=x, y=y)``
    """

    __str__ = Exception.__str__  # KeyError shows its argument as it is written in a program


class CallbackDerivativeError(PuraxError, ValueError):
    """A derivative reached a call of a Python function, which has none.

    Wrong: ``grad(lambda x: pure_callback(np.sin, x, x))(1.0)``

    Right: a function with ``custom_jvp`` whose value is that call.
    """


class CallbackBatchingError(PuraxError, ValueError, NotImplementedError):
    """A call of a Python function is mapped, and nobody said how.

    Wrong: ``vmap(lambda x: pure_callback(np.sin, x, x))(xs)``

    Right: ``vmap(lambda x: pure_callback(np.sin, x, x, vmap_method="expand_dims"))(xs)``
    """


# ---- trees, layers, files


class TreeMismatchError(PuraxError, ValueError):
    """Two pytrees that must agree differ in structure.

    Wrong: ``tree.map(f, {"a": 1}, {"b": 1})``

    Right: ``tree.map(f, {"a": 1}, {"a": 2})``
    """


class KernelError(PuraxError, ValueError, NotImplementedError):
    """A transformation reached a compiled kernel of the user, which has no rule for it.

    Wrong: ``vmap(ffi_call("kernel", result))(xs)``

    Right: ``vmap(ffi_call("kernel", result, vmap_method="sequential"))(xs)``; for derivatives, a `custom_jvp` around the call.
    """


class LayerError(PuraxError, ValueError):
    """A layer is used in a way that its scope does not allow.

    Wrong: ``Dense(3)(x)`` outside of `init` and `apply`

    Right: ``variables = Dense(3).init(key, x); Dense(3).apply(variables, x)``
    """


class DamagedFileError(PuraxError, ValueError):
    """A file is truncated, has a wrong checksum, or is not of the format that its name promises.

    Wrong: loading a checkpoint whose copy was interrupted.

    Right: copy it again; writing goes to a temporary file that is renamed when complete.
    """


class CheckpointMismatchError(PuraxError, ValueError):
    """Saved values differ in names, shapes or dtypes from the values they are to replace.

    Wrong: restoring a kernel of shape (3, 4) into a layer of shape (3, 5).

    Right: build the layer that was saved, or restore by name what fits.
    """


# ---- runtime and settings


class JaxRuntimeError(PuraxError, RuntimeError):
    """The compiler or a device failed: out of memory, a crashed kernel, a callback that raised.

    Wrong: ``pnp.zeros((10**6, 10**6))``

    Right: a shape that fits into the memory of the device.
    """


class PlatformError(PuraxError, RuntimeError):
    """A platform or device was asked for that is not there, or whose plugin is not installed.

    Wrong: ``PURAX_PLATFORMS=gpuu``

    Right: ``PURAX_PLATFORMS=cpu`` (``purax doctor`` lists what is available)
    """


class ExportedCallError(PuraxError, ValueError):
    """An exported function is called with types, or on a platform, that it was not exported for.

    Wrong: ``exported.call(np.zeros(3, np.float16))`` of a function that was exported for float32

    Right: ``exported.call(np.zeros(3, np.float32))``
    """


class ForkedProcessError(PuraxError, RuntimeError):
    """A process was forked after it had started its devices, and the child compiles or runs a program.

    Wrong: ``pnp.zeros(10**6).sum(); os.fork()`` or ``multiprocessing.get_context("fork")``

    Right: ``multiprocessing.get_context("spawn")``, or fork before the first computation.
    """


class DeletedArrayError(PuraxError, RuntimeError):
    """An array is read after it was deleted or donated.

    Wrong: ``step = jit(f, donate_argnums=0); step(x); x + 1``

    Right: ``x = step(x); x + 1``
    """


class DonationError(PuraxError, RuntimeError, ValueError):
    """The same array is given twice in one call, and one of the two is donated.

    Wrong: ``jit(f, donate_argnums=0)(x, x)``

    Right: ``jit(f, donate_argnums=0)(x, x.copy())``
    """


class UnknownSettingError(PuraxError, AttributeError):
    """A setting has a name that purax does not know.

    Wrong: ``config.update("enable_x46", True)``

    Right: ``config.update("enable_x64", True)``
    """


class SettingValueError(PuraxError, ValueError):
    """A setting was given a value that it does not take.

    Wrong: ``config.update("numpy_dtype_promotion", "loose")``

    Right: ``config.update("numpy_dtype_promotion", "standard")``
    """


class SealedSettingError(PuraxError, RuntimeError):
    """A setting that shapes the backend is changed after the backend has started.

    Wrong: ``pnp.zeros(3); config.update("num_cpu_devices", 8)``

    Right: ``config.update("num_cpu_devices", 8); pnp.zeros(3)``
    """


JAXTypeError = TracerError
JAXIndexError = NonConcreteBooleanIndexError
JaxprTypeError = VerifierError
