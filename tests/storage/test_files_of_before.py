"""Encoders and checkpoints that an earlier version wrote still open and resume, wherever classes have moved since.

``tests/data/before.zip`` was written by version 0.1.0 before its modules were arranged anew. It is never written again.
"""

import json
import platform
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy

from spae_dask import SparseEncoder, load_encoder
from spae_dask.passes.accumulators import (
    CrossProducts,
    FrequentDirections,
    Gram,
    Imputed,
    IntegerGram,
    Kept,
    Moments,
    NonFinite,
    Projection,
    Residual,
    RowPool,
    RowSketch,
    Together,
    Triangular,
    UnitLosses,
)
from spae_dask.passes.accumulators.base import Accumulator
from spae_dask.passes.accumulators.read_sum import ReadSum
from spae_dask.passes.checkpoint import digest_of
from spae_dask.passes.spans import Span
from spae_dask.xarray import GridEncoder

BEFORE = Path(__file__).parents[1] / "data" / "before.zip"

DIGESTS = [
    "5c2a284219152642aa955c6052c0c07d577cfeb1e4c02ffb6b7a88717e0a940a",
    "96b4bf38e2f8fe627e8d4ac05cd65b60a172e0eb9c278aa2360f7eb1940a4486",
    "b6ed6766923f86df339a811a6c1c3a763c573ae0273aa2eae89158acdd2c4341",
    "5bb414576c5dd37fc27c016505fcf03232fb23bbac5f80f013ae9645f728e6a4",
    "cf84d2a41765393b992308b74e92149895d8cc08676c671f735da4adb7136fe5",
    "7c688a5561ef4d4c07648fb85e01be901c8e4ccce53301d2284ad92f67100bab",
    "fa42b2c87e56c510f37c562b0ab0fcd2ecbd55616ba6a49fd1fc6bc8d11b8af8",
    "d6cc8bef0a982572879626193b1c08df430fd726b69721b6d1e7c5ed0b5178d7",
    "9cc8d6c851f6f8c8c3da1eac3e50a4bc9773f1dcc2e2f5057a402d1f6817ef31",
    "db42f3610ef74d263dbbe7ccd72e0ed5914dcf62cf98e680302282dc19ecd43c",
    "ac9de13f19384fff3e8249e9eeb6a3690d6c68d8e79a3c72f1f01dec7709f2d8",
    "4ae28d8821aba7e386daf4e8270ffd8142d9f306cc1ca7da37d3c6865a780b03",
    "3ec5ae9f945488c7c652143943b8635d63c46d291dda0c4cd1224969ac274c56",
    "bbf84c11dacbfa36d1a9a28f63c5c3eb94452341febd88f3b1ceec437982ed44",
    "cc207a1530a4c0c383f85fbecdb7526185d414cfcdae556d46db57df94872413",
    "e94718d769131758794ebeb92482e06ef8ddfda028643def504bbb7b524950f8",
    "18d08606ad066a5be78dd4071b5b1ebd1aa6c8304d4c6d017d33abf3183b36f8",
    "d82556826008e1d32e967ac4d484e02b70f27a7a25a77e51ddfb06fbf618dd12",
]


ROW, SCALE = np.arange(7.0), np.array([1.0, 2.0, 4.0, 0.5, 1.0, 8.0, 1.0])
COLUMNS, MATRIX = np.array([1, 4]), np.arange(14.0).reshape(7, 2)


def data() -> np.ndarray:
    x = np.random.default_rng(14).integers(-9, 10, (400, 12)).astype("f4")
    x[:, 5] += 3 * x[:, 0]
    x[:, 7] -= 2 * x[:, 1]
    return x


def recipes() -> list:
    return [
        Gram(7),
        Gram(7, single=True),
        Triangular(7),
        Moments(7),
        NonFinite(7, 3),
        CrossProducts(COLUMNS, ROW, SCALE, MATRIX),
        Residual(COLUMNS, MATRIX[:2, :2], MATRIX.T.copy(), ROW, SCALE),
        Projection(MATRIX, ROW, SCALE),
        RowSketch(7, 4, seed=5, stream=1, kind="gaussian", group=3),
        RowPool(3, COLUMNS, MATRIX[:2, :2], ROW, SCALE, seed=11),
        FrequentDirections(7, size=7, scaled=True),
        UnitLosses(np.array([0, 4, 9]), COLUMNS, MATRIX[:2, :2], MATRIX.T.copy(), MATRIX, SCALE[:4], ROW, SCALE),
        Imputed(Gram(7), ROW),
        Kept(Gram(7)),
        Together({"nonfinite": NonFinite(7, 3), "moments": Moments(7)}),
        ReadSum(Gram(7), stored=False),
        (Span(0, 2, 0, 200), Span(2, 3, 200, 260)),
        IntegerGram(7, origin=128, largest=128),
    ]


@pytest.fixture
def before(tmp_path: Path) -> Path:
    with zipfile.ZipFile(BEFORE) as files:
        files.extractall(tmp_path)
    return tmp_path


def made_with_these_libraries(folder: Path) -> bool:
    """The bits of a run hang on its libraries, so a checkpoint is of them as well."""
    there = json.loads((folder / "checkpoint.json").read_text())["job"]["versions"]
    here = {"numpy": np.__version__, "scipy": scipy.__version__, "machine": platform.machine()}
    return {name: there[name] for name in here} == here


@pytest.mark.parametrize(
    ("strategy", "loss"),
    [("gram", 100776.6132744), ("tsqr", 100776.6132744), ("sketch", 100776.6132744), ("paper", 100892.2223198)],
)
def test_a_checkpoint_of_before_is_resumed_and_its_passes_are_not_read_again(
    before: Path, strategy: str, loss: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = before / strategy
    if not made_with_these_libraries(folder):
        pytest.skip("other libraries, or another machine, than those that wrote the checkpoint")
    there = {path.relative_to(folder): path.stat().st_mtime_ns for path in folder.rglob("*.state")}
    swept: list[str] = []
    for recipe in (Gram, Triangular, RowSketch, CrossProducts, Projection, Residual):
        old = recipe.update

        def update(self, state, rows, first_row, old=old):
            swept.append(type(self).__name__)
            return old(self, state, rows, first_row)

        monkeypatch.setattr(recipe, "update", update)
    encoder = SparseEncoder(2, n_nonzero=3, strategy=strategy, checkpoint=folder).fit(data())
    assert not swept
    assert {path.relative_to(folder): path.stat().st_mtime_ns for path in folder.rglob("*.state")} == there
    assert encoder.certificate_.loss == pytest.approx(loss, rel=1e-10)


def test_an_encoder_of_before_opens(before: Path) -> None:
    encoder = load_encoder(before / "encoder.zarr")
    fresh = SparseEncoder(2, n_nonzero=3, scale=True).fit(data())
    assert encoder.certificate_.loss == pytest.approx(3244.1582332330386, rel=1e-12)
    assert list(encoder.feature_names_in_) == [f"gene {i}" for i in range(12)]
    np.testing.assert_allclose(encoder.components_, fresh.components_, atol=1e-6)
    np.testing.assert_allclose(encoder.decoder_, fresh.decoder_, atol=1e-6)


def test_a_grid_encoder_of_before_opens(before: Path) -> None:
    grid = GridEncoder.load(before / "grid.zarr")
    assert grid.components().dims == ("component", "latitude", "longitude")
    np.testing.assert_array_equal(grid.components()["longitude"], [0, 90, 180, 270])
    assert grid.encoder_.certificate_.ratio >= 1


@pytest.mark.parametrize(
    ("recipe", "digest"), list(zip(recipes(), DIGESTS, strict=True)), ids=lambda each: type(each).__name__
)
def test_a_recipe_has_the_digest_that_it_had(recipe: Accumulator, digest: str) -> None:
    assert digest_of(recipe) == digest


def test_kinds_are_never_shared_and_never_inherited() -> None:
    kinds = [type(each).recipe_kind for each in recipes() if not isinstance(each, tuple)]
    assert len(set(kinds)) == len({type(each) for each in recipes() if not isinstance(each, tuple)})

    class Derived(Gram):
        pass

    with pytest.raises(AssertionError, match="Derived has no recipe_kind of its own"):
        digest_of(Derived(3))


def test_documented_modules_of_before_give_the_same_objects() -> None:
    from spae_dask.algorithms import comparison as former_comparison
    from spae_dask.engine import events as former_events
    from spae_dask.passes import events
    from spae_dask.strategies import comparison

    assert former_events.RowsDone is events.RowsDone
    assert former_comparison.compare is comparison.compare
