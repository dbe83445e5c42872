"""Every key gets the line it is written on; which keys there are, the standard library's parser tells."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spae_dask.toml.lines import key_lines

AWKWARD = """# a comment = [
title = "a # b" # c
'quoted.key' = 'x = 1'
"esc\\"aped" = \"\"\"
a = 1
[no]
\"\"\"
dotted . key.deep = 1e-3
when = 1979-05-27 07:32:00
raw = ''''
'quoted' ]]''''
more = \"\"\"two quotes\"\"\"\"\"

list = [ 1, # one
  [2,
   3], { a = [ 4 ], "b" = "}" },
]
empty = []
[table]
x = 1
[[step]]
a = 1

  [[step]]  # the second
  b.c = 2
  [step.sub]
  d = {}
  [[step.inner]]
  e = 1
  [[step.inner]]
[table.below."with space"]
f = true"""

LINES = {
    ("title",): 2,
    ("quoted.key",): 3,
    ('esc"aped',): 4,
    ("dotted", "key", "deep"): 8,
    ("when",): 9,
    ("raw",): 10,
    ("more",): 12,
    ("list",): 14,
    ("list", 0): 14,
    ("list", 1): 15,
    ("list", 1, 1): 16,
    ("list", 2, "a", 0): 16,
    ("empty",): 18,
    ("table",): 19,
    ("step",): 21,
    ("step", 0): 21,
    ("step", 1): 24,
    ("step", 1, "b", "c"): 25,
    ("step", 1, "sub"): 26,
    ("step", 1, "sub", "d"): 27,
    ("step", 1, "inner", 0, "e"): 29,
    ("step", 1, "inner", 1): 30,
    ("table", "below", "with space", "f"): 32,
}


def paths(value: object, above: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """All key paths of a parsed document."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = set()
    for key, each in pairs:
        found |= {(*above, key)} | paths(each, (*above, key))
    return found


@pytest.mark.parametrize(("path", "line"), LINES.items(), ids=lambda each: str(each))
def test_the_line_of_each_key_of_an_awkward_document(path, line):
    assert key_lines(AWKWARD)[path] == line


def test_no_key_is_missed_and_none_invented():
    assert set(key_lines(AWKWARD)) == paths(tomllib.loads(AWKWARD))


SCALARS = st.sampled_from(
    ["1", "true", "-1.5e3", "'lit # \"'", '"a\\\\"', '"\\" = ["', '"""\n\nx = 1\n"""', "'''\n]\n'''", "07:32:00"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda each: "[ # (\n" + ",\n\n".join(each) + "\n]"),
        st.lists(SCALARS.filter(lambda each: "\n" not in each), max_size=2).map(
            lambda each: "{ " + ", ".join(f"k{i}.m = {value}" for i, value in enumerate(each)) + " }"
        ),
    ),
    max_leaves=6,
)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), VALUES), max_size=6))
def test_keys_after_values_of_any_shape_are_found(entries):
    text, expected, table = "", {}, ()
    for number, (opens, blank, value) in enumerate(entries):
        text += "\n" * blank
        if opens:
            table = ("t", sum(part == "[[t]]" for part in text.split("\n")))
            text += "[[t]]\n"
            expected[table] = text.count("\n")
        expected[(*table, f"key{number}")] = text.count("\n") + 1
        text += f"key{number} = {value}\n"
    found = key_lines(text)
    assert {path: found[path] for path in expected} == expected
    assert set(found) == paths(tomllib.loads(text))
