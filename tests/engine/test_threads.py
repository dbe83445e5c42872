"""BLAS is kept to one thread while anybody is inside, also after a start that failed."""

import pytest
from threadpoolctl import ThreadpoolController

from spae_dask.errors import PassFailed
from spae_dask.passes import threads


def n_threads() -> set[int]:
    return {each["num_threads"] for each in ThreadpoolController().select(user_api="blas").info()}


def test_all_libraries_have_one_thread_inside_and_what_they_had_after() -> None:
    before = n_threads()
    with threads.one_blas_thread(), threads.one_blas_thread():
        assert n_threads() == {1}
    assert n_threads() == before


def test_libraries_that_cannot_be_listed_are_told_and_the_next_guard_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden() -> None:
        raise FileNotFoundError(2, "No such file or directory", "/proc/self/maps")

    monkeypatch.setattr(threads, "_GUARD", threads._BlasGuard())
    monkeypatch.setattr(threads, "ThreadpoolController", hidden)
    with pytest.raises(PassFailed, match=r"/proc/self/maps'\), so BLAS cannot be kept.*Make /proc readable"):
        threads._GUARD.enter()

    monkeypatch.setattr(threads, "ThreadpoolController", ThreadpoolController)
    with threads.one_blas_thread():
        assert n_threads() == {1}
