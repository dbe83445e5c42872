"""Calls of programs of batch systems and of Kubernetes."""

import shutil
import subprocess

from spae_dask.errors import ClusterUnavailable

SECONDS = 60
"""Longest time, in seconds, that a program may take to answer."""


def run_program(words: list[str], *, text: str | None = None, answers: tuple[int, ...] = (0,)) -> str:
    """Run a program and return its output. Its arguments reach it unchanged, through no shell.

    Parameters
    ----------
    words : list of str
        The program and its arguments.
    text : str, optional
        Its standard input.
    answers : tuple of int
        Exit codes with which it has answered; all others are failures.

    Raises
    ------
    ClusterUnavailable
        If it is not there, does not answer in time or fails; with what it said.
    """
    if shutil.which(words[0]) is None:
        raise ClusterUnavailable(
            f"there is no program {words[0]} on this machine. Run on one from which jobs are submitted, such as a "
            "login node, or check PATH."
        )
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and the words are checked where they come from
            words,
            input=(text or "").encode(errors="surrogateescape"),  # paths as they are on the disk
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterUnavailable(f"{words[0]} did not answer within {SECONDS} seconds.") from error
    if done.returncode not in answers:
        said = " ".join((done.stderr or done.stdout).decode(errors="replace").split()).rstrip(".")
        raise ClusterUnavailable(f"{words[0]} failed with exit code {done.returncode}: {said or 'it said nothing'}.")
    return done.stdout.decode(errors="replace")
