"""From a pipeline to jobs, and from jobs to numbers in a queue."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spae_dask.cli.console import Console
from spae_dask.cli.pipeline_memory import planners_of
from spae_dask.cli.planned_memory import is_planned, sized, unknown
from spae_dask.clusters.batch_job import BatchJob, job_name, own_processes
from spae_dask.clusters.job_options import certificates_folder, described_folder, log_folder, make_writable
from spae_dask.clusters.kubernetes_job import CLUSTER_FILE, FILES, PIPELINE_FILE, job_manifests, manifest_text
from spae_dask.clusters.queue_commands import lasting_reasons, run_program
from spae_dask.clusters.slurm_script import array_script, batch_script
from spae_dask.clusters.specs import KubernetesSpec, QueueSpec, read_cluster
from spae_dask.errors import ClusterUnavailable, InvalidInput
from spae_dask.pipelines.pipeline import Node, Pipeline, read_pipeline, read_steps
from spae_dask.pipelines.schema import Fit
from spae_dask.plain_files import in_shell
from spae_dask.storage.writing.publish import publish
from spae_dask.strategies.parameters import PARAMETERS, option_words
from spae_dask.toml.file import TomlFile


def fit_words(step: Fit, output: Path) -> tuple[str, ...]:
    """Options that make ``spae fit-part`` do the step's work, in the checkpoint that the step resumes from.

    Parameters
    ----------
    step : Fit
        The step; keys with their default values are left out.
    output : Path
        Folder of the pipeline's results.
    """
    given = step.model_dump(exclude={"name", "kind", "data", "checkpoint"}, exclude_defaults=True)
    words: list[str] = []
    for key, value in given.items():
        option = f"--{key.replace('_', '-')}"
        words += PARAMETERS[key].words(value) if key in PARAMETERS else option_words(option, value)
    checkpoint = step.checkpoint or f"{step.name}.checkpoint"
    return (*words, "--checkpoint", checkpoint if "://" in checkpoint else str(output / checkpoint))


BARE = QueueSpec.model_validate({"kind": "slurm", "jobs": 0, "memory": "4GiB"})
"""A queue of which nothing is known."""


@dataclass(frozen=True)
class Request:
    """Options of `spae submit`, one field each."""

    pipeline: str
    cluster: str | None
    array: int | None
    passes: int
    grace: int
    max_resubmits: int


@dataclass(frozen=True)
class Job:
    """Something to submit.

    Attributes
    ----------
    words : tuple of str
        The program that takes it, which is given the text.
    text : str
        A script or a manifest.
    after : bool
        True to start the job only after the previous job has ended well.
    advice : str
        Message for the user, with ``{ids}`` for the numbers of all jobs and ``{id}`` for the number of this job.
    title : str
        Description of the job in words.
    folders : tuple of Path
        Folders that must be there.
    rehearsal : tuple of str
        A program that is given the text before, changes nothing, and fails if any part of it would be refused.
    remedy : str
        Remedy to suggest if the batch system refuses the job.
    trial : tuple of str
        A program that is given the text and says whether it would be taken.
    """

    words: tuple[str, ...]
    text: str
    after: bool
    advice: str
    folders: tuple[Path, ...] = ()
    rehearsal: tuple[str, ...] = ()
    remedy: str = ""
    title: str = ""
    trial: tuple[str, ...] = ()


def slurm_jobs(request: Request) -> list[Job]:
    """Batch scripts for Slurm, in the order in which they run.

    Raises
    ------
    InvalidInput, NotFound, StorageError
        If the pipeline or the cluster file have mistakes, or cannot be read.
    """
    found = read_pipeline(request.pipeline)
    spec = BARE if request.cluster is None else read_cluster(request.cluster)
    if not isinstance(spec, QueueSpec) or spec.kind != "slurm":
        raise InvalidInput(
            f"{request.cluster} has kind {spec.kind!r}; `spae submit slurm` takes files of kind 'slurm'."
        )
    _check_grace(request, spec)
    if request.array is None and is_planned(spec):
        sized(spec, planners_of(found))  # as in the run, so that errors come before the job waits in a queue
    if request.array is not None:
        spec = spec.model_copy(update={"jobs": 0})
    if spec.jobs and spec.tls:
        certificates_folder(spec)  # refused now, not when the job has waited in a queue
    workers = ("--cluster", str(Path(request.cluster or "").resolve())) if spec.jobs else own_processes(spec.driver)
    words = ("run", str(found.path.resolve()), *workers)
    logs = log_folder(spec)
    name = job_name(found.path.stem)
    where = f"partition {spec.queue or 'of the site'}, account {spec.account or 'of the user'}"
    trial = ("sbatch", "--test-only")
    folders = (logs, found.output)
    arrays: list[Job] = []
    if request.array is not None:
        script = array_script(spec, _job(request, spec, _part_words(found, spec)), request.array)
        title = f"{name}, {request.array} parts ({where})"
        advice = f"log        {in_shell(logs / name)}-{{id}}-*.log"
        arrays = [
            Job(("sbatch", "--parsable"), script, number > 0, advice, folders, title=title, trial=trial)
            for number in range(request.passes)
        ]
    script = batch_script(spec, _job(request, spec, words))
    advice = f"log        tail -F {in_shell(logs / name)}-{{id}}.log"
    advice += "\nwatch      squeue --jobs {ids}\nremove     scancel {ids}"
    title = f"{name} ({where})"
    return [*arrays, Job(("sbatch", "--parsable"), script, bool(arrays), advice, folders, title=title, trial=trial)]


def kubernetes_jobs(request: Request) -> list[Job]:
    """One manifest for Kubernetes.

    Raises
    ------
    InvalidInput, NotFound, StorageError
        If the pipeline or the cluster file have mistakes, or cannot be read.
    """
    if request.cluster is None:
        raise InvalidInput("give --cluster FILE.toml of kind 'kubernetes': it names the image and the volumes.")
    if request.array is not None:
        raise InvalidInput("--array is for Slurm. For Kubernetes give more 'workers' in the cluster file.")
    spec = read_cluster(request.cluster)
    if not isinstance(spec, KubernetesSpec):
        raise InvalidInput(f"{request.cluster} has kind {spec.kind!r}; `spae submit kubernetes` takes 'kubernetes'.")
    _check_grace(request, spec)
    file = TomlFile(Path(request.pipeline), "a pipeline")
    read_steps(file)  # inputs are not checked, because only the pods see them
    output = str(file.table["output"])
    if not any(Path(output).is_relative_to(each.path) and not each.read_only for each in spec.volumes):
        raise InvalidInput(
            f"'output' is {output!r}, but no volume that the pods can write to contains it. Give an absolute path "
            "below the 'path' of one of the [[volumes]] of the cluster file."
        )
    if is_planned(spec):
        spec = _sized_pods(spec, request.pipeline)
    where = ("--cluster", f"{FILES}/{CLUSTER_FILE}") if spec.workers else own_processes(spec.driver)
    job = _job(request, spec, ("run", f"{FILES}/{PIPELINE_FILE}", *where))
    text = manifest_text(job_manifests(spec, job, file.path.read_text(encoding="utf-8-sig")))
    kind, pod = ("daskjob", f"pod/{job.name}-runner") if spec.workers else ("job", f"job/{job.name}")
    advice = f"watch      kubectl --namespace {spec.namespace} get {kind} {job.name}"
    advice += f"\nlog        kubectl --namespace {spec.namespace} logs --follow {pod}"
    removal = f"kubectl --namespace {spec.namespace} delete --ignore-not-found {kind},configmap {job.name}"
    advice += f"\nremove     {removal}"
    remedy = f" Before another try, remove the rest of an earlier one: {removal}"
    # kubectl would refuse fields that older servers do not know
    words = ("kubectl", "create", "--validate=false", "--filename", "-", "--output", "name")
    # kubectl continues after an object that it cannot create, and the job would run an earlier pipeline
    rehearsal = (*words, "--dry-run=server")
    title = f"{job.name} (namespace {spec.namespace})"
    return [Job(words, text, False, advice, rehearsal=rehearsal, remedy=remedy, title=title, trial=rehearsal)]


def _sized_pods(spec: KubernetesSpec, path: str) -> KubernetesSpec:
    """Return the spec with the memory that the fits of a pipeline need, whose data this machine sees as pods do."""
    try:
        pipeline = read_pipeline(path)
    except InvalidInput as error:
        raise unknown(
            f"the pipeline cannot be planned on this machine, which does not see its data: {error}"
        ) from error
    made = sized(spec, planners_of(pipeline))
    assert isinstance(made, KubernetesSpec)
    return made


def write_texts(path: str, jobs: Sequence[Job], *, force: bool) -> list[str]:
    """Write each text; the second and later ones get numbers before the ending.

    Raises
    ------
    OutputExists, InvalidInput, StorageError
        As ``publish`` does.
    """
    first = Path(path)
    paths = [first, *(first.with_name(f"{first.stem}-{n}{first.suffix}") for n in range(2, len(jobs) + 1))]
    for each, job in zip(paths, jobs, strict=True):
        with publish(each, overwrite=force) as work:
            work.write_text(job.text, encoding="utf-8", errors="surrogateescape")  # paths as they are on the disk
    return [str(each) for each in paths]


def submitted(jobs: Sequence[Job]) -> list[str]:
    """Submit all; what the system calls each.

    Raises
    ------
    ClusterUnavailable
        If it takes one of them not.
    StorageError
        If nothing can be written to one of its folders.
    """
    ids: list[str] = []
    for job in jobs:
        for folder in job.folders:  # Slurm makes none, and drops the log
            make_writable(folder)
        after = (f"--dependency=afterok:{ids[-1]}", "--kill-on-invalid-dep=yes") if job.after else ()
        try:
            if job.rehearsal:
                run_program(list(job.rehearsal), text=job.text)
            said = run_program([*job.words, *after], text=job.text)
        except ClusterUnavailable as error:
            raise ClusterUnavailable(f"{error}{job.remedy}") from error
        ids.append(said.strip().partition(";")[0])
    return ids


def advice_of(jobs: Sequence[Job], ids: Sequence[str]) -> str:
    """Lines that say what was submitted, where its logs are and how to watch it."""
    lines = []
    for job, number in zip(jobs, ids, strict=True):
        lines.append(f"submitted  {number}: {job.title}")
        lines.append(job.advice.replace("{ids}", ",".join(ids)).replace("{id}", number))
    return "\n".join(lines)


def checked(jobs: Sequence[Job]) -> list[str]:
    """Ask the site whether it would take all jobs, and look at their folders; nothing is submitted or made.

    Returns
    -------
    list of str
        A line for each job and for each folder.

    Raises
    ------
    ClusterUnavailable
        If the site would refuse one of them; with its words.
    StorageError
        If one of the folders cannot be written to.
    """
    lines: dict[str, None] = {}
    for folder in dict.fromkeys(folder for job in jobs for folder in job.folders):
        lines[f"folder     {folder}: {described_folder(folder)}"] = None
    for job in jobs:
        run_program(list(job.trial), text=job.text)
        lines[f"job        {job.title}: would be taken ({' '.join(job.trial[:2])})"] = None
    return list(lines)


def report_lasting_reasons(ids: Sequence[str], console: Console) -> None:
    """Warn of jobs that Slurm has taken, and may hold for ever."""
    with suppress(ClusterUnavailable):  # they are submitted all the same
        for line in lasting_reasons(ids):
            console.warn(f"{line}. The job waits until that changes. `scancel` removes it.")


def _job(request: Request, spec: QueueSpec | KubernetesSpec, words: tuple[str, ...]) -> BatchJob:
    name = job_name(Path(request.pipeline).stem)
    return BatchJob(name, words, str(Path.cwd()), spec.driver, request.grace, request.max_resubmits)


def _check_grace(request: Request, spec: QueueSpec | KubernetesSpec) -> None:
    if request.grace >= spec.driver.walltime:
        raise InvalidInput(
            f"--grace is {request.grace} seconds, but the 'walltime' of [driver] is {spec.driver.walltime}: the "
            "job would stop before it starts. Give a smaller --grace, or a longer walltime."
        )


def _part_words(pipeline: Pipeline, spec: QueueSpec) -> tuple[str, ...]:
    """``fit-part`` and its options, for the one fit of the pipeline."""
    fits: list[Node] = [node for node in pipeline.nodes if isinstance(node.step, Fit)]
    if len(fits) != 1 or fits[0].made_by:
        raise InvalidInput(
            f"--array needs a pipeline with one fit, on data that exist before the run. {pipeline.path} has "
            f"{len(fits)} fits{', on data that an earlier step makes' if fits and fits[0].made_by else ''}. "
            "Submit without --array."
        )
    (node,) = fits
    assert isinstance(node.step, Fit)
    if node.step.checkpoint is False:
        raise InvalidInput(
            f"--array stores its passes in the checkpoint of the fit, but step {node.step.name} of "
            f"{pipeline.path} has 'checkpoint = false'. Leave that out, or submit without --array."
        )
    memory = own_processes(spec.driver)[-2:]
    return ("fit-part", node.files[("data",)], *fit_words(node.step, pipeline.output), *memory)
