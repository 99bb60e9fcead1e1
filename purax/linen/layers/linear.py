# SPDX-License-Identifier: Apache-2.0
"""Linear layers: Dense, DenseGeneral, Einsum and the table Embed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from purax import numpy as pnp
from purax.linen import initializers, meta
from purax.linen.declare import compact, nowrap
from purax.linen.dtypes import promote_dtype
from purax.linen.module import Module, merge_param
from purax.primitives.contraction import dot_general

__all__ = ["Dense", "DenseGeneral", "Einsum", "Embed", "default_kernel_init"]

default_kernel_init = initializers.lecun_normal()
default_embed_init = initializers.variance_scaling(1.0, "fan_in", "normal", out_axis=0)


def _as_tuple(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, Iterable) else (value,)


def _product(given: Any, given_cls: Any) -> Callable[..., Any]:
    """Return the function that multiplies: one made by `given_cls`, or `given`, or dot_general."""
    if given_cls is not None:
        return given_cls()
    return dot_general if given is None else given


class Dense(Module):
    """A linear map of the last axis: `y = x W + b`.

    Parameters
    ----------
    features : int
        Size of the last axis of the output.
    use_bias : bool
        Whether to add b.
    dtype : dtype, optional
        What to compute in; by default that of input and parameters together.
    param_dtype : dtype
        Dtype of W and b.
    precision : Precision, optional
        Of the product.
    kernel_init, bias_init : callable
        Initializers of W, shape (inputs, features), and b, shape (features,).
    promote_dtype : callable
        Brings input and parameters to one dtype.
    dot_general, dot_general_cls : callable, optional
        Another product, or a module class that makes one.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> linen.Dense(3).init(random.key(0), pnp.ones((1, 4)))["params"]["kernel"].shape
    (4, 3)
    """

    features: int
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = pnp.float32
    precision: Any = None
    kernel_init: Callable[..., Any] = default_kernel_init
    bias_init: Callable[..., Any] = initializers.zeros
    promote_dtype: Callable[..., Any] = promote_dtype
    dot_general: Callable[..., Any] | None = None
    dot_general_cls: Any = None

    @compact
    def __call__(self, inputs: Any) -> Any:
        """Map `inputs`, shape (..., n), to shape (..., features)."""
        if not pnp.ndim(inputs):
            raise ValueError("Dense maps the last axis of its input, and was given a scalar: it has none.")
        kernel = self.param("kernel", self.kernel_init, (pnp.shape(inputs)[-1], self.features), self.param_dtype)
        bias = self.param("bias", self.bias_init, (self.features,), self.param_dtype) if self.use_bias else None
        inputs, kernel, bias = self.promote_dtype(inputs, kernel, bias, dtype=self.dtype)
        product = _product(self.dot_general, self.dot_general_cls)
        y = product(inputs, kernel, (((inputs.ndim - 1,), (0,)), ((), ())), precision=self.precision)
        return y if bias is None else y + bias


@lru_cache(maxsize=256)
def _flat_init(init: Callable[..., Any], batch: int, axes: int, features: int) -> Callable[..., Any]:
    """Return an initializer that draws a kernel as a matrix, or a bias as a vector (`axes` 0), and reshapes it.

    So fan-in and fan-out are those of the matrix. Kept per arguments: one function object for each layer's settings.
    """

    def drawn(key: Any, shape: Sequence[int], dtype: Any = pnp.float32) -> Any:
        outer, flat_features = prod(shape[: batch + axes]), prod(shape[-features:])
        flat = (outer, flat_features) if axes else (outer * flat_features,)
        value = init(key, flat, dtype)
        if meta.is_box(value):
            return value.replace_boxed(pnp.reshape(value.unbox(), shape))
        return pnp.reshape(value, shape)

    return drawn


class DenseGeneral(Module):
    """A linear map of several axes at once.

    Parameters
    ----------
    features : int or sequence of int
        Sizes of the output axes, which come last.
    axis : int or sequence of int
        Input axes to map.
    batch_dims : sequence of int
        Leading axes with a kernel of their own for each index.
    use_bias, dtype, param_dtype, precision, promote_dtype, dot_general, dot_general_cls
        As for `Dense`.
    kernel_init, bias_init : callable
        Called with the shape of the flattened matrix, and vector.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> layer = linen.DenseGeneral(features=(4, 5), axis=(1, -1))
    >>> layer.init(random.key(0), pnp.ones((1, 3, 7, 2)))["params"]["kernel"].shape
    (3, 2, 4, 5)
    """

    features: int | Sequence[int]
    axis: int | Sequence[int] = -1
    batch_dims: Sequence[int] = ()
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = pnp.float32
    kernel_init: Callable[..., Any] = default_kernel_init
    bias_init: Callable[..., Any] = initializers.zeros
    precision: Any = None
    promote_dtype: Callable[..., Any] = promote_dtype
    dot_general: Callable[..., Any] | None = None
    dot_general_cls: Any = None

    @compact
    def __call__(self, inputs: Any) -> Any:
        """Map `inputs`; the result has the axes that are not mapped, batch axes first, then `features`."""
        features, given_batch = _as_tuple(self.features), _as_tuple(self.batch_dims)
        if set(given_batch) != set(range(len(given_batch))):
            raise ValueError(f"batch_dims must be the leading axes 0, 1, ...; got {given_batch}.")
        ndim = inputs.ndim
        axis = tuple(sorted(ax % ndim for ax in _as_tuple(self.axis)))
        batch_dims = tuple(sorted(given_batch))
        batch, axes = len(batch_dims), len(axis)
        batch_shape = tuple(inputs.shape[ax] for ax in batch_dims)
        kernel_shape = (*batch_shape, *(inputs.shape[ax] for ax in axis), *features)
        kernel_init = _flat_init(self.kernel_init, batch, axes, len(features))
        kernel = self.param("kernel", kernel_init, kernel_shape, self.param_dtype)
        bias = None
        if self.use_bias:
            bias_init = _flat_init(self.bias_init, batch, 0, len(features))
            bias = self.param("bias", bias_init, (*batch_shape, *features), self.param_dtype)
        inputs, kernel, bias = self.promote_dtype(inputs, kernel, bias, dtype=self.dtype)
        contracted = tuple(range(batch, batch + axes))
        dimensions = ((axis, contracted), (batch_dims, tuple(range(batch))))
        product = _product(self.dot_general, self.dot_general_cls)
        out = product(inputs, kernel, dimensions, precision=self.precision)
        if bias is None:
            return out
        kept = tuple(inputs.shape[ax] if ax in batch_dims else 1 for ax in range(ndim) if ax not in axis)
        return out + pnp.reshape(bias, kept + features)


class Einsum(Module):
    """An einsum of the input with a learned array, and a bias.

    Parameters
    ----------
    shape : sequence of int
        Shape of the kernel.
    einsum_str : str, optional
        Equation "input,kernel->output"; may be given at the call instead.
    use_bias, dtype, param_dtype, precision, kernel_init, bias_init, promote_dtype
        As for `Dense`. The bias spans those output axes that the kernel has.
    preferred_element_type : dtype, optional
        Dtype to accumulate in.

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> layer = linen.Einsum((3, 4, 5), "abc,cde->abde")
    >>> layer.init_with_output(random.key(0), pnp.ones((1, 2, 3)))[0].shape
    (1, 2, 4, 5)
    """

    shape: Sequence[int]
    einsum_str: str | None = None
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = pnp.float32
    precision: Any = None
    kernel_init: Callable[..., Any] = default_kernel_init
    bias_init: Callable[..., Any] = initializers.zeros
    promote_dtype: Callable[..., Any] = promote_dtype
    preferred_element_type: Any = None

    @compact
    def __call__(self, inputs: Any, einsum_str: str | None = None) -> Any:
        """Return the einsum of `inputs` and the kernel, plus the bias."""
        equation = merge_param("einsum_str", self.einsum_str, einsum_str).replace(" ", "")
        if "->" not in equation or equation.count(",") != 1:
            raise ValueError(f'einsum_str must be of the form "input,kernel->output", got {equation!r}.')
        kernel = self.param("kernel", self.kernel_init, tuple(self.shape), self.param_dtype)
        bias = None
        if self.use_bias:
            sizes = self._bias_sizes(equation, pnp.ndim(inputs))
            bias_shape = tuple(size for size in sizes if size is not None)
            bias = self.param("bias", self.bias_init, bias_shape, self.param_dtype)
        inputs, kernel, bias = self.promote_dtype(inputs, kernel, bias, dtype=self.dtype)
        y = pnp.einsum(
            equation, inputs, kernel, precision=self.precision, preferred_element_type=self.preferred_element_type
        )
        if bias is None:
            return y
        return y + pnp.reshape(bias, tuple(1 if size is None else size for size in sizes))

    @nowrap
    def _bias_sizes(self, equation: str, input_ndim: int) -> list[int | None]:
        """Return the kernel's size of each output axis, None for axes that only the input has."""
        operands, result = equation.split("->")
        given, letters = operands.split(",")
        # the axes of an ellipsis are called 0, 1, ... from its right end
        spans = [input_ndim - len(given.replace("...", "")), len(self.shape) - len(letters.replace("...", ""))]
        names = [str(number) for number in reversed(range(max(spans)))]
        before, _, after = letters.partition("...")
        hidden = names[len(names) - spans[1] :] if "..." in letters else []
        sizes = dict(zip([*before, *hidden, *after], self.shape, strict=True))
        start, _, end = result.partition("...")
        return [sizes.get(name) for name in [*start, *(names if "..." in result else []), *end]]


class Embed(Module):
    """A table of vectors, looked up by integers.

    Parameters
    ----------
    num_embeddings : int
        Rows of the table.
    features : int
        Size of each vector.
    dtype, param_dtype, promote_dtype
        As for `Dense`.
    embedding_init : callable
        Initializer of the table, shape (num_embeddings, features).

    Examples
    --------
    >>> from purax import linen, numpy as pnp, random
    >>> table = linen.Embed(num_embeddings=5, features=3)
    >>> table.init_with_output(random.key(0), pnp.array([[1, 4]]))[0].shape
    (1, 2, 3)
    """

    num_embeddings: int
    features: int
    dtype: Any = None
    param_dtype: Any = pnp.float32
    embedding_init: Callable[..., Any] = default_embed_init
    promote_dtype: Callable[..., Any] = promote_dtype

    def setup(self) -> None:
        """Declare the table."""
        shape = (self.num_embeddings, self.features)
        self.embedding = self.param("embedding", self.embedding_init, shape, self.param_dtype)

    def __call__(self, inputs: Any) -> Any:
        """Return the vectors of the integers `inputs`, shape (..., features)."""
        if not pnp.issubdtype(inputs.dtype, pnp.integer):
            raise ValueError(f"Embed looks up integers, got {inputs.dtype}.")
        (embedding,) = self.promote_dtype(self.embedding, dtype=self.dtype, inexact=False)
        if self.num_embeddings == 1:
            return pnp.broadcast_to(embedding, (*inputs.shape, self.features))
        return pnp.take(embedding, inputs, axis=0)

    def attend(self, query: Any) -> Any:
        """Return the product of `query`, shape (..., features), with each vector: logits, shape (..., num_embeddings)."""
        query, embedding = self.promote_dtype(query, self.embedding, dtype=self.dtype)
        return pnp.dot(query, embedding.T)
