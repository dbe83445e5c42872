"""Checkpoints on an object store, by the command line: killed, out of reach, listed and removed."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spae_dask import retry
from spae_dask.retry import RetryPolicy
from spae_dask.storage.checkpoints.checkpoint_record import states_at
from tests.cli.conftest import QUICK, K, Outcome, R, planted, write_zarr
from tests.s3_service import KEY, SECRET, flaky_proxy

Spae = Callable[..., Outcome]


def arrays(path: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(path)): each.read_bytes()
        for each in path.rglob("*")
        if each.is_file() and each.name != "zarr.json"
    }


@pytest.mark.chaos
@pytest.mark.parametrize("cluster", ["none", pytest.param("local:2", marks=pytest.mark.slow)])
def test_a_fit_that_is_killed_goes_on_from_the_bucket_to_the_same_bits(
    cluster: str,
    spae: Spae,
    spae_process: Callable[..., Any],
    store: Path,
    bucket: str,
    s3_endpoint: str,
    tmp_path: Path,
) -> None:
    # two passes; the state of the second is held up for ever, so that the process is there to be killed
    common = ["fit", store, "-k", K, "-r", R, *QUICK, "--missing", "mean", "--cluster", cluster]
    assert spae(*common, "-o", tmp_path / "whole.zarr", "-q").code == 0
    place = f"{bucket}/runs/7"
    with flaky_proxy(s3_endpoint) as proxy:
        proxy.script, proxy.forever = {f"PUT /{bucket.removeprefix('s3://')}/runs/7/02-": [None, ("delay", 60.0)]}, True
        process = spae_process(
            *common, "-o", tmp_path / "e.zarr", "--checkpoint", place, AWS_ENDPOINT_URL=proxy.endpoint
        )
        deadline = time.monotonic() + 120
        while not any("/02-" in line and ".state" in line for line in proxy.seen if line.startswith("PUT")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "e.zarr").exists()
    last = spae(*common, "-o", tmp_path / "e.zarr", "--checkpoint", place)
    assert last.code == 0, last.err
    assert "resumed: 1 of 1 spans already done" in last.err
    assert arrays(tmp_path / "e.zarr") == arrays(tmp_path / "whole.zarr")
    assert states_at(place).all_files() == []


def test_a_service_that_goes_away_ends_with_5_and_other_parameters_with_3(
    spae: Spae, store: Path, bucket: str, s3_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "POLICY", RetryPolicy(first_wait=0.002))
    place = f"{bucket}/run"
    words = ["fit", store, "-k", K, "-r", R, *QUICK, "--cluster", "none", "-o", tmp_path / "e.zarr"]
    words += ["--checkpoint", place]
    with flaky_proxy(s3_endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        proxy.script, proxy.forever = {"PUT": [None, None, "reset"]}, True  # what it is of, the pass, its first state
        ended = spae(*words)
    assert ended.code == 5
    assert f"{place}/01-core-" in ended.err.replace("\n", "")
    assert "7 tries" in ended.err
    assert SECRET not in ended.err
    assert KEY not in ended.err
    assert not (tmp_path / "e.zarr").exists()
    gone = spae(*words)
    assert gone.code == 5
    assert "no connection could be made" in " ".join(gone.err.split())
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    other = spae(*words, "--seed", 3)
    assert other.code == 3
    assert "seed was 0, is 3" in other.err
    assert spae(*words).code == 0


def test_checkpoints_are_listed_and_removed(spae: Spae, store: Path, bucket: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        words = ["fit", store, "-k", K, "-r", R, *QUICK, "-o", tmp_path / f"{name}.zarr", "--cluster", "none", "-q"]
        assert spae(*words, "--checkpoint", f"{bucket}/runs/{name}", "--keep-checkpoint").code == 0
    states_at(f"{bucket}/runs/other").write("notes.txt", [b"mine"])
    for place, names in ((f"{bucket}/runs", ["a", "b"]), (f"{bucket}/runs/a/", ["a"])):
        listed = spae("checkpoint", "ls", place, "--json")
        assert listed.code == 0, listed.err
        found = listed.document["checkpoints"]
        assert [each["place"] for each in found] == [f"{bucket}/runs/{name}" for name in names]
        assert found[0]["passes"] == [{"name": "core", "n_spans": 1, "n_done": 1}]
        assert found[0]["seconds_old"] < 600
    assert "core: 1 of 1 spans" in spae("checkpoint", "ls", f"{bucket}/runs/b").out
    assert "none is older than 7d" in spae("checkpoint", "rm", f"{bucket}/runs", "--older-than", "7d").out
    for place, told in (
        (f"{bucket}/runs/other", "it contains 'notes.txt'. Nothing was removed"),
        (f"{bucket}/runs/none", "there is no checkpoint at"),
        ("s3://no-such-bucket/run", "no such bucket"),
        ("memory://run", "Give a local or mounted folder"),
    ):
        ended = spae("checkpoint", "rm", place)
        assert (ended.code, told in " ".join(ended.err.split())) == (3, True), ended.err
    assert spae("checkpoint", "rm", f"{bucket}/runs/a").code == 0
    removed = spae("checkpoint", "rm", f"{bucket}/runs", "--older-than", "0m", "--json")
    assert list(removed.document["removed"]) == [f"{bucket}/runs/b"]
    assert [each.path for each in states_at(f"{bucket}/runs").all_files()] == ["other/notes.txt"]


def test_two_jobs_that_begin_one_checkpoint_at_once_do_not_mix(
    spae: Spae, spae_process: Callable[..., Any], bucket: str, tmp_path: Path
) -> None:
    store = write_zarr(tmp_path / "x.zarr", planted())
    place = f"{bucket}/run"
    words = ["fit", store, "-k", K, "-r", R, *QUICK, "--cluster", "none", "--checkpoint", place, "--keep-checkpoint"]
    jobs = [spae_process(*words, "--seed", seed, "-o", tmp_path / f"{seed}.zarr") for seed in (1, 2)]
    ended = [(job.communicate(timeout=200)[1], job.returncode) for job in jobs]
    assert sorted(code for _, code in ended) == [0, 3], ended
    loser = next(seed for seed, (_, code) in zip((1, 2), ended, strict=True) if code == 3)
    assert f"seed was {3 - loser}, is {loser}" in ended[loser - 1][0]
    assert not (tmp_path / f"{loser}.zarr").exists()
    assert spae(*words, "--seed", 3 - loser, "-o", tmp_path / "again.zarr").code == 0
    assert arrays(tmp_path / "again.zarr") == arrays(tmp_path / f"{3 - loser}.zarr")
