"""Coastlines: cut to the frame of a map at any turn of longitude, and read only where they already are."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from spae_dask.report.coastlines import FINEST, NO_DATA, Coast, read_coast
from tests.report.fake_cartopy import fake_cartopy, store, without_cartopy

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


def length(line: np.ndarray) -> float:
    return float(np.hypot(*np.diff(line, axis=0).T).sum())


@pytest.mark.parametrize("frame", FRAMES)
def test_the_frame_holds_what_points_along_the_line_fall_into_it(frame: tuple[float, float, float, float]) -> None:
    west, east, south, north = frame
    line = wandering(0)
    pieces = Coast((line,)).within(*frame)
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
    pieces = Coast((EQUATOR,)).within(0.0, 360.0, -90.0, 90.0)
    ends = sorted((float(piece[0, 0]), float(piece[-1, 0])) for piece in pieces)
    assert ends == [(0.0, 180.0), (180.0, 360.0)]


def test_nothing_of_a_line_elsewhere_is_in_the_frame() -> None:
    assert Coast((EQUATOR, EQUATOR[:2])).within(-50.0, 50.0, 10.0, 20.0) == []
    assert Coast((EQUATOR[:2],)).within(-50.0, 50.0, -10.0, 10.0) == []


def test_lines_keep_their_shape_with_few_points() -> None:
    angle = np.linspace(0.0, 2 * np.pi, 5001)
    ring = 20.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    dot = ring * 1e-3
    (found,) = Coast((ring, dot)).within(-50.0, 50.0, -50.0, 50.0)
    assert len(found) < 100
    np.testing.assert_allclose(found[[0, -1]], ring[[0, -1]], atol=1e-12)
    middles = (found[1:] + found[:-1]) / 2
    assert np.hypot(*middles.T).min() >= 20.0 - 100.0 / FINEST


def test_data_of_this_machine_are_found_where_cartopy_has_them(tmp_path: Path) -> None:
    one, two = [[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]], [[5.0, 5.0], [6.0, 6.0]]
    with fake_cartopy(tmp_path) as config:
        store(config["data_dir"], [[two]], "50m")
        coast = read_coast()
        assert coast is not None
        np.testing.assert_array_equal(coast.lines, [two])
        store(config["data_dir"], [[one]])
        coast = read_coast()
        assert coast is not None
        np.testing.assert_array_equal(coast.lines, [one])
        store(config["pre_existing_data_dir"], [[two], [one, two]])
        coast = read_coast()
        assert coast is not None
        assert [line.tolist() for line in coast.lines] == [two, one, two]
        assert coast.note == ""


def test_without_data_nothing_is_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(tmp_path / "here", [[[[0.0, 0.0], [1.0, 1.0]]]])
    monkeypatch.chdir(tmp_path / "here")
    with fake_cartopy(tmp_path) as config:
        config["pre_existing_data_dir"] = Path("")  # cartopy's default, which is the current folder
        coast = read_coast()
    assert coast is not None
    assert (coast.lines, coast.note) == ((), NO_DATA)


@pytest.mark.parametrize("text", ["not a map", "[[[[0.0, 0.0], [1e300, 1.0]]]]", "[[[[0.0, NaN], [1.0, 1.0]]]]"])
def test_damaged_data_are_told_and_stop_nothing(text: str, tmp_path: Path) -> None:
    with fake_cartopy(tmp_path) as config:
        store(config["data_dir"], []).write_text(text, encoding="utf-8")
        coast = read_coast()
    assert coast is not None
    assert coast.lines == ()
    assert "cannot be read" in coast.note


def test_without_cartopy_there_is_no_coast_and_no_note() -> None:
    with without_cartopy():
        assert read_coast() is None


def test_lines_are_cut_at_jumps_around_the_earth_and_along_the_edge_of_its_map(tmp_path: Path) -> None:
    around = [[178.0, 10.0], [179.0, 11.0], [-179.0, 12.0], [-178.0, 13.0]]
    antarctica = [
        [-170.0, -84.0],
        [-180.0, -85.0],
        [-180.0, -90.00000000000003],
        [180.0, -90.0],
        [180.0, -85.0],
        [170.0, -84.0],
    ]
    with fake_cartopy(tmp_path) as config:
        store(config["data_dir"], [[around], [antarctica]])
        coast = read_coast()
    assert coast is not None
    assert [line.tolist() for line in coast.lines] == [around[:2], around[2:], antarctica[:2], antarctica[-2:]]


def test_cartopy_reads_what_it_has_and_downloads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cartopy = pytest.importorskip("cartopy")
        shapefile, io = pytest.importorskip("shapefile"), pytest.importorskip("cartopy.io")

    def refuse(url: str) -> None:
        raise AssertionError(f"a download of {url}")

    monkeypatch.setattr(io, "urlopen", refuse)
    monkeypatch.setitem(cartopy.config, "pre_existing_data_dir", tmp_path / "existing")
    monkeypatch.setitem(cartopy.config, "data_dir", tmp_path / "data")
    absent = read_coast()
    assert absent is not None
    assert (absent.lines, absent.note) == ((), NO_DATA)
    for folder, lines in (("data", [EQUATOR]), ("existing", [EQUATOR[:3], EQUATOR[5:]])):
        path = store(tmp_path / folder, [])
        path.unlink()
        with shapefile.Writer(str(path), shapeType=shapefile.POLYLINE) as writer:
            writer.field("featurecla", "C", 20)
            writer.line([line.tolist() for line in lines])
            writer.record("Coastline")
        coast = read_coast()
        assert coast is not None
        assert [line.tolist() for line in coast.lines] == [line.tolist() for line in lines]
