"""Names of features as figures can write them. Names come with the data and may hold anything."""

from collections import Counter
from collections.abc import Iterable, Sequence

from spae_dask.report.encoder_results import column_label
from spae_dask.report.extra import missing_library

try:
    from matplotlib.font_manager import FontProperties, findfont, get_font
except ImportError as error:
    raise missing_library("matplotlib") from error

LONGEST = 32
"""Letters of a name in a figure; longer ones are cut at their end."""


def figure_names(names: Sequence[str], columns: Iterable[int]) -> list[str]:
    """Names that tell features apart, at most ``LONGEST`` letters each.

    A name that the font of figures cannot write, and names that are alike when they are cut, give way to the feature's
    column, or end in it.

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

    labels = [column_label(column) for column in columns]
    cut = [shortened(name) if drawable(shortened(name)) else label for name, label in zip(names, labels, strict=True)]
    count = Counter(cut)
    apart = [
        short if count[short] == 1 or short == label else f"{shortened(name, LONGEST - len(label) - 3)} ({label})"
        for short, name, label in zip(cut, names, labels, strict=True)
    ]
    return [name.replace("$", r"\$") for name in apart]  # a dollar sign would start a formula


def shortened(name: str, longest: int = LONGEST) -> str:
    """A name of no more than ``longest`` letters, cut at its end."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
