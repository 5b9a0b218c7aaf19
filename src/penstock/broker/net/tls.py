"""TLS of a listener, and who a client certificate names."""

import ssl
from typing import Any

from penstock.domain import Tls
from penstock.domain.schema.federation import LinkTls
from penstock.model.errors import PenstockError

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


class TlsError(PenstockError):
    """A certificate or key that cannot be used."""


def make_context(tls: Tls) -> ssl.SSLContext:
    """Make the server's side of TLS as the domain file describes it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    try:
        context.load_cert_chain(tls.cert, tls.key)
        if tls.ca is not None:
            context.load_verify_locations(tls.ca)
    except (ssl.SSLError, OSError) as error:
        raise TlsError(f"certificate `{tls.cert}` with key `{tls.key}` cannot be used: {error}") from None
    if tls.require_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
    elif tls.ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class RenewableContext(ssl.SSLContext):
    """A listener's context that can be renewed: each handshake takes the present one, connections keep theirs."""

    present: ssl.SSLContext

    def __new__(cls, present: ssl.SSLContext) -> "RenewableContext":
        context = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        context.present = present
        return context

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Called by the event loop for each connection."""
        return self.present.wrap_bio(*arguments, **options)


def make_client_context(tls: LinkTls) -> ssl.SSLContext:
    """Make the dialling side of TLS."""
    try:
        context = ssl.create_default_context(cafile=str(tls.ca) if tls.ca is not None else None)
        if tls.cert is not None and tls.key is not None:
            context.load_cert_chain(tls.cert, tls.key)
    except (ssl.SSLError, OSError) as error:
        raise TlsError(f"certificate `{tls.cert or tls.ca}` cannot be used: {error}") from None
    return context


def certificate_user(certificate: dict[str, Any] | None, identity: str) -> str | None:
    """Return the user that a verified client certificate names, as `identity` says."""
    if not certificate or identity == "none":
        return None
    names = [(key, value) for part in certificate.get("subject", ()) for key, value in part]
    if identity == "cn":
        return next((value for key, value in names if key == "commonName"), None)
    return ",".join(f"{key}={value}" for key, value in names)
