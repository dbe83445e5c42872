"""Signal handlers are the command's: a library that installs its own when it is imported does not keep them."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def handlers_kept() -> Iterator[None]:
    """Put back, after a ``with`` block in the main thread, the handlers there were before it."""
    before = {each: signal.getsignal(each) for each in SIGNALS}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for each, handler in before.items():
                signal.signal(each, handler)
