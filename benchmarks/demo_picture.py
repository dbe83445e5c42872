"""The picture of the demo in the README, cut out of the demo's report: `python -m benchmarks.demo_picture REPORT`.

Needs chromium. The report is the `report.html` that `spae demo` writes.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).parent / "pictures" / "indian_pines.png"
WIDTH, HEIGHT = 960, 800


def parts_of(page: str) -> str:
    """The page with nothing in it but the decoded images and the spectrum with its bands, in light colours."""
    style = re.search(r"<style>.*?</style>", page, re.DOTALL)
    images = re.search(r'<div class="row">.*?</div>', page, re.DOTALL)
    spectrum = re.search(r'<img src="[^"]*" alt="Mean spectrum[^>]*>', page)
    if style is None or images is None or spectrum is None:
        raise SystemExit("this is no report of the demo: give the report.html that `spae demo` wrote.")
    body = f'<body style="padding: .5rem">{images[0]}<figure>{spectrum[0]}</figure></body>'
    return f'<html><head><meta charset="utf-8">{style[0]}</head>{body}</html>'


def main(report: str) -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(parts_of(Path(report).read_text(encoding="utf-8")), encoding="utf-8")
        words = (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
        )
        size = f"--window-size={WIDTH},{HEIGHT}"
        light = "--blink-settings=preferredColorScheme=1"
        subprocess.run(["chromium", *words, size, light, f"--screenshot={PICTURE}", page.as_uri()], check=True)  # noqa: S607


if __name__ == "__main__":
    main(sys.argv[1])
