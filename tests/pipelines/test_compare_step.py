"""The paper's experiments as a step: its numbers in the table, its encoders, its figure."""

import csv
import tomllib
from pathlib import Path

import numpy as np
import pytest

from spae_dask.datasets import load_pitprops
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded
from spae_dask.pipelines.matrices import load_covariance
from tests.pipelines.conftest import Folder, planted
from tests.reference_data import colon

PAPER = Path(__file__).parents[2] / "pipelines" / "paper.toml"

SMALL = """output = "out"

[[step]]
kind = "compare"
n_components = 2
n_nonzero = [2, 5]
figure = ["svg"]

[step.encoders]
matrix = "props"
n_nonzero = 5

[[step.matrix]]
name = "props"
source = "pitprops"

[[step.matrix]]
name = "other"
source = "c.npy"
n_nonzero = [3]
"""


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def losses(path):
    """Information loss by matrix and r, and then by method."""
    found = {}
    for row in rows_of(path):
        found.setdefault((row["matrix"], int(row["r"])), {})[row["method"]] = float(row["information_loss"])
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Results of the small comparison."""
    folder = Folder(tmp_path_factory.mktemp("small"))
    np.save(folder.path / "c.npy", np.cov(planted().T))
    folder.write(SMALL)
    folder.run()
    return folder.out


def test_the_papers_numbers_are_in_the_table(small):
    found = losses(small / "compare.csv")
    assert found["props", 5]["TPower"] == pytest.approx(1.127889, abs=5e-7)
    assert found["props", 5]["polished"] <= 1.0031
    assert set(found) == {("props", 2), ("props", 5), ("other", 3)}
    assert set(found["other", 3]) == {"batch", "iterative", "polished", "TPower", "GPower-l0", "GPower-l1"}


def test_polished_is_never_worse(small):
    for found in losses(small / "compare.csv").values():
        assert found["polished"] <= min(found.values()) * (1 + 1e-9)


def test_the_rows_of_the_encoders_are_their_supports_and_give_the_losses_beside_them(small):
    P, names = load_pitprops()
    rows = rows_of(small / "compare.encoders.csv")
    for method in ("batch", "iterative", "polished", "TPower", "GPower-l0", "GPower-l1"):
        own = [row for row in rows if row["method"] == method]
        H = np.zeros((13, 2))
        for row in own:
            H[names.index(row["feature"]), int(row["component"]) - 1] = float(row["coefficient"])
        assert np.count_nonzero(H) == len(own)
        assert np.count_nonzero(H, axis=0).max() <= 5
        assert np.linalg.norm(H, axis=0) == pytest.approx([1, 1])
        codes = P @ H
        left = np.linalg.norm(P - codes @ np.linalg.pinv(codes) @ P) ** 2
        best = np.sum(np.linalg.svd(P, compute_uv=False)[2:] ** 2)
        assert float(own[0]["information_loss"]) == pytest.approx(left / best, rel=1e-9)


def test_the_tpower_encoder_has_the_supports_the_paper_prints(small):
    names = load_pitprops()[1]
    rows = [row for row in rows_of(small / "compare.encoders.csv") if row["method"] == "TPower"]
    supports = [
        {names.index(row["feature"]) + 1 for row in rows if row["component"] == component} for component in "12"
    ]
    assert supports == [{1, 2, 7, 9, 10}, {3, 4, 6, 10, 12}]


def test_the_text_has_a_row_a_variable_and_the_losses(small):
    text = (small / "compare.encoders.txt").read_text()
    assert all(f"\n{name} " in text for name in load_pitprops()[1])
    assert "1.1279" in text
    assert (small / "compare.svg").read_text().startswith("<?xml")
    assert not (small / "compare.png").exists()


def test_the_same_comparison_is_the_same_bytes(small, folder):
    np.save(folder.path / "c.npy", np.cov(planted().T))
    folder.write(SMALL)
    folder.run()
    for name in ("compare.csv", "compare.encoders.csv", "compare.encoders.txt", "compare.svg"):
        assert (folder.out / name).read_bytes() == (small / name).read_bytes()


def test_data_and_the_factor_of_their_scatter_give_the_same_losses(folder):
    X = planted() - planted().mean(axis=0)
    np.save(folder.path / "c.npy", X.T @ X)
    step = 'kind = "compare"\nn_components = 2\nn_nonzero = [3]\nfigure = []\nmethods = ["polished", "TPower"]\n'
    matrix = '[[step.matrix]]\nname = "m"\n'
    folder.write(
        f'output = "out"\n[[step]]\nname = "a"\nx_is = "factor"\n{step}{matrix}source = "c.npy"\n'
        f'[[step]]\nname = "b"\nx_is = "data"\n{step}{matrix}source = "x.npy"\n'
    )
    folder.run()
    a, b = losses(folder.out / "a.csv"), losses(folder.out / "b.csv")
    assert a["m", 3] == pytest.approx(b["m", 3], rel=1e-6)


def test_data_are_compared_on_the_part_that_is_chosen(folder):
    np.save(folder.path / "part.npy", planted()[:, :5])
    step = 'kind = "compare"\nx_is = "data"\nn_components = 2\nn_nonzero = [3]\nfigure = []\nmethods = ["polished"]\n'
    columns = 'columns = ["0", "1", "2", "3", "4"]\n'
    matrices = (f'source = "x.npy"\n{columns}', 'source = "part.npy"\n')
    steps = [
        f'[[step]]\nname = "{name}"\n{step}[[step.matrix]]\nname = "m"\n{matrix}'
        for name, matrix in zip("ab", matrices, strict=True)
    ]
    folder.write('output = "out"\n' + "".join(steps))
    folder.run()
    assert losses(folder.out / "a.csv") == losses(folder.out / "b.csv")
    folder.write('output = "out"\n' + steps[0].replace('x_is = "data"', 'x_is = "factor"'))
    with pytest.raises(InvalidInput, match="'sample_dim', 'weights' of m choose a part of data"):
        folder.run()


def test_a_packed_triangle_is_unpacked():
    found, names = load_covariance(str(PAPER.parent / "data" / "colon_cov500.npz"))
    assert np.array_equal(found, colon())
    assert names is None


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"a": np.ones(3), "b": np.ones(3)}, "2 arrays"),
        ({"a": np.ones(4)}, "not the size of the upper triangle"),
        ({"a": np.ones(0)}, "not the size of the upper triangle"),
        ({"a": np.array(["x"])}, "not an .npz file of numbers"),
        ({"a": np.array([None])}, "not an .npz file of numbers"),
    ],
)
def test_files_that_hold_no_matrix_are_refused(tmp_path, arrays, said):
    np.savez(tmp_path / "m.npz", **arrays)
    with pytest.raises(InvalidInput, match=said):
        load_covariance(str(tmp_path / "m.npz"))


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    (tmp_path / "m.npz").write_bytes(b"PK\x03\x04 nonsense")
    with pytest.raises(InvalidInput, match="is not an"):
        load_covariance(str(tmp_path / "m.npz"))


def test_a_matrix_that_is_not_square_and_one_that_is_too_large(tmp_path):
    np.save(tmp_path / "m.npy", planted())
    with pytest.raises(InvalidInput, match=r"300 x 8.*x_is = 'data'"):
        load_covariance(str(tmp_path / "m.npy"))
    np.save(tmp_path / "m.npy", np.eye(300))
    with pytest.raises(MemoryBudgetExceeded, match="Nothing was read"):
        load_covariance(str(tmp_path / "m.npy"), memory="1MiB")


@pytest.mark.parametrize(
    ("matrix", "said"),
    [(-np.eye(3), "positive"), (np.eye(3) + np.eye(3, k=1), "symmetric"), (np.full((3, 3), np.nan), "NaN")],
)
def test_a_matrix_that_is_no_covariance_is_refused(folder, matrix, said):
    np.save(folder.path / "c.npy", matrix)
    folder.write(SMALL.replace("n_nonzero = [3]", "n_nonzero = [2]"))
    with pytest.raises(InvalidInput, match=said):
        folder.run()
    assert not (folder.out / "compare.csv").exists()


def test_the_papers_pipeline_names_files_that_are_there_and_the_papers_sizes():
    table = tomllib.loads(PAPER.read_text())
    (step,) = table["step"]
    assert (step["n_components"], step["x_is"], step["encoders"]["n_nonzero"]) == (2, "matrix", 5)
    assert [each["name"] for each in step["matrix"]] == ["PitProps", "colon", "lymphoma"]


@pytest.mark.slow
def test_the_whole_of_the_papers_experiments(folder):
    text = PAPER.read_text().replace('"data/', f'"{PAPER.parent}/data/').replace('"results"', '"out"')
    folder.write(text)
    assert folder.statuses() == {"paper": "ran"}
    found = losses(folder.out / "paper.csv")
    assert len(found) == 11 + 13 + 13
    for each in found.values():
        assert each["polished"] <= min(each.values()) * (1 + 1e-9)
    assert found["PitProps", 5]["TPower"] == pytest.approx(1.127889, abs=5e-7)
    assert found["colon", 5]["TPower"] == pytest.approx(1.579, abs=5e-4)
    assert found["lymphoma", 5]["TPower"] == pytest.approx(1.646, abs=5e-4)
    assert found["colon", 5]["polished"] <= 1.002504
    assert found["lymphoma", 5]["polished"] <= 1.006288
    assert (folder.out / "paper.png").stat().st_size > 50_000
