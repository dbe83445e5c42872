"""Bounds on the rounding error of sums of products, counted while the sums are made.

A sum of m products, added in any order, errs by at most ``m u`` times the sum of their magnitudes, u being the unit
roundoff (Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1). A state therefore counts its
*chain*: the most roundings that one of its entries went through, in float64 and in float32. Merged states have the
longer chain of the two and a few roundings more, whatever the tree. By Cauchy-Schwarz the magnitudes of products of
columns i and j add up to no more than the product of their lengths, so ``error * lengths[i] * lengths[j]`` bounds the
error of entry (i, j).
"""

import numpy as np

from spae_dask.passes.accumulators.base import Floats

ROUNDOFF = 2.0**-53
"""Unit roundoff of float64."""

SINGLE_ROUNDOFF = 2.0**-24
"""Unit roundoff of float32."""

AROUND = 16.0
"""Roundings of an entry beside those of its sums: those of each deviation, and of the steps after the last sum."""


def no_chain() -> Floats:
    """Chain of an empty state: roundings in float64, roundings in float32."""
    return np.zeros(2)


def lengthened(chain: Floats, n_summed: int, *, single: bool = False) -> Floats:
    """Chain of a state to which a sum of ``n_summed`` products is added; with ``single`` it was made in float32."""
    summed = np.array([0.0, n_summed] if single else [n_summed, 0.0])
    longer: Floats = np.maximum(chain, summed) + np.array([1.0, 0.0])
    return longer


def merged(a: Floats, b: Floats, roundings: int = 1) -> Floats:
    """Chain of two merged states, ``roundings`` being those of the merge."""
    longer: Floats = np.maximum(a, b) + np.array([float(roundings), 0.0])
    return longer


def largest_error(chain: Floats) -> float:
    """Bound on the error of an entry, relative to the lengths of the two columns."""
    exact, single = chain
    return float((exact + AROUND) * ROUNDOFF + (single + 3.0 * (single > 0)) * SINGLE_ROUNDOFF)


def usual_error(chain: Floats) -> float:
    """Error to expect of an entry, relative to the lengths of the two columns: roundings go up as often as down."""
    exact, single = chain
    return float(np.sqrt(exact + AROUND) * ROUNDOFF + np.sqrt(single) * SINGLE_ROUNDOFF)
