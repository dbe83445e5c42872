"""The whole demo, once, and what it leaves behind: files, numbers, the page, and the page in a browser."""

import json
import shlex

import numpy as np
import pytest

from spae_dask import load_encoder
from spae_dask.cli.demo_steps import FILES, MARKER, STORES, prepare
from spae_dask.cli.main import main
from spae_dask.datasets.indian_pines import checkerboard, load_indian_pines
from spae_dask.errors import OutputExists, StorageError
from tests.report.page_reader import read_page


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Folder of a demo that has been run, its JSON, and what it said."""
    folder = tmp_path_factory.mktemp("demo run") / "spae demo"
    with pytest.MonkeyPatch.context() as patch:
        out, err = Captured(), Captured()
        patch.setattr("sys.stdout", out)
        patch.setattr("sys.stderr", err)
        code = main(["demo", "--output", str(folder), "--json"])
    assert code == 0, err.text
    return Demo(folder, json.loads(out.text), err.text)


class Captured:
    """A text stream that is kept."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False


class Demo:
    def __init__(self, folder, document, said):
        self.folder = folder
        self.document = document
        self.said = said
        self.html = (folder / "report.html").read_text(encoding="utf-8")
        self.page = read_page(self.html, scripts=1)


def table(path):
    """Numbers of a table of the demo."""
    return np.loadtxt(path, delimiter=",", skiprows=1)


def test_it_leaves_all_its_files_and_no_others(demo):
    assert sorted(path.name for path in demo.folder.iterdir()) == sorted([*FILES, *STORES, MARKER])


def test_it_tells_how_long_it_took(demo):
    assert demo.document["seconds"] > 0


def test_it_shows_each_command_and_what_came_of_it(demo):
    shown = [line.removeprefix("$ ") for line in demo.said.splitlines() if line.startswith("$ ")]
    assert shown == demo.document["commands"]
    assert [shlex.split(command)[1] for command in shown] == [
        "ingest", "ingest", "plan", "fit", "evaluate", "transform", "report",
    ]  # fmt: skip
    assert f"ratio              {demo.document['training']['ratio']:.6f}" in demo.said


def test_the_halves_of_the_image_are_the_colours_of_a_chessboard(demo):
    data = load_indian_pines()
    inside = checkerboard((145, 145), 29).ravel()
    np.testing.assert_array_equal(table(demo.folder / "training.csv"), data.pixels[inside])
    np.testing.assert_array_equal(table(demo.folder / "held-out.csv"), data.pixels[~inside])


def test_losses_are_those_of_dense_algebra_on_the_pixels(demo):
    encoder = load_encoder(demo.folder / "encoder.zarr")
    H = encoder.components_.T
    for part in ("training", "held_out"):
        X = table(demo.folder / f"{part.replace('_', '-')}.csv") - encoder.mean_
        G = np.linalg.lstsq(X @ H, X, rcond=None)[0]
        sigma = np.linalg.svd(X, compute_uv=False)
        certificate = demo.document[part]
        assert certificate["loss"] == pytest.approx(np.linalg.norm(X - X @ H @ G) ** 2, rel=1e-9)
        assert certificate["pca_loss"] == pytest.approx((sigma[5:] ** 2).sum(), rel=1e-9)
    assert demo.document["held_out"]["decoder_loss"] == pytest.approx(
        np.linalg.norm(X - X @ H @ encoder.decoder_) ** 2, rel=1e-9
    )
    assert (H != 0).sum(axis=0).max() <= 10


def test_the_encoder_is_worth_showing(demo):
    assert demo.document["training"]["ratio"] < 1.15
    assert demo.document["held_out"]["ratio"] < 1.15
    assert demo.document["training"]["ratio"] < demo.document["training"]["bound"]


def test_the_page_is_well_formed_and_needs_nothing_from_elsewhere(demo):
    assert demo.page.errors == []
    assert demo.page.headings[1:4] == [
        "The decoded image",
        "The chosen features",
        "More or fewer features",
    ]
    assert min(len(alt) for alt in demo.page.alts) > 40


def test_the_page_tells_the_certificates_numbers_in_full(demo):
    told = {value for value, _ in demo.page.numbers}
    training, held_out = demo.document["training"], demo.document["held_out"]
    for certificate in (training, held_out):
        assert certificate["ratio"] in told
        assert certificate["loss"] / certificate["total"] in told
        assert certificate["pca_loss"] / certificate["total"] in told
    assert held_out["decoder_loss"] / held_out["total"] in told
    assert training["bound"] in told
    assert training["bytes_read"] in told


def test_the_page_rounds_its_numbers_correctly(demo):
    ratio = demo.document["training"]["ratio"]
    assert (ratio, f"{ratio:.4f}") in demo.page.numbers
    for value, text in demo.page.numbers:
        if text.endswith("%"):
            assert abs(float(text.rstrip("%").replace("\N{MINUS SIGN}", "-")) / 100 - value) < 0.006


def test_the_page_names_the_bands(demo):
    data = load_indian_pines()
    for band in demo.document["selected"]:
        assert f"{data.wavelengths[band]:.0f} nm (column {band}, channel {data.channels[band]})" in demo.page.text


def test_features_have_the_names_of_the_bands(demo):
    names = load_encoder(demo.folder / "encoder.zarr").feature_names_in_
    assert len(set(names)) == 200
    data = load_indian_pines()
    for band in demo.document["selected"]:
        assert names[band] == f"channel {data.channels[band]} ({data.wavelengths[band]:.0f} nm)"
        assert names[band] in {
            cell for found in demo.page.tables for row in found.rows for cell in (row, *found.rows[row])
        }


def test_a_folder_with_other_files_is_refused_and_untouched(tmp_path, capsys):
    (tmp_path / "report.html").write_text("mine")
    assert main(["demo", "-o", str(tmp_path)]) == 3
    assert "--force" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "mine"


def test_force_makes_room_for_the_demos_names_and_spares_the_others(tmp_path):
    (tmp_path / "report.html").write_text("mine")
    (tmp_path / "thesis.tex").write_text("mine")
    prepare(tmp_path, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [MARKER, "thesis.tex"]


def test_folders_that_no_demo_made_are_never_deleted(tmp_path):
    (tmp_path / "codes.zarr").mkdir()
    (tmp_path / "codes.zarr" / "precious.txt").write_text("mine")
    with pytest.raises(OutputExists, match="`spae demo` did not make"):
        prepare(tmp_path, force=True)
    assert (tmp_path / "codes.zarr" / "precious.txt").exists()


def test_a_link_is_removed_and_what_it_leads_to_is_not(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "zarr.json").write_text("{}")
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "codes.zarr").symlink_to(tmp_path / "elsewhere")
    prepare(folder, force=True)
    assert (tmp_path / "elsewhere" / "zarr.json").exists()
    assert not (folder / "codes.zarr").is_symlink()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputExists, match="is a file"):
        prepare(tmp_path / "file", force=True)
    with pytest.raises(StorageError, match="cannot be written to"):
        prepare(tmp_path / "file" / "below", force=False)
