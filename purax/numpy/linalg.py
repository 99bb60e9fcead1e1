# SPDX-License-Identifier: Apache-2.0
"""Linear algebra with NumPy's names: `purax.numpy.linalg`.

Functions of matrices work on the last two axes and map over the others. Integers become floats; 16-bit floats are computed in
float32 and rounded back.

Results have the inexact dtype of the operands unless a function says otherwise.
"""

from purax.numpy.decompositions import (
    EighResult,
    EigResult,
    QRResult,
    SVDResult,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from purax.numpy.norms import matrix_norm, norm, vector_norm
from purax.numpy.shape import matrix_transpose
from purax.numpy.systems import (
    LinAlgError,
    SlogdetResult,
    cond,
    det,
    inv,
    lstsq,
    matrix_power,
    matrix_rank,
    pinv,
    slogdet,
    solve,
)
from purax.numpy.tensors import (
    cross,
    diagonal,
    matmul,
    multi_dot,
    outer,
    tensordot,
    tensorinv,
    tensorsolve,
    trace,
    vecdot,
)

__all__ = [
    "EigResult", "EighResult", "LinAlgError", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cond", "cross", "det",
    "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip
