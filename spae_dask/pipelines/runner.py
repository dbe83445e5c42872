"""Runs a pipeline: each step in turn, unless its outputs are there and would come out the same."""

import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from spae_dask.errors import OutputExists, SpaeError, StorageError
from spae_dask.passes.plan import Plan
from spae_dask.pipelines import schema
from spae_dask.pipelines.pipeline import Node, Pipeline
from spae_dask.pipelines.record import Record, begin, finish, read_record, reason_to_run, write_record
from spae_dask.pipelines.steps import KINDS, plan_of_step
from spae_dask.pipelines.work import Machinery, Result, Target, Work
from spae_dask.quantities import format_nbytes
from spae_dask.storage.writing.publish import check_output

NAME = ".spae-run.lock"
"""Name of the file that a run locks. The process holds the lock, so a file left by a killed run is not locked."""

HELD = (errno.EACCES, errno.EAGAIN)
"""Errors that mean that another process holds the lock, and no other fault."""


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Hold the folder while the ``with`` block runs.

    On file systems without locks, or without those that other machines see, it locks nothing and refuses no run.

    Parameters
    ----------
    folder : Path
        Folder of the results, which exists.

    Raises
    ------
    StorageError
        If another process holds it.
    """
    file = _held(folder / NAME)
    try:
        yield
    finally:
        if file is not None:
            (folder / NAME).unlink(
                missing_ok=True
            )  # before the lock is released, because a file there afterwards belongs to another run
            os.close(file)


def _held(path: Path) -> int | None:
    """The descriptor of the file, held; None where that cannot be done."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError:
            return None  # writing the results will report it
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            who = os.read(file, 300).decode(errors="replace").strip()
            os.close(file)
            if error.errno not in HELD:
                return None
            raise StorageError(
                f"another run is working in {path.parent}{f' ({who})' if who else ''}. Wait until it ends, and "
                "run again; its work is not repeated. Or give another folder with --output."
            ) from error
        if _is_at(file, path):
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()} of {socket.gethostname()}\n".encode())
            return file
        os.close(file)  # its holder ended and removed it between the two calls


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


@dataclass(frozen=True)
class Outcome:
    """Outcome of a step.

    Attributes
    ----------
    name, kind : str
        The step.
    line : int
        Line on which the step's table starts.
    status : str
        ``"ran"``, ``"skipped"``, ``"failed"`` or ``"interrupted"``; in a dry run ``"to run"`` or ``"to skip"``.
    reason : str
        Reason for which it ran, or was skipped.
    seconds : float
        Time that it took, in seconds. In a dry run, and for a skipped step, the time of its last run.
    outputs : tuple of str
        Paths of what it writes.
    result : dict
        Report of the step.
    text : str
        The same for people; empty for a skipped step.
    """

    name: str
    kind: str
    line: int
    status: str
    reason: str
    seconds: float
    outputs: tuple[str, ...]
    result: dict[str, Any] = field(default_factory=dict)
    text: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON."""
        return {name: value for name, value in vars(self).items() if name != "text"}


Tell = Callable[[Outcome], None]

UP_TO_DATE = "up to date"


def run_pipeline(pipeline: Pipeline, machinery: Machinery, *, force: bool, tell: Tell) -> None:
    """Run all steps that need to.

    A step leaves a record beside its outputs, first that it began and then what it made of what; a run that ended in
    the middle of a step resumes that step. Steps later than one that failed are not run.

    Parameters
    ----------
    pipeline : Pipeline
        Pipeline to run.
    machinery : Machinery
        Execution target, and receivers of progress and messages.
    force : bool
        Run every step, and replace outputs that no run of this pipeline wrote.
    tell : callable
        Called with each outcome as it is known, a failure's too.

    Raises
    ------
    OutputExists
        If an output exists that no earlier run wrote, and ``force`` is False. Nothing is run then.
    StorageError
        If another run is at work in the folder of the results.
    SpaeError
        If a step fails: an error of the same class that names the step and its line.
    """
    refuse_file(pipeline.output)
    if not force:
        for node in pipeline.nodes:
            refuse_foreign(node)
    _make_folder(pipeline.output)
    with only_run(pipeline.output):
        _run_steps(pipeline, machinery, force=force, tell=tell)


def _run_steps(pipeline: Pipeline, machinery: Machinery, *, force: bool, tell: Tell) -> None:
    known: dict[str, str] = {}
    for number, node in enumerate(pipeline.nodes, start=1):
        with naming(pipeline, node):
            now, last = begin(node, known), read_record(node.record)
            known[node.step.name] = now.fingerprint
            reason = "--force" if force else reason_to_run(node, now, last)
            heading = f"step {number} of {len(pipeline.nodes)}, {label(node)}"
            if reason is None:
                assert last is not None
                machinery.say(f"{heading}: {UP_TO_DATE}")
                tell(outcome_of(node, "skipped", UP_TO_DATE, last.seconds, last.result))
                continue
            machinery.say(f"{heading}: runs, {reason}")
            tell(_run(node, now, reason, machinery, tell))


def refuse_foreign(node: Node) -> None:
    """Refuse to replace what no run of the step wrote.

    Raises
    ------
    OutputExists
        If something bears the name of an output or of the record, and there is no record that the step wrote it.
    """
    if read_record(node.record) is None:
        for path in (*node.outputs.values(), node.record):
            if path.parent.is_dir():
                check_output(path, overwrite=False)


def _run(node: Node, now: Record, reason: str, machinery: Machinery, tell: Tell) -> Outcome:
    """Run one step between its two records."""
    write_record(now, node.record)
    began = time.perf_counter()
    try:
        made: Result = KINDS[node.step.kind].run(node.step, Work(node.files, node.outputs, machinery))
    except BaseException as error:
        status = "failed" if isinstance(error, Exception) else "interrupted"
        tell(outcome_of(node, status, reason, time.perf_counter() - began, {}))
        raise
    seconds = time.perf_counter() - began
    write_record(finish(now, node, made.document, seconds), node.record)
    return outcome_of(node, "ran", reason, seconds, made.document, made.text)


def outcome_of(node: Node, status: str, reason: str, seconds: float, result: dict[str, Any], text: str = "") -> Outcome:
    """Return the outcome of a step."""
    outputs = tuple(map(str, node.outputs.values()))
    return Outcome(node.step.name, node.step.kind, node.line, status, reason, seconds, outputs, result, text)


def label(node: Node) -> str:
    """``fit`` or, if it has a name of its own, ``encoder (fit)``."""
    step = node.step
    return step.name if step.name == step.kind else f"{step.name} ({step.kind})"


@contextmanager
def naming(pipeline: Pipeline, node: Node) -> Iterator[None]:
    """Have an error of this package say in which step it arose; its class stays, and with it the exit code."""
    try:
        yield
    except SpaeError as error:
        raise type(error)(f"{pipeline.path}, line {node.line}, step {label(node)}: {error}") from error


def refuse_file(folder: Path) -> None:
    """Refuse a folder for the results that is something else.

    Raises
    ------
    OutputExists
        If it is.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputExists(f"{folder} is a file. Give 'output' (or --output) the name of a folder.")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"the folder {folder} cannot be made: {error.strerror}. Give another 'output', or --output."
        ) from error


def dry_run(pipeline: Pipeline, where: Target, *, force: bool, tell: Tell) -> None:
    """Say of every step whether it would run, and plan every fit whose data are there. Writes nothing.

    Parameters
    ----------
    pipeline : Pipeline
        Pipeline to describe.
    where : Target
        Execution target of the run.
    force : bool
        As for a run.
    tell : callable
        Called with the outcome expected of each step.

    Raises
    ------
    SpaeError
        If a step would fail. It is the first such error, raised after all steps were reported. For example, a plan
        that does not fit raises ``MemoryBudgetExceeded``.
    """
    refuse_file(pipeline.output)
    known: dict[str, str] = {}
    waits: set[str] = set()
    first: SpaeError | None = None
    for node in pipeline.nodes:
        with naming(pipeline, node):
            now, last = begin(node, known), read_record(node.record)
        known[node.step.name] = now.fingerprint
        reason = "--force" if force else reason_to_run(node, now, last)
        if reason is not None:
            waits.add(node.step.name)
        status = "to skip" if reason is None else "to run"
        told = outcome_of(node, status, reason or UP_TO_DATE, 0.0 if last is None else last.seconds, {})
        try:
            with naming(pipeline, node):
                if not force:
                    refuse_foreign(node)
                if isinstance(node.step, schema.Fit | schema.Plan) and reason is not None:
                    planned = _planned(node, node.step, where, waits)
                    told = replace(told, result=planned.document, text=planned.text)
        except SpaeError as error:
            first = first or error
            told = replace(told, result={"refused": str(error)}, text="would be refused, see below")
        tell(told)
    if first is not None:
        raise first


def _planned(node: Node, step: schema.Fit | schema.Plan, where: Target, waits: set[str]) -> Result:
    """The plan of a fit whose data are there."""
    maker = node.made_by.get(("data",))
    if maker in waits:
        return Result(f"no plan yet: step {maker} makes its data", {})
    plan = plan_of_step(step, node.files[("data",)], where)
    return Result(_summary(plan), {"plan": plan.as_dict()})


def _summary(plan: Plan) -> str:
    return (
        f"reads {format_nbytes(plan.bytes_read)} in {len(plan.passes)} pass(es), holds "
        f"{format_nbytes(plan.worker_nbytes)} a process above its idle size, of {plan.resources.n_workers} "
        f"({plan.resources.where}); limit {format_nbytes(plan.resources.memory_limit)}"
    )
