"""An interrupt in the middle of starting a thread leaves no thread that keeps the process alive."""

import subprocess
import sys

INTERRUPTED = """
import threading
import numpy as np
from spae_dask import SparseEncoder

start = threading.Thread.start

def interrupted(self):
    start(self)
    if threading.current_thread() is threading.main_thread() and self.name.startswith("ThreadPoolExecutor"):
        raise KeyboardInterrupt

threading.Thread.start = interrupted
SparseEncoder(1, n_nonzero=2).fit(np.random.default_rng(0).normal(size=(100, 5)))
"""


def test_a_pass_interrupted_while_a_thread_starts_ends_the_process():
    process = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, timeout=60)
    assert b"KeyboardInterrupt" in process.stderr
