"""Commands in processes of their own that import nothing."""

import os
import sys
from collections.abc import Mapping

from spae_dask.cli.main import run
from tests.forked import ForkedProcess

Redirections = Mapping[int, str | None]
"""Files that descriptors lead to, and those that are closed, as a shell has it."""


def redirect(redirections: Redirections) -> None:
    """Have streams lead elsewhere; a closed one is None, as an interpreter has it that starts so."""
    for ours, file in redirections.items():
        name = {1: "stdout", 2: "stderr"}[ours]
        if file is None:
            os.close(ours)
            stream = None
        else:
            opened = os.open(file, os.O_WRONLY)
            os.dup2(opened, ours)
            os.close(opened)
            stream = os.fdopen(ours, "w", encoding="utf-8", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def be_command(words: list[str], redirections: Redirections) -> None:
    redirect(redirections)
    sys.argv = ["spae", *words]
    sys.exit(run())


class ForkedCommand(ForkedProcess):
    """A command, with streams that may lead elsewhere."""

    def __init__(self, words: list[str], redirections: Redirections | None = None) -> None:
        super().__init__(be_command, words, dict(redirections or {}))
