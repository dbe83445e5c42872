"""The folder of the logs: what Slurm would take for another, or could not write to, is refused before a job is lost."""

import os
from pathlib import Path

import pytest

from spae_dask.clusters.job_options import job_options, log_folder, make_writable
from spae_dask.clusters.specs import QueueSpec
from spae_dask.errors import InvalidInput, StorageError


def a_queue(**changes):
    return QueueSpec.model_validate({"kind": "slurm", "jobs": 1, "memory": "1GB"} | changes)


@pytest.mark.parametrize("name", ["100%", "%j", "a\\b", "\\"])
def test_a_folder_whose_name_slurm_reads_as_signs_of_its_own_is_refused(name, tmp_path, monkeypatch):
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(InvalidInput, match="Start from another folder"):
        log_folder(a_queue())
    assert log_folder(a_queue(logs=f"{tmp_path}/logs")) == tmp_path / "logs"
    assert log_folder(a_queue(kind="pbs", options=[])) == folder / "spae-logs"


def test_signs_of_slurm_in_logs_are_refused_too(tmp_path):
    with pytest.raises(InvalidInput, match="Slurm replaces % in log paths"):
        log_folder(a_queue(logs=f"{tmp_path}/logs-%x"))


def test_the_home_folder_is_where_it_is_for_certificates_and_logs_alike(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    spec = a_queue(logs="~/logs")
    assert Path(job_options(spec, "n")["log_directory"]) == log_folder(spec) == tmp_path / "home/logs"


@pytest.mark.parametrize("folder", ["/proc", "/proc/none", "/dev/null/logs"])
def test_a_folder_that_nothing_can_be_written_to_is_told(folder):
    with pytest.raises(StorageError, match=f"the folder {folder} cannot be written to: "):
        make_writable(Path(folder))


def test_looking_leaves_nothing_behind(tmp_path):
    make_writable(tmp_path / "a/b")
    assert os.listdir(tmp_path / "a/b") == []
