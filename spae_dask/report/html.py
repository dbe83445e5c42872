"""One self-contained HTML page of titled sections: no script, no style sheet, no image from elsewhere.

A content security policy forbids all of these to the browser too, and every script but the page's own. So a name in the
data cannot run a script.
"""

import base64
import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, LiteralString

import numpy as np
import numpy.typing as npt

from spae_dask.report.figures import styled
from spae_dask.report.themes import DARK, LIGHT, Theme, missing_library

try:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup
    from matplotlib.figure import Figure
    from matplotlib.image import imsave
except ImportError as error:
    raise missing_library(error.name or "jinja2") from error

__all__ = [
    "Markup",
    "Page",
    "Section",
    "commands",
    "definitions",
    "filled",
    "joined",
    "number",
    "paragraph",
    "pixel_pictures",
    "render",
    "table",
    "themed_figure",
]

TEMPLATE = "page.html.jinja"

SCRIPT = "tables.js"
"""Sorts and searches the tables that ask for it; pages say all they have to say without it."""


@dataclass(frozen=True)
class Section:
    """A titled part of a page.

    Attributes
    ----------
    title : str
        Its heading.
    html : Markup
        Its content, made with the functions of this module.
    """

    title: str
    html: Markup


@dataclass(frozen=True)
class Page:
    """A whole page.

    Attributes
    ----------
    title : str
        Title of the document, and its heading.
    summary : Markup
        Main results, for a reader in a hurry.
    sections : tuple of Section
        Sections in their order.
    footer : Markup
        Last line of the page: the program that made it.
    sortable : bool
        True to include the script that sorts and searches sortable tables.
    """

    title: str
    summary: Markup
    sections: tuple[Section, ...]
    footer: Markup
    sortable: bool = False


def render(page: Page) -> str:
    """The page as one HTML document."""
    source, script = (
        files("spae_dask.report").joinpath(name).read_text(encoding="utf-8") for name in (TEMPLATE, SCRIPT)
    )
    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(source)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return template.render(
        page=page,
        light=LIGHT,
        dark=DARK,
        script=Markup(script),  # noqa: S704 - written in this package
        allowed=f"'sha256-{digest}'" if page.sortable else "'none'",
    )


def joined(*parts: Markup | str) -> Markup:
    """Parts one after the other; plain strings are escaped."""
    return Markup("\n").join(parts)


def paragraph(text: LiteralString, *values: Any) -> Markup:
    """A paragraph of the text, filled in as :func:`filled` does."""
    return Markup("<p>{}</p>").format(filled(text, *values))


def filled(text: LiteralString, *values: Any) -> Markup:
    """HTML with its ``{}`` taken by the values, which are escaped unless they are Markup."""
    return Markup(text).format(*values)  # noqa: S704 - the text is written in this package, values are escaped


def number(value: float, text: str) -> Markup:
    """A number as readers see it, and in full for programs: ``<data value="1.0986...">1.099</data>``."""
    shown = text.replace("-", "\N{MINUS SIGN}") if text.startswith("-") else text
    return Markup('<data value="{}">{}</data>').format(repr(float(value)), shown)


def table(
    caption: Markup | str,
    head: Sequence[Markup | str],
    rows: Sequence[Sequence[Markup | str]],
    *,
    sortable: bool = False,
) -> Markup:
    """A table whose first row and first column are headings.

    Parameters
    ----------
    caption : str
        Caption of the table.
    head : sequence of str
        Column headings.
    rows : sequence of sequences of str
        Each starts with the heading of the row.
    sortable : bool
        True to let readers sort and search the table, on pages that include the script.
    """
    top = Markup("").join(Markup('<th scope="col">{}</th>').format(cell) for cell in head)
    body = Markup("\n").join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            row[0], Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row[1:])
        )
        for row in rows
    )
    return Markup(
        '<div class="wide" tabindex="0"><table{}>\n<caption><span>{}</span></caption>\n'
        "<thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>\n</table></div>"
    ).format(Markup(' class="sortable"') if sortable else "", caption, top, body)


def definitions(pairs: Sequence[tuple[str, Markup | str]]) -> Markup:
    """A list of terms and what is to be said of each."""
    items = (Markup("<dt>{}</dt><dd>{}</dd>").format(term, text) for term, text in pairs)
    return Markup("<dl>\n{}\n</dl>").format(Markup("\n").join(items))


def commands(lines: Sequence[str]) -> Markup:
    """Shell commands, to be copied."""
    return Markup("<pre><code>{}</code></pre>").format("\n".join(lines))


def themed_figure(draw: Callable[[Theme], Figure], *, alt: str, caption: Markup | str, title: str = "") -> Markup:
    """A figure drawn twice, for paper and for dark screens; browsers show the one that fits.

    Parameters
    ----------
    draw : callable
        Makes the figure in a theme.
    alt : str
        Description of the figure, for readers who cannot see it.
    caption : str
        Caption of the figure.
    title : str
        Tooltip, for what the figure has no room for.
    """
    light, dark = (_svg(draw(theme), theme) for theme in (LIGHT, DARK))
    return Markup(
        '<figure><div class="wide" tabindex="0"><picture>'
        '<source media="screen and (prefers-color-scheme: dark)" srcset="{}">'
        '<img src="{}" alt="{}"{}></picture></div><figcaption>{}</figcaption></figure>'
    ).format(dark, light, alt, filled(' title="{}"', title) if title else "", caption)


def pixel_pictures(pictures: Sequence[tuple[npt.NDArray[np.uint8], str, Markup | str]]) -> Markup:
    """Small images side by side, enlarged pixel by pixel: arrays (h, w, 3), their alt texts and their captions."""
    parts = [
        Markup(
            '<figure><img class="pixels" src="{}" width="{}" height="{}" alt="{}"><figcaption>{}</figcaption></figure>'
        ).format(_png(pixels), pixels.shape[1], pixels.shape[0], alt, caption)
        for pixels, alt, caption in pictures
    ]
    return Markup('<div class="row">{}</div>').format(Markup("\n").join(parts))


def _svg(figure: Figure, theme: Theme) -> str:
    buffer = io.BytesIO()
    with styled(theme):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _data_uri("image/svg+xml", buffer.getvalue())


def _png(pixels: npt.NDArray[np.uint8]) -> str:
    buffer = io.BytesIO()
    imsave(buffer, pixels, format="png", metadata={"Software": ""})
    return _data_uri("image/png", buffer.getvalue())


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
