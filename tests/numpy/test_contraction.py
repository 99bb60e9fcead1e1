# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from purax import errors, grad, jit, vmap
from purax import numpy as pnp

RNG = np.random.default_rng(3)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


A, B, C, D, V = normal(3, 4), normal(4, 5), normal(2, 3, 4), normal(2, 4, 5), normal(4)
Z = (normal(4) + 1j * normal(4)).astype(np.complex64)


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("dot", (A, B)), ("dot", (C, B)), ("dot", (C, D)), ("dot", (A, 2.0)), ("matmul", (A, B)), ("matmul", (C, D)),
        ("matmul", (C, B)), ("matmul", (A, D)), ("matmul", (V, V)), ("matmul", (C, V)), ("matmul", (V, D)),
        ("matmul", (normal(1, 3, 4), normal(6, 2, 4, 5))), ("inner", (A, A)), ("outer", (V, A)), ("vdot", (Z, Z)),
        ("vecdot", (Z, Z)), ("tensordot", (A, B, 1)), ("tensordot", (C, D, ([0, 2], [0, 1]))), ("kron", (A, V)),
        ("cross", (normal(4, 3), normal(3))),
    ],
)  # fmt: skip
def test_products_give_what_numpy_gives(name, operands):
    np.testing.assert_allclose(getattr(np, name)(*operands), getattr(pnp, name)(*operands), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("ij,jk->ik", (A, B)), ("ij,jk->ki", (A, B)), ("ij,jk", (A, B)), ("ij->ji", (A,)), ("ii->i", (A[:, :3],)),
        ("ii", (A[:, :3],)), ("ij->", (A,)), ("bij,bjk->bik", (C, D)), ("...ij,...jk->...ik", (C, D)), ("i,j->ij", (V, V)),
        ("bij,jk->bk", (C, B)), ("ij,jk,kl->il", (A, B, normal(5, 2))), ("iij->j", (normal(3, 3, 2),)), ("ij,ij->ij", (A, A)),
        ("abc,abd->dc", (C, C)), ("i...->...", (A,)), ("ij,kl->il", (A, B)), ("i,i,i->i", (V, V, V)), ("...,...", (A, A)),
        ("ij,jk->ik", (normal(3, 1), B)),
    ],
)  # fmt: skip
def test_einstein_sums_give_what_numpy_gives(text, operands):
    want = np.einsum(text, *operands)
    for _ in range(2):  # the second time finds the plan of the first
        np.testing.assert_allclose(want, pnp.einsum(text, *map(pnp.asarray, operands)), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(want, jit(lambda *xs: pnp.einsum(text, *xs))(*operands), rtol=1e-5, atol=1e-5)


def test_einstein_sums_take_lists_of_axes():
    np.testing.assert_allclose(
        np.einsum(A, [0, 1], B, [1, 2], [0, 2]), pnp.einsum(A, [0, 1], B, [1, 2], [0, 2]), rtol=1e-5
    )
    assert pnp.einsum_path("ij,jk,kl->il", A, B, normal(5, 2))[0][0] == (1, 2)


def test_products_of_mixed_dtypes_meet_and_preferred_ones_win():
    assert pnp.matmul(pnp.ones((2, 2), "int8"), pnp.ones((2, 2), "float16")).dtype == np.float16
    assert pnp.dot(pnp.ones(2, "int8"), pnp.ones(2, "int8"), preferred_element_type="int32").dtype == np.int32
    assert pnp.matmul(pnp.ones((2, 2), bool), pnp.ones((2, 2), bool)).dtype == bool


def test_sizes_that_do_not_fit_raise():
    with pytest.raises(errors.ShapeError):
        pnp.matmul(A, A)
    with pytest.raises(errors.ShapeError, match="axis 'j'"):
        pnp.einsum("ij,jk", A, A)
    with pytest.raises(errors.ShapeError, match="at least one axis"):
        pnp.matmul(2.0, A)


def test_products_differentiate_and_map():
    gradient = grad(lambda a: pnp.einsum("ij,jk->ik", a, B).sum())(pnp.asarray(A))
    np.testing.assert_allclose(gradient, np.ones((3, 5)) @ B.T, rtol=1e-5)
    np.testing.assert_allclose(vmap(pnp.matmul)(C, D), C @ D, rtol=1e-5)
