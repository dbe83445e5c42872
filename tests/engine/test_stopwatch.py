"""A stopwatch hands all events on and keeps the passes."""

import subprocess
import sys

from spae_dask.passes.events import PassEnded, PassStarted, RowsDone
from spae_dask.passes.stopwatch import Stopwatch

EVENTS = [PassStarted("core", 1, 10, 80), RowsDone(10, 80), PassEnded("core", 0.5, 0.3, 0.2)]


def test_events_are_handed_on_and_passes_kept():
    seen = []
    clock = Stopwatch(seen.append)
    for event in EVENTS:
        clock(event)
    assert seen == EVENTS
    measured = clock.read()
    assert measured.passes == (EVENTS[-1],)
    assert 0 < measured.seconds < 60
    assert measured.as_dict()["passes"] == (
        {"name": "core", "seconds": 0.5, "read_seconds": 0.3, "compute_seconds": 0.2},
    )


def test_the_peak_is_that_of_the_process():
    code = "from spae_dask.passes.stopwatch import peak_nbytes\na = peak_nbytes()\nx = b'x' * (200 << 20)\n"
    grown = subprocess.run([sys.executable, "-c", f"{code}print(peak_nbytes() - a)"], check=True, capture_output=True)
    assert 180 << 20 < int(grown.stdout) < 240 << 20
