"""The smallest r for a wanted excess: the smallest of the path for nested selections, and always one that holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.maths.encoders import encode_batch
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.sparse_encoder import loss_target, smallest_r, smallest_within
from tests import oracles
from tests.matrices import FloatArray, factor_model, low_rank, power_law


def encoder(core: FloatArray, k: int, selection: str, asked: list[int]) -> object:
    def encode(r: int) -> FloatArray:
        asked.append(r)
        return encode_batch(core, k, r, selection=selection, rng=np.random.default_rng(0)).H

    return encode


def target(core: FloatArray, k: int, eps: float) -> float:
    return loss_target(core, FitParameters(k, eps=eps))


@given(
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.sampled_from([2.0, 0.5, 0.1, 0.01, 1e-6]),
    st.sampled_from(["greedy", "dual-set", "pivoted-qr"]),
)
def test_the_answer_reaches_what_is_wanted(seed: int, k: int, eps: float, selection: str) -> None:
    core = factor_model(np.random.default_rng(seed), 30, 20, 3, 0.5)
    encode = encoder(core, k, selection, [])
    r = smallest_r(core, k, target(core, k, eps), encode, floor=k)
    best = oracles.pca_loss(core, k)
    assert k <= r <= 20
    assert oracles.encoder_loss(core, encode(r)) <= (1 + eps) * best * (1 + 1e-9)
    if selection == "greedy" and r > k:
        assert oracles.encoder_loss(core, encode(r - 1)) > (1 + eps) * best
        worse = [oracles.encoder_loss(core, encode(smaller)) for smaller in range(k, r)]
        assert min(worse) > (1 + eps) * best


@pytest.mark.parametrize("eps", [0.5, 0.01])
def test_few_sizes_are_tried(eps: float) -> None:
    core = power_law(np.random.default_rng(0), 60, 60, 0.5)
    asked: list[int] = []
    smallest_r(core, 2, target(core, 2, eps), encoder(core, 2, "greedy", asked), floor=2)
    assert len(asked) <= 2 * int(np.log2(60)) + 2


@given(
    st.lists(st.sampled_from([0.0, 1e-12, 1e-6, 1e-3, 1.0, 1.0, 2.0, 50.0, 1e6]), min_size=1, max_size=300),
    st.integers(1, 30),
    st.floats(0, 1),
)
def test_of_losses_that_never_rise_it_finds_the_smallest_in_few_tries(
    drops: list[float], least: int, share: float
) -> None:
    losses = np.cumsum(drops[::-1])[::-1]
    target, most, asked = share * losses[0], least + len(drops) - 1, list[int]()

    def loss(r: int) -> float:
        asked.append(r)
        return float(losses[r - least])

    found = smallest_within(target, loss, least, most)

    assert found == next((r for r in range(least, most) if losses[r - least] <= target), most)
    assert most not in asked
    assert len(asked) == len(set(asked)) <= 3 * np.log2(len(drops)) + 6


def test_of_a_usual_curve_it_asks_for_fewer_than_doubling_and_bisection() -> None:
    asked: list[int] = []

    def loss(r: int) -> float:
        asked.append(r)
        return float(r**-0.6)

    assert smallest_within(21**-0.6, loss, 1, 2000) == 21
    assert len(asked) <= 8  # doubling to 32 and bisection: 10


def test_data_of_low_rank_need_no_more_columns_than_their_rank() -> None:
    core = low_rank(np.random.default_rng(1), 30, 12, 3)
    assert smallest_r(core, 3, target(core, 3, 0.1), encoder(core, 3, "greedy", []), floor=3) == 3
    assert smallest_r(core, 5, target(core, 5, 0.1), encoder(core, 5, "greedy", []), floor=5) == 5
    assert smallest_r(core, 5, target(core, 5, 0.1), encoder(core, 5, "greedy", []), floor=1) == 3


def test_zero_data_need_one() -> None:
    core = np.zeros((4, 5))
    assert smallest_r(core, 2, target(core, 2, 0.1), encoder(core, 2, "greedy", []), floor=2) == 1


def test_zero_columns_are_not_counted_as_available() -> None:
    core = np.zeros((10, 8))
    core[:, :3] = np.random.default_rng(2).standard_normal((10, 3))
    assert smallest_r(core, 2, target(core, 2, 1e-12), encoder(core, 2, "greedy", []), floor=2) == 3
