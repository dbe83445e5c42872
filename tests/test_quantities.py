"""Bytes and seconds as people read them."""

import re
from pathlib import Path

import pytest
from dask.utils import parse_bytes
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.quantities import format_nbytes, format_seconds


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (150 << 20, "150 MiB"),
        (5 << 30, "5.0 GiB"),
        (3 << 50, "3072 TiB"),
    ],
)
def test_bytes(nbytes: int, text: str) -> None:
    assert format_nbytes(nbytes) == format_nbytes(nbytes, up=True) == text


@given(st.integers(1, 1 << 50))
def test_a_size_that_must_suffice_suffices_as_it_is_written(nbytes: int) -> None:
    assert nbytes <= parse_bytes(format_nbytes(nbytes, up=True)) <= 1.11 * nbytes + 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.1 s"), (0.44, "0.4 s"), (42, "42 s"), (90, "90 s"), (120, "2.0 min"), (7200, "2.0 h"), (864_000, "10 d")],
)
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


PACKAGE = Path(__file__).parents[1] / "spae_dask"

OTHER_FORMATS = re.compile(r"\{[^{}]*:[.,\d]*f\} (s|seconds|min|h|[KMGT]i?B)\b|>> [23]0\} [KMGT]i?B|format_bytes")


def test_messages_have_no_other_format_of_bytes_and_seconds() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if OTHER_FORMATS.search(line)
    ]

    assert found == []


@pytest.mark.parametrize("planted", ['f"in {seconds:.1f} s"', 'f"{n >> 20} MiB free"', 'f"{n / 1e6:.0f} MB"'])
def test_another_format_is_found(planted: str) -> None:
    assert OTHER_FORMATS.search(planted)
