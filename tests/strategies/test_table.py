"""One object a strategy: nothing else in the package asks for a strategy by its name."""

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import spae_dask
from spae_dask import SparseEncoder, plan
from spae_dask.strategies import parameters, table
from spae_dask.strategies.core import GramStrategy

PACKAGE = Path(spae_dask.__file__).parent


def compared_with_a_strategy(path: Path) -> list[str]:
    """Comparisons of anything with the name of a strategy."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Compare):
            names = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)} & set(table.STRATEGIES)
            by_class = [each for each in ast.walk(node) if ast.unparse(each).endswith("Strategy.name")]
            if ("strategy" in ast.unparse(node) and names) or by_class:
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {ast.unparse(node)}")
    return found


# parameters that belong to one strategy are checked against it
ALLOWED = {"strategies/parameters.py"}


def test_no_code_asks_which_strategy_a_fit_has() -> None:
    asked = [line for path in PACKAGE.rglob("*.py") for line in compared_with_a_strategy(path)]
    assert not [line for line in asked if line.partition(":")[0] not in ALLOWED]


class TwinStrategy(GramStrategy):
    """A strategy that somebody adds."""

    name = "twin"

    def reason(self, source: object) -> str:
        return "asked for: as gram"


def test_a_new_strategy_is_one_object_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table.STRATEGIES, "twin", TwinStrategy())
    known = parameters.PARAMETERS["strategy"]
    wider = replace(known, kind=parameters.Choice((*parameters.STRATEGIES, "twin")))
    monkeypatch.setitem(parameters.PARAMETERS, "strategy", wider)
    X = np.random.default_rng(0).standard_normal((60, 6))
    assert plan(X, 2, n_nonzero=2, strategy="twin").reason.startswith("asked for: as gram")
    assert "twin" in {each.strategy for each in plan(X, 2, n_nonzero=2).alternatives}
    found, gram = (SparseEncoder(2, n_nonzero=2, strategy=name).fit(X) for name in ("twin", "gram"))
    np.testing.assert_array_equal(found.components_, gram.components_)
