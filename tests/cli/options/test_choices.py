"""What options offer is what the library knows."""

import pytest

from spae_dask.algorithms import parameters
from spae_dask.cli import ingest
from spae_dask.cli.options import data, search, strategy
from spae_dask.selection import SELECTIONS
from spae_dask.storage.writing.codecs import CODECS


@pytest.mark.parametrize(
    ("offered", "known"),
    [
        (search.Method, parameters.METHODS),
        (search.Selection, SELECTIONS),
        (strategy.Strategy, parameters.STRATEGIES),
        (strategy.Precision, parameters.PRECISIONS),
        (strategy.Projection, parameters.PROJECTIONS),
        (strategy.Split, parameters.SPLITS),
        (data.Missing, parameters.MISSING),
        (ingest.Codec, CODECS),
    ],
)
def test_the_choices_offered_are_those_the_library_knows(offered, known):
    assert {each.value for each in offered} == set(known)


@pytest.mark.parametrize(("given", "taken"), [(None, None), ("12", 12), ("12,8,8", (12, 8, 8))])
def test_nonzeros_are_one_number_or_several(given, taken):
    assert search.check_nonzeros(given) == given
    assert search.nonzeros_of(given) == taken


@pytest.mark.parametrize("name", ["method", "selection"])
def test_choices_that_the_help_spells_out_are_complete(name):
    annotated = {"method": search.MethodOption, "selection": search.SelectionOption}[name]
    enum, option = annotated.__origin__, annotated.__metadata__[0]
    for choice in enum:
        assert choice.value in option.help
