"""What can be said of workers that died again and again on one task."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from distributed import Client
from distributed.scheduler import KilledWorker

from spae_dask.engine.spans import Span
from spae_dask.engine.watchdog import rows_of
from spae_dask.errors import PassFailed

LOG_LINES = 3
"""Last lines of the logs that a message shows."""

LINE_LENGTH = 200

LOG_SECONDS = 5.0
"""How long the logs may take to come; without them the message is shorter."""

_TELLING = re.compile(r"killed by|exceeded|exited|died|memory|restarting", re.IGNORECASE)


def died_too_often(client: Client, name: str, spans: Mapping[str, Span], error: KilledWorker) -> PassFailed:
    """The error that names the task, its rows and the last worker, and shows what was logged last."""
    key = str(error.task)
    rows = f" ({rows_of([spans[key]])})" if key in spans else ""
    lines = _last_lines(client)
    logs = f" The cluster logged last: {' | '.join(lines)}" if lines else ""
    return PassFailed(
        f"{name}: workers died {error.allowed_failures + 1} times with task {key!r}{rows} on them (last: "
        f"{_address(error.last_worker)}). Most often memory ran out: compare `spae plan` with the workers' limit. "
        f"Or their jobs end before the task does: give them a longer walltime.{logs}"
    )


def _address(worker: Any) -> str:
    return str(getattr(worker, "address", worker))


def _last_lines(client: Client) -> list[str]:
    """The last lines of the scheduler and of the nannies that are there which tell of an end, oldest first."""
    told: list[str] = []
    for question in (
        partial(client.scheduler.logs, n=50),
        partial(client.scheduler.worker_logs, n=50, nanny=True),
    ):
        try:
            answer = client.sync(question, callback_timeout=LOG_SECONDS)
        except Exception:  # noqa: S112 - an error is being reported already, and is worth more than its logs
            continue
        for records in answer.values() if isinstance(answer, Mapping) else (answer,):
            told.extend(str(line) for _, line in records if _TELLING.search(str(line)))
    # each begins with its time, so this is their order
    return [" ".join(line.split())[:LINE_LENGTH] for line in sorted(set(told))[-LOG_LINES:]]
