"""Every way a command can fail, provoked for real: the code, the paragraph, and nothing left behind."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from spae_dask.cli import main
from spae_dask.cli.exits import EXIT_CODES, exit_code, explain, in_options
from spae_dask.cli.parsing import ELSEWHERE
from spae_dask.clusters import running
from spae_dask.errors import InvalidInput, MemoryBudgetExceeded, NotFound, PassFailed, SpaeError, StorageError
from tests.cli.conftest import QUICK, D, K, R, planted, write_zarr


def failed(ended, code: int, *words: str) -> None:
    """The code is right, the last paragraph says what the words say, and there is no traceback."""
    assert ended.code == code, ended.err
    paragraph = ended.err.strip().splitlines()[-1]
    assert paragraph.startswith("error: ")
    for word in words:
        assert word in paragraph
    assert "Traceback" not in ended.err
    assert ended.out == ""


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["ft"], "Did you mean 'fit'?"),
        (["fit"], "Missing argument 'DATA'"),
        (["fit", "x.zarr", "-k", "2", "-r", "2"], "Missing option"),
        (["fit", "x.zarr", "-k", "2", "-r", "2", "-o", "e", "--selecton", "greedy"], "Did you mean --selection?"),
        (["fit", "x.zarr", "-k", "2", "-r", "2", "-o", "e", "--selection", "best"], "dual-set"),
        (["fit", "x.zarr", "-k", "two", "-r", "2", "-o", "e"], "-k"),
        (["fit", "x.zarr", "-k", "2", "-r", "3;4", "-o", "e"], "-r"),
        (["fit", "x.zarr", "-k", "2", "-o", "e"], "exactly one"),
        (["fit", "x.zarr", "-k", "2", "-r", "2", "--eps", "0.1", "-o", "e"], "exactly one"),
        (["fit", "x.zarr", "-k", "2", "--eps", "0.1", "--keep", "0.9", "-o", "e"], "exactly one"),
        (["fit", "x.zarr", "-k", "2", "--keep", "95", "-o", "e"], "--keep"),
        (["fit", "x.zarr", "-k", "2", "--eps", "-0.1", "-o", "e"], "--eps"),
        (["fit", "x.zarr", "-k", "2", "--eps", "nan", "-o", "e"], "--eps"),
        (["check", "x.zarr", "--cluster", "locl"], "local:N"),
        (["check", "x.zarr", "--cluster", "local:0"], "local:N"),
        (["check", "x.zarr", "--memory", "lots"], "2GB"),
        (["check", "x.zarr", "--memory", "0"], "2GB"),
        (["check", "x.zarr", "y.zarr"], "y.zarr"),
    ],
)
def test_2_is_a_command_line_that_is_not_understood(spae, argv, word):
    ended = spae(*argv)
    failed(ended, 2, word)
    assert f"See `spae {'fit' if argv[0] == 'fit' else 'check' if argv[0] == 'check' else '--help'}" in ended.err


def test_2_is_also_told_as_json(spae):
    ended = spae("fit", "x.zarr", "-k", "2", "--json")
    assert ended.code == 2
    assert ended.document["error"]["class"] == "UsageError"
    assert ended.document["error"]["exit_code"] == 2


def test_no_command_at_all_shows_the_help(spae):
    ended = spae()
    assert ended.code == 2
    assert "evaluate" in ended.out


def test_3_nan_names_row_and_column_and_the_option_that_helps(spae, tmp_path):
    values = planted()
    values[17, 3] = np.nan
    ended = spae("fit", write_zarr(tmp_path / "x.zarr", values), "-k", K, "-r", R, "-o", tmp_path / "e.zarr")
    failed(ended, 3, "row 17, column 3", "--missing mean")
    assert not (tmp_path / "e.zarr").exists()


def test_3_one_dimension(spae, tmp_path):
    zarr.create_array(str(tmp_path / "x.zarr"), shape=(9,), dtype="f4")
    failed(spae("check", tmp_path / "x.zarr"), 3, "1 dimension", "shape (9,)")


def test_3_nothing_there(spae, tmp_path):
    failed(spae("check", tmp_path / "x.zarr"), 3, "nothing at")


def test_3_no_such_member(spae, tmp_path):
    zarr.create_group(str(tmp_path / "g.zarr")).create_array("counts", data=planted())
    failed(spae("check", tmp_path / "g.zarr", "--array", "X"), 3, "no array 'X'", "counts")


def test_3_not_an_encoder(spae, store):
    failed(spae("inspect", store), 3, "not an encoder: it is a Zarr array, not a group")


@pytest.mark.parametrize("verb", ["evaluate", "transform", "update", "report"])
def test_3_an_encoder_and_data_that_are_swapped_are_told_with_the_command_that_was_meant(
    spae, store, encoder, tmp_path, verb
):
    right = {"update": [encoder, store], "report": [encoder, "--data", store]}.get(verb, [store, encoder])
    given = [{store: encoder, encoder: store}.get(word, word) for word in right]
    more = {"transform": ["-o", tmp_path / "c.zarr"], "report": ["-o", tmp_path / "r.html"]}.get(verb, [])
    failed(spae(verb, *given, *more), 3, "they are swapped", f"`spae {verb} {' '.join(map(str, right))}`")


def test_3_an_encoder_that_is_damaged_or_missing_is_not_called_swapped(spae, encoder, tmp_path):
    other = shutil.copytree(encoder, tmp_path / "other.zarr")
    shutil.rmtree(encoder / "mean")
    failed(spae("evaluate", other, encoder), 3, "'mean'")
    failed(spae("evaluate", other, tmp_path / "none.zarr"), 3, "there is no encoder")


@pytest.mark.parametrize("verb", ["check", "fit"])
def test_3_an_encoder_is_no_data_unless_an_array_of_it_is_named(spae, encoder, tmp_path, verb):
    words = ["-k", "1", "-r", "1", *QUICK, "-o", tmp_path / "e.zarr"] if verb == "fit" else []
    failed(spae(verb, encoder, *words), 3, "is an encoder, not data", "--array NAME")
    assert spae(verb, encoder, *words, "--array", "decoder").code == 0


def test_3_columns_that_do_not_match(spae, encoder, tmp_path):
    narrow = write_zarr(tmp_path / "t.zarr", planted()[:, :5])
    failed(spae("evaluate", narrow, encoder), 3, "5 features", f"{D} features")


@pytest.mark.parametrize(
    ("k", "r", "said"), [(D + 1, R, f"-k {D + 1}"), (K, D + 1, f"-r {D + 1}"), (K, f"{R},{D + 1}", f"{D + 1}")]
)
def test_3_k_and_r_out_of_range_say_the_range(spae, store, tmp_path, k, r, said):
    failed(spae("fit", store, "-k", k, "-r", r, "-o", tmp_path / "e.zarr"), 3, said, f"from 1 to {D}")


@pytest.mark.parametrize("verb", ["fit", "transform", "ingest"])
def test_3_an_output_that_exists_is_refused_before_anything_is_read(spae, store, encoder, verb):
    unreadable = store.with_name("nothing.zarr")
    ended = spae(*command(verb, unreadable, unreadable, output=encoder))
    failed(ended, 3, "exists", "--force")
    assert "nothing.zarr" not in ended.err


@pytest.mark.parametrize("verb", ["fit", "transform", "ingest"])
@pytest.mark.parametrize("inside", ["", "c"])
def test_3_an_output_that_is_the_input_is_refused_even_with_force(spae, store, encoder, verb, inside):
    before = sorted(Path(store).rglob("*"))
    failed(spae(*command(verb, store, encoder, output=store / inside), "--force"), 3, "damage the input")
    assert sorted(Path(store).rglob("*")) == before


def test_3_codes_may_not_replace_their_encoder(spae, store, encoder):
    failed(spae("transform", store, encoder, "-o", encoder, "--force"), 3, "damage the input")


def test_3_an_output_without_a_directory(spae, store, tmp_path):
    failed(spae("fit", store, "-k", K, "-r", R, "-o", tmp_path / "no" / "e.zarr"), 3, "mkdir -p")


@pytest.mark.parametrize("verb", ["check", "fit"])
def test_3_missing_chunks_and_strict(spae, store, encoder, tmp_path, verb):
    shutil.rmtree(Path(store, "c", "2"))
    argv = ["check", store] if verb == "check" else command(verb, store, encoder, output=tmp_path / "e2.zarr")
    assert spae(*argv).code == 0
    ended = spae(*argv, "--strict", "--force") if verb == "fit" else spae(*argv, "--strict")
    assert ended.code == 3
    assert "--strict" in ended.err


def test_3_strict_check_still_tells_what_it_found(spae, store):
    shutil.rmtree(Path(store, "c", "2"))
    document = spae("check", store, "--strict", "--json").document
    assert document["error"]["exit_code"] == 3
    assert document["check"]["missing_chunks"] == 1


@pytest.mark.parametrize("where", ["none", "local:2"])
def test_4_what_does_not_fit_is_refused_with_what_would(spae, store, tmp_path, where):
    argv = ["-k", K, "-r", R, "-o", tmp_path / "e.zarr", "--cluster", where]
    ended = spae("fit", store, *argv, "--memory", "250MB")
    failed(ended, 4, "Nothing was read", "Use a memory limit")
    limit = ended.err.split("memory limit of ")[1].split(" a process")[0].replace(" ", "")
    assert spae("plan", store, "-k", K, "--memory", limit, "--cluster", where).code == 0
    assert spae("plan", store, "-k", K, "--memory", "250MB", "--cluster", where).code == 4


@pytest.mark.parametrize("verb", ["check", "evaluate", "transform"])
def test_4_no_worker_is_started_that_could_only_die(spae, store, encoder, tmp_path, verb):
    argv = ["check", store] if verb == "check" else command(verb, store, encoder, output=tmp_path / "z.zarr")
    failed(spae(*argv, "--memory", "200MB", "--cluster", "local:2"), 4, "The smallest limit that could fit: --memory ")


def test_5_a_corrupt_chunk_is_named(spae, store, tmp_path):
    Path(store, "c", "2", "0").write_bytes(b"not a chunk")
    failed(spae("fit", store, "-k", K, "-r", R, "-o", tmp_path / "e.zarr"), 5, "'c/2/0'", "rows 1000 to 1499")
    assert not (tmp_path / "e.zarr").exists()


def test_6_no_scheduler_in_bounded_time(spae, store, monkeypatch):
    assert running.TIMEOUT_SECONDS < 30, "dask itself would try for 30 seconds"
    monkeypatch.setattr(running, "TIMEOUT_SECONDS", 1)
    ended = spae("check", store, "--cluster", "tcp://127.0.0.1:1")
    failed(ended, 6, "answers at tcp://127.0.0.1:1 within 1.0 s", "--cluster local")


def test_debug_shows_the_traceback_before_the_paragraph(spae, tmp_path):
    ended = spae("check", tmp_path / "x.zarr", "--debug")
    assert ended.code == 3
    assert ended.err.startswith("Traceback")
    assert ended.err.splitlines()[-1].startswith("error: there is nothing at")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryBudgetExceeded(), 4),
        (MemoryError(), 4),
        (StorageError(), 5),
        (PermissionError(), 5),
        (NotFound(), 3),
        (InvalidInput(), 3),
        (PassFailed(), 6),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError(), 1),
    ],
)
def test_each_class_has_its_code(error, code):
    assert exit_code(error) == code


def test_no_error_of_the_package_is_unforeseen():
    kinds = [kind for kind, _ in EXIT_CODES]
    leaves, stack = [], [SpaeError]
    while stack:
        kind = stack.pop()
        stack.extend(kind.__subclasses__())
        leaves.append(kind)
    assert [kind for kind in leaves if kind is not SpaeError and not issubclass(kind, tuple(kinds))] == []


def test_an_unforeseen_error_says_so():
    assert "and report it" in explain(ZeroDivisionError("division by zero"), "fit")


@pytest.mark.parametrize(
    ("python", "option"),
    [
        ("n_components=0 is not allowed", "-k 0 is not allowed"),
        (
            "fit with missing='mean' or missing='zero', or correct",
            "fit with --missing mean or --missing zero, or correct",
        ),
        ("Use strategy='tsqr' for more digits.", "Use --strategy tsqr for more digits."),
        ("orthonormal=True cannot be", "--orthonormal cannot be"),
        ("eps=0.5, n_nonzero=3.", "--eps 0.5, -r 3."),
        ("my_eps=3 and x=1", "my_eps=3 and x=1"),
        ("Name one with array=NAME (--array NAME).", "Name one with --array NAME."),
        ("fit with scale=True (--scale), or", "fit with --scale, or"),
    ],
)
def test_arguments_are_spelled_as_options(python, option):
    assert in_options(python) == option


def command(verb: str, store: Path, encoder: Path, output: Path) -> list[object]:
    """A command that would write ``output``, or read the store."""
    return {
        "fit": ["fit", store, "-k", K, "-r", R, "-o", output],
        "transform": ["transform", store, encoder, "-o", output],
        "ingest": ["ingest", store, output],
        "evaluate": ["evaluate", store, encoder],
    }[verb]


LONG = "n" * 10_000


@pytest.mark.parametrize(
    "argv",
    [
        ("fit", "STORE", "-k", K, "-r", R, "-o", f"{LONG}.zarr"),
        ("fit", "STORE", "-k", K, "-r", R, "-o", "e.zarr", "--checkpoint", LONG),
        ("fit", f"{LONG}.zarr", "-k", K, "-r", R, "-o", "e.zarr"),
        ("evaluate", "STORE", f"{LONG}.zarr"),
        ("transform", "STORE", "ENCODER", "-o", f"{LONG}.zarr"),
        ("ingest", "STORE", f"{LONG}.zarr"),
        ("path", "STORE", "-k", K, "-r", R, "-o", f"{LONG}.csv"),
        ("report", "ENCODER", "-o", f"{LONG}.html"),
        ("certs", LONG),
        ("demo", "-o", LONG),
        ("run", "p.toml"),
        ("run", "p.toml", "-o", LONG),
        ("submit", "slurm", "p.toml", "-n"),
        ("run", f"{LONG}.toml"),
        ("submit", "slurm", f"{LONG}.toml", "-n"),
        ("fit", "STORE", "-k", K, "-r", R, "-o", "e.zarr", "--cluster", f"{LONG}.toml"),
        ("submit", "kubernetes", "short.toml", "--cluster", f"{LONG}.toml", "-n"),
    ],
)
def test_3_is_a_name_that_no_file_system_takes(spae, store, encoder, tmp_path, monkeypatch, argv):
    monkeypatch.chdir(tmp_path)
    step = f'[[step]]\nkind = "fit"\ndata = "{store}"\nn_components = 2\nn_nonzero = 4\n'
    Path("p.toml").write_text(f'output = "{LONG}"\n\n{step}')
    Path("short.toml").write_text(f'output = "/results"\n\n{step}')
    before = sorted(tmp_path.iterdir())
    ended = spae(*({"STORE": store, "ENCODER": encoder}.get(word, word) for word in argv))
    failed(ended, 3, "is too long", "Give a shorter path")
    assert len(ended.err) < 800
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("verb", ["fit", "plan", "path"])
@pytest.mark.parametrize(("k", "r"), [("0", R), ("-1", R), ("five", R), (K, "0"), (K, "five"), (K, "4,0")])
def test_2_k_and_r_that_no_data_allow_are_errors_of_usage(spae, store, tmp_path, verb, k, r):
    output = ["-o", tmp_path / "e.zarr"] if verb == "fit" else []
    failed(spae(verb, store, "-k", k, "-r", r, *output), 2, "-k" if k != K else "-r", f"See `spae {verb} --help`.")


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["fit"], ["'DATA'", "'-k'", "'-o'", "'-r'", "'--eps'"]),
        (["fit", "x.zarr", "-o", "e.zarr"], ["'-k'", "'-r'", "'--eps'"]),
        (["fit", "x.zarr", "-r", "3"], ["'-k'", "'-o'"]),
        (["fit-part", "1/2", "x.zarr"], ["'-k'", "'--checkpoint'", "'-r'", "'--eps'"]),
        (["transform", "x.zarr"], ["'ENCODER'", "'-o'"]),
        (["path", "x.zarr"], ["'-k'", "'-r'"]),
        (["submit"], ["'SYSTEM'", "slurm", "'PIPELINE'"]),
    ],
)
def test_2_all_that_is_missing_is_named_at_once(spae, argv, named):
    ended = spae(*argv)
    failed(ended, 2, "Missing ", *named)
    rest = {"'-k'", "'-o'", "'-r'", "'--eps'", "'DATA'", "'ENCODER'"} - set(named)
    assert not [each for each in rest if each in ended.err]


@pytest.mark.parametrize(
    "argv",
    [
        ["check", "cels.{}"],
        ["inspect", "cels.{}"],
        ["ingest", "cels.{}", "y.zarr"],
        ["fit", "cels.{}", "-k", "1", "-r", "1", "-o", "e.zarr"],
    ],
)
@pytest.mark.parametrize("suffix", ["zarr", "npy", "h5ad", "parquet", "csv", "nc", "toml"])
def test_3_a_mistyped_path_suggests_what_lies_beside_it(spae, tmp_path, monkeypatch, argv, suffix):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"cells.{suffix}").mkdir()
    ended = spae(*(word.format(suffix) for word in argv))
    if suffix in ("csv", "nc") and argv[0] in ("check", "fit"):
        assert ended.code == 3
        return
    failed(ended, 3, f"Did you mean {tmp_path if suffix == 'npy' and argv[0] != 'inspect' else ''}", f"cells.{suffix}?")
    for other in ("numpy", "zarr.Array", "xarray", "DataFrame", "scipy"):
        assert other not in ended.err


def test_help_is_a_command_and_commands_of_other_programs_are_answered(spae):
    assert spae("help").out == spae("--help").out
    assert spae("help", "fit").out == spae("fit", "--help").out
    assert spae("help", "checkpoint", "rm").out == spae("checkpoint", "rm", "--help").out
    assert spae("help").code == spae("help", "fit").code == 0
    failed(spae("help", "ft"), 2, "Did you mean 'fit'?")
    failed(spae("compare"), 2, "No such command 'compare'", "`spae path`", "`spae evaluate`")
    for verb, said in ELSEWHERE.items():
        assert verb not in main.VERBS
        assert all(each in main.VERBS for each in re.findall(r"`spae ([a-z]+)", said))
