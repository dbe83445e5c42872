"""Settings: their defaults, their places, and who comes first."""

import os
import re
import subprocess
import sys

import dask
import numpy as np
import pytest

from spae_dask import SparseEncoder
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded
from spae_dask.settings import DEFAULTS, setting, text_setting

X = np.random.default_rng(0).normal(size=(50, 4))


def test_every_default_can_be_looked_up():
    assert {name: setting(name) for name in DEFAULTS["spae_dask"]} == DEFAULTS["spae_dask"]


def test_the_environment_sets_them():
    asked = "from spae_dask.settings import setting; print(setting('memory-limit'))"
    env = os.environ | {"DASK_SPAE_DASK__MEMORY_LIMIT": "3GB"}
    assert subprocess.run([sys.executable, "-c", asked], env=env, capture_output=True, text=True).stdout == "3GB\n"


def test_a_file_sets_them(tmp_path):
    (tmp_path / "mine.yaml").write_text("spae_dask:\n  cluster: none\n")
    asked = "from spae_dask.settings import setting; print(setting('cluster'), setting('dashboard-address'))"
    env = os.environ | {"DASK_CONFIG": str(tmp_path)}
    shown = subprocess.run([sys.executable, "-c", asked], env=env, capture_output=True, text=True).stdout
    assert shown == "none 127.0.0.1:0\n"


def test_a_memory_limit_counts_unless_a_call_gives_another():
    with dask.config.set({"spae_dask.memory-limit": "1kB"}):
        with pytest.raises(MemoryBudgetExceeded):
            SparseEncoder(1, n_nonzero=2).fit(X)
        assert SparseEncoder(1, n_nonzero=2, memory_limit="4GB").fit(X).plan_.resources.memory_limit == 4_000_000_000


@pytest.mark.parametrize("given", ["much", "", "GB", True, [4], {"GB": 4}, float("inf"), float("nan"), -1, 0, "-2GB"])
def test_what_is_no_memory_limit_is_refused(given):
    refused = pytest.raises(InvalidInput, match=re.escape(f"memory limit {given!r} is not"))
    with dask.config.set({"spae_dask.memory-limit": given}), refused:
        SparseEncoder(1, n_nonzero=2).fit(X)


def test_what_is_no_text_is_refused():
    with dask.config.set({"spae_dask.cluster": 7}), pytest.raises(InvalidInput, match=r"spae_dask.cluster is 7"):
        text_setting("cluster")


def test_importing_the_pure_rooms_sets_nothing():
    asked = "import sys, spae_dask.strategies, spae_dask; print('dask' in sys.modules, 'yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True).stdout == "False False\n"
