"""Tables in an object store: the rows that are read from them on a disk, by the clients that Zarr stores have."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype

from spae_dask import open_matrix
from spae_dask.errors import InvalidInput, NotFound
from spae_dask.storage.remote.address import parse_address
from spae_dask.storage.remote.byte_files import RemoteReader, remote_file
from tests.estimators.sources import batch_encoder
from tests.forked import forked_program, lacking

NAMES = ["a", "b", "c", "d"]


def frame(seed: int, n: int = 90) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(n, 4)), columns=NAMES)


def put(url: str, file: Path) -> None:
    there = remote_file(parse_address(url))
    content = default_buffer_prototype().buffer.from_bytes(file.read_bytes())
    zarr.core.sync.sync(there.folder.with_read_only(False).set(there.base, content))


def rows(blocks: object) -> np.ndarray:
    return np.concatenate([blocks.read(i) for i in range(len(blocks.bounds) - 1)])


def test_a_parquet_file_and_an_arrow_file_are_read_as_local_ones(bucket: str, tmp_path: Path) -> None:
    frame(0).to_parquet(tmp_path / "x.parquet", row_group_size=25)
    table = pa.Table.from_pandas(frame(0))
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=30)
    for name in ("x.parquet", "x.arrow"):
        put(f"{bucket}/t/{name}", tmp_path / name)
        blocks = open_matrix(f"{bucket}/t/{name}")
        assert blocks.feature_names == tuple(NAMES)
        np.testing.assert_array_equal(rows(blocks), frame(0).to_numpy())
    some = open_matrix(f"{bucket}/t/x.parquet", columns=["d", "b"])
    np.testing.assert_array_equal(rows(some), frame(0)[["d", "b"]].to_numpy())


def test_a_folder_of_parts_is_read_in_the_order_of_their_numbers(bucket: str, tmp_path: Path) -> None:
    for number in (2, 10, 1):
        frame(number, 20 + number).to_parquet(tmp_path / "part.parquet")
        put(f"{bucket}/parts.parquet/part.{number}.parquet", tmp_path / "part.parquet")
    put(f"{bucket}/parts.parquet/_metadata.parquet", tmp_path / "part.parquet")
    whole = np.concatenate([frame(number, 20 + number).to_numpy() for number in (1, 2, 10)])
    np.testing.assert_array_equal(rows(open_matrix(f"{bucket}/parts.parquet")), whole)
    fitted = batch_encoder(1, n_nonzero=2).fit(f"{bucket}/parts.parquet")
    np.testing.assert_allclose(fitted.components_, batch_encoder(1, n_nonzero=2).fit(whole).components_, rtol=1e-12)


def test_what_is_not_there_or_damaged_is_said(bucket: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no Parquet or Arrow file at"):
        open_matrix(f"{bucket}/nothing.parquet")
    frame(0).to_parquet(tmp_path / "x.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "x.parquet").read_bytes()[:-300])
    put(f"{bucket}/cut.parquet", tmp_path / "cut.parquet")
    with pytest.raises(InvalidInput, match=r"cut\.parquet"):
        open_matrix(f"{bucket}/cut.parquet")


def test_a_file_is_read_and_sought_as_any_other(bucket: str, tmp_path: Path) -> None:
    content = np.random.default_rng(0).bytes(1000)
    (tmp_path / "x.bin").write_bytes(content)
    put(f"{bucket}/x.bin", tmp_path / "x.bin")
    with RemoteReader(remote_file(parse_address(f"{bucket}/x.bin"))) as far, (tmp_path / "x.bin").open("rb") as near:
        for place, whence, n in ((10, 0, 20), (5, 1, 0), (-30, 2, 100), (2000, 0, 5), (-7, 2, 7), (0, 0, -1)):
            assert far.seek(place, whence) == near.seek(place, whence)
            assert far.read(n) == near.read(n)
            assert far.tell() == near.tell()


def test_no_other_library_of_object_stores_is_asked_for(bucket: str, tmp_path: Path) -> None:
    frame(0).to_parquet(tmp_path / "x.parquet")
    put(f"{bucket}/x.parquet", tmp_path / "x.parquet")
    program = f"from spae_dask import open_matrix\nprint(open_matrix('{bucket}/x.parquet').read(0).sum())"
    told, err = forked_program(lacking("s3fs", "gcsfs") + program).communicate(timeout=60)
    assert err == ""
    assert float(told) == pytest.approx(frame(0).to_numpy().sum())
