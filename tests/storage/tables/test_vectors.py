"""A column of vectors is a matrix: embeddings in Parquet and Arrow files."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spae_dask import SparseEncoder, open_matrix
from spae_dask.errors import InvalidInput, NotNumbers
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.tables import tabular_blocks

N, D = 230, 7
X = np.random.default_rng(0).standard_normal((N, D)).astype("f4")
TYPES = {
    "list": pa.list_(pa.float32()),
    "large list": pa.large_list(pa.float32()),
    "fixed list": pa.list_(pa.float32(), D),
    "of doubles": pa.list_(pa.float64()),
}


def write(path: Path, column: pa.Array, rows: int = 40) -> Path:
    table = pa.table({"text": [f"row {i}" for i in range(len(column))], "emb": column})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table, max_chunksize=rows)
    return path


def rows_of(source: Any) -> np.ndarray:
    return np.concatenate([source.read(number) for number in range(len(source.bounds) - 1)])


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("nbytes", [1 << 24, 500], ids=["one block", "many"])
def test_vectors_are_rows(kind: str, suffix: str, nbytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / f"x{suffix}", pa.array(X.tolist(), TYPES[kind]))
    source = tabular_blocks.open_table(str(path), ["emb"], target_nbytes=nbytes, most_nbytes=nbytes)
    source = pickle.loads(pickle.dumps(source))
    monkeypatch.setattr(tabular_blocks, "BATCH_NBYTES", 64)

    np.testing.assert_array_equal(rows_of(source), X)
    assert source.dtype == (np.float64 if kind == "of doubles" else np.float32)
    assert source.feature_names[:2] == ("emb[0]", "emb[1]")
    assert (len(source.bounds) > 6) == (nbytes == 500)


def test_a_fit_of_embeddings_is_that_of_their_matrix(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", pa.array(X.tolist(), TYPES["list"]))
    source = open_matrix(path, columns=["emb"])
    of_table = SparseEncoder(n_components=2, n_nonzero=3).fit(source)
    of_matrix = SparseEncoder(n_components=2, n_nonzero=3).fit(X)
    np.testing.assert_allclose(of_table.certificate_.loss, of_matrix.certificate_.loss, rtol=1e-12)

    ingest(path, tmp_path / "x.zarr", columns=["emb"])
    np.testing.assert_array_equal(rows_of(open_matrix(tmp_path / "x.zarr")), X)


def test_small_integers_stay_small(tmp_path: Path) -> None:
    codes = np.random.default_rng(1).integers(-128, 127, (N, D), dtype="i1")
    source = open_matrix(write(tmp_path / "x.parquet", pa.array(codes.tolist(), pa.list_(pa.int8()))), columns=["emb"])
    assert source.dtype == np.int8
    np.testing.assert_array_equal(rows_of(source), codes)


@pytest.mark.parametrize("kind", ["list", "fixed list"])
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_nulls_are_missing(kind: str, suffix: str, tmp_path: Path) -> None:
    gaps = X.copy()
    gaps[0], gaps[50], gaps[60, 2] = np.nan, np.nan, np.nan
    listed: list[Any] = X.tolist()
    listed[0], listed[50], listed[60][2] = None, None, None
    try:
        path = write(tmp_path / f"x{suffix}", pa.array(listed, TYPES[kind]))
    except pa.ArrowNotImplementedError as error:  # before pyarrow 17
        pytest.skip(f"this pyarrow cannot write them: {error}")
    np.testing.assert_array_equal(rows_of(open_matrix(path, columns=["emb"])), gaps)


def test_vectors_of_other_lengths_and_other_columns_are_refused(tmp_path: Path) -> None:
    listed = X.tolist()
    listed[200] = listed[200][:3]
    ragged = open_matrix(write(tmp_path / "x.parquet", pa.array(listed, TYPES["list"])), columns=["emb"])
    with pytest.raises(InvalidInput, match=r"'emb' of .*x\.parquet holds a vector of 3 entries, but the first has 7"):
        rows_of(ragged)
    with pytest.raises(NotNumbers, match=r"'emb' \(vectors of float, which --columns emb reads alone"):
        open_matrix(tmp_path / "x.parquet")
    empty = write(tmp_path / "empty.parquet", pa.array([[], []], TYPES["list"]))
    with pytest.raises(InvalidInput, match="holds no vector with entries"):
        open_matrix(empty, columns=["emb"])
    words = write(tmp_path / "words.parquet", pa.array([["a"], ["b"]]))
    with pytest.raises(NotNumbers, match=r"list<.*string>"):
        open_matrix(words, columns=["emb"])
