"""Certificates for a Dask cluster over TLS: an authority of its own, and one each for scheduler, workers and client.

A Dask connection is encrypted, and each end asks the other for a certificate of the same authority. Anyone who holds
one may run any code on the cluster. So each cluster has one authority, only their owner can read its files, and they
expire. Host names are in the certificates for those who check them; Dask itself checks the authority.
"""

import ipaddress
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from spae_dask.errors import InvalidInput, OutputExists, StorageError

ROLES = ("scheduler", "worker", "client")
"""Holders of a certificate, NAME.pem, and its key, NAME-key.pem. Those of the authority are ca.pem and ca-key.pem."""

MAX_DAYS = 3650

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Names that every certificate has."""

CLOCK_SKEW = timedelta(minutes=10)
"""Clocks of a cluster may differ by this."""

_HOST = re.compile(r"(?=.{1,253}$)(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*")


def make_certificates(folder: str | Path, *, hosts: Sequence[str] = (), days: int = 365) -> list[Path]:
    """Write an authority, three certificates and their keys to a new folder, which appears complete.

    Parameters
    ----------
    folder : str or Path
        New, or empty. It becomes readable by its owner only, and so does every file in it.
    hosts : sequence of str
        Names and addresses of the machines, beside the loopback ones.
    days : int
        Number of days for which all certificates are valid, 1 to 3650.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    InvalidInput
        If a host or the number of days is not allowed.
    OutputExists
        If there is anything at ``folder``.
    StorageError
        If it cannot be written.
    """
    if not 1 <= days <= MAX_DAYS:
        raise InvalidInput(f"days={days} is not allowed: give 1 to {MAX_DAYS}.")
    names = [_name(host) for host in dict.fromkeys((*hosts, *LOOPBACK))]
    path = Path(folder).absolute()
    if path.is_symlink() or path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise OutputExists(f"{folder} exists, and certificates are never overwritten. Give a new folder.")
    work: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        work = tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent)  # for its owner only
        for name, content in _contents(names, days).items():
            with open(os.open(Path(work) / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                file.write(content)
        os.rename(work, path)
    except OSError as error:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
        raise StorageError(
            f"certificates cannot be written to {folder}: {error}. Nothing was left there. Give another folder."
        ) from error
    return sorted(path.iterdir())


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host):
        raise InvalidInput(f"host {host!r} is neither an address nor a host name. Give one, such as node1.example.org.")
    return x509.DNSName(host)


def _contents(names: list[x509.GeneralName], days: int) -> dict[str, bytes]:
    now = datetime.now(UTC)
    span = (now - CLOCK_SKEW, now + timedelta(days=days))
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"spae authority {os.urandom(4).hex()}")])
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), span)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    contents = {"ca.pem": _pem(authority), "ca-key.pem": _key_pem(authority_key)}
    for role in ROLES:
        key = ec.generate_private_key(ec.SECP256R1())
        both = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        certificate = (
            _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, role)]), authority_name, key.public_key(), span)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(both[:1] if role == "client" else both), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
            .sign(authority_key, hashes.SHA256())
        )
        contents |= {f"{role}.pem": _pem(certificate), f"{role}-key.pem": _key_pem(key)}
    return contents


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, span: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(span[0])
        .not_valid_after(span[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: Any) -> bytes:
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem
