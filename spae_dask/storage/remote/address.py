"""Address of something on an object store or web server: a URL and the options for access, never a secret.

An address is what travels to workers, into records and into messages. Credentials are found anew by each process that
opens it, from its own environment and profile files, so they are nowhere to be leaked from.

A URL has a secret if it has a user with a password, or a query, which may be a signature. Such URLs are refused where
data and encoders are opened, so that records, checkpoints and reports are free of them by construction. Messages that
quote what was given are cleaned before they are shown.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from spae_dask.errors import InvalidInput

SCHEMES = ("s3", "gs", "http", "https")

WRITABLE = ("s3", "gs")
"""Schemes of stores that outputs can be written to."""

ALIASES = {"gcs": "gs", "s3a": "s3", "s3n": "s3", "local": "file"}
"""Other names that fsspec has for schemes."""

OPTIONS = ("anon", "endpoint_url", "region", "profile")


@dataclass(frozen=True)
class Address:
    """A place and how to reach it.

    Attributes
    ----------
    url : str
        Without a slash at the end.
    scheme, host, key : str
        Its parts; the host of an object store is the bucket.
    anon : bool
        True to send unsigned requests, as public buckets allow.
    endpoint_url, region, profile : str, optional
        Service of S3, its region, and the profile in AWS's files with the credentials to use.
    """

    url: str
    scheme: str
    host: str
    key: str
    anon: bool = False
    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None

    def __str__(self) -> str:
        return self.url


def is_remote(text: str | Path) -> bool:
    """Return True if it is a URL of one of `SCHEMES`."""
    place = os.fsdecode(text)
    return "::" not in place and place.lower().startswith(tuple(f"{scheme}://" for scheme in SCHEMES))


def parse_address(url: str, storage_options: Mapping[str, Any] | None = None) -> Address:
    """The address of a URL; nothing is connected to.

    Parameters
    ----------
    url : str
        URL such as ``s3://bucket/x.zarr``.
    storage_options : mapping, optional
        ``anon`` (bool), ``endpoint_url``, ``region`` and ``profile`` (str); no secrets.

    Raises
    ------
    InvalidInput
        If the URL holds a password or a query, names no bucket, or an option is not known.
    """
    try:
        parts = urlsplit(url)
        host = parts.netloc
        if "@" not in host:
            _ = parts.port  # not a number in a URL whose password has a slash
    except ValueError as error:
        raise InvalidInput(  # it may contain a password that no rule finds, so the URL is not shown
            f"a URL that begins with {url.partition('://')[0]}:// is not valid ({type(error).__name__}: its "
            "host or port cannot be understood). Give one such as s3://BUCKET/NAME.zarr."
        ) from error
    if "@" in host or parts.query or parts.fragment:
        raise holds_secret(url)
    key = parts.path.strip("/")
    if not host or (parts.scheme.lower() in WRITABLE and not key) or {".", ".."} & set(key.split("/")) or "//" in key:
        raise InvalidInput(
            f"{url} does not name a store: give {parts.scheme}://{'BUCKET' if parts.scheme in WRITABLE else 'HOST'}"
            "/NAME, without empty parts, '.' and '..'."
        )
    scheme = parts.scheme.lower()
    return Address(f"{scheme}://{host}/{key}".rstrip("/"), scheme, host, key, **_checked(storage_options or {}, url))


def place_of_url(text: str | Path) -> str:
    """Return the last path or URL of a chain (``simplecache::s3://...``): a local path or a plain URL.

    Two names of one place need not be the same text; this gives them the same scheme, or none if they are local.
    """
    last = os.fsdecode(text).rpartition("::")[2]
    if last.startswith(VERSIONED):
        last = last.removeprefix(VERSIONED).partition("?")[0]
    scheme, mark, rest = last.partition("://")
    if not mark:
        return last
    scheme = ALIASES.get(scheme.lower(), scheme.lower())
    return rest if scheme == "file" else f"{scheme}://{rest}"


def _checked(options: Mapping[str, Any], url: str) -> dict[str, Any]:
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise InvalidInput(
            f"storage_options contains {', '.join(map(repr, unknown))}, but only {', '.join(OPTIONS)} are "
            "allowed. Secrets are not accepted, because arguments travel to workers. Set AWS_ACCESS_KEY_ID "
            "and AWS_SECRET_ACCESS_KEY (or GOOGLE_APPLICATION_CREDENTIALS) in the environment of each "
            "process, or name a profile."
        )
    for name, value in options.items():
        if not isinstance(value, bool if name == "anon" else str | None):
            wanted = "True or False" if name == "anon" else "a string"
            raise InvalidInput(f"storage_options[{name!r}] for {url} is a {type(value).__name__}; give {wanted}.")
    check_endpoint(options.get("endpoint_url"))
    return dict(options)


def check_endpoint(endpoint: str | None) -> None:
    """Refuse an endpoint that is no plain URL of a server.

    Raises
    ------
    InvalidInput
        If it has another scheme than http or https, or holds a user or password.
    """
    if endpoint is not None and not re.fullmatch(r"https?://[^/?#@\s]+(/[^?#@\s]*)?", endpoint):
        raise InvalidInput(
            f"the endpoint {redacted(endpoint)} is not of the form http://HOST:PORT or https://HOST. Correct "
            "AWS_ENDPOINT_URL (or endpoint_url). It must not contain credentials."
        )


def says_yes(variable: str) -> bool:
    """Return True if an environment variable is set to a value such as "true"."""
    return os.environ.get(variable, "").strip().lower() in ("1", "true", "yes", "on")


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
