"""``spae submit`` says what it submitted, and with ``--check`` what the site says, before anything is submitted."""

import os
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import K, R

SBATCH = """#!/bin/sh
echo "$*" >> "$CALLS"
case "$*" in
  *--test-only*) if grep -q -e '--partition=nope'; then
      echo "sbatch: error: invalid partition specified: nope" >&2; exit 1; fi;;
  *) echo "41$(wc -l < "$CALLS" | tr -d ' ')";;
esac
"""


@pytest.fixture
def site(tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a pipeline, and programs of Slurm that write down how they are called."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("sbatch", SBATCH), ("squeue", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.chdir(tmp_path)
    step = f'[[step]]\nkind = "fit"\nname = "fit"\ndata = "x.zarr"\nn_components = {K}\nn_nonzero = {R}\n'
    (tmp_path / "pipe line.toml").write_text(f'output = "out"\n{step}')
    return tmp_path


def cluster(folder: Path, queue: str) -> Path:
    path = folder / f"{queue}.toml"
    path.write_text(f'kind = "slurm"\njobs = 0\nqueue = "{queue}"\naccount = "lab7"\nlogs = "its-logs"\n')
    return path


@pytest.mark.parametrize("array", [None, 3])
def test_submit_says_what_it_submitted_where_its_logs_are_and_how_to_watch_it(spae, site, array):
    options = [] if array is None else ["--array", array]
    ended = spae("submit", "slurm", "pipe line.toml", "--cluster", cluster(site, "short"), *options)
    assert ended.code == 0, ended.err
    ids = ended.out.split()
    assert ids == (["411"] if array is None else ["411", "412"])
    lines = dict(line.split(maxsplit=1) for line in reversed(ended.err.splitlines()))
    told = [line.split(maxsplit=1)[1] for line in ended.err.splitlines() if line.startswith("submitted")]
    assert [each.split(":")[0] for each in told] == ids
    assert all("spae-pipe-line" in each and "partition short, account lab7" in each for each in told)
    assert lines["watch"] == f"squeue --jobs {','.join(ids)}"
    assert lines["remove"] == f"scancel {','.join(ids)}"
    last = [line for line in ended.err.splitlines() if line.startswith("log")][-1]
    assert shlex.split(last)[1:] == ["tail", "-F", str(site / "its-logs" / f"spae-pipe-line-{ids[-1]}.log")]


def test_check_asks_the_site_and_submits_and_makes_nothing(spae, site):
    ended = spae("submit", "slurm", "pipe line.toml", "--cluster", cluster(site, "short"), "--array", 2, "--check")
    assert ended.code == 0, ended.err
    assert (site / "calls").read_text().splitlines() == ["--test-only"] * 2
    assert not (site / "its-logs").exists()
    assert not (site / "out").exists()
    assert "spae-pipe-line, 2 parts (partition short, account lab7): would be taken (sbatch --test-only)" in ended.out
    assert f"folder     {site / 'its-logs'}: can be made; on " in ended.out


def test_check_tells_what_the_site_refuses(spae, site):
    ended = spae("submit", "slurm", "pipe line.toml", "--cluster", cluster(site, "nope"), "--check")
    assert ended.code == 6
    assert "invalid partition specified: nope" in ended.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_check_tells_of_a_folder_that_cannot_be_written(spae, site):
    (site / "its-logs").mkdir(mode=0o500)
    ended = spae("submit", "slurm", "pipe line.toml", "--cluster", cluster(site, "short"), "--check")
    assert ended.code == 5
    assert str(site / "its-logs") in ended.err


def test_check_tells_of_a_file_in_the_place_of_a_folder(spae, site):
    (site / "its-logs").write_text("")
    ended = spae("submit", "slurm", "pipe line.toml", "--cluster", cluster(site, "short"), "--check")
    assert ended.code == 5
    assert str(site / "its-logs") in ended.err
