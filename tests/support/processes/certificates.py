"""Certificates made on the spot: an authority, and whatever it signs."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_HOUR = datetime.timedelta(hours=1)


class Authority:
    """A certificate authority with a folder for its files."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _named(name)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        certificate = _draft(self._subject, self._subject, self._key.public_key()).add_extension(constraints, True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(_pem(certificate.sign(self._key, hashes.SHA256())))

    def sign(self, name: str, expired: bool = False) -> tuple[Path, Path]:
        """A certificate for `name` that is also good for the loopback addresses, and its key: PEM files."""
        key = ec.generate_private_key(ec.SECP256R1())
        draft = _draft(_named(name), self._subject, key.public_key(), expired)
        hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = draft.add_extension(x509.SubjectAlternativeName(hosts), False).sign(self._key, hashes.SHA256())
        cert_file, key_file = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert_file.write_bytes(_pem(certificate))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return cert_file, key_file

    def trusting(self, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """A client's context that trusts this authority and presents `certificate`."""
        context = ssl.create_default_context(cafile=self.file)
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return context


def _named(name: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "tests"), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )


def _draft(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, expired: bool = False
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 24 * _HOUR)
        .not_valid_after(now - _HOUR if expired else now + 24 * _HOUR)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
