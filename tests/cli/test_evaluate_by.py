"""``spae evaluate --by``: losses of parts in the table, in JSON, on a page and in a figure."""

import numpy as np
import pytest

from spae_dask import evaluate, load_encoder
from tests.cli.conftest import N, planted
from tests.cli.test_exit_codes import failed


def test_parts_are_in_the_table_and_in_json_beside_the_keys_of_before(spae, store, encoder):
    plain, done = spae("evaluate", store, encoder, "--json"), spae("evaluate", store, encoder, "--by", 3, "--json")
    assert done.code == 0, done.err
    assert set(done.document) - set(plain.document) == {"by", "reference", "parts"}
    assert (done.document["by"], done.document["reference"]) == ("3", "PCA of the same part")
    X, fitted = planted(), load_encoder(encoder)
    for number, part in enumerate(done.document["parts"]):
        first = number * N // 3
        alone = evaluate(X[first : first + N // 3], fitted)
        assert part["name"] == f"rows {first}-{first + N // 3 - 1}"
        np.testing.assert_allclose(part["ratio"], alone.ratio, rtol=1e-6)
        np.testing.assert_allclose(part["explained"], 1 - alone.decoder_loss / alone.total, rtol=1e-6)
    table = spae("evaluate", store, encoder, "--by", 3).out
    assert f"{done.document['parts'][1]['ratio']:.4f}" in table
    assert "rows 1000-1999" in table


@pytest.mark.parametrize(
    ("name", "begins"), [("p.html", b"<!DOCTYPE html>"), ("p.png", b"\x89PNG"), ("p.svg", b"<?xml")]
)
def test_a_report_of_the_parts_is_written(name, begins, spae, store, encoder, tmp_path):
    words = ["evaluate", store, encoder, "--by", "2", "--report", tmp_path / name]
    assert spae(*words).code == 0
    written = (tmp_path / name).read_bytes()
    assert begins.lower() in written[:200].lower()
    if name.endswith("html"):
        assert b"rows 1500-2999" in written
    failed(spae(*words), 3, "exists and is not overwritten")
    assert spae(*words, "--force").code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--by", "0"], 3, "by=0 is not allowed"),
        (["--by", "4000"], 3, "from 1 to 1,000"),
        (["--by", "batch"], 3, "'batch' must name columns"),
        (["--report", "p.png"], 2, "Give --by too"),
        (["--by", "2", "--report", "p.pdf"], 2, "none of the endings .html, .png and .svg"),
    ],
)
def test_it_says_what_is_wrong(words, code, said, spae, store, encoder):
    failed(spae("evaluate", store, encoder, *words), code, said)


def test_a_step_of_a_pipeline_measures_parts_too(spae, store, encoder, tmp_path):
    step = f'kind = "evaluate"\ndata = "{store}"\nencoder = "{encoder}"\n'
    (tmp_path / "p.toml").write_text(f'output = "results"\n[[step]]\n{step}name = "parts"\nby = 2\nfigure = ["png"]\n')
    done = spae("run", tmp_path / "p.toml", "--json")
    assert done.code == 0, done.err
    assert len(list(tmp_path.rglob("parts.png"))) == 1
    (record,) = tmp_path.rglob("parts.json")
    assert '"reference"' in record.read_text()
    (tmp_path / "q.toml").write_text(f'output = "results"\n[[step]]\n{step}name = "bad"\nfigure = ["png"]\n')
    failed(spae("run", tmp_path / "q.toml"), 3, "Give 'by' too")
