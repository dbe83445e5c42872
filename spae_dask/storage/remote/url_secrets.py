"""Secrets of a URL, which no message may show: a user with a password, and a query, which may be a signature.

Such URLs are refused where data and encoders are opened, so that records, checkpoints and reports are free of them by
construction; messages that quote what was given are cleaned before they are shown.
"""

import re

from spae_dask.errors import InvalidInput

_USER = re.compile(r"(:/{1,2})[^/?#\s'\"]*@")
_LONG_PASSWORD = re.compile(r"(://)[^/?#\s:'\"]*:(?!\d+/)[^\s@'\"]*@")
"""Password that holds a slash. No port does."""
_BARE_USER = re.compile(r"(?<![\w/.:-])[\w.%+-]{2,}:[^\s@/'\"]+@(?!sha256:)(?=\[|[\w-]+(\.[\w-]|:\d))")
"""A user with a password before a host, without a scheme: other libraries take the scheme off."""
_PASSWORD = re.compile(r"://[^/?#]*:[^/?#]*@")
_PLAIN = ("file://", "local://", "github://")
"""Paths, and ``organisation:repository@branch``."""
VERSIONED = "icechunk://"
"""Scheme of repositories of Icechunk. Their queries name a version, which is no secret."""
_VERSION = r"\?(?:branch|tag|snapshot)=[^\s?#&='\"`<>]+"
_QUERY = re.compile(rf"{VERSIONED}[^\s?'\"`<>]+{_VERSION}(?![^\s'\"`<>])|(:/{{1,2}}(?!/)[^\s?'\"`<>]+)\?[^\s'\"`<>]+")


def redacted(url: str) -> str:
    """A URL without what may be secret: user, password, query and fragment."""
    return re.sub(r"[?#].*", "?...", re.sub(r"://[^/?#]*@", "://...@", url), count=1)


def without_secrets(text: str) -> str:
    """A text with the users, passwords and queries of all its URLs and addresses replaced by dots."""
    text = _LONG_PASSWORD.sub(r"\1...@", _USER.sub(r"\1...@", text))
    return _QUERY.sub(lambda found: found[0] if found[1] is None else f"{found[1]}?...", _BARE_USER.sub("...@", text))


def refuse_secrets(text: str) -> None:
    """Refuse a URL with a password, a query or a fragment; paths, and ``file://``, may hold any character.

    A version of an Icechunk repository, such as ``?branch=main``, is no secret.

    A URL may be a chain of them, such as ``simplecache::s3://bucket/x.zarr``.

    Raises
    ------
    InvalidInput
        If it has one.
    """
    for each in text.split("::"):
        if each.startswith(VERSIONED):
            each = re.sub(f"{_VERSION}$", "", each)
        if "://" not in each or each.startswith(_PLAIN):
            continue
        if _PASSWORD.search(each) or re.search(r"://.*[?#]", each):
            raise holds_secret(text)


def holds_secret(url: str) -> InvalidInput:
    """The error for such a URL, which does not repeat the secret."""
    return InvalidInput(
        f"{redacted(url)} contains a user, a password, a query or a fragment, which would appear in logs "
        "and records. Give the URL without it. Put credentials into the environment or into profile "
        "files."
    )
