"""Where the secrets of a domain are sent: who changes it without knowing them is not to have them sent elsewhere."""

from typing import NamedTuple

from penstock.domain.compile.expand import with_patterns
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.federation import LinkSettings

MADE = "the secret that is made for links without one"


class _Sent(NamedTuple):
    secret: str
    ends: tuple[str, str]
    place: str
    """Where it is sent to, and how it is encrypted on the way."""


def sent_elsewhere(before: Domain, after: Domain) -> tuple[str, ...]:
    """The links, as `A -> B`, over which a secret would be sent that there is now, but to another place than now."""
    now = _sent(before)
    known = {one.secret for one in now}
    return tuple(sorted({" -> ".join(one.ends) for one in _sent(after) - now if one.secret in known}))


def _sent(domain: Domain) -> set[_Sent]:
    whole = with_patterns(domain).domain
    found = set[_Sent]()
    for link in whole.links:
        foreign = whole.foreign.get(link.between[1])
        if foreign is None:
            found.add(_Sent(_secret(link), link.between, f"{_address(whole, link)} {link.tls!r}"))
        elif foreign.password_file is not None:
            place = f"{link.address or foreign.address} {link.tls!r} {foreign.tls!r} {foreign.user!r}"
            found.add(_Sent(f"file {foreign.password_file}", link.between, place))
    return found


def _secret(link: LinkSettings) -> str:
    if link.secret is not None:
        return f"text {link.secret}"
    return f"file {link.secret_file}" if link.secret_file is not None else MADE


def _address(domain: Domain, link: LinkSettings) -> str:
    if link.address is not None:
        return str(link.address)
    node = domain.nodes.get(link.between[1])
    return str(node.listeners[0].address) if node is not None and node.listeners else "nowhere"
