"""Genotypes in .bed and .pgen files and in VCF Zarr groups, against the libraries that write them, and plain loops."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import bed_reader
import numpy as np
import pgenlib
import pytest
import zarr
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st

from spae_dask import SparseEncoder, evaluate
from spae_dask.blocks import RowBlocks
from spae_dask.errors import DataChanged, InvalidInput, NonFiniteInput, NotFound, SpaeError, StorageError
from spae_dask.estimators.checking import check
from spae_dask.passes.events import PassEnded
from spae_dask.storage.ingesting.ingest import ingest
from spae_dask.storage.open import open_matrix
from spae_dask.storage.remote.byte_files import LocalFile
from spae_dask.storage.sources import bed_blocks
from spae_dask.storage.sources.bed_blocks import BedBlocks
from spae_dask.storage.sources.checked_store import place_of
from spae_dask.storage.sources.stored_chunks import check_chunks
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.conftest import ClusterOpener
from tests.estimators.sources import batch_encoder
from tests.storage.genotypes import (
    Floats,
    alleles_of,
    beside,
    dosages,
    names,
    write_bed,
    write_pgen,
    write_vcf,
)

CALLS = dosages()
N, D = CALLS.shape

FORMATS: dict[str, Callable[[Path, Floats], Path]] = {
    ".bed": lambda folder, calls: write_bed(folder / "x.bed", calls),
    ".pgen": lambda folder, calls: write_pgen(folder / "x.pgen", calls),
    "VCF Zarr 2": lambda folder, calls: write_vcf(
        folder / "x.vcz", alleles_of(calls), zarr_format=2, chunks=(7, 50, 2)
    ),
    "VCF Zarr 3": lambda folder, calls: write_vcf(folder / "x.vcz", alleles_of(calls), chunks=(7, 50, 2)),
}

anywhere = pytest.mark.parametrize("kind", FORMATS)


def all_rows(blocks: RowBlocks) -> np.ndarray[Any, Any]:
    return np.concatenate([np.asarray(blocks.read(i)) for i in range(len(blocks.bounds) - 1)])


@anywhere
def test_rows_are_samples_and_columns_are_variants_with_nan_for_missing_calls(kind: str, tmp_path: Path) -> None:
    blocks = open_matrix(FORMATS[kind](tmp_path, CALLS))
    assert (blocks.shape, blocks.dtype, blocks.in_process) == ((N, D), np.float32, False)
    assert blocks.feature_names == names(D)
    np.testing.assert_array_equal(all_rows(blocks), CALLS)
    np.testing.assert_array_equal(all_rows(pickle.loads(pickle.dumps(blocks))), CALLS)


@anywhere
def test_stored_numbers_are_small_integers_with_minus_one_for_missing_calls(kind: str, tmp_path: Path) -> None:
    path = FORMATS[kind](tmp_path, CALLS)
    blocks = open_matrix(path, decode=False)
    assert blocks.dtype == np.int8
    np.testing.assert_array_equal(all_rows(blocks), np.where(np.isnan(CALLS), -1, CALLS))
    assert any("--raw" in note for note in check(blocks).notes)
    assert not any("stored numbers are read" in note for note in check(path).notes)


@anywhere
def test_a_fit_has_the_loss_of_the_same_fit_of_an_array(kind: str, tmp_path: Path) -> None:
    path = FORMATS[kind](tmp_path, CALLS)
    kept = np.load(_saved(tmp_path / "x.npy"))
    ours, plain = (batch_encoder(2, n_nonzero=5, missing="mean").fit(each) for each in (path, kept))
    assert ours.certificate_.loss == pytest.approx(plain.certificate_.loss, rel=1e-12)
    assert ours.certificate_.pca_loss == pytest.approx(plain.certificate_.pca_loss, rel=1e-12)
    assert list(ours.feature_names_in_) == list(names(D))
    codes = np.asarray(ours.transform(path))
    np.testing.assert_allclose(codes, plain.transform(kept), atol=1e-5)
    assert evaluate(path, ours).loss == pytest.approx(evaluate(kept, plain).loss, rel=1e-12)


@anywhere
def test_raw_numbers_with_their_missing_value_give_the_same_fit(kind: str, tmp_path: Path) -> None:
    path = FORMATS[kind](tmp_path, CALLS)
    found = batch_encoder(2, n_nonzero=5, missing="mean").fit(path)
    raw = batch_encoder(2, n_nonzero=5, missing="mean", missing_value=-1).fit(open_matrix(path, decode=False))
    assert raw.certificate_.loss == found.certificate_.loss


def _saved(path: Path) -> Path:
    np.save(path, CALLS.astype(np.float32))
    return path


@anywhere
def test_missing_calls_are_refused_unless_a_fit_is_told_how_to_fill_them(kind: str, tmp_path: Path) -> None:
    with pytest.raises(NonFiniteInput, match=r"missing='mean'"):
        batch_encoder(2, n_nonzero=5).fit(FORMATS[kind](tmp_path, CALLS))


@anywhere
def test_some_variants_are_read_alone(kind: str, tmp_path: Path) -> None:
    blocks: Any = open_matrix(FORMATS[kind](tmp_path, CALLS))
    for columns in ([3], [0, 1, 2], [5, 6, 20, 39]):
        some = blocks.of_columns(np.array(columns))
        assert some.shape == (N, len(columns))
        np.testing.assert_array_equal(all_rows(some), CALLS[:, columns])
    assert blocks.of_columns(np.arange(D)) is None


@anywhere
def test_a_file_that_is_written_again_during_a_run_is_noticed(kind: str, tmp_path: Path) -> None:
    path = FORMATS[kind](tmp_path, CALLS)

    def rewrite(event: object) -> None:
        if isinstance(event, PassEnded):
            FORMATS[kind](tmp_path, CALLS[::-1].copy())

    with pytest.raises(DataChanged, match="was written again"):
        SparseEncoder(2, n_nonzero=5, missing="mean", progress=rewrite).fit(path)


@pytest.mark.parametrize(("kind", "end"), [(".bed", ".bim"), (".bed", ".fam"), (".pgen", ".pvar"), (".pgen", ".psam")])
def test_the_files_beside_it_are_a_part_of_the_data(kind: str, end: str, tmp_path: Path) -> None:
    path = FORMATS[kind](tmp_path, CALLS)
    checked = check_chunks(open_matrix(path))
    text = path.with_suffix(end).read_text()
    path.with_suffix(end).write_text(text + "\n")
    with pytest.raises(DataChanged, match=rf"x\{end} of .* was written again"):
        checked.refuse_changed()
    path.with_suffix(end).unlink()
    with pytest.raises(NotFound, match=rf"no file .*x\{end}, which .*x\{kind} needs"):
        open_matrix(path)


@pytest.mark.parametrize("raw", [False, True])
@anywhere
def test_an_ingested_matrix_has_the_same_numbers_and_names(kind: str, raw: bool, tmp_path: Path) -> None:
    path = FORMATS[kind](tmp_path, CALLS)
    ingest(path, tmp_path / "out.zarr", decode=not raw)
    blocks = open_matrix(tmp_path / "out.zarr")
    assert blocks.feature_names == names(D)
    np.testing.assert_array_equal(all_rows(blocks), all_rows(open_matrix(path, decode=not raw)))


@pytest.fixture(scope="module")
def worker(open_cluster: ClusterOpener) -> Client:
    return open_cluster(1)


@anywhere
def test_workers_read_the_files_themselves(kind: str, worker: Client, tmp_path: Path) -> None:
    path = FORMATS[kind](tmp_path, CALLS)
    alone = batch_encoder(2, n_nonzero=5, missing="mean").fit(path)
    with worker.as_current():
        there = batch_encoder(2, n_nonzero=5, missing="mean").fit(path)
    assert there.certificate_.loss == alone.certificate_.loss


@given(
    n=st.integers(1, 40),
    d=st.integers(1, 30),
    seed=st.integers(0, 99),
    target=st.integers(1, 4000),
    window=st.sampled_from([1, 64, 1 << 20]),
    whole=st.sampled_from([0, 1 << 13]),
)
def test_every_byte_of_a_bed_file_is_read_as_bed_reader_reads_it(
    tmp_path_factory: pytest.TempPathFactory, n: int, d: int, seed: int, target: int, window: int, whole: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.bed"
    path.write_bytes(b"\x6c\x1b\x01" + np.random.default_rng(seed).bytes(d * -(-n // 4)))
    expected = bed_reader.open_bed(path, n, d, properties={}, skip_format_check=True).read(dtype="int8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bed_blocks, "WINDOW_NBYTES", window)
        patch.setattr(bed_blocks, "WHOLE_NBYTES", whole)
        patch.setattr("spae_dask.storage.sources.variant_blocks.FEWEST_ROWS", 1)
        blocks = BedBlocks(str(path), (), n, d, names(d), target_nbytes=target)
        assert all(start % 4 == 0 for start in blocks.bounds[:-1])
        np.testing.assert_array_equal(all_rows(blocks), np.where(expected == -127, -1, expected))


def test_variants_that_are_not_wanted_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: Any = open_matrix(write_bed(tmp_path / "x.bed", CALLS))
    asked: list[int] = []
    fill = LocalFile.fill

    def counted(self: LocalFile, pieces: Any) -> None:
        asked.extend(len(room) for _, room in pieces)
        fill(self, pieces)

    monkeypatch.setattr(LocalFile, "fill", counted)
    all_rows(blocks.of_columns(np.array([2, 30])))
    assert sum(asked) == 2 * -(-N // 4)
    asked.clear()
    all_rows(blocks)
    assert sum(asked) == D * -(-N // 4)


@pytest.fixture
def bed(tmp_path: Path) -> Path:
    return write_bed(tmp_path / "x.bed", CALLS)


DAMAGE: dict[str, tuple[Callable[[Path], object], type[SpaeError], str]] = {
    "empty": (lambda bed: bed.write_bytes(b""), InvalidInput, r"starts with the bytes \(none\), not 6c 1b 01"),
    "intervals": (
        lambda bed: (bed.write_text("chr1\t0\t9\n"), bed.with_suffix(".bim").unlink()),
        InvalidInput,
        "63 68 72.*genomic intervals",
    ),
    "one sample after another": (
        lambda bed: bed.write_bytes(b"\x6c\x1b\x00" + bed.read_bytes()[3:]),
        InvalidInput,
        "one sample after another.*--make-bed",
    ),
    "cut off": (lambda bed: bed.write_bytes(bed.read_bytes()[:-1]), StorageError, r"2,042 bytes.*take 2,043.*cut off"),
    "too long": (lambda bed: bed.write_bytes(bed.read_bytes() + b"\0"), StorageError, r"2,044 bytes.*take 2,043"),
    "fewer variants": (
        lambda bed: beside(bed, ".bim", bed.with_suffix(".bim").read_text().splitlines()[1:]),
        StorageError,
        "39 variants .*do not belong together",
    ),
    "more samples": (
        lambda bed: beside(bed, ".fam", [f"f s{i} 0 0 0 -9" for i in range(N + 2)]),
        StorageError,
        "205 samples .*do not belong together",
    ),
    "short lines": (lambda bed: beside(bed, ".bim", ["1 rs0"] * D), InvalidInput, r"line 1 of .*x\.bim has 2 fields"),
    "no text": (lambda bed: bed.with_suffix(".fam").write_bytes(b"\xff\xfe\0"), InvalidInput, r"x\.fam is not a text"),
    "no samples": (
        lambda bed: (bed.with_suffix(".fam").write_text(""), bed.write_bytes(b"\x6c\x1b\x01")),
        InvalidInput,
        r"x\.bed is empty: found array with 0 sample",
    ),
    "no folder": (lambda bed: (bed.unlink(), bed.mkdir()), NotFound, r"no file .*x\.bed"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_bed_files_are_refused_with_what_to_do(kind: str, bed: Path) -> None:
    damage, error, message = DAMAGE[kind]
    damage(bed)
    with pytest.raises(error, match=message):
        open_matrix(bed)


def test_a_bed_file_that_is_cut_short_or_lost_after_it_was_opened_is_a_storage_error(bed: Path) -> None:
    blocks = open_matrix(bed)
    bed.write_bytes(bed.read_bytes()[:-1])
    with pytest.raises(StorageError, match=rf"rows 0 to {N - 1} of .*x\.bed cannot be read: the file ends early"):
        blocks.read(0)
    bed.unlink()
    with pytest.raises(StorageError, match=r"x\.bed cannot be read.*does not exist"):
        blocks.read(0)


def test_links_to_files_of_any_name_are_followed(bed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "links").mkdir()
    for number, end in enumerate((".bed", ".bim", ".fam")):
        stored = bed.with_suffix(end).rename(tmp_path / f"object{number}")
        (tmp_path / "links" / f"x{end}").symlink_to(stored)
    monkeypatch.chdir(tmp_path)
    blocks = open_matrix("links/x.bed")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(all_rows(blocks), CALLS)


def test_a_url_and_choices_of_other_formats_are_refused(bed: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be read directly, nor from a URL\. Download it"):
        open_matrix("https://example.org/x.bed")
    with pytest.raises(InvalidInput, match=r"array='x' names a member .*x\.bed is a single matrix"):
        open_matrix(bed, array="x")
    with pytest.raises(InvalidInput, match="dosages"):
        open_matrix(write_pgen(tmp_path / "x.pgen", CALLS), array="x")
    with pytest.raises(InvalidInput, match="no variant"):
        open_matrix(bed, columns=["no variant"])


def test_variants_are_chosen_by_their_ids(bed: Path) -> None:
    whole = open_matrix(bed)
    wanted = [whole.feature_names[j] for j in (3, 1)]
    np.testing.assert_array_equal(open_matrix(bed, columns=wanted).read(0), whole.read(0)[:, [3, 1]])


@pytest.mark.parametrize("kind", [".bed", ".pgen"])
def test_variants_without_an_id_are_named_by_their_place(kind: str, tmp_path: Path) -> None:
    path = FORMATS[kind](tmp_path, CALLS[:, :2])
    if kind == ".bed":
        beside(path, ".bim", ["X . 0 700 A C", "1 rs9 0 4 A C"])
    else:
        beside(path, ".pvar", ["#CHROM\tPOS\tID\tREF\tALT\tINFO", "X\t700\t.\tA\tC\tAF=1;x y z", "1\t4\trs9\tA\tC\t."])
    assert open_matrix(path).feature_names == ("X:700", "rs9")


def test_a_pvar_file_without_a_header_is_read_as_a_bim_file(tmp_path: Path) -> None:
    path = write_pgen(tmp_path / "x.pgen", CALLS[:, :2])
    beside(path, ".pvar", ["1 a 0 7 C A", "1 b 0 8 C A"])
    beside(path, ".psam", [f"f s{i} 0 0 0 -9" for i in range(N)])
    blocks = open_matrix(path)
    assert blocks.feature_names == ("a", "b")
    np.testing.assert_array_equal(all_rows(blocks), CALLS[:, :2])


def test_a_variant_of_several_alleles_counts_all_that_are_not_the_reference(tmp_path: Path) -> None:
    alleles = np.random.default_rng(0).integers(0, 3, (2, N, 2)).astype(np.int32)
    alleles[0, :4] = -9
    path = tmp_path / "x.pgen"
    with pgenlib.PgenWriter(bytes(path), N, variant_ct=2, nonref_flags=False, allele_ct_limit=3) as file:
        for variant in alleles:
            file.append_alleles(variant.reshape(-1), allele_ct=3)
    beside(path, ".pvar", ["#CHROM\tPOS\tID\tREF\tALT", "1\t1\ta\tA\tC,G", "1\t2\tb\tA\tC,G"])
    beside(path, ".psam", ["#IID", *(f"s{i}" for i in range(N))])
    expected = np.where((alleles < 0).any(axis=-1), np.nan, (alleles > 0).sum(axis=-1)).T
    np.testing.assert_array_equal(all_rows(open_matrix(path)), expected)


def test_dosages_of_a_pgen_file_are_its_member_of_that_name(tmp_path: Path) -> None:
    calls = CALLS * 0.9  # hard calls are within 0.1 of a whole number
    path = write_pgen(tmp_path / "x.pgen", calls, "dosages")
    np.testing.assert_allclose(all_rows(open_matrix(path, array="dosages")), calls, atol=1e-4)
    hard = all_rows(open_matrix(path))
    assert set(np.unique(hard[np.isfinite(hard)])) <= {0.0, 1.0, 2.0}


def test_pgen_files_that_are_none_or_have_other_companions_are_refused(tmp_path: Path) -> None:
    path = write_pgen(tmp_path / "x.pgen", CALLS)
    beside(path, ".psam", ["#IID", *(f"s{i}" for i in range(N - 1))])
    with pytest.raises((InvalidInput, StorageError), match=r"203 samples.*202 samples.*do not belong together"):
        open_matrix(path)
    beside(path, ".psam", ["#ID", "s0"])
    with pytest.raises(InvalidInput, match=r"x\.psam has no column IID; its header has ID"):
        open_matrix(path)
    path = write_pgen(tmp_path / "x.pgen", CALLS)
    path.write_bytes(b"hello")
    with pytest.raises(InvalidInput, match=r"cannot be read as a \.pgen file: .*magic number"):
        open_matrix(path)


def test_a_pgen_file_that_is_cut_short_after_it_was_opened_is_a_storage_error(tmp_path: Path) -> None:
    path = write_pgen(tmp_path / "x.pgen", CALLS)
    blocks = open_matrix(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(StorageError, match=r"rows 0 to 202 of .*x\.pgen cannot be read"):
        blocks.read(0)


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_pgen(tmp_path / "x.pgen", CALLS)
    monkeypatch.setattr("spae_dask.storage.genetics.find_spec", lambda _: None)
    with pytest.raises(InvalidInput, match=r'needs pgenlib.*pip install "spae-dask\[genetics\]"'):
        open_matrix(path)


@given(
    n=st.integers(1, 12),
    d=st.integers(1, 12),
    ploidy=st.integers(1, 3),
    chunks=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3)),
    seed=st.integers(0, 99),
    zarr_format=st.sampled_from([2, 3]),
    target=st.integers(1, 200),
)
def test_dosages_of_vcf_zarr_are_those_of_a_plain_loop(
    n: int, d: int, ploidy: int, chunks: tuple[int, int, int], seed: int, zarr_format: Any, target: int
) -> None:
    rng = np.random.default_rng(seed)
    alleles = rng.choice(np.array([-1, 0, 0, 0, 1, 1, 2], np.int8), (d, n, ploidy))
    alleles[rng.random((d, n)) < 0.2, 1:] = -2  # haploid
    alleles[rng.random((d, n)) < 0.1] = -2  # no call at all
    group = zarr.open_group({}, mode="w", zarr_format=zarr_format)
    group.create_array("call_genotype", data=alleles, chunks=chunks)
    found = open_matrix(group, decode=False)
    assert isinstance(found, ZarrBlocks)
    found = ZarrBlocks(found.array, target_nbytes=target)
    rows = all_rows(found)
    for sample in range(n):
        for variant in range(d):
            there = [int(each) for each in alleles[variant, sample] if each != -2]
            called = sum(each > 0 for each in there) if there and -1 not in there else -1
            assert rows[sample, variant] == called


class Counting(zarr.storage.WrapperStore[Any]):
    """A store that counts how often each chunk is asked for."""

    counts: ClassVar[dict[str, int]] = {}

    def with_read_only(self, read_only: bool = False) -> "Counting":
        return Counting(self._store.with_read_only(read_only))

    async def get(self, key: str, *rest: Any, **options: Any) -> Any:
        if "call_genotype/c/" in key:
            self.counts[key] = self.counts.get(key, 0) + 1
        return await self._store.get(key, *rest, **options)


def test_every_chunk_of_vcf_zarr_is_decoded_once_a_pass(tmp_path: Path) -> None:
    write_vcf(tmp_path / "x.vcz", alleles_of(CALLS), chunks=(7, 50, 2))
    store = Counting(zarr.storage.LocalStore(tmp_path / "x.vcz"))
    Counting.counts.clear()
    blocks: Any = open_matrix(zarr.open_group(store, mode="r"), decode=False)
    assert (blocks.decodes_per_chunk, blocks.n_objects, blocks.n_chunk_columns) == (1, 30, 6)
    one = ZarrBlocks(blocks.array, target_nbytes=1)
    assert len(one.bounds) == 6  # five rows of chunks
    all_rows(one)
    assert set(store.counts.values()) == {1}
    assert len(store.counts) == 30
    store.counts.clear()
    all_rows(one.of_columns(np.array([0, 6, 8])))
    assert len(store.counts) == 2 * 5


def test_missing_chunks_of_vcf_zarr_are_counted_and_shards_are_read(tmp_path: Path) -> None:
    path = write_vcf(tmp_path / "x.vcz", alleles_of(CALLS), chunks=(5, 20, 2), shards=(20, 60, 2))
    np.testing.assert_array_equal(all_rows(open_matrix(path)), CALLS)
    path = write_vcf(tmp_path / "y.vcz", alleles_of(CALLS), chunks=(7, 50, 2))
    lost = path / "call_genotype" / "c" / "1" / "3" / "0"
    checked = check_chunks(open_matrix(path))
    lost.unlink()
    with pytest.raises(StorageError, match=r"chunk 'c/1/3/0' of .*call_genotype was stored when this run began"):
        all_rows(checked.source)
    counted = check_chunks(open_matrix(path)).chunks
    assert counted is not None
    assert (counted.n_missing, counted.first_missing) == (1, ("c/1/3/0",))


def test_a_damaged_chunk_of_vcf_zarr_is_named(tmp_path: Path) -> None:
    path = write_vcf(tmp_path / "x.vcz", alleles_of(CALLS), chunks=(7, 50, 2))
    (path / "call_genotype" / "c" / "2" / "1" / "0").write_bytes(b"damage")
    with pytest.raises(StorageError, match=r"chunk 'c/2/1/0' of .*call_genotype \(rows 50 to 99\) cannot be read"):
        open_matrix(path).read(0)


def test_variants_of_vcf_zarr_without_ids_are_named_by_their_place(tmp_path: Path) -> None:
    path = write_vcf(tmp_path / "x.vcz", alleles_of(CALLS), zarr_format=2)
    group = zarr.open_group(path, mode="a")
    ids = group["variant_id"][:]
    ids[4] = "."
    group["variant_id"][:] = ids
    found = open_matrix(path).feature_names
    assert found is not None
    assert (found[3], found[4], found[5]) == ("rs3", "1:5", "rs5")
    del group["variant_id"]
    assert open_matrix(path).feature_names is None


def test_other_members_of_a_vcf_zarr_group_can_be_named(tmp_path: Path) -> None:
    path = write_vcf(tmp_path / "x.vcz", alleles_of(CALLS), zarr_format=2)
    zarr.open_group(path, mode="a").create_array("call_DP", data=np.ones((D, N), np.int16))
    assert open_matrix(path, array="call_DP").shape == (D, N)
    assert open_matrix(path, array="call_genotype").shape == (N, D)
    with pytest.raises(InvalidInput, match="3 dimension"):
        open_matrix(path, array="call_genotype_mask")
    assert place_of(open_matrix(path).array.calls).endswith("call_genotype")
