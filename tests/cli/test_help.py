"""Help, version, and the promise that they come at once."""

import inspect
import re
import subprocess
import sys
from itertools import pairwise

import pytest
from typer.main import get_command

import spae_dask
from spae_dask.cli import fit, main
from spae_dask.cli.options import groups


@pytest.mark.parametrize("verb", list(main.VERBS))
def test_each_help_has_examples_that_are_commands(spae, verb):
    ended = spae(verb, "--help")
    assert ended.code == 0
    after = ended.out.split("Examples:")[1]
    assert f" spae {verb} " in after
    assert "--json" in ended.out


def test_the_help_lists_all_verbs_and_exit_codes(spae):
    out = spae("--help").out
    for verb in main.VERBS:
        assert f" {verb} " in out
    assert "Exit codes: 0 done, 2 usage, 3 bad input, 4 does not fit" in " ".join(out.split())


@pytest.mark.parametrize("verb", list(main.VERBS))
def test_lines_of_a_help_end_where_the_terminal_does(spae, monkeypatch, verb):
    width = 80
    monkeypatch.setenv("COLUMNS", str(width))
    told = [line.rstrip() for line in spae(verb, "--help").out.partition("╭")[0].splitlines()]
    for line, after in pairwise(told):
        if line and after:
            assert len(line) + len(after.split()[0]) + 2 > width, f"{line!r} has room for the next word"


def test_fit_options_are_grouped(spae):
    out = spae("fit", "--help").out
    for panel in (groups.WHAT, groups.DATA, groups.WHERE, groups.OUTPUT, groups.SCREEN):
        assert f"─ {panel} ─" in out


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(spae, flag):
    assert spae(flag).out == f"spae {spae_dask.__version__}\n"


DEFAULTS = ["method", "selection", "center", "scale", "strategy", "missing", "orthonormal", "shared_support"]


@pytest.mark.parametrize("name", [*DEFAULTS, "power_iterations", "oversampling", "split", "projection"])
def test_defaults_are_the_library_s(name):
    library = inspect.signature(spae_dask.SparseEncoder).parameters[name].default
    assert inspect.signature(fit.fit).parameters[name].default == library


def test_help_imports_no_numerical_library():
    heavy = ("numpy", "scipy", "dask", "distributed", "zarr", "sklearn")
    code = f"import sys, spae_dask.cli.main; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


COMMANDS = [*main.VERBS, "mpi", "checkpoint", "checkpoint ls", "checkpoint rm"]


def texts_of(name):
    command = get_command(main.app)
    for word in name.split():
        command = command.commands[word]
    texts = [command.help, command.epilog, *(getattr(each, "help", None) for each in command.params)]
    return [" ".join(text.split()) for text in texts if text]


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_shows_every_text_as_it_stands(spae, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "1000")
    shown = " ".join(spae(*name.split(), "--help").out.split())
    for text in texts_of(name):
        assert text in shown


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_no_sentence_of_a_help_begins_with_a_question_word(name):
    words = "|".join(["What", "Who", "Whoever", "Which", "Whether", "How", "TargetOptions", "Why", "When"])
    assert not [text for text in texts_of(name) if re.search(rf"(^|[.:!] )({words})\b", text)]


def test_brackets_in_our_texts_and_in_names_are_no_markup(spae, tmp_path):
    assert 'pip install "spae-dask[demo]"' in " ".join(spae("demo", "--help").out.split())
    ended = spae("check", tmp_path / "x[bold].zarr")
    assert "x[bold].zarr" in ended.err
