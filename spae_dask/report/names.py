"""Names of features as figures can write them. Names come with the data and may hold anything."""

from collections.abc import Iterable, Sequence

from spae_dask.report.extra import missing_library

try:
    from matplotlib.font_manager import FontProperties, findfont, get_font
except ImportError as error:
    raise missing_library("matplotlib") from error

LONGEST = 22
"""Letters of a name in a figure; of longer ones the start and the end are written."""


def figure_names(names: Sequence[str], columns: Iterable[int]) -> list[str]:
    """The names, or the features' numbers in place of names that the font of figures cannot write.

    Parameters
    ----------
    names : sequence of str
        Any.
    columns : iterable of int
        Column of each.
    """
    font = get_font(findfont(FontProperties()))

    def drawable(name: str) -> bool:
        return bool(name.strip()) and all(each.isprintable() and font.get_char_index(ord(each)) for each in name)

    shown = [(shortened(name), column) for name, column in zip(names, columns, strict=True)]
    # a dollar sign would start a formula
    return [name.replace("$", r"\$") if drawable(name) else f"[{column}]" for name, column in shown]


def shortened(name: str, longest: int = LONGEST) -> str:
    """A name of no more than ``longest`` letters: what tells names apart is often at their end."""
    if len(name) <= longest:
        return name
    tail = longest // 3
    return f"{name[: longest - tail - 1]}…{name[-tail:]}"
