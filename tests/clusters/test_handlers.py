"""Importing a connector changes nothing in the process."""

import signal
import subprocess
import sys

import pytest

from spae_dask.clusters.queue import handlers_kept

IMPORTED = """
import signal
before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
import spae_dask.clusters.{module}
print(before == [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)])
"""


@pytest.mark.parametrize(("module", "library"), [("queue", "dask_jobqueue"), ("kubernetes", "kr8s")])
def test_signals_stay_with_the_command(module, library):
    pytest.importorskip(library)
    told = subprocess.run(
        [sys.executable, "-c", IMPORTED.format(module=module)], capture_output=True, text=True, timeout=120
    )
    assert told.stdout == "True\n", told.stderr


def test_handlers_come_back_after_errors_too():
    before = signal.getsignal(signal.SIGTERM)

    def fail() -> None:
        with handlers_kept():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fail()
    assert signal.getsignal(signal.SIGTERM) is before
