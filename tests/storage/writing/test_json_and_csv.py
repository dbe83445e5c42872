"""What goes into JSON comes back, and what cannot go there is named."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.errors import InvalidInput
from spae_dask.storage.writing.json_and_csv import from_json, to_json


@settings(deadline=None, max_examples=50)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(alphabet="abc", max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet="xyz", max_size=3), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_records_come_back_through_strict_json(value):
    text = json.dumps(to_json(value, "value"), allow_nan=False)
    assert repr(from_json(json.loads(text))) == repr(value)  # repr, since NaN is not equal to itself


def test_numpy_values_and_tuples_are_stored_as_plain_ones():
    value = {"loss": np.float32(0.5), "r": np.int64(3), "per": np.array([1.0, np.nan]), "shape": (2, 3), "ok": np.True_}
    assert to_json(value, "certificate") == {"loss": 0.5, "r": 3, "per": [1.0, "NaN"], "shape": [2, 3], "ok": True}
    assert to_json([-np.inf, None, Path("a") / "b"], "result") == ["-Infinity", None, os.path.join("a", "b")]


def test_what_json_cannot_hold_is_refused_by_its_place():
    with pytest.raises(InvalidInput, match=r"parameters\['a'\]\[1\] is a object"):
        to_json({"a": [1, object()]}, "parameters")
    with pytest.raises(InvalidInput, match="string keys"):
        to_json({1: 2}, "parameters")
