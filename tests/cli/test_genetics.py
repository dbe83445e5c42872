"""From genotypes to a report, and messages where files are bad."""

import numpy as np
import pytest
import zarr

from spae_dask import load_encoder
from tests.cli.conftest import QUICK
from tests.cli.test_exit_codes import failed
from tests.storage.genotypes import alleles_of, dosages, names, write_bed, write_pgen, write_vcf

pytestmark = pytest.mark.usefixtures("undrawn")

CALLS = dosages()
FILLED = np.where(np.isnan(CALLS), np.nanmean(CALLS, axis=0), CALLS)
WRITTEN = {
    "x.bed": write_bed,
    "x.pgen": write_pgen,
    "x.vcz": lambda path, calls: write_vcf(path, alleles_of(calls), zarr_format=2, chunks=(9, 70, 2)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_from_a_file_to_a_report(spae, tmp_path, name):
    data, encoder = WRITTEN[name](tmp_path / name, CALLS), tmp_path / "e.zarr"
    for verb in (
        ["check", data],
        ["plan", data, "-k", 2, "-r", 3, "--missing", "mean"],
        ["fit", data, "-k", 2, "-r", 3, "--missing", "mean", *QUICK, "-o", encoder],
        ["path", data, "-k", "1,2", "-r", "2,3", *QUICK, "--missing", "mean"],
        ["evaluate", data, encoder],
        ["transform", data, encoder, "-o", tmp_path / "z.zarr"],
        ["report", encoder, "-o", tmp_path / "report.html"],
        ["ingest", data, tmp_path / "x.zarr"],
        ["evaluate", tmp_path / "x.zarr", encoder],
    ):
        ended = spae(*verb)
        assert ended.code == 0, ended.err
    made = load_encoder(encoder)
    used = [names(CALLS.shape[1])[column] for column in made.selected_features_]
    assert all(each in spae("inspect", encoder).out for each in used)
    np.testing.assert_allclose(made.mean_, FILLED.mean(axis=0), atol=1e-6)
    expected = (FILLED - made.mean_) @ made.components_.T
    np.testing.assert_allclose(zarr.open_array(tmp_path / "z.zarr")[:], expected, atol=1e-5)


@pytest.mark.parametrize("name", WRITTEN)
def test_calls_that_are_missing_are_told_with_what_helps(spae, tmp_path, name):
    data, whole = WRITTEN[name](tmp_path / name, CALLS), tmp_path / f"whole{name[1:]}"
    WRITTEN[name](whole, np.nan_to_num(CALLS))
    sizes, encoder = ["-k", 1, "-r", 2, *QUICK], tmp_path / "e.zarr"
    assert spae("fit", whole, *sizes, "-o", encoder, "--keep-state").code == 0
    for verb in (["fit", data, *sizes, "-o", tmp_path / "f.zarr"], ["evaluate", data, encoder]):
        ended = spae(*verb)
        failed(ended, 3, "Genotypes that are not called", "Fit with --missing mean")
        assert "--raw" not in ended.err, "-1 is no number of alleles"
    failed(spae("update", encoder, data), 3, "Fit with --missing zero", "Genotypes that are not called")
    noted = spae("plan", data, *sizes).out
    assert "genotypes: int8, missing -1; read as float32" in noted


def test_bad_files_end_with_the_code_of_what_is_wrong(spae, tmp_path):
    bed = write_bed(tmp_path / "x.bed", CALLS)
    ended = spae("fit", bed, "-k", 2, "-r", 3, "-o", tmp_path / "e.zarr")
    assert (ended.code, "--missing mean" in ended.err) == (3, True)
    bed.write_bytes(bed.read_bytes()[:-1])
    ended = spae("check", bed)
    assert (ended.code, "cut off" in ended.err) == (5, True)
    bed.write_text("chr1 0 9")
    ended = spae("ingest", bed, tmp_path / "x.zarr")
    assert (ended.code, "genomic intervals" in ended.err) == (3, True)
    write_bed(bed, CALLS).with_suffix(".fam").unlink()
    ended = spae("plan", bed, "-k", 2, "-r", 3)
    assert (ended.code, "x.fam" in ended.err) == (3, True)
