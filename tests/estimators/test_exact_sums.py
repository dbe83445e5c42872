"""Fits of small integers: the same bits for any chunks and sources, and parts made on machines of different kinds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from distributed import Client

from spae_dask import SparseEncoder, plan
from spae_dask.blocks import ArrayBlocks
from spae_dask.errors import CheckpointWarning, InvalidInput, OtherCheckpoint, StorageError
from spae_dask.estimators import checkpointing
from spae_dask.estimators.checkpointing import CheckpointAt, fit_part
from spae_dask.passes.checkpoint import ArrayPart
from spae_dask.storage.sources.zarr_blocks import ZarrBlocks
from spae_dask.strategies import core
from tests.conftest import OptionsSetter
from tests.estimators.sources import Watched, batch_encoder, spread, zarr_array

N, D, ROWS = 1000, 9, 50
KEPT = ("components_", "decoder_", "mean_", "scale_", "singular_values_", "explained_variance_ratio_")
SAMPLED = 3
"""Blocks that are read to know the data by."""


def matrix(dtype: str) -> Any:
    X = np.rint(20 * spread(np.random.default_rng(0), N, D))
    if dtype == "bool":
        return np.median(X, axis=0) < X
    info = np.iinfo(dtype)
    return np.clip(X + (info.max + info.min) // 2, info.min, info.max).astype(dtype)


X = matrix("uint8")


@pytest.fixture(autouse=True)
def small_spans(options: OptionsSetter) -> None:
    options(min_span_nbytes=1, states_per_span=0)


def encoder_of(**more: Any) -> SparseEncoder:
    return batch_encoder(2, n_nonzero=3, strategy="gram", **more)


def bits(encoder: SparseEncoder) -> Any:
    codes = encoder.transform(X[:50])
    return encoder.certificate_, codes.tobytes(), *(getattr(encoder, name).tobytes() for name in KEPT)


@pytest.mark.parametrize("parameters", [{}, {"scale": True}, {"center": False}], ids=str)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16"])
def test_any_chunks_of_any_source_give_the_same_bits(dtype: str, parameters: dict[str, Any], tmp_path: Path) -> None:
    rows = matrix(dtype)
    wanted = encoder_of(**parameters).fit(rows)
    assert wanted.certificate_.exact_sums
    sources = {
        "blocks of 17": ArrayBlocks(rows, 17),
        "column-major": ArrayBlocks(np.asfortranarray(rows), 277),
        "zarr": ZarrBlocks(zarr_array(tmp_path / "x", rows, (130, 4)), target_nbytes=1),
        "dask": da.from_array(rows, chunks=((1, 249, 500, 250), (5, 4))),
    }
    for name, source in sources.items():
        assert bits(encoder_of(**parameters).fit(source)) == bits(wanted), name


def test_blocks_of_a_wider_type_than_the_dask_array_says_are_refused() -> None:
    lying = da.from_array(X, chunks=(500, D)).map_blocks(lambda block: block * 1.5, dtype=np.uint8)
    with pytest.raises(InvalidInput, match="rows are of type float64"):
        encoder_of().fit(lying)


def test_any_chunks_give_the_same_bits_on_two_workers(two_workers: Client, tmp_path: Path) -> None:
    wanted = encoder_of().fit(ArrayBlocks(X, N))
    for chunks in ((130, 9), (500, 4)):
        source = ZarrBlocks(zarr_array(tmp_path / "x", X, chunks), target_nbytes=1)
        found = encoder_of().fit(source)
        assert two_workers.scheduler.address in found.plan_.resources.where
        assert bits(found) == bits(wanted)


def test_floats_of_the_same_numbers_have_the_loss_of_the_integers_within_its_bound() -> None:
    exact, rounded = encoder_of().fit(X), encoder_of().fit(X.astype(np.float32))
    assert not rounded.certificate_.exact_sums
    assert exact.certificate_.loss == pytest.approx(rounded.certificate_.loss, abs=rounded.certificate_.loss_error)
    assert exact.certificate_.loss_error < rounded.certificate_.loss_error / 5


def test_the_plan_and_the_certificate_say_that_sums_are_exact() -> None:
    assert "sums of uint8 entries are exact integers" in str(plan(X, 2, n_nonzero=3, strategy="gram"))
    assert "The sums of the pass are exact integers." in str(encoder_of().fit(X).certificate_)
    floats = X.astype(np.float32)
    assert "exact integers" not in str(plan(floats, 2, n_nonzero=3, strategy="gram"))
    assert "exact integers" not in str(encoder_of().fit(floats).certificate_)


@pytest.mark.parametrize("wide", ["int32", "int64"])
def test_wider_integers_keep_sums_in_float64(wide: str) -> None:
    certificate = encoder_of().fit(X.astype(wide)).certificate_
    assert not certificate.exact_sums
    assert certificate.loss_kind == "exact"


@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_float32_products_are_exact_of_bytes_alone(precision: str) -> None:
    wide = np.tile(X, 20)  # so many columns that a panel of bytes is short enough for float32
    assert encoder_of(precision=precision).fit(wide).certificate_.exact_sums
    found = encoder_of(precision=precision).fit(wide.astype(np.int16)).certificate_
    assert found.exact_sums == (precision == "exact")


def test_a_missing_value_among_integers_keeps_its_path() -> None:
    gappy = matrix("int8")
    gappy[np.random.default_rng(1).random(gappy.shape) < 0.01] = -1
    found = encoder_of(missing="mean", missing_value=-1).fit(gappy)
    assert not found.certificate_.exact_sums


@pytest.mark.parametrize("missing", ["mean", "zero"])
def test_integers_without_a_missing_value_are_exact_whatever_would_fill_gaps(missing: str) -> None:
    wanted, found = encoder_of().fit(X), encoder_of(missing=missing).fit(X)
    assert found.certificate_.exact_sums
    assert found.certificate_.loss == wanted.certificate_.loss
    assert found.decoder_.tobytes() == wanted.decoder_.tobytes()


@contextmanager
def elsewhere() -> Iterator[None]:
    """On a machine of another kind, with other libraries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpointing.platform, "machine", lambda: "another")
        patch.setattr(checkpointing.np, "__version__", "9.9.9")
        yield


def do_part(number: int, place: Path, rows: Any, **more: Any) -> None:
    share = ArrayPart(number, 2)
    fit_part(encoder_of(checkpoint=CheckpointAt(place, share), **more), rows, share)


def finished(place: Path, rows: Any, **more: Any) -> SparseEncoder:
    return encoder_of(checkpoint=CheckpointAt(place, ArrayPart(0, 1)), **more).fit(rows)


def test_parts_of_exact_sums_may_be_made_on_machines_of_different_kinds(tmp_path: Path) -> None:
    do_part(1, tmp_path / "kept", Watched(X, ROWS))
    with elsewhere():
        do_part(2, tmp_path / "kept", Watched(X, ROWS))
    rows = Watched(X, ROWS)
    assert bits(finished(tmp_path / "kept", rows)) == bits(encoder_of().fit(Watched(X, ROWS)))
    assert len(rows.reads) == SAMPLED


def test_parts_of_float_sums_may_not(tmp_path: Path) -> None:
    floats = X.astype(np.float32)
    do_part(1, tmp_path / "kept", Watched(floats, ROWS))
    with elsewhere(), pytest.raises(OtherCheckpoint, match="use a machine of its kind"):
        do_part(2, tmp_path / "kept", Watched(floats, ROWS))


def test_a_later_pass_of_floats_is_not_mixed_though_the_first_one_is_exact(tmp_path: Path) -> None:
    place, more = tmp_path / "kept", {"method": "doubly-sparse"}
    for number in (1, 2, 1):  # the last one begins the second pass
        do_part(number, place, Watched(X, ROWS), **more)
    with elsewhere(), pytest.raises(StorageError, match="computes other bits"):
        do_part(2, place, Watched(X, ROWS), **more)


def test_another_version_of_this_package_is_refused_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    do_part(1, tmp_path / "kept", Watched(X, ROWS))
    monkeypatch.setattr(checkpointing, "__version__", "0.0.1")
    with pytest.raises(OtherCheckpoint, match=r"versions\.spae_dask"):
        do_part(2, tmp_path / "kept", Watched(X, ROWS))


def test_states_of_float_sums_of_integers_as_before_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "kept"
    with monkeypatch.context() as patch:  # as before there were exact sums
        patch.setattr(core, "integer_gram", lambda *_: None)
        do_part(1, place, Watched(X, ROWS))
    with pytest.raises(StorageError, match=r"computes other bits.*start anew"):
        do_part(2, place, Watched(X, ROWS))
    rows = Watched(X, ROWS)
    with pytest.warns(CheckpointWarning, match="This pass starts anew"):
        found = encoder_of(checkpoint=place).fit(rows)
    assert bits(found) == bits(encoder_of().fit(Watched(X, ROWS)))
    assert len(rows.reads) == SAMPLED + N // ROWS
