"""Of a checkpoint all is removed, and nothing else."""

from pathlib import Path

import pytest

from spae_dask.errors import InvalidInput
from spae_dask.storage.checkpoints.checkpoint_record import begin_or_resume
from spae_dask.storage.checkpoints.checkpoint_removal import remove_checkpoint
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
