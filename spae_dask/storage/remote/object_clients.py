"""Zarr stores of object stores and web servers, with this process's own credentials.

s3 and gs are reached by obstore, http and https by fsspec, which can also read a web server's listing of a folder.
"""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from zarr.abc.store import Store
from zarr.storage import FsspecStore

from spae_dask import retry
from spae_dask.errors import InvalidInput, StorageError
from spae_dask.storage.remote.address import Address, check_endpoint, says_yes

CONNECT_SECONDS = 5.0
"""Until a connection must stand."""

READ_SECONDS = 30.0
"""Until something must arrive, counted anew with every piece that does."""

REQUEST_SECONDS = 300.0
"""Until a request must be done with."""

REFRESH = timedelta(minutes=5)
"""Temporary credentials are looked up again after so long; botocore renews them well before they end."""

DEFAULT_REGION = "us-east-1"


def resolved(address: Address) -> Address:
    """The address with what this process's environment and profile files say of endpoint, region and signing.

    Raises
    ------
    InvalidInput
        If the library for the scheme is not installed, or a profile or an endpoint is wrong.
    """
    if address.scheme == "gs":
        return replace(address, anon=address.anon or says_yes("GOOGLE_SKIP_SIGNATURE"))
    if address.scheme != "s3":
        return address
    session = _session(address)
    endpoint = address.endpoint_url or _endpoint(session)
    check_endpoint(endpoint)
    anon = address.anon or says_yes("AWS_SKIP_SIGNATURE") or session.get_credentials() is None
    region = address.region or session.get_config_variable("region") or _environment("AWS_REGION") or DEFAULT_REGION
    return replace(address, endpoint_url=endpoint, region=region, anon=anon)


def connect(address: Address, *, read_only: bool, repeats: bool = False) -> Store:
    """A store at the address. Nothing is sent before the first request.

    Parameters
    ----------
    address : Address
        As `resolved` makes it.
    read_only : bool
        True to refuse writing.
    repeats : bool
        True to let the client itself retry, by the policy of `spae_dask.retry` and without a message. The store retries
        whole requests and reports it, but sees an upload of many parts as one request.

    Raises
    ------
    InvalidInput
        If the library for the scheme is not installed.
    StorageError
        If credentials were there when the address was resolved, and are not here.
    """
    if address.scheme in ("http", "https"):
        return _connect_http(address)
    from zarr.storage import ObjectStore

    options: dict[str, Any] = {
        "client_options": {
            "allow_http": (address.endpoint_url or "").startswith("http://"),
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "read_timeout": timedelta(seconds=READ_SECONDS),
            "timeout": timedelta(seconds=REQUEST_SECONDS),
        },
        "retry_config": {
            "max_retries": retry.POLICY.tries - 1 if repeats else 0,
            "backoff": {
                "init_backoff": timedelta(seconds=retry.POLICY.first_wait),
                "max_backoff": timedelta(seconds=retry.POLICY.longest_wait),
                "base": 2,
            },
            "retry_timeout": timedelta(seconds=retry.POLICY.total_seconds),
        },
    }
    if address.scheme == "gs":
        obstore = _obstore("gcs")
        return ObjectStore(
            obstore.GCSStore(address.host, prefix=address.key, skip_signature=address.anon, **options),
            read_only=read_only,
        )
    obstore = _obstore("s3")
    options |= {"region": address.region or DEFAULT_REGION, "virtual_hosted_style_request": False}
    if address.endpoint_url is not None:
        options["endpoint"] = address.endpoint_url
    if address.anon:
        options["skip_signature"] = True
    else:
        options["credential_provider"] = _Credentials(address)
    return ObjectStore(obstore.S3Store(address.host, prefix=address.key, **options), read_only=read_only)


class _Credentials:
    """Function that obstore calls for credentials: the chain of botocore, as in AWS's own tools."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._found = _session(address).get_credentials()
        if self._found is None:
            raise StorageError(
                f"{address} needs credentials, but this process finds none. Set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or a profile file, on every worker too (job script, pod)."
            )

    def __call__(self) -> dict[str, Any]:
        frozen = self._found.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + REFRESH if hasattr(self._found, "refresh_needed") else None,
        }


def _obstore(extra: str) -> Any:
    try:
        import obstore.store
    except ImportError as error:
        raise _not_installed(extra, error) from error
    return obstore.store


def _session(address: Address) -> Any:
    try:
        import botocore.exceptions
        import botocore.session
    except ImportError as error:
        raise _not_installed("s3", error) from error
    session = botocore.session.Session(profile=address.profile)
    try:
        session.get_scoped_config()
        session.get_config_variable("region")
    except botocore.exceptions.BotoCoreError as error:
        raise InvalidInput(
            f"{address} cannot be opened: {error}. Correct AWS_PROFILE (or profile), or AWS's files ~/.aws/config and "
            "~/.aws/credentials."
        ) from error
    return session


def _endpoint(session: Any) -> str | None:
    for variable in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        if (given := _environment(variable)) is not None:
            return given
    listed = session.get_scoped_config().get("endpoint_url")
    return None if listed is None else str(listed)


def _environment(variable: str) -> str | None:
    return os.environ.get(variable) or None


def _connect_http(address: Address) -> Store:
    try:
        import aiohttp
    except ImportError as error:
        raise _not_installed("http", error) from error
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)
    return FsspecStore.from_url(
        address.url, storage_options={"client_kwargs": {"timeout": timeout, "trust_env": True}}, read_only=True
    )


def _not_installed(extra: str, error: ImportError) -> InvalidInput:
    return InvalidInput(
        f"{'s3://' if extra == 's3' else 'gs://' if extra == 'gcs' else 'http:// and https://'} needs a library that "
        f'is not installed ({error}). Install it: `pip install "spae-dask[{extra}]"`.'
    )
