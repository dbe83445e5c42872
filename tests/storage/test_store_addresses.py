"""Addresses of stores that Zarr does not open by itself: Icechunk repositories, zip files and files of references."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from anndata import AnnData
from anndata.io import write_elem
from zarr.storage import LocalStore

from spae_dask import SparseEncoder
from spae_dask.cli.main import main
from spae_dask.errors import InvalidInput, NotFound, SpaeError, StorageError
from spae_dask.storage import checks
from spae_dask.storage.open import open_matrix
from spae_dask.storage.remote.address import without_secrets
from spae_dask.storage.sources.store_at import root_at
from spae_dask.xarray import GridEncoder
from tests.xarray.grids import field
from tests.zarr_stores import MEMBER, commit, kerchunk, repository, zipped

X = np.random.default_rng(1).standard_normal((80, 6))


def test_branch_tag_and_snapshot(tmp_path: Path) -> None:
    made = repository(tmp_path, X)
    first = made.lookup_branch("main")
    made.create_tag("v1", first)
    second = commit(made, X + 1)
    made.create_branch("side", first)
    url = f"icechunk://{tmp_path}/repo"
    wanted = {"": second, "?branch=main": second, "?branch=side": first, "?tag=v1": first, f"?snapshot={first}": first}
    for query, snapshot in wanted.items():
        source = open_matrix(url + query, array=MEMBER)
        np.testing.assert_array_equal(source.read(0), X if snapshot == first else X + 1)
        assert source.describe() == f"{url}?snapshot={snapshot}/{MEMBER}"
        assert without_secrets(source.describe()) == source.describe()


def test_what_was_opened_stays_when_the_branch_moves(tmp_path: Path) -> None:
    made = repository(tmp_path, X)
    source = open_matrix(f"icechunk://{tmp_path}/repo", array=MEMBER)
    commit(made, X + 1)
    there = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(there.read(0), X)
    assert there.describe() == source.describe()


def test_an_object_store(bucket: str) -> None:
    icechunk = pytest.importorskip("icechunk")
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    storage = icechunk.s3_storage(
        bucket=bucket.removeprefix("s3://"),
        prefix="repo",
        region="us-east-1",
        endpoint_url=endpoint,
        allow_http=True,
        force_path_style=True,
        from_env=True,
    )
    commit(icechunk.Repository.create(storage), X)
    source = open_matrix(f"icechunk://{bucket}/repo", array=MEMBER)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(source)).read(0), X)


@pytest.mark.parametrize(
    ("query", "error", "told"),
    [
        ("?branch=none", NotFound, "has no branch 'none'. It has main"),
        ("?tag=none", NotFound, "has no tag 'none'"),
        ("?snapshot=NONE", NotFound, "has no snapshot 'NONE'"),
        ("?token=abc", InvalidInput, "is not the address of an Icechunk repository"),
        ("?branch=", InvalidInput, "is not the address of an Icechunk repository"),
        ("/elsewhere", NotFound, "there is nothing at"),
        ("/snapshots", NotFound, "is not an Icechunk repository"),
    ],
)
def test_addresses_of_nothing(query: str, error: type[SpaeError], told: str, tmp_path: Path) -> None:
    repository(tmp_path, X)
    with pytest.raises(error, match=told) as found:
        open_matrix(f"icechunk://{tmp_path}/repo{query}", array=MEMBER)
    assert "abc" not in str(found.value)
    assert not (tmp_path / "repo/elsewhere").exists()


@pytest.mark.parametrize("url", ["icechunk://s3://user:hush@bucket/repo", "icechunk://http://host/repo"])
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput) as found:
        open_matrix(url)
    assert "hush" not in str(found.value)


def test_other_queries_are_still_secrets() -> None:
    assert without_secrets("icechunk://s3://b/x?branch=main") == "icechunk://s3://b/x?branch=main"
    for text in ("s3://b/x?branch=main", "icechunk://s3://b/x?key=1", "icechunk://s3://b/x?branch=a&key=1"):
        assert "?..." in without_secrets(text), text


@pytest.mark.parametrize("make", [zipped, kerchunk])
def test_files(make: Callable[..., object], tmp_path: Path) -> None:
    make(tmp_path, X)
    (path,) = (*tmp_path.glob("*.zip"), *tmp_path.glob("*.json"))
    source = open_matrix(str(path), array=MEMBER)
    np.testing.assert_array_equal(source.read(0), X)
    np.testing.assert_array_equal(open_matrix(path, array=MEMBER).read(0), X)


@pytest.mark.parametrize(
    ("name", "content"), [("x.zip", b"PK, but no zip"), ("x.json", b"[1"), ("y.json", b'{"a": 1}')]
)
def test_files_of_something_else(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SpaeError, match=name):
        open_matrix(tmp_path / name)


@pytest.mark.parametrize("name", ["zarr.json", f"{MEMBER}/c/0/0"])
def test_a_zip_file_that_unpacks_to_far_more_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "LARGEST_METADATA", 1 << 19)
    zipped(tmp_path, X)
    with ZipFile(tmp_path / "x.zarr.zip") as good, ZipFile(tmp_path / "bad.zip", "w", ZIP_DEFLATED) as bad:
        for each in good.infolist():
            bad.writestr(each.filename, bytes(1 << 20) if each.filename == name else good.read(each))
    with pytest.raises(StorageError, match=f"{name} has 1.0 MiB"):
        open_matrix(tmp_path / "bad.zip", array=MEMBER).read(0)


def test_commands_print_one_json_object_and_refuse_another_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = repository(tmp_path, X)
    fit = [
        "fit",
        f"icechunk://{tmp_path}/repo",
        "--array",
        MEMBER,
        "-k",
        "2",
        "-r",
        "3",
        "-o",
        str(tmp_path / "E.zarr"),
    ]
    fit += ["--force", "--json", "--checkpoint", str(tmp_path / "c"), "--keep-checkpoint", "--seed", "0"]
    fit += ["--method", "batch"]
    assert main(fit) == 0
    assert json.loads(capsys.readouterr().out)["certificate"]["ratio"] >= 1
    old = made.lookup_branch("main")
    commit(made, X)  # the same numbers: the snapshot is what counts
    assert main(fit) != 0
    told = capsys.readouterr().err
    assert old in told
    assert "belongs to another run" in told
    fit[1] += f"?snapshot={old}"
    assert main(fit) == 0


def test_an_output_within_the_repository_is_refused(tmp_path: Path) -> None:
    from spae_dask.storage.writing.output_paths import refuse_same

    with pytest.raises(InvalidInput, match="is or lies inside"):
        refuse_same(f"icechunk://{tmp_path}/repo?branch=main", tmp_path / "repo" / "x.zarr")


def address(kind: str, folder: Path, write: Callable[[Any], object]) -> str:
    """The address of a store of a kind, in which a function has written."""
    if kind != "icechunk":
        write(LocalStore(folder / "made.zarr"))
        path = str(folder / "made.zarr")
        return path if kind == "folder" else shutil.make_archive(path, "zip", path)
    icechunk = pytest.importorskip("icechunk")
    made = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder / "made")))
    session = made.writable_session("main")
    write(session.store)
    session.commit("made")
    return f"icechunk://{folder}/made"


KINDS = ("folder", "zip", "icechunk")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:zarr v3 autosharding", "ignore:Writing zarr v2")
def test_names_of_obs_are_known_in_every_store(kind: str, tmp_path: Path) -> None:
    obs = pd.DataFrame({"batch": np.resize(["a", "b", "b"], 80)}, index=[f"c{i}" for i in range(80)])
    adata = AnnData(X, obs)
    zarr_format = 3 if kind == "icechunk" else 2

    def write(store: Any) -> None:
        try:
            write_elem(zarr.open_group(store, mode="a", zarr_format=zarr_format), "/", adata)
        except TypeError as error:  # of anndata before it knew format 3
            pytest.skip(f"this anndata cannot write format {zarr_format}: {error}")

    where = address(kind, tmp_path, write)
    chosen = open_matrix(where, rows="batch == 'b'")
    np.testing.assert_array_equal(chosen.read(0), X[(obs["batch"] == "b").to_numpy()])
    found = SparseEncoder(2, n_nonzero=3, method="batch", covariates="C(batch)").fit(where)
    expected = SparseEncoder(2, n_nonzero=3, method="batch", covariates=obs).fit(X)
    assert found.certificate_.loss == pytest.approx(expected.certificate_.loss, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_grids_and_their_coordinates_are_known_in_every_store(kind: str, tmp_path: Path) -> None:
    air = field()
    where = address(kind, tmp_path, lambda store: xr.Dataset({"air": air}).to_zarr(store, consolidated=False))
    options = {"n_nonzero": 3, "method": "batch", "covariates": "season"}
    found = SparseEncoder(2, **options).fit(open_matrix(where, weights="coslat"))
    expected = GridEncoder(2, weights="coslat", **options).fit(air, "time")
    np.testing.assert_array_equal(found.components_, expected.encoder_.components_)
    np.testing.assert_array_equal(found.transform(where), expected.scores(air))


def test_what_is_no_store_has_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "x.npy", X)
    assert root_at(str(tmp_path / "folder")) is None
    assert root_at(str(tmp_path / "x.npy")) is None
    assert root_at(str(tmp_path / "nothing.zarr.zip")) is None
