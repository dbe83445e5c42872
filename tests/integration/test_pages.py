"""All that pages of the documentation show, run: every command, every example in Python, and the one on a cluster."""

from typing import Any

import pytest
from distributed import LocalCluster

from spae_dask.cli.main import main
from tests.test_readme import PYTHON, RUN, blocks, commands, remove, run_python


@pytest.mark.parametrize("page", RUN)
def test_commands_end_well(page, folder, capsys):
    done = commands("README.md")
    lines = [words for words in commands(page) if words[0] not in ("demo", "--version") and words not in done]
    outputs = [words[words.index("-o") + 1] for words in lines if "-o" in words]
    outputs += [words[2] for words in lines if words[0] == "ingest"]
    for each in outputs:
        remove(folder / each)
    for words in lines:
        if "--cluster" not in words:
            assert main(words) == 0, (words, capsys.readouterr().err)
    assert all((folder / each).exists() for each in outputs)


@pytest.mark.parametrize("page", PYTHON)
def test_python_examples_run(page, folder):
    run_python(page, folder)


def test_the_example_on_a_cluster_runs(folder):
    (block,) = blocks("docs/run/local.md", "python cluster")
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        here = block.replace("tcp://scheduler:8786", cluster.scheduler_address).replace("/shared/", "")
        names: dict[str, Any] = {}
        exec(compile(here, "docs/run/local.md", "exec"), names)
        names["client"].close()
    assert names["enc"].certificate_.ratio >= 1
