"""Ctrl-C and its like: one interrupt in the main thread, raised where it can be cleaned up after.

Three things are taken care of. Processes that are being started are not left half-started. Workers do not die of a
Ctrl-C, which a terminal sends to all processes of its group, before this process can close them. An interrupt is not
lost if the system gives it to another thread while the main one waits for a lock. It is not lost either if it is raised
in a finalizer or a callback of the garbage collector, where Python drops exceptions.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FROM_TERMINAL = (signal.SIGINT, signal.SIGHUP)

SECONDS_TO_WAKE = 0.3
"""Seconds after which the main thread is notified of a signal once more."""

FAREWELL = b"\nstopping and cleaning up; once more to stop at once\n"


class Interrupted(KeyboardInterrupt):
    """A signal asked to stop.

    Parameters
    ----------
    signum : int
        Number of the signal.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum

    def __str__(self) -> str:
        """In words."""
        name = signal.Signals(self.signum).name
        return f"interrupted ({name}). An output appears under its name only when it is complete."


class Signals:
    """Context manager under which a first signal raises :class:`Interrupted`, and a second ends the process at once.

    A signal that the parent process made this one ignore, as ``nohup`` does, stays ignored. Outside the main thread it
    does nothing.
    """

    def __init__(self) -> None:
        self._received: int | None = None
        self._raised = False
        self._held = False
        self._waking = False
        self._over = threading.Event()
        self._main = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> "Signals":
        """Install the handlers."""
        if self._main:
            self._read_end, self._write_end = os.pipe()
            os.set_blocking(self._write_end, False)
            self._old_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
            self._waker = threading.Thread(target=self._wake_main, daemon=True)
            self._waker.start()
            self._old_hook = sys.unraisablehook
            sys.unraisablehook = self._unraisable
            self._before: dict[int, Any] = {each: signal.getsignal(each) for each in SIGNALS}
            for each, handler in self._before.items():
                if handler is not signal.SIG_IGN:
                    signal.signal(each, self._handle)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        """Put the old handlers back, unless a signal was received: a second one shall still end the process."""
        if not self._main:
            return
        if self._received is None:
            for each, handler in self._before.items():
                signal.signal(each, handler)
        sys.unraisablehook = self._old_hook
        signal.set_wakeup_fd(self._old_wakeup)
        self._over.set()
        os.write(self._write_end, b"\0")
        self._waker.join()
        os.close(self._write_end)
        os.close(self._read_end)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        del frame
        if self._received is None:
            self._received = signum
            with suppress(OSError):
                os.write(2, FAREWELL)
        elif self._waking:
            self._waking = False
        else:
            os._exit(128 + signum)
        self._raise()

    def _raise(self) -> None:
        if self._received is not None and not self._held and not self._raised:
            self._raised = True
            raise Interrupted(self._received)

    def _unraisable(self, dropped: Any) -> None:
        """Python has dropped an exception: if it was the interrupt, have it raised again."""
        if not issubclass(dropped.exc_type, Interrupted):
            self._old_hook(dropped)
            return
        self._raised = False
        os.write(self._write_end, bytes([dropped.exc_value.signum]))

    def _wake_main(self) -> None:
        """Signal the main thread again if, a moment after a signal came, its handler has not run or had no effect."""
        main = threading.main_thread().ident
        assert main is not None
        while (signum := os.read(self._read_end, 1)[0]) != 0:
            while signum in SIGNALS and not self._over.wait(SECONDS_TO_WAKE) and self._is_unheard():
                self._waking = True
                signal.pthread_kill(main, signum)

    def _is_unheard(self) -> bool:
        return self._received is None or not (self._raised or self._held)

    @contextmanager
    def held(self, *, starts: bool) -> Iterator[Callable[[], None]]:
        """Hold signals back in the ``with`` block, if it starts processes, until the function it is given is called.

        Processes started meanwhile ignore the terminal for good: what is blocked in a thread is blocked in the threads
        and processes it starts.
        """
        if not (self._main and starts):
            yield lambda: None
            return
        resource_tracker.ensure_running()  # which, started later, would unblock the signals
        before = signal.pthread_sigmask(signal.SIG_BLOCK, FROM_TERMINAL)
        self._held = True

        def release() -> None:
            self._held = False
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._raise()

        try:
            yield release
        finally:
            release()
