"""Figures of encoders, their curves, and what notebooks show; on encoders of every strategy."""

import json
import pickle
import textwrap
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn import config_context
from sklearn.exceptions import NotFittedError

from spae_dask import ColumnSelector, SparseEncoder, evaluate, load_encoder, plan
from spae_dask.errors import InvalidInput
from spae_dask.estimators.plots import FEWEST_POINTS, cheap_curve
from spae_dask.estimators.record import results_of
from spae_dask.estimators.saved import save_encoder
from spae_dask.strategies.sizes import curve_sizes
from tests.estimators.sources import spread
from tests.forked import forked_program, lacking
from tests.report.page_reader import read_page

X = spread(np.random.default_rng(0), 300, 9)
PLOTS = ("loss", "loadings", "explained_variance", "features")


@pytest.fixture(scope="module")
def encoder() -> SparseEncoder:
    return SparseEncoder(2, n_nonzero=3, effort=0).fit(X)


@pytest.fixture
def axes() -> Any:
    return Figure(layout="constrained").add_subplot()


@pytest.mark.parametrize("name", PLOTS)
def test_each_plot_draws_on_the_axes_it_is_given(encoder: SparseEncoder, axes: Any, name: str) -> None:
    assert getattr(encoder.plot, name)(ax=axes) is axes
    axes.figure.savefig("/dev/null", format="svg")
    assert axes.has_data()


def test_the_loadings_drawn_are_the_encoders(encoder: SparseEncoder, axes: Any) -> None:
    shown = encoder.plot.loadings(axes).collections[0].get_array()
    np.testing.assert_array_equal(shown.filled(0), encoder.components_[:, encoder.selected_features_])


def test_pcas_shares_are_those_of_a_dense_svd(encoder: SparseEncoder) -> None:
    sigma = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    shares = results_of(encoder).pca_explained
    assert shares is not None
    np.testing.assert_allclose(shares, sigma[:2] ** 2 / np.sum(sigma**2), rtol=1e-9)


def test_the_curve_is_near_the_path_of_full_searches(encoder: SparseEncoder) -> None:
    curve = encoder.curve()
    assert curve is not None
    sizes = [point.n_nonzero for point in curve.points]
    assert 3 in sizes
    assert max(sizes) == 8
    full = encoder.sparsity_path([2], sizes)
    for quick, best in zip(curve.points, full.points, strict=True):
        assert best.loss * (1 - 1e-9) <= quick.loss <= 1.1 * best.loss


@pytest.mark.parametrize(
    ("options", "known"),
    [
        ({}, True),
        ({"method": "batch"}, True),
        ({"method": "iterative", "n_nonzero": (4, 2)}, True),
        ({"strategy": "sketch"}, True),
        ({"strategy": "stream"}, True),
        ({"orthonormal": True}, True),
        ({"n_nonzero": None, "eps": 0.3}, True),
        ({"method": "doubly-sparse"}, False),
        ({"strategy": "paper", "method": "batch"}, False),
        ({"shared_support": True}, False),
        ({"strategy": "sketch", "method": "batch"}, False),
    ],
    ids=str,
)
def test_which_encoders_have_a_curve(axes: Any, options: dict[str, Any], known: bool) -> None:
    fitted = SparseEncoder(2, **({"n_nonzero": 3, "effort": 0} | options)).fit(X)
    assert (fitted.curve() is not None) == known
    for name in PLOTS:
        getattr(fitted.plot, name)(Figure().add_subplot())


def test_a_fed_stream_has_a_curve_of_all_its_rows() -> None:
    online = SparseEncoder(2, n_nonzero=3, strategy="gram", effort=0).partial_fit(X[:100])
    first = online.curve()
    online.partial_fit(X[100:])
    assert first is not None and online.curve() is not None  # noqa: PT018
    assert online.curve().points[0].pca_loss == pytest.approx(online.certificate_.pca_loss)
    assert online.curve().points[0].pca_loss > first.points[0].pca_loss


def test_a_new_fit_has_a_new_curve() -> None:
    fitted = SparseEncoder(2, n_nonzero=3, effort=0).fit(X)
    before = fitted.curve()
    assert fitted.fit(10 * X).curve() != before


def test_no_curve_is_made_where_it_would_take_long() -> None:
    wide = SparseEncoder(8, n_nonzero=60, method="polished")
    wide._summary = SparseEncoder(2, n_nonzero=3, effort=0).fit(X)._summary  # what it was fitted on is not looked at
    assert cheap_curve(wide._params(), wide._summary, "gram", 60, 5000) is None


@pytest.mark.parametrize(("r", "least", "most"), [(1, 1, 1), (1, 1, 100), (5, 2, 13), (40, 3, 41), (7, 7, 1000)])
def test_sizes_of_a_curve_hold_the_encoders_and_stay_within_the_features(r: int, least: int, most: int) -> None:
    sizes = curve_sizes(r, least, most, FEWEST_POINTS)
    assert r in sizes
    assert sizes == sorted(set(sizes))
    assert least <= sizes[0]
    assert sizes[-1] <= max(most, r)


def test_what_was_planned_and_measured_and_the_curve_are_stored(encoder: SparseEncoder, tmp_path: Any) -> None:
    save_encoder(encoder, tmp_path / "e.zarr", source=X)
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.curve() == encoder.curve()
    record = loaded.provenance_
    assert record["planned"]["bytes_read"] == encoder.plan_.bytes_read == X.nbytes
    assert record["measured"]["seconds"] == encoder.measured_.seconds > 0
    assert [each["name"] for each in record["measured"]["passes"]] == ["core"]
    save_encoder(loaded, tmp_path / "again.zarr")
    assert load_encoder(tmp_path / "again.zarr").curve() == encoder.curve()
    assert load_encoder(tmp_path / "again.zarr").provenance_ == record


def test_an_artifact_of_an_earlier_version_loads_without_a_curve(encoder: SparseEncoder, tmp_path: Any) -> None:
    save_encoder(encoder, tmp_path / "e.zarr")
    file = tmp_path / "e.zarr" / "zarr.json"
    metadata = json.loads(file.read_text())
    del metadata["attributes"]["curve"]
    for name in ("planned", "measured"):
        del metadata["attributes"]["provenance"][name]
    file.write_text(json.dumps(metadata))
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.curve() is None
    loaded.plot.loss(Figure().add_subplot())
    metadata["attributes"]["curve"] = {"points": [{"n_nonzero": "many"}], "method": "x"}
    file.write_text(json.dumps(metadata))
    with pytest.raises(InvalidInput, match="lacks a part of its record"):
        load_encoder(tmp_path / "e.zarr")
    metadata["attributes"]["curve"] = [1]
    file.write_text(json.dumps(metadata))
    with pytest.raises(InvalidInput, match="'curve' is neither null nor an object"):
        load_encoder(tmp_path / "e.zarr")


def test_an_encoder_that_is_not_fitted_has_no_plots() -> None:
    for name in PLOTS:
        with pytest.raises(NotFittedError):
            getattr(SparseEncoder().plot, name)()
    with pytest.raises(NotFittedError):
        SparseEncoder().curve()


def test_the_estimator_needs_no_matplotlib_and_its_plots_say_what_to_install() -> None:
    code = """
        import numpy as np
        from spae_dask import SparseEncoder
        encoder = SparseEncoder(2, n_nonzero=2).fit(np.random.default_rng(0).normal(size=(50, 5)))
        encoder._repr_mimebundle_()
        for name in ("loss", "loadings", "explained_variance", "features"):
            try:
                getattr(encoder.plot, name)()
            except ValueError as error:
                print(type(error).__name__, error)
    """
    out, err = forked_program(lacking("matplotlib") + textwrap.dedent(code)).communicate(timeout=60)
    lines = out.splitlines()
    assert err == ""
    assert len(lines) == 4
    assert all(line.startswith("InvalidInput") and 'pip install "spae-dask[report]"' in line for line in lines)


def html_of(shown: Any) -> Any:
    page = read_page(shown._repr_html_())
    assert page.errors == []
    return page


def test_a_certificate_a_plan_and_a_path_are_tables_in_notebooks(encoder: SparseEncoder) -> None:
    (table,) = html_of(encoder.certificate_).tables
    assert table.rows["ratio"][0].startswith(f"{encoder.certificate_.ratio:.6f} x PCA's")
    facts, prices = html_of(plan(X, 2, n_nonzero=3, calibrate=False)).tables
    assert facts.rows["strategy"][0].startswith("tsqr: ")
    assert set(prices.rows) == {"gram", "tsqr *", "sketch", "stream", "sample", "paper"}
    path = encoder.sparsity_path([2], [2, 3])
    (table,) = html_of(path).tables
    assert table.columns == ["k", "r", "features", "ratio", "explained", "symmetric", "bound"]
    assert table.rows["2"][2] == f"{path.points[-1].ratio:.6f}"


def test_an_evaluation_shows_its_metrics_too(encoder: SparseEncoder) -> None:
    found = evaluate(X, encoder)
    certificate, metrics, components = html_of(found).tables
    assert "with own decoder" in certificate.rows
    assert "nonzeros, mean" in metrics.rows
    assert len(components.rows) == 2
    assert str(found).count("\n") > 10


@pytest.mark.parametrize("estimator", [SparseEncoder(2, n_nonzero=3), ColumnSelector(3)], ids=["encoder", "selector"])
def test_notebooks_show_the_diagram_and_once_fitted_the_certificate(estimator: Any) -> None:
    assert "Certificate" not in estimator._repr_mimebundle_()["text/html"]
    fitted = pickle.loads(pickle.dumps(estimator)).fit(X)
    for html in (fitted._repr_mimebundle_()["text/html"], fitted._repr_html_()):
        assert type(estimator).__name__ in html
        assert "Certificate" in html
    with config_context(display="text"):
        assert "text/html" not in fitted._repr_mimebundle_()
        assert not hasattr(fitted, "_repr_html_")


def test_showing_an_encoder_makes_no_curve() -> None:
    fitted = SparseEncoder(2, n_nonzero=3, effort=0).fit(X)
    fitted._repr_mimebundle_()
    assert "_curve" not in vars(fitted)


def test_a_stream_is_not_asked_for_the_certificate_of_an_encoder_it_has_not_made() -> None:
    online = SparseEncoder(2, n_nonzero=3, effort=0).partial_fit(X)
    assert online._certificate_html() == ""
    assert "components_" not in vars(online)
