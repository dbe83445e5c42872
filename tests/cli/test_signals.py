"""One interrupt, in the main thread, at a good moment."""

import os
import signal
import threading
import time

import pytest

from spae_dask.cli.exits import exit_code
from spae_dask.cli.signals import SECONDS_TO_WAKE, SIGNALS, Interrupted, Signals


@pytest.fixture(autouse=True)
def handlers():
    """Put back what a signal that was received leaves in place. None is ignored, though ``nohup`` may run the tests."""
    before = {each: signal.getsignal(each) for each in SIGNALS}
    for each, handler in before.items():
        if handler == signal.SIG_IGN:
            signal.signal(each, signal.SIG_DFL)
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_raises_and_has_its_exit_code(signum):
    def be_signalled() -> None:
        os.kill(os.getpid(), signum)
        time.sleep(5)

    with Signals(), pytest.raises(Interrupted) as caught:
        be_signalled()
    assert exit_code(caught.value) == 128 + signum


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with Signals():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_that_is_ignored_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Signals():
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_processes_start_waits_until_they_have(signum):
    steps = []

    def start(signals: Signals) -> None:
        with signals.held(starts=True) as release:
            os.kill(os.getpid(), signum)
            time.sleep(0.1)
            steps.append("started")
            release()
            steps.append("never")

    with Signals() as signals, pytest.raises(Interrupted):
        start(signals)
    assert steps == ["started"]


@pytest.mark.timeout(60)
def test_a_signal_that_another_thread_was_given_still_wakes_the_main_one():
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()

    def give() -> None:
        time.sleep(0.2)
        signal.pthread_kill(other.ident, signal.SIGTERM)

    threading.Thread(target=give).start()
    with Signals(), pytest.raises(Interrupted):
        threading.Event().wait()  # without a limit: nothing but a signal of its own ends it
    ended.set()
    other.join()


class Interrupting:
    """Is signalled when it is dropped, where Python drops exceptions too."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)


def test_an_interrupt_that_python_drops_is_raised_again():
    steps = []

    def drop_and_wait() -> None:
        Interrupting()
        steps.append("dropped")
        time.sleep(100)
        steps.append("slept to the end")

    with Signals(), pytest.raises(Interrupted):
        drop_and_wait()
    assert steps == ["dropped"]


def test_other_signals_are_nobody_s_business_here():
    counted = []
    before = signal.signal(signal.SIGUSR1, lambda *_: counted.append(1))
    with Signals():
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(3 * SECONDS_TO_WAKE)
    signal.signal(signal.SIGUSR1, before)
    assert counted == [1]


def test_outside_the_main_thread_nothing_is_touched():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run() -> None:
        with Signals() as signals, signals.held(starts=True) as release:
            seen.append(signal.getsignal(signal.SIGTERM))
            release()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
