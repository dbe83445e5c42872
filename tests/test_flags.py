"""Every public flag is checked: text, numbers and None are refused by name before anything else happens."""

import importlib
import inspect

import numpy as np
import pytest

import spae_dask
from spae_dask.errors import InvalidInput
from spae_dask.flags import flags_checked

MODULES = [
    "spae_dask",
    "spae_dask.baselines",
    "spae_dask.scanpy",
    "spae_dask.xarray",
    "spae_dask.estimators.checking",
    "spae_dask.estimators.reporting",
    "spae_dask.estimators.saved",
    "spae_dask.estimators.writing",
]


def _public(module):
    found = importlib.import_module(module)
    if hasattr(found, "__all__"):
        return [getattr(found, name) for name in found.__all__]
    return [each for name, each in vars(found).items() if getattr(each, "__module__", "") == module and name[0] != "_"]


def _flagged():
    """All public functions and methods that have a flag, and its name; classes check theirs when they fit."""
    seen = {}
    for module in MODULES:
        for each in _public(module):
            members = [each] if inspect.isfunction(each) else []
            if inspect.isclass(each):
                members = [
                    member
                    for name, member in inspect.getmembers(each, inspect.isfunction)
                    if not name.startswith("_") and member.__module__.startswith("spae_dask")
                ]
            for function in members:
                if not function.__module__.startswith("spae_dask"):
                    continue
                for name, parameter in inspect.signature(function).parameters.items():
                    if isinstance(parameter.default, bool) and parameter.annotation is bool:
                        seen[f"{function.__qualname__}-{name}"] = (function, name)
    return seen


FLAGGED = _flagged()


def test_the_flags_that_people_use_are_among_those_that_are_tried():
    wanted = {"plan-calibrate", "transform_to_zarr-overwrite", "sparse_pca-copy", "GridEncoder.save-overwrite"}
    assert wanted <= FLAGGED.keys()


@pytest.mark.parametrize("given", [None, "false", "no", 1, 0.0])
@pytest.mark.parametrize("case", FLAGGED)
def test_each_flag_refuses_what_is_neither_true_nor_false(case, given):
    function, name = FLAGGED[case]
    required = [
        each.name for each in inspect.signature(function).parameters.values() if each.default is inspect.Parameter.empty
    ]
    with pytest.raises(InvalidInput, match=f"{name}={given!r} is not allowed: give True or False"):
        function(**dict.fromkeys(required), **{name: given})


@pytest.mark.parametrize("given", [True, False, np.True_, np.False_])
def test_flags_of_python_and_numpy_pass_unchanged(given):
    @flags_checked
    def told(first, *, really: bool = False):
        return first, really

    assert told(1, really=given) == (1, given)
    assert told(1) == (1, False)


def test_the_signature_that_tools_read_is_kept():
    assert "calibrate" in inspect.signature(spae_dask.plan).parameters
