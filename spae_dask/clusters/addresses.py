"""Addresses of schedulers. Light: the command line asks before anything is imported."""

import re

MAX_PORT = 65535


def is_address(text: str) -> bool:
    """Return True if the text has the form of a scheduler's address: a host, and a valid port."""
    found = re.fullmatch(r"(tcp|tls)://[^\s/@]+:([0-9]{1,5})", text)
    return found is not None and 0 < int(found[2]) <= MAX_PORT
