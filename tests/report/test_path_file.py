"""Paths come back from what commands write, and nothing else is taken for one."""

import json

import pytest

from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.report.path_file import origin_of, read_path
from spae_dask.storage.writing.json_and_csv import write_csv, write_json
from spae_dask.strategies.path import PathPoint, SparsityPath

POINTS = tuple(
    PathPoint(k, r, r, 10.0 / r, 0.0, float("inf") if r == 1 else 1.5, 0.9, 0.8, None if r == 1 else 4.5)
    for k in (2, 3)
    for r in (1, 2)
)
PATH = SparsityPath(POINTS, "polished")


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_path_comes_back_restricted_to_the_components(tmp_path, kind):
    file = tmp_path / f"path.{kind}"
    write_csv(PATH.records(), file) if kind == "csv" else write_json(PATH.as_dict(), file)
    found = read_path(file, 2)
    assert found.points == POINTS[:2]
    assert found.method == ("" if kind == "csv" else "polished")


def test_a_path_without_the_encoders_components_says_which_it_has(tmp_path):
    write_json(PATH.as_dict(), tmp_path / "path.json")
    with pytest.raises(InvalidInput, match=r"5 components.*k = 2, 3.*-k 5"):
        read_path(tmp_path / "path.json", 5)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b""), ("a.csv", b"k,r\n1,2\n"), ("a.csv", b"n_components\nx\n"), ("a.csv", b'"' * 9),
        ("a.json", b""), ("a.json", b"[]"), ("a.json", b"{}"), ("a.json", b'{"points": 3, "method": "x"}'),
        ("a.json", b'{"points": [1], "method": "x"}'), ("a.json", b"[" * 99999), ("a.json", b'{"points": {"a": 1}}'),
        ("a.json", b"\xff\xfe\x00"), ("a.txt", b"words"),
    ],
)  # fmt: skip
def test_what_is_no_path_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=r"Give the \.csv|spae path DATA"):
        read_path(tmp_path / name, 2)


def test_a_file_that_is_not_there_and_one_that_is_a_folder(tmp_path):
    with pytest.raises(NotFound, match="spae path"):
        read_path(tmp_path / "none.csv", 2)
    with pytest.raises(StorageError, match="cannot be read"):
        read_path(tmp_path, 2)


def test_what_spae_path_prints_is_read(spae_json_path):
    assert [point.n_nonzero for point in read_path(spae_json_path, 2).points] == [2, 3]


@pytest.fixture
def spae_json_path(tmp_path, capsys):
    from spae_dask.cli.main import main
    from tests.cli.conftest import planted, write_zarr

    assert main(["path", str(write_zarr(tmp_path / "x.zarr", planted())), "-k", "2", "-r", "2,3", "--json"]) == 0
    file = tmp_path / "path.json"
    file.write_text(json.dumps(json.loads(capsys.readouterr().out)))
    return file


@pytest.mark.parametrize(
    ("file", "said"),
    [("here/path.csv", "path.csv"), ("here/made/path.csv", "made/path.csv"), ("elsewhere/path.csv", "path.csv")],
)
def test_a_page_names_the_file_as_it_lies_beside_it_and_tells_no_folder_of_ours(tmp_path, monkeypatch, file, said):
    assert origin_of(tmp_path / file, tmp_path / "here/report.html") == f"The other encoders are those of {said}."
    monkeypatch.chdir(tmp_path)
    assert origin_of(file, "here/report.html") == f"The other encoders are those of {said}."
