"""What a verb takes, the step of that name takes as well, and the other way round, but for what is listed here."""

import inspect
import shlex
from dataclasses import fields
from enum import Enum

import pytest
from typer.main import get_command

from spae_dask.cli.fit import FitGiven
from spae_dask.cli.main import VERBS, app
from spae_dask.cli.options.data import WhichColumns, WhichData, columns_of
from spae_dask.cli.options.groups import gathered
from spae_dask.cli.submitting import fit_words
from spae_dask.pipelines.schema import Fit, Matrix, Part
from spae_dask.pipelines.steps import KINDS
from spae_dask.plain_files import listed
from spae_dask.strategies.parameters import OF_PATHS, PARAMETERS
from tests.cli.test_exit_codes import failed

NO_VERB = ("compare",)
"""Steps of which there is no verb."""

KEY_OF = {each.option: name for name, each in PARAMETERS.items() if each.option != name}
"""Options that are not called as their keys are, which have the names of the library."""

OF_THE_RUN = ("cluster", "tls_dir", "memory", "strict", "force", "as_json", "quiet", "verbose", "debug", "log_json")
"""`spae run` takes these once, for all steps."""

NO_KEY = {
    "output": "results are named after the step, in the folder of the pipeline",
    "destination": "as output",
    "keep_checkpoint": "a record beside the outputs says what is done, so that a checkpoint has served",
    "performance_report": "a pipeline has one, of all its steps, by the setting of that name",
    "report": "as output; figures are by the key figure",
    "calibrate": "what a step records must not depend on how busy the machine was",
}
"""Options without a key, and why."""

NO_OPTION = {
    "kind": "the verb itself",
    "name": "--output",
    "figure": "--output, or --report, by its ending",
}
"""Keys without an option, and what stands for them."""

STEPS_WITH_VERBS = [kind for kind in KINDS if kind not in NO_VERB]


def options_of(verb):
    return inspect.signature(VERBS[verb][0], eval_str=True).parameters


def keys_of(kind):
    return KINDS[kind].model.model_fields


def test_every_step_but_those_listed_is_a_verb():
    assert set(KINDS) - set(VERBS) == set(NO_VERB)


@pytest.mark.parametrize("kind", STEPS_WITH_VERBS)
def test_options_of_a_verb_are_keys_of_its_step(kind):
    options = {KEY_OF.get(name, name) for name in options_of(kind)}
    keys = set(keys_of(kind))
    assert options - keys - set(OF_THE_RUN) == options & set(NO_KEY), "a step lacks these, or has what is listed"
    assert keys - options == keys & set(NO_OPTION), "a verb lacks these, or has what is listed"


def test_nothing_is_listed_that_no_verb_and_no_step_has():
    options = {name for kind in STEPS_WITH_VERBS for name in options_of(kind)}
    keys = {name for kind in STEPS_WITH_VERBS for name in keys_of(kind)}
    assert {*NO_KEY, *KEY_OF} <= options
    assert {*NO_OPTION, *KEY_OF.values()} <= keys
    assert set(OF_THE_RUN) <= set(options_of("run")), "all steps get these from it"


def choices_of_data(kind):
    """Keys by which a step chooses a part of its data; those of `compare` are the matrices'."""
    return set((Matrix if kind == "compare" else KINDS[kind].model).model_fields)


@pytest.mark.parametrize("kind", KINDS)
def test_every_step_chooses_a_part_of_its_data_as_the_verbs_do(kind):
    group = WhichColumns if kind == "ingest" else WhichData  # `spae ingest` writes all rows
    assert {each.name for each in fields(group)} <= choices_of_data(kind)


NOT_OF_PATHS = {
    "n_components": "an own option, of several numbers",
    "n_nonzero": "an own option, of several numbers",
    "method": "an own option, without the doubly sparse method, which keeps no core",
    "eps": "a path measures the losses of sizes that are given",
    "keep": "as eps",
    "strategy": "the planner chooses one that keeps a core, or candidates",
    "precision": "as strategy",
    "certified": "as strategy",
    "n_candidates": "as strategy",
    "sketch_rows": "as strategy",
    "tolerance": "as strategy",
    "power_iterations": "of strategy paper, which keeps no core",
    "oversampling": "of strategy paper",
    "split": "of strategy paper",
    "projection": "of strategy paper",
    "n_rows": "of the doubly sparse method",
    "orthonormal": "it changes no number of a path",
    "shared_support": "`spae panel --curve` measures components that share their features",
    "bootstraps": "they tell how stable the features of one encoder are, and a path names none",
    "keep_state": "a path stores no encoder",
}
"""Parameters of a fit that a path does not take, and why."""


def test_a_path_takes_all_parameters_of_a_fit_but_those_listed():
    assert set(PARAMETERS) - set(OF_PATHS) == set(NOT_OF_PATHS)
    options = {KEY_OF.get(name, name) for name in options_of("path")}
    assert set(OF_PATHS) <= options & set(keys_of("path"))


def plain(value):
    """A default as a file would have it."""
    return value.value if isinstance(value, Enum) else value


@pytest.mark.parametrize("kind", STEPS_WITH_VERBS)
def test_a_step_and_its_verb_have_the_same_defaults(kind):
    keys = keys_of(kind)
    for name, option in options_of(kind).items():
        if (key := keys.get(KEY_OF.get(name, name))) is not None and name not in OF_THE_RUN:
            needed = option.default is inspect.Parameter.empty
            assert key.is_required() == needed, name
            assert needed or key.default == plain(option.default), name


CHANGED = {
    "array": "layers/counts",
    "columns": ("a,b", 'the "best"', "expr_*", " c"),
    "mask": "var/my genes",
    "where": "n_counts > 500 and lab == 'x'",
    "sample_dim": "time,member",
    "weights": "the areas",
    "raw": True,
    "n_components": 3,
    "n_nonzero": (4, 5, 6),
    "method": "iterative",
    "selection": "leverage",
    "center": False,
    "scale": True,
    "strategy": "sketch",
    "precision": "fast",
    "certified": True,
    "n_candidates": 40,
    "sketch_rows": 300,
    "tolerance": 0.02,
    "keep_state": True,
    "missing": "zero",
    "missing_value": (-9.0, -8.5),
    "recipe": "normalize_total(10000), log1p",
    "covariates": "batch,C(the day)",
    "folds": 5,
    "bootstraps": 50,
    "fold_groups": "the donor",
    "top_features_batch": "the lab",
    "row_weights": "the weight",
    "orthonormal": True,
    "shared_support": True,
    "include": ("CD3E", 'the "best", of all'),
    "exclude": ("MT-*", "RPL*"),
    "costs": {"CD3E": 2.5, 'the "best", of all': 1.0},
    "groups": {"CD3E": "T", "a=b": "my group"},
    "at_most": {"T": 2, "my group": 1},
    "at_least": 1,
    "positions": {"CD3E": 442.5, "a=b": -1.0},
    "min_distance": 2.5,
    "search_tol": 0.02,
    "effort": 2,
    "n_top_features": 9,
    "top_features_flavor": "seurat_v3",
    "n_rows": 7,
    "n_repeats": 2,
    "power_iterations": 1,
    "oversampling": 9,
    "split": "dual-set",
    "projection": "frequent-directions",
    "seed": 11,
}


def parsed(words):
    """What `spae fit-part` makes of them."""
    command = get_command(app).commands["fit-part"]
    found = command.make_context("fit-part", ["1/2", "x.zarr", *words]).params
    return gathered(FitGiven, found), found["checkpoint"]


@pytest.mark.parametrize("size", ["eps", "n_nonzero", "keep", "n_features", "budget"])
def test_a_fit_step_in_words_of_the_command_line_is_the_same_fit(tmp_path, size):
    sizes = {"n_nonzero": CHANGED["n_nonzero"], "eps": 0.3, "keep": 0.8, "n_features": 40, "budget": 99.5}
    changed = CHANGED | {size: sizes.pop(size)}
    for other in sizes:
        changed.pop(other, None)
    step = Fit(kind="fit", name="fit", data="x.zarr", **changed)
    left = set(keys_of("fit")) - set(changed) - {"kind", "name", "data", "checkpoint", *sizes}
    assert not left, "every key is tried"
    given, checkpoint = parsed(fit_words(step, tmp_path))
    assert checkpoint == str(tmp_path / "fit.checkpoint")
    names = {"random_state": "seed"}
    parameters = {names.get(key, key): value for key, value in given.fitted.items() if key != "memory_limit"}
    assert {key: value for key, value in parameters.items() if value is not None} == {
        key: value for key, value in changed.items() if key not in Part.model_fields
    }
    assert given.which.array == "layers/counts"
    assert given.which.raw
    assert given.which.where == changed["where"]
    assert parsed([*shlex.split(given.words())[1:], "--checkpoint", "c"])[0] == given, "words of a part say the same"


@pytest.mark.parametrize("names", [("a",), ("a,b", "c"), ('the "best"', "expr_*"), ("x y", "é", "1")])
def test_names_on_the_command_line_are_read_as_they_were_given(names):
    assert columns_of(listed(names)) == names


def test_parts_need_the_checkpoint_that_a_fit_without_one_does_not_have(spae, store):
    pipeline = store.with_name("p.toml")
    keys = f'data = "{store}"\nn_components = 2\nn_nonzero = 3\ncheckpoint = false\n'
    pipeline.write_text(f'output = "out"\n[[step]]\nkind = "fit"\n{keys}')
    failed(spae("submit", "slurm", pipeline, "--array", 2, "-n"), 3, "'checkpoint = false'", "without --array")
