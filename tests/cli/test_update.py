"""``spae update`` adds rows from the command line, in place or not, and a killed run leaves the old encoder."""

import contextlib
import json
import os
import random
import shlex
import shutil
import signal
import time

import numpy as np
import pytest
import zarr

from spae_dask import load_encoder
from spae_dask.storage.artifacts.artifact_reading import encoder_fingerprint
from tests.cli.conftest import QUICK, K, R, planted, write_zarr
from tests.cli.test_exit_codes import failed

CUT = 2000


@pytest.fixture
def files(tmp_path, spae):
    """Old rows, new rows, all of them, and an encoder of the old ones that keeps its state."""
    X = planted()
    for name, rows in (("old", X[:CUT]), ("new", X[CUT:]), ("all", X)):
        write_zarr(tmp_path / f"{name}.zarr", rows)
    words = ["fit", tmp_path / "old.zarr", "-k", K, "-r", R, *QUICK, "-o", tmp_path / "e.zarr", "--keep-state", "-q"]
    assert spae(*words).code == 0
    return tmp_path


def test_it_replaces_the_encoder_by_that_of_all_rows(files, spae):
    done = spae("update", files / "e.zarr", files / "new.zarr", "--json")
    assert done.code == 0, done.err
    assert spae("fit", files / "all.zarr", "-k", K, "-r", R, *QUICK, "-o", files / "w.zarr", "-q").code == 0
    found, wanted = load_encoder(files / "e.zarr"), load_encoder(files / "w.zarr")
    np.testing.assert_allclose(found.components_, wanted.components_, rtol=1e-12, atol=1e-13)
    document = done.document
    assert document["encoder"] == str(files / "e.zarr")
    np.testing.assert_allclose(document["certificate"]["loss"], wanted.certificate_.loss, rtol=1e-12)
    assert [each["n_rows"] for each in document["parts"]] == [CUT, 1000]
    assert document["certificate"]["rows"].startswith("3,000: 2,000 of ")
    assert sorted(each.name for each in files.iterdir() if each.name.startswith(".")) == []


def test_it_leaves_the_encoder_where_another_output_is_named(files, spae):
    before = encoder_fingerprint(files / "e.zarr")
    words = ["update", files / "e.zarr", files / "new.zarr", "-o", files / "e2.zarr", "--forget", "0.5"]
    done = spae(*words)
    assert done.code == 0, done.err
    assert encoder_fingerprint(files / "e.zarr") == before
    assert "rows               3,000: 2,000 of " in done.out
    assert "old.zarr at weight 0.5, 1,000 of " in done.out
    failed(spae(*words), 3, "exists and is not overwritten")
    assert spae(*words, "--force").code == 0
    failed(spae("update", files / "e.zarr", files / "new.zarr", "-o", files / "e.zarr"), 3, "e.zarr")


def test_the_command_that_is_told_makes_it_again(files, spae):
    for weight in ("0.5", "1"):
        assert spae("update", files / "e.zarr", files / "new.zarr", "--forget", weight).code == 0
    told = spae("inspect", files / "e.zarr", "--json").document["fit_command"]
    commands = [shlex.split(each)[1:] for each in told.split(" && ")]
    assert [words[0] for words in commands] == ["fit", "update", "update"]
    place = str(files / "again.zarr")
    for words in commands:
        assert spae(*(place if word == "encoder.zarr" else word for word in words)).code == 0
    one, other = load_encoder(files / "e.zarr"), load_encoder(place)
    assert one.components_.tobytes() == other.components_.tobytes()
    assert one.certificate_ == other.certificate_


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nothing.zarr", "new.zarr"], 3, "there is no encoder at"),
        (["e.zarr", "nothing.zarr"], 3, "nothing.zarr"),
        (["e.zarr", "new.zarr", "--forget", "2"], 3, "forget=2.0 is not allowed"),
        (["e.zarr", "new.zarr", "--forget", "x"], 2, "--forget"),
        (["e.zarr"], 2, "DATA"),
        (["e.zarr", "narrow.zarr"], 3, "5 features"),
        (["bare.zarr", "new.zarr"], 3, "Fit it again with --keep-state"),
        (["old.zarr", "new.zarr"], 3, "is not an encoder"),
        (["e.zarr", "new.zarr", "--memory", "1MB"], 4, "memory"),
    ],
)
def test_it_says_what_is_wrong_and_leaves_the_encoder(words, code, said, files, spae):
    write_zarr(files / "narrow.zarr", planted()[:, :5])
    assert spae("fit", files / "old.zarr", "-k", K, "-r", R, *QUICK, "-o", files / "bare.zarr", "-q").code == 0
    before = encoder_fingerprint(files / "e.zarr")
    ended = spae("update", *(files / word if word.endswith(".zarr") else word for word in words))
    failed(ended, code, said)
    assert encoder_fingerprint(files / "e.zarr") == before


def test_an_encoder_on_an_object_store_is_not_replaced(files, spae):
    failed(spae("update", "s3://bucket/e.zarr", files / "new.zarr"), 3, "cannot replace an encoder in one step", "-o")


def test_a_fit_that_keeps_a_state_says_what_cannot_be_kept(files, spae):
    words = ["fit", files / "old.zarr", "-k", K, "-r", R, "-o", files / "no.zarr", "--keep-state"]
    failed(spae(*words, "--missing", "mean"), 3, "--keep-state", "--missing mean")
    failed(spae(*words, "--strategy", "sketch"), 3, "no state to which rows can be added")


def test_parts_of_an_array_job_keep_a_state_too(files, spae):
    common = [files / "old.zarr", "-k", K, "-r", R, *QUICK, "--keep-state", "--checkpoint", files / "kept"]
    for part in ("1/2", "2/2"):
        assert spae("fit-part", part, *common, "-q").code == 0
    assert spae("fit-finish", *common, "-o", files / "p.zarr", "-q").code == 0
    for name in ("e", "p"):
        assert spae("update", files / f"{name}.zarr", files / "new.zarr", "-q").code == 0
    one, other = load_encoder(files / "e.zarr"), load_encoder(files / "p.zarr")
    assert one.components_.tobytes() == other.components_.tobytes()


def test_an_update_beside_another_one_is_not_lost(files, spae, monkeypatch):
    from spae_dask import SparseEncoder

    shutil.copytree(files / "e.zarr", files / "other.zarr")
    assert spae("update", files / "other.zarr", files / "all.zarr", "-q").code == 0
    update = SparseEncoder.update

    def slow(self, X, **more):
        found = update(self, X, **more)
        shutil.rmtree(files / "e.zarr")
        shutil.copytree(files / "other.zarr", files / "e.zarr")
        return found

    monkeypatch.setattr(SparseEncoder, "update", slow)
    failed(spae("update", files / "e.zarr", files / "new.zarr"), 3, "written again during the update")
    assert encoder_fingerprint(files / "e.zarr") == encoder_fingerprint(files / "other.zarr")


@pytest.mark.parametrize("n_written", [0, 3, 8, 17])
def test_a_write_that_fails_half_way_leaves_the_old_encoder(n_written, files, spae, monkeypatch):
    before, put, left = encoder_fingerprint(files / "e.zarr"), zarr.storage.LocalStore.set, [n_written]

    async def failing(self, key, value):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device", str(self.root))
        await put(self, key, value)

    monkeypatch.setattr(zarr.storage.LocalStore, "set", failing)
    ended = spae("update", files / "e.zarr", files / "new.zarr")
    monkeypatch.undo()
    assert ended.code == 5, ended.err
    assert encoder_fingerprint(files / "e.zarr") == before
    assert [each.name for each in files.iterdir() if each.name.startswith(".")] == []


@pytest.mark.chaos
def test_a_killed_update_leaves_the_old_encoder_or_the_new_one(files, spae, spae_forked):
    place, kept = files / "e.zarr", files / "kept.zarr"
    shutil.copytree(place, kept)
    words = ["update", place, files / "new.zarr", "-q"]
    began = time.monotonic()
    process = spae_forked(*words, "--json")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    lasted, new = time.monotonic() - began, json.loads(out)["certificate"]
    old, draw = load_encoder(kept).certificate_.as_dict(), random.Random(0)
    for share in (0.8, 0.95, 1.0):
        shutil.rmtree(place)
        shutil.copytree(kept, place)
        process = spae_forked(*words)
        time.sleep(share * lasted * draw.uniform(0.95, 1.05))
        with contextlib.suppress(ProcessLookupError):  # it may have ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert json.loads(json.dumps(load_encoder(place).certificate_.as_dict())) in (old, new)
        load_encoder(place).update(planted()[:10])
    assert spae("update", place, files / "new.zarr", "-q").code == 0
    assert [each.name for each in files.iterdir() if each.name.startswith(".")] == []
