"""Destinations of secrets: a change of the domain must not send known secrets elsewhere."""

from typing import NamedTuple

from penstock.domain.compile.expand import with_patterns
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.federation import LinkSettings

GENERATED = "the secret that is made for links without one"


class _SentSecret(NamedTuple):
    secret: str
    ends: tuple[str, str]
    place: str
    """The address it is sent to, and how the connection is encrypted."""


def redirected_secrets(before: Domain, after: Domain) -> tuple[str, ...]:
    """Return the links, as `A -> B`, over which an existing secret would be sent to a new destination."""
    now = _sent(before)
    secrets = {sent.secret for sent in now}
    return tuple(sorted({" -> ".join(sent.ends) for sent in _sent(after) - now if sent.secret in secrets}))


def _sent(domain: Domain) -> set[_SentSecret]:
    expanded = with_patterns(domain).domain
    sent = set[_SentSecret]()
    for link in expanded.links:
        foreign = expanded.foreign.get(link.between[1])
        if foreign is None:
            sent.add(_SentSecret(_secret(link), link.between, f"{_address(expanded, link)} {link.tls!r}"))
        elif foreign.password_file is not None:
            place = f"{link.address or foreign.address} {link.tls!r} {foreign.tls!r} {foreign.user!r}"
            sent.add(_SentSecret(f"file {foreign.password_file}", link.between, place))
    return sent


def _secret(link: LinkSettings) -> str:
    if link.secret is not None:
        return f"text {link.secret}"
    return f"file {link.secret_file}" if link.secret_file is not None else GENERATED


def _address(domain: Domain, link: LinkSettings) -> str:
    if link.address is not None:
        return str(link.address)
    node = domain.nodes.get(link.between[1])
    return str(node.listeners[0].address) if node is not None and node.listeners else "nowhere"
