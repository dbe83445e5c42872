"""Progress: what is said, and how often."""

import io

from rich.console import Console

from spae_dask.cli.progress import Bar, Lines, Meter, Silence
from spae_dask.passes.events import Estimated, PassEnded, PassStarted, RowsDone, RunAgain, Searching


class Clock:
    """Tells the time it is told."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def run_pass(meter: Meter, clock: Clock, steps: int, seconds: float) -> None:
    meter(PassStarted("core", 4, 1000 * steps, 8 * 1000 * steps))
    for _ in range(steps):
        clock.now += seconds
        meter(RowsDone(1000, 8000))
    meter(PassEnded("core", steps * seconds, 0.0, 0.0))


def test_lines_come_every_five_seconds_and_at_the_end():
    clock, stream = Clock(), io.StringIO()
    run_pass(Meter(Lines(stream, clock), clock), clock, steps=12, seconds=1.0)
    assert stream.getvalue().splitlines() == [
        "core: 42%, 5,000 of 12,000 rows, 1,000 rows/s, 7.8 KiB/s, 7.0 s left",
        "core: 83%, 10,000 of 12,000 rows, 1,000 rows/s, 7.8 KiB/s, 2.0 s left",
        "core: 12,000 rows, 93.8 KiB in 12 s (1,000 rows/s, 7.8 KiB/s)",
    ]


def test_an_estimate_is_a_line_of_its_own():
    stream = io.StringIO()
    Meter(Lines(stream, Clock()), Clock())(Estimated(0.12, 1.0123, 1.0091, 1.01549))
    assert stream.getvalue() == "12 % read: ratio 1.0123 (1.0091 to 1.0155)\n"


def test_a_second_run_of_rows_is_a_line_of_its_own_and_not_the_end_of_the_pass():
    clock, stream = Clock(), io.StringIO()
    meter = Meter(Lines(stream, clock), clock)
    meter(PassStarted("core", 4, 2000, 8000))
    meter(RowsDone(1000, 4000))
    meter(RunAgain(1000, 2000, "tcp://10.0.0.1:1", "tcp://10.0.0.2:2", 31.2, 0.48))
    assert stream.getvalue() == (
        "core: rows 1,000 to 1,999 run again on tcp://10.0.0.2:2. tcp://10.0.0.1:1 has not finished them, "
        "and nothing else finished for 31 s. A span takes 0.5 s on average\n"
    )
    assert meter.rows == 1000


def test_a_second_pass_starts_its_own_count():
    clock, stream = Clock(), io.StringIO()
    meter = Meter(Lines(stream, clock), clock)
    for _ in range(2):
        run_pass(meter, clock, steps=3, seconds=2.0)
    assert [line.split(",")[0] for line in stream.getvalue().splitlines()] == ["core: 100%", "core: 3"] * 2


def test_an_end_without_steps_still_counts_all_rows():
    clock, stream = Clock(), io.StringIO()
    meter = Meter(Lines(stream, clock), clock)
    meter(PassStarted("transform", 1, 500, 4000))
    clock.now += 2
    meter(PassEnded("transform", 2.0, 0.0, 0.0))
    assert stream.getvalue() == "transform: 500 rows, 3.9 KiB in 2.0 s (250 rows/s, 2.0 KiB/s)\n"


def test_rows_of_an_unknown_number_have_no_share():
    clock, stream = Clock(), io.StringIO()
    meter = Meter(Lines(stream, clock), clock)
    meter.begin("ingest")
    for done in (1000, 2000):
        clock.now += 6
        meter.stand_at(done, None)
    meter.end()
    assert stream.getvalue().splitlines() == [
        "ingest: 1000 rows, 167 rows/s",
        "ingest: 2000 rows, 167 rows/s",
        "ingest: 2,000 rows in 12 s (167 rows/s)",
    ]


def test_the_bar_shows_rates_and_leaves_one_line():
    clock, stream = Clock(), io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    run_pass(Meter(Bar(console), clock), clock, steps=4, seconds=1.0)
    shown = stream.getvalue()
    assert "1,000 rows/s, 7.8 KiB/s, 0.1 s left" in shown
    assert "100%" in shown
    assert shown.endswith("core: 4,000 rows, 31.2 KiB in 4.0 s (1,000 rows/s, 7.8 KiB/s)\n")
    assert "\x1b[?25h" in shown, "the cursor is shown again"


def test_silence_is_silent(capsys):
    clock = Clock()
    run_pass(Meter(Silence(), clock), clock, steps=2, seconds=9.0)
    assert capsys.readouterr() == ("", "")


def test_a_search_after_a_pass_says_its_rounds_and_the_best_ratio_so_far():
    clock, stream = Clock(), io.StringIO()
    meter = Meter(Lines(stream, clock), clock)
    run_pass(meter, clock, steps=1, seconds=1.0)
    for done, ratio in ((0, None), (1, 1.0321), (2, 1.0123)):
        meter(Searching(12, done, 4, ratio))
        clock.now += 6.0
    meter(PassStarted("rows", 1, 10, 80))
    assert stream.getvalue().splitlines()[1:] == [
        "search: 25%, 1 of 4 rounds, r = 12, best ratio so far 1.032100, 6.0 s",
        "search: 50%, 2 of 4 rounds, r = 12, best ratio so far 1.012300, 12 s",
    ]
    assert meter.place == ("rows", 0, 10, "rows")


def test_a_bar_shows_a_search():
    stream = io.StringIO()
    bar = Bar(Console(file=stream, force_terminal=True, width=120))
    meter = Meter(bar)
    meter(Searching(12, 1, 4, None))
    bar.stop()
    assert "search" in stream.getvalue()
    assert "25%" in stream.getvalue()
    assert "r = 12, on a sketch" in stream.getvalue()
