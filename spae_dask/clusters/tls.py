"""A client's end of TLS: the files of a folder that ``spae certs`` wrote, or dask's own configuration."""

import stat
from datetime import UTC, datetime
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificate
from distributed.security import Security

from spae_dask.errors import InvalidInput, NotFound

FILES = {"tls_ca_file": "ca.pem", "tls_client_cert": "client.pem", "tls_client_key": "client-key.pem"}
"""Files of the folder that a client needs. Keep the authority's key elsewhere."""


def client_security(address: str, folder: str | None) -> Security | None:
    """Return the certificates and checks for a client of the scheduler at ``address``; None over plain TCP.

    Parameters
    ----------
    address : str
        ``tcp://...`` or ``tls://...``.
    folder : str, optional
        Holds ``ca.pem``, ``client.pem`` and ``client-key.pem``. Dask's configuration ``distributed.comm.tls`` counts
        if it is not given.

    Raises
    ------
    InvalidInput
        If the address is not of TLS and a folder is given, or neither a folder nor dask's configuration names the
        files. If others can read the key, or the files cannot be used: garbled, of other folders, or out of their time.
    NotFound
        If a file is missing.
    """
    if not address.startswith("tls://"):
        if folder is not None:
            raise InvalidInput(
                f"--tls-dir {folder} needs a scheduler at tls://HOST:PORT, but the connection to {address} is not "
                "encrypted. Leave it out, or give the address of a scheduler that was started with --tls-ca-file."
            )
        return None
    return _configured(address) if folder is None else _of_folder(Path(folder))


def _configured(address: str) -> Security:
    security = Security(require_encryption=True)
    if not (security.tls_ca_file and security.tls_client_cert and security.tls_client_key):
        raise InvalidInput(
            f"{address} needs certificates. Give --tls-dir DIR, a folder that `spae certs` wrote. Or name "
            "them in dask's configuration under distributed.comm.tls (ca-file, client.cert, client.key)."
        )
    return security


def _of_folder(folder: Path) -> Security:
    paths = {option: folder / name for option, name in FILES.items()}
    for path in paths.values():
        if not path.is_file():
            raise NotFound(
                f"{path} does not exist. Give a folder that `spae certs` wrote, with {', '.join(FILES.values())}."
            )
    key = paths["tls_client_key"]
    if key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidInput(f"other users can read or change the key {key}. Restrict it to yourself: chmod 600 {key}.")
    for path in (folder, *paths.values()):
        if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not path.stat().st_mode & stat.S_ISVTX:
            raise InvalidInput(
                f"other users can change {path}, and so lead this client to a cluster of theirs. Restrict it to "
                f"yourself: chmod go-w {path}."
            )
    security = Security(require_encryption=True, **{option: str(path) for option, path in paths.items()})
    try:
        security.get_connection_args("client")
        for name in ("tls_ca_file", "tls_client_cert"):
            _refuse_out_of_time(paths[name])
    except (OSError, ValueError) as error:  # SSL's are OSErrors
        raise InvalidInput(
            f"the certificates in {folder} cannot be used: {error}. Give a folder as `spae certs` wrote it; "
            "its files belong together."
        ) from error
    return security


def _refuse_out_of_time(path: Path) -> None:
    """Refuse an own certificate that is not valid now. A scheduler would refuse it without a reason."""
    certificate, now = load_pem_x509_certificate(path.read_bytes()), datetime.now(UTC)
    if now > certificate.not_valid_after_utc:
        raise ValueError(f"{path.name} has expired on {certificate.not_valid_after_utc:%Y-%m-%d}; make new ones")
    if now < certificate.not_valid_before_utc:
        raise ValueError(
            f"{path.name} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC, but the clock "
            f"of this machine shows {now:%Y-%m-%d %H:%M}; set the clock"
        )
