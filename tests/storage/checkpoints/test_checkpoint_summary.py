"""How far a checkpoint has come is told by the states that are there."""

import pytest

from spae_dask.errors import NotFound
from spae_dask.storage.checkpoints.checkpoint_record import (
    begin_or_resume,
    parts_of,
    read_job,
    remember_parts,
    states_at,
)
from spae_dask.storage.checkpoints.checkpoint_removal import remove_checkpoint
from spae_dask.storage.checkpoints.checkpoint_summary import summarize
from tests.storage.checkpoints.jobs import JOB


def test_a_checkpoint_is_begun_summarized_and_removed(place: str) -> None:
    store = states_at(place)
    assert read_job(store) is None
    begin_or_resume(store, JOB)
    begin_or_resume(store, JOB)
    assert parts_of(store) is None
    remember_parts(store, 8)
    assert parts_of(store) == 8
    store.make("01-core-ab")
    store.write("01-core-ab/about.json", [b'{"name": "core", "n_spans": 20, "fan_in": 8}'])
    store.write("01-core-ab/1-00002.state", [b"?"])
    store.write("01-core-ab/0-00000.state", [b"?"])
    found = summarize(place)
    assert (found.passes[0].name, found.passes[0].n_spans, found.passes[0].n_done) == ("core", 20, 5)
    assert found.job.flat() == JOB.flat()
    assert 0 <= found.seconds_old < 60
    assert remove_checkpoint(place) == found.nbytes
    assert store.all_files() == []
    with pytest.raises(NotFound, match="there is no checkpoint"):
        summarize(place)
    with pytest.raises(NotFound, match="Nothing was removed"):
        remove_checkpoint(place)


@pytest.mark.parametrize(
    "about",
    [
        b'{"name": "core", "n_spans": 1000000000000000000, "fan_in": 8}',
        b'{"name": "core", "n_spans": 1e999, "fan_in": 8}',
        b'{"name": "core", "n_spans": 20, "fan_in": 0}',
        b'{"name": "core", "n_spans": 20, "fan_in": ' + 5000 * b"9" + b"}",
        50_000 * b"[",
        b"",
    ],
)
def test_a_pass_with_a_damaged_record_is_left_out_of_the_summary(about: bytes, place: str) -> None:
    store = states_at(place)
    begin_or_resume(store, JOB)
    store.write("parts.json", [about])
    assert parts_of(store) is None
    store.make("01-core-ab")
    store.write("01-core-ab/about.json", [about])
    store.write("01-core-ab/99-00000.state", [b"?"])
    assert summarize(place).passes == ()
