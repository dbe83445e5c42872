"""Fits in parts of every kind of data, and pipelines that die, on small blocks; and what people give by mistake."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr

from spae_dask.storage import h5_files
from spae_dask.storage.checkpoints.checkpoint_record import LocalStates
from spae_dask.storage.sources import h5_arrays, zarr_blocks
from spae_dask.storage.sources.csr_blocks import CsrBlocks
from spae_dask.storage.tables import tabular_blocks
from spae_dask.storage.tables.table_files import cut
from tests.cli.conftest import QUICK, D, K, Outcome, R, planted, write_zarr
from tests.conftest import OptionsSetter
from tests.storage.anndata_stores import csr_store

Run = Callable[..., Outcome]
N = 540
X = planted()[:N]
SKETCH = ("--strategy", "sketch", "--precision", "fast", "--sketch-rows", 30)
FEW = np.where(np.random.default_rng(1).random(X.shape) < 0.7, 0, X)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch, options: OptionsSetter) -> None:
    """Data of a few kilobytes in several blocks, of which each is a span."""
    options(min_span_nbytes=100, states_per_span=0)
    monkeypatch.setattr(zarr_blocks, "TARGET_BLOCK_NBYTES", 1)
    monkeypatch.setattr(h5_files, "TARGET_BLOCK_NBYTES", 4000)
    monkeypatch.setattr(h5_arrays, "PIECE_NBYTES", 400)
    monkeypatch.setattr(tabular_blocks, "cut", lambda files, row, target, most: cut(files, row, 1, most))
    monkeypatch.setattr(CsrBlocks.__init__, "__defaults__", (None, 1))


def arrays(encoder: Path) -> dict[str, Any]:
    group = zarr.open_group(encoder, mode="r")
    kept: dict[str, Any] = {name: array[...].tobytes() for name, array in group.arrays()}
    return kept | {"certificate": group.attrs["certificate"]}


def write_data(kind: str, folder: Path) -> list[str]:
    """The data and the options that say what of them is meant."""
    if kind == "parquet":
        table = pd.DataFrame(X, columns=[f"expr_{i}" for i in range(D)]).assign(cell="a")
        table.to_parquet(folder / "t.parquet", row_group_size=100)
        return [str(folder / "t.parquet"), "--columns", "expr_*"]
    if kind == "csr":
        csr_store(folder / "x.zarr", sp.csr_array(FEW), chunk=100)
        return [str(folder / "x.zarr")]
    if kind in ("h5ad", "dense h5ad"):
        cells = anndata.AnnData(sp.csr_matrix(FEW))
        cells.layers["dense"] = X
        cells.write_h5ad(folder / "cells.h5ad")
        with h5py.File(folder / "cells.h5ad", "a") as file:
            for name in ("X/data", "X/indices"):
                values = file[name][...]
                del file[name]
                file.create_dataset(name, data=values, chunks=(100,))
        return [str(folder / "cells.h5ad"), *(["--array", "layers/dense"] if kind == "dense h5ad" else [])]
    return [str(write_zarr(folder / "x.zarr", X, chunk_rows=30))]


@pytest.mark.parametrize("kind", ["parquet", "csr", "h5ad", "dense h5ad"])
@pytest.mark.parametrize("how", [(), pytest.param(SKETCH, marks=pytest.mark.slow)])
def test_data_of_every_kind_are_fitted_in_parts_with_the_bits_of_one_fit(
    kind: str, how: tuple[Any, ...], spae: Run, tmp_path: Path
) -> None:
    words = [*write_data(kind, tmp_path), "-k", K, "-r", R, *QUICK, *how]
    assert spae("fit", *words, "-o", tmp_path / "whole.zarr", "--cluster", "none", "-q").code == 0
    shared = ["--checkpoint", tmp_path / "kept"]
    finish = ("fit-finish", *words, *shared, "-o", tmp_path / "e.zarr", "-q")
    for n_round in range(2 if how else 1):
        assert spae(*finish).code in (3, 75)
        for part in ("2/2", "1/2"):
            done = spae("fit-part", part, *words, *shared, "--json")
            assert done.code == 0
            assert (n_round, part) != (0, "2/2") or done.document["missing_parts"] == [1]  # there is more than one span
    assert spae(*finish).code == 0
    assert arrays(tmp_path / "e.zarr") == arrays(tmp_path / "whole.zarr")


FITS = {
    "polished": "n_nonzero = 3\neffort = 0",
    "eps": 'eps = 0.5\nmethod = "batch"',
    "keep": 'keep = 0.5\nmethod = "batch"',
    "doubly-sparse": 'n_nonzero = 3\nmethod = "doubly-sparse"\nmissing = "mean"',
    "sketch": 'n_nonzero = 3\nstrategy = "sketch"\nmethod = "batch"\nscale = true',
    "paper": 'n_nonzero = 3\nstrategy = "paper"\nmethod = "batch"\nn_repeats = 2\npower_iterations = 1',
    "stream": 'n_nonzero = 3\nstrategy = "stream"\nmethod = "batch"\ncenter = false',
    "sample": 'n_nonzero = 3\nstrategy = "sample"\nmethod = "batch"',
}


@pytest.mark.filterwarnings("ignore::spae_dask.errors.UnlikeBlocksWarning")
def test_a_pipeline_that_dies_again_and_again_in_any_strategy_comes_to_the_same_bits(
    spae: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data("zarr", tmp_path)
    text = "".join(
        f'[[step]]\nkind = "fit"\nname = "{name}"\ndata = "x.zarr"\nn_components = 2\n{options}\n'
        for name, options in FITS.items()
    )
    for output in ("whole", "parts"):
        (tmp_path / f"{output}.toml").write_text(f'output = "{output}"\n{text}')
    assert spae("run", tmp_path / "whole.toml", "-q").code == 0
    write, left = LocalStates.write, [0]

    def dying(self: LocalStates, path: str, pieces: Any) -> None:
        left[0] -= path.endswith(".state")
        if left[0] < 0:
            raise KeyboardInterrupt
        write(self, path, pieces)

    monkeypatch.setattr(LocalStates, "write", dying)
    draw, n_deaths = np.random.default_rng(0), 0
    while True:
        left[0] = int(draw.integers(10, 45))
        code = spae("run", tmp_path / "parts.toml", "-q").code
        if code == 0:
            break
        assert code == 130
        n_deaths += 1
        assert n_deaths < 40
    assert n_deaths >= 3
    for name in FITS:
        assert arrays(tmp_path / "parts" / f"{name}.zarr") == arrays(tmp_path / "whole" / f"{name}.zarr")
        assert not (tmp_path / "parts" / f"{name}.checkpoint").exists()


@pytest.fixture
def part(spae: Run, tmp_path: Path) -> Callable[..., Outcome]:
    """Do part 1 of 2 of some data, into a checkpoint."""
    data = write_data("zarr", tmp_path)[0]

    def run(*more: object, data: object = data, kept: object = tmp_path / "kept") -> Outcome:
        return spae("fit-part", "1/2", data, "-k", K, *(more or ("-r", R)), "--checkpoint", kept)

    return run


def test_a_part_for_the_checkpoint_of_another_fit_or_of_other_data_is_refused_by_what_differs(
    part: Callable[..., Outcome], tmp_path: Path
) -> None:
    assert part().code == 0
    before = sorted(tmp_path.rglob("*"))
    other = part("-r", R + 1, "--scale")
    assert other.code == 3
    assert f"n_nonzero was {R}, is {R + 1}; scale was false, is true" in other.err
    (tmp_path / "y.zarr").mkdir()
    same_shape = write_zarr(tmp_path / "y.zarr" / "inner", X + 1, chunk_rows=30)
    refused = part(data=same_shape)
    assert refused.code == 3
    assert "data.content was" in refused.err
    assert [each for each in sorted(tmp_path.rglob("*")) if "y.zarr" not in str(each)] == before


def test_a_part_whose_folder_cannot_be_is_an_error_that_says_so(part: Callable[..., Outcome], tmp_path: Path) -> None:
    missing = part(kept=tmp_path / "no" / "where")
    assert missing.code == 5
    assert "cannot be made" in missing.err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("irreplaceable")
    assert part(kept=tmp_path / "full").code == 3
    assert part(data=tmp_path / "none.zarr").code == 3
    assert not (tmp_path / "kept").exists()


def test_a_part_in_a_folder_that_may_not_be_written_is_an_error_of_storage(
    part: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").mkdir(mode=0o500)
    if os.geteuid() == 0:  # nothing is forbidden to root

        def forbidden(self: Path, *args: object, **more: object) -> None:
            raise PermissionError(13, "Permission denied", str(self))

        opened = Path.open
        monkeypatch.setattr(
            Path, "open", lambda self, mode="r", **more: (opened if "w" not in mode else forbidden)(self, mode, **more)
        )
    ended = part()
    assert ended.code == 5
    assert "Permission denied" in ended.err
    assert list((tmp_path / "kept").iterdir()) == []
