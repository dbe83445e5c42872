"""What is done about workers that are not heard of any more: they are taken for dead, unless they compute.

A worker that was not heard of for `SILENT_SECONDS` while others were is taken for dead: not only its span is waited
for then, but the states that it holds. Dask does the same, after five minutes. But many a routine of LAPACK lets no
other thread of its process run, not even the one that says that the worker is there; so its nanny is asked whether it
computes, and what made one worker silent is left alone on the next.
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

from spae_dask.engine.holders import Ask, Holder, idle_places

SURE_SECONDS = 8.0
"""It must stay so for this long: after a computer has slept, or its clock was set, each looks silent for a moment."""

NANNY_SECONDS = 5.0
"""How long a nanny may take to answer."""

WORK_SECONDS = 1.0
WORK_SHARE = 0.02
"""A process computes if it uses this share of a processor in this time: little, where many share few."""

KILL_SECONDS = 10.0
"""How long a nanny may take to end its worker; without an answer the worker is taken out all the same."""

MOST_DEAD = 8
"""Workers taken for dead in a pass."""


@dataclass
class Silence:
    """Silent workers of a pass.

    Parameters
    ----------
    client : distributed.Client
        Where the pass runs.
    ask : callable
        Asks the scheduler a question, and gives up after a while.
    """

    client: Client
    ask: Ask
    _since: dict[tuple[str, float], float] = field(default_factory=dict)
    _suspect: set[Any] = field(default_factory=set)
    _n_dead: int = 0

    def take_out(self, holders: Sequence[Holder]) -> list[Holder]:
        """Have workers that are not heard of ended, or forgotten; these. What they had, others are given."""
        now = time.monotonic()
        known = ((each.address, each.last_seen) for each in holders if each.is_silent)
        self._since = {one: self._since.get(one, now) for one in known}
        if not self._since or not idle_places(holders):
            return []
        dead = [
            each
            for each in holders
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
        """Those of these workers of which a nanny says that they compute."""

        async def answer(address: str) -> bool:
            with suppress(Exception):
                said = self.client._run(_is_at_work, workers=[address], nanny=True, on_error="ignore")
                return any((await asyncio.wait_for(said, NANNY_SECONDS)).values())
            return False

        said = await asyncio.gather(*map(answer, addresses))
        return [address for address, computes in zip(addresses, said, strict=True) if computes]

    def _try(self, question: Any) -> Any:
        # what is asked for here is help, without which the pass goes on
        with suppress(Exception):
            return self.ask(question)
        return None


async def _is_at_work(dask_worker: Nanny) -> bool:
    """Whether the worker of this nanny uses a processor."""
    process = psutil.Process(dask_worker.pid)
    began = sum(process.cpu_times()[:2])
    await asyncio.sleep(WORK_SECONDS)
    return bool(sum(process.cpu_times()[:2]) - began > WORK_SHARE * WORK_SECONDS)
