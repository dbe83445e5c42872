"""Replaces unresponsive workers, unless they compute.

A worker without a sign of life for `SILENT_SECONDS`, while others give one, is taken for dead: the pass waits for its
span and for the states that it holds. Dask does the same after five minutes. But many LAPACK routines let no other
thread of their process run, not even the one that sends heartbeats. So the nanny is asked whether its worker computes,
and tasks that made one worker unresponsive protect the next one that has them.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psutil
from distributed import Client, Nanny

from spae_dask.engine.worker_status import Ask, WorkerStatus, idle_workers

SURE_SECONDS = 8.0
"""A worker must stay silent for this long: every worker looks silent for a moment after a computer has slept."""

NANNY_SECONDS = 5.0
"""Time limit of the answer of a nanny."""

WORK_SECONDS = 1.0
WORK_SHARE = 0.02
"""A process computes if it uses this share of a processor in this time; the share is small on a crowded machine."""

KILL_SECONDS = 10.0
"""Time limit for a nanny to end its worker; without an answer the scheduler forgets the worker all the same."""

MOST_DEAD = 8
"""Number of workers taken for dead in a pass."""


@dataclass
class Unresponsive:
    """Unresponsive workers of a pass.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.
    ask : callable
        Asks the scheduler a question, and gives up after a while.
    """

    client: Client
    ask: Ask
    _since: dict[tuple[str, float], float] = field(default_factory=dict)
    _suspect: set[Any] = field(default_factory=set)
    _n_dead: int = 0

    def take_out(self, statuses: Sequence[WorkerStatus]) -> list[WorkerStatus]:
        """End unresponsive workers, or have the scheduler forget them, and give these; others get their tasks."""
        now = time.monotonic()
        known = ((each.address, each.last_seen) for each in statuses if each.is_silent)
        self._since = {one: self._since.get(one, now) for one in known}
        if not self._since or not idle_workers(statuses):
            return []
        dead = [
            each
            for each in statuses
            if each.is_silent
            and now - self._since[each.address, each.last_seen] >= SURE_SECONDS
            and self._suspect.isdisjoint(each.keys)
        ][: MOST_DEAD - self._n_dead]
        at_work = self._try(partial(self._at_work, [each.address for each in dead])) if dead else None
        dead = [each for each in dead if each.address not in (at_work or ())]
        if dead:
            self._n_dead += len(dead)
            self._suspect.update(*(each.keys for each in dead))
            self._try(
                partial(
                    self.client.scheduler.restart_workers,
                    workers=[each.address for each in dead],
                    timeout=KILL_SECONDS,
                    wait_for_workers=False,
                    on_error="return",
                    stimulus_id=f"spae-silent-{time.time()}",
                )
            )
        return dead

    async def _at_work(self, addresses: Sequence[str]) -> list[str]:
        """Ask the nannies of these workers; give the workers that compute."""

        async def answer(address: str) -> bool:
            with suppress(Exception):
                said = self.client._run(_is_at_work, workers=[address], nanny=True, on_error="ignore")
                return any((await asyncio.wait_for(said, NANNY_SECONDS)).values())
            return False

        said = await asyncio.gather(*map(answer, addresses))
        return [address for address, computes in zip(addresses, said, strict=True) if computes]

    def _try(self, question: Any) -> Any:
        # without an answer the pass goes on
        with suppress(Exception):
            return self.ask(question)
        return None


async def _is_at_work(dask_worker: Nanny) -> bool:
    """Tell whether the worker of this nanny uses a processor."""
    process = psutil.Process(dask_worker.pid)
    began = sum(process.cpu_times()[:2])
    await asyncio.sleep(WORK_SECONDS)
    return bool(sum(process.cpu_times()[:2]) - began > WORK_SHARE * WORK_SECONDS)
