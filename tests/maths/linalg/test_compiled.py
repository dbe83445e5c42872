"""Compiled kernels give the bits of scipy's products, and accumulators the same state with and without numba."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.maths.linalg import compiled
from spae_dask.passes.accumulators import CrossProducts, Gram

pytest.importorskip("numba")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "WORTH", 0)


def sparse(n: int, d: int, density: float, seed: int = 0) -> sp.csr_array:
    rows = sp.random_array((n, d), density=density, format="csr", random_state=seed)
    rows.data -= 0.3  # of both signs
    rows.sort_indices()
    return rows


@settings(deadline=None)  # the first call compiles
@given(n=st.integers(0, 40), d=st.integers(1, 50), tile=st.integers(1, 60), seed=st.integers(0, 99))
def test_the_gram_matrix_has_the_bits_of_scipy_whatever_the_tiles(n: int, d: int, tile: int, seed: int) -> None:
    rows, gram = sparse(n, d, 0.3, seed), np.zeros((d, d), order="F")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "WORTH", 0)
        patch.setattr(compiled, "TILE", tile)
        assert compiled.gram_of(rows, gram)
    product = (rows.T.tocsr() @ rows).toarray()
    np.testing.assert_array_equal(np.triu(gram), np.triu(product))
    assert not np.tril(gram, -1).any()


@settings(deadline=None)
@given(n=st.integers(0, 40), d=st.integers(1, 50), seed=st.integers(0, 99), data=st.data())
def test_cross_products_have_the_bits_of_scipy(n: int, d: int, seed: int, data: Any) -> None:
    rows = sparse(n, d, 0.3, seed)
    columns = data.draw(st.lists(st.integers(0, d - 1), unique=True, min_size=1))
    chosen, cross = rows[:, columns], np.zeros((len(columns), d))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "WORTH", 0)
        assert compiled.cross_of(chosen, rows, cross)
    np.testing.assert_array_equal(cross, (chosen.T.tocsr() @ rows).toarray())


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(
    "make",
    [Gram, lambda d: CrossProducts(np.arange(0, d, 3), np.full(d, 0.1), np.linspace(1, 2, d), np.ones((d, 2)))],
    ids=["Gram", "CrossProducts"],
)
@pytest.mark.usefixtures("always")
def test_results_have_the_same_bits_without_numba(make: Any, index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sparse(300, 70, 0.2)
    rows.indices, rows.indptr = rows.indices.astype(index), rows.indptr.astype(index)

    def result() -> dict[str, Any]:
        recipe = make(70)
        state = recipe.merge(recipe.update_sparse(recipe.zero(), rows[:200], 0), recipe.zero())
        return vars(recipe.result(recipe.update_sparse(state, rows[200:], 200)))

    with_numba = result()
    monkeypatch.setattr(compiled, "has_numba", lambda: False)
    without = result()
    for name, value in with_numba.items():
        np.testing.assert_array_equal(value, without[name], err_msg=name)


def test_small_products_do_not_load_numba() -> None:
    rows, gram = sparse(30, 20, 0.2), np.zeros((20, 20), order="F")
    assert not compiled.gram_of(rows, gram)
    assert not compiled.cross_of(rows[:, [1, 2]], rows, np.zeros((2, 20)))
    assert not gram.any()
