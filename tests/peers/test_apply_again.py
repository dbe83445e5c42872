"""Faults that users of other packages reported about applying a fit: transform, signs, seeds, stores."""

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr

from spae_dask.errors import InvalidInput, MissingChunksWarning
from spae_dask.estimators import writing
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.maths.selection import SELECTIONS
from tests.conftest import OptionsSetter
from tests.estimators.sources import batch_encoder, spread, zarr_array

X = spread(np.random.default_rng(0), 50, 8)
SOLVERS = [{"strategy": strategy} for strategy in ("gram", "tsqr")] + [{"selection": name} for name in SELECTIONS]


@pytest.mark.parametrize("parameters", SOLVERS, ids=str)
@pytest.mark.parametrize("kind", ["numpy", "dask"])
def test_fit_then_transform_works_and_is_fit_transform(parameters: dict[str, Any], kind: str) -> None:
    """dask-ml#1023: fit_transform worked and fit().transform raised."""
    given = da.from_array(X, chunks=(20, 5)) if kind == "dask" else X
    at_once = batch_encoder(2, n_nonzero=3, **parameters).fit_transform(given)
    in_turn = batch_encoder(2, n_nonzero=3, **parameters).fit(given).transform(given)
    np.testing.assert_allclose(np.asarray(at_once), np.asarray(in_turn), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lazy_transform_probes_nothing(dtype: type) -> None:
    """dask-ml#773, PR#774: transform was tried on a 1 x 1 array to guess the type of its output."""
    seen = []
    lazy = da.from_array(np.ones((1000, 10), dtype), chunks=(100, 10)).map_blocks(
        lambda block: seen.append(block.shape) or block, dtype=dtype, meta=np.empty((0, 0), dtype)
    )
    encoder = batch_encoder(2, n_nonzero=3).fit(spread(np.random.default_rng(1), 50, 10))
    codes = encoder.transform(lazy)
    assert (codes.dtype, codes.shape, codes._meta.dtype) == (dtype, (1000, 2), dtype)
    assert seen == []
    assert codes.compute().dtype == dtype


@pytest.mark.parametrize("selection", ["adaptive", "dual-set"])
def test_the_seed_counts_on_lazy_input_too(selection: str) -> None:
    """xeofs: on dask input the random map was drawn without the seed."""
    lazy = da.from_array(spread(np.random.default_rng(2), 60, 12), chunks=(13, 12))
    one, other = (
        batch_encoder(2, n_nonzero=5, selection=selection, random_state=0).fit(lazy).components_ for _ in range(2)
    )
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("kind", ["numpy", "dask"])
def test_signs_are_fixed_by_the_largest_entry(kind: str) -> None:
    """cuml#2368, dask-ml PR#737: signs differed between fit_transform and fit then transform."""
    for sign in (1, -1):
        given = da.from_array(sign * X, chunks=(20, 5)) if kind == "dask" else sign * X
        encoder = batch_encoder(3, n_nonzero=4).fit(given)
        largest = np.abs(encoder.components_).argmax(axis=1)
        assert (encoder.components_[np.arange(3), largest] > 0).all()
        again = batch_encoder(3, n_nonzero=4)
        np.testing.assert_array_equal(np.asarray(again.fit_transform(given)), np.asarray(encoder.transform(given)))


@pytest.mark.parametrize("name", ["x.zarr", "./x.zarr", "folder/../x.zarr", "link.zarr"])
def test_writing_over_the_store_being_read_is_refused(tmp_path: Path, name: str) -> None:
    """dask#5942: the output was emptied first, and then read as zeros."""
    zarr_array(tmp_path / "x.zarr", X, (20, 8))
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.zarr").symlink_to("x.zarr")
    encoder = batch_encoder(2, n_nonzero=3).fit(X)
    with pytest.raises(InvalidInput, match="would damage the input"):
        transform_to_zarr(tmp_path / "x.zarr", encoder, f"{tmp_path}/{name}", overwrite=True)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x.zarr")[...], X)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_lost_chunk_is_counted_and_not_taken_for_data_in_silence(tmp_path: Path, zarr_format: int) -> None:
    """zarr-python#486, #587: a chunk that is lost reads as the fill value."""
    zarr_array(tmp_path / "x.zarr", X, (13, 8), zarr_format=zarr_format)
    (tmp_path / "x.zarr" / {2: "2.0", 3: "c/2/0"}[zarr_format]).unlink()
    with pytest.warns(MissingChunksWarning, match=r"1 of 4 chunks are not stored and read as 0\.0"):
        batch_encoder(2, n_nonzero=3).fit(tmp_path / "x.zarr")


def test_output_chunks_that_do_not_line_up_with_those_of_the_input_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: OptionsSetter
) -> None:
    """xarray#8371, #10501, zarr-python#3682: tasks that shared a chunk overwrote each other's rows."""
    rows = spread(np.random.default_rng(3), 1000, 8)
    zarr_array(tmp_path / "x.zarr", rows, (37, 8), shards=(74, 8))
    monkeypatch.setattr(writing, "unit_rows_for", lambda n_rows, row_nbytes, rows_per_block: 50)
    options(min_span_nbytes=1)
    encoder = batch_encoder(2, n_nonzero=3).fit(rows)
    report = transform_to_zarr(tmp_path / "x.zarr", encoder, str(tmp_path / "z.zarr"))
    assert (report.chunk_rows, report.n_chunks, report.rows_verified) == (50, 20, 1000)
    np.testing.assert_allclose(zarr.open_array(tmp_path / "z.zarr")[...], encoder.transform(rows), rtol=1e-12)
