# SPDX-License-Identifier: Apache-2.0
"""Signals: convolution and correlation, trends, spectra.

Results have the common inexact dtype of the signals.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from purax import dtypes
from purax import numpy as pnp
from purax.lazy import lazy
from purax.numpy import fft as transforms
from purax.numpy.promotion import check_arraylike, promote_dtypes_inexact
from purax.primitives.complex import complex as make_complex
from purax.primitives.convolution import conv_general_dilated

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft", "stft", "welch",
]  # fmt: skip

scipy_signal = lazy("scipy.signal")
scipy_fft = lazy("scipy.fft")


# --- convolution --------------------------------------------------------------------------------------------------------------


def _operands(name: str, in1: Any, in2: Any) -> list[Any]:
    check_arraylike(name, in1, in2)
    in1, in2 = promote_dtypes_inexact(in1, in2)
    if in1.ndim != in2.ndim:
        raise ValueError(f"{name}: in1 and in2 must have as many axes, got shapes {in1.shape} and {in2.shape}")
    return [in1, in2]


def _cut(full: Any, first: Sequence[int], second: Sequence[int], mode: str, axes: Sequence[int]) -> Any:
    """The part of a full convolution of arrays of these sizes that `mode` asks for."""
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode is 'full', 'same' or 'valid', got {mode!r}")
    if mode == "full":
        return full
    if mode == "valid" and not (all(first[i] >= second[i] for i in axes) or all(second[i] >= first[i] for i in axes)):
        raise ValueError(
            f"mode 'valid' keeps the places where the smaller operand lies within the larger, and of {tuple(first)} and {tuple(second)} neither does"
        )
    parts = [slice(None)] * full.ndim
    for i in axes:
        size = first[i] if mode == "same" else abs(first[i] - second[i]) + 1
        start = (full.shape[i] - size) // 2
        parts[i] = slice(start, start + size)
    return full[tuple(parts)]


def _full(in1: Any, in2: Any, precision: Any) -> Any:
    """The whole convolution."""
    if in1.ndim == 0:
        return in1 * in2
    if not in1.size or not in2.size:
        raise ValueError(f"convolution of empty arrays: shapes {in1.shape} and {in2.shape}")
    pads = [(n - 1, n - 1) for n in in2.shape]
    return conv_general_dilated(
        in1[None, None],
        pnp.flip(in2)[None, None],
        (1,) * in1.ndim,
        pads,
        precision="highest" if precision is None else precision,
    )[0, 0]


def _method(method: str) -> str:
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f"Got {method=}; expected 'auto', 'fft', or 'direct'.")
    return method


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Any:
    """Convolution of arrays of one rank.

    Parameters
    ----------
    in1, in2 : array
        Integers become floats.
    mode : "full", "same" or "valid"
        Everything; the centre, of the size of `in1`; what needs no values outside.
    method : "auto", "direct" or "fft"
        Sums of products ("auto", too) or products of Fourier transforms.
    precision
        Of the products, by default the highest.

    Returns
    -------
    inexact array

    Raises
    ------
    ValueError
        Operands of different rank or without elements, an unknown mode or method, or "valid" where neither operand
        lies in the other.
    """
    if _method(method) == "fft":
        return fftconvolve(in1, in2, mode)
    in1, in2 = _operands("convolve", in1, in2)
    return _cut(_full(in1, in2, precision), in1.shape, in2.shape, mode, range(in1.ndim))


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Any:
    """Cross-correlation: convolution with the reversed conjugate of `in2`. Parameters as in `convolve`.

    Parameters
    ----------
    in1, in2 : array
    mode, method, precision
        As in `convolve`.

    Returns
    -------
    inexact array
    """
    check_arraylike("correlate", in1, in2)
    return convolve(in1, pnp.conj(pnp.flip(pnp.asarray(in2))), mode, method, precision)


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Sequence[int] | None = None) -> Any:
    """Convolution by Fourier transforms along some axes (default all); the others broadcast. Parameters as in `convolve`.

    Parameters
    ----------
    in1, in2 : array
    mode : "full", "same" or "valid"
    axes : int or sequence of int, optional

    Returns
    -------
    inexact array

    Raises
    ------
    ValueError
        Operands of different rank, axes that do not broadcast, or another mode.
    """
    in1, in2 = _operands("fftconvolve", in1, in2)
    if in1.ndim == 0:
        return in1 * in2
    places = range(in1.ndim) if axes is None else [operator.index(a) for a in np.atleast_1d(np.asarray(axes)).tolist()]
    places = sorted({a % in1.ndim for a in places})
    if any(
        in1.shape[i] != in2.shape[i] and 1 not in (in1.shape[i], in2.shape[i])
        for i in range(in1.ndim)
        if i not in places
    ):
        raise ValueError(f"the axes that are not convolved must be equal or 1, got shapes {in1.shape} and {in2.shape}")
    sizes = [in1.shape[i] + in2.shape[i] - 1 for i in places]
    real = not dtypes.is_complex(in1.dtype)
    fast = [scipy_fft.next_fast_len(n, real) for n in sizes]
    forward, inverse = (transforms.rfftn, transforms.irfftn) if real else (transforms.fftn, transforms.ifftn)
    out = inverse(forward(in1, fast, places) * forward(in2, fast, places), fast, places)
    for i, size in zip(places, sizes, strict=True):
        out = pnp.take(out, np.arange(size), axis=i)
    return _cut(out.astype(in1.dtype), in1.shape, in2.shape, mode, places)


def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0, precision: Any = None
) -> Any:
    """Convolution of two matrices.

    Parameters
    ----------
    in1, in2 : array[m, n]
    mode : "full", "same" or "valid"
    boundary : "fill", "wrap" or "symm"
        What lies outside of `in1`: `fillvalue`, the matrix again, its mirror image.
    fillvalue : float
    precision
        Of the products, by default the highest.

    Returns
    -------
    inexact[k, l]

    Raises
    ------
    ValueError
        Not two matrices, another mode or boundary.
    """
    in1, in2 = _operands("convolve2d", in1, in2)
    if in1.ndim != 2:
        raise ValueError(f"convolve2d takes two matrices, got shapes {in1.shape} and {in2.shape}")
    if boundary not in ("fill", "wrap", "symm"):
        raise ValueError(f"boundary must be 'fill', 'wrap' or 'symm', got {boundary!r}")
    if mode == "valid" or (boundary == "fill" and isinstance(fillvalue, (int, float)) and fillvalue == 0):
        return _cut(_full(in1, in2, precision), in1.shape, in2.shape, mode, (0, 1))
    # all that the full convolution reads, then only what needs nothing outside of that
    pads = [(n - 1, n - 1) for n in in2.shape]
    if boundary == "fill":
        wide = pnp.pad(in1, pads, constant_values=fillvalue)
    else:
        wide = pnp.pad(in1, pads, mode={"wrap": "wrap", "symm": "symmetric"}[boundary])
    full = _cut(_full(wide, in2, precision), wide.shape, in2.shape, "valid", (0, 1))
    return _cut(full, in1.shape, in2.shape, mode, (0, 1))


def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0, precision: Any = None
) -> Any:
    """Cross-correlation of two matrices. Parameters as in `convolve2d`.

    Parameters
    ----------
    in1, in2 : array[m, n]
    mode, boundary, fillvalue, precision
        As in `convolve2d`.

    Returns
    -------
    inexact[k, l]
    """
    check_arraylike("correlate2d", in1, in2)
    in1, in2 = pnp.asarray(in1), pnp.asarray(in2)
    if mode == "same" and in1.ndim == in2.ndim == 2 and any(n % 2 == 0 for n in in2.shape):
        # the centre of a reversed kernel of even size lies on its other side
        full = convolve2d(in1, pnp.conj(pnp.flip(in2)), "full", boundary, fillvalue, precision)
        starts = [n // 2 for n in in2.shape]
        return full[starts[0] : starts[0] + in1.shape[0], starts[1] : starts[1] + in1.shape[1]]
    if mode == "valid" and in1.ndim == in2.ndim == 2 and all(n < m for n, m in zip(in1.shape, in2.shape, strict=True)):
        # as SciPy has it: conjugate of what `correlate` gives
        return pnp.flip(convolve2d(in2, pnp.conj(pnp.flip(in1)), mode, boundary, fillvalue, precision))
    return convolve2d(in1, pnp.conj(pnp.flip(in2)), mode, boundary, fillvalue, precision)


# --- trends -------------------------------------------------------------------------------------------------------------------


def detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: None = None) -> Any:
    """Data without its mean or its straight line of least squares.

    Parameters
    ----------
    data : array[...]
        Integers become floats.
    axis : int
    type : "linear" or "constant"
    bp : int or sequence of int
        Places where a new line begins.
    overwrite_data : None

    Returns
    -------
    inexact array of the shape of `data`

    Raises
    ------
    ValueError
        `overwrite_data` is given, another type, or places beyond the end.
    """
    if overwrite_data is not None:
        raise ValueError("detrend takes no overwrite_data: arrays are immutable")
    if type not in ("constant", "linear"):
        raise ValueError(f"detrend: type is 'constant' or 'linear', got {type!r}")
    check_arraylike("detrend", data)
    (data,) = promote_dtypes_inexact(data)
    if type == "constant":
        return data - pnp.mean(data, axis, keepdims=True)
    rows = pnp.moveaxis(data, axis, -1)
    n = rows.shape[-1]
    ends = np.unique(np.concatenate([[0, n], np.atleast_1d(np.asarray(bp)) % max(n + 1, 1)]))
    if np.any(np.asarray(bp) > n):
        raise ValueError(f"detrend: the axis has {n} points, and breakpoints {bp} lie outside")
    parts = []
    for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        lines = np.stack([np.ones(end - start), np.arange(1, end - start + 1) / (end - start)], axis=1)
        basis = pnp.asarray(np.linalg.qr(lines)[0], dtypes.real_dtype(rows.dtype)).astype(rows.dtype)
        part = rows[..., start:end]
        fit = pnp.matmul(pnp.matmul(part, basis, precision="highest"), basis.T, precision="highest")
        parts.append(part - fit)
    return pnp.moveaxis(pnp.concatenate(parts, axis=-1), -1, axis)


# --- spectra ------------------------------------------------------------------------------------------------------------------


def _window(window: Any, nperseg: int | None, size: int, default: int = 256) -> tuple[np.ndarray | Any, int]:
    """Values of the window and its length, at most that of the data."""
    if isinstance(window, (str, tuple)):
        length = default if nperseg is None else operator.index(nperseg)
        if length < 1:
            raise ValueError("nperseg must be a positive integer")
        length = min(length, size)
        return scipy_signal.get_window(window, length), length
    values = pnp.asarray(window)
    if values.ndim != 1:
        raise ValueError("window must be 1-D")
    if values.shape[0] > size:
        raise ValueError(f"window is longer than input signal: {values.shape[0]} > {size}")
    if nperseg is not None and nperseg != values.shape[0]:
        raise ValueError(
            f"nperseg is the length of the window, {values.shape[0]}, if that is given as an array; got {nperseg}"
        )
    return values, values.shape[0]


def _lengths(nperseg: int, noverlap: int | None, nfft: int | None) -> tuple[int, int]:
    noverlap = nperseg // 2 if noverlap is None else operator.index(noverlap)
    nfft = nperseg if nfft is None else operator.index(nfft)
    if nfft < nperseg:
        raise ValueError(f"segments of {nperseg} points do not fit in nfft = {nfft}")
    if noverlap >= nperseg:
        raise ValueError(f"segments of {nperseg} points cannot overlap by noverlap = {noverlap}")
    return noverlap, nfft


def _extended(x: Any, size: int, boundary: str) -> Any:
    """`x` lengthened at both ends of the last axis."""
    pads = [(0, 0)] * (x.ndim - 1) + [(size, size)]
    if boundary == "even":
        return pnp.pad(x, pads, mode="reflect")
    if boundary == "odd":
        return pnp.pad(x, pads, mode="reflect", reflect_type="odd")
    if boundary in ("constant", "zeros"):
        return pnp.pad(x, pads, mode="edge") if boundary == "constant" else pnp.pad(x, pads)
    raise ValueError(
        f"Unknown boundary option '{boundary}', must be one of: {['even', 'odd', 'constant', 'zeros', None]}"
    )


def _spectra(
    x: Any, y: Any, fs: Any, window: Any, nperseg: int | None, noverlap: int | None, nfft: int | None, detrend_type: Any,
    return_onesided: bool, scaling: str, axis: int, psd: bool, boundary: str | None = None, padded: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Frequencies, times, and the transforms (or cross spectra) of overlapping segments: [..., frequency, time]."""
    check_arraylike("spectra", x, *([] if y is None else [y]))
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"Unknown scaling: {scaling!r}")
    if y is None:
        (x,) = promote_dtypes_inexact(x)
    else:
        x, y = promote_dtypes_inexact(x, y)
        y = pnp.moveaxis(y, axis, -1)
    x = pnp.moveaxis(x, axis, -1)
    if y is not None:
        size = max(x.shape[-1], y.shape[-1])
        x, y = (pnp.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, size - v.shape[-1])]) for v in (x, y))
        lead = pnp.broadcast_shapes(x.shape[:-1], y.shape[:-1])
        x, y = (pnp.broadcast_to(v, (*lead, size)) for v in (x, y))
    real = dtypes.real_dtype(x.dtype)
    win, nperseg = _window(window, nperseg, x.shape[-1])
    weights = pnp.asarray(win, real)
    row = weights[(None,) * x.ndim].astype(x.dtype)
    noverlap, nfft = _lengths(nperseg, noverlap, nfft)
    step = nperseg - noverlap
    total = x.shape[-1] + (2 * (nperseg // 2) if boundary is not None else 0)
    nadd = (-(total - nperseg) % step) % nperseg if padded else 0
    onesided = return_onesided and not dtypes.is_complex(x.dtype)

    def transformed(v: Any) -> Any:
        if boundary is not None:
            v = _extended(v, nperseg // 2, boundary)
        if nadd:
            v = pnp.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, nadd)])
        count = (v.shape[-1] - noverlap) // step
        segments = pnp.take(v, np.arange(count)[:, None] * step + np.arange(nperseg), axis=-1)
        if callable(detrend_type):
            segments = detrend_type(segments)
        elif detrend_type:
            segments = detrend(segments, -1, detrend_type)
        return (transforms.rfft if onesided else transforms.fft)(segments * row, nfft)

    scale = 1 / (fs * pnp.sum(weights**2)) if scaling == "density" else 1 / pnp.sum(weights) ** 2
    out = transformed(x)
    if psd:
        out = pnp.conj(out) * transformed(y) if y is not None else pnp.real(pnp.conj(out) * out)
        out = out * scale.astype(out.dtype)
        if onesided:
            last = out.shape[-1] - (1 if nfft % 2 == 0 else 0)
            place = np.arange(out.shape[-1]).reshape((1,) * (out.ndim - 1) + (-1,))
            out = out * np.where((place > 0) & (place < last), 2.0, 1.0).astype(out.dtype)
    else:
        out = out * pnp.sqrt(scale).astype(out.dtype)
    frequencies = (transforms.rfftfreq if onesided else transforms.fftfreq)(nfft, d=1.0).astype(real) * fs
    times = np.arange(nperseg / 2, total + nadd - nperseg / 2 + 1, step) - (nperseg / 2 if boundary is not None else 0)
    out = pnp.moveaxis(out, -1, axis - 1 if axis < 0 else axis)
    return frequencies, pnp.asarray(times, real) / fs, out


def stft(
    x: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int = 256, noverlap: int | None = None, nfft: int | None = None,
    detrend: Any = False, return_onesided: bool = True, boundary: str | None = "zeros", padded: bool = True, axis: int = -1,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Fourier transforms of overlapping segments.

    Parameters
    ----------
    x : array[...]
    fs : float
        Samples per unit of time.
    window : str, tuple or array[nperseg]
        Name as in SciPy's `get_window`, or values.
    nperseg, noverlap, nfft : int, optional
        Lengths of the segments, of what they share (default half), of the transform (default nperseg).
    detrend : False, "constant", "linear" or callable
    return_onesided : bool
        Of real data, frequencies from 0 on only.
    boundary : "zeros", "even", "odd", "constant" or None
        How the data goes on for half a segment at both ends.
    padded : bool
        Lengthen the data to whole segments.
    axis : int

    Returns
    -------
    (frequencies float[f], times float[t], complex[..., f, ..., t])
    """
    return _spectra(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        "spectrum",
        axis,
        False,
        boundary,
        padded,
    )


def _median_bias(n: int) -> float:
    """Expected median of n exponential variables of mean 1."""
    k = 2 * np.arange(1.0, (n - 1) // 2 + 1)
    return 1 + float(np.sum(1 / (k + 1) - 1 / k))


def csd(
    x: Any, y: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density", axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:  # fmt: skip
    """Cross spectral density by Welch's method.

    Parameters
    ----------
    y : array[...] or None
        None: the power spectrum of `x`.
    scaling : "density" or "spectrum"
        Per unit of frequency, or not.
    average : "mean" or "median"
        Over the segments.
    x : array[...]
    fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis
        As in `stft`.

    Returns
    -------
    (frequencies float[f], array[..., f, ...])

    Raises
    ------
    ValueError
        Another scaling or average.
    """
    frequencies, _, out = _spectra(
        x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, True
    )
    if average not in ("mean", "median"):
        raise ValueError(f"average is 'mean' or 'median', got {average!r}")
    if out.shape[-1] == 1:
        return frequencies, out[..., 0]
    if average == "mean":
        return frequencies, pnp.mean(out, axis=-1)
    bias = _median_bias(out.shape[-1])
    if dtypes.is_complex(out.dtype):
        return frequencies, make_complex(pnp.median(pnp.real(out), axis=-1), pnp.median(pnp.imag(out), axis=-1)) / bias
    return frequencies, pnp.median(out, axis=-1) / bias


def welch(
    x: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density", axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:  # fmt: skip
    """Power spectral density by Welch's method: `csd` of the data with itself.

    Parameters
    ----------
    x : array[...]
    fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis
        As in `stft`.
    scaling, average
        As in `csd`.

    Returns
    -------
    (frequencies float[f], float[..., f, ...])

    Raises
    ------
    ValueError
        Another scaling or average.
    """
    frequencies, out = csd(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    )
    return frequencies, pnp.real(out)


def istft(
    Zxx: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int | None = None, noverlap: int | None = None,
    nfft: int | None = None, input_onesided: bool = True, boundary: bool = True, time_axis: int = -1, freq_axis: int = -2,
) -> tuple[Any, Any]:  # fmt: skip
    """The signal of a short-time Fourier transform, by overlapping and adding.

    Parameters
    ----------
    Zxx : complex[..., f, t]
    fs, window, nperseg, noverlap, nfft
        As in `stft`.
    input_onesided, boundary : bool
        `stft` left out negative frequencies; lengthened the data.
    time_axis, freq_axis : int

    Returns
    -------
    (times float[n], array[..., n])

    Raises
    ------
    ValueError
        Fewer than two axes, or one axis for both.
    """
    check_arraylike("istft", Zxx)
    (Zxx,) = promote_dtypes_inexact(Zxx)
    if Zxx.ndim < 2:
        raise ValueError(f"istft: Zxx has an axis of times and one of frequencies, got shape {Zxx.shape}")
    time, freq = time_axis % Zxx.ndim, freq_axis % Zxx.ndim
    if time == freq:
        raise ValueError(f"istft: time_axis and freq_axis are both axis {time}")
    Zxx = pnp.moveaxis(Zxx.astype(dtypes.to_complex(Zxx.dtype)), (freq, time), (-2, -1))
    default = 2 * (Zxx.shape[-2] - 1) if input_onesided else Zxx.shape[-2]
    win, nperseg = _window(window, nperseg, max(default, nperseg or 0), default)
    if nfft is None:
        nfft = nperseg if input_onesided and nperseg == default + 1 else default
    noverlap, nfft = _lengths(nperseg, noverlap, nfft)
    step, count = nperseg - noverlap, Zxx.shape[-1]
    parts = transforms.irfft(Zxx, nfft, axis=-2) if input_onesided else transforms.ifft(Zxx, axis=-2)
    real = dtypes.real_dtype(Zxx.dtype)
    win = pnp.asarray(win, real)
    column = (win * pnp.sum(win))[(None,) * (parts.ndim - 2)][..., None]
    parts = parts[..., :nperseg, :] * column.astype(parts.dtype)
    total = nperseg + (count - 1) * step
    places = np.arange(nperseg)[:, None] + np.arange(count) * step
    x = pnp.zeros((*parts.shape[:-2], total), parts.dtype).at[..., places].add(parts)
    norm = pnp.zeros(total, real).at[places].add(pnp.broadcast_to((win * win)[:, None], places.shape))
    if boundary:
        x, norm = x[..., nperseg // 2 : total - nperseg // 2], norm[nperseg // 2 : total - nperseg // 2]
    x = x / pnp.where(norm > 1e-10, norm, 1)[(None,) * (x.ndim - 1)].astype(x.dtype)
    if x.ndim > 1 and time != Zxx.ndim - 1:
        x = pnp.moveaxis(x, -1, time - 1 if freq < time else time)
    return pnp.arange(x.shape[0]).astype(real) / fs, x
