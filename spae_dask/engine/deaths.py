"""What can be said of workers that died again and again on one task."""

import re
from collections.abc import Mapping
from typing import Any

from distributed import Client
from distributed.scheduler import KilledWorker

from spae_dask.engine.spans import Span
from spae_dask.engine.watchdog import rows_of
from spae_dask.errors import PassFailed

LOG_LINES = 3
"""Last lines of the nannies' logs that a message shows."""

LOG_SECONDS = 5.0
"""How long the logs may take to come; without them the message is shorter."""

_TELLING = re.compile(r"killed by|exceeded|exited|memory|restarting", re.IGNORECASE)


def died_too_often(client: Client, name: str, spans: Mapping[str, Span], error: KilledWorker) -> PassFailed:
    """The error that names the task, its rows, the last worker, and what the nannies wrote last."""
    key = str(error.task)
    rows = f" ({rows_of([spans[key]])})" if key in spans else ""
    lines = _last_lines(client)
    logs = f" The workers' nannies wrote last: {' | '.join(lines)}" if lines else ""
    return PassFailed(
        f"{name}: workers died {error.allowed_failures + 1} times with task {key!r}{rows} on them (last: "
        f"{_address(error.last_worker)}). Most often memory ran out: compare `spae plan` with the workers' limit.{logs}"
    )


def _address(worker: Any) -> str:
    return str(getattr(worker, "address", worker))


def _last_lines(client: Client) -> list[str]:
    """The last lines that tell of an end, oldest first; none where there are no nannies to ask."""
    try:
        logs = client.sync(client.scheduler.worker_logs, n=50, nanny=True, callback_timeout=LOG_SECONDS)
    except Exception:  # an error is being reported already
        return []
    told: list[str] = []
    for records in logs.values():
        if not isinstance(records, str):  # what a worker that cannot be reached comes with
            told.extend(line for _, line in reversed(records) if _TELLING.search(line))
    # each begins with its time, so this is their order
    return [" ".join(line.split()) for line in sorted(told)[-LOG_LINES:]]
