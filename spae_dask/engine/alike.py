"""Whether scheduler and workers run what this process runs: the package of the same version, Python and distributed.

Dask does not say so in time: a worker that cannot import what a task is made of closes itself, and the pass would wait
for another one.
"""

import pkgutil
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from distributed import Client

from spae_dask.errors import ClusterUnavailable

SECONDS = 10
"""How long the answers may take. A worker that stands still gives none, and is not waited for: a pass replaces it."""

NAMED = 3
"""Workers that a message names."""

VERSION = "spae_dask:__version__"
"""What is asked for, by a function of Python's own: one of ours could not even be sent."""


def refuse_unlike(client: Client) -> None:
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
            f"the cluster at {client.scheduler.address} does not tell what it runs: {error}. See whether it runs, and "
            "the network."
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
    """What must be the same, of what dask tells of a process: their last numbers may differ."""
    python = str(versions["host"]["python"])
    distributed = str(versions["packages"].get("distributed"))
    return f"Python {_release(python)} and distributed {_release(distributed)}"


def _release(version: str) -> str:
    found = re.match(r"\d+\.\d+", version)
    return version if found is None else found[0]


def _refuse(client: Client, found: Mapping[str, str], wrong: Callable[[str], bool], own: str) -> None:
    bad = [who for who in found if wrong(found[who])]
    if not bad:
        return
    more = f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
    raise ClusterUnavailable(
        f"the cluster at {client.scheduler.address} does not run what this process does, {own}: "
        f"{', '.join(bad[:NAMED])}{more} ({found[bad[0]]}). Install the same there, or start scheduler and workers "
        "from the environment of this process."
    )
