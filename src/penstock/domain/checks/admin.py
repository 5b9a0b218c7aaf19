"""Checks of the admin HTTP and the console: nothing is sent in the clear beyond the machine."""

from collections.abc import Iterator

from penstock.domain.problems import WrongValue, unknown
from penstock.domain.schema.domain import Domain


def check(domain: Domain) -> Iterator[WrongValue]:
    """Find addresses that need TLS, users without a password file, clients without tokens."""
    admin = domain.admin
    for name, node in domain.nodes.items():
        for key, address in (("admin", node.admin), ("console", node.console)):
            is_safe = address is None or address.loopback or node.admin_tls is not None
            if not is_safe and not (admin is not None and admin.behind_proxy):
                what = f"TLS, because `{key}` is not on loopback (or `admin: {{behind_proxy: true}}`)"
                yield WrongValue(("nodes", name, "admin_tls"), what, "nothing")
        if node.console is not None and node.admin is None:
            yield WrongValue(("nodes", name, "admin"), "an address, because of `console`", "nothing")
    if admin is None:
        return
    if admin.users and admin.passwords is None:
        yield WrongValue(("admin", "passwords"), "a password file, because of `users`", "nothing")
    if admin.clients and domain.tokens is None:
        yield WrongValue(("tokens",), "tokens, because of `admin.clients`: they show one", "nothing")
    for client in admin.clients:
        if client not in domain.clients:
            yield unknown(("admin", "clients", client), "a client", client, domain.clients)
