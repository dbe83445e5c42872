"""Parts of an HDF5 file that lie in others are read if they are there, and never as zeros if they are not."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from spae_dask import open_matrix
from spae_dask.errors import InvalidInput, NotFound, StorageError
from tests.estimators.sources import batch_encoder

X = np.random.default_rng(0).normal(size=(40, 4))


def new_file(path: Path) -> h5py.File:
    file = h5py.File(path, "w")
    file.attrs["encoding-type"] = "anndata"
    return file


@pytest.fixture
def virtual(tmp_path: Path) -> Path:
    """A matrix whose halves are in two files, the second of them upside down in halves."""
    for name, rows in (("a.h5", X[:20]), ("b.h5", np.concatenate([X[30:], X[20:30]]))):
        with h5py.File(tmp_path / name, "w") as file:
            file["m"] = rows
    layout = h5py.VirtualLayout(shape=X.shape, dtype=X.dtype)
    layout[:20] = h5py.VirtualSource("a.h5", "m", shape=(20, 4))
    other = h5py.VirtualSource("b.h5", "m", shape=(20, 4))
    layout[20:30], layout[30:] = other[10:], other[:10]
    with new_file(tmp_path / "x.h5ad") as file:
        file.create_virtual_dataset("X", layout)
    return tmp_path / "x.h5ad"


@pytest.fixture
def external(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A matrix whose bytes are in two plain files."""
    monkeypatch.chdir(tmp_path)  # where HDF5 looks for them
    for name, rows in (("a.bin", X[:10]), ("b.bin", X[10:])):
        (tmp_path / name).write_bytes(rows.tobytes())
    parts = [("a.bin", 0, X[:10].nbytes), ("b.bin", 0, X[10:].nbytes)]
    with new_file(tmp_path / "x.h5ad") as file:
        file.create_dataset("X", shape=X.shape, dtype=X.dtype, external=parts)
    for name, rows in (("a.bin", X[:10]), ("b.bin", X[10:])):
        (tmp_path / name).write_bytes(rows.tobytes())
    return tmp_path / "x.h5ad"


@pytest.mark.parametrize("kind", ["virtual", "external"])
def test_parts_that_are_there_are_read(kind: str, request: pytest.FixtureRequest) -> None:
    source = open_matrix(request.getfixturevalue(kind))
    np.testing.assert_array_equal(np.concatenate([source.read(i) for i in range(len(source.bounds) - 1)]), X)


@pytest.mark.parametrize("lost", ["a.h5", "b.h5"])
def test_a_file_of_a_virtual_dataset_that_is_missing_is_named(virtual: Path, lost: str) -> None:
    (virtual.parent / lost).unlink()
    with pytest.raises(StorageError, match=rf"{lost}.* does not exist for a process of"):
        batch_encoder(n_components=1, n_nonzero=2).fit(virtual)


@pytest.mark.parametrize("left", [None, 12])
def test_a_file_of_a_virtual_dataset_that_has_less_than_it_should_is_named(virtual: Path, left: int | None) -> None:
    with h5py.File(virtual.parent / "b.h5", "w") as file:
        if left is not None:
            file["m"] = X[:left]
    with pytest.raises(StorageError, match=r"needs more of 'm' in .*b\.h5"):
        batch_encoder(n_components=1, n_nonzero=2).fit(virtual)


def test_files_by_a_pattern_are_refused_since_nobody_knows_how_many_there_are(tmp_path: Path) -> None:
    rows, part = h5py.h5s.create_simple((40, 4), (h5py.h5s.UNLIMITED, 4)), h5py.h5s.create_simple((10, 4))
    rows.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), stride=(10, 4), block=(10, 4))
    kind = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    kind.set_virtual(rows, b"part-%b.h5", b"m", part)
    with new_file(tmp_path / "x.h5ad") as file:
        h5py.h5d.create(file.id, b"X", h5py.h5t.NATIVE_DOUBLE, rows, dcpl=kind)
    for number in range(4):
        with h5py.File(tmp_path / f"part-{number}.h5", "w") as file:
            file["m"] = X[10 * number : 10 * number + 10]
    with pytest.raises(InvalidInput, match=r"pattern 'part-%b\.h5'"):
        batch_encoder(n_components=1, n_nonzero=2).fit(tmp_path / "x.h5ad")


@pytest.mark.parametrize("lost", ["a.bin", "b.bin"])
def test_a_plain_file_that_is_missing_or_cut_off_is_named(external: Path, lost: str) -> None:
    whole = (external.parent / lost).read_bytes()
    (external.parent / lost).write_bytes(whole[:-8])
    with pytest.raises(StorageError, match=rf"{lost} has"):
        batch_encoder(n_components=1, n_nonzero=2).fit(external)
    (external.parent / lost).unlink()
    with pytest.raises(StorageError, match=rf"{lost}.* does not exist for a process of"):
        batch_encoder(n_components=1, n_nonzero=2).fit(external)


@pytest.mark.parametrize("link", [h5py.ExternalLink("gone.h5", "m"), h5py.SoftLink("/gone")])
def test_a_link_to_nothing_is_told_from_a_member_that_never_was(tmp_path: Path, link: object) -> None:
    with new_file(tmp_path / "x.h5ad") as file:
        file["X"] = link
    with pytest.raises(NotFound, match=r"member 'X', but it is a link to '.*which does not exist"):
        open_matrix(tmp_path / "x.h5ad")
    with pytest.raises(NotFound, match="no matrix 'layers/other'"):
        open_matrix(tmp_path / "x.h5ad", array="layers/other")
