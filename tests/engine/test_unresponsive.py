"""Which silent workers are taken for dead; what comes of it on a cluster is in ``test_backup_tasks``."""

import time
from types import SimpleNamespace

import pytest

from spae_dask.engine import unresponsive, worker_status
from spae_dask.engine.worker_status import WorkerStatus


def test_a_worker_is_not_taken_for_dead_until_it_was_silent_for_a_while_by_this_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_status, "SILENT_SECONDS", 30.0)
    monkeypatch.setattr(unresponsive, "SURE_SECONDS", 8.0)
    now = [1000.0]
    monkeypatch.setattr(unresponsive, "time", SimpleNamespace(monotonic=lambda: now[0], time=time.time))
    client = SimpleNamespace(scheduler=SimpleNamespace(restart_workers=print))
    watch = unresponsive.Unresponsive(client, lambda question: None)

    def look(seen: float) -> list[str]:
        workers = [WorkerStatus("a", 1, ("x",), 3600.0, True, seen), WorkerStatus("b", 1)]
        return [each.address for each in watch.take_out(workers)]

    # a computer wakes: all but the first to speak look silent, until they speak; and an hour later again
    assert look(1.0) == []
    now[0] += 3600
    assert look(2.0) == []
    now[0] += 7
    assert look(2.0) == []
    now[0] += 2
    assert look(2.0) == ["a"]


def test_a_pass_goes_on_if_a_silent_worker_cannot_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unresponsive, "SURE_SECONDS", 0.0)

    def fail(question: object) -> None:
        raise RuntimeError("the nanny is not what it was")

    client = SimpleNamespace(scheduler=SimpleNamespace(restart_workers=print))
    watch = unresponsive.Unresponsive(client, fail)
    workers = [WorkerStatus("a", 1, ("x",), 3600.0), WorkerStatus("b", 1)]
    assert [each.address for each in watch.take_out(workers)] == ["a"]
