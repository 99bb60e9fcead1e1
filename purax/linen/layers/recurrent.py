# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells, and RNN and Bidirectional, which run a cell over a sequence.

A cell maps `(carry, input)` to `(carry, output)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from purax import numpy as pnp
from purax import random, tree
from purax.linen import initializers
from purax.linen.declare import compact, nowrap
from purax.linen.dtypes import promote_dtype
from purax.linen.filters import CollectionFilter, Filter
from purax.linen.frozen_dict import FrozenDict
from purax.linen.layers.activation import sigmoid, tanh
from purax.linen.layers.conv import Conv
from purax.linen.layers.linear import Dense, default_kernel_init
from purax.linen.lift import scan
from purax.linen.module import Module

__all__ = [
    "RNN",
    "Bidirectional",
    "ConvLSTMCell",
    "GRUCell",
    "LSTMCell",
    "MGUCell",
    "OptimizedLSTMCell",
    "RNNCellBase",
    "SimpleCell",
    "flip_sequences",
]

default_recurrent_init = initializers.orthogonal()


class RNNCellBase(Module):
    """Base of recurrent cells; a subclass defines `__call__`, `initialize_carry` and `num_feature_axes`."""

    @nowrap
    def initialize_carry(self, rng: Any, input_shape: tuple[int, ...]) -> Any:
        """Return the carry before the first step.

        Parameters
        ----------
        rng : key
            Random key.
        input_shape : tuple of int
            Shape of one step's input, (*batch, features).
        """
        raise NotImplementedError(f"{type(self).__name__} must define initialize_carry.")

    @property
    def num_feature_axes(self) -> int:
        """How many trailing axes of the input are no batch axes."""
        raise NotImplementedError(f"{type(self).__name__} must define num_feature_axes.")


class _VectorCell(RNNCellBase):
    """A cell over vectors whose carry is one state vector."""

    @nowrap
    def initialize_carry(self, rng: Any, input_shape: tuple[int, ...]) -> Any:
        """Return the state before the first step, shape (*batch, features)."""
        return self.carry_init(rng, (*input_shape[:-1], self.features), self.param_dtype)

    @property
    def num_feature_axes(self) -> int:
        """1."""
        return 1


class _MemoryCell(RNNCellBase):
    """A cell whose carry is a memory c and a state h."""

    @nowrap
    def initialize_carry(self, rng: Any, input_shape: tuple[int, ...]) -> tuple[Any, Any]:
        """Return memory and state before the first step, each of shape (*batch, features)."""
        memory_key, state_key = random.split(rng)
        shape = (*input_shape[:-1], self.features)
        return self.carry_init(memory_key, shape, self.param_dtype), self.carry_init(state_key, shape, self.param_dtype)

    @property
    def num_feature_axes(self) -> int:
        """1."""
        return 1


class LSTMCell(_MemoryCell):
    """Long short-term memory.

    With input x, state h and memory c:
    `i = gate(W_ii x + W_hi h + b_hi)`, `f` and `o` alike, `g = activation(W_ig x + W_hg h + b_hg)`,
    `c' = f c + i g`, `h' = o activation(c')`.

    Parameters
    ----------
    features : int
        Size of h and c.
    gate_fn, activation_fn : callable
        The functions above.
    kernel_init, recurrent_kernel_init, bias_init : callable
        Initializers of W_i, W_h and b.
    dtype, param_dtype
        As for `Dense`.
    carry_init : callable
        Initializer of the first carry.

    References
    ----------
    Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997.
    """

    features: int
    gate_fn: Callable[..., Any] = sigmoid
    activation_fn: Callable[..., Any] = tanh
    kernel_init: Callable[..., Any] = default_kernel_init
    recurrent_kernel_init: Callable[..., Any] = default_recurrent_init
    bias_init: Callable[..., Any] = initializers.zeros
    dtype: Any = None
    param_dtype: Any = pnp.float32
    carry_init: Callable[..., Any] = initializers.zeros

    @compact
    def __call__(self, carry: Any, inputs: Any) -> Any:
        """Return ((c', h'), h')."""
        memory, state = carry
        size = state.shape[-1]
        dtypes = {"dtype": self.dtype, "param_dtype": self.param_dtype}
        of_input = partial(Dense, size, use_bias=False, kernel_init=self.kernel_init, **dtypes)
        of_state = partial(Dense, size, kernel_init=self.recurrent_kernel_init, bias_init=self.bias_init, **dtypes)

        def total(gate: str) -> Any:
            return of_input(name=f"i{gate}")(inputs) + of_state(name=f"h{gate}")(state)

        i, f = self.gate_fn(total("i")), self.gate_fn(total("f"))
        g, o = self.activation_fn(total("g")), self.gate_fn(total("o"))
        memory = f * memory + i * g
        state = o * self.activation_fn(memory)
        return (memory, state), state


class _DenseParams(Module):
    """The parameters of a Dense layer, without the product."""

    features: int
    use_bias: bool
    param_dtype: Any
    kernel_init: Callable[..., Any]
    bias_init: Callable[..., Any]

    @compact
    def __call__(self, size: int) -> tuple[Any, Any]:
        kernel = self.param("kernel", self.kernel_init, (size, self.features), self.param_dtype)
        bias = self.param("bias", self.bias_init, (self.features,), self.param_dtype) if self.use_bias else None
        return kernel, bias


class OptimizedLSTMCell(_MemoryCell):
    """`LSTMCell` with the same parameters and results, whose gates share one product for the input and one for the state."""

    features: int
    gate_fn: Callable[..., Any] = sigmoid
    activation_fn: Callable[..., Any] = tanh
    kernel_init: Callable[..., Any] = default_kernel_init
    recurrent_kernel_init: Callable[..., Any] = default_recurrent_init
    bias_init: Callable[..., Any] = initializers.zeros
    dtype: Any = None
    param_dtype: Any = pnp.float32
    carry_init: Callable[..., Any] = initializers.zeros

    @compact
    def __call__(self, carry: Any, inputs: Any) -> Any:
        """Return ((c', h'), h')."""
        memory, state = carry
        size = state.shape[-1]
        params = partial(_DenseParams, size, param_dtype=self.param_dtype, bias_init=self.bias_init)
        from_input = partial(params, use_bias=False, kernel_init=self.kernel_init)
        from_state = partial(params, use_bias=True, kernel_init=self.recurrent_kernel_init)
        of_input = [from_input(name=f"i{gate}")(inputs.shape[-1]) for gate in "ifgo"]
        of_state = [from_state(name=f"h{gate}")(size) for gate in "ifgo"]

        def product(x: Any, parts: list[tuple[Any, Any]]) -> Any:
            kernel = pnp.concatenate([kernel for kernel, _ in parts], axis=-1)
            biases = [bias for _, bias in parts if bias is not None]
            bias = pnp.concatenate(biases, axis=-1) if biases else None
            x, kernel, bias = promote_dtype(x, kernel, bias, dtype=self.dtype)
            y = pnp.dot(x, kernel)
            return y if bias is None else y + bias

        i, f, g, o = pnp.split(product(state, of_state) + product(inputs, of_input), 4, axis=-1)
        memory = self.gate_fn(f) * memory + self.gate_fn(i) * self.activation_fn(g)
        state = self.gate_fn(o) * self.activation_fn(memory)
        return (memory, state), state


class SimpleCell(_VectorCell):
    """`h' = activation(W_i x + b_i + W_h h)`, with `residual` plus h inside the activation.

    Parameters are those of `LSTMCell`, and `residual`.
    """

    features: int
    activation_fn: Callable[..., Any] = tanh
    kernel_init: Callable[..., Any] = default_kernel_init
    recurrent_kernel_init: Callable[..., Any] = default_recurrent_init
    bias_init: Callable[..., Any] = initializers.zeros
    dtype: Any = None
    param_dtype: Any = pnp.float32
    carry_init: Callable[..., Any] = initializers.zeros
    residual: bool = False

    @compact
    def __call__(self, carry: Any, inputs: Any) -> Any:
        """Return (h', h')."""
        dense = partial(Dense, carry.shape[-1], dtype=self.dtype, param_dtype=self.param_dtype)
        state = dense(name="i", kernel_init=self.kernel_init, bias_init=self.bias_init)(inputs)
        state = state + dense(name="h", use_bias=False, kernel_init=self.recurrent_kernel_init)(carry)
        if self.residual:
            state = state + carry
        state = self.activation_fn(state)
        return state, state


class GRUCell(_VectorCell):
    """Gated recurrent unit.

    `r = gate(W_ir x + b_ir + W_hr h)`, `z` alike, `n = activation(W_in x + b_in + r (W_hn h + b_hn))`,
    `h' = (1 - z) n + z h`. Parameters are those of `LSTMCell`.

    References
    ----------
    Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014.
    """

    features: int
    gate_fn: Callable[..., Any] = sigmoid
    activation_fn: Callable[..., Any] = tanh
    kernel_init: Callable[..., Any] = default_kernel_init
    recurrent_kernel_init: Callable[..., Any] = default_recurrent_init
    bias_init: Callable[..., Any] = initializers.zeros
    dtype: Any = None
    param_dtype: Any = pnp.float32
    carry_init: Callable[..., Any] = initializers.zeros

    @compact
    def __call__(self, carry: Any, inputs: Any) -> Any:
        """Return (h', h')."""
        dense = partial(
            Dense, carry.shape[-1], bias_init=self.bias_init, dtype=self.dtype, param_dtype=self.param_dtype
        )
        of_input = partial(dense, kernel_init=self.kernel_init)
        of_state = partial(dense, use_bias=False, kernel_init=self.recurrent_kernel_init)
        r = self.gate_fn(of_input(name="ir")(inputs) + of_state(name="hr")(carry))
        z = self.gate_fn(of_input(name="iz")(inputs) + of_state(name="hz")(carry))
        n = self.activation_fn(of_input(name="in")(inputs) + r * of_state(name="hn", use_bias=True)(carry))
        state = (1.0 - z) * n + z * carry
        return state, state


class MGUCell(_VectorCell):
    """Minimal gated unit.

    `f = gate(W_if x + b_if + W_hf h)`, `n = activation(W_in x + b_in + f (W_hn h + b_hn))`, `h' = (1 - f) n + f h`.
    Without `reset_gate` n is `activation(W_in x + b_in + W_hn h)`.

    Parameters are those of `LSTMCell`, with initializers of the two biases.

    References
    ----------
    Zhou et al., "Minimal Gated Unit for Recurrent Neural Networks", 2016.
    """

    features: int
    gate_fn: Callable[..., Any] = sigmoid
    activation_fn: Callable[..., Any] = tanh
    kernel_init: Callable[..., Any] = default_kernel_init
    recurrent_kernel_init: Callable[..., Any] = default_recurrent_init
    forget_bias_init: Callable[..., Any] = initializers.ones
    activation_bias_init: Callable[..., Any] = initializers.zeros
    dtype: Any = None
    param_dtype: Any = pnp.float32
    carry_init: Callable[..., Any] = initializers.zeros
    reset_gate: bool = True

    @compact
    def __call__(self, carry: Any, inputs: Any) -> Any:
        """Return (h', h')."""
        dense = partial(Dense, carry.shape[-1], dtype=self.dtype, param_dtype=self.param_dtype)
        of_input = partial(dense, kernel_init=self.kernel_init)
        of_state = partial(
            dense, use_bias=False, kernel_init=self.recurrent_kernel_init, bias_init=self.activation_bias_init
        )
        f = self.gate_fn(of_input(name="if", bias_init=self.forget_bias_init)(inputs) + of_state(name="hf")(carry))
        recalled = of_state(name="hn", use_bias=self.reset_gate)(carry)
        if self.reset_gate:
            recalled = recalled * f
        n = self.activation_fn(of_input(name="in", bias_init=self.activation_bias_init)(inputs) + recalled)
        state = (1.0 - f) * n + f * carry
        return state, state


class ConvLSTMCell(RNNCellBase):
    """Long short-term memory over images, with convolutions as its linear maps.

    Parameters
    ----------
    features : int
        Channels of state and memory.
    kernel_size, strides, padding, use_bias, dtype, param_dtype
        As for `Conv`.
    carry_init : callable
        Initializer of the first carry.

    References
    ----------
    Shi et al., "Convolutional LSTM Network", 2015.
    """

    features: int
    kernel_size: Sequence[int]
    strides: Sequence[int] | None = None
    padding: Any = "SAME"
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = pnp.float32
    carry_init: Callable[..., Any] = initializers.zeros

    @compact
    def __call__(self, carry: Any, inputs: Any) -> Any:
        """Return ((c', h'), h') for `inputs` of shape (*batch, *space, channels)."""
        memory, state = carry
        conv = partial(
            Conv,
            features=4 * self.features,
            kernel_size=self.kernel_size,
            strides=self.strides,
            padding=self.padding,
            use_bias=self.use_bias,
            dtype=self.dtype,
            param_dtype=self.param_dtype,
        )
        i, g, f, o = pnp.split(conv(name="ih")(inputs) + conv(name="hh")(state), 4, axis=-1)
        memory = sigmoid(f + 1) * memory + sigmoid(i) * tanh(g)
        state = sigmoid(o) * tanh(memory)
        return (memory, state), state

    @nowrap
    def initialize_carry(self, rng: Any, input_shape: tuple[int, ...]) -> tuple[Any, Any]:
        """Return memory and state before the first step, each of shape (*batch, *space, features)."""
        memory_key, state_key = random.split(rng)
        shape = (*input_shape[:-1], self.features)
        return self.carry_init(memory_key, shape, self.param_dtype), self.carry_init(state_key, shape, self.param_dtype)

    @property
    def num_feature_axes(self) -> int:
        """Spatial axes and channels."""
        return len(self.kernel_size) + 1


class RNN(Module):
    """Run a cell over the time axis of its input.

    Parameters
    ----------
    cell : RNNCellBase
        Cell; its parameters are shared by all steps.
    time_major : bool
        Whether time is the first axis; otherwise it stands between batch and features.
    return_carry : bool
        Whether the result is `(last carry, outputs)`.
    reverse : bool
        Whether to run from the end.
    keep_order : bool
        Whether outputs of a reversed run are put in the order of the input.
    unroll : int
        Steps per iteration of the loop.
    variable_axes, variable_broadcast, variable_carry, split_rngs
        As for `scan`.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> model = linen.RNN(linen.LSTMCell(features=4))
    >>> model.init_with_output(random.key(0), pnp.ones((2, 7, 3)))[0].shape
    (2, 7, 4)
    """

    cell: RNNCellBase
    time_major: bool = False
    return_carry: bool = False
    reverse: bool = False
    keep_order: bool = False
    unroll: int = 1
    variable_axes: Mapping[Filter, Any] = FrozenDict()
    variable_broadcast: CollectionFilter = "params"
    variable_carry: CollectionFilter = False
    split_rngs: Mapping[Filter, bool] = FrozenDict({"params": False})

    def __call__(
        self,
        inputs: Any,
        *,
        initial_carry: Any = None,
        init_key: Any = None,
        seq_lengths: Any = None,
        return_carry: bool | None = None,
        time_major: bool | None = None,
        reverse: bool | None = None,
        keep_order: bool | None = None,
    ) -> Any:
        """Return the outputs of all steps, or the last carry and them.

        Parameters
        ----------
        inputs : Array
            Shape (*batch, time, *features), or (time, *batch, *features) where time is major.
        initial_carry : optional
            First carry; by default the cell makes it.
        init_key : key, optional
            Key for that.
        seq_lengths : Array, optional
            Number of valid steps, shape (*batch,): the carry is that after them, and reversal is of them alone.
        return_carry, time_major, reverse, keep_order : bool, optional
            Instead of the module's settings.
        """
        return_carry = self.return_carry if return_carry is None else return_carry
        time_major = self.time_major if time_major is None else time_major
        reverse = self.reverse if reverse is None else reverse
        keep_order = self.keep_order if keep_order is None else keep_order
        time_axis = 0 if time_major else inputs.ndim - self.cell.num_feature_axes - 1
        batch_dims = inputs.ndim - self.cell.num_feature_axes - 1
        flip = partial(flip_sequences, seq_lengths=seq_lengths, num_batch_dims=batch_dims, time_major=time_major)
        if reverse:
            inputs = flip(inputs)
        carry = initial_carry
        if carry is None:
            key = random.key(0) if init_key is None else init_key
            carry = self.cell.initialize_carry(key, inputs.shape[:time_axis] + inputs.shape[time_axis + 1 :])
        all_carries = seq_lengths is not None and return_carry

        def step(cell: Any, carry: Any, x: Any) -> Any:
            carry, y = cell(carry, x)
            return carry, (carry, y) if all_carries else y

        run = scan(
            step,
            in_axes=time_axis,
            out_axes=(0, time_axis) if all_carries else time_axis,
            unroll=self.unroll,
            variable_axes=self.variable_axes,
            variable_broadcast=self.variable_broadcast,
            variable_carry=self.variable_carry,
            split_rngs=self.split_rngs,
        )
        carry, outputs = run(self.cell, carry, inputs)
        if all_carries:
            carries, outputs = outputs
            carry = tree.map(partial(_at_step, index=pnp.asarray(seq_lengths) - 1), carries)
        if reverse and keep_order:
            outputs = tree.map(flip, outputs)
        return (carry, outputs) if return_carry else outputs


def _at_step(values: Any, index: Any) -> Any:
    """Return from (time, *batch, ...) the entry at the time `index`, shape (*batch,)."""
    places = pnp.reshape(index, (1, *index.shape, *(1,) * (values.ndim - 1 - index.ndim)))
    return pnp.take_along_axis(values, places, axis=0)[0]


def flip_sequences(inputs: Any, seq_lengths: Any, num_batch_dims: int, time_major: bool) -> Any:
    """Reverse sequences along time; with lengths only their valid part, which stays in front.

    Parameters
    ----------
    inputs : Array
        Shape (*batch, time, ...), or (time, *batch, ...) where time is major.
    seq_lengths : Array or None
        Shape (*batch,).
    num_batch_dims : int
        Number of batch axes.
    time_major : bool
        Whether time is the first axis.

    Returns
    -------
    array like `inputs`
    """
    time_axis = 0 if time_major else num_batch_dims
    if seq_lengths is None:
        return pnp.flip(inputs, axis=time_axis)
    steps = inputs.shape[time_axis]
    backwards = pnp.arange(steps - 1, -1, -1)
    shape = (steps, *(1,) * num_batch_dims) if time_major else (*(1,) * num_batch_dims, steps)
    # step t of a sequence of length n comes from n - 1 - t; the steps after n, from beyond, keep among themselves
    places = (pnp.reshape(backwards, shape) + pnp.expand_dims(pnp.asarray(seq_lengths), time_axis)) % steps
    places = pnp.reshape(places, (*places.shape, *(1,) * (inputs.ndim - places.ndim)))
    return pnp.take_along_axis(inputs, places, axis=time_axis)


def _concatenate(a: Any, b: Any) -> Any:
    return pnp.concatenate([a, b], axis=-1)


class Bidirectional(Module):
    """Run one RNN forward and one backward over the same input, and merge their outputs.

    Parameters
    ----------
    forward_rnn, backward_rnn : RNN
        Modules to run.
    merge_fn : callable
        Function of both outputs; concatenates them by default.
    time_major, return_carry
        As for `RNN`.
    """

    forward_rnn: Any
    backward_rnn: Any
    merge_fn: Callable[[Any, Any], Any] = _concatenate
    time_major: bool = False
    return_carry: bool = False

    def __call__(
        self,
        inputs: Any,
        *,
        initial_carry: Any = None,
        init_key: Any = None,
        seq_lengths: Any = None,
        return_carry: bool | None = None,
        time_major: bool | None = None,
        reverse: bool | None = None,
        keep_order: bool | None = None,
    ) -> Any:
        """Return the merged outputs, or the pair of carries and them; the parameters are those of `RNN`."""
        del reverse, keep_order
        return_carry = self.return_carry if return_carry is None else return_carry
        time_major = self.time_major if time_major is None else time_major
        keys: Any = (None, None) if init_key is None else random.split(init_key)
        carries = (None, None) if initial_carry is None else initial_carry
        common = {"seq_lengths": seq_lengths, "return_carry": True, "time_major": time_major}
        ahead, ahead_outputs = self.forward_rnn(
            inputs, initial_carry=carries[0], init_key=keys[0], reverse=False, **common
        )
        back, back_outputs = self.backward_rnn(
            inputs, initial_carry=carries[1], init_key=keys[1], reverse=True, keep_order=True, **common
        )
        outputs = tree.map(self.merge_fn, ahead_outputs, back_outputs)
        return ((ahead, back), outputs) if return_carry else outputs
