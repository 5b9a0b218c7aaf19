"""Certificates to begin with: an authority, and a certificate for each node, signed by it."""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=825)
_MAX_NAME = 64  # RFC 5280, ub-common-name
_ROLE = " authority"
_BEFORE = datetime.timedelta(minutes=5)  # clocks differ


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates until it is discarded."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(f"{name[: _MAX_NAME - len(_ROLE)]}{_ROLE}")
        # To sign certificates and revocation lists, and nothing else.
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        draft = _draft(self._name, self._name, self._key.public_key())
        draft = draft.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.pair = _pair(draft.add_extension(usage, critical=True).sign(self._key, hashes.SHA256()), self._key)

    def sign(self, name: str, hosts: Sequence[str]) -> KeyPair:
        """Return a server certificate for these names and addresses, and for loopback."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_host(host) for host in dict.fromkeys((*hosts, "localhost", "127.0.0.1", "::1"))]
        draft = _draft(_named(name), self._name, key.public_key())
        draft = draft.add_extension(x509.SubjectAlternativeName(names), critical=False)
        draft = draft.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        return _pair(draft.sign(self._key, hashes.SHA256()), key)


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _draft(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    pem = serialization.Encoding.PEM
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(pem), plain)
