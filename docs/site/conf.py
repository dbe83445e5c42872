"""Sphinx configuration: `make docs` builds the pages of this repository, as they are, into build/docs.

The source folder is the root of the repository, so that links between pages lead to the same files here and on a forge.
"""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx
from typer.cli import get_docs_for_click
from typer.main import get_command

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from spae_dask import __version__  # noqa: E402
from spae_dask.cli.main import app as spae  # noqa: E402

project = "spae_dask"
author = "the spae_dask authors"
html_show_copyright = False
version = release = __version__

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "benchmarks/*.md",
    "benchmarks/head_to_head/*.md",
    "deploy/README.md",
    "pipelines/README.md",
    "pipelines/examples/*.ipynb",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = [".*", "build", "docs/paper", "tests"]

myst_heading_anchors = 3
smartquotes = False  # quotes in options are those that a shell takes
nb_execution_mode = "off"  # notebooks hold their outputs
nb_merge_streams = True

autodoc_default_options = {
    "members": True,
    "inherited-members": "BaseEstimator",
    # docstrings of scikit-learn that link to its own pages
    "exclude-members": "get_metadata_routing, set_fit_request, set_output, set_score_request, set_transform_request",
}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings state the types
numpydoc_show_class_members = False  # autodoc shows them

html_theme = "furo"
html_title = f"spae_dask {release}"
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["site.css"]

DOCSTRINGS = """

## {0}

```{{eval-rst}}
.. automodule:: {0}
```
"""


def commands() -> str:
    """Every command and option, as Markdown, from the program itself."""
    command = get_command(spae)
    text = get_docs_for_click(obj=command, ctx=command.make_context("spae", [], resilient_parsing=True), name="spae")
    text = re.sub(r"^Examples:\n\n((?:  .*\n)+)", r"**Examples**:\n\n```sh\n\1```\n", text, flags=re.MULTILINE)
    text = re.sub(r"^  (?=\S)", "", text, flags=re.MULTILINE)
    # the list of commands cuts their texts short; the margin of the page lists them too
    text = re.sub(r"^\*\*Commands\*\*:\n\n(?:\* .*\n)+\n", "", text, flags=re.MULTILINE)
    return "\n\n" + text.partition("\n")[2].replace("\\[", "[")


MADE = {
    "docs/reference/api": DOCSTRINGS.format("spae_dask")
    + DOCSTRINGS.format("spae_dask.scanpy")
    + DOCSTRINGS.format("spae_dask.xarray"),
    "docs/reference/commands": commands(),
}
"""Text that the build appends to a page."""


def sections(index: str) -> str:
    """The table of contents of the index, one a heading, from the links below that heading."""
    parts = []
    for section in index.split("\n## ")[1:]:
        caption, _, body = section.partition("\n")
        links = re.findall(r"\[([^\]]+)\]\(([^)#]+\.(?:md|ipynb))\)", body)
        entries = "\n".join(f"{title[0].upper()}{title[1:]} <{target}>" for title, target in links)
        parts.append(f"\n```{{toctree}}\n:hidden:\n:caption: {caption.partition(':')[0]}\n\n{entries}\n```\n")
    return "".join(parts)


def append(_: Sphinx, page: str, source: list[str]) -> None:
    """Append to a page what the build makes."""
    source[0] += sections(source[0]) if page == root_doc else MADE.get(page, "")


def redirect(app: Sphinx, error: Exception | None) -> None:
    """Lead from the top of the site to its first page."""
    if error is None:
        line = f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        Path(app.outdir, "index.html").write_text(line, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", append)
    app.connect("build-finished", redirect)
