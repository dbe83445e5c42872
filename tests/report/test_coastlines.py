"""Coastlines: cut to the frame of a map at any turn of longitude, and read only where they already are."""

from pathlib import Path

import numpy as np
import pytest
import shapely

from spae_dask.report.coastlines import EDGE, FINEST, NO_DATA, Coast, read_coast
from tests.report.coastline_data import store, with_data_in, without_cartopy

FRAMES = [
    (-180.0, 180.0, -90.0, 90.0),
    (0.0, 360.0, -90.0, 90.0),
    (-2.5, 357.5, -88.0, 88.0),
    (120.0, 280.0, -40.0, 60.0),
    (-30.0, 40.0, 35.0, 70.0),
    (340.0, 380.0, 35.0, 70.0),
]

EQUATOR = np.stack([np.linspace(-180.0, 180.0, 13), np.zeros(13)], axis=1)


def wandering(seed: int) -> np.ndarray:
    """A line of long steps all over the Earth, some of them due north or due east."""
    rng = np.random.default_rng(seed)
    line = np.stack([rng.uniform(-180.0, 180.0, 60), rng.uniform(-90.0, 90.0, 60)], axis=1)
    line[20:30:2, 0] = line[21:31:2, 0]
    line[40:50:2, 1] = line[41:51:2, 1]
    return line


def coast_of(*lines: np.ndarray) -> Coast:
    return Coast(shapely.MultiLineString([*lines]))


def length(line: np.ndarray) -> float:
    return float(np.hypot(*np.diff(line, axis=0).T).sum())


@pytest.mark.parametrize("frame", FRAMES)
def test_the_frame_holds_what_points_along_the_line_fall_into_it(frame: tuple[float, float, float, float]) -> None:
    west, east, south, north = frame
    line = wandering(0)
    pieces = coast_of(line).within(*frame)
    for piece in pieces:
        assert np.all((piece >= [west - 1e-9, south - 1e-9]) & (piece <= [east + 1e-9, north + 1e-9]))
    steps = np.linspace(0.0, 1.0, 4000, endpoint=False) + 1 / 8000
    along = line[:-1, None] + steps[:, None] * np.diff(line, axis=0)[:, None]
    inside = np.zeros(along.shape[:2])
    for turn in (-360.0, 0.0, 360.0):
        x, y = along[..., 0] + turn, along[..., 1]
        inside += (x >= west) & (x <= east) & (y >= south) & (y <= north)
    expected = (inside.mean(axis=1) * np.hypot(*np.diff(line, axis=0).T)).sum()
    assert expected > 0.0
    np.testing.assert_allclose(sum(map(length, pieces)), expected, rtol=2e-3)


def test_a_world_from_0_to_360_takes_the_west_from_beyond_180() -> None:
    pieces = coast_of(EQUATOR).within(0.0, 360.0, -90.0, 90.0)
    ends = sorted((float(piece[0, 0]), float(piece[-1, 0])) for piece in pieces)
    assert ends == [(0.0, 180.0), (180.0, 360.0)]


def test_nothing_of_a_line_elsewhere_is_in_the_frame() -> None:
    assert coast_of(EQUATOR).within(-50.0, 50.0, 10.0, 20.0) == []
    assert coast_of(EQUATOR[:2]).within(-50.0, 50.0, -10.0, 10.0) == []


def test_lines_keep_their_shape_with_few_points() -> None:
    angle = np.linspace(0.0, 2 * np.pi, 5001)
    ring = 20.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    (found,) = coast_of(ring, ring * 1e-3).within(-50.0, 50.0, -50.0, 50.0)
    assert len(found) < 100
    np.testing.assert_allclose(found[[0, -1]], ring[[0, -1]], atol=1e-12)
    middles = (found[1:] + found[:-1]) / 2
    assert np.hypot(*middles.T).min() >= 20.0 - 100.0 / FINEST


def found_lines() -> list[list[list[float]]]:
    coast = read_coast()
    assert coast is not None
    assert coast.note == ""
    return [shapely.get_coordinates(line).tolist() for line in shapely.get_parts(coast.lines)]


def test_data_of_this_machine_are_found_where_cartopy_has_them(tmp_path: Path) -> None:
    one, two = [[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]], [[5.0, 5.0], [6.0, 6.0]]
    with with_data_in(tmp_path) as config:
        store(config["data_dir"], [[two]], "50m")
        assert found_lines() == [two]
        store(config["data_dir"], [[one]])
        assert found_lines() == [one]
        store(config["pre_existing_data_dir"], [[two], [one]])
        assert sorted(found_lines()) == [one, two]


def test_without_data_nothing_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(tmp_path / "here", [[[[0.0, 0.0], [1.0, 1.0]]]])
    monkeypatch.chdir(tmp_path / "here")
    with with_data_in(tmp_path) as config:
        config["pre_existing_data_dir"] = Path("")  # cartopy's default, which is the current folder
        coast = read_coast()
    assert coast is not None
    assert (coast.within(-180.0, 180.0, -90.0, 90.0), coast.note) == ([], NO_DATA)


def test_damaged_data_are_told_and_stop_nothing(tmp_path: Path) -> None:
    with with_data_in(tmp_path) as config:
        path = store(config["data_dir"], [[[[0.0, 0.0], [1.0, 1.0]]]])
        path.write_bytes(path.read_bytes()[:90] + b"nonsense")
        coast = read_coast()
        assert coast is not None
        assert "cannot be read" in coast.note
        store(config["data_dir"], [[[[0.0, 0.0], [1e300, 1.0]]]])
        coast = read_coast()
        assert coast is not None
        for piece in coast.within(-180.0, 180.0, -90.0, 90.0):
            assert np.all(np.abs(piece) <= (180.0, 90.0))


def test_without_cartopy_there_is_no_coast_and_no_note() -> None:
    with without_cartopy():
        assert read_coast() is None


def test_lines_along_the_edge_of_a_world_map_are_no_coast(tmp_path: Path) -> None:
    antarctica = [
        [-170.0, -84.0],
        [-180.0, -85.0],
        [-180.0, -90.00000000000003],
        [180.0, -90.0],
        [180.0, -85.0],
        [170.0, -84.0],
    ]
    with with_data_in(tmp_path) as config:
        store(config["data_dir"], [[antarctica]])
        found = sorted(found_lines())
    assert [len(line) for line in found] == [2, 2]
    np.testing.assert_allclose(found[0][0], antarctica[0])
    np.testing.assert_allclose(found[1][-1], antarctica[-1])
    for line, end in ((found[0], antarctica[1]), (found[1], antarctica[-2])):
        assert np.abs(np.subtract(line, end)).max(axis=1).min() <= 2 * EDGE
