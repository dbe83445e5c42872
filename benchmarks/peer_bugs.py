"""Faults that users of other packages met on clusters: the tests that show them absent here, as rows of a table."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rows import Row

TESTS = "tests/integration/test_peer_bugs_on_a_cluster.py"


def peers(runs: int, scratch: Path) -> Iterator[Row]:
    """A row for each test, whose runs are those with all its parameters."""
    found: dict[str, list[str]] = {}
    for number in range(runs):
        results = scratch / f"{number}.xml"
        words = [sys.executable, "-m", "pytest", "-q", TESTS, f"--junitxml={results}", "-p", "no:cacheprovider"]
        subprocess.run(words, cwd=Path(__file__).parents[1], check=False, stdout=subprocess.DEVNULL)
        for case in ET.parse(results).iter("testcase"):  # noqa: S314 - pytest's own
            fault = next((f"{each.tag}: {each.get('message')}" for each in case if each.tag != "system-out"), "")
            found.setdefault(case.get("name", "").partition("[")[0], []).append(fault)
    for name, faults in found.items():
        wrong = [each for each in faults if each]
        sentence = name.removeprefix("test_").replace("_", " ")
        yield Row("peers", sentence, len(faults), len(wrong), wrong[0] if wrong else "so it is; two worker processes")
