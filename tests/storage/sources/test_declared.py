"""Zarr arrays that declare how their numbers are coded are read as xarray reads them, bit for bit, by every door."""

import base64
import pickle
import struct
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from zarr.storage import MemoryStore

from spae_dask import open_matrix
from spae_dask.blocks import RowBlocks, columns_alone, largest_block_nbytes
from spae_dask.errors import InvalidInput
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.sources.zarr_blocks import MAX_BLOCK_NBYTES, ZarrBlocks

PACKING = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768}


def rows(source: RowBlocks) -> np.ndarray[Any, Any]:
    return np.concatenate([source.read(i) for i in range(len(source.bounds) - 1)])


def by_xarray(store: Any, name: str = "x", **options: Any) -> np.ndarray[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xr.SerializationWarning)
        options |= {"consolidated": False, "chunks": None}
        found: np.ndarray[Any, Any] = xr.open_zarr(store, **options)[name].values
    return found


def base64_of(number: float) -> str:
    return base64.b64encode(struct.pack("<d", number)).decode()


@st.composite
def coded_arrays(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], int, object, dict[str, Any]]:
    """Stored numbers, the format, the fill value of the store and attributes, as writers in the wild combine them."""
    zarr_format = draw(st.sampled_from([2, 3]))
    dtype = np.dtype(
        draw(st.sampled_from(["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]))
    ).newbyteorder(draw(st.sampled_from("<>")))
    floats = dtype.kind == "f"
    if floats:
        numbers = st.one_of(
            st.sampled_from([-9.0, 0.0, -0.0, 1.5, -999.0]), st.floats(-1000, 1000, width=16), st.just(np.nan)
        )
    else:
        # beyond 2**53 xarray also marks the neighbours of a sentinel, which round to it
        limits = np.iinfo(dtype)
        least, most = max(limits.min, -(2**53)), min(limits.max, 2**53)
        half = limits.max // 2  # from here on unsigned numbers are negative to signed ones
        usual = [each for each in (0, 1, 9, least, most, half, half + 1) if least <= each <= most]
        numbers = st.one_of(st.sampled_from(usual), st.integers(least, most))
    values = draw(st.lists(numbers, min_size=6, max_size=6))
    stored = np.array(values, dtype=dtype).reshape(3, 2)
    one = st.one_of(st.sampled_from(values), numbers)
    attributes: dict[str, Any] = {}
    factors = st.one_of(st.sampled_from([1.0, 0.01, -2.5]), st.floats(1e-3, 1e3))
    if draw(st.booleans()):
        attributes["scale_factor"] = draw(factors)
    if draw(st.booleans()):
        attributes["add_offset"] = draw(st.one_of(st.just(0.0), st.floats(-1e3, 1e3)))
    if draw(st.booleans()):
        attributes["missing_value"] = draw(st.one_of(one, st.lists(one, min_size=1, max_size=3)))
    # of big-endian unsigned numbers xarray swaps the bytes of the fill value
    if not floats and dtype.isnative and draw(st.booleans()):
        attributes["_Unsigned"] = draw(st.sampled_from(["true", "false", "True"]))
    fill = draw(st.none() | one)
    if zarr_format == 2:
        return stored, 2, None if fill is None else dtype.type(fill), attributes
    if fill is not None:
        attributes["_FillValue"] = base64_of(fill) if floats else fill
    return stored, 3, dtype.type(0), attributes


def put(store: Any, stored: np.ndarray[Any, Any], zarr_format: int, fill: object, attributes: dict[str, Any]) -> None:
    group = zarr.create_group(store, zarr_format=zarr_format)
    dims = ["row", "column"]
    array = group.create_array(
        "x",
        shape=stored.shape,
        dtype=stored.dtype,
        chunks=(2, 1),
        fill_value=fill,
        attributes=attributes | ({"_ARRAY_DIMENSIONS": dims} if zarr_format == 2 else {}),
        dimension_names=dims if zarr_format == 3 else None,
    )
    array[...] = stored


@pytest.mark.filterwarnings("ignore::RuntimeWarning:xarray")  # for float16 that is NaN, in its older releases
@given(coded_arrays())
@example((np.array([[-1, 5], [127, -128]], "i1"), 3, 0, {"_Unsigned": "true", "_FillValue": -1, "scale_factor": 0.5}))
@example((np.array([[np.nan, 5.25]], "f4"), 3, 0, {"_FillValue": base64_of(np.nan), "scale_factor": 0.1}))
@example((np.array([[0.1, -99.9]], "f4"), 3, 0, {"missing_value": -99.9}))
@settings(max_examples=150, deadline=None)
def test_numbers_are_those_of_xarray(coded: tuple[np.ndarray[Any, Any], int, object, dict[str, Any]]) -> None:
    store = MemoryStore()
    put(store, *coded)
    source = open_matrix(zarr.open_group(store, mode="r"))
    try:
        wanted = by_xarray(store, zarr_format=coded[1])
    except OverflowError:  # xarray takes a _FillValue beside _Unsigned in the stored type only, or fails
        reject()
    found = rows(source)
    if isinstance(source, ZarrBlocks):  # what would change no number is not converted
        np.testing.assert_array_equal(found, wanted)
    else:
        assert found.dtype == source.dtype == wanted.dtype
        assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()
    raw = rows(open_matrix(zarr.open_group(store, mode="r"), decode=False))
    np.testing.assert_array_equal(raw, coded[0])


@pytest.mark.parametrize("fill", [-2, 254])
@pytest.mark.parametrize(("kind", "unsigned", "stored"), [("i", "true", -2), ("u", "false", 254)])
def test_a_fill_value_beside_unsigned_is_known_in_either_type(kind: str, unsigned: str, stored: int, fill: int) -> None:
    data = np.array([[stored, 7]], dtype=f"{kind}1")
    attributes = {"_Unsigned": unsigned, "_FillValue": fill}
    array = zarr.create_array(MemoryStore(), data=data, zarr_format=2, attributes=attributes)
    np.testing.assert_array_equal(rows(open_matrix(array)), [[np.nan, 7]])


@pytest.fixture(params=[2, 3])
def packed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A dataset of a packed matrix with a missing entry, as xarray writes it."""
    values = np.random.default_rng(0).normal(size=(60, 5)) * 10 + 280
    values[3, 1] = np.nan
    made = xr.Dataset({"x": (("time", "cell"), values)})
    encoding = {"x": PACKING | {"chunks": (25, 3)}}
    made.to_zarr(tmp_path / "x.zarr", zarr_format=request.param, encoding=encoding, consolidated=False)
    return tmp_path / "x.zarr"


@pytest.mark.parametrize("door", ["group", "member", "array", "file url", "zarr.Array", "zarr.Group", "pickled"])
def test_every_door_decodes(packed: Path, door: str) -> None:
    source = {
        "group": lambda: open_matrix(packed),
        "member": lambda: open_matrix(packed, array="x"),
        "array": lambda: open_matrix(packed / "x"),
        "file url": lambda: open_matrix(f"file://{packed}"),
        "zarr.Array": lambda: open_matrix(zarr.open_array(packed / "x", mode="r")),
        "zarr.Group": lambda: open_matrix(zarr.open_group(packed, mode="r")),
        "pickled": lambda: pickle.loads(pickle.dumps(open_matrix(packed))),
    }[door]()
    np.testing.assert_array_equal(rows(source), by_xarray(packed))
    assert source.decoded["attributes"] == {k: v for k, v in PACKING.items() if k != "dtype"}
    assert source.decoding.startswith("packed: int16, scale 0.01, offset 273.15, missing -32768; read as float64")


def test_a_url_of_an_object_store_decodes(bucket: str) -> None:
    from spae_dask.storage.remote.address import parse_address
    from spae_dask.storage.remote.remote_store import open_remote

    stored = np.array([[1, 2], [-32768, 4]], "i2")
    attributes = {"scale_factor": 0.5, "_FillValue": -32768}
    put(open_remote(parse_address(f"{bucket}/x.zarr"), read_only=False), stored, 3, 0, attributes)
    np.testing.assert_array_equal(rows(open_matrix(f"{bucket}/x.zarr")), [[0.5, 1.0], [np.nan, 2.0]])
    np.testing.assert_array_equal(rows(open_matrix(f"{bucket}/x.zarr", decode=False)), stored)


def test_some_columns_alone_are_decoded(packed: Path) -> None:
    alone = columns_alone(open_matrix(packed), np.array([1]))
    assert alone is not None
    np.testing.assert_array_equal(rows(alone), by_xarray(packed)[:, [1]])


@pytest.mark.parametrize("written_by_xarray", [False, True])
def test_the_fill_value_of_format_2_means_missing_where_xarray_wrote_it(written_by_xarray: bool) -> None:
    X = np.array([[0.0, 1.0], [2.0, 0.0]])
    array = zarr.create_array(MemoryStore(), shape=X.shape, dtype="f8", chunks=(2, 2), fill_value=0.0, zarr_format=2)
    array[...] = X
    if written_by_xarray:
        array.attrs["_ARRAY_DIMENSIONS"] = ["row", "column"]
    assert open_matrix(array, decode=False).passed_over == (("_FillValue",) if written_by_xarray else ())
    wanted = np.where(X == 0, np.nan, X) if written_by_xarray else X
    np.testing.assert_array_equal(rows(open_matrix(array)), wanted)


@pytest.mark.parametrize(
    ("dtype", "attributes"),
    [
        ("f4", {"_FillValue": base64_of(np.nan)}),
        ("f8", {"missing_value": float("nan")}),
        ("i2", {"scale_factor": 1.0, "add_offset": 0.0}),
        ("i2", {"_Unsigned": "false"}),
        ("i2", {"units": "K", "valid_range": [0, 5]}),
        ("i2", {"encoding-type": "array", "scale_factor": 0.5}),
        ("i2", {"_FillValue": None, "scale_factor": None}),
    ],
)
def test_what_changes_no_number_costs_nothing(dtype: str, attributes: dict[str, Any]) -> None:
    array = zarr.create_array(MemoryStore(), data=np.ones((4, 3), dtype), attributes=attributes)
    source = open_matrix(array)
    assert isinstance(source, ZarrBlocks)
    assert source.dtype == dtype
    assert source.read_nbytes == ZarrBlocks(array).read_nbytes


@pytest.mark.parametrize(
    ("dtype", "attributes"),
    [
        ("i2", {"scale_factor": "0.01"}),
        ("i2", {"scale_factor": 0}),
        ("i2", {"scale_factor": float("nan")}),
        ("i2", {"scale_factor": [0.1, 0.2]}),
        ("i2", {"scale_factor": True}),
        ("i2", {"add_offset": {"re": 1, "im": 2}}),
        ("i2", {"add_offset": float("inf")}),
        ("i2", {"_FillValue": "nothing"}),
        ("f8", {"_FillValue": "nothing"}),
        ("f8", {"_FillValue": "AAAA"}),
        ("f4", {"missing_value": ["NA"]}),
        ("f4", {"missing_value": {"a": 1}}),
    ],
)
def test_attributes_that_make_no_sense_are_refused_and_can_be_passed_over(
    dtype: str, attributes: dict[str, Any]
) -> None:
    array = zarr.create_array(MemoryStore(), data=np.ones((4, 3), dtype), attributes=attributes)
    (key,) = attributes
    with pytest.raises(InvalidInput, match=rf"the Zarr array declares {key} .* not .*--raw \(decode=False\)"):
        open_matrix(array)
    np.testing.assert_array_equal(rows(open_matrix(array, decode=False)), np.ones((4, 3)))


def test_blocks_are_sized_by_the_data_and_their_memory_is_announced(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    stored = rng.integers(-128, 127, size=(60_000, 100), dtype="i1")
    attributes = {"scale_factor": 0.1, "_FillValue": -128, "_Unsigned": "true"}
    zarr.create_array(tmp_path / "x.zarr", data=stored, chunks=(6_000, 100), attributes=attributes)
    source = open_matrix(tmp_path / "x.zarr")
    assert source.dtype == np.float64
    assert len(source.bounds) > 2, "16 MiB of data, not of stored numbers"
    source.read(0)
    tracemalloc.start()
    block = source.read(0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert block.nbytes == largest_block_nbytes(source) > 4 * source.read_nbytes / 10
    assert peak <= block.nbytes + source.read_nbytes
    tall = zarr.create_array(
        MemoryStore(), shape=(3_000_000, 200), dtype="i1", chunks=(1_000_000, 100), attributes={"scale_factor": 0.1}
    )
    assert largest_block_nbytes(open_matrix(tall)) <= MAX_BLOCK_NBYTES


@pytest.mark.parametrize("budget", [1 << 28, 1 << 21])
def test_ingest_writes_a_plain_array_of_what_is_read(packed: Path, tmp_path: Path, budget: int) -> None:
    for decode in (True, False):
        report = ingest(packed, tmp_path / "y.zarr", decode=decode, overwrite=True, budget=budget)
        wanted = by_xarray(packed, mask_and_scale=decode)
        found = zarr.open_array(tmp_path / "y.zarr", mode="r")[...]
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
        again = open_matrix(tmp_path / "y.zarr")
        assert isinstance(again, ZarrBlocks), "it declares nothing that would be decoded again"
        assert ("packed: int16" in report.describe()) == decode
        assert ("stored numbers" in report.describe().replace("--raw for stored numbers", "")) != decode


def test_ingest_of_a_tall_chunk_is_decoded_in_parts_within_the_budget(tmp_path: Path) -> None:
    stored = np.random.default_rng(0).integers(-128, 127, size=(30_000, 60), dtype="i1")
    attributes = {"scale_factor": 0.5, "_FillValue": -128}
    zarr.create_array(tmp_path / "x.zarr", data=stored, chunks=(30_000, 60), attributes=attributes)
    budget = 16 << 20
    ingest(tmp_path / "x.zarr", tmp_path / "warm.zarr", budget=budget)
    tracemalloc.start()
    report = ingest(tmp_path / "x.zarr", tmp_path / "y.zarr", budget=budget)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.decodes_per_chunk > 1
    assert peak < budget
    wanted = np.where(stored == -128, np.nan, stored * 0.5)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "y.zarr", mode="r")[...], wanted)
