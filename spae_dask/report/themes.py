"""Colours of figures and pages, once for paper and once for dark screens."""

from dataclasses import dataclass

from spae_dask.errors import InvalidInput


def missing_library(library: str) -> InvalidInput:
    """The error to raise if ``library`` cannot be imported."""
    return InvalidInput(
        f'reports need {library}, which is not installed. Run `pip install "spae-dask[report]"`. '
        "Everything except reports works without it."
    )


@dataclass(frozen=True)
class Theme:
    """Colours, as CSS writes them.

    Attributes
    ----------
    name : str
        ``"light"`` or ``"dark"``.
    paper, ink, quiet, line : str
        Background, text, secondary text, rules and grids.
    encoder, pca, band : str
        The sparse encoder, PCA, and shaded regions.
    diverging : tuple of str
        Colours of negative numbers, zero and positive numbers.
    errors : tuple of str
        Colours of errors, from none to large.
    """

    name: str
    paper: str
    ink: str
    quiet: str
    line: str
    encoder: str
    pca: str
    band: str
    diverging: tuple[str, str, str]
    errors: tuple[str, ...]


LIGHT = Theme(
    name="light",
    paper="#ffffff",
    ink="#1c2127",
    quiet="#59636e",
    line="#d5dbe1",
    encoder="#0a6c93",
    pca="#a85a12",
    band="#eef1f4",
    diverging=("#a85a12", "#f7f8f9", "#0a6c93"),
    errors=("#ffffff", "#9ecae1", "#3182bd", "#08306b"),
)

DARK = Theme(
    name="dark",
    paper="#14181c",
    ink="#e4e8ec",
    quiet="#9aa5b1",
    line="#353d46",
    encoder="#5cb8dc",
    pca="#e0a060",
    band="#1f252b",
    diverging=("#e0a060", "#1f252b", "#5cb8dc"),
    errors=("#14181c", "#17466b", "#3f8fc4", "#cfe8f7"),
)
