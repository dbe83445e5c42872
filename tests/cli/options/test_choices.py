"""Options offer what the library knows, and numbers with commas between are one or several."""

import pytest
import typer
from typer.main import get_command

from spae_dask.cli.ingest import Codec
from spae_dask.cli.main import app
from spae_dask.cli.options.parameters import numbers_in
from spae_dask.storage.writing.chunking import CODECS
from spae_dask.strategies.parameters import Counts, Numbers


def test_the_codecs_offered_are_those_the_library_knows():
    assert {each.value for each in Codec} == set(CODECS)


@pytest.mark.parametrize(
    ("given", "kind", "taken"),
    [
        ("12", Counts(), 12),
        ("12,8,8", Counts(), (12, 8, 8)),
        ("12,", Counts(), "12,"),
        ("-1.5,2", Numbers(), (-1.5, 2.0)),
        ("1;2", Numbers(), "1;2"),
    ],
)
def test_numbers_are_one_or_several(given, kind, taken):
    assert numbers_in(given, kind) == taken


@pytest.mark.parametrize("given", ["0", "2,0", "2,,3", "2.5", "a", "-1"])
@pytest.mark.parametrize("verb", ["fit", "path"])
def test_nonzeros_that_are_no_counts_are_refused_by_the_parser(verb, given):
    command = get_command(app).commands[verb]
    words = ["x.zarr", "-k", "2", "-r", given, *(["-o", "e.zarr"] if verb == "fit" else [])]
    with pytest.raises(typer.BadParameter, match="give a whole number of at least 1, or one for each component"):
        command.make_context(verb, words)
