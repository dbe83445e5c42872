"""The comparisons with other tools measure what they say, and their sentences follow from the numbers.

The other tools are not installed here: `make head-to-head` runs them. Stand-ins take their place.
"""

import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest

from benchmarks import extracts, field
from benchmarks.head_to_head import gene_panels, pages, reconstruction, sensors, sparse_pca
from benchmarks.head_to_head.pages import OURS, Page
from benchmarks.process_tree import Watched
from benchmarks.table import BEGIN, END

NAMES = ("gene_panels", "reconstruction", "sensors", "sparse_pca")


# pages


def test_the_comparison_page_links_every_table_with_its_result_of_today() -> None:
    text = extracts.COMPARISON.read_text(encoding="utf-8")
    found = extracts.head_to_head_pages()
    assert tuple(found) == NAMES
    assert extracts.between_marks(text, [extracts.head_to_head(found)]) == text, "run `python -m benchmarks.extracts`"
    assert all((extracts.HEAD_TO_HEAD / f"{name}.png").is_file() for name in found)


def test_an_extract_has_link_and_sentence_of_a_page() -> None:
    made = extracts.head_to_head({"one": "# First\n\nWe lose.\n\nText."})
    assert extracts.rows(made) == [{"comparison": "[First](../benchmarks/head_to_head/one.md)", "result": "We lose."}]
    assert extracts.between_marks(f"a {BEGIN}{END} b", [made]) == f"a {BEGIN}\n\n{made}\n\n{END} b"


def test_a_page_is_written_with_its_table_and_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = Page("one", "First", "We lose.", "\nText.\n", [(("a", "b"), [["1", "2"]])], ("numpy",))
    page.write(sensors.picture(SCORES), tmp_path)
    text = (tmp_path / "one.md").read_text(encoding="utf-8")
    assert text.split("\n\n")[:3] == ["# First", "We lose.", "Text.\nMade by `python -m benchmarks.head_to_head.one`."]
    assert extracts.rows(text) == [{"a": "1", "b": "2"}]
    assert f"numpy {np.__version__}" in text
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == text + "\n"


def test_a_page_refuses_a_tool_without_a_version() -> None:
    with pytest.raises(PackageNotFoundError):
        Page("one", "First", "", "", [], ("no-such-tool",)).text()


def test_ties_as_shown_are_shared() -> None:
    assert pages.best({"a": 0.12341, "b": 0.12344, "c": 0.2}, 4) == ["a", "b"]
    assert pages.best({"a": 0.1, "b": 0.3}, 2, largest=True) == ["b"]
    assert pages.wins([{"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 1.0}, {"b": 1.0}], 3) == "b in 3, a in 1 of 3"


# sensors


SCORES = [
    sensors.Score("x", 10, 10, OURS, 1.0),
    sensors.Score("x", 10, 10, "QR", 2.0),
    sensors.Score("x", 10, 20, OURS, 3.0),
    sensors.Score("x", 10, 20, "QR", 2.0),
]


def mixed(n: int = 80, d: int = 12) -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.standard_normal((n, 4)) @ rng.standard_normal((4, d)) + 0.1 * rng.standard_normal((n, d)) + 5.0


def test_halves_share_no_row_and_are_less_the_mean_of_training() -> None:
    X = mixed()
    train, test = sensors.halves(X)
    assert (len(train), len(test)) == (60, 20)
    assert train.mean(axis=0) == pytest.approx(0.0, abs=1e-12)
    both = np.sort(np.concatenate([train, test])[:, 0])
    assert np.diff(both) == pytest.approx(np.diff(np.sort(X[:, 0])))


@pytest.mark.parametrize("k", [3, 5])
def test_our_reconstruction_reads_the_sensors_alone_and_is_the_best_linear_one(k: int) -> None:
    train, test = sensors.halves(mixed())
    places, reconstruct = sensors.ours(train, k, 5)
    assert len(places) == 5
    if k == 5:  # as many modes as sensors: least squares from the measurements
        weights = np.linalg.lstsq(train[:, places], train, rcond=None)[0]
        assert reconstruct(test[:, places]) == pytest.approx(test[:, places] @ weights, abs=1e-8)
    assert np.linalg.matrix_rank(reconstruct(test[:, places]), tol=1e-8) == k
    spoiled = test.copy()
    spoiled[:, np.setdiff1d(np.arange(12), places)] = 1e9
    assert reconstruct(spoiled[:, places]) == pytest.approx(reconstruct(test[:, places]))
    error = sensors.error((places, reconstruct), test)
    assert error == pytest.approx(np.linalg.norm(reconstruct(test[:, places]) - test) / np.sqrt(test.size))


def test_sensors_outside_a_region_reconstruct_the_region_too() -> None:
    train, test = sensors.halves(mixed())
    region = np.arange(12) < 4
    placed = sensors.ours_outside(train, 4, 6, region)
    assert not region[placed[0]].any()
    weights = np.linalg.lstsq(train[:, placed[0]], train, rcond=None)[0]
    assert sensors.error(placed, test) <= 1.5 * sensors.rmse(test[:, placed[0]] @ weights, test)


def test_the_sentence_on_sensors_counts_wins_and_losses() -> None:
    found = sensors.verdict(SCORES)
    assert f"{OURS} in 1, QR in 1 of 2 cases" in found
    assert "QR in 1 of 1 with more sensors than modes" in found
    assert "0.50 to 1.50" in found


# reconstruction


def test_share_overlap_and_explained_of_orthonormal_components_are_those_of_pca() -> None:
    correlations = reconstruction.printed_matrix()
    values, vectors = np.linalg.eigh(correlations)
    leading = vectors[:, -6:].T
    share = values[-6:].sum() / 13
    assert round(share, 3) == 0.877  # as the article prints it, of its own matrix
    assert reconstruction.share(correlations, leading) == pytest.approx(share)
    assert reconstruction.explained(correlations, leading) == pytest.approx(share)
    assert reconstruction.overlap(leading) == pytest.approx(0.0, abs=1e-12)


def test_one_component_twice_counts_twice_in_the_share_alone() -> None:
    correlations = np.diag([3.0, 1.0])
    twice = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert reconstruction.share(correlations, twice) == pytest.approx(1.5)
    assert reconstruction.overlap(twice) == pytest.approx(1.0)
    assert reconstruction.explained(correlations, twice) == pytest.approx(0.75)


def test_the_table_of_pitprops_says_what_is_published_and_what_is_measured() -> None:
    rows = reconstruction.pitprops()
    assert {row[0] for row in rows if row[4] == "published"} == set(reconstruction.PUBLISHED)
    measured = {row[0]: row for row in rows if row[4] == "measured"}
    assert measured["PCA, 13 nonzeros"][1] == measured["PCA, 13 nonzeros"][3] == "0.877"
    assert float(measured[OURS][3]) <= 0.877
    scores = [reconstruction.Score("x", 5, OURS, 0.2), reconstruction.Score("x", 5, "CUR", 0.1)]
    found = reconstruction.verdict(scores, rows)
    assert "CUR in 1 of 1 cases" in found
    assert "2.00 to 2.00" in found
    assert re.search(r"has the largest share, 0\.8\d\d against 0\.\d{3} of spae_dask, and spae_dask explains", found)
    assert reconstruction.picture(scores).axes[0].lines[0].get_label() == OURS


def test_our_features_are_as_many_as_asked_for() -> None:
    found = reconstruction.ours(mixed(), 5)
    assert {tool: len(set(chosen)) for tool, chosen in found.items()} == {OURS: 5, reconstruction.SELECTOR: 5}


# sparse PCA


def answered(ratio: float, seconds: float) -> Watched:
    answer = {"ratio": ratio, "seconds": seconds, "nonzeros": 10.0, "explained": 0.5}
    return Watched(answer, "", seconds, 2 << 20, 0, 2 << 20)


def test_a_tool_that_fails_is_not_tried_on_larger_data(tmp_path: Path) -> None:
    asked = []

    def look(module: str, arguments: list[str], limit: float) -> Watched:
        assert (module, limit) == ("benchmarks.head_to_head.sparse_pca", sparse_pca.LIMIT)
        _, tool, path = arguments
        asked.append((tool, Path(path).name))
        slow = tool != OURS and len(asked) > 4
        return (
            Watched(None, "not done after 60 s", 60.0, 0, 0, 0) if slow else answered(1.1 if tool == OURS else 1.2, 2.0)
        )

    runs = sparse_pca.run([(20, 4), (30, 5), (40, 6)], tmp_path, look)
    assert len(runs) == 12
    assert [tool for tool, name in asked if name == "rows-40x6.npy"] == [OURS]
    assert runs[4].cells() == ["30 x 5", OURS, "1.10000", "10", "2.00 s", "2 MiB", ""]
    assert runs[5].cells()[-1] == "not done after 60 s"
    assert runs[9].cells()[-1] == "not tried"
    found = sparse_pca.verdict(runs)
    assert "least loss in 1 and the shortest fit in 1 of the 1 sizes" in found
    assert f"6 by {OURS}, 4 by SparsePCA, scikit-learn" in found
    assert len(sparse_pca.picture(runs).axes) == 2


def test_a_child_prints_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = field.dense_rows(60, 20)(tmp_path)
    sparse_pca.main(["--child", OURS, str(path)])
    answer = capsys.readouterr().out
    assert float(re.findall(r'"ratio": ([\d.]+)', answer)[0]) >= 1.0
    assert float(re.findall(r'"nonzeros": ([\d.]+)', answer)[0]) <= sparse_pca.R


# gene panels


SUMMARY = {
    OURS: dict.fromkeys(gene_panels.METRICS, 0.9) | {"forest_clfs accuracy": 0.795},
    "Spapros": dict.fromkeys(gene_panels.METRICS, 0.5) | {"forest_clfs accuracy": 0.80},
}


def test_the_sentence_on_panels_says_whether_the_aim_is_met() -> None:
    scores = gene_panels.scores_of(SUMMARY)
    found = gene_panels.verdict({20: scores})
    assert f"{OURS} in 4, Spapros in 1 of 5" in found
    assert "1.80 times their best knn overlap and -0.005 of their best accuracy at 20 genes (met)" in found
    worse = gene_panels.scores_of(SUMMARY | {"DE": dict.fromkeys(gene_panels.METRICS, 0.9)})
    assert "1.00 times their best knn overlap and -0.105 of their best accuracy at 20 genes (not met)" in (
        gene_panels.verdict({20: worse})
    )
    assert gene_panels.rows(20, scores)[1][:3] == ["20", "Spapros", "0.500"]
    assert len(gene_panels.picture({20: scores, 50: scores}).axes) == 2


def test_a_missing_metric_is_an_error() -> None:
    with pytest.raises(KeyError):
        gene_panels.scores_of({"Spapros": {"forest_clfs accuracy": 0.8}})
