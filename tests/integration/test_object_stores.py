"""Commands whose data and outputs are on an object store: the same bits as on a disk, and no secret anywhere."""

import json
import os
import pickle
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from zarr.core.sync import sync

from spae_dask import load_encoder, open_matrix
from spae_dask.errors import NotFound
from spae_dask.estimators.saved import save_encoder
from spae_dask.estimators.writing import transform_to_zarr
from spae_dask.storage.remote.address import parse_address
from spae_dask.storage.remote.remote_store import open_remote
from tests.cli.conftest import QUICK, K, Outcome, R, planted
from tests.estimators.sources import batch_encoder
from tests.s3_service import KEY, SECRET, flaky_proxy

ClusterOpener = Callable[..., Any]


def objects(url: str) -> dict[str, bytes]:
    """Everything below a URL."""
    store = open_remote(parse_address(url))

    async def read() -> dict[str, bytes]:
        prototype = zarr.core.buffer.default_buffer_prototype()
        return {key: (await store.get(key, prototype)).to_bytes() async for key in store.list()}

    return sync(read())


def files(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def arrays(stored: dict[str, bytes]) -> dict[str, bytes]:
    """Without metadata, which tell paths and dates."""
    return {key: content for key, content in stored.items() if not key.endswith("zarr.json")}


@pytest.mark.parametrize("cluster", ["none", "local:2"])
def test_every_step_gives_the_bits_it_gives_on_a_disk(
    spae: Callable[..., Outcome], bucket: str, tmp_path: Path, cluster: str
) -> None:
    np.save(tmp_path / "x.npy", planted())
    told = []
    for place in (str(tmp_path), bucket):
        steps = [
            ("ingest", tmp_path / "x.npy", f"{place}/x.zarr", "--chunks", 500, 12),
            ("fit", f"{place}/x.zarr", "-k", K, "-r", R, *QUICK, "-o", f"{place}/e.zarr", "--cluster", cluster),
            ("transform", f"{place}/x.zarr", f"{place}/e.zarr", "-o", f"{place}/z.zarr", "--cluster", cluster),
            ("evaluate", f"{place}/x.zarr", f"{place}/e.zarr"),
            ("inspect", f"{place}/e.zarr"),
        ]
        for step in steps:
            outcome = spae(*step, "--json")
            assert outcome.code == 0, outcome.err
            told.append(outcome.out + outcome.err)
    for name in ("x.zarr", "e.zarr", "z.zarr"):
        here, there = files(tmp_path / name), objects(f"{bucket}/{name}")
        assert arrays(here) == arrays(there)
        assert set(here) == set(there)
        told += [content.decode("latin-1") for content in there.values()]
    assert not [text for text in told if SECRET in text or KEY in text]


def test_outputs_are_not_replaced_without_force_nor_made_of_themselves(
    spae: Callable[..., Outcome], bucket: str, store: Path
) -> None:
    assert spae("ingest", store, f"{bucket}/x.zarr", "-q").code == 0
    again = spae("ingest", store, f"{bucket}/x.zarr")
    assert (again.code, "Use --force" in again.err) == (3, True)
    assert spae("ingest", store, f"{bucket}/x.zarr", "--force", "-q").code == 0
    itself = spae("ingest", f"{bucket}/x.zarr", f"{bucket}/x.zarr", "--force")
    assert (itself.code, "the same" in itself.err) == (3, True)


def test_sparse_rows_are_written_and_read(spae: Callable[..., Outcome], bucket: str, tmp_path: Path) -> None:
    X = sp.random_array((400, 30), density=0.2, format="csr", random_state=np.random.default_rng(0))
    from spae_dask.storage.ingesting.ingest import ingest

    ingest(X, f"{bucket}/s.zarr")
    blocks = open_matrix(f"{bucket}/s.zarr")
    np.testing.assert_array_equal(
        sp.vstack([blocks.read(i) for i in range(len(blocks.bounds) - 1)]).toarray(), X.toarray()
    )
    assert spae("fit", f"{bucket}/s.zarr", "-k", 2, "-r", 3, *QUICK, "-o", f"{bucket}/e.zarr", "-q").code == 0


def test_workers_of_a_cluster_read_and_write_and_are_sent_no_secret(
    bucket: str, open_cluster: ClusterOpener, store: Path, tmp_path: Path
) -> None:
    from spae_dask.storage.ingesting.ingest import ingest

    ingest(store, f"{bucket}/x.zarr", chunks=(500, 12))
    source = open_matrix(f"{bucket}/x.zarr")
    with_disk = batch_encoder(K, n_nonzero=R).fit(str(store))
    client = open_cluster(2)
    encoder = batch_encoder(K, n_nonzero=R).fit(source)
    np.testing.assert_array_equal(encoder.components_, with_disk.components_)
    save_encoder(encoder, f"{bucket}/e.zarr", source=source)
    transform_to_zarr(source, load_encoder(f"{bucket}/e.zarr"), f"{bucket}/z.zarr")
    transform_to_zarr(str(store), with_disk, str(tmp_path / "z.zarr"))
    np.testing.assert_array_equal(
        zarr.open_array(open_remote(parse_address(f"{bucket}/z.zarr")), mode="r")[...],
        zarr.open_array(tmp_path / "z.zarr", mode="r")[...],
    )
    assert SECRET.encode() not in pickle.dumps(source)
    assert str(client.submit(os.getpid).result()).isdigit()


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ({"x.zarr/c/3/0": [403]}, 5, "c/3/0 at .* cannot be read: access was denied"),
        ({"x.zarr/zarr.json": [403]}, 5, "zarr.json at .* cannot be read: access was denied"),
        ({"PUT": [403]}, 5, "cannot be written: access was denied"),
    ],
)
def test_refusals_end_with_the_code_of_storage(
    spae: Callable[..., Outcome],
    bucket: str,
    store: Path,
    s3_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    script: dict[str, list[Any]],
    code: int,
    words: str,
) -> None:
    assert spae("ingest", store, f"{bucket}/x.zarr", "--chunks", 500, 12, "-q").code == 0
    with flaky_proxy(s3_endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        proxy.script, proxy.forever = script, True
        outcome = spae(
            "fit", f"{bucket}/x.zarr", "-k", K, "-r", R, *QUICK, "-o", f"{bucket}/e.zarr", "--cluster", "none"
        )
    assert outcome.code == code
    assert re.search(words, outcome.err), outcome.err
    assert SECRET not in outcome.err
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    assert objects(f"{bucket}/e.zarr") == {}


def test_what_is_not_there_ends_with_the_code_of_bad_input(spae: Callable[..., Outcome], bucket: str) -> None:
    for url, words in (
        (f"{bucket}/none.zarr", "there is nothing at"),
        ("s3://no-such-bucket/x.zarr", "no such bucket"),
    ):
        outcome = spae("check", url)
        assert (outcome.code, words in outcome.err) == (3, True)


@pytest.mark.chaos
def test_a_killed_transform_leaves_nothing_that_opens(
    spae: Callable[..., Outcome],
    spae_process: Callable[..., subprocess.Popen[str]],
    bucket: str,
    encoder: Path,
    store: Path,
    s3_endpoint: str,
) -> None:
    with flaky_proxy(s3_endpoint) as proxy:
        proxy.script, proxy.forever = {"PUT": [None, ("delay", 30.0)]}, True
        process = spae_process(
            "transform", store, encoder, "-o", f"{bucket}/z.zarr", "--cluster", "none", AWS_ENDPOINT_URL=proxy.endpoint
        )
        deadline = time.monotonic() + 60
        while sum(n for line, n in proxy.seen.items() if line.startswith("PUT")) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with pytest.raises(NotFound, match="has not finished"):
        open_matrix(f"{bucket}/z.zarr")
    assert spae("check", f"{bucket}/z.zarr").code == 3
    assert spae("transform", store, encoder, "-o", f"{bucket}/z.zarr", "-q").code == 3
    assert spae("transform", store, encoder, "-o", f"{bucket}/z.zarr", "-q", "--force").code == 0
    assert open_matrix(f"{bucket}/z.zarr").shape == (3000, K)


def test_the_plan_tells_no_secret(spae: Callable[..., Outcome], bucket: str, store: Path) -> None:
    assert spae("ingest", store, f"{bucket}/x.zarr", "-q").code == 0
    outcome = spae("plan", f"{bucket}/x.zarr", "-k", K, "-r", R, "--json", "-vv")
    assert outcome.code == 0
    assert json.loads(outcome.out)
    assert SECRET not in outcome.out + outcome.err


def test_an_encoder_by_url_serves_commands_and_pipelines_as_one_on_a_disk(
    spae: Callable[..., Outcome], bucket: str, store: Path, encoder: Path, tmp_path: Path
) -> None:
    url = f"{bucket}/e.zarr"
    save_encoder(load_encoder(encoder), url)
    told = [spae("evaluate", store, each, "--json") for each in (encoder, url)]
    assert [each.code for each in told] == [0, 0], told[1].err
    assert told[0].document["certificate"] == told[1].document["certificate"]
    assert spae("report", url, "-o", tmp_path / "r.html", "-q").code == 0
    steps = ("evaluate", f'data = "{store}"'), ("transform", f'data = "{store}"'), ("report", "")
    text = "".join(f'\n[[step]]\nkind = "{kind}"\nencoder = "{url}"\n{data}\n' for kind, data in steps)
    (tmp_path / "p.toml").write_text(f'output = "out"\n{text}')

    def statuses() -> list[str]:
        outcome = spae("run", tmp_path / "p.toml", "--json", "--cluster", "none")
        assert outcome.code == 0, outcome.err
        return [each["status"] for each in outcome.document["steps"]]

    assert statuses() == ["ran"] * 3
    assert json.loads((tmp_path / "out/evaluate.json").read_text())["loss"] == told[0].document["certificate"]["loss"]
    assert statuses() == ["skipped"] * 3
    save_encoder(batch_encoder(K, n_nonzero=R - 1).fit(str(store)), url, overwrite=True)
    assert statuses() == ["ran"] * 3
    dry = spae("run", tmp_path / "p.toml", "-n", "--cluster", "none")
    assert (dry.code, dry.out.count("up to date")) == (0, 3)


def test_what_is_no_encoder_or_no_path_at_a_url_is_said(
    spae: Callable[..., Outcome], bucket: str, store: Path, encoder: Path, tmp_path: Path
) -> None:
    assert spae("ingest", store, f"{bucket}/x.zarr", "-q").code == 0
    for lines, said in (
        (f'encoder = "{bucket}/x.zarr"', "is not an encoder"),
        (f'encoder = "{bucket}/none.zarr"', "there is nothing at"),
        (f'encoder = "{encoder}"\npath = "{bucket}/path.csv"', "Copy the file there"),
    ):
        (tmp_path / "p.toml").write_text(f'output = "out"\n\n[[step]]\nkind = "report"\n{lines}\n')
        outcome = spae("run", tmp_path / "p.toml")
        assert (outcome.code, said in outcome.err) == (3, True), outcome.err
