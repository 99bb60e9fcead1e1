# SPDX-License-Identifier: Apache-2.0
"""Sparse arrays in every layout against the dense arrays that they stand for: values, derivatives, batches, programs."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse

import purax
from purax import errors, lax
from purax import numpy as pnp
from purax.experimental import sparse
from purax.experimental.sparse import BCOO, BCSR, test_util

RNG = np.random.RandomState(0)
SHAPES = ((5,), (3, 4), (2, 3, 4))
LAYOUTS = [(shape, layout) for shape in SHAPES for layout in test_util.iter_sparse_layouts(shape)]
EVERY = pytest.mark.parametrize(("shape", "layout"), LAYOUTS, ids=[f"{s}-{lay[0]}-{lay[1]}" for s, lay in LAYOUTS])


def drawn(shape, layout, dtype="float32"):
    """A random array whose indices repeat, some of them counted from the end, with padding in its last elements."""
    mat = test_util.rand_bcoo(RNG)(shape, dtype, n_batch=layout.n_batch, n_dense=layout.n_dense)
    if layout.n_sparse and mat.nse > 1:
        sizes, indices = np.asarray(mat.sparse_shape, np.int32), np.array(mat.indices)
        turned = (RNG.rand(*indices.shape) < 0.3) & (indices < sizes)
        indices = np.where(turned, indices - sizes, indices)
        indices[..., -1, :] = sizes if RNG.rand() < 0.5 else -1 - sizes
        mat.indices = pnp.asarray(indices)
    return mat


def written_out(mat):
    """The dense array, by NumPy alone."""
    out = np.zeros(mat.shape, np.asarray(mat.data).dtype)
    (data, _), n = mat.full(), mat.n_batch
    data, indices = np.asarray(data), np.broadcast_to(mat.indices, (*mat.shape[:n], *mat.indices.shape[n:]))
    for batch in np.ndindex(*mat.shape[: mat.n_batch]):
        for value, index in zip(data[batch], indices[batch], strict=True):
            if all(-n <= i < n for i, n in zip(index, mat.sparse_shape, strict=True)):
                out[(*batch, *index)] += value
    return out


def batches(mat):
    """The indices of each batch."""
    return np.asarray(mat.indices).reshape(int(np.prod(mat.indices.shape[: mat.n_batch])), mat.nse, mat.n_sparse)


def check(operation, *mats, rtol=1e-5):
    """The operation on sparse arrays equals that on dense ones: eager, compiled, and its derivative by the stored values."""
    dense = [written_out(m) if isinstance(m, BCOO) else m for m in mats]
    expected = operation(*[pnp.asarray(d) for d in dense])
    for run in (operation, purax.jit(operation)):
        found = sparse.todense(run(*mats))
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-5)
    if all(np.issubdtype(np.asarray(m.data if isinstance(m, BCOO) else m).dtype, np.floating) for m in mats):
        weights = np.asarray(RNG.randn(*np.shape(expected)), np.float32)
        total = lambda f: lambda data: pnp.sum(f(BCOO((data, mats[0].indices), shape=mats[0].shape)) * weights)
        by_sparse = purax.grad(total(lambda m: sparse.todense(operation(m, *mats[1:]))))(mats[0].data)
        by_dense = purax.grad(total(lambda m: operation(m.todense(), *map(sparse.todense, mats[1:]))))(mats[0].data)
        np.testing.assert_allclose(by_sparse, by_dense, rtol=1e-4, atol=1e-4)


# --- conversions --------------------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
def test_repeated_indices_add_up_and_padding_does_not_count(shape, layout, dtype):
    mat = drawn(shape, layout, dtype)
    np.testing.assert_allclose(mat.todense(), written_out(mat), rtol=1e-6)


@EVERY
def test_there_and_back(shape, layout):
    dense = test_util.rand_sparse(RNG)(shape, "float32")
    mat = BCOO.fromdense(dense, n_batch=layout.n_batch, n_dense=layout.n_dense)
    assert (mat.n_batch, mat.n_dense, mat.n_sparse) == layout
    assert mat.unique_indices
    assert mat.indices_sorted
    np.testing.assert_array_equal(mat.todense(), dense)
    np.testing.assert_array_equal(mat.sum_duplicates().todense(), dense)
    if layout.n_sparse == 2:
        rows = BCSR.from_bcoo(mat)
        np.testing.assert_array_equal(rows.todense(), dense)
        np.testing.assert_array_equal(rows.to_bcoo().todense(), dense)


@pytest.mark.parametrize("cls", [BCOO, BCSR, sparse.COO, sparse.CSR, sparse.CSC])
def test_formats_of_matrices(cls):
    dense = test_util.rand_sparse(RNG)((4, 6), "float32")
    mat = cls.fromdense(dense)
    assert (mat.shape, mat.dtype, mat.nse, len(mat), mat.ndim) == ((4, 6), np.float32, (dense != 0).sum(), 4, 2)
    np.testing.assert_array_equal(mat.todense(), dense)
    np.testing.assert_array_equal(mat.T.todense(), dense.T)
    np.testing.assert_array_equal(purax.jit(lambda m: m)(mat).todense(), dense)
    other = RNG.randn(6, 2).astype("float32")
    np.testing.assert_allclose(mat @ other, dense @ other, rtol=1e-5)
    np.testing.assert_allclose(other.T @ mat.T, other.T @ dense.T, rtol=1e-5)
    with pytest.raises(TypeError, match="unhashable"):
        hash(mat)


@pytest.mark.parametrize("cls", [BCOO, BCSR])
@pytest.mark.parametrize("form", [scipy.sparse.coo_matrix, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix])
def test_scipy_matrices_are_taken_over(cls, form):
    dense = test_util.rand_sparse(RNG)((4, 6), "float32")
    np.testing.assert_array_equal(cls.from_scipy_sparse(form(dense)).todense(), dense)


@EVERY
def test_layouts_change_into_each_other(shape, layout):
    mat = drawn(shape, layout)
    for n_batch, n_dense, _ in test_util.iter_sparse_layouts(shape):
        if n_batch > mat.n_batch or n_dense > mat.n_dense:
            with pytest.raises(sparse.SparseEfficiencyError, match="stores more elements"):
                mat.update_layout(n_batch=n_batch, n_dense=n_dense)
            with pytest.warns(sparse.SparseEfficiencyWarning):
                mat.update_layout(n_batch=n_batch, n_dense=n_dense, on_inefficient="warn")
        new = mat.update_layout(n_batch=n_batch, n_dense=n_dense, on_inefficient=None)
        assert (new.n_batch, new.n_dense) == (n_batch, n_dense)
        np.testing.assert_allclose(new.todense(), written_out(mat), rtol=1e-6)


@EVERY
def test_sorting_and_merging(shape, layout):
    mat = drawn(shape, layout)
    for new in (mat.sort_indices(), mat.sum_duplicates(), mat.sum_duplicates(nse=mat.nse + 2)):
        np.testing.assert_allclose(new.todense(), written_out(mat), rtol=1e-5, atol=1e-6)
        rows = batches(new)
        assert all((np.diff(np.lexsort(batch.T[::-1])) >= 0).all() for batch in rows if batch.size)


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0)])
def test_arrays_without_stored_elements_merge(shape):
    mat = BCOO((pnp.zeros(0), pnp.zeros((0, 2), int)), shape=shape)
    assert mat.sum_duplicates().nse == abs(mat).nse == 0
    np.testing.assert_array_equal(mat.sum_duplicates().todense(), np.zeros(shape))


def test_strict_ranks_are_kept():
    with purax.numpy_rank_promotion("raise"):
        mat = BCOO((pnp.ones(2), np.array([[0, -1], [1, 0]])), shape=(2, 3))
        np.testing.assert_array_equal(mat.sort_indices().todense(), [[0, 0, 1], [1, 0, 0]])
        np.testing.assert_array_equal(mat.reshape(6).sum_duplicates().todense(), [0, 0, 1, 1, 0, 0])


def test_small_integers_number_long_axes():
    for dtype, place in ((np.int8, 100), (np.int8, -100), (np.uint8, 200), (np.int16, -1)):
        mat = BCOO((pnp.array([2.0]), np.array([[place]], dtype)), shape=(300,))
        want = np.zeros(300)
        want[place] = 2
        np.testing.assert_array_equal(mat.todense(), want)
        np.testing.assert_array_equal(mat @ pnp.arange(300.0), 2 * np.arange(300.0)[place])


def test_the_number_of_elements_must_be_known_where_it_is_traced():
    for fun in (BCOO.fromdense, lambda x: BCOO.fromdense(x, nse=9).sum_duplicates()):
        with pytest.raises(errors.ConcretizationTypeError, match="nse="):
            purax.jit(fun)(pnp.eye(3))


# --- operations ---------------------------------------------------------------------------------------------------------------


@EVERY
def test_axes_of_one_kind_are_permuted(shape, layout):
    mat, n, stop = drawn(shape, layout), layout.n_batch, len(shape) - layout.n_dense
    order = [*range(n)[::-1], *range(n, stop)[::-1], *range(stop, len(shape))[::-1]]
    check(lambda m: m.transpose(order), mat)


@EVERY
def test_sums_over_any_axes(shape, layout):
    mat = drawn(shape, layout)
    for axes in test_util.iter_subsets(range(len(shape))):
        if axes:
            check(lambda m, axes=axes: m.sum(axes), mat)


@EVERY
def test_slices_and_integers(shape, layout):
    mat = drawn(shape, layout)
    for index in [
        0,
        -1,
        np.s_[1:],
        np.s_[::2],
        np.s_[::-1],
        np.s_[..., 1],
        np.s_[None],
        np.s_[:, None],
        np.s_[2:1],
        ...,
    ]:
        check(lambda m, index=index: m[index], mat)


@pytest.mark.parametrize("n_batch", [0, 1, 2])
def test_arrays_of_integers_and_masks(n_batch):
    mat = drawn((3, 4, 2), test_util.SparseLayout(n_batch, 0, 3 - n_batch))
    rows, mask = np.array([2, 0, -1, 2]), np.array([True, False, True])
    for index in [
        rows,
        mask,
        np.s_[:, rows],
        np.s_[rows, rows - 1],
        np.s_[rows[:, None], 1:],
        np.s_[None, 0, rows],
        np.s_[rows, :, rows % 2],
    ]:
        check(lambda m, index=index: m[index], mat)


def test_indices_out_of_bounds_raise():
    with pytest.raises(IndexError, match="out of bounds"):
        BCOO.fromdense(np.eye(3))[5]


@EVERY
def test_products_with_dense_arrays_broadcast(shape, layout):
    mat = drawn(shape, layout)
    others = [RNG.randn(*shape), RNG.randn(*shape[-1:]), RNG.randn(*[1] * len(shape)), RNG.randn(2, *shape)]
    for other in others:
        other = other.astype("float32") + 3
        check(lambda m, o: m * o, mat, other)
        check(lambda m, o: o * m, mat, other)
        check(lambda m, o: m / o, mat, other)
    check(lambda m: 2 * m - m / 2 + m * m, mat)
    check(lambda m: m**3, mat)
    check(abs, mat)


@pytest.mark.parametrize("layouts", [*itertools.product(range(3), range(3))])
def test_products_of_two_sparse_arrays(layouts):
    one, two = (drawn((3, 4), test_util.SparseLayout(n, 0, 2 - n)) for n in layouts)
    check(lambda a, b: a * b, one, two)
    check(lambda a, b: a + b, one, two)
    check(lambda a, b: a - b, one, two)
    check(lambda a, b: a * b, one, drawn((1, 4), test_util.SparseLayout(layouts[1], 0, 2 - layouts[1])))


@EVERY
def test_contractions_with_dense_arrays(shape, layout):
    mat, stop = drawn(shape, layout), len(shape) - layout.n_dense
    other = RNG.randn(*shape[::-1], 2).astype("float32")
    last = len(shape) - 1
    for batch in test_util.iter_subsets(range(layout.n_batch)):
        for contracted in test_util.iter_subsets([a for a in range(stop) if a not in batch]):
            numbers = ((contracted, [last - a for a in contracted]), (batch, [last - a for a in batch]))
            swapped = tuple(pair[::-1] for pair in numbers)

            def product(a, b, numbers=numbers):
                dot = sparse.bcoo_dot_general if isinstance(a, BCOO) or isinstance(b, BCOO) else lax.dot_general
                return dot(a, b, dimension_numbers=numbers)

            check(product, mat, other)
            check(lambda a, b, numbers=swapped, dot=product: dot(b, a, numbers), mat, other)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((4,), (4,)),
        ((3, 4), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (1, 4, 5)),
    ],
    ids=str,
)
def test_matmul_as_numpy_has_it(left, right):
    one = drawn(left, test_util.SparseLayout(max(len(left) - 2, 0), 0, min(len(left), 2)))
    two = drawn(right, test_util.SparseLayout(max(len(right) - 2, 0), 0, min(len(right), 2)))
    check(lambda a, b: a @ b, one, written_out(two))
    check(lambda b, a: a @ b, two, written_out(one))
    if len(right) < 3:
        check(lambda a, b: a @ b, one, two)


def test_sampled_products_know_the_values_that_are_asked_for():
    a, b = RNG.randn(4, 3).astype("float32"), RNG.randn(5, 3).astype("float32")
    indices = np.array([[0, 1], [3, 4], [0, 1], [4, 0]], np.int32)
    found = sparse.bcoo_dot_general_sampled(a, b, indices, dimension_numbers=(((1,), (1,)), ((), ())))
    product = a @ b.T
    np.testing.assert_allclose(found, [product[0, 1], product[3, 4], 0, 0], rtol=1e-5)


@EVERY
def test_joining_and_repeating(shape, layout):
    one, two = drawn(shape, layout), drawn(shape, layout)
    for axis in range(len(shape) - layout.n_dense):
        both = lambda a, b, axis=axis: (
            sparse.bcoo_concatenate([a, b], dimension=axis) if isinstance(a, BCOO) else pnp.concatenate([a, b], axis)
        )
        check(both, one, two)
    wide = (2, *shape)
    check(lambda a: a[None] * pnp.ones(wide, "float32"), one)


def test_reshapes_keep_kinds_apart():
    mat = drawn((4, 3, 4), test_util.SparseLayout(1, 0, 2))
    check(lambda m: m.reshape(2, 2, 6, 2), mat)
    check(lambda m: m.reshape(4, -1), mat)
    with pytest.raises(ValueError, match="cannot mix batch and sparse"):
        mat.reshape(6, 8)


# --- transformations ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [BCOO, BCSR])
def test_vmap_maps_batch_axes(cls):
    dense = test_util.rand_sparse(RNG)((2, 3, 4), "float32")
    mat, vector = cls.fromdense(dense, n_batch=1), RNG.randn(4).astype("float32")
    shapes = []
    found = purax.vmap(lambda m: (shapes.append(m.shape), m @ vector)[1])(mat)
    assert shapes == [(3, 4)]
    np.testing.assert_allclose(found, dense @ vector, rtol=1e-5)
    out = purax.vmap(lambda m: 2 * m)(mat)
    assert (type(out), out.shape, out.n_batch) == (cls, (2, 3, 4), 1)
    with pytest.raises(ValueError, match=r"batch axes|inconsistent sizes"):
        purax.vmap(lambda m: m.shape)(cls.fromdense(dense[0]))


def test_gradients_are_sparse():
    dense = test_util.rand_sparse(RNG)((3, 4), "float32")
    mat, vector = BCOO.fromdense(dense), RNG.randn(4).astype("float32")
    loss = lambda m, v: pnp.sum(pnp.sin(m["a"] @ v))
    value, (by_mat, by_vector) = sparse.value_and_grad(loss, argnums=(0, 1))({"a": mat}, vector)
    expected = purax.grad(loss, (0, 1))({"a": dense}, vector)
    np.testing.assert_allclose(value, loss({"a": dense}, vector), rtol=1e-5)
    np.testing.assert_allclose(by_mat["a"].todense(), np.where(dense != 0, expected[0]["a"], 0), rtol=1e-5)
    np.testing.assert_allclose(by_vector, expected[1], rtol=1e-5)
    for jacobian in (sparse.jacfwd, sparse.jacrev):
        blocks = jacobian(lambda m: m @ vector)(mat)
        full = purax.jacrev(lambda m: m @ vector)(dense)
        np.testing.assert_allclose(blocks.todense(), np.where(dense != 0, full, 0), rtol=1e-5)


# --- sparsify -----------------------------------------------------------------------------------------------------------------

MATRIX = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, -1, 0]], np.float32)


@pytest.mark.parametrize("cls", [BCOO, BCSR])
@pytest.mark.parametrize(
    "fun",
    [
        lambda x: pnp.sin(x) + 2 * x,
        lambda x: pnp.tanh(x).T @ pnp.ones(3),
        lambda x: x.sum(0),
        lambda x: x.sum(),
        lambda x: purax.jit(lambda y: -y)(x),
        lambda x: lax.cond(True, lambda y: y, lambda y: -y, x),
        lambda x: lax.fori_loop(0, 3, lambda i, v: x.T @ (x @ v), pnp.ones(4)),
        lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, 2 * c[1]), (0, x))[1],
        lambda x: lax.scan(lambda c, w: (c * w, None), x, pnp.arange(1.0, 4.0))[0],
        lambda x: pnp.concatenate([x, x]),
        lambda x: lax.slice(x, (0, 1), (2, 3)),
        lambda x: lax.dynamic_slice(x, (1, 0), (2, 3)),
        lambda x: lax.rev(x, (0,)),
        lambda x: purax.grad(lambda y: pnp.sum(y**3))(x),
        lambda x: sparse.todense(x) + 1,
        lambda x: x[0] * x[2],
        lambda x: x.reshape(4, 3),
        lambda x: pnp.abs(x).astype("int32"),
    ],
)  # fmt: skip
def test_functions_of_dense_arrays_take_sparse_ones(cls, fun):
    for use_tracer in (False, True):
        run = sparse.sparsify(fun, use_tracer=use_tracer)
        np.testing.assert_allclose(sparse.todense(run(cls.fromdense(MATRIX))), fun(pnp.asarray(MATRIX)), rtol=1e-6)
        np.testing.assert_allclose(
            sparse.todense(purax.jit(run)(cls.fromdense(MATRIX))), fun(pnp.asarray(MATRIX)), rtol=1e-6
        )


@pytest.mark.parametrize(("fun", "words"), [(pnp.cos, "dense output"), (lambda x: pnp.sort(x), "not implemented")])
def test_operations_without_a_rule_are_named(fun, words):
    with pytest.raises(NotImplementedError, match=words):
        sparse.sparsify(fun)(BCOO.fromdense(MATRIX))


# --- creation -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["bcoo", "coo", "csr", "csc"])
@pytest.mark.parametrize(("rows", "cols", "k"), [(3, None, 0), (3, 5, 1), (5, 3, -2), (2, 2, 4)])
def test_eye(form, rows, cols, k):
    mat = sparse.eye(rows, cols, k, sparse_format=form)
    np.testing.assert_array_equal(mat.todense(), np.eye(rows, cols, k))
    assert mat.nse == np.count_nonzero(np.eye(rows, cols, k))
    np.testing.assert_array_equal(sparse.empty((rows, 4), sparse_format=form).todense(), np.zeros((rows, 4)))


@EVERY
def test_random_arrays_store_what_is_asked_for(shape, layout):
    mat = sparse.random_bcoo(purax.random.key(0), shape, nse=0.5, n_batch=layout.n_batch, n_dense=layout.n_dense)
    assert (mat.shape, mat.n_batch, mat.n_dense) == (shape, layout.n_batch, layout.n_dense)
    assert mat.nse == np.ceil(0.5 * np.prod(mat.sparse_shape))
    rows = batches(mat)
    assert all(np.unique(batch, axis=0).shape == batch.shape for batch in rows)


@pytest.mark.parametrize(
    ("data", "indices", "shape"),
    [
        (np.ones(3), np.zeros((2, 1), int), (4,)),
        (np.ones(2), np.zeros((2, 3), int), (4,)),
        (np.ones(2), np.zeros((2, 1)), (4,)),
    ],
    ids=["lengths", "axes", "floats"],
)
def test_buffers_that_do_not_fit_are_named(data, indices, shape):
    with pytest.raises(errors.ShapeError, match="BCOO"):
        BCOO((data, indices), shape=shape)


def test_nothing_warns_in_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mat = BCOO.fromdense(MATRIX)
        assert repr(mat) == "BCOO(float32[3, 4], nse=4)"
        mat.indices = pnp.zeros(0)
        assert repr(mat) == "BCOO(<invalid>)"
