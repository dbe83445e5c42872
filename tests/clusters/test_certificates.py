"""Certificates: looked at by another library, written once, for their owner only."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from spae_dask.clusters.certificates import LOOPBACK, ROLES, make_certificates
from spae_dask.errors import InvalidInput, OutputExists, StorageError


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_every_file_is_its_owner_s_alone_whatever_the_umask(tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "certs")
    assert [path.name for path in files] == sorted(
        [f"{role}{end}" for role in ("ca", *ROLES) for end in (".pem", "-key.pem")]
    )
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "certs").stat().st_mode) == 0o700
    assert [path.name for path in tmp_path.iterdir()] == ["certs"]


def test_certificates_are_of_their_authority_and_not_of_another_s(tmp_path: Path) -> None:
    make_certificates(tmp_path / "ours")
    make_certificates(tmp_path / "theirs")
    ours, theirs = load(tmp_path / "ours" / "ca.pem"), load(tmp_path / "theirs" / "ca.pem")
    for role in ROLES:
        load(tmp_path / "ours" / f"{role}.pem").verify_directly_issued_by(ours)
        with pytest.raises((ValueError, TypeError, InvalidSignature)):
            load(tmp_path / "ours" / f"{role}.pem").verify_directly_issued_by(theirs)
        context = ssl.create_default_context(cafile=tmp_path / "ours" / "ca.pem")
        context.load_cert_chain(tmp_path / "ours" / f"{role}.pem", tmp_path / "ours" / f"{role}-key.pem")


def test_they_name_the_hosts_and_last_as_long_as_asked_for(tmp_path: Path) -> None:
    make_certificates(tmp_path / "certs", hosts=["node1.example.org", "10.0.0.5", "localhost"], days=30)
    certificate = load(tmp_path / "certs" / "worker.pem")
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert sorted(str(name.value) for name in names) == sorted(["node1.example.org", "10.0.0.5", *LOOPBACK])
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=29) < left <= timedelta(days=30)
    assert certificate.not_valid_before_utc < datetime.now(UTC)


def test_a_client_s_certificate_serves_no_server_and_signs_none(tmp_path: Path) -> None:
    make_certificates(tmp_path / "certs")
    extensions = load(tmp_path / "certs" / "client.pem").extensions
    use = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(use) == [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    make_certificates(tmp_path / "certs")
    before = {path: path.read_bytes() for path in (tmp_path / "certs").iterdir()}
    with pytest.raises(OutputExists, match="never overwritten"):
        make_certificates(tmp_path / "certs")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputExists):
        make_certificates(tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputExists):
        make_certificates(tmp_path / "link")
    assert before == {path: path.read_bytes() for path in (tmp_path / "certs").iterdir()}


def test_a_place_that_cannot_be_written_is_told_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match="Nothing was left"):
        make_certificates(tmp_path / "file" / "certs")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("host", ["", "a b", "$(id)", "-x", "a..b", "x" * 300, "10.0.0.999/8", "ä.org", "a\nb"])
def test_a_host_that_is_none_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="neither an address nor a host name"):
        make_certificates(tmp_path / "certs", hosts=[host])
    assert not (tmp_path / "certs").exists()


@pytest.mark.parametrize("days", [0, -1, 3651])
def test_a_span_of_time_that_makes_no_sense_is_refused(days: int, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="1 to 3650"):
        make_certificates(tmp_path / "certs", days=days)
