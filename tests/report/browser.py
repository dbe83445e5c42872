"""A headless Chromium to look at pages with, where there is one."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine to look at the page with")


def in_browser(page: Path, *options: str) -> bytes:
    """Standard output of a browser that has loaded the page."""
    return browse(page, *options).stdout


def browse(page: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    """A run of a browser that has loaded the page; with ``--enable-logging=stderr`` its console is on stderr."""
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *options, page.as_uri()]
    profile = f"--user-data-dir={page.parent / 'profile'}"
    return subprocess.run([*command, profile], check=True, capture_output=True, timeout=120)


def driven(html: str, script: str) -> str:
    """The page with a script of the test's own at its end, and without the policy that would not let it run."""
    free = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    assert free != html
    return free.replace("</body>", f"<script>{script}</script></body>")
