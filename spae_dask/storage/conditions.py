"""Conditions that choose rows or columns: comparisons of the columns of a table with literals.

A condition is parsed, and never run as code: ``n_counts > 500 and batch in ['a', 'b'] and not doublet``. Parts of
a date are columns too: ``time.year > 1990``.
"""

import ast
import operator
import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput
from spae_dask.toml.names import did_you_mean

Booleans = npt.NDArray[np.bool_]

INDEX = "index"
"""Word for the names of the rows of the table."""

EXAMPLE = "\"n_counts > 500 and batch in ['a', 'b'] and not doublet\""

LONGEST = 100_000
"""Characters of a condition at most."""

COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

_QUOTED = re.compile(r"`([^`]+)`")


def is_condition(text: object) -> bool:
    """Return True for the text of a condition, and False for the name or the path of a column."""
    try:
        return isinstance(text, str) and isinstance(_parsed(text)[0], ast.BoolOp | ast.Compare | ast.UnaryOp)
    except InvalidInput:
        return False


def names_in(text: str) -> set[str]:
    """The columns that a condition names."""
    tree, quoted = _parsed(text)
    return {quoted.get(node.id, node.id) for node in ast.walk(tree) if isinstance(node, ast.Name)}


def where(text: str, names: Collection[str], read: Callable[[str], Any], n: int, table: str, called: str) -> Booleans:
    """The rows of a table that a condition chooses.

    Missing entries are equal to nothing, and not larger or smaller than anything.

    Parameters
    ----------
    text : str
        The condition.
    names : collection of str
        Columns of the table.
    read : callable
        Function from the name of a column, or ``index``, to its values.
    n : int
        Rows of the table.
    table, called : str
        Names of the table, such as ``obs``, and of the data, for messages.

    Raises
    ------
    InvalidInput
        If it is no condition, names a column that is not there, or compares text with numbers.
    """
    tree, quoted = _parsed(text)
    known: dict[str, Any] = {}

    def column(node: ast.Name) -> Any:
        name = quoted.get(node.id, node.id)
        if name not in names and name != INDEX:
            has = ", ".join(sorted(each for each in names if not each.startswith("_"))) or "none"
            near = did_you_mean(name, list(names))
            raise InvalidInput(f"{called} has no column {name!r} in {table}; it has {has}.{near}")
        if name not in known:
            known[name] = _plain(read(name))
            if known[name].shape != (n,):
                raise InvalidInput(f"the column {name!r} of {table} of {called} has not one value for each of {n:,}.")
        return known[name]

    def chosen(node: ast.expr) -> Booleans:
        if isinstance(node, ast.BoolOp):
            parts = [chosen(each) for each in node.values]
            together = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return np.asarray(together.reduce(parts))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~chosen(node.operand)
        if isinstance(node, ast.Compare):
            left, found = node.left, np.ones(n, dtype=bool)
            for op, right in zip(node.ops, node.comparators, strict=True):
                found &= compared(left, op, right)
                left = right
            return found
        if isinstance(node, ast.Name):
            values = column(node)
            if values.dtype == object:
                values = np.array([each is not None and each for each in values])
            if values.dtype != bool:
                raise InvalidInput(f"{_said(node, quoted)!r} of {table} is not boolean. Compare it, as in {EXAMPLE}.")
            return np.asarray(values)
        raise _refused(text)

    def compared(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Booleans:
        if isinstance(op, ast.In | ast.NotIn):
            values, several = _column_first(left, right, text), _literal(right, text)
            if not isinstance(several, tuple):
                raise _refused(text)
            found = np.zeros(n, dtype=bool)
            for each in several:
                found |= _apply(operator.eq, column(values), each, text, _said(values, quoted))
            return ~found if isinstance(op, ast.NotIn) else found
        function = COMPARE.get(type(op))
        if function is None:
            raise _refused(text)
        if isinstance(left, ast.Name):
            return _apply(function, column(left), _literal(right, text), text, _said(left, quoted))
        name = _column_first(right, left, text)
        mirrored = {operator.lt: operator.gt, operator.le: operator.ge, operator.gt: operator.lt}
        turned = mirrored.get(function, operator.le if function is operator.ge else function)
        return _apply(turned, column(name), _literal(left, text), text, _said(name, quoted))

    try:
        return chosen(tree)
    except RecursionError as error:  # Python 3.13 parses deeper conditions than it can walk through
        raise _refused(text) from error


class _Dotted(ast.NodeTransformer):
    """Takes names with a dot, such as ``time.year``, for names of columns, as if they stood in backticks."""

    def __init__(self, quoted: dict[str, str]) -> None:
        self.quoted = quoted

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """A name and one of its parts as one name."""
        if not isinstance(node.value, ast.Name) or node.value.id in self.quoted:
            return node
        name = f"column_with_a_dot_{len(self.quoted)}"
        self.quoted[name] = f"{node.value.id}.{node.attr}"
        return ast.copy_location(ast.Name(name, node.ctx), node)


def _parsed(text: str) -> tuple[ast.expr, dict[str, str]]:
    """The tree of a condition, and the names of columns that stand in backticks."""
    if len(text) > LONGEST:
        raise InvalidInput(f"the condition has {len(text):,} characters; at most {LONGEST:,} are allowed.")
    quoted: dict[str, str] = {}

    def placed(found: re.Match[str]) -> str:
        quoted[f"column_in_backticks_{len(quoted)}"] = found[1]
        return f"column_in_backticks_{len(quoted) - 1}"

    try:
        tree = _Dotted(quoted).visit(ast.parse(_QUOTED.sub(placed, text.strip()), mode="eval"))
        return tree.body, quoted
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _refused(text) from error


def _refused(text: str) -> InvalidInput:
    return InvalidInput(
        f"{text!r} is no condition: compare columns with numbers or text, with and, or, not and in between, as in "
        f"{EXAMPLE}. A name with blanks stands in backticks."
    )


def _said(node: ast.Name, quoted: dict[str, str]) -> str:
    return quoted.get(node.id, node.id)


def _column_first(column: ast.expr, other: ast.expr, text: str) -> ast.Name:
    if not isinstance(column, ast.Name) or isinstance(other, ast.Name):
        raise _refused(text)
    return column


def _literal(node: ast.expr, text: str) -> Any:
    """A number, text or boolean, or a tuple of them."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise _refused(text) from error
    several = tuple(value) if isinstance(value, list | tuple | set) else None
    if not all(isinstance(each, bool | int | float | str) for each in ((value,) if several is None else several)):
        raise _refused(text)
    return value if several is None else several


def _apply(function: Callable[[Any, Any], Any], values: Any, literal: Any, text: str, name: str) -> Booleans:
    if isinstance(literal, tuple):
        raise _refused(text)
    if values.dtype != object:
        kinds: tuple[type, ...] = (bool,) if values.dtype.kind == "b" else (bool, int, float)
        if not isinstance(literal, kinds):
            holds = "booleans" if values.dtype.kind == "b" else "numbers"
            raise InvalidInput(f"{name!r} holds {holds}, and {literal!r} is none. Compare like with like.")
        return np.asarray(function(values, literal), dtype=bool)
    strings, wanted = {type(each) for each in values if each is not None} <= {str}, isinstance(literal, str)
    if strings != wanted and any(each is not None for each in values):
        holds = "text" if strings else "other values"
        raise InvalidInput(f"{name!r} holds {holds}, and {literal!r} is none. Compare like with like.")
    missing = function is operator.ne
    return np.array([missing if each is None else bool(function(each, literal)) for each in values], dtype=bool)


def _plain(values: Any) -> Any:
    """Booleans or numbers as they are; all else as objects, with None for missing ones."""
    found = np.asarray(values)
    if found.dtype.kind in "biuf":
        return found
    plain = np.empty(found.shape, dtype=object)
    for place, each in np.ndenumerate(found):
        value = each.decode() if isinstance(each, bytes) else each.item() if isinstance(each, np.generic) else each
        known = isinstance(value, str | bool | int) or (isinstance(value, float) and value == value)
        plain[place] = value if known else None
    return plain
