"""Standard error as records, and completion in the shell."""

import json
from datetime import datetime

import pytest


def records(err: str) -> list[dict]:
    return [json.loads(line) for line in err.splitlines()]


def test_every_line_of_stderr_is_a_record(spae, store, tmp_path):
    ended = spae("fit", store, "-k", 2, "-r", 3, "-o", tmp_path / "e.zarr", "--log-json", "-vv", "--cluster", "local:1")
    assert ended.code == 0
    found = records(ended.err)
    assert {"time", "level", "event", "command", "message"} <= set.intersection(*(set(each) for each in found))
    assert {each["command"] for each in found} == {"fit"}
    assert all(datetime.fromisoformat(each["time"]).tzinfo is not None for each in found)
    assert {"note", "pass", "log"} <= {each["event"] for each in found}


def test_a_pass_is_told_in_numbers(spae, store):
    (ended,) = [each for each in records(spae("check", store, "--log-json").err) if each["event"] == "pass"]
    assert (ended["rows"], ended["n_rows"], ended["bytes"]) == (3000, 3000, 3000 * 12 * 4)
    assert ended["seconds"] > 0


def test_the_result_stays_on_stdout_as_it_was(spae, store):
    plain, logged = spae("check", store), spae("check", store, "--log-json")
    assert logged.out == plain.out != ""


def test_quiet_leaves_warnings_and_errors(spae, store, tmp_path):
    assert spae("check", store, "--log-json", "-q").err == ""
    (error,) = records(spae("check", tmp_path / "nothing.zarr", "--log-json", "-q").err)
    assert (error["level"], error["event"]) == ("error", "error")
    assert "nothing.zarr" in error["message"]


def test_names_with_quotes_and_newlines_stay_one_record(spae, tmp_path):
    (error,) = records(spae("check", tmp_path / 'a"b\nc.zarr', "--log-json").err)
    assert 'a"b\nc.zarr' in error["message"]


def test_a_usage_error_is_a_record_too(spae):
    (error,) = records(spae("fit", "--bogus", "--log-json").err)
    assert error["level"] == "error"
    assert "--bogus" in error["message"]


@pytest.mark.parametrize(("typed", "offered"), [("insp", ["inspect"]), ("fit --strateg", ["--strategy"])])
def test_the_shell_completes_verbs_and_options(spae_process, typed, offered):
    words = ["spae", *typed.split()]
    asked = {"_SPAE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    out, _ = spae_process(**asked).communicate(timeout=60)
    assert out.split() == offered


def test_the_completion_script_is_for_the_command(spae_process):
    told = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # the shell is else looked for among the parents
    out, err = spae_process("--show-completion", "bash", **told).communicate(timeout=60)
    assert "_SPAE_COMPLETE=complete_bash" in out + err
