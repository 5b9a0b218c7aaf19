"""Host names and origins of HTTP requests, against DNS rebinding and requests of other sites."""

import ipaddress
from collections.abc import Iterable, Mapping

_ANYWHERE = ("0.0.0.0", "::")


class OwnNames:
    """Names and addresses of a server. Ports do not matter: tunnels and proxies have others."""

    def __init__(self, listening: Iterable[str], hosts: Iterable[str] = ()) -> None:
        """`listening`: where it listens, as the domain writes it too; `hosts`: other names."""
        at = tuple(listening)
        self._names = {_name(host) for host in (*at, *hosts)} | {"localhost"}
        self._is_anywhere = any(address in _ANYWHERE for address in at)

    def has(self, hosts: list[str]) -> bool:
        """Return whether a request with these `Host` headers is for this server: exactly one, with a name of its
        own.

        A server that listens on all addresses accepts any address: DNS cannot redirect an address.
        """
        if len(hosts) != 1:
            return False
        name = _name(hosts[0])
        return name in self._names or (self._is_anywhere and _is_address(name))


def is_same_site(headers: Mapping[str, str], strict: bool = False) -> bool:
    """Return whether a page of ours, or no browser, sent a request: browsers say so with all but plain GETs."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return False
    if origin is None:
        return not strict
    return origin.partition("://")[2].lower() == headers.get("host", "").lower()


def _name(host: str) -> str:
    """Return a host without its port."""
    if _is_address(host):  # of IPv6, without brackets
        return host.lower()
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name.strip("[]").lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
