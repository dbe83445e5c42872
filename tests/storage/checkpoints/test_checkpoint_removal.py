"""Of a checkpoint all is removed, and nothing else."""

from pathlib import Path

import pytest

from spae_dask.errors import InvalidInput, StorageError
from spae_dask.storage.checkpoints.checkpoint_record import begin_or_resume
from spae_dask.storage.checkpoints.checkpoint_removal import end_checkpoint, remove_checkpoint
from spae_dask.storage.checkpoints.local_states import LocalStates
from tests.storage.checkpoints.jobs import JOB


def test_nothing_foreign_is_ever_removed(tmp_path: Path) -> None:
    begin_or_resume(LocalStates(tmp_path), JOB)
    (tmp_path / "01-core-ab").mkdir()
    for foreign in ("notes.txt", "01-core-ab/0-00000.state.bak", "01-core-ab/sub"):
        (tmp_path / foreign).write_text("mine")
        with pytest.raises(InvalidInput, match="Nothing was removed"):
            remove_checkpoint(str(tmp_path))
        (tmp_path / foreign).unlink()
    (tmp_path / "01-core-ab" / ".0-00000.state.partial-0123abcd").write_bytes(b"half")
    remove_checkpoint(str(tmp_path))
    assert not tmp_path.exists()


def test_what_an_equal_run_stores_meanwhile_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_or_resume(LocalStates(tmp_path), JOB)
    remove = LocalStates.remove

    def removed_while_a_run_stores(self: LocalStates, path: str) -> None:
        remove(self, path)
        (tmp_path / "01-core-ab").mkdir(exist_ok=True)
        (tmp_path / "01-core-ab" / "0-00000.state").write_bytes(b"new")

    monkeypatch.setattr(LocalStates, "remove", removed_while_a_run_stores)
    end_checkpoint(str(tmp_path))
    assert (tmp_path / "01-core-ab" / "0-00000.state").read_bytes() == b"new"
    (tmp_path / "checkpoint.json").write_text("{}")
    with pytest.raises(StorageError, match=r"a run stored in .* Stop that run, and remove the checkpoint again\."):
        remove_checkpoint(str(tmp_path))


def test_the_names_are_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_or_resume(LocalStates(tmp_path), JOB)
    (tmp_path / "01-core-ab").mkdir()
    listed, folders = [], LocalStates.folders

    def counted(self: LocalStates) -> list[str]:
        listed.append(self.describe())
        return folders(self)

    monkeypatch.setattr(LocalStates, "folders", counted)
    remove_checkpoint(str(tmp_path))
    assert listed == [str(tmp_path)], "of an object store each is a request"
    assert not tmp_path.exists()
