# SPDX-License-Identifier: Apache-2.0
"""Long short-term memory over padded sequences, in layers and both directions, with all weights in one vector.

For each sequence x_1, ..., x_t and the logistic function s, one direction of one layer computes (Hochreiter and Schmidhuber, 1997)

    i, f, o = s(W_i x + V_i h + b_i + c_i), and so for f and o
    g = tanh(W_g x + V_g h + b_g + c_g)
    c <- f c + i g,    h <- o tanh(c)

Weights lie in the order of cuDNN: W (the rows of i, f, g and o) and V of each direction of each layer, then the two biases of each.

Parameters
----------
input_size, hidden_size, num_layers : int
bidirectional : bool
    Each layer runs forwards and backwards, and hands both results on.
weights : float32[n]
    n as `get_num_params_in_lstm` says.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from purax import numpy as pnp
from purax import random
from purax.control.loop import scan
from purax.primitives import elementwise

__all__ = ["get_num_params_in_lstm", "init_lstm_weight", "lstm", "lstm_ref", "unpack_lstm_weights"]

Parts = dict[int, Any]


def _shapes(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> list[tuple[int, ...]]:
    """Shapes of the parts of the weights in their order: pairs (W, V), then pairs of biases."""
    directions = 2 if bidirectional else 1
    rows = 4 * hidden_size
    widths = [input_size] * directions + [directions * hidden_size] * (directions * (num_layers - 1))
    matrices: list[tuple[int, ...]] = [shape for width in widths for shape in ((rows, width), (rows, hidden_size))]
    return matrices + [(rows,)] * len(matrices)


def get_num_params_in_lstm(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> int:
    """Number of weights."""
    return sum(math.prod(shape) for shape in _shapes(input_size, hidden_size, num_layers, bidirectional))


def init_lstm_weight(rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> Any:
    """Weights float32[get_num_params_in_lstm(...)], drawn by the key `rng`.

    They are uniform between -1 / sqrt(hidden_size) and 1 / sqrt(hidden_size).
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    limit = hidden_size**-0.5
    return random.uniform(rng, (count,), np.float32, -limit, limit)


def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[Parts, Parts, Parts, Parts]:
    """The parts W, V, b and c of the weights, each by the number of the layer (times two, plus one for backwards, if bidirectional).

    Four dicts from int to arrays.
    """
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = [
        weights[end - math.prod(shape) : end].reshape(shape) for end, shape in zip(ends.tolist(), shapes, strict=True)
    ]
    half = len(parts) // 2
    found = (parts[:half:2], parts[1:half:2], parts[half::2], parts[half + 1 :: 2])
    first, second, third, fourth = (dict(enumerate(group)) for group in found)
    return first, second, third, fourth


def _layer(x: Any, h: Any, c: Any, weights: tuple[Any, ...], inside: Any) -> tuple[Any, Any, Any]:
    """Results [t, batch, hidden] of one direction, zero behind the end of a sequence, and the state at the end of each."""
    w, v, b, bias = weights

    def step(state: Any, row: Any) -> Any:
        (h, c), (x, inside) = state, row
        i, f, g, o = pnp.split(x @ w.T + h @ v.T + (b + bias)[None], 4, axis=-1)
        i, f, o = (elementwise.logistic(gate) for gate in (i, f, o))
        new_c = f * c + i * pnp.tanh(g)
        new_h = o * pnp.tanh(new_c)
        state = pnp.where(inside, new_h, h), pnp.where(inside, new_c, c)
        return state, pnp.where(inside, new_h, 0)

    (h, c), y = scan(step, (h, c), (x, inside))
    return y, h, c


def _reversed(x: Any, lengths: Any) -> Any:
    """Sequences [t, batch, ...] backwards, padding left behind."""
    place = pnp.arange(x.shape[0], dtype=np.int32)[:, None]
    source = pnp.where(place < lengths[None], lengths[None] - 1 - place, place)
    return pnp.take_along_axis(x, source[..., None], axis=0)


def lstm_ref(
    x: Any, h_0: Any, c_0: Any, W_ih: Parts, W_hh: Parts, b_ih: Parts, b_hh: Parts, seq_lengths: Any, input_size: int, hidden_size: int,
    num_layers: int, dropout: float, bidirectional: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Run the network.

    Parameters
    ----------
    x : float[batch, t, input_size]
    h_0, c_0 : float[directions * num_layers, batch, hidden_size]
        State at the start.
    W_ih, W_hh, b_ih, b_hh : dict
        From `unpack_lstm_weights`.
    seq_lengths : int32[batch]
        Length of each sequence; what lies behind is padding.
    input_size, hidden_size, num_layers : int
    dropout : 0
    bidirectional : bool

    Returns
    -------
    y : float[batch, t, directions * hidden_size]
        Zero behind the end of a sequence.
    h_n, c_n : float[directions * num_layers, batch, hidden_size]
        State at the end of each sequence.

    Raises
    ------
    NotImplementedError
        With dropout, or lengths that are not int32.
    """
    if dropout:
        raise NotImplementedError("lstm_ref has no dropout: drop elements of its results between calls instead")
    if seq_lengths.dtype != np.int32:
        raise NotImplementedError(f"lstm_ref takes lengths of dtype int32, got {seq_lengths.dtype}")
    directions = 2 if bidirectional else 1
    y = pnp.swapaxes(x, 0, 1)
    inside = (pnp.arange(y.shape[0], dtype=np.int32)[:, None] < seq_lengths[None])[..., None]
    states = []
    for first in range(0, directions * num_layers, directions):
        found = []
        for i in range(first, first + directions):
            backwards = i > first
            rows = _reversed(y, seq_lengths) if backwards else y
            out, h, c = _layer(rows, h_0[i], c_0[i], (W_ih[i], W_hh[i], b_ih[i], b_hh[i]), inside)
            found.append(_reversed(out, seq_lengths) if backwards else out)
            states.append((h, c))
        y = pnp.concatenate(found, axis=-1)
    h_n, c_n = (pnp.stack(group) for group in zip(*states, strict=True))
    return pnp.swapaxes(y, 0, 1), h_n, c_n


def lstm(
    x: Any, h_0: Any, c_0: Any, weights: Any, seq_lengths: Any, input_size: int, hidden_size: int, num_layers: int, dropout: float,
    bidirectional: bool, precision: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """`lstm_ref` with the weights in one vector. `precision` has no effect.

    Parameters
    ----------
    x, h_0, c_0, seq_lengths, dropout
        As in `lstm_ref`.
    precision : optional
        Without effect.

    Returns
    -------
    (y, h_n, c_n)
        As of `lstm_ref`.
    """
    parts = unpack_lstm_weights(weights, input_size, hidden_size, num_layers, bidirectional)
    return lstm_ref(
        x, h_0, c_0, *parts, seq_lengths, input_size, hidden_size, num_layers, dropout, bidirectional
    )  # fmt: skip
