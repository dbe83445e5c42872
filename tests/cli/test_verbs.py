"""What each verb prints and writes: words for people, or one JSON object."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import zarr

from spae_dask import load_encoder
from spae_dask.cli import fit
from spae_dask.estimators import planning
from spae_dask.estimators.runtime import CPU_COUNT
from spae_dask.passes.calibration import Calibration
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from tests.cli.conftest import QUICK, D, K, N, R, planted, write_zarr
from tests.storage.anndata_stores import anndata_store, sparse_counts

CALIBRATION = Calibration(1, 1, 0.1, 1, reading=1e-9, waiting=1e-9, updates=())


def test_fit_prints_the_certificate_on_stdout_and_all_else_on_stderr(spae, store, tmp_path):
    ended = spae("fit", store, "-k", K, "-r", R, *QUICK, "-o", tmp_path / "e.zarr")
    assert ended.code == 0
    assert ended.out == f"{load_encoder(tmp_path / 'e.zarr').certificate_}\n"
    lines = ended.err.splitlines()
    assert lines[0].startswith("data      ")
    assert any(line.startswith(f"core: {N:,} rows, ") for line in lines)
    assert lines[-1].split() == ["spae", "transform", str(store), str(tmp_path / "e.zarr"), "-o", "CODES.zarr"]


def test_fit_as_json_is_one_object_with_certificate_plan_and_columns(spae, store, tmp_path):
    ended = spae("fit", store, "-k", K, "-r", R, *QUICK, "-o", tmp_path / "e.zarr", "--json")
    document = ended.document
    assert ended.code == 0
    assert document["command"] == "fit"
    assert document["certificate"]["n_nonzero"] == R
    assert document["certificate"]["ratio"] >= 1
    assert document["plan"]["shape"] == [N, D]
    assert document["selected_features"] == load_encoder(tmp_path / "e.zarr").selected_features_.tolist()
    assert document["warnings"] == []
    assert "error" not in document


def test_fit_passes_every_option_on(spae, store, tmp_path):
    options = ["--selection", "leverage", "--strategy", "tsqr", "--missing", "mean", "--no-center", "--scale"]
    options += ["--effort", "0"]
    ended = spae("fit", store, "-k", 3, "--eps", 0.25, "--seed", 7, *options, "-o", tmp_path / "e.zarr", "--json")
    assert ended.code == 0
    found = load_encoder(tmp_path / "e.zarr").get_params()
    wanted = {
        "n_components": 3,
        "n_nonzero": None,
        "eps": 0.25,
        "random_state": 7,
        "selection": "leverage",
        "strategy": "tsqr",
        "missing": "mean",
        "center": False,
        "scale": True,
    }
    assert {name: found[name] for name in wanted} == wanted
    assert ended.document["certificate"]["ratio"] <= 1.25


def test_a_tolerance_reads_a_sample_and_names_the_command_that_makes_it_exact(spae, tmp_path, monkeypatch):
    from spae_dask.storage.sources import zarr_blocks

    store = write_zarr(tmp_path / "x.zarr", planted(), chunk_rows=10)
    monkeypatch.setattr(zarr_blocks.ZarrBlocks, "rows_per_block", 10)
    ended = spae(
        "fit", store, "-k", K, "-r", R, *QUICK, "--tolerance", 0.2, "-o", tmp_path / "e.zarr", "--cluster", "none"
    )
    assert ended.code == 0
    lines = ended.err.splitlines()
    assert any(line.startswith("note      the plan counts one full pass") for line in lines)
    assert any(line.startswith("5.33 % read: ratio 1.") for line in lines)
    assert f"exact              spae evaluate {store} {tmp_path / 'e.zarr'}" in lines
    assert "95% confidence" in ended.out
    assert load_encoder(tmp_path / "e.zarr").get_params()["tolerance"] == 0.2
    assert "% of the rows" in spae("inspect", tmp_path / "e.zarr").out
    refused = spae("fit", store, "-k", K, "-r", R, *QUICK, "--tolerance", 0, "-o", tmp_path / "f.zarr")
    assert refused.code == 2
    assert "positive number" in refused.err


def test_fit_reads_the_member_of_a_group_that_is_named(spae, tmp_path):
    group = zarr.create_group(str(tmp_path / "g.zarr"))
    group.create_array("a", data=planted(0))
    group.create_array("b", data=planted(1))
    ended = spae("fit", tmp_path / "g.zarr", "--array", "b", "-k", K, "-r", R, *QUICK, "-o", tmp_path / "e.zarr")
    assert ended.code == 0
    np.testing.assert_allclose(load_encoder(tmp_path / "e.zarr").mean_, planted(1).mean(axis=0), rtol=1e-5)
    assert ended.err.splitlines()[-1].endswith("-o CODES.zarr --array b")


def test_quiet_leaves_only_the_result(spae, store, tmp_path):
    ended = spae("fit", store, "-k", K, "-r", R, *QUICK, "-o", tmp_path / "e.zarr", "-q")
    assert ended.err == ""
    assert ended.out.startswith("explained  ")


def test_transform_writes_the_codes(spae, store, encoder, tmp_path):
    ended = spae("transform", store, encoder, "-o", tmp_path / "z.zarr", "--json")
    assert ended.code == 0
    assert ended.document["codes"]["shape"] == [N, K]
    assert ended.document["codes"]["rows_verified"] == N
    fitted = load_encoder(encoder)
    by_hand = (planted().astype(np.float64) - fitted.mean_) @ fitted.components_.T
    np.testing.assert_allclose(zarr.open_array(tmp_path / "z.zarr")[...], by_hand, rtol=0, atol=1e-4)


def test_evaluate_measures_held_out_data(spae, encoder, tmp_path):
    held_out = write_zarr(tmp_path / "t.zarr", planted(seed=9))
    ended = spae("evaluate", held_out, encoder, "--json")
    certificate = ended.document["certificate"]
    fitted = load_encoder(encoder)
    X = planted(seed=9).astype(np.float64) - fitted.mean_
    own = np.sum((X - X @ fitted.components_.T @ fitted.decoder_) ** 2)
    assert ended.code == 0
    assert certificate["decoder_loss"] == pytest.approx(own, rel=1e-6)
    assert certificate["pca_loss"] == pytest.approx(np.sum(np.linalg.svd(X, compute_uv=False)[K:] ** 2), rel=1e-6)


def test_evaluate_shows_all_metrics(spae, encoder, tmp_path):
    held_out = write_zarr(tmp_path / "t.zarr", planted(seed=9))
    metrics = spae("evaluate", held_out, encoder, "--json").document["certificate"]["metrics"]
    fitted = load_encoder(encoder)
    Z = (planted(seed=9).astype(np.float64) - fitted.mean_) @ fitted.components_.T
    cosines = Z.T @ Z / np.outer(*[np.linalg.norm(Z, axis=0)] * 2)
    np.testing.assert_allclose(metrics["score_correlation"], cosines, atol=1e-6)
    assert metrics["n_nonzero"] == np.count_nonzero(fitted.components_, axis=1).tolist()
    out = spae("evaluate", held_out, encoder).out
    assert f"score correlation  {metrics['largest_correlation']:.4f} at most" in out
    assert len(out.splitlines()[-K:][0].split()) == 5


def test_fit_to_an_excess_says_how_many_nonzeros_theory_asks_for(spae, store, tmp_path):
    ended = spae("fit", store, "-k", K, "--eps", 0.1, "--effort", 0, "-o", tmp_path / "e.zarr", "--json")
    certificate = ended.document["certificate"]
    assert (certificate["theory_n_nonzero"], certificate["theory_n_nonzero_sharp"]) == (110, 62)
    assert certificate["metrics"] is None
    found = [f"eps = 0.1: r = {certificate['n_nonzero']} found, met", "theory's r for this eps: 110, 62 with sharper"]
    inspected = [spae("inspect", tmp_path / "e.zarr", *more).out for more in ((), ("-v",))]
    assert [[each in out for each in found] for out in inspected] == [[True, False], [True, True]]
    assert ["symmetric variance" in out for out in inspected] == [False, True]
    again = spae("fit", store, "-k", K, "--eps", 0.1, "--effort", 0, "-o", tmp_path / "e.zarr", "--force")
    assert found[0] in again.out


def test_plan_reads_nothing_and_names_the_passes(spae, tmp_path):
    empty = tmp_path / "x.zarr"
    zarr.create_array(str(empty), shape=(10**9, 100), chunks=(10**5, 100), dtype="f4")
    ended = spae("plan", empty, "-k", K, "-r", R, "--cluster", "none", "--json")
    assert ended.code == 0
    assert ended.document["plan"]["bytes_read"] == 4 * 10**11
    assert spae("plan", empty, "-k", K).out.startswith("data      ")


def test_plan_prices_every_strategy_and_reads_nothing_if_told_so(spae, store, monkeypatch):
    asked = ["plan", store, "-k", K, "-r", R, "--cluster", "none"]
    measured = spae(*asked, "--json").document["plan"]
    assert measured["calibration"]["nbytes"] > 0
    monkeypatch.setattr(ZarrBlocks, "read", lambda *_: pytest.fail("read"))
    ended = spae(*asked, "--no-calibrate", "--json")
    assert ended.code == 0
    assert ended.document["plan"]["calibration"] is None
    assert [each["strategy"] for each in ended.document["plan"]["alternatives"]] == [
        "gram",
        "tsqr",
        "sketch",
        "stream",
        "sample",
        "paper",
    ]
    assert "  gram *  " in spae(*asked, "--no-calibrate").out


def test_a_fit_is_calibrated_only_if_it_is_long(spae, store, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(planning, "calibrate_source", lambda *args, **_: calls.append(args) or CALIBRATION)
    argv = ["fit", store, "-k", K, "-r", R, *QUICK, "--cluster", "none", "-o", tmp_path / "e.zarr", "--force"]
    assert "nominal rates" in spae(*argv).err
    assert not calls
    monkeypatch.setattr(fit, "WORTH_CALIBRATING", 0.0)
    assert "measured rates" in spae(*argv).err
    assert len(calls) == 1


def test_plan_for_local_processes_starts_none_and_counts_them(spae, store):
    resources = spae("plan", store, "-k", K, "--cluster", "local:3", "--memory", "1GB", "--json").document["plan"][
        "resources"
    ]
    assert resources.pop("listing_nbytes") > 0
    assert resources == {
        "where": "processes of this machine",
        "n_workers": 3,
        "threads": 1,
        "memory_limit": 1_000_000_000,
        "slack": 1.1,
        "cores": CPU_COUNT,
        "in_process": False,
        "limit_is_given": False,
    }


def test_check_counts_and_exits_with_0(spae, tmp_path):
    values = planted()
    values[7, 3] = np.nan
    values[:, 5] = 1.0
    ended = spae("check", write_zarr(tmp_path / "x.zarr", values), "--json")
    check = ended.document["check"]
    assert ended.code == 0
    assert (check["n_nan"], check["n_constant"], check["constant_columns"]) == (1, 1, [5])
    assert check["first_non_finite"] == [[7, 3]]


GENES = [f"gene {i}" for i in range(D)]


@pytest.fixture
def table(tmp_path):
    """The matrix as text, with names."""
    path = tmp_path / "t.csv"
    np.savetxt(path, planted(), delimiter=",", header=",".join(GENES), comments="", fmt="%.6g")
    return path


def test_ingest_writes_what_was_read(spae, table, tmp_path):
    ended = spae("ingest", table, tmp_path / "x.zarr", "--chunks", 1000, D, "--codec", "none", "--json")
    assert ended.code == 0
    assert ended.document["ingest"]["chunks"] == [1000, D]
    np.testing.assert_allclose(zarr.open_array(tmp_path / "x.zarr")[...], planted(), rtol=1e-5)


def test_names_of_columns_reach_the_components(spae, table, tmp_path):
    assert spae("ingest", table, tmp_path / "x.zarr").code == 0
    assert spae("fit", tmp_path / "x.zarr", "-k", 1, "-r", 2, *QUICK, "-o", tmp_path / "e.zarr").code == 0
    features = spae("inspect", tmp_path / "e.zarr", "--json").document["components"][0]["features"]
    assert {each["name"] for each in features} <= set(GENES)


def test_ingest_keeps_within_the_memory_it_is_given(spae, tmp_path):
    np.save(tmp_path / "x.npy", planted())
    ended = spae("ingest", tmp_path / "x.npy", tmp_path / "x.zarr", "--memory", "100MB")
    assert ended.code == 4
    least = re.search(r"--memory (\d+MiB)", ended.err)
    assert least
    assert spae("ingest", tmp_path / "x.npy", tmp_path / "x.zarr", "--memory", least[1]).code == 0


def test_inspect_lists_features_by_falling_magnitude(spae, encoder):
    fitted = load_encoder(encoder)
    ended = spae("inspect", encoder, "--json")
    assert ended.code == 0
    for row, component in zip(fitted.components_, ended.document["components"], strict=True):
        columns = [each["column"] for each in component["features"]]
        assert columns == [c for c in np.argsort(-np.abs(row), kind="stable") if row[c]]
        assert [each["coefficient"] for each in component["features"]] == row[columns].tolist()
    assert ended.document["parameters"]["n_nonzero"] == R
    assert ended.document["provenance"]["n_samples"] == N


def test_inspect_shows_the_top_features_and_counts_the_rest(spae, encoder):
    out = spae("inspect", encoder, "--top", 1).out
    row = load_encoder(encoder).components_[0]
    largest = np.argmax(np.abs(row))
    assert f"column {largest} {row[largest]:+.4f}, and {np.count_nonzero(row) - 1} more" in out
    for heading in ("explained  ", "ratio  ", "component  explained", "parameters", "provenance"):
        assert heading in out


def test_numbers_that_json_lacks_are_strings(spae, tmp_path):
    exact = planted()
    exact[:, 2:] = 0  # rank 2: PCA loses nothing, and one column loses something
    words = ("-k", 2, "-r", 1, "--method", "batch", "-o", tmp_path / "e.zarr", "--json")
    ended = spae("fit", write_zarr(tmp_path / "x.zarr", exact), *words)
    assert ended.code == 0
    assert json.loads(ended.out, parse_constant=pytest.fail)["certificate"]["ratio"] == "Infinity"


def test_force_replaces_the_output(spae, store, encoder, tmp_path):
    assert spae("fit", store, "-k", 1, "-r", 1, *QUICK, "-o", encoder, "--force").code == 0
    assert load_encoder(encoder).components_.shape == (1, D)


def test_warnings_are_lines_on_stderr_and_entries_in_the_object(spae, store, tmp_path):
    Path(store, "c", "2", "0").unlink()
    ended = spae("fit", store, "-k", K, "-r", R, *QUICK, "-o", tmp_path / "e.zarr", "--json", "-q")
    assert ended.code == 0
    (warning,) = ended.document["warnings"]
    assert ended.err == f"warning: {warning}\n"
    assert "1 of 6 chunks are not stored" in warning


def test_every_verb_takes_a_sparse_layer_of_an_anndata_store(spae, tmp_path):
    counts = sparse_counts(n=300)
    names = [f"gene-{j}" for j in range(12)]
    data = anndata_store(tmp_path / "cells.zarr", counts.toarray(), names, {"counts": counts})
    layer, encoder = ["--array", "layers/counts"], tmp_path / "e.zarr"
    fitted = spae("fit", data, *layer, "-k", 2, "-r", 3, "--method", "batch", "-o", encoder, "--json")
    assert fitted.code == 0
    assert load_encoder(encoder).feature_names_in_.tolist() == names
    assert fitted.document["plan"]["bytes_read"] < 300 * 12 * 4
    for verb in (
        ["check", data, *layer],
        ["plan", data, *layer, "-k", 2, "-r", 3],
        ["path", data, *layer, "-k", "1,2", "-r", "2,3", *QUICK],
        ["evaluate", data, encoder, *layer],
        ["transform", data, encoder, *layer, "-o", tmp_path / "z.zarr"],
        ["ingest", data, tmp_path / "x.zarr", *layer],
        ["evaluate", tmp_path / "x.zarr", encoder],
    ):
        ended = spae(*verb)
        assert ended.code == 0, ended.err
    made = load_encoder(encoder)
    expected = (counts.toarray() - made.mean_) / made.scale_ @ made.components_.T
    np.testing.assert_allclose(zarr.open_array(tmp_path / "z.zarr")[:], expected, atol=1e-6)


def test_a_damaged_sparse_matrix_is_bad_input_by_rows_or_by_columns(spae, tmp_path):
    counts = sparse_counts(n=300)
    data = anndata_store(tmp_path / "cells.zarr", counts, [])
    zarr.open_group(data)["X"]["indptr"][40] = 10**6
    ended = spae("plan", data, "-k", 2, "-r", 3)
    assert (ended.code, "not a valid CSR matrix" in ended.err) == (3, True)
    zarr.open_group(data)["X"].attrs["encoding-type"] = "csc_matrix"
    ended = spae("check", data)
    assert (ended.code, "not a valid CSC matrix" in ended.err) == (3, True)


def test_a_climate_run_goes_from_its_file_to_named_cells(spae, tmp_path):
    from tests.xarray.grids import SAMPLES

    matrix, path = tmp_path / "air.zarr", tmp_path / "e.zarr"
    made = spae("ingest", SAMPLES / "A1B_north_america.nc", matrix, "--variable", "air_temperature", "--json")
    assert made.code == 0
    assert made.document["ingest"]["shape"] == [240, 1813]
    assert spae("fit", matrix, "-k", 1, "-r", 2, *QUICK, "-o", path, "--strategy", "sketch", "-q").code == 0
    shown = spae("inspect", path)
    assert re.search(r"latitude=[\d.]+, longitude=[\d.]+ [+-]0\.\d+; latitude=", shown.out)
    refused = spae("ingest", SAMPLES / "A1B_north_america.nc", tmp_path / "b.zarr", "--sample-dim", "time,depth")
    assert refused.code == 3
    assert "'depth' is not a dimension" in refused.err


def test_the_next_commands_work_as_they_stand_for_names_that_begin_with_a_dash(spae, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_zarr(tmp_path / "-x.zarr", planted())
    ended = spae("fit", "./-x.zarr", "-k", K, "-r", R, *QUICK, "-o", "-e.zarr")
    assert ended.code == 0
    commands = [line[line.index("spae ") + 5 :] for line in ended.err.splitlines() if " spae " in line]
    assert len(commands) == 3
    for command in commands:
        assert spae(*shlex.split(command)).code == 0, command


def test_inspect_tells_the_command_of_the_fit_and_top_limits_what_json_lists(spae, encoder, store, tmp_path):
    whole, two = spae("inspect", encoder, "--json").document, spae("inspect", encoder, "--json", "--top", 2).document
    assert [len(each["features"]) for each in whole["components"]] == [R] * K
    assert [len(each["features"]) for each in two["components"]] == [2] * K
    assert [each["features"][:2] for each in whole["components"]] == [each["features"] for each in two["components"]]
    assert [each["n_features"] for each in two["components"]] == [R] * K

    command = whole["fit_command"]
    assert f"{command}\n" in spae("inspect", encoder).out
    words = [str(tmp_path / "again.zarr") if word == "encoder.zarr" else word for word in shlex.split(command)[1:]]
    assert spae(*words).code == 0
    again = load_encoder(tmp_path / "again.zarr")
    np.testing.assert_array_equal(again.components_, load_encoder(encoder).components_)
