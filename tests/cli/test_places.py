"""The cluster on which a command runs does not change what the command finds."""

from types import SimpleNamespace

import numpy as np
import pytest

from spae_dask.cli import target
from spae_dask.cli.target import SMALL_NBYTES, Target
from spae_dask.errors import ClusterUnavailable
from tests.cli.conftest import QUICK


def a_source(n: int, d: int) -> SimpleNamespace:
    return SimpleNamespace(in_process=False, shape=(n, d), dtype=np.dtype("f4"))


@pytest.mark.parametrize(
    ("given", "n", "where"),
    [
        (None, SMALL_NBYTES // 4 - 1, "none"),
        (None, SMALL_NBYTES // 4, "local"),
        ("none", SMALL_NBYTES, "none"),
        ("local:3", 1, "local:3"),
    ],
)
def test_processes_are_started_by_default_where_they_are_worth_it(given, n, where):
    assert Target(given, None).where(a_source(n, 1)) == where


def test_no_processes_are_started_for_data_in_this_one():
    source = a_source(SMALL_NBYTES, 1)
    source.in_process = True
    assert Target(None, None).where(source) == "none"


@pytest.mark.parametrize("verb", ["check", "plan", "fit", "path", "transform", "evaluate", "run"])
def test_every_verb_takes_its_certificates_to_the_scheduler(spae, store, encoder, tmp_path, monkeypatch, verb):
    heard = []

    def connect(*given):
        heard.append(given)
        raise ClusterUnavailable("nobody")

    monkeypatch.setattr(target, "connect", connect)
    pipeline = tmp_path / "pipeline.toml"
    pipeline.write_text(
        'output = "results"\n[[step]]\nkind = "evaluate"\nname = "loss"\ndata = "x.zarr"\nencoder = "enc.zarr"\n'
    )
    data = {
        "plan": (store, "-k", 2, "-r", 3),
        "path": (store, "-k", 2, "-r", 3, *QUICK),
        "fit": (store, "-k", 2, "-r", 3, *QUICK, "-o", tmp_path / "e.zarr"),
        "transform": (store, encoder, "-o", tmp_path / "z.zarr"),
        "evaluate": (store, encoder),
        "run": (pipeline,),
    }.get(verb, (store,))
    assert spae(verb, *data, "--cluster", "tls://127.0.0.1:8786", "--tls-dir", tmp_path).code == 6
    assert heard == [("tls://127.0.0.1:8786", None, str(tmp_path))]
