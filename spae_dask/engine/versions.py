"""Check that scheduler and workers run the same package version, Python and distributed as this process.

Dask does not say so in time: a worker that cannot import what a task is made of closes itself, and the pass would wait
for another one. So all are asked when a run begins. Workers that come later are not: each task knows what the process
runs that made it, and is refused by a worker that runs something else. An older release lacks `run_if_same_version`.
"""

import pkgutil
import platform
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import distributed
from distributed import Client, get_worker

from spae_dask.errors import ClusterUnavailable

SECONDS = 10
"""Seconds that the answers may take. The check goes on without an unresponsive worker: a pass replaces it."""

NAMED = 3
"""Workers that a message names."""

VERSION = "spae_dask:__version__"
"""Name that a function of Python resolves on each process, where functions of this package may be missing."""


Result = TypeVar("Result")


def software() -> str:
    """Software of this process, in words that are equal for equal software."""
    here: str = pkgutil.resolve_name(VERSION)
    return f"spae_dask {here}, {_named(platform.python_version(), distributed.__version__)}"


def run_if_same_version(function: Callable[..., Result], wanted: str, *args: Any) -> Result:
    """Call ``function`` for a task that was made by a process running ``wanted``, as `software` says it.

    Raises
    ------
    ClusterUnavailable
        If this process runs something else; nothing is called then.
    """
    found = software()
    if found != wanted:
        raise ClusterUnavailable(
            f"the worker {get_worker().address} runs {found}, but this run needs {wanted}. The worker joined, "
            "or answered, only after the run began. Install the same versions there, or remove the worker, "
            "and run again."
        )
    return function(*args)


def check_versions(client: Client) -> None:
    """Refuse a cluster whose processes could not run our tasks, or would run others.

    Raises
    ------
    ClusterUnavailable
        If one of them has no spae_dask, another version of it, another Python (3.x) or another release of distributed,
        and says so in time; or if the connection breaks.
    """
    here: str = pkgutil.resolve_name(VERSION)
    try:
        versions = client.sync(client._get_versions, callback_timeout=SECONDS)
        own = _ours(versions["client"])
        found = {"the scheduler": versions["scheduler"], **versions["workers"]}
        _refuse(client, {who: _ours(each) for who, each in found.items() if each}, lambda each: each != own, own)
        imported: dict[str, Any] = {"the scheduler": _of_scheduler(client)}
        question = partial(client._run, pkgutil.resolve_name, VERSION, on_error="return")
        imported |= client.sync(question, callback_timeout=SECONDS)
    except TimeoutError:
        return
    except OSError as error:
        raise ClusterUnavailable(
            f"the cluster at {client.scheduler.address} does not report its versions: {error}. Check that it "
            "runs, and check the network."
        ) from error
    lacking = {who: str(each) for who, each in imported.items() if isinstance(each, ImportError)}
    _refuse(client, lacking, lambda _: True, f"spae_dask {here}")
    other = {who: f"spae_dask {each}" for who, each in imported.items() if isinstance(each, str)}
    _refuse(client, other, lambda each: each != f"spae_dask {here}", f"spae_dask {here}")


def _of_scheduler(client: Client) -> Any:
    """The scheduler opens graphs, so it must know what they hold."""
    try:
        question = partial(client._run_on_scheduler, pkgutil.resolve_name, VERSION)
        return client.sync(question, callback_timeout=SECONDS)
    except ImportError as error:
        return error


def _ours(versions: Mapping[str, Any]) -> str:
    """Versions that must be equal, from the answer of a process; their last numbers may differ."""
    return _named(str(versions["host"]["python"]), str(versions["packages"].get("distributed")))


def _named(python: str, of_distributed: str) -> str:
    return f"Python {_release(python)} and distributed {_release(of_distributed)}"


def _release(version: str) -> str:
    found = re.match(r"\d+\.\d+", version)
    return version if found is None else found[0]


def _refuse(client: Client, found: Mapping[str, str], wrong: Callable[[str], bool], own: str) -> None:
    bad = [who for who in found if wrong(found[who])]
    if not bad:
        return
    more = f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
    raise ClusterUnavailable(
        f"the cluster at {client.scheduler.address} does not run the same versions as this process, "
        f"{own}: {', '.join(bad[:NAMED])}{more} ({found[bad[0]]}). Install the same versions there, or "
        "start scheduler and workers from the environment of this process."
    )
