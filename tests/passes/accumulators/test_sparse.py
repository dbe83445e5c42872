"""Sparse rows: every accumulator that takes them keeps the laws, and the digits, of dense ones."""

import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.maths.linalg.sketch import gaussian_rows
from spae_dask.passes.accumulators import (
    Accumulator,
    CrossProducts,
    Gram,
    Imputed,
    Moments,
    NonFinite,
    Projection,
    RowSketch,
    SparseAccumulator,
    State,
    Together,
    Triangular,
    Weighted,
)
from spae_dask.passes.accumulators.sparse import (
    PANEL_ROWS,
    PANEL_STORED,
    flops_per_sparse_row,
    sparse_panels,
    takes_sparse,
    update_csr,
)
from spae_dask.passes.sweep import update_by_panels
from tests.generated import csr_matrices, partitions
from tests.passes.accumulators.recipes import RECIPES, Recipe, assert_same_facts

DENSE_ONLY = {
    "Triangular",
    "FrequentDirections",
    "FrequentDirections, scaled",
    "Residual",
    "WholeRows",
    "UnitLosses",
}
SPARSE = tuple(recipe for recipe in RECIPES if recipe.name not in DENSE_ONLY)
NUMPY_BUFFERS = 256 << 10

every_sparse_recipe = pytest.mark.parametrize("recipe", SPARSE, ids=lambda recipe: recipe.name)


def test_these_recipes_and_no_others_take_sparse_rows() -> None:
    made = {r.name: r.make(3) for r in RECIPES}
    assert {name for name, recipe in made.items() if not isinstance(recipe, SparseAccumulator)} == DENSE_ONLY
    of_dense = {f"Weighted {name}" for name in DENSE_ONLY}
    for name, recipe in made.items():
        if isinstance(recipe, Weighted):
            assert takes_sparse(recipe, 0.0) != (name in of_dense), name


@every_sparse_recipe
@given(X=csr_matrices(), data=st.data())
def test_any_partition_into_sparse_and_dense_parts_gives_what_the_dense_matrix_gives(
    recipe: Recipe, X: Any, data: st.DataObject
) -> None:
    accumulator = recipe.make(X.shape[1])
    state = accumulator.zero()
    for start, stop in pairwise(data.draw(partitions(X.shape[0]))):
        how = data.draw(st.sampled_from(["sparse", "dense", "merged"]))
        rows = X[start:stop]
        if how == "dense":
            state = accumulator.update(state, rows.toarray(), start)
        elif how == "sparse":
            state = accumulator.update_sparse(state, rows, start)
        else:
            state = accumulator.merge(state, accumulator.update_sparse(accumulator.zero(), rows, start))
    dense = X.toarray()
    assert_same_facts(recipe.facts(accumulator.result(state)), recipe.oracle(dense.astype(np.longdouble)), dense)


@pytest.mark.parametrize(
    "recipe", [r for r in SPARSE if r.name in ("Moments", "NonFinite", "Imputed Gram")], ids=lambda recipe: recipe.name
)
@given(X=csr_matrices(), data=st.data())
def test_missing_entries_among_the_stored_ones(recipe: Recipe, X: Any, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    X = X.astype(np.float32)
    X.data[rng.random(X.nnz) < 0.3] = np.nan
    if recipe.name != "Imputed Gram":
        X.data[rng.random(X.nnz) < 0.2] = np.inf
    accumulator, dense = recipe.make(X.shape[1]), X.toarray()
    state = accumulator.zero()
    for start, stop in pairwise(data.draw(partitions(X.shape[0]))):
        state = accumulator.update_sparse(state, X[start:stop], start)
    assert_same_facts(recipe.facts(accumulator.result(state)), recipe.oracle(dense.astype(np.longdouble)), dense)


@every_sparse_recipe
def test_a_sparse_update_keeps_the_form_of_the_state_and_the_rows(recipe: Recipe) -> None:
    X = sp.random_array((50, 7), density=0.4, format="csr", random_state=np.random.default_rng(0))
    kept, accumulator = X.copy(), recipe.make(7)
    dense = accumulator.update(accumulator.zero(), X.toarray(), 0)
    state = accumulator.update_sparse(accumulator.zero(), X, 0)
    assert {name: (a.shape, a.dtype) for name, a in state.items()} == {
        name: (a.shape, a.dtype) for name, a in dense.items()
    }
    assert X.data.tobytes() == kept.data.tobytes()
    assert X.indices.tobytes() == kept.indices.tobytes()


@every_sparse_recipe
def test_rows_without_entries_count_as_rows(recipe: Recipe) -> None:
    accumulator, X = recipe.make(3), sp.csr_array((5, 3), dtype=np.float32)
    state = accumulator.update_sparse(accumulator.zero(), X, 0)
    assert_same_facts(
        recipe.facts(accumulator.result(state)), recipe.oracle(np.zeros((5, 3), dtype=np.longdouble)), X.toarray()
    )
    state = accumulator.update_sparse(accumulator.zero(), X[:0], 0)
    zero = accumulator.result(accumulator.zero())
    assert_same_facts(recipe.facts(accumulator.result(state)), recipe.facts(zero), X.toarray())


@every_sparse_recipe
@pytest.mark.parametrize(("d", "density"), [(3, 0.9), (400, 0.02), (400, 0.6), (2000, 0.001)])
def test_a_sparse_update_allocates_no_more_than_its_stated_scratch(recipe: Recipe, d: int, density: float) -> None:
    accumulator = recipe.make(d)
    X = sp.random_array(
        (600, d), density=density, format="csr", dtype=np.float32, random_state=np.random.default_rng(2)
    )
    state = accumulator.update_sparse(accumulator.zero(), X, 0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        update_csr(accumulator, state, X, 600)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    dense = accumulator.work_nbytes(accumulator.panel_rows) + 8 * d * accumulator.panel_rows
    stated = max(accumulator.sparse_work_nbytes(600, X.nnz), dense)
    assert peak - before <= 1.02 * stated + NUMPY_BUFFERS


def counts_with_a_level(level: float, share: float = 1.0, seed: int = 0) -> sp.csr_array:
    """Sparse counts beside a column of ``level`` and unit noise in a share of its rows: peers lose its variance."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((3000, 40)) < 0.04, rng.integers(1, 5, (3000, 40)), 0).astype(np.float64)
    X[:, 7] = np.where(rng.random(3000) < share, level + rng.standard_normal(3000), 0)
    return sp.csr_array(X)


@pytest.mark.parametrize("share", [1.0, 0.999])
def test_a_nearly_constant_large_column_among_sparse_ones_keeps_its_variance(share: float) -> None:
    X = counts_with_a_level(1e8, share)
    dense = X.toarray()
    wide = dense.astype(np.longdouble) - dense.astype(np.longdouble).mean(axis=0)
    scatter, lengths = (wide.T @ wide).astype(np.float64), np.sqrt(np.sum(wide**2, axis=0)).astype(np.float64)
    sizes = np.outer(lengths, lengths)
    gram = Gram(40).result(Gram(40).update_sparse(Gram(40).zero(), X, 0))
    assert np.max(np.abs(gram.scatter - scatter) / sizes) < 1e-11
    mean = dense.mean(axis=0)
    about = (dense.astype(np.longdouble) - mean).astype(np.float64)
    cross = CrossProducts(np.array([7, 3]), mean, np.ones(40), np.eye(40)[:, :2])
    products = cross.result(cross.update_sparse(cross.zero(), X, 0))
    assert np.max(np.abs(products.cross - about[:, [7, 3]].T @ about) / sizes[[7, 3]]) < 1e-11
    assert np.max(np.abs(products.directions - about.T @ about[:, :2]) / sizes[:, :2]) < 1e-11
    np.testing.assert_allclose(products.column_norms, lengths**2, rtol=1e-11)
    sketch = RowSketch(40, 12, seed=3)
    found = sketch.result(sketch.update_sparse(sketch.zero(), X, 0)).about(mean)
    expected = gaussian_rows(3, 0, 0, 3000, 12).T @ about
    assert np.max(np.abs(found - expected) / lengths) < 1e-11


def test_every_part_of_several_has_the_rows_as_it_likes_and_dense_ones_only_once() -> None:
    class Watched(Triangular):
        def update(self, state: State, rows: Any, first_row: int) -> State:
            seen.append((type(rows), rows.shape, first_row))
            return super().update(state, rows, first_row)

    class Refusing(Moments):
        def update(self, state: State, rows: Any, first_row: int) -> State:
            raise AssertionError("sparse rows were made dense")

    seen: list[Any] = []
    X = sp.random_array((700, 30), density=0.05, format="csr", random_state=np.random.default_rng(1))
    both = Together({"moments": Refusing(30), "a": Watched(30), "finite": NonFinite(30), "b": Watched(30)})
    state = update_by_panels(both, both.zero(), X, 100)
    assert list(state) == list(both.zero())
    step = both.parts["a"].panel_rows
    assert seen[:2] == [(np.ndarray, (min(step, 700), 30), 100)] * 2
    np.testing.assert_allclose(both.result(state)["moments"].mean, X.toarray().mean(axis=0), atol=1e-15)
    np.testing.assert_allclose(both.result(state)["b"].mean, X.toarray().mean(axis=0), atol=1e-15)


def test_full_rows_in_a_sparse_matrix_go_the_dense_way() -> None:
    class Watched(Gram):
        def update_sparse(self, state: State, rows: sp.csr_array, first_row: int) -> State:
            raise AssertionError("full rows were left sparse")

    X = sp.csr_array(np.random.default_rng(0).standard_normal((40, 6)))
    found = Watched(6).result(update_by_panels(Watched(6), Watched(6).zero(), X, 0))
    expected = Gram(6).result(Gram(6).update(Gram(6).zero(), X.toarray(), 0))
    assert found.scatter.tobytes() == expected.scatter.tobytes()


def test_repeated_and_unsorted_entries_are_summed_and_the_given_rows_are_left_alone() -> None:
    indices, values = np.array([2, 0, 2, 1, 1]), np.array([1.0, 2.0, 3.0, 4.0, -4.0])
    X = sp.csr_array((values, indices, np.array([0, 3, 5])), shape=(2, 3))
    moments = Moments(3).result(update_by_panels(Moments(3), Moments(3).zero(), X, 0))
    np.testing.assert_array_equal(moments.maximum, [2.0, 0.0, 4.0])
    np.testing.assert_array_equal(moments.mean, [1.0, 0.0, 2.0])
    np.testing.assert_array_equal(X.indices, [2, 0, 2, 1, 1])


@given(rows=st.lists(st.integers(0, 2 * PANEL_STORED), min_size=1, max_size=8), tail=st.integers(0, 2 * PANEL_ROWS))
def test_panels_cover_the_rows_in_order_and_keep_to_their_size(rows: list[int], tail: int) -> None:
    indptr = np.concatenate([[0], np.cumsum([*rows, *([1] * tail)])])
    panels = list(sparse_panels(indptr))
    assert [panels[0][0], *(stop for _, stop in panels)] == [start for start, _ in panels] + [len(indptr) - 1]
    for start, stop in panels:
        assert start < stop <= start + PANEL_ROWS
        assert stop == start + 1 or indptr[stop] - indptr[start] <= PANEL_STORED


@pytest.mark.parametrize(
    "make", [NonFinite, Moments, lambda d: RowSketch(d, 4), lambda d: Imputed(Moments(d), np.zeros(d))]
)
def test_stated_operations_grow_with_what_is_stored(make: Any) -> None:
    accumulator: Accumulator[Any] = make(1000)
    thin, middle, thick = (flops_per_sparse_row(accumulator, density) for density in (0.02, 0.04, 0.06))
    assert 0 < thick - middle == pytest.approx(middle - thin)
    assert thick < accumulator.flops_per_row
    assert flops_per_sparse_row(Triangular(1000), 0.01) == Triangular(1000).flops_per_row


def test_projections_of_sparse_rows_keep_small_singular_values() -> None:
    # two directions that agree but for 1e-9: the Gram matrix of the projection would not tell them apart
    X = counts_with_a_level(0.0, 0.0)
    Q = np.zeros((40, 2))
    Q[:20] = 1.0
    Q[3, 1] += 1e-9
    recipe = Projection(Q, X.toarray().mean(axis=0))
    found = recipe.result(recipe.update_sparse(recipe.zero(), X, 0)).triangle
    expected = np.linalg.svd((X.toarray() - recipe.mean) @ Q, compute_uv=False)
    np.testing.assert_allclose(np.linalg.svd(found, compute_uv=False), expected, rtol=1e-5)
