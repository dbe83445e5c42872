"""``spae report``: from an encoder to a page, with a curve from wherever one is to be had, and good errors."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

from spae_dask import load_encoder
from tests.cli.conftest import QUICK, K, planted, write_zarr
from tests.report.page_reader import read_page


@pytest.fixture
def page(tmp_path):
    return tmp_path / "report.html"


def read(page):
    found = read_page(page.read_text(encoding="utf-8"), scripts=1)
    assert found.errors == []
    return found


def sizes(page):
    (table,) = [each for each in read(page).tables if "times PCA's loss" in each.columns]
    return [int(each) for each in table.rows]


def test_a_page_is_written_from_the_encoder_alone(spae, encoder, page):
    ended = spae("report", encoder, "-o", page)
    assert ended.code == 0
    assert ended.out.startswith(f"report    {page}, ")
    fitted = load_encoder(encoder)
    assert sizes(page) == [point.n_nonzero for point in fitted.curve().points]
    assert fitted.certificate_.ratio in {value for value, _ in read(page).numbers}
    assert f"spae fit {fitted.provenance_['source']} -k 2 -r 4" in read(page).text


def test_names_that_are_not_utf_8_are_written_as_escapes(spae, tmp_path):
    write_zarr(os.fsdecode(bytes(tmp_path) + b"/x\xff.zarr"), planted())
    store = zarr.open_array(os.fsdecode(bytes(tmp_path) + b"/x\xff.zarr"))
    store.attrs["feature_names"] = [f"gene \udcfe {number}" for number in range(store.shape[1])]
    encoder, page = (os.fsdecode(bytes(tmp_path) + name) for name in (b"/e\xff.zarr", b"/r\xff.html"))
    assert spae("fit", store.store.root, "-k", "2", "-r", "4", *QUICK, "-o", encoder).code == 0
    assert spae("report", encoder, "-o", page).code == 0
    text = read(Path(page)).text
    assert "x\\udcff.zarr" in text
    assert "gene \\udcfe" in text


def test_as_json_it_says_what_was_written(spae, encoder, page, undrawn):
    ended = spae("report", encoder, "-o", page, "--json")
    assert ended.document == {
        "command": "report", "encoder": str(encoder), "report": str(page), "curve": True, "warnings": [],
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_path_that_was_drawn_is_its_curve(spae, encoder, store, page, tmp_path, kind, undrawn):
    path = tmp_path / f"path.{kind}"
    drawn = spae("path", store, "-k", f"{K},3", "-r", "2,5,7", *QUICK, *(["-o", path] if kind == "csv" else ["--json"]))
    if kind == "json":
        path.write_text(drawn.out)
    assert spae("report", encoder, "-o", page, "--path", path).code == 0
    assert sizes(page) == [2, 5, 7]
    assert f"The other encoders are those of {path.name}." in read(page).text


def test_a_curve_is_drawn_from_data_and_other_data_are_called_so(spae, encoder, store, page, tmp_path, undrawn):
    assert spae("report", encoder, "-o", page, "--data", store).code == 0
    assert "made for this report" in read(page).text
    assert "not the data of the fit" not in read(page).text
    other = write_zarr(tmp_path / "other.zarr", planted(1))
    assert spae("report", encoder, "-o", page, "--data", other, "--force").code == 0
    assert "not the data of the fit" in read(page).text
    assert 4 in sizes(page)


def test_its_data_may_be_columns_of_a_table(spae, encoder, store, page, tmp_path, undrawn):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    rows, table = planted(), tmp_path / "t.parquet"
    names = [f"x{j}" for j in range(rows.shape[1])]
    pd.DataFrame(rows, columns=names).assign(word="a").to_parquet(table)
    assert spae("report", encoder, "-o", page, "--data", table, "--columns", "x*").code == 0
    assert len(sizes(page)) > 1
    refused = spae("report", encoder, "-o", page, "--data", table, "--force")
    assert (refused.code, "word" in refused.err) == (3, True)


def test_an_encoder_without_a_curve_says_where_one_comes_from(spae, store, page, tmp_path, undrawn):
    path = tmp_path / "doubly.zarr"
    assert spae("fit", store, "-k", K, "-r", 4, "--method", "doubly-sparse", "-o", path, "-q").code == 0
    ended = spae("report", path, "-o", page)
    assert ended.code == 0
    assert "--data DATA computes them" in ended.err
    assert f"--data {store}" in read(page).text
    assert spae("report", path, "-o", page, "--data", store, "--force").code == 0
    assert 4 in sizes(page)


def test_names_of_features_reach_the_page(spae, page, tmp_path, undrawn):
    names = [f"<b>gene {j}" for j in range(12)]
    table = "\n".join([",".join(names), *(",".join(f"{v:.4f}" for v in row) for row in planted()[:200])])
    (tmp_path / "x.csv").write_text(table)
    assert spae("ingest", tmp_path / "x.csv", tmp_path / "x.zarr", "-q").code == 0
    assert spae("fit", tmp_path / "x.zarr", "-k", 2, "-r", 3, *QUICK, "-o", tmp_path / "e.zarr", "-q").code == 0
    assert spae("report", tmp_path / "e.zarr", "-o", page, "-q").code == 0
    assert "<b>gene " in read(page).text


def test_what_is_there_is_kept_without_force(spae, encoder, page, undrawn):
    page.write_text("mine")
    ended = spae("report", encoder, "-o", page)
    assert (ended.code, page.read_text()) == (3, "mine")
    assert "--force" in ended.err
    assert spae("report", encoder, "-o", page, "--force").code == 0
    assert read(page)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["-o", "report.pdf"], 2, "does not end in .html"),
        ([], 2, "'-o' / '--output'"),
        (["-o", "r.html", "--path", "a.csv", "--data", "b.zarr"], 2, "give only one"),
        (["-o", "r.html", "--array", "x"], 2, "choose a part of --data"),
        (["-o", "r.html", "--columns", "x*"], 2, "choose a part of --data"),
        (["-o", "r.html", "--path", "none.csv"], 3, "there is nothing at none.csv"),
        (["-o", "r.html", "--data", "none.zarr"], 3, "there is nothing at none.zarr"),
        (["-o", "no/such/folder/r.html"], 3, "does not exist"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_mistakes_are_told_and_nothing_is_written(spae, encoder, tmp_path, monkeypatch, words, code, said):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    ended = spae("report", encoder, *words)
    assert ended.code == code
    assert said in ended.err
    assert sorted(tmp_path.iterdir()) == before


def test_an_encoder_that_is_none_and_data_of_other_features(spae, encoder, store, page, tmp_path):
    assert spae("report", store, "-o", page).code == 3
    assert spae("report", tmp_path / "none.zarr", "-o", page).code == 3
    narrow = write_zarr(tmp_path / "narrow.zarr", np.ascontiguousarray(planted()[:, :5]))
    ended = spae("report", encoder, "-o", page, "--data", narrow)
    assert ended.code == 3
    assert "has 5 features, but the encoder was fitted on 12" in ended.err
    ended = spae("report", encoder, "-o", encoder / "x.html")
    assert ended.code != 0
    assert not page.exists()


def test_a_path_of_other_components_is_refused(spae, encoder, store, page, tmp_path):
    assert spae("path", store, "-k", 3, "-r", 4, *QUICK, "-o", tmp_path / "p.csv", "-q").code == 0
    ended = spae("report", encoder, "-o", page, "--path", tmp_path / "p.csv")
    assert ended.code == 3
    assert "no encoders of 2 components" in ended.err


def test_without_its_libraries_it_says_what_to_install(spae_process, encoder, tmp_path):
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "jinja2.py").write_text("raise ImportError('no', name='jinja2')")
    process = spae_process("report", encoder, "-o", tmp_path / "r.html", PYTHONPATH=":".join([str(blocked), *sys.path]))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 3
    assert 'pip install "spae-dask[report]"' in err


def test_inspect_shows_the_record_without_its_tables(spae, encoder):
    assert "planned" not in spae("inspect", encoder).out
    document = json.loads(spae("inspect", encoder, "--json").out)
    assert document["provenance"]["planned"]["strategy"] == "gram"
