"""Parameters are written once for all doors, and checked before anything is read."""

import inspect
import re
import shlex
import subprocess
import sys
import textwrap
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from spae_dask import ColumnSelector, SparseEncoder, plan
from spae_dask.cli.exits import in_options
from spae_dask.cli.fit import FitGiven
from spae_dask.cli.main import app
from spae_dask.cli.options import groups
from spae_dask.cli.options.groups import gathered
from spae_dask.errors import InvalidInput
from spae_dask.maths.selection import SELECTIONS
from spae_dask.pipelines.schema import Fit
from spae_dask.pipelines.steps import KINDS
from spae_dask.report.reproduce import fit_command, python_lines
from spae_dask.scanpy import sparse_pca
from spae_dask.strategies import methods, table
from spae_dask.strategies.parameters import (
    METHODS,
    PARAMETERS,
    STAND_ALONE,
    STRATEGIES,
    Choice,
    Costs,
    Count,
    Counts,
    Features,
    FitParameters,
    Flag,
    Groups,
    Limits,
    Number,
    Numbers,
    OfRow,
    OfRows,
    Parameter,
    Positions,
    Scale,
    Steps,
    check_choice,
    check_count,
)
from spae_dask.xarray import GridEncoder

GOOD = FitParameters(n_components=3, n_nonzero=5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_components": 0}, r"n_components=0 is not allowed: give a whole number from 1 to 8"),
        ({"n_components": 9}, r"n_components=9 .* from 1 to 8"),
        ({"n_nonzero": 9}, r"n_nonzero=9 .* from 1 to 8"),
        ({"n_nonzero": None, "eps": 0.0}, r"eps=0\.0 is not allowed"),
        ({"n_nonzero": None, "keep": 1.0}, r"keep=1\.0 is not allowed: give a number between 0 and 1"),
        ({"n_nonzero": None, "keep": True}, r"keep=True is not allowed"),
        ({"n_nonzero": None, "keep": "all"}, r"keep='all' is not allowed"),
        ({"n_nonzero": None, "eps": 0.1, "keep": 0.9}, r"eps=0\.1 and keep=0\.9 are two targets"),
        ({"n_nonzero": (5, 5)}, r"2 numbers for n_components=3"),
        ({"method": "magic"}, r"method='magic' is not allowed: give one of .*'batch'"),
        ({"selection": "magic"}, r"selection='magic' .*'dual-set'"),
        ({"strategy": "magic"}, r"strategy='magic' .*'gram'"),
        ({"missing": "magic"}, r"missing='magic' .*'mean'"),
        ({"precision": "magic"}, r"precision='magic' .*'exact'"),
        ({"center": None}, r"center=None is not allowed: give True or False"),
        ({"center": "false"}, r"center='false' is not allowed"),
        ({"scale": 1}, r"scale=1 is not allowed"),
        ({"orthonormal": "no"}, r"orthonormal='no' is not allowed"),
        ({"shared_support": "no"}, r"shared_support='no' is not allowed"),
        ({"certified": "no"}, r"certified='no' is not allowed"),
        ({"split": "magic"}, r"split='magic' .*'paper'"),
        ({"projection": "magic"}, r"projection='magic' .*'frequent-directions'"),
        ({"strategy": "paper", "oversampling": 9}, r"oversampling=9 .* from 2 to 8"),
        ({"strategy": "paper", "oversampling": 1}, r"oversampling=1 is not allowed.* from 2 to 8"),
        ({"oversampling": 4, "split": "dual-set"}, r"oversampling=4 and split='dual-set': only strategy='paper'"),
        ({"strategy": "gram", "projection": "frequent-directions"}, r"only strategy='paper' .* strategy='gram'"),
        ({"folds": 1}, r"folds=1 is not allowed: give a whole number from 2 to 100"),
        ({"fold_groups": "donor"}, r"fold_groups: this needs folds .* such as folds=5"),
        ({"n_nonzero": "cv"}, r"n_nonzero='cv': this needs folds .* such as folds=5"),
        ({"n_components": "cv", "folds": 5, "n_nonzero": None}, r"n_components='cv' needs one n_nonzero"),
        ({"folds": 5, "method": "doubly-sparse"}, r"method='doubly-sparse' .* leave out folds"),
        ({"strategy": "paper", "split": "paper"}, r"5k = 15 columns .* n_nonzero=5 is too small. Give more than 15"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named_with_what_is_right(change: dict[str, Any], words: str) -> None:
    GOOD.check(100, 8)
    with pytest.raises(InvalidInput, match=words):
        replace(GOOD, **change).check(100, 8)


def test_one_row_is_too_few() -> None:
    with pytest.raises(InvalidInput, match="n_samples = 1"):
        GOOD.check(1, 8)


@pytest.mark.parametrize("kind", [int, np.int8, np.int64, np.uint16])
def test_whole_numbers_of_any_kind_are_numbers(kind: Any) -> None:
    check_count("n", kind(4), 8)
    replace(GOOD, n_components=kind(3), n_nonzero=kind(5)).check(100, 8)


@pytest.mark.parametrize("kind", [float, str, bool, lambda n: None, lambda n: [n]])
def test_other_things_are_not(kind: Any) -> None:
    with pytest.raises(InvalidInput, match="n="):
        check_count("n", kind(4), 8)


def test_names_are_exact() -> None:
    check_choice("color", "red", ("red", "green"))
    for given in ("Red", "", None, 3, ["red"]):
        with pytest.raises(InvalidInput, match=r"color=.* give one of 'red', 'green'"):
            check_choice("color", given, ("red", "green"))


@pytest.mark.parametrize("eps", [1e-9, 0.1, np.float32(0.5), 3])
def test_an_excess_may_be_any_positive_number(eps: Any) -> None:
    replace(GOOD, n_nonzero=None, eps=eps).check(100, 8)


ELSEWHERE = ("memory_limit", "checkpoint", "progress")
"""Parameters of the doors that say where a fit runs."""

DEFAULTS = {each.argument: each.default for each in PARAMETERS.values()}


def defaults_of(function: Any, *without: str) -> dict[str, Any]:
    return {name: each.default for name, each in signature(function).parameters.items() if name not in without}


def documented(door: Any) -> list[str]:
    """Names of the section Parameters of a numpydoc docstring, in their order."""
    section = re.split(r"\n([A-Z]\w+)\n-+\n", inspect.cleandoc(door.__doc__))
    body = section[section.index("Parameters") + 1].replace("\\\n", "")
    return [name for line in re.findall(r"^(\S.*?)(?: : .*)?$", body, re.MULTILINE) for name in line.split(", ")]


def test_the_encoder_takes_them_with_their_defaults_and_documents_each() -> None:
    assert defaults_of(SparseEncoder, *ELSEWHERE) == DEFAULTS
    assert documented(SparseEncoder) == list(signature(SparseEncoder).parameters)
    types = {name: each.annotation for name, each in signature(SparseEncoder).parameters.items()}
    for name, each in PARAMETERS.items():
        # the algorithms are handed a number that folds or the spectrum have chosen already
        annotation = each.annotation | float | str if name == "n_components" else each.annotation
        assert name == "seed" or types[each.argument] == annotation, name
    text = inspect.cleandoc(SparseEncoder.__doc__ or "")
    for each in PARAMETERS.values():
        for choice in each.kind.names if isinstance(each.kind, Choice) else ():
            assert f'"{choice}"' in text, each.name


@pytest.mark.parametrize("name", ["strategy", "center", "n_components"])
def test_what_an_encoder_is_given_is_what_is_fitted(name: str) -> None:
    given = {"strategy": "sketch", "center": False, "n_components": 7}[name]
    assert SparseEncoder(**{name: given})._params() == FitParameters.of(DEFAULTS | {name: given})


def test_the_other_doors_in_python_take_the_same() -> None:
    assert defaults_of(plan, "x", "memory_limit", "calibrate", "resources") == DEFAULTS
    assert defaults_of(GridEncoder, "weights", "lat_dim", *ELSEWHERE) == DEFAULTS
    own = ("adata", "n_comps", "layer", "mask_var", "key_added", "zero_center", "dtype", "copy", "overwrite")
    of_scanpy = ("use_highly_variable", "svd_solver", "chunked", "chunk_size")
    of_genes = defaults_of(sparse_pca, *own, *of_scanpy, *ELSEWHERE)
    assert of_genes | {"n_components": 2} == {
        name: value for name, value in DEFAULTS.items() if name not in ("center", "missing_value", "keep_state")
    }
    for door in (plan, GridEncoder, sparse_pca):
        assert "**parameters" in documented(door)
    assert (
        defaults_of(ColumnSelector, "n_columns", "n_components", "class_weight", *ELSEWHERE).items() <= DEFAULTS.items()
    )
    assert vars(GridEncoder()) == defaults_of(GridEncoder)


@pytest.mark.parametrize("door", [lambda **given: plan(None, **given), GridEncoder])
def test_an_unknown_name_is_refused_and_the_nearest_is_suggested(door: Any) -> None:
    with pytest.raises(TypeError, match=r"takes no parameter 'n_nonzeros'\. Did you mean 'n_nonzero'\?"):
        door(n_nonzeros=3)


def test_a_step_of_a_pipeline_has_them_as_keys() -> None:
    keys = KINDS["fit"].model.model_fields
    for name, each in PARAMETERS.items():
        assert keys[name].is_required() == each.required, name
        assert each.required or keys[name].default == each.default, name
    common = {"kind": "fit", "name": "f", "data": "x", "n_nonzero": 3}
    step = Fit.model_validate(common | {"n_components": 4, "seed": 5, "eps": None})
    assert FitParameters.of(step.encoder_parameters) == FitParameters(4, 3, seed=5)


@pytest.mark.parametrize("verb", ["fit", "plan", "fit-part", "fit-finish", "panel"])
def test_the_command_line_has_them_as_options(verb: str) -> None:
    options = {each.name: each for each in get_command(app).commands[verb].params}  # type: ignore[attr-defined]
    for name, each in PARAMETERS.items():
        option = options[each.option]
        assert set(option.opts) == set(each.options), name
        assert option.required == each.required, name
        assert each.required or option.default == each.default, name
        assert (option.help, option.rich_help_panel) == (each.help, getattr(groups, each.panel)), name
        assert option.secondary_opts == (["--no-center"] if name == "center" else [])


def test_help_is_plain_and_names_every_choice_that_its_metavar_does_not_show() -> None:
    for each in PARAMETERS.values():
        assert not re.match(r"(What|Who|Which|Whether|How|Where)\b", each.help), each.name
        assert each.help.endswith("."), each.name
        for choice in each.kind.names if isinstance(each.kind, Choice) and each.metavar else ():
            assert choice in each.help, each.name


CHANGED: dict[type, Any] = {
    Count: 3,
    Counts: (4, 3),
    Number: 0.25,
    Numbers: (-1.0, -2.5),
    Steps: "normalize_total(10000), log1p",
    OfRows: "batch,C(age)",
    OfRow: "weight",
    Scale: (0.5, 2.0, 4.0),
    Features: ("MT-*", 'the "best", of all'),
    Costs: {"CD3E": 2.5, 'the "best", of all': 1.0},
    Groups: {"CD3E": "T", 'the "best", of all': "my group"},
    Limits: {"T": 2, "my group": 1},
    Positions: {"CD3E": 442.5, 'the "best", of all': -1.0},
}


def changed(each: Parameter) -> Any:
    """A value that is not the default."""
    if isinstance(each.kind, Flag):
        return not each.default
    return each.kind.names[-1] if isinstance(each.kind, Choice) else CHANGED[type(each.kind)]


@pytest.mark.parametrize("name", PARAMETERS)
def test_lines_that_reproduce_a_fit_and_messages_spell_them_as_the_command_line_does(name: str) -> None:
    each = PARAMETERS[name]
    value, sizes = changed(each), {"n_nonzero": 6} if name not in ("eps", "keep", "n_nonzero") else {}
    given = {"n_components": 2, **sizes, each.argument: value}
    command = fit_command(given, {"path": "/x.zarr", "strategy": value if name == "strategy" else "auto"})
    assert command is not None
    parsed = get_command(app).commands["fit"].make_context("fit", shlex.split(command)[2:]).params  # type: ignore[attr-defined]
    assert gathered(FitGiven, parsed).fitted == DEFAULTS | given | {"memory_limit": None}
    scope: dict[str, Any] = {"x": None}
    lines = python_lines(given, {"source": "x", "strategy": value if name == "strategy" else "auto"})
    exec("\n".join(lines[:-1]), scope)
    assert scope["encoder"]._params() == FitParameters.of(given)
    between = "=" if each.options[0] in STAND_ALONE else " "
    assert in_options(f"{each.argument}=7 is wrong", "fit") == f"{each.options[0]}{between}7 is wrong"


def test_the_selections_are_those_of_the_library_and_the_methods_too() -> None:
    assert PARAMETERS["selection"].kind == Choice(tuple(SELECTIONS))
    assert PARAMETERS["method"].kind == Choice(METHODS)
    assert set(METHODS) == set(methods.METHODS) | {"doubly-sparse"}
    assert set(STRATEGIES) == {"auto", *table.STRATEGIES}


@pytest.mark.parametrize("name", PARAMETERS)
def test_each_is_checked_by_its_kind(name: str) -> None:
    each = PARAMETERS[name]
    with pytest.raises(InvalidInput, match=f"{each.argument}=.* is not allowed: give "):
        replace(GOOD, **{name: object()}).check(100, 8)
    assert each.kind.wrong(changed(each)) is None


def test_a_parameter_more_is_one_field_for_all_doors_but_the_encoder() -> None:
    """The recipe: a field here, SparseEncoder.__init__ with its docstring, and the algorithm that uses it."""
    code = """
    import dataclasses
    import inspect
    from spae_dask.strategies import parameters as house

    @dataclasses.dataclass(frozen=True)
    class More(house.FitParameters):
        extra_rows: int | None = house._parameter(None, house.Count(), "WHAT", "Rows more.", options="--extra")

    house.FitParameters, house.PARAMETERS = More, house.parameters_in(More)
    import spae_dask
    from spae_dask.cli.main import main
    from spae_dask.cli.exits import in_options
    from spae_dask.pipelines.steps import KINDS
    from spae_dask.report.reproduce import fit_command
    from spae_dask.xarray import GridEncoder
    assert "extra_rows" in inspect.signature(spae_dask.plan).parameters
    assert GridEncoder(extra_rows=3).get_params()["extra_rows"] == 3
    assert KINDS["fit"].model.model_fields["extra_rows"].default is None
    assert "--extra 5" in fit_command({"n_nonzero": 3, "extra_rows": 5}, {"path": "/x"})
    assert in_options("extra_rows=5") == "--extra 5"
    main(["plan", "--help"])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--extra " in done.stdout
    assert "Rows more." in done.stdout
