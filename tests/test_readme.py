"""README and docs: commands parse, examples run, links lead somewhere, and reference pages are complete."""

import inspect
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.main import get_command

import spae_dask
from spae_dask import errors
from spae_dask.cli.exits import EXIT_CODES
from spae_dask.cli.main import VERBS, app, main
from spae_dask.clusters.specs import SPECS, read_cluster
from spae_dask.maths.selection import SELECTIONS
from spae_dask.pipelines.steps import KINDS
from spae_dask.storage.artifacts.artifact import STORED
from spae_dask.strategies.certificate import DERIVED, Certificate
from tests.storage.genotypes import dosages, write_bed

COMMAND = get_command(app)
ROOT = Path(__file__).parents[1]
DOCS = [str(each.relative_to(ROOT)) for each in sorted((ROOT / "docs").rglob("*.md"))]
PAGES = ["README.md", *(each for each in DOCS if not each.startswith("docs/paper/"))]
OTHER_PAGES = ["SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md"]
INSIDE = ["docs/paper/paper.md", "deploy/README.md", "pipelines/README.md", "benchmarks/README.md"]
LINKING = [*PAGES, *OTHER_PAGES, *INSIDE]
NOT_HERE = {
    "docs/data/anndata.md": "tests/scanpy/test_sparse_pca.py runs its example, and single cells are not made here",
    "docs/data/object-stores.md": "needs a bucket",
    "docs/data/versioned-stores.md": "needs stores of other libraries, which tests/zarr_stores.py makes",
    **{f"docs/run/{name}.md": "needs a cluster, or a run that was killed" for name in (
        "arrays", "checkpoints", "containers", "failures", "grid-engine", "kubernetes", "local", "mpi", "slurm"
    )},
}  # fmt: skip
"""Pages whose commands are parsed only."""

OTHERS = {"--no-healthcheck", "--ulimit"}
"""Options of other programs that pages name."""

LONGEST = 25
"""Words of a sentence, as a house rule; names in code count as one."""


def blocks(page: str, kind: str) -> list[str]:
    """Fenced blocks of a page whose opening line is ``kind``."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[list[str]]:
    """The words after ``spae`` of all command lines of a page, as a shell would cut them."""
    found = []
    for line in "".join(blocks(page, "sh")).replace("\\\n", " ").replace("$SLURM_ARRAY_TASK_ID", "1").splitlines():
        words = shlex.split(line.split(" > ")[0], comments=True)
        starts = [i for i, word in enumerate(words) if word == "spae" and words[0] != "kubectl"]
        found += [words[start + 1 :] for start in starts]
    return found


def parser_of(words: list[str]) -> tuple[Any, list[str]]:
    """The innermost command that some words name, and the words left."""
    command = COMMAND
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def options_of(command: Any) -> set[str]:
    """All spellings of the options of a command and of its subcommands."""
    own = {text for each in command.params for text in (*each.opts, *each.secondary_opts) if text.startswith("-")}
    return own.union({"--help", "-h"}, *map(options_of, getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("page", PAGES)
def test_command_lines_parse(page):
    for words in commands(page):
        if words[0] in ("help", "--version"):
            continue
        command, rest = parser_of(words)
        assert not hasattr(command, "commands"), words
        context = command.make_context(words[0], list(rest))
        if words[0] == "mpi":
            command, rest = parser_of(context.params["words"])
            command.make_context("mpi", list(rest))


@pytest.mark.parametrize("page", PAGES)
def test_options_in_running_text_exist(page):
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for span in re.findall(r"`([^`\n]+)`", text):
        words = span.split()
        if words[0] != "spae" and not words[0].startswith("--"):
            continue
        command, _ = parser_of([word for word in words[1:] if "mpirun" not in span])
        if words[0] == "spae" and words[1:] and words[1].islower() and not words[1].startswith("-"):
            assert words[1] in COMMAND.commands or words[1] == "help", span
        used = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        allowed = OTHERS | options_of(command if words[0] == "spae" else COMMAND)
        assert used <= allowed or words[0] in OTHERS, span


def planted(n: int) -> np.ndarray:
    """Rows of rank 6 with noise, 12 columns wide: enough for every k and r shown."""
    rng = np.random.default_rng(n)
    return (rng.normal(size=(n, 6)) @ rng.normal(size=(6, 12)) + 0.1 * rng.normal(size=(n, 12))).astype(np.float32)


def frame(n: int) -> Any:
    """A table of numbers, as pages on tables assume; ages are positive."""
    pd = pytest.importorskip("pandas")
    names = ["age", *(f"expr_{i}" for i in range(11))]
    made = pd.DataFrame(planted(n), columns=names)
    return made.assign(age=made["age"].abs() + 1)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that examples name, made once, by the commands of the README among others."""
    xr = pytest.importorskip("xarray")
    folder = tmp_path_factory.mktemp("given")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        np.save("X.npy", planted(400))
        np.save("X_new.npy", planted(100))
        np.save("new.npy", planted(100))
        np.save("counts.npy", np.random.default_rng(0).poisson(2.0, size=(200, 12)))
        np.save("genotypes.npy", np.random.default_rng(0).integers(-1, 3, size=(200, 12)).astype(np.int8))
        write_bed(folder / "cohort.bed", dosages())
        np.savetxt("table.csv", planted(200), delimiter=",", header=",".join("abcdefghijkl"), comments="")
        for name, n in (("table", 200), ("new", 50)):
            frame(n).assign(id=[f"row{i}" for i in range(n)], note_1="text").to_parquet(f"{name}.parquet")
        frame(50).assign(embedding=list(planted(50))).to_parquet("texts.parquet")
        grid = xr.Dataset(
            {"air": (("time", "lat", "lon"), planted(60).reshape(60, 4, 3))},
            {
                "time": pd.date_range("2001-01-01", periods=60, freq="MS"),
                "lat": [10.0, 20, 30, 40],
                "lon": np.arange(3) * 5.0,
            },
        )
        grid.to_netcdf("air.nc", engine="h5netcdf")
        numeric = list(frame(1).columns)
        Path("costs.csv").write_text("".join(f"{name},{1 + j % 4}\n" for j, name in enumerate(numeric)))
        Path("positions.csv").write_text("".join(f"{name},{j}\n" for j, name in enumerate(numeric)))
        Path("groups.csv").write_text("".join(f"{name},{'TBM'[j % 3]}\n" for j, name in enumerate(numeric)))
        Path("pipeline.toml").write_text(blocks("docs/run/pipelines.md", "toml")[0])
        for words in [["ingest", "X_new.npy", "X_new.zarr"], *commands("README.md")]:
            assert main([*words, "-q"]) == 0, words
        assert main(["path", "X.zarr", "-k", "5", "-r", "5,10", "-o", "path.csv", "-q"]) == 0
    return folder


@pytest.fixture
def folder(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a copy of these files."""
    shutil.copytree(given, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def remove(path: Path) -> None:
    """Remove what an example is about to make."""
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


RUN = [page for page in PAGES[1:] if commands(page) and page not in NOT_HERE]


def test_the_commands_of_the_readme_end_well(given):
    assert len(commands("README.md")) >= 8
    assert {"X.zarr", "E.zarr", "Z.zarr", "report.html"} <= {each.name for each in given.iterdir()}


PYTHON = [page for page in PAGES if blocks(page, "python") and page != "docs/data/anndata.md"]


def run_python(page: str, folder: Path) -> None:
    """Run the examples of a page, one after the other, with the names that they take for granted."""
    remove(folder / "eofs.zarr")
    names: dict[str, Any] = {
        "x": planted(400),
        "H": np.eye(12)[:, :5],
        "batches": np.array_split(planted(400), 7),
        "frame": frame(200),
    }
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md"])  # all: tests/integration/test_pages.py
def test_python_examples_run(page, folder):
    run_python(page, folder)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_of_a_kind_that_is_tested(page):
    fences = re.findall(r"^```(.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert set(fences[::2]) <= {"sh", "python", "python cluster", "toml", "text"}
    assert set(fences[1::2]) <= {""}
    for block in blocks(page, "python cluster"):
        compile(block, page, "exec")


CLUSTERS = [page for page in PAGES if any("[[step]]" not in block for block in blocks(page, "toml"))]


@pytest.mark.parametrize("page", CLUSTERS)
def test_cluster_files_are_valid(page, tmp_path):
    for block in blocks(page, "toml"):
        (tmp_path / "cluster.toml").write_text(block)
        assert read_cluster(tmp_path / "cluster.toml").kind in block


def headings(page: Path) -> set[str]:
    """Anchors of the headings of a page, as the forges make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKING)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", link):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in headings(target), link


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {each.removeprefix("docs/") for each in PAGES if each.startswith("docs/")} - {"index.md"}
    assert pages <= set(re.findall(r"\]\(([^)#]+)\)", index))


def sentences(page: str) -> Iterator[str]:
    """Sentences of the running text of a page, a piece of code and a link as one word each."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(\||#|!\[).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", text))
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:- |\d\. )", f"\n{text}"):
        yield from re.split(r"(?<=[.:;?!])\s+", " ".join(paragraph.strip("*- ").split()))


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short_and_name_their_subject(page):
    for sentence in sentences(page):
        assert len(sentence.split()) <= LONGEST, sentence
        assert not re.match(r"(What|Who|Which|Whether|How)\b", sentence), sentence


def command_line() -> set[str]:
    """Every command and every option."""
    return {*VERBS, "mpi", "checkpoint ls", "checkpoint rm", *options_of(COMMAND)}


def settings() -> set[str]:
    """Every setting, and its variable of the environment."""
    table = yaml.safe_load((ROOT / "spae_dask" / "spae_dask.yaml").read_text(encoding="utf-8"))["spae_dask"]
    variables = {f"DASK_SPAE_DASK__{name.upper().replace('-', '_')}" for name in table}
    return variables | {f"spae_dask.{name}" for name in table}


def keys(models: Any) -> set[str]:
    """Names of the models of a kind of file, and of their keys."""
    return set(models).union(*(model.model_fields for model in models.values()))


def python_names() -> set[str]:
    """Public names, and parameters of the estimator."""
    return {*spae_dask.__all__, *inspect.signature(spae_dask.SparseEncoder).parameters}


def warnings_and_codes() -> set[str]:
    """Warnings that a user may meet, and exit codes."""
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.SpaeWarning)]
    return {each.__name__ for each in kinds if each is not errors.SpaeWarning} | {str(code) for _, code in EXIT_CODES}


COMPLETE = {
    "command-line": command_line(),
    "python": python_names(),
    "pipeline-file": keys({name: kind.model for name, kind in KINDS.items()}),
    "cluster-file": keys(SPECS),
    "settings": settings(),
    "exit-codes": warnings_and_codes(),
    "json": {each.name for each in fields(Certificate)} | set(DERIVED),
    "artifact": set(STORED),
}


@pytest.mark.parametrize("page", COMPLETE)
def test_reference_pages_name_everything(page):
    text = (ROOT / "docs" / "reference" / f"{page}.md").read_text(encoding="utf-8")
    named = {word for span in re.findall(r"`([^`\n]+)`", text) for word in (span, *re.split(r"[\s=]+", span))}
    named |= set(re.findall(r"\d+", text)) | {each.strip("[]") for each in named}
    commands_named = {span.removeprefix("spae ") for span in re.findall(r"`([^`\n]+)`", text)}
    assert COMPLETE[page] <= named | commands_named


def test_the_page_of_methods_names_every_selection():
    text = (ROOT / "docs" / "guide" / "methods.md").read_text(encoding="utf-8")
    assert {f"`{name}`" for name in SELECTIONS} <= set(re.findall(r"`[^`\n]+`", text))
