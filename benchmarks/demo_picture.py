"""Pictures of the demo in README and docs, cut out of the demo's report: `python -m benchmarks.demo_picture REPORT`.

Needs chromium. The report is the `report.html` that `spae demo` writes.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURES = Path(__file__).parent / "pictures"

N_ROWS = 8
"""Chosen features that are shown."""


def cut(page: str, pattern: str) -> str:
    """The first part of a page that a pattern finds."""
    found = re.search(pattern, page, re.DOTALL)
    if found is None:
        raise SystemExit("this is no report of the demo: give the report.html that `spae demo` wrote.")
    return found[0]


def section(page: str, title: str) -> str:
    """The section of a title."""
    return cut(page, rf"<section [^>]*>\s*<h2 [^>]*>{title}</h2>.*?</section>")


def decoded_images(page: str) -> str:
    """The decoded images, and the spectrum with its bands."""
    images, spectrum = cut(page, r'<div class="row">.*?</div>'), cut(page, r'<img src="[^"]*" alt="Mean spectrum[^>]*>')
    return f"{images}<figure>{spectrum}</figure>"


def story(page: str) -> str:
    """The summary, the first of the chosen features, and the losses of encoders of other sizes."""
    few = f"<style>tbody tr:nth-child(n + {N_ROWS + 1}) {{ display: none; }}</style>"
    sections = (section(page, title) for title in ("The chosen features", "More or fewer features"))
    return "".join((few, cut(page, r"<header>.*?</header>"), *sections, cut(page, r"<script>.*?</script>")))


PARTS = {"indian_pines.png": (decoded_images, 960, 800), "report.png": (story, 960, 1450)}
"""Pictures, the parts of the page that they show, and their width and height in pixels."""


def main(report: str) -> None:
    """Write the pictures, in light colours."""
    page = Path(report).read_text(encoding="utf-8")
    style = cut(page, r"<style>.*?</style>")
    for name, (parts, width, height) in PARTS.items():
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / "page.html"
            body = f'<body style="padding: .5rem">{parts(page)}</body>'
            part.write_text(f'<html><head><meta charset="utf-8">{style}</head>{body}</html>', encoding="utf-8")
            words = (
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--user-data-dir={folder}/profile",
                f"--window-size={width},{height}",
                "--blink-settings=preferredColorScheme=1",
                f"--screenshot={PICTURES / name}",
            )
            subprocess.run(["chromium", *words, part.as_uri()], check=True)  # noqa: S607


if __name__ == "__main__":
    main(sys.argv[1])
