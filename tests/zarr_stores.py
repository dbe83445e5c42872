"""Stores of Zarr of every kind that hold one matrix, each with a way to write another matrix into it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from zarr.abc.store import Store
from zarr.storage import FsspecStore, LocalStore, LoggingStore, MemoryStore, ObjectStore, ZipStore

Matrix = npt.NDArray[np.float64]

MEMBER = "x"


class Written(NamedTuple):
    """A store that holds a matrix, and what writes another one in its place."""

    store: Store
    write: Callable[[Matrix], object]


def put(store: Store, matrix: Matrix) -> None:
    """Write a matrix as four chunks."""
    group = zarr.open_group(store, mode="a")
    if MEMBER in group:
        group[MEMBER][...] = matrix
    else:
        group.create_array(MEMBER, data=matrix, chunks=(len(matrix) // 4, matrix.shape[1]))


def local(folder: Path, matrix: Matrix) -> Written:
    """A folder."""
    store = LocalStore(folder / "x.zarr")
    put(store, matrix)
    return Written(store, lambda other: put(store, other))


def logged(folder: Path, matrix: Matrix) -> Written:
    """A folder, read through a store that logs."""
    store, write = local(folder, matrix)
    return Written(_logging(store), write)


def _logging(store: Store) -> LoggingStore[Any]:
    if LoggingStore.with_read_only is Store.with_read_only:
        pytest.skip("this zarr-python cannot open a store that wraps another to read it alone")
    return LoggingStore(store, log_level="CRITICAL")


def zipped(folder: Path, matrix: Matrix) -> Written:
    """A zip file."""
    path = folder / "x.zarr.zip"

    def write(other: Matrix) -> None:
        path.unlink(missing_ok=True)
        store = ZipStore(path, mode="w")
        put(store, other)
        store.close()

    write(matrix)
    return Written(ZipStore(path, mode="r"), write)


def obstore(folder: Path, matrix: Matrix) -> Written:
    """A folder, read by obstore."""
    stores = pytest.importorskip("obstore.store")
    (folder / "o.zarr").mkdir()
    store = ObjectStore(stores.LocalStore(str(folder / "o.zarr")))
    put(store, matrix)
    return Written(store, lambda other: put(store, other))


def fsspec(folder: Path, matrix: Matrix) -> Written:
    """A folder, read by fsspec."""
    store = FsspecStore.from_url(f"file://{folder}/f.zarr", storage_options={"auto_mkdir": True})
    put(store, matrix)
    return Written(store, lambda other: put(store, other))


def repository(folder: Path, matrix: Matrix) -> Any:
    """A repository of Icechunk with one commit on its branch main."""
    icechunk = pytest.importorskip("icechunk")
    made = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder / "repo")))
    commit(made, matrix)
    return made


def commit(repository: Any, matrix: Matrix) -> str:
    """Commit a matrix; the id of the snapshot."""
    session = repository.writable_session("main")
    put(session.store, matrix)
    return str(session.commit("a matrix"))


def icechunk_session(folder: Path, matrix: Matrix) -> Written:
    """A session of Icechunk that may write, and has committed."""
    made = repository(folder, matrix)
    session = made.writable_session("main")
    return Written(session.store, lambda other: put(session.store, other))


def netcdf(path: Path, matrix: Matrix) -> Path:
    """A netCDF file of four chunks."""
    xr = pytest.importorskip("xarray")
    chunks = (len(matrix) // 4, matrix.shape[1])
    dataset = xr.Dataset({MEMBER: (("time", "cell"), matrix)})
    dataset.to_netcdf(path, engine="h5netcdf", encoding={MEMBER: {"chunksizes": chunks}})
    return path


def overwrite(path: Path, matrix: Matrix) -> None:
    """Write other numbers to the same places of a netCDF file."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "r+") as file:
        file[MEMBER][...] = matrix


def virtual(path: Path) -> Any:
    """A netCDF file as VirtualiZarr sees it: where its chunks are."""
    virtualizarr, parsers = pytest.importorskip("virtualizarr"), pytest.importorskip("virtualizarr.parsers")
    registry = pytest.importorskip("obspec_utils.registry").ObjectStoreRegistry
    stores = pytest.importorskip("obstore.store")
    return virtualizarr.open_virtual_dataset(
        url=f"file://{path}", parser=parsers.HDFParser(), registry=registry({"file://": stores.LocalStore()})
    )


def virtual_icechunk(folder: Path, matrix: Matrix) -> Written:
    """A snapshot of Icechunk whose chunks are in a netCDF file."""
    icechunk = pytest.importorskip("icechunk")
    path = netcdf(folder / "i.nc", matrix)
    seen = virtual(path)
    place = f"file://{folder}/"
    settings = icechunk.RepositoryConfig.default()
    settings.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(place, icechunk.local_filesystem_store(str(folder)))
    )
    storage = icechunk.local_filesystem_storage(str(folder / "virtual"))
    made = icechunk.Repository.create(storage, settings, authorize_virtual_chunk_access={place: None})
    session = made.writable_session("main")
    seen.vz.to_icechunk(session.store)
    session.commit("references")
    return Written(made.readonly_session("main").store, lambda other: overwrite(path, other))


def virtual_references(folder: Path, matrix: Matrix) -> Written:
    """References that VirtualiZarr wrote as kerchunk does."""
    path = netcdf(folder / "v.nc", matrix)
    virtual(path).vz.to_kerchunk(str(folder / "v.json"), format="json")
    return Written(references(folder / "v.json"), lambda other: overwrite(path, other))


def kerchunk(folder: Path, matrix: Matrix) -> Written:
    """References that kerchunk wrote."""
    hdf = pytest.importorskip("kerchunk.hdf")
    path = netcdf(folder / "k.nc", matrix)
    (folder / "k.json").write_text(json.dumps(hdf.SingleHdf5ToZarr(str(path)).translate()))
    return Written(references(folder / "k.json"), lambda other: overwrite(path, other))


def references(path: Path) -> FsspecStore:
    """The store of a file of references."""
    return FsspecStore.from_url("reference://", storage_options={"fo": str(path)}, read_only=True)


def memory(folder: Path, matrix: Matrix) -> Written:
    """A dictionary."""
    del folder
    store = MemoryStore()
    put(store, matrix)
    return Written(store, lambda other: put(store, other))


def logged_memory(folder: Path, matrix: Matrix) -> Written:
    """A dictionary, read through a store that logs."""
    store, write = memory(folder, matrix)
    return Written(_logging(store), write)


def obstore_memory(folder: Path, matrix: Matrix) -> Written:
    """Obstore's own dictionary."""
    del folder
    store = ObjectStore(pytest.importorskip("obstore.store").MemoryStore())
    put(store, matrix)
    return Written(store, lambda other: put(store, other))


def fsspec_memory(folder: Path, matrix: Matrix) -> Written:
    """The dictionary that fsspec has."""
    store = FsspecStore.from_url(f"memory:/{folder}")
    put(store, matrix)
    return Written(store, lambda other: put(store, other))


STORED = (
    local,
    logged,
    zipped,
    obstore,
    fsspec,
    icechunk_session,
    virtual_icechunk,
    virtual_references,
    kerchunk,
)
"""Stores outside this process, which tell when a chunk is written again."""

IN_PROCESS = (memory, logged_memory, obstore_memory, fsspec_memory)
