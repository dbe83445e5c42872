"""What theory asks for a wanted excess, and how much less the data need."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from spae_dask.strategies.core_summary import CoreSummary
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sparse_encoder import encode_core
from spae_dask.strategies.theory import Target, target_of
from tests import oracles, reference_data
from tests.matrices import FloatArray
from tests.strategies.passes import core_of


def bands() -> FloatArray:
    """Spectra of 100 neighbouring bands, as of a hyperspectral image: smooth mixtures and a little noise."""
    rng = np.random.default_rng(0)
    wavelength = np.linspace(0, 1, 100)
    centers, widths = rng.random(12), 0.03 + 0.2 * rng.random(12)
    bumps = np.exp(-(((wavelength - centers[:, None]) / widths[:, None]) ** 2))
    return rng.gamma(1.0, size=(400, 12)) @ bumps + 0.02 * rng.standard_normal((400, 100))


DATA: dict[str, Callable[[], FloatArray]] = {
    "pitprops": reference_data.pitprops,
    "colon": reference_data.colon,
    "lymphoma": reference_data.lymphoma,
    "eisen": reference_data.eisen,
    "bands": bands,
}


@cache
def summary(name: str) -> CoreSummary:
    return core_of(DATA[name](), center=name == "bands")


@cache
def best(name: str, k: int) -> float:
    X = DATA[name]()
    return oracles.pca_loss(X - X.mean(axis=0) if name == "bands" else X, k)


CASES = [(name, method) for name in DATA for method in ("batch", "iterative")] + [("pitprops", "polished")]


@pytest.mark.parametrize("eps", [0.5, 0.1, 0.02])
@pytest.mark.parametrize(("name", "method"), CASES)
def test_the_excess_is_kept_with_far_fewer_nonzeros_than_theory_asks_for(name: str, method: str, eps: float) -> None:
    params = FitParameters(2, None, eps=eps, method=method, selection="greedy", center=name == "bands")
    fitted = encode_core(params, summary(name), passes=0, bytes_read=0)
    found = fitted.certificate
    assert oracles.encoder_loss(DATA[name]() - fitted.mean, fitted.H) <= (1 + eps) * best(name, 2) * (1 + 1e-9)
    assert found.eps == eps
    assert found.theory_n_nonzero == {0.5: 25, 0.1: 105, 0.02: 505}[eps] + (0 if method == "iterative" else 5)
    assert 7 * found.n_nonzero <= found.theory_n_nonzero_sharp < found.theory_n_nonzero
    assert f"eps = {eps:g}: r = {found.n_nonzero} found, met\n" in str(found)
    assert f"theory's r for this eps: {found.theory_n_nonzero}, " in found.text(verbose=True)


def test_a_given_number_of_nonzeros_has_no_target() -> None:
    assert target_of(FitParameters(2, 5)) == Target()
    found = encode_core(FitParameters(2, 5), summary("pitprops"), passes=0, bytes_read=0).certificate
    assert (found.eps, found.theory_n_nonzero, found.theory_n_nonzero_sharp) == (None, None, None)
    assert (found.keep, found.target, found.target_met) == (None, None, None)
    assert "wanted" not in str(found)


def test_a_share_to_keep_has_no_number_of_theory() -> None:
    assert target_of(FitParameters(2, keep=0.9)) == Target(keep=0.9)
    assert target_of(FitParameters(2)) == Target(keep=0.95)


@pytest.mark.parametrize("method", ["batch", "iterative"])
def test_an_excess_that_no_number_of_columns_reaches_is_no_trouble(method: str) -> None:
    assert target_of(FitParameters(3, None, eps=5e-324, method=method)) == Target(5e-324)
    assert target_of(FitParameters(3, None, eps=1e-13, method=method)).theory_n_nonzero > 10**14


def test_the_iterative_encoder_is_asked_for_the_sizes_of_its_last_component() -> None:
    assert target_of(FitParameters(4, None, eps=0.3, method="iterative")) == Target(0.3, 5 + 67, 1 + 27)
