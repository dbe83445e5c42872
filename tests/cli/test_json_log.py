"""Standard error as records, and completion in the shell."""

import io
import json
from collections import Counter
from datetime import datetime

import pytest

from spae_dask.cli.progress import JsonLog, JsonProgress, Meter
from spae_dask.passes.events import Estimated, PassEnded, PassStarted, Resumed, RowsDone, RunAgain, Searching
from tests.cli.conftest import QUICK


def records(err: str) -> list[dict]:
    return [json.loads(line) for line in err.splitlines()]


def test_every_line_of_stderr_is_a_record(spae, store, tmp_path):
    ended = spae(
        "fit", store, "-k", 2, "-r", 3, *QUICK, "-o", tmp_path / "e.zarr", "--log-json", "-vv", "--cluster", "local:1"
    )
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


def of_events(*events):
    """Records of what a pass of the engine tells, without their times."""
    stream = io.StringIO()
    meter = Meter(JsonProgress(JsonLog(stream, lambda: "fit")))
    for each in (PassStarted("core", 4, 4000, 32000), *events):
        meter(each)
    found = records(stream.getvalue())
    assert {each["level"] for each in found} == {"info"}
    return [{name: each[name] for name in ("event", "message", "pass", "rows", "n_rows", "bytes")} for each in found]


def test_what_was_done_before_is_no_end_of_a_pass():
    resumed, ended = of_events(Resumed(1, 4, 1000, 8000), RowsDone(3000, 24000), PassEnded("core", 1.0, 0.5, 0.5))
    assert (resumed["event"], ended["event"]) == ("resumed", "pass")
    assert resumed["message"] == "resumed: 1 of 4 spans already done"
    assert (ended["pass"], ended["rows"], ended["n_rows"], ended["bytes"]) == ("core", 4000, 4000, 32000)


def test_an_estimate_is_no_end_of_a_pass():
    ended, estimated = of_events(PassEnded("core", 1.0, 0.5, 0.5), Estimated(0.25, 1.0123, 1.0091, 1.01549))
    assert (ended["event"], estimated["event"]) == ("pass", "estimated")
    assert estimated["message"] == "25 % read: ratio 1.0123 (1.0091 to 1.0155)"
    assert (estimated["pass"], estimated["rows"], estimated["bytes"]) == ("core", 4000, 32000)


def test_a_search_is_told_in_numbers():
    stream, times = io.StringIO(), iter([0.0] * 8 + [60.0] * 20)
    log = JsonLog(stream, lambda: "fit")
    meter = Meter(JsonProgress(log, lambda: next(times)))
    for each in (PassStarted("core", 4, 4000, 32000), RowsDone(4000, 32000), PassEnded("core", 1.0, 0.5, 0.5)):
        meter(each)
    for _ in range(8):
        meter(Searching(12, 2, 7, 1.0123))
    told = [each for each in records(stream.getvalue()) if each["event"] == "search"]
    assert len(told) == 1
    assert {name: told[0][name] for name in ("n_nonzero", "n_done", "n_rounds", "ratio", "rows")} == {
        "n_nonzero": 12, "n_done": 2, "n_rounds": 7, "ratio": 1.0123, "rows": 4000,
    }  # fmt: skip


def test_rows_that_are_run_again_are_a_note_with_the_numbers_of_their_pass():
    (note,) = of_events(RowsDone(1000, 8000), RunAgain(1000, 2000, "tls://10.0.0.1:1", "tls://10.0.0.2:2", 31.2, 0.48))
    assert note["event"] == "note"
    assert note["message"].startswith("core: rows 1,000 to 1,999 run again on tls://10.0.0.2:2. tls://10.0.0.1:1 ")
    assert (note["pass"], note["rows"], note["n_rows"], note["bytes"]) == ("core", 1000, 4000, 8000)


def test_a_fit_that_goes_on_tells_so_once(spae, store, tmp_path):
    size = ("-k", 2, "-r", 3, *QUICK)
    words = ("fit", store, *size, "-o", tmp_path / "e.zarr", "--checkpoint", tmp_path / "kept", "--log-json")
    assert spae(*words, "--keep-checkpoint").code == 0
    counts = Counter(each["event"] for each in records(spae(*words, "--force").err))
    assert (counts["resumed"], counts["pass"]) == (1, 1)


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
