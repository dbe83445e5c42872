"""How many threads of a cluster have nothing to do."""

import pytest

from spae_dask.engine.holders import Holder, idle_places


def busy(address: str, n: int, *, threads: int = 1, silence: float = 0.0, running: bool = True) -> Holder:
    return Holder(address, threads, tuple(f"{address}-{i}" for i in range(n)), silence, running)


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
    holders: list[Holder], places: list[str]
) -> None:
    assert idle_places(holders) == places
