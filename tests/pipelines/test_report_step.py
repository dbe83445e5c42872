"""The step that writes a page about an encoder."""

import pytest

from spae_dask.errors import InvalidInput
from spae_dask.pipelines.pipeline import read_pipeline
from tests.pipelines.conftest import planted
from tests.report.page_reader import read_page

pytestmark = pytest.mark.usefixtures("undrawn")

CHAIN = """output = "out"

[[step]]
kind = "fit"
name = "encoder"
data = "x.npy"
n_components = 2
method = "batch"
n_nonzero = 3

[[step]]
kind = "path"
data = "x.npy"
n_components = [2]
n_nonzero = [2, 5]
method = "batch"

[[step]]
kind = "report"
encoder = "@encoder"
path = "@path"
"""


def sizes(page):
    found = read_page(page.read_text(encoding="utf-8"), scripts=1)
    assert found.errors == []
    (table,) = [each for each in found.tables if "times PCA's loss" in each.columns]
    return list(table.rows)


def test_the_page_has_the_curve_of_the_path_step(folder):
    folder.write(CHAIN)
    outcomes = folder.run()
    assert [each.status for each in outcomes.values()] == ["ran"] * 3
    assert outcomes["report"].outputs == (str(folder.out / "report.html"),)
    assert sizes(folder.out / "report.html") == ["2", "5"]
    assert "The other encoders are those of path.csv." in (folder.out / "report.html").read_text(encoding="utf-8")


def test_without_a_path_it_has_the_encoders_own(folder):
    folder.write(CHAIN.replace('path = "@path"\n', ""))
    folder.run()
    assert "3" in sizes(folder.out / "report.html")


def test_it_runs_again_when_what_it_shows_has_changed_and_only_then(folder, edit):
    folder.write(CHAIN)
    folder.run()
    assert set(folder.statuses().values()) == {"skipped"}
    edit("[2, 5]", "[2, 6]")
    assert folder.statuses() == {"encoder": "skipped", "path": "ran", "report": "ran"}
    edit('path = "@path"\n', "")
    outcomes = folder.run()
    assert outcomes["report"].status == "ran"
    assert "fewer" in outcomes["report"].reason


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('encoder = "@encoder"', 'encoder = "@path"', r"writes no encoder.*'@encoder'"),
        ('path = "@path"', 'path = "@encoder"', r"writes no path.*'@path'"),
        ('path = "@path"', 'path = "@pat"', r"does not exist.*Did you mean 'path'"),
        ('path = "@path"', 'path = "none.csv"', "there is nothing at"),
        ('path = "@path"', 'figure = ["png"]', "figure"),
        ('encoder = "@encoder"\npath', "path", "encoder"),
        ('data = "x.npy"\nn_components = [2]', 'data = "@path"\nn_components = [2]', "does not come before"),
    ],
)
def test_mistakes_are_told_with_their_line(folder, old, new, said):
    assert CHAIN.count(old) >= 1
    with pytest.raises(InvalidInput, match=rf"(?s)line \d+.*{said}"):
        read_pipeline(folder.write(CHAIN.replace(old, new)))


def test_a_path_of_other_components_fails_the_step(folder):
    folder.write(CHAIN.replace("n_components = [2]", "n_components = [1]"))
    with pytest.raises(InvalidInput, match=r"step report: .*no encoders of 2 components"):
        folder.run()
    assert not (folder.out / "report.html").exists()


FROM_DATA = CHAIN.replace('path = "@path"', 'data = "x.npy"')


def test_its_curve_is_drawn_from_data(folder):
    folder.write(FROM_DATA)
    outcomes = folder.run()
    assert outcomes["report"].result["curve"] is True
    assert "3" in sizes(folder.out / "report.html")
    assert "were made for this report from" in (folder.out / "report.html").read_text(encoding="utf-8")
    assert set(folder.statuses().values()) == {"skipped"}


def test_of_a_table_only_the_columns_of_the_fit(folder):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    names = [f"x{j}" for j in range(8)]
    pd.DataFrame(planted(), columns=names).assign(word="a").to_parquet(folder.path / "t.parquet")
    table = FROM_DATA.replace('data = "x.npy"', 'data = "t.parquet"\ncolumns = ["x*"]')
    folder.write(table)
    assert folder.run()["report"].result["curve"] is True
    folder.write(table.removesuffix('columns = ["x*"]\n'))
    with pytest.raises(InvalidInput, match=r"step report: .*word"):
        folder.run()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('path = "@path"\ndata = "x.npy"', "give only one of 'path'.* and 'data'"),
        ('array = "a"', "'data'.* which is not given"),
        ('path = "@path"\ncolumns = ["a"]', "'data'.* which is not given"),
    ],
)
def test_keys_that_do_not_go_together_are_refused_with_their_line(folder, keys, said):
    folder.write(CHAIN.replace('path = "@path"', keys))
    with pytest.raises(InvalidInput, match=rf"p\.toml, line 18: .*{said}"):
        read_pipeline(folder.path / "p.toml")
