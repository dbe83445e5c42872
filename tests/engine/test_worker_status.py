"""How many threads of a cluster have nothing to do, and which workers a task may run on."""

import time

import pytest
from distributed import Client, LocalCluster

from spae_dask.engine.monitor import WorkerStatus, allowed_workers, idle_workers


def busy(address: str, n: int, *, threads: int = 1, silence: float = 0.0, running: bool = True) -> WorkerStatus:
    return WorkerStatus(address, threads, tuple(f"{address}-{i}" for i in range(n)), silence, running)


@pytest.mark.parametrize(
    ("holders", "places"),
    [
        ([busy("a", 1), busy("b", 0)], ["b"]),
        ([busy("a", 2), busy("b", 0)], ["b"]),  # one runs, one waits for its turn
        ([busy("a", 1), busy("b", 1)], []),
        ([busy("a", 1), busy("b", 1), busy("c", 0)], []),  # more are at work than not
        ([busy("a", 1), busy("b", 1), busy("c", 0), busy("d", 0)], ["c", "d"]),
        ([busy("a", 1, threads=4), busy("b", 3, threads=4)], ["a", "a", "a", "b"]),
        ([busy("a", 1), busy("b", 0, running=False)], []),
        ([busy("a", 1, silence=99), busy("b", 0)], ["b"]),
        ([busy("a", 0, silence=99), busy("b", 1)], []),
        ([], []),
    ],
)
def test_spans_are_run_again_only_if_half_of_the_threads_have_nothing_to_do(
    holders: list[WorkerStatus], places: list[str]
) -> None:
    assert idle_workers(holders) == places


def test_where_a_task_may_run_is_what_the_scheduler_makes_of_the_user_s_words() -> None:
    with (
        LocalCluster(
            n_workers=2, processes=False, threads_per_worker=1, dashboard_address=":0", resources={"GPU": 1}
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        addresses = frozenset(client.scheduler_info()["workers"])
        first = sorted(addresses)[0]
        futures = {
            "anywhere": client.submit(_same, 1, pure=False),
            "on one": client.submit(_same, 2, workers=[first], pure=False),
            "rather on one": client.submit(_same, 3, workers=[first], allow_other_workers=True, pure=False),
            "with a GPU": client.submit(_same, 4, resources={"GPU": 1}, pure=False),
            "with what is nowhere": client.submit(_same, 5, resources={"TPU": 1}, pure=False),
        }
        keys = {name: future.key for name, future in futures.items()}
        deadline = time.monotonic() + 30
        found: dict[str, frozenset[str] | None] = {}
        while len(found) < len(keys) and time.monotonic() < deadline:  # the scheduler may not have all of them yet
            found = allowed_workers(client, client.sync, [*keys.values(), "unknown"])
    assert {name: found[key] for name, key in keys.items()} == {
        "anywhere": None,
        "on one": {first},
        "rather on one": None,
        "with a GPU": addresses,
        "with what is nowhere": set(),
    }
    assert len(found) == len(keys)
    assert allowed_workers(client, lambda question: None, list(keys.values())) == {}


def _same(number: int) -> int:
    return number
