"""Blocks of .npy files."""

import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.storage.sources.npy_blocks import NpyBlocks
from tests.generated import DTYPES


@given(
    n=st.integers(1, 50),
    d=st.integers(1, 9),
    dtype=st.sampled_from(DTYPES),
    order=st.sampled_from("CF"),
    target=st.integers(1, 500),
)
def test_the_blocks_put_together_are_the_array_in_either_order(
    tmp_path_factory: pytest.TempPathFactory, n: int, d: int, dtype: str, order: str, target: int
) -> None:
    X = np.array((np.arange(n * d).reshape(n, d) % 100).astype(dtype), order=order)
    path = tmp_path_factory.getbasetemp() / "blocks.npy"
    np.save(path, X)
    blocks = NpyBlocks(str(path), target_nbytes=target)
    assert blocks.shape == (n, d)
    assert blocks.dtype == X.dtype
    parts = [blocks.read(i) for i in range(len(blocks.bounds) - 1)]
    assert [len(part) for part in parts] == [b - a for a, b in pairwise(blocks.bounds)]
    np.testing.assert_array_equal(np.concatenate(parts), X)


def test_a_block_is_writable_and_no_view_of_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((10, 3)))
    blocks = NpyBlocks(str(tmp_path / "x.npy"))
    blocks.read(0)[:] = 7.0
    np.testing.assert_array_equal(blocks.read(0), np.ones((10, 3)))
    assert not isinstance(blocks.read(0), np.memmap)


def test_it_pickles_as_its_path(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((10_000, 30)))
    blocks = NpyBlocks(str(tmp_path / "x.npy"))
    assert blocks.shape == (10_000, 30)
    pickled = pickle.dumps(blocks)
    assert len(pickled) < 2000
    np.testing.assert_array_equal(pickle.loads(pickled).read(0), blocks.read(0))
    assert blocks.describe() == str(tmp_path / "x.npy")


def test_a_missing_file_is_not_found() -> None:
    with pytest.raises(NotFound, match=r"no file /nowhere/x\.npy"):
        _ = NpyBlocks("/nowhere/x.npy").shape


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"a,b\n1,2\n"])
def test_a_file_that_is_no_npy_file_is_refused_with_what_to_do(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"x\.npy is not a readable \.npy file.*numpy\.save"):
        _ = NpyBlocks(str(tmp_path / "x.npy")).shape


def test_a_file_of_pickled_objects_is_refused_and_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1, "a"], [2, None]], dtype=object))
    with pytest.raises(InvalidInput, match=r"not a readable \.npy file of numbers"):
        _ = NpyBlocks(str(tmp_path / "x.npy")).shape


def test_a_file_that_is_shorter_than_it_says_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((100, 10)))
    path.write_bytes(path.read_bytes()[:-80])
    with pytest.raises(InvalidInput, match="not a readable"):
        _ = NpyBlocks(str(path)).shape


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_that_is_cut_short_or_lost_after_it_was_opened_is_a_storage_error(order: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((100, 10), order=order))
    blocks = NpyBlocks(str(path), target_nbytes=10 * 80)
    assert len(blocks.bounds) == 11
    path.write_bytes(path.read_bytes()[:-80])
    with pytest.raises(StorageError, match=r"rows 90 to 99 of .*x\.npy cannot be read: the file ends early"):
        blocks.read(9)
    path.unlink()
    with pytest.raises(StorageError, match=r"rows 0 to 9 .*cannot be read"):
        blocks.read(0)
