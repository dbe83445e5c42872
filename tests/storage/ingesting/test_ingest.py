"""Ingest: the same numbers, better stored, within the budget, whole or not at all."""

import csv
import errno
import gzip
import signal
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.errors import (
    InvalidInput,
    MemoryBudgetExceeded,
    MissingChunksWarning,
    NotFound,
    OutputExists,
    SpaeWarning,
    StorageError,
)
from spae_dask.storage.ingesting import ingest as ingesting
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.sources.bounded_reader import regroup
from spae_dask.storage.tables import csv_rows
from spae_dask.storage.tables.csv_rows import open_csv
from spae_dask.storage.writing import chunking
from spae_dask.storage.writing.chunking import CHUNK_NBYTES, CODECS, Layout, choose_codec, choose_layout

MIB = 1 << 20
DTYPES = ["bool", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">f4", ">i2"]


def numbers(shape: tuple[int, int], dtype: str = "f8", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


def stored(path: Path) -> np.ndarray:
    return zarr.open_array(path, mode="r")[...]


def write_text(path: Path, text: str) -> Path:
    path.write_text(text, newline="")
    return path


class TestNpy:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_real_type_is_kept_bit_for_bit(self, tmp_path, dtype):
        x = numbers((40, 7), dtype)
        np.save(tmp_path / "x.npy", x)
        report = ingest(tmp_path / "x.npy", tmp_path / "x.zarr")
        read = stored(tmp_path / "x.zarr")
        assert read.dtype == x.dtype.newbyteorder("=")
        np.testing.assert_array_equal(read, x)
        assert report.shape == (40, 7)

    def test_fortran_order_is_read_in_bands(self, tmp_path):
        x = np.asfortranarray(numbers((5000, 30)))
        np.save(tmp_path / "x.npy", x)
        ingest(tmp_path / "x.npy", tmp_path / "x.zarr", budget=2 * MIB)
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), x)

    def test_nan_and_negative_zero_survive(self, tmp_path):
        x = np.array([[np.nan, -0.0], [np.inf, -np.inf]])
        np.save(tmp_path / "x.npy", x)
        ingest(tmp_path / "x.npy", tmp_path / "x.zarr")
        assert stored(tmp_path / "x.zarr").tobytes() == x.tobytes()

    @pytest.mark.parametrize(
        ("x", "message"),
        [
            (np.zeros(3), "Expected 2D"),
            (np.zeros((0, 3)), "minimum of 1"),
            (np.zeros((2, 2), dtype=complex), "Complex"),
            (np.array([["a"]]), "not numbers"),
            (np.zeros((2, 2), dtype=np.longdouble), "dtype='float64'"),
        ],
    )
    def test_what_is_no_real_matrix_is_refused(self, tmp_path, x, message):
        np.save(tmp_path / "x.npy", x)
        with pytest.raises(InvalidInput, match=message):
            ingest(tmp_path / "x.npy", tmp_path / "x.zarr")
        assert not (tmp_path / "x.zarr").exists()

    def test_arrays_in_memory_are_written_too(self, tmp_path):
        x = np.asfortranarray(numbers((50, 4), "f4"))
        ingest(x, tmp_path / "x.zarr")
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), x)


class TestTypes:
    def test_a_narrower_float_is_rounded_as_numpy_does(self, tmp_path):
        x = numbers((20, 3))
        ingest(x, tmp_path / "x.zarr", dtype="float32")
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), x.astype(np.float32))

    def test_whole_floats_become_integers(self, tmp_path):
        x = numbers((20, 3), "i1").astype(float)
        ingest(x, tmp_path / "x.zarr", dtype=np.int8)
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), x)

    @pytest.mark.parametrize(
        ("value", "dtype"), [(1e300, "f4"), (1.5, "i4"), (300, "u1"), (-1, "u1"), (np.nan, "i2"), (2.0, "bool")]
    )
    def test_a_value_that_the_type_cannot_hold_is_refused(self, tmp_path, value, dtype):
        with pytest.raises(InvalidInput, match="cannot hold"):
            ingest(np.array([[1, value]]), tmp_path / "x.zarr", dtype=dtype)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("dtype", ["complex64", "U3", "object", "nonsense"])
    def test_a_type_that_is_no_number_is_refused(self, tmp_path, dtype):
        with pytest.raises(InvalidInput):
            ingest(np.ones((2, 2)), tmp_path / "x.zarr", dtype=dtype)


class TestText:
    def test_names_and_numbers_are_what_pythons_csv_reads(self, tmp_path):
        x = numbers((300, 4))
        names = ["a", 'quoted "name"', "with, comma", "Ångström"]
        with (tmp_path / "x.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows(x.tolist())
        report = ingest(tmp_path / "x.csv", tmp_path / "x.zarr")
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), x)
        assert zarr.open_array(tmp_path / "x.zarr", mode="r").attrs["feature_names"] == names
        assert report.shape == (300, 4)
        assert report.chunks == (300, 4)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("x.csv", "a,b,c\n1,2,3\n4,5,6\n"),
            ("x.csv", "a,b,c\n1,2,3\n4,5,6"),
            ("x.csv", "\ufeffa,b,c\r\n1,2,3\r\n4,5,6\r\n"),
            ("x.csv", '"a",b,"c"\n"1",2, 3\n\n4 ,5,6\n\n'),
            ("x.csv", "\n a , b , c \n1,2.0,3e0\n4,5,+6\n"),
            ("x.tsv", "a\tb\tc\n1\t2\t3\n4\t5\t6\n"),
            ("X.CSV", "a,b,c\n1,2,3\n4,5,6\n"),
        ],
    )
    def test_line_ends_quotes_blanks_and_byte_order_marks_do_not_matter(self, tmp_path, name, text):
        ingest(write_text(tmp_path / name, text), tmp_path / "x.zarr")
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), [[1, 2, 3], [4, 5, 6]])
        assert zarr.open_array(tmp_path / "x.zarr", mode="r").attrs["feature_names"] == ["a", "b", "c"]

    def test_a_header_over_several_lines_is_one_name(self, tmp_path):
        ingest(write_text(tmp_path / "x.csv", '"a\nb",c\n1,2\n'), tmp_path / "x.zarr")
        assert zarr.open_array(tmp_path / "x.zarr", mode="r").attrs["feature_names"] == ["a\nb", "c"]

    def test_compressed_text_is_read(self, tmp_path):
        with gzip.open(tmp_path / "x.csv.gz", "wt") as file:
            file.write("a,b\n1,2\n")
        ingest(tmp_path / "x.csv.gz", tmp_path / "x.zarr")
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), [[1, 2]])

    def test_damaged_compressed_text_is_a_storage_error(self, tmp_path):
        with gzip.open(tmp_path / "x.csv.gz", "wt") as file:
            file.write("a,b\n" + "1.25,2.5\n" * 100_000)
        whole = (tmp_path / "x.csv.gz").read_bytes()
        (tmp_path / "x.csv.gz").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(StorageError, match=r"x\.csv\.gz cannot be read"):
            ingest(tmp_path / "x.csv.gz", tmp_path / "x.zarr")

    @settings(deadline=None, max_examples=100)
    @given(
        st.lists(
            st.lists(
                st.sampled_from(["", "NA", '""', " ", "nan", "NaN", '"NA"', "1", "-2.5", '"3"']), min_size=5, max_size=5
            ),
            min_size=1,
            max_size=6,
        ),
        st.sampled_from([",", "\t"]),
    )
    def test_missing_cells_are_nan_wherever_they_are(self, rows, delimiter):
        # an oracle of another road: cell by cell, with Python's csv and float
        text = "\n".join(delimiter.join(row) for row in [["a", "b", "c", "d", "e"], *rows])
        expected = [
            [np.nan if cell.strip() in ("", "NA") else float(cell) for cell in row]
            for row in csv.reader(text.split("\n")[1:], delimiter=delimiter)
        ]
        with tempfile.TemporaryDirectory() as folder:
            table = open_csv(write_text(Path(folder, "x.csv" if delimiter == "," else "x.tsv"), text))
            np.testing.assert_array_equal(np.concatenate(list(table.batches())), expected)

    def test_a_row_of_numbers_on_top_might_be_data_or_names_so_the_user_says(self, tmp_path):
        source = write_text(tmp_path / "x.csv", "400,410\n1,2\n3,4\n")
        with pytest.raises(InvalidInput, match=r"--no-header \(header=False\).*--header"):
            ingest(source, tmp_path / "x.zarr")
        ingest(source, tmp_path / "data.zarr", header=False)
        np.testing.assert_array_equal(stored(tmp_path / "data.zarr"), [[400, 410], [1, 2], [3, 4]])
        assert "feature_names" not in zarr.open_array(tmp_path / "data.zarr", mode="r").attrs
        ingest(source, tmp_path / "names.zarr", header=True)
        np.testing.assert_array_equal(stored(tmp_path / "names.zarr"), [[1, 2], [3, 4]])
        assert zarr.open_array(tmp_path / "names.zarr", mode="r").attrs["feature_names"] == ["400", "410"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a,b\n1,2\n3\n", "line 3 has 1 cell.*header has 2"),
            ("a,b\n1,2,3\n", "line 2 has 3 cell"),
            ("a,b\n1,2\n\n3,4\n5,x\n", r"line 5, column 2 \('b'\): 'x' is not a number"),
            ("a,b\n1,2_0\n", "line 2, column 2"),
            ("a,b\n1,-NA\n", "'-NA' is not a number"),
            ("a,b\n1,DNA\n", "'DNA' is not a number"),
            ("a;b\n1,5;2\n", "line 2 has 2 cell"),
            ("a;b\n1;2\n", "semicolons"),
            ('a,b\n"1,5",2\n', "decimal points, not commas"),
            (",a,b\n0,1,2\n", "row labels.*index=False"),
            ("a,,b\n0,1,2\n", "column 2 has no name"),
            ("a,b\n", "no rows"),
            ("a,b\n\n\n", "no rows"),
            ("", "is empty"),
            ("\n\n", "is empty"),
            ('"a,b\n1,2\n', "quoted cell"),
        ],
    )
    def test_what_is_wrong_is_named_by_line_and_column(self, tmp_path, text, message):
        with pytest.raises(InvalidInput, match=message):
            ingest(write_text(tmp_path / "x.csv", text), tmp_path / "x.zarr")
        assert not (tmp_path / "x.zarr").exists()

    @pytest.mark.parametrize("bad", [17, 1_500, 9_998])
    def test_a_bad_cell_far_down_is_found_at_its_line(self, tmp_path, monkeypatch, bad):
        monkeypatch.setattr(csv_rows, "BATCH_CHARACTERS", 10_000)
        lines = ["a,b", *("1.25,2.5",) * 10_000]
        lines[bad] = "1.25,oops"
        source = write_text(tmp_path / "x.csv", "\n".join(lines))
        with pytest.raises(InvalidInput, match=rf"line {bad + 1}, column 2 \('b'\): 'oops'"):
            ingest(source, tmp_path / "x.zarr", budget=MIB // 2)
        assert sorted(each.name for each in tmp_path.iterdir()) == ["x.csv"]

    def test_text_of_another_encoding_says_how_to_convert_it(self, tmp_path):
        (tmp_path / "x.csv").write_bytes("länge,b\n1,2\n".encode("latin-1"))
        with pytest.raises(InvalidInput, match="iconv"):
            ingest(tmp_path / "x.csv", tmp_path / "x.zarr")

    def test_a_long_table_of_unknown_length_grows_as_it_is_read(self, tmp_path):
        x = np.arange(60_000.0).reshape(-1, 2)
        np.savetxt(tmp_path / "x.csv", x, delimiter=",", header="a,b", comments="", fmt="%.0f")
        steps = []
        report = ingest(
            tmp_path / "x.csv", tmp_path / "x.zarr", budget=MIB, watch=lambda done, total: steps.append((done, total))
        )
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), x)
        assert report.shape == x.shape
        assert len(steps) > 2
        assert steps[-1] == (30_000, None)
        assert [done for done, _ in steps] == sorted({done for done, _ in steps})


CHUNKS = st.tuples(st.integers(1, 30), st.integers(1, 8))


class TestZarr:
    @settings(deadline=None, max_examples=20)
    @given(
        shape=st.tuples(st.integers(1, 24), st.integers(1, 6)),
        source_chunks=CHUNKS,
        chunks=st.none() | CHUNKS,
        budget=st.sampled_from([64 << 10, 256 << 10]),
        zarr_format=st.sampled_from([2, 3]),
    )
    def test_any_chunks_go_in_and_the_same_numbers_come_out(self, shape, source_chunks, chunks, budget, zarr_format):
        x = numbers(shape, "f8")
        with tempfile.TemporaryDirectory() as folder:
            source = zarr.create_array(
                Path(folder, "in.zarr"), shape=shape, dtype="f8", chunks=source_chunks, zarr_format=zarr_format
            )
            source[...] = x
            report = ingest(Path(folder, "in.zarr"), Path(folder, "out.zarr"), chunks=chunks, budget=budget)
            np.testing.assert_array_equal(stored(Path(folder, "out.zarr")), x)
            if chunks is not None:
                assert report.chunks == tuple(np.minimum(chunks, shape))

    @pytest.mark.parametrize(
        ("budget", "layout"),
        [
            (16, {"chunks": (50, 100)}),
            (16, {"chunks": (10_000, 1)}),
            (8, {"chunks": (10_000, 25)}),
            (13, {"chunks": (10_000, 100)}),
            (13, {"chunks": (10_000, 100), "compressors": None}),
            (16, {"chunks": (999, 17)}),
            (16, {"chunks": (50, 50), "shards": (1000, 100)}),
        ],
        ids=["tiny rows", "columns", "few columns", "one giant", "one giant, plain", "crooked", "shards"],
    )
    def test_memory_stays_within_the_budget_whatever_the_chunks(self, tmp_path, budget, layout):
        x = numbers((10_000, 100), "f4")
        zarr.create_array(tmp_path / "in.zarr", shape=x.shape, dtype=x.dtype, **layout)[...] = x
        ingest(x[:10], tmp_path / "first.zarr")  # imports are not the budget's business
        tracemalloc.start()
        try:
            ingest(tmp_path / "in.zarr", tmp_path / "out.zarr", budget=budget * MIB)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # about 0.6 of it, more for a single chunk, since how many chunks are decoded at the same moment is up to the
        # machine
        assert peak <= budget * MIB
        np.testing.assert_array_equal(stored(tmp_path / "out.zarr"), x)

    def test_a_chunk_too_large_for_the_budget_is_refused_with_the_budget_that_would_do(self, tmp_path):
        x = numbers((20_000, 100), "f4")
        zarr.create_array(tmp_path / "in.zarr", shape=x.shape, dtype=x.dtype, chunks=x.shape)[...] = x
        with pytest.raises(MemoryBudgetExceeded, match=r"decodes to 7\.6 MiB.*Give a budget of at least 24\.5 MiB"):
            ingest(tmp_path / "in.zarr", tmp_path / "out.zarr", budget=16 * MIB)

    def test_tall_chunks_of_few_columns_are_decoded_as_often_as_reported(self, tmp_path, monkeypatch):
        x = numbers((8002, 16))
        zarr.create_array(tmp_path / "in.zarr", shape=x.shape, dtype=x.dtype, chunks=(4001, 1))[...] = x
        reads = []
        get = zarr.storage.LocalStore.get

        async def counting(self, key, prototype=None, byte_range=None):
            reads.append(key)
            return await get(self, key, prototype, byte_range)

        monkeypatch.setattr(zarr.storage.LocalStore, "get", counting)
        report = ingest(tmp_path / "in.zarr", tmp_path / "out.zarr", budget=MIB)
        assert report.decodes_per_chunk == reads.count("c/0/15") == reads.count("c/1/15")
        assert report.decodes_per_chunk == 4
        assert "decoded 4 times" in report.describe()

    def test_attributes_and_names_are_taken_over(self, tmp_path):
        zarr.create_array(
            tmp_path / "in.zarr",
            shape=(4, 2),
            dtype="f4",
            zarr_format=2,
            attributes={"feature_names": ["a", "b"], "units": "K", "_ARRAY_DIMENSIONS": ["time", "cell"]},
            config={"write_empty_chunks": True},
        )[...] = 0
        ingest(tmp_path / "in.zarr", tmp_path / "out.zarr")
        out = zarr.open_array(tmp_path / "out.zarr", mode="r")
        assert dict(out.attrs) == {"feature_names": ["a", "b"], "units": "K"}
        assert out.metadata.dimension_names == ("sample", "feature")

    def test_a_member_of_a_group_is_named_by_array(self, tmp_path):
        group = zarr.create_group(tmp_path / "in.zarr")
        group.create_array("x", data=np.ones((3, 2)))
        group.create_array("y", data=np.full((3, 2), 2.0))
        ingest(tmp_path / "in.zarr", tmp_path / "out.zarr", array="y")
        np.testing.assert_array_equal(stored(tmp_path / "out.zarr"), np.full((3, 2), 2.0))

    def test_chunks_missing_from_the_source_are_not_laundered_silently(self, tmp_path):
        x = numbers((100, 3))
        zarr.create_array(tmp_path / "in.zarr", shape=x.shape, dtype=x.dtype, chunks=(25, 3))[...] = x
        (tmp_path / "in.zarr" / "c" / "2" / "0").unlink()
        with pytest.warns(MissingChunksWarning, match="1 of 4 chunks"):
            ingest(tmp_path / "in.zarr", tmp_path / "out.zarr")

    def test_a_damaged_chunk_of_the_source_is_named_and_nothing_is_left(self, tmp_path):
        x = numbers((100, 3))
        zarr.create_array(tmp_path / "in.zarr", shape=x.shape, dtype=x.dtype, chunks=(25, 3))[...] = x
        (tmp_path / "in.zarr" / "c" / "2" / "0").write_bytes(b"noise")
        with pytest.raises(StorageError, match="'c/2/0'"):
            ingest(tmp_path / "in.zarr", tmp_path / "out.zarr")
        assert [each.name for each in tmp_path.iterdir()] == ["in.zarr"]

    def test_the_output_may_not_be_the_input(self, tmp_path):
        zarr.create_array(tmp_path / "in.zarr", data=np.ones((3, 2)))
        for output in ("in.zarr", "in.zarr/better"):
            with pytest.raises(InvalidInput, match="the input"):
                ingest(tmp_path / "in.zarr", tmp_path / output, overwrite=True)
            with pytest.raises(InvalidInput, match="the input"):
                ingest(zarr.open_array(tmp_path / "in.zarr"), tmp_path / output, overwrite=True)
        np.testing.assert_array_equal(stored(tmp_path / "in.zarr"), np.ones((3, 2)))


class TestLayout:
    @given(
        shape=st.tuples(st.integers(1, 10**9), st.integers(1, 10**8)),
        itemsize=st.sampled_from([1, 2, 4, 8]),
    )
    def test_chunks_hold_a_row_or_about_8_mib(self, shape, itemsize):
        layout = choose_layout(shape, itemsize)
        rows, columns = layout.chunks
        n, d = shape
        assert 1 <= rows <= n
        assert 1 <= columns <= d
        assert rows * columns * itemsize <= CHUNK_NBYTES
        assert columns == d or rows == 1
        if columns == d and -(-n // rows) > 1:
            # no chunk is less than half of what it may be, unless a row is that large
            assert 2 * (rows + 1) * d * itemsize > CHUNK_NBYTES

    @given(
        shape=st.tuples(st.integers(1, 10**7), st.integers(1, 10**4)),
        chunks=st.tuples(st.integers(1, 100), st.integers(1, 100)),
    )
    def test_shards_are_whole_chunks_and_bring_the_objects_down_if_memory_allows(self, shape, chunks):
        layout = choose_layout(shape, 8, chunks=chunks)
        free = choose_layout(shape, 8, chunks=chunks, max_shard_nbytes=10**15)
        assert free.n_objects(shape) <= chunking.MAX_OBJECTS
        n_chunks = Layout(layout.chunks).n_objects(shape)
        if n_chunks <= chunking.MAX_OBJECTS:
            assert layout.shards is None
        elif layout.shards is not None:
            assert all(shard % chunk == 0 for shard, chunk in zip(layout.shards, layout.chunks, strict=True))
            assert layout.n_objects(shape) < n_chunks

    @pytest.mark.parametrize("chunks", [(0, 3), (3, -1), (3,), (3, 2.0), (True, 3)])
    def test_chunks_that_are_none_are_refused(self, tmp_path, chunks):
        with pytest.raises(InvalidInput, match="two positive integers"):
            ingest(np.ones((4, 4)), tmp_path / "x.zarr", chunks=chunks)

    def test_many_small_chunks_are_gathered_in_shards(self, tmp_path, monkeypatch):
        monkeypatch.setattr(chunking, "MAX_OBJECTS", 10)
        x = numbers((333, 3), "i2")
        report = ingest(x, tmp_path / "x.zarr", chunks=(5, 3))
        array = zarr.open_array(tmp_path / "x.zarr", mode="r")
        assert (array.chunks, array.shards) == ((5, 3), (35, 3))
        assert (report.chunks, report.shards, report.n_objects) == ((5, 3), (35, 3), 10)
        assert sum(each.is_file() for each in (tmp_path / "x.zarr" / "c").rglob("*")) == 10
        assert "shards of 35 x 3" in report.describe()
        np.testing.assert_array_equal(array[...], x)

    def test_more_objects_than_shards_can_gather_are_warned_of(self, tmp_path, monkeypatch):
        monkeypatch.setattr(chunking, "MAX_OBJECTS", 10)
        monkeypatch.setattr(ingesting, "MAX_OBJECTS", 10)
        with pytest.warns(SpaeWarning, match="objects will be stored"):
            ingest(numbers((40, 100)), tmp_path / "x.zarr", chunks=(1, 100), budget=16 << 10)

    def test_chunks_too_large_for_the_budget_are_refused(self, tmp_path):
        with pytest.raises(MemoryBudgetExceeded, match="fewer rows"):
            ingest(np.ones((1000, 100)), tmp_path / "x.zarr", chunks=(1000, 100), budget=MIB)
        assert list(tmp_path.iterdir()) == []

    def test_wide_rows_are_cut_across_columns(self, tmp_path):
        x = numbers((2, 2 * MIB + 1), "f4")
        report = ingest(x, tmp_path / "x.zarr")
        assert report.chunks == (1, 2 * MIB)
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), x)

    @settings(max_examples=50)
    @given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 12))
    def test_regrouped_rows_are_the_same_rows(self, lengths, rows):
        x = np.arange(sum(lengths))
        bands = np.split(x, np.cumsum(lengths)[:-1]) if lengths else []
        groups = list(regroup(iter(bands), rows))
        np.testing.assert_array_equal(np.concatenate([[], *groups]), x)
        assert all(len(group) == rows for group in groups[:-1])
        assert all(0 < len(group) <= rows for group in groups)


class TestCodec:
    def test_floats_and_integers_take_the_codec_that_reads_fastest(self, tmp_path):
        for dtype, expected in [("f4", "lz4-shuffle"), ("i2", "lz4-bitshuffle"), ("bool", "lz4-bitshuffle")]:
            report = ingest(numbers((10, 3), dtype), tmp_path / dtype)
            (codec,) = zarr.open_array(tmp_path / dtype, mode="r").compressors
            assert report.codec == expected
            assert f"{codec.cname.value}-{codec.shuffle.value}" == expected
            assert report.reason in report.describe()

    @pytest.mark.parametrize("name", CODECS)
    def test_a_codec_can_be_asked_for(self, tmp_path, name):
        x = numbers((10_000, 3), "i4")
        report = ingest(x, tmp_path / "x.zarr", codec=name)
        assert (report.codec, report.reason) == (name, "as asked for")
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), x)
        assert (report.ratio < 1) == (name == "none")

    def test_an_unknown_codec_names_the_known_ones(self):
        with pytest.raises(InvalidInput, match="lz4-shuffle, lz4-bitshuffle"):
            choose_codec(np.dtype("f4"), "gzip")


class TestWhole:
    def test_zeros_are_stored_like_anything_else_and_a_lost_chunk_reads_as_nan(self, tmp_path):
        ingest(np.zeros((40, 3)), tmp_path / "x.zarr", chunks=(10, 3))
        chunks = [each for each in (tmp_path / "x.zarr" / "c").rglob("*") if each.is_file()]
        assert len(chunks) == 4
        chunks[0].unlink()
        assert np.isnan(stored(tmp_path / "x.zarr")).sum() == 30

    def test_progress_counts_all_rows(self, tmp_path):
        steps = []
        ingest(
            numbers((5000, 10)), tmp_path / "x.zarr", budget=MIB, watch=lambda done, total: steps.append((done, total))
        )
        assert len(steps) > 2
        assert all(total == 5000 for _, total in steps)
        assert steps[-1] == (5000, 5000)

    def test_the_report_counts_what_is_on_the_disk(self, tmp_path):
        report = ingest(numbers((100, 3), "f4"), tmp_path / "x.zarr", chunks=(30, 3))
        files = [each for each in (tmp_path / "x.zarr").rglob("*") if each.is_file()]
        assert report.stored_nbytes == sum(each.stat().st_size for each in files)
        assert report.n_objects == len(files) - 1  # zarr.json
        assert report.nbytes == 1200
        assert report.as_dict()["ratio"] == 1200 / report.stored_nbytes
        assert "100 x 3 float32" in report.describe()

    def test_a_full_disk_leaves_nothing_and_says_how_much_is_free(self, tmp_path, monkeypatch):
        put = zarr.storage.LocalStore.set

        async def full(self, key, value):
            if key == "c/2/0":
                raise OSError(errno.ENOSPC, "No space left on device")
            await put(self, key, value)

        monkeypatch.setattr(zarr.storage.LocalStore, "set", full)
        with pytest.raises(StorageError, match=r"No space left on device.* free on that disk"):
            ingest(numbers((40, 3)), tmp_path / "x.zarr", chunks=(10, 3))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("fault", ["flipped", "dropped"])
    def test_a_chunk_that_reads_back_differently_is_noticed(self, tmp_path, monkeypatch, fault):
        put = zarr.storage.LocalStore.set

        async def faulty(self, key, value):
            if key == "c/2/0":
                if fault == "dropped":
                    return
                wrong = np.array(value.as_numpy_array())
                wrong[-1] ^= 1
                value = type(value).from_bytes(wrong.tobytes())
            await put(self, key, value)

        monkeypatch.setattr(zarr.storage.LocalStore, "set", faulty)
        with pytest.raises(StorageError, match=r"rows 0 to 39 .* read back differently"):
            ingest(numbers((40, 3)), tmp_path / "x.zarr", chunks=(10, 3), codec="none")
        assert list(tmp_path.iterdir()) == []

    def test_zeros_dropped_from_integers_are_noticed_although_they_read_the_same(self, tmp_path, monkeypatch):
        put = zarr.storage.LocalStore.set

        async def dropping(self, key, value):
            if key != "c/2/0":
                await put(self, key, value)

        monkeypatch.setattr(zarr.storage.LocalStore, "set", dropping)
        with pytest.raises(StorageError, match="1 of 4 chunks are not stored"):
            ingest(np.zeros((40, 3), dtype="i4"), tmp_path / "x.zarr", chunks=(10, 3))

    @pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, RuntimeError])
    def test_an_interrupt_leaves_nothing(self, tmp_path, failure):
        def interrupt(done, _total):
            if done > 1000:
                raise failure

        with pytest.raises(failure):
            ingest(numbers((5000, 10)), tmp_path / "x.zarr", budget=MIB, watch=interrupt)
        assert list(tmp_path.iterdir()) == []

    def test_an_existing_output_is_kept_unless_overwriting(self, tmp_path):
        ingest(np.ones((3, 2)), tmp_path / "x.zarr")
        with pytest.raises(OutputExists):
            ingest(np.zeros((3, 2)), tmp_path / "x.zarr")
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), np.ones((3, 2)))
        ingest(np.zeros((3, 2)), tmp_path / "x.zarr", overwrite=True)
        np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), np.zeros((3, 2)))

    def test_a_disk_that_may_be_too_small_is_warned_of(self, tmp_path, monkeypatch):
        usage = ingesting.shutil.disk_usage(tmp_path)
        monkeypatch.setattr(ingesting.shutil, "disk_usage", lambda _: usage._replace(free=100))
        with pytest.warns(SpaeWarning, match="100 B free"):
            ingest(np.ones((30, 20)), tmp_path / "x.zarr")

    def test_sources_that_are_not_read_are_refused_with_what_is(self, tmp_path):
        for name, way in (("x.mtx", r"not read\. Read its folder"), ("x.h5", "not an HDF5 file.*Give a file")):
            (tmp_path / name).write_bytes(b"?")
            with pytest.raises(InvalidInput, match=way):
                ingest(tmp_path / name, tmp_path / "x.zarr")
        for name in ("no.csv", "no.npy", "no.zarr"):
            with pytest.raises(NotFound):
                ingest(tmp_path / name, tmp_path / "x.zarr")

    def test_options_of_other_formats_are_refused(self, tmp_path):
        write_text(tmp_path / "x.csv", "a\n1\n")
        np.save(tmp_path / "x.npy", np.ones((2, 2)))
        for name in ("x.csv", "x.npy"):
            with pytest.raises(InvalidInput, match="member of a Zarr group"):
                ingest(tmp_path / name, tmp_path / "x.zarr", array="x")
        with pytest.raises(InvalidInput, match="first row of text files"):
            ingest(tmp_path / "x.npy", tmp_path / "x.zarr", header=True)


CHILD = """
import sys, time
import numpy as np
from spae_dask.storage.tables.csv_rows import open_csv
from spae_dask.storage.ingesting.ingest import ingest
def watch(done, total):
    if done > 1000:
        print("half-way", flush=True)
        time.sleep(60)
ingest(np.ones((5000, 10)), sys.argv[1], budget=1 << 20, watch=watch)
"""


@pytest.mark.chaos
def test_a_killed_process_leaves_no_output_under_its_name(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path / "x.zarr")], stdout=subprocess.PIPE)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"half-way\n"
        child.kill()
        assert child.wait(timeout=30) == -signal.SIGKILL
    (left,) = [each.name for each in tmp_path.iterdir() if each.is_dir()]
    assert left.startswith(".x.zarr.partial-")
    ingest(np.ones((5, 10)), tmp_path / "x.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "x.zarr"), np.ones((5, 10)))


class TestChosenColumnsOfText:
    TEXT = 'id,"x, raw",y,note\na,1,2,"one, two"\nb,,4,\n"c",5,6,"7"\n'

    def test_the_others_may_hold_anything(self, tmp_path):
        write_text(tmp_path / "t.csv", self.TEXT)
        ingest(tmp_path / "t.csv", tmp_path / "t.zarr", columns=["y", "x*"])
        np.testing.assert_array_equal(stored(tmp_path / "t.zarr"), [[2, 1], [4, np.nan], [6, 5]])
        assert zarr.open_array(tmp_path / "t.zarr").attrs["feature_names"] == ["y", "x, raw"]

    def test_a_cell_of_a_chosen_column_that_is_no_number_is_told(self, tmp_path):
        write_text(tmp_path / "t.csv", self.TEXT)
        with pytest.raises(InvalidInput, match=r"line 2, column 4 \('note'\): 'one, two' is not a number"):
            ingest(tmp_path / "t.csv", tmp_path / "t.zarr", columns=["y", "note"])

    @pytest.mark.parametrize("row", ["d,1,2,a, b", "d,1,2", '"d",1,2,a, b'])
    def test_a_row_of_another_length_is_told_though_its_numbers_could_be_read(self, tmp_path, row):
        write_text(tmp_path / "t.csv", f"{self.TEXT}{row}\n")
        with pytest.raises(InvalidInput, match=r"line 5 has \d cell\(s\), but the header has 4"):
            ingest(tmp_path / "t.csv", tmp_path / "t.zarr", columns=["x*", "y"])

    def test_row_labels_under_no_name_are_left_out_by_choosing(self, tmp_path):
        write_text(tmp_path / "t.csv", ",a,b\nr1,1,2\nr2,3,4\n")
        ingest(tmp_path / "t.csv", tmp_path / "t.zarr", columns=["a", "b"])
        np.testing.assert_array_equal(stored(tmp_path / "t.zarr"), [[1, 2], [3, 4]])

    def test_names_need_a_header_and_must_be_in_it(self, tmp_path):
        write_text(tmp_path / "t.csv", "1,2\n3,4\n")
        with pytest.raises(InvalidInput, match="has no header"):
            ingest(tmp_path / "t.csv", tmp_path / "t.zarr", columns=["a"], header=False)
        write_text(tmp_path / "u.csv", "alpha,beta\n3,4\n")
        with pytest.raises(InvalidInput, match=r"no column 'alhpa'\. Did you mean 'alpha'"):
            ingest(tmp_path / "u.csv", tmp_path / "t.zarr", columns=["alhpa"])


def test_quoted_numbers_above_bare_ones_are_names(tmp_path):
    write_text(tmp_path / "t.csv", '"2019","2020"\n1,2\n')
    ingest(tmp_path / "t.csv", tmp_path / "t.zarr")
    np.testing.assert_array_equal(stored(tmp_path / "t.zarr"), [[1, 2]])
    assert zarr.open_array(tmp_path / "t.zarr").attrs["feature_names"] == ["2019", "2020"]
    for text in ('"2019","2020"\n"1","2"\n', "2019,2020\n1,2\n"):
        write_text(tmp_path / "t.csv", text)
        with pytest.raises(InvalidInput, match="only numbers"):
            ingest(tmp_path / "t.csv", tmp_path / "u.zarr")


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_a_row_group_larger_than_the_budget_is_written_a_few_rows_at_a_time(tmp_path, suffix):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(numbers((20_000, 40)), columns=[f"c{i}" for i in range(40)])
    path = tmp_path / f"t{suffix}"
    table.to_parquet(path, row_group_size=20_000) if suffix == ".parquet" else table.to_feather(path)
    ingest(path, tmp_path / "t.zarr", budget=2 * MIB)
    np.testing.assert_array_equal(stored(tmp_path / "t.zarr"), table.to_numpy())
    assert zarr.open_array(tmp_path / "t.zarr").attrs["feature_names"] == list(table.columns)


def test_names_of_a_frame_in_memory_are_written_too(tmp_path):
    pd = pytest.importorskip("pandas")
    ingest(pd.DataFrame({"a": [1.0], "b": [2.0]}), tmp_path / "t.zarr")
    assert zarr.open_array(tmp_path / "t.zarr").attrs["feature_names"] == ["a", "b"]
