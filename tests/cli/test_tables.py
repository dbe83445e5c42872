"""Commands on tables."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr

from tests.cli.conftest import QUICK, D, K, Outcome, R, planted

Run = Callable[..., Outcome]
EXPR = [f"expr_{i}" for i in range(D)]


def table() -> pd.DataFrame:
    found = pd.DataFrame(planted(), columns=EXPR)
    found.insert(0, "cell", [f"c{i}" for i in range(len(found))])
    return found


@pytest.fixture(params=["t.parquet", "t.feather", "hive"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / request.param
    if path.suffix == ".feather":
        table().to_feather(path)
    elif path.suffix == ".parquet":
        table().to_parquet(path, row_group_size=700)
    else:
        table().assign(part=np.arange(3000) // 1000).to_parquet(path, partition_cols=["part"])
    return path


def test_every_verb_reads_the_chosen_columns_of_a_table(data: Path, store: Path, tmp_path: Path, spae: Run) -> None:
    enc, same = tmp_path / "e.zarr", tmp_path / "same.zarr"
    columns = ("--columns", "expr_*")
    assert spae("check", data, *columns, "--json").document["check"]["shape"] == [3000, D]
    assert f"3,000 x {D} float32" in spae("plan", data, "-k", K, "-r", R, *columns).out
    fit = spae("fit", data, "-k", K, "-r", R, *QUICK, "-o", enc, *columns)
    assert fit.code == 0
    assert "-o CODES.zarr --columns 'expr_*'" in fit.err
    assert spae("fit", store, "-k", K, "-r", R, *QUICK, "-o", same).code == 0
    for apply in ("evaluate", "transform"):
        more = ("-o", tmp_path / "z.zarr") if apply == "transform" else ()
        assert spae(apply, data, enc, *columns, *more).code == 0
    assert spae("path", data, "-k", K, "-r", R, *QUICK, *columns).code == 0
    inspected = spae("inspect", enc, "--json").document
    expected = spae("inspect", same, "--json").document
    for found, known in zip(inspected["components"], expected["components"], strict=True):
        for feature, plain in zip(found["features"], known["features"], strict=True):
            assert feature["name"] == f"expr_{plain['column']}"
            assert feature["coefficient"] == pytest.approx(plain["coefficient"], abs=1e-5)


def test_parts_of_a_fit_read_the_chosen_columns(data: Path, tmp_path: Path, spae: Run) -> None:
    shared = (data, "-k", K, "-r", R, *QUICK, "--columns", "expr_*", "--checkpoint", tmp_path / "run")
    missing = spae("fit-part", "1/2", *shared)
    assert "--columns 'expr_*'" in missing.err
    assert spae("fit-part", "2/2", *shared).code == 0
    assert spae("fit-finish", *shared, "-o", tmp_path / "e.zarr").code == 0


def test_text_in_a_table_ends_with_3_and_says_which_columns_and_what_to_do(data: Path, spae: Run) -> None:
    for verb in (("check",), ("plan", "-k", K, "-r", R)):
        ended = spae(verb[0], data, *verb[1:])
        assert ended.code == 3
        assert "1 of 13 columns is not numbers: 'cell' (" in ended.err
        assert "--columns" in ended.err


def test_columns_that_are_not_there_end_with_3_and_the_nearest_name(data: Path, spae: Run) -> None:
    ended = spae("check", data, "--columns", "expr_1,exp_2")
    assert ended.code == 3
    assert "no column 'exp_2'. Did you mean 'expr_2'" in ended.err


@pytest.mark.parametrize("given", ["", ",", "a,,b", " "])
def test_empty_names_are_a_mistake_of_use(given: str, store: Path, spae: Run) -> None:
    ended = spae("check", store, "--columns", given)
    assert ended.code == 2
    assert "an empty name" in ended.err


def test_names_of_columns_that_have_none_are_refused(store: Path, spae: Run) -> None:
    ended = spae("check", store, "--columns", "a")
    assert ended.code == 3
    assert "has no names. Give numbers of columns" in ended.err


def test_an_encoder_is_not_applied_to_other_columns(data: Path, tmp_path: Path, spae: Run) -> None:
    assert spae("fit", data, "-k", K, "-r", R, *QUICK, "-o", tmp_path / "e.zarr", "--columns", "expr_*", "-q").code == 0
    other = ",".join(EXPR[::-1])
    ended = spae("transform", data, tmp_path / "e.zarr", "-o", tmp_path / "z.zarr", "--columns", other)
    assert ended.code == 3
    assert "must be in the same order" in ended.err
    assert not (tmp_path / "z.zarr").exists()


def test_ingest_writes_the_chosen_columns_and_their_names(data: Path, tmp_path: Path, spae: Run) -> None:
    assert spae("ingest", data, tmp_path / "x.zarr", "--columns", "expr_3,expr_1").code == 0
    stored = zarr.open_array(tmp_path / "x.zarr", mode="r")
    assert stored.attrs["feature_names"] == ["expr_3", "expr_1"]
    np.testing.assert_array_equal(stored[...], planted()[:, [3, 1]])


def test_ingest_takes_the_columns_of_numbers_from_a_text_table(tmp_path: Path, spae: Run) -> None:
    table().assign(note='says "a, b"').to_csv(tmp_path / "t.csv", index=False)
    assert spae("ingest", tmp_path / "t.csv", tmp_path / "x.zarr").code == 3
    assert spae("ingest", tmp_path / "t.csv", tmp_path / "x.zarr", "--columns", "expr_*").code == 0
    stored = zarr.open_array(tmp_path / "x.zarr", mode="r")
    assert stored.attrs["feature_names"] == EXPR
    np.testing.assert_allclose(stored[...], planted(), rtol=1e-6)


def test_a_step_of_a_pipeline_takes_columns(data: Path, tmp_path: Path, spae: Run) -> None:
    pipeline = tmp_path / "p.toml"
    step = f'[[step]]\nkind = "check"\nname = "c"\ndata = "{data}"\ncolumns = '
    pipeline.write_text(f'output = "out"\n{step}["expr_*"]\n')
    assert spae("run", pipeline).code == 0
    pipeline.write_text(f'output = "out"\n{step}"expr_*"\n')
    ended = spae("run", pipeline)
    assert ended.code == 3
    assert "list of names or patterns" in ended.err


@pytest.mark.parametrize("name", ["t.csv", "t.tsv.gz"])
def test_every_verb_reads_a_text_table_that_fits_in_memory(tmp_path: Path, store: Path, spae: Run, name: str) -> None:
    data, enc, columns = tmp_path / name, tmp_path / "e.zarr", ("--columns", "@numeric")
    table().to_csv(data, index=False, sep="," if "csv" in name else "\t")
    assert spae("check", data, *columns, "--json").document["check"]["shape"] == [3000, D]
    assert spae("plan", data, "-k", K, "-r", R, *columns).code == 0
    assert spae("fit", data, "-k", K, "-r", R, *QUICK, "-o", enc, *columns).code == 0
    assert spae("evaluate", data, enc, *columns).code == 0
    assert spae("transform", data, enc, *columns, "-o", tmp_path / "z.zarr").code == 0
    assert spae("path", data, "-k", K, "-r", R, *QUICK, *columns).code == 0
    assert spae("fit", store, "-k", K, "-r", R, *QUICK, "-o", tmp_path / "same.zarr").code == 0
    expected = spae("transform", store, tmp_path / "same.zarr", "-o", tmp_path / "same_z.zarr")
    assert expected.code == 0
    codes, same = zarr.open_array(tmp_path / "z.zarr")[:], zarr.open_array(tmp_path / "same_z.zarr")[:]
    np.testing.assert_allclose(codes, same, atol=1e-4)
    small = spae("fit", data, "-k", K, "-r", R, *QUICK, "-o", enc, "--force", *columns, "--memory", "1MB")
    assert small.code == 4
    assert f"`spae ingest {data} DATA.zarr`" in small.err
