"""Errors of a pipeline file name the file, the line, the key, what was given and what is allowed."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.pipelines.pipeline import read_pipeline
from tests.pipelines.conftest import Folder

GOOD = """output = "out"

[[step]]
kind = "ingest"
name = "matrix"
source = "x.npy"

[[step]]
kind = "fit"
name = "encoder"
data = "@matrix"
n_components = 2
n_nonzero = 3

[[step]]
kind = "compare"
n_components = 2
n_nonzero = [2, 4]

[step.encoders]
matrix = "props"
n_nonzero = 4

[[step.matrix]]
name = "props"
source = "pitprops"
"""


def error_of(folder, text):
    path = folder.write(text)
    with pytest.raises(InvalidInput) as raised:
        read_pipeline(path)
    return str(raised.value)


def test_a_good_pipeline_is_tied_together(folder):
    pipeline = read_pipeline(folder.write(GOOD))
    ingest, fit, compare = pipeline.nodes
    assert pipeline.output == folder.out
    assert [node.line for node in pipeline.nodes] == [3, 8, 15]
    assert ingest.files == {("source",): str(folder.path / "x.npy")}
    assert fit.files == {("data",): str(folder.out / "matrix.zarr")}
    assert fit.made_by == {("data",): "matrix"}
    assert compare.files == {("matrix", 0, "source"): "pitprops"}
    assert compare.step.name == "compare"
    assert {path.name for path in compare.outputs.values()} == {
        "compare.csv", "compare.encoders.csv", "compare.encoders.txt", "compare.svg", "compare.png",
    }  # fmt: skip
    assert not folder.out.exists()


WRONG = [
    ('kind = "fit"', 'kind = "fti"', 9, "step[2].kind: 'fti' is not allowed", "Did you mean 'fit'?"),
    ('kind = "fit"\n', "", 8, "step[2].kind: it is missing", "'ingest', 'check'"),
    ('output = "out"', 'ouput = "out"', 1, "ouput: this key is not known. Did you mean 'output'?", "output: it is"),
    ('output = "out"', "output = 3", 1, "output: 3 is not allowed", "folder"),
    ("n_nonzero = 3", "nonzero = 3", 13, "step[2].nonzero: this key is not known. Did you mean 'n_nonzero'?", "eps"),
    ("n_nonzero = 3", "", 8, "step[2]: give exactly one of 'n_nonzero'", "'eps'"),
    ("n_nonzero = 3", "n_nonzero = 3\neps = 0.1", 8, "step[2]: give exactly one", "'eps'"),
    ("n_nonzero = 3", "eps = 0.1\nkeep = 0.9", 8, "step[2]: give exactly one", "'keep'"),
    ("n_nonzero = 3", "keep = 1.0", 13, "step[2].keep: 1.0 is not allowed", "between 0 and 1"),
    ("n_nonzero = 3", "eps = -0.1", 13, "step[2].eps: -0.1 is not allowed", "give a positive number"),
    ("n_nonzero = 3", "n_nonzero = [3, 0]", 13, "step[2].n_nonzero: [3, 0] is not allowed", "12, 8 and 8"),
    ("n_nonzero = 3", "n_nonzero = true", 13, "step[2].n_nonzero: True is not allowed", "whole number"),
    ("n_nonzero = 3", 'n_nonzero = 3\nmethod = "polish"', 14, "method: 'polish' is not allowed", "'polished'?"),
    ("n_nonzero = 3", "n_nonzero = 3\nseed = 1.5", 14, "step[2].seed: 1.5 is not allowed", "whole number"),
    ("n_nonzero = 3", "n_nonzero = 3\ncenter = 1", 14, "step[2].center: 1 is not allowed", "true or false"),
    ("n_nonzero = [2, 4]", "", 15, "step[3].n_nonzero: it is missing", "table that starts here"),
    ("n_nonzero = [2, 4]", "n_nonzero = []", 18, "step[3].n_nonzero: [] is not allowed", "[2, 5, 10]"),
    ("n_nonzero = [2, 4]", "n_nonzero = [2]", 15, "step[3]: 'encoders.n_nonzero' is 4", "props"),
    ('matrix = "props"', 'matrix = "prop"', 15, "step[3]: 'encoders.matrix' is 'prop'", "props"),
    ('matrix = "props"', 'matrx = "props"', 21, "step[3].encoders.matrx: this key is not known", "'matrix'?"),
    ('name = "props"', 'nam = "props"', 25, "step[3].matrix[1].nam: this key is not known", "'name'?"),
    ('source = "pitprops"', 'source = "pitprop"', 26, "step[3].matrix[1].source: there is nothing", "pitprops"),
    ('source = "pitprops"', 'source = "@encoder"', 26, "'@encoder' is not allowed: that step writes no", "'@matrix'"),
    ('source = "x.npy"', 'source = "y.npy"', 6, "step[1].source: there is nothing at", "y.npy"),
    ('source = "x.npy"', "source = 7", 6, "step[1].source: 7 is not allowed", "string"),
    ('"@matrix"', '"@matrx"', 11, "step[2].data: '@matrx' is not allowed: that step does not exist", "'matrix'?"),
    ('"@matrix"', '"@compare"', 11, "step[2].data: '@compare' is not allowed: that step does not come before", ""),
    ('"@matrix"', '"out/matrix.zarr"', 11, "step[2].data: 'out/matrix.zarr' is the output of a step", "'@matrix'"),
    ('name = "encoder"', 'name = "Matrix"', 10, "step[2].name: step[1] is also named 'matrix'", "its own name"),
    ('name = "encoder"', 'name = "../e"', 10, "step[2].name: '../e' is not allowed", "pattern"),
    ('name = "matrix"', "name = 'matrix'\nchunks = [10]", 6, "step[1].chunks: [10] is not allowed", "two whole"),
    ('name = "matrix"', "name = 'matrix'\ndtype = 'float3'", 6, "step[1].dtype: 'float3' is not allowed", "float32"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "said", "also"), WRONG)
def test_the_line_and_the_remedy_of_each_mistake(folder, old, new, line, said, also):
    assert GOOD.count(old) == 1
    message = error_of(folder, GOOD.replace(old, new))
    assert message.startswith(str(folder.path / "p.toml"))
    assert any(f"line {line}: " in part and said in part for part in message.splitlines())
    assert also in message


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(folder):
    text = GOOD.replace("n_nonzero = 3", "n_nonzero = 0").replace('name = "props"', "").replace('"out"', '""')
    lines = error_of(folder, text).splitlines()
    assert lines[0].endswith("has 3 problems:")
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["line 1", "line 13", "line 24"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "problems"),
        (b"output = 'o'", "line 1: step: a pipeline has at least one step"),
        (b"output = 'o'\nstep = 3", "line 2: step: a pipeline has at least one step"),
        (b"output = 'o'\nstep = [1]", "line 2: step: a pipeline has at least one step"),
        (b"output = 'o'\n[step]\nkind = 'fit'", "line 2: step: a pipeline has at least one step"),
        (b"output = 'o'\n\nname: fit\n", "line 3: not TOML: expected '=' after a key"),
        (b"a = 1\na = 2\n", "line 2: not TOML: cannot overwrite a value"),
        (b"x = [", "line 1: not TOML"),
        (b"x = " + b"9" * 10_000, "contains a number that is too long"),
        (b"a = 1\n\xff\xfe", "line 2: not TOML, because it is not UTF-8 text"),
        (b"\x89PNG\r\n\x1a\n\x00", "line 1: not TOML"),
        (b"a = " + b"[" * 5000, "is nested too deep"),
        (b"#" * ((1 << 20) + 1), "more than 1.0 MiB"),
    ],
)
def test_nonsense_is_refused_with_a_line(folder, content, said):
    (folder.path / "p.toml").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"p\.toml") as raised:
        read_pipeline(folder.path / "p.toml")
    assert said in str(raised.value)


def test_a_file_that_is_not_there_and_one_that_is_a_folder(folder):
    with pytest.raises(NotFound, match="there is no file"):
        read_pipeline(folder.path / "none.toml")
    with pytest.raises(StorageError, match="cannot be read"):
        read_pipeline(folder.path)


def test_windows_line_ends_and_a_byte_order_mark_are_read(folder):
    (folder.path / "p.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_pipeline(folder.path / "p.toml").nodes[1].line == 8


def test_inputs_are_relative_to_the_file_and_the_output_given_to_where_one_stands(folder, monkeypatch):
    (folder.path / "elsewhere").mkdir()
    monkeypatch.chdir(folder.path / "elsewhere")
    folder.write(GOOD)
    pipeline = read_pipeline(os.path.join("..", "p.toml"), output="here")
    assert pipeline.output == folder.path / "elsewhere" / "here"
    assert pipeline.nodes[0].files[("source",)] == str(folder.path / "x.npy")


def test_an_output_inside_an_input_is_refused(folder):
    folder.write(GOOD.replace('"x.npy"', '"store.zarr"').replace('"out"', '"store.zarr/out"'))
    (folder.path / "store.zarr").mkdir()
    with pytest.raises(InvalidInput, match=r"line 6: step\[1\].source: .* would damage"):
        read_pipeline(folder.path / "p.toml")


PIECES = st.sampled_from(
    ["", "\n", "[", "]", "{}", "[[step]]", "[step]", '""', "'''", "= 1", "= []", "= {a.b = [1]}", "@", "\x00", "é",
     'kind = "path"', 'kind = "compare"', "n_components", "1e400", "nan", "-1", '"\\ud800"', "step = 1", "a.b.c = 1"]
)  # fmt: skip


@pytest.fixture(scope="module")
def anywhere(tmp_path_factory):
    folder = Folder(tmp_path_factory.mktemp("fuzz"))
    np.save(folder.path / "x.npy", np.eye(3))
    return folder


@given(st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 30), PIECES), min_size=1, max_size=3))
@settings(max_examples=150)
def test_a_file_with_anything_in_it_is_read_or_refused_with_a_line(anywhere, edits):
    text = GOOD
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]
    try:
        read_pipeline(anywhere.write(text))
    except InvalidInput as error:
        assert re.search(r"line \d+: ", str(error))  # noqa: PT017 - most are refused, some are not


def test_reading_takes_time_in_proportion_to_the_steps(tmp_path, monkeypatch):
    (tmp_path / "x.npy").touch()
    step = '[[step]]\nkind = "fit"\nname = "s{}"\ndata = "x.npy"\nn_components = 2\nn_nonzero = 4\n\n'
    resolved, resolve = [], Path.resolve
    monkeypatch.setattr(Path, "resolve", lambda self, strict=False: resolved.append(1) or resolve(self, strict))
    counts = []
    for n_steps in (10, 40):
        resolved.clear()
        (tmp_path / "p.toml").write_text('output = "out"\n\n' + "".join(map(step.format, range(n_steps))))
        assert len(read_pipeline(tmp_path / "p.toml").nodes) == n_steps
        counts.append(len(resolved))
    assert counts[1] <= 4.5 * counts[0]
