"""A saved encoder is the fitted one, bit for bit, in both Zarr formats."""

import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import zarr

from spae_dask import SparseEncoder, evaluate, load_encoder
from spae_dask.errors import InvalidInput, OutputExists
from spae_dask.estimators.saved import save_encoder
from tests.estimators.sources import FloatArray, batch_encoder, spread

ARRAYS = (
    "components_",
    "decoder_",
    "mean_",
    "scale_",
    "singular_values_",
    "explained_variance_ratio_",
    "selected_features_",
    "constant_features_",
)


@pytest.fixture(scope="module")
def X() -> FloatArray:  # noqa: N802 - the paper's name
    return spread(np.random.default_rng(0), 120, 9)


def assert_same(found: SparseEncoder, wanted: SparseEncoder) -> None:
    for name in ARRAYS:
        one, other = getattr(found, name), getattr(wanted, name)
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    assert found.certificate_ == wanted.certificate_
    assert found.n_samples_seen_ == wanted.n_samples_seen_
    assert (found.n_components_, found.n_features_in_) == (wanted.n_components_, wanted.n_features_in_)
    assert (found.fill_ is None) == (wanted.fill_ is None)
    if wanted.fill_ is not None:
        assert found.fill_.tobytes() == wanted.fill_.tobytes()


def in_format_2(path: Path) -> Path:
    """A copy in Zarr format 2, as older tools would make it."""
    source = zarr.open_group(path, mode="r")
    copy = zarr.create_group(path.with_suffix(".v2.zarr"), zarr_format=2, attributes=dict(source.attrs))
    for name, array in source.arrays():
        copy.create_array(name, shape=array.shape, dtype=array.dtype, chunks=array.chunks)[...] = array[...]
    return path.with_suffix(".v2.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "parameters",
    [
        {"n_nonzero": 4},
        {"n_nonzero": 4, "scale": True, "strategy": "gram"},
        {"n_nonzero": 3, "missing": "mean", "selection": "adaptive", "random_state": np.int64(7)},
        {"eps": np.float32(0.2), "center": False},
        {"n_nonzero": np.int32(4), "random_state": np.random.default_rng(1)},
    ],
    ids=["r", "scale, gram", "missing, adaptive, int64", "eps, not centered", "int32, generator"],
)
def test_loading_gives_back_what_was_saved(
    X: FloatArray, tmp_path: Path, parameters: dict[str, Any], zarr_format: int
) -> None:
    fitted = batch_encoder(2, **parameters).fit(X)
    save_encoder(fitted, tmp_path / "e.zarr", source=X)
    path = in_format_2(tmp_path / "e.zarr") if zarr_format == 2 else tmp_path / "e.zarr"
    loaded = load_encoder(path)
    assert_same(loaded, fitted)
    assert loaded.transform(X).tobytes() == fitted.transform(X).tobytes()
    np.testing.assert_array_equal(loaded.transform(da.from_array(X, chunks=50)), fitted.transform(X))
    assert loaded.score(X) == fitted.score(X)
    assert evaluate(X, loaded) == evaluate(X, fitted)
    assert loaded.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()
    assert loaded.seed_ == fitted.seed_


def test_a_loaded_encoder_can_be_fitted_again_to_the_same_bits(X: FloatArray, tmp_path: Path) -> None:
    fitted = batch_encoder(2, n_nonzero=4, selection="adaptive", random_state=np.random.default_rng(2)).fit(X)
    save_encoder(fitted, tmp_path / "e.zarr")
    assert_same(load_encoder(tmp_path / "e.zarr").fit(X), fitted)


def test_a_loaded_encoder_can_be_saved_again_with_its_provenance(X: FloatArray, tmp_path: Path) -> None:
    fitted = batch_encoder(2, n_nonzero=4).fit(X)
    save_encoder(fitted, tmp_path / "e.zarr", source=X)
    first = load_encoder(tmp_path / "e.zarr")
    save_encoder(first, tmp_path / "again.zarr")
    second = load_encoder(tmp_path / "again.zarr")
    assert_same(second, fitted)
    assert second.provenance_ == first.provenance_
    assert len(first.provenance_["data_fingerprint"]) == 64
    assert first.provenance_["strategy"] == "tsqr"
    assert first.provenance_["shape"] == [120, 9]


def test_components_without_content_survive(X: FloatArray, tmp_path: Path) -> None:
    flat = np.outer(X[:, 0], np.arange(1, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = batch_encoder(3, n_nonzero=3).fit(flat)
    save_encoder(fitted, tmp_path / "e.zarr")
    assert_same(load_encoder(tmp_path / "e.zarr"), fitted)


def test_names_are_kept(X: FloatArray, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"gène {j}" for j in range(9)])
    save_encoder(batch_encoder(2, n_nonzero=4).fit(frame), tmp_path / "e.zarr")
    loaded = load_encoder(tmp_path / "e.zarr")
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    loaded.transform(frame)


def test_nothing_about_the_machine_or_the_watcher_is_stored(X: FloatArray, tmp_path: Path) -> None:
    fitted = batch_encoder(2, n_nonzero=4, memory_limit="2GB", progress=lambda event: None).fit(X)
    save_encoder(fitted, str(tmp_path / "e.zarr"))
    loaded = load_encoder(str(tmp_path / "e.zarr"))
    assert loaded.memory_limit is None
    assert loaded.progress is None
    assert loaded.n_nonzero == 4


def test_an_encoder_is_not_written_over_by_accident(X: FloatArray, tmp_path: Path) -> None:
    one, other = (batch_encoder(2, n_nonzero=r).fit(X) for r in (3, 4))
    save_encoder(one, tmp_path / "e.zarr")
    with pytest.raises(OutputExists):
        save_encoder(other, tmp_path / "e.zarr")
    assert_same(load_encoder(tmp_path / "e.zarr"), one)
    save_encoder(other, tmp_path / "e.zarr", overwrite=True)
    assert_same(load_encoder(tmp_path / "e.zarr"), other)
    assert [path.name for path in tmp_path.iterdir()] == ["e.zarr"]


def test_a_record_with_a_part_missing_is_refused(X: FloatArray, tmp_path: Path) -> None:
    save_encoder(batch_encoder(2, n_nonzero=4).fit(X), tmp_path / "e.zarr")
    group = zarr.open_group(tmp_path / "e.zarr", mode="r+")
    record = dict(group.attrs["provenance"])
    del record["n_samples"]
    group.attrs["provenance"] = record
    with pytest.raises(InvalidInput, match=r"lacks a part of its record.*n_samples"):
        load_encoder(tmp_path / "e.zarr")


@pytest.mark.parametrize(
    ("name", "value"),
    [("ratio", {}), ("explained", "1.0"), ("passes", 1.5), ("n_nonzero", None), ("theorem", 3), ("bound", [1.0])],
)
def test_a_certificate_with_a_field_of_another_type_is_refused(
    X: FloatArray, tmp_path: Path, name: str, value: object
) -> None:
    save_encoder(batch_encoder(2, n_nonzero=4).fit(X), tmp_path / "e.zarr")
    group = zarr.open_group(tmp_path / "e.zarr", mode="r+")
    group.attrs["certificate"] = dict(group.attrs["certificate"]) | {name: value}
    with pytest.raises(InvalidInput, match=rf"lacks a part of its record.*{name}"):
        load_encoder(tmp_path / "e.zarr")


def test_a_record_of_an_older_version_is_read_without_what_it_did_not_know(X: FloatArray, tmp_path: Path) -> None:
    wanted = batch_encoder(2, eps=0.2).fit(X)
    save_encoder(wanted, tmp_path / "e.zarr")
    assert load_encoder(tmp_path / "e.zarr").certificate_.theory_n_nonzero == 60
    newer = ("theory_n_nonzero", "theory_n_nonzero_sharp", "metrics")
    group = zarr.open_group(tmp_path / "e.zarr", mode="r+")
    record = dict(group.attrs["certificate"])
    group.attrs["certificate"] = {name: value for name, value in record.items() if name not in newer}
    found = load_encoder(tmp_path / "e.zarr").certificate_
    assert found == replace(wanted.certificate_, theory_n_nonzero=None, theory_n_nonzero_sharp=None)
    assert "wanted             eps = 0.2: r = " in str(found)


def with_unknown_fields(record: Any) -> Any:
    """The same record with one more entry in each object."""
    if isinstance(record, dict):
        return {"later": ["x"]} | {name: with_unknown_fields(value) for name, value in record.items()}
    return [with_unknown_fields(each) for each in record] if isinstance(record, list) else record


@pytest.fixture(scope="module")
def with_all_records(X: FloatArray, tmp_path_factory: pytest.TempPathFactory) -> tuple[SparseEncoder, Path]:
    """An encoder with folds and resamples of them, and its file."""
    wanted = batch_encoder("cv", n_nonzero=4, folds=3, bootstraps=5, strategy="gram").fit(X)
    assert wanted.certificate_.held_out.sizes
    assert wanted.certificate_.held_out.components
    path = tmp_path_factory.mktemp("records") / "e.zarr"
    save_encoder(wanted, path, source=X)
    return wanted, path


@pytest.mark.parametrize("name", ["certificate", "parameters", "provenance", "curve", "held_out"])
def test_a_record_of_a_later_version_is_read_without_the_fields_that_are_not_known(
    with_all_records: tuple[SparseEncoder, Path], tmp_path: Path, name: str
) -> None:
    wanted, path = with_all_records
    later = tmp_path / "later.zarr"
    shutil.copytree(path, later)
    group = zarr.open_group(later, mode="r+")
    group.attrs[name] = with_unknown_fields(group.attrs[name])
    assert "later" in group.attrs[name]
    found = load_encoder(later)
    assert_same(found, wanted)
    assert found.curve() == wanted.curve()
    assert found.table() == wanted.table()
    assert found.get_params() == load_encoder(path).get_params()
    save_encoder(found, tmp_path / "again.zarr")
    assert_same(load_encoder(tmp_path / "again.zarr"), wanted)
