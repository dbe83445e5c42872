"""Addresses of schedulers. Light: the command line asks before anything is imported."""

import re

MAX_PORT = 65535


def is_address(text: str) -> bool:
    """Whether it may be that of a scheduler: a host, and a port that there is."""
    found = re.fullmatch(r"(tcp|tls)://[^\s/@]+:([0-9]{1,5})", text)
    return found is not None and 0 < int(found[2]) <= MAX_PORT
