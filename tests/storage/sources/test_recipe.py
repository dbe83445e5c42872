"""Rows that follow a recipe as they are read are those that numpy makes of the whole matrix."""

import pickle
from pathlib import Path
from typing import Any

import anndata as ad
import dask.array as da
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from spae_dask.blocks import ArrayBlocks, RowBlocks, asked_of, largest_block_nbytes, stored_entries, total_nbytes
from spae_dask.errors import InvalidInput
from spae_dask.estimators.preparing import prepared
from spae_dask.passes.sweep import block_nbytes
from spae_dask.recipes import ARGUMENTS, Recipe, Step, recipe_text
from spae_dask.storage.open import open_matrix
from spae_dask.storage.sources import recipe_blocks

USUAL = "normalize_total(1e4), log1p"

NUMBER = st.floats(1e-3, 1e6)
ELEMENTWISE = st.sampled_from(["log1p", "sqrt", "arcsinh", "clip", "binarize"])


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    names = draw(st.lists(ELEMENTWISE, unique=True, max_size=3))
    first = ["normalize_total"] if draw(st.booleans()) or not names else []
    return Recipe(tuple(Step(name, draw(NUMBER) if ARGUMENTS[name] else None) for name in [*first, *names]))


def explicit(raw: Any, recipe: Any) -> np.ndarray[Any, Any]:
    """The whole matrix, dense, a step after the other, in as many digits as there are."""
    x = np.asarray(raw.todense() if sp.issparse(raw) else raw).astype(np.longdouble)
    for step in Recipe.of(recipe).steps:
        if step.name == "normalize_total":
            for row in x:
                total = sum(entry for entry in row if np.isfinite(entry))
                if total > 0:
                    row *= np.longdouble(step.argument) / total
        elif step.name == "log1p":
            x = np.log1p(x)
        elif step.name == "sqrt":
            x = np.sqrt(x)
        elif step.name == "arcsinh":
            x = np.arcsinh(x / np.longdouble(step.argument))
        elif step.name == "clip":
            x = np.where(np.isfinite(x), np.minimum(x, step.argument), x)
        else:
            x = np.where(np.isfinite(x), x != 0, x)
    return x.astype(np.float64)


def rows_of(source: RowBlocks) -> np.ndarray[Any, Any]:
    blocks: list[Any] = [source.read(i) for i in range(len(source.bounds) - 1)]
    return np.concatenate([block.toarray() if sp.issparse(block) else block for block in blocks])


COUNTS = arrays.arrays(np.uint16, st.tuples(st.integers(1, 9), st.integers(1, 7)), elements=st.integers(0, 400))


@given(recipes())
def test_a_recipe_is_its_text(recipe: Recipe) -> None:
    assert Recipe.of(str(recipe)) == recipe
    assert Recipe.of([str(step) for step in recipe.steps]) == Recipe.of(recipe.steps) == recipe
    assert hash(Recipe.of(f"  {recipe} ".replace("(", " ( "))) == hash(recipe)
    assert recipe_text(recipe) == str(recipe)


@settings(deadline=None)
@given(COUNTS, recipes(), st.integers(1, 9))
def test_dense_and_sparse_rows_in_any_blocks_are_those_of_the_whole_matrix(
    counts: np.ndarray[Any, Any], recipe: Recipe, rows_per_block: int
) -> None:
    wanted = explicit(counts, recipe)
    sparse = sp.csr_array(counts)
    whole = rows_of(prepared(ArrayBlocks(counts, len(counts)), None, recipe))
    np.testing.assert_allclose(whole, wanted, rtol=1e-12, atol=0)
    for raw in (counts, sparse, np.asfortranarray(counts)):
        source = prepared(ArrayBlocks(raw, rows_per_block), None, recipe)
        assert np.array_equal(rows_of(source), whole)  # the same bits
        assert source.dtype == source.read(0).dtype == np.float64
    made: Any = prepared(ArrayBlocks(sparse, rows_per_block), None, recipe).read(0)
    assert sp.issparse(made)
    assert made.nnz <= sparse[:rows_per_block].nnz


@settings(deadline=None)
@given(COUNTS, st.integers(1, 5))
def test_panels_change_no_bit(counts: np.ndarray[Any, Any], entries: int) -> None:
    x = counts * 0.37
    whole = recipe_blocks.follow(Recipe.of(USUAL), x, np.dtype(float))
    sparse = recipe_blocks.follow(Recipe.of(USUAL), sp.csr_array(x), np.dtype(float))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe_blocks, "PANEL_ENTRIES", entries)
        assert np.array_equal(recipe_blocks.follow(Recipe.of(USUAL), x, np.dtype(float)), whole)
        found = recipe_blocks.follow(Recipe.of(USUAL), sp.csr_array(x), np.dtype(float))
        assert np.array_equal(found.data, sparse.data)


@pytest.mark.parametrize("recipe", [USUAL, "arcsinh(5), clip(2)", "binarize", "normalize_total(10), sqrt"])
def test_entries_that_are_not_finite_stay_and_count_for_nothing(recipe: str) -> None:
    x = np.array([[1.0, np.nan, 3.0], [np.inf, 2.0, 2.0], [np.nan, np.nan, np.nan]])
    wanted = explicit(np.where(np.isfinite(x), x, 0), recipe)
    for raw in (x, sp.csr_array(x)):
        made = rows_of(prepared(ArrayBlocks(raw, 2), None, recipe))
        np.testing.assert_array_equal(made[~np.isfinite(x)], x[~np.isfinite(x)])
        np.testing.assert_allclose(made[np.isfinite(x)], wanted[np.isfinite(x)], rtol=1e-12)


def counts_of(n: int = 60, d: int = 12, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(rng.gamma(0.5, 2.0, size=d) * rng.gamma(2.0, 1.0, size=(n, 1))).astype(np.int32)
    counts[7] = 0
    return counts


def adata_of(counts: Any, chosen: np.ndarray[Any, Any]) -> ad.AnnData:
    names = [f"g{i}" for i in range(counts.shape[1])]
    return ad.AnnData(counts, var=pd.DataFrame({"highly_variable": chosen}, index=names))


def stored(kind: str, counts: np.ndarray[Any, Any], chosen: np.ndarray[Any, Any], folder: Path) -> Any:
    """Counts in a kind of storage; those of AnnData with a mask of columns."""
    if kind == "npy":
        np.save(folder / "x.npy", counts)
        return str(folder / "x.npy")
    if kind == "zarr":
        zarr.create_array(folder / "x.zarr", data=counts, chunks=(7, 5))
        return str(folder / "x.zarr")
    if kind == "dask":
        return da.from_array(counts, chunks=(13, 5))
    if kind == "dask csr":
        return da.from_array(counts, chunks=(13, -1)).map_blocks(sp.csr_array)
    adata = adata_of(counts if kind.endswith("dense") else sp.csr_matrix(counts), chosen)
    if kind.startswith("h5ad"):
        adata.write_h5ad(folder / "x.h5ad")
        return str(folder / "x.h5ad")
    if kind.startswith("anndata zarr"):
        adata.write_zarr(folder / "a.zarr")
        return str(folder / "a.zarr")
    if kind == "lazy anndata":
        adata.X = da.from_array(counts, chunks=(13, 5))
    if kind == "backed":
        adata.write_h5ad(folder / "b.h5ad")
        return ad.read_h5ad(folder / "b.h5ad", backed="r")
    return adata


KINDS = [
    *("npy", "zarr", "dask", "dask csr"),
    *("h5ad dense", "h5ad csr", "anndata zarr dense", "anndata zarr csr", "anndata dense", "anndata csr"),
    *("lazy anndata", "backed"),
]


@pytest.mark.filterwarnings("ignore:Writing zarr v2 data:UserWarning")  # anndata's, of its own default
@pytest.mark.parametrize("recipe", [USUAL, "sqrt"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_normalised_by_all_columns_wherever_they_are_stored_and_whatever_a_mask_chooses(
    kind: str, recipe: str, tmp_path: Path
) -> None:
    counts, chosen = counts_of(), np.arange(12) % 3 == 1
    opened = open_matrix(stored(kind, counts, chosen, tmp_path))
    masked = opened.shape[1] < counts.shape[1]
    assert masked == (KINDS.index(kind) >= 4)
    source = prepared(opened, None, recipe)
    made = rows_of(source)
    np.testing.assert_allclose(made, explicit(counts, recipe)[:, chosen if masked else slice(None)], rtol=1e-12)
    assert source.dtype == made.dtype == np.float64
    assert asked_of(source) == asked_of(opened)
    assert getattr(source, "feature_names", None) == getattr(opened, "feature_names", None)
    assert sp.issparse(source.read(0)) == sp.issparse(opened.read(0))
    again = pickle.loads(pickle.dumps(source))
    assert np.array_equal(rows_of(again), made)


@pytest.mark.parametrize(("stored_as", "wanted"), [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i8", "f8"), ("?", "f8")])
def test_the_type_is_float64_unless_the_raw_one_is_a_short_float(stored_as: str, wanted: str) -> None:
    counts = counts_of().astype(stored_as)
    for raw in (counts, da.from_array(counts, chunks=(13, -1))):
        source = prepared(open_matrix(raw), None, USUAL)
        assert source.dtype == source.read(0).dtype == np.dtype(wanted)
    made = rows_of(prepared(open_matrix(counts), None, USUAL))
    assert np.array_equal(made, explicit(counts, USUAL).astype(wanted)) or wanted == "f8"


def test_columns_are_read_alone_unless_rows_are_normalised(tmp_path: Path) -> None:
    counts, columns = counts_of(), np.array([1, 6])
    zarr.create_array(tmp_path / "x.zarr", data=counts, chunks=(20, 3))
    opened = open_matrix(str(tmp_path / "x.zarr"))
    alone = prepared(opened, None, "log1p").of_columns(columns)  # type: ignore[attr-defined]
    np.testing.assert_allclose(rows_of(alone), np.log1p(counts[:, columns]), rtol=1e-12)
    whole = prepared(opened, None, USUAL)
    assert whole.of_columns(columns) is None  # type: ignore[attr-defined]
    assert whole.n_chunk_columns == 1  # type: ignore[attr-defined]


def test_missing_numbers_are_marked_before_the_recipe_is_followed() -> None:
    counts = counts_of()
    counts[3, 4] = -1
    for raw in (counts, da.from_array(counts, chunks=(13, 5)), adata_of(counts, np.ones(12, dtype=bool))):
        made = rows_of(prepared(open_matrix(raw), -1, USUAL))
        assert np.isnan(made[3, 4])
        assert np.isnan(made).sum() == 1
        without = np.where(counts == -1, 0, counts)
        np.testing.assert_allclose(np.nan_to_num(made), explicit(without, USUAL), rtol=1e-12)


def test_entries_given_twice_are_one_entry() -> None:
    twice = sp.csr_array((np.array([3, 4, 5], np.uint8), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    assert rows_of(prepared(open_matrix(twice), None, "sqrt")) == pytest.approx(np.sqrt([[5, 7]]))


@pytest.mark.parametrize("kind", ["array", "csr", "zarr", "npy", "dask", "columns", "h5ad csr"])
@pytest.mark.parametrize("recipe", [USUAL, "log1p", "sqrt"])
def test_negative_numbers_are_refused_where_they_are(kind: str, recipe: str, tmp_path: Path) -> None:
    counts = counts_of()
    counts[41, 7] = -2
    raw = {"array": counts, "csr": sp.csr_matrix(counts)}.get(kind)
    if raw is None:
        raw = stored({"columns": "zarr"}.get(kind, kind), counts, np.arange(12) > 5, tmp_path)
    source: Any = prepared(open_matrix(raw), None, recipe)
    if kind == "columns" and recipe != USUAL:
        source = source.of_columns(np.array([2, 7]))
    with pytest.raises(InvalidInput, match=rf"{Recipe.of(recipe).non_negative} takes .* row 41, column 7.* is -2\. "):
        rows_of(source)


def test_other_steps_take_negative_numbers_and_sums_must_be_finite() -> None:
    x = np.array([[-3.0, 2.0], [0.0, -0.5]])
    assert np.array_equal(rows_of(prepared(open_matrix(x), None, "binarize")), [[1, 1], [0, 1]])
    made = rows_of(prepared(open_matrix(x), None, "arcsinh(2), clip(0.5)"))
    np.testing.assert_allclose(made, np.minimum(np.arcsinh(x / 2), 0.5), rtol=1e-12)
    for raw in (x := np.array([[-np.inf, np.inf], [1e308, 1e308]]), sp.csr_array(x)):
        with pytest.raises(InvalidInput, match=r"the sum of row 1 of .* is infinite"):
            rows_of(prepared(open_matrix(raw), None, USUAL))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("logp", r"steps out of normalize_total\(target\), log1p, .* 'logp' is none\. Did you mean 'log1p'"),
        ("log1p(3)", r"'log1p' alone"),
        ("normalize_total", r"normalize_total its target, a positive number"),
        ("normalize_total(-1)", r"positive number .* not -1"),
        ("clip(nan)", r"positive number .* not nan"),
        ("clip(much)", r"not 'much'"),
        ("log1p, normalize_total(1e4)", r"'normalize_total' first"),
        ("log1p, log1p", r"each step once: 'log1p' is there 2 times"),
        ("log1p; sqrt", r"with commas between"),
        ("", r"at least one step"),
        ([], r"at least one step"),
        (3, r"as text"),
        ([3], r"as text"),
    ],
)
def test_a_recipe_that_is_none_is_refused_with_what_is_allowed(text: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Recipe.of(text)
    with pytest.raises(InvalidInput, match=r"^recipe=.* is not allowed: give "):
        prepared(open_matrix(np.ones((3, 2))), None, text)


@settings(deadline=None, max_examples=30)
@given(COUNTS, st.sampled_from([np.uint8, np.int32, np.float32, np.float64]))
def test_what_is_held_is_what_is_planned_for(counts: np.ndarray[Any, Any], dtype: Any) -> None:
    raw = (counts % 200).astype(dtype)
    for held in (raw, sp.csr_array(raw)):
        source = prepared(ArrayBlocks(held, 2), None, USUAL)
        blocks = [source.read(i) for i in range(len(source.bounds) - 1)]
        assert max(map(block_nbytes, blocks)) <= largest_block_nbytes(source) + 4 * 2  # a last row pointer more
        assert sum(map(block_nbytes, blocks)) <= total_nbytes(source) + 4 * 2 * len(blocks)
        assert (stored_entries(source) is None) == (held is raw)
        assert source.read_nbytes >= largest_block_nbytes(ArrayBlocks(held, 2))


def test_a_file_beneath_is_still_known(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = counts_of()
    with h5py.File(tmp_path / "x.h5") as file:
        opened: Any = open_matrix(file["x"])
        assert opened.files
        assert prepared(opened, -1, USUAL).files == prepared(opened, -1).files == opened.files  # type: ignore[attr-defined]
