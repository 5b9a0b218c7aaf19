"""By which names an HTTP server is asked, and from where. Another name has been led here by a name server that lies."""

import ipaddress
from collections.abc import Iterable, Mapping

_ANYWHERE = ("0.0.0.0", "::")


class OwnNames:
    """Names and addresses of a server. Ports do not matter: tunnels and proxies have others."""

    def __init__(self, listening: Iterable[str], hosts: Iterable[str] = ()) -> None:
        """`listening`: where it listens, as the domain says it too; `hosts`: what else it is called."""
        at = tuple(listening)
        self._names = {_name(one) for one in (*at, *hosts)} | {"localhost"}
        self._is_anywhere = any(one in _ANYWHERE for one in at)

    def has(self, hosts: list[str]) -> bool:
        """Whether a question with these `Host` headers is for this server: one of them, with a name of its own.

        Who listens on all addresses is asked by any of them: no name server leads an address elsewhere.
        """
        if len(hosts) != 1:
            return False
        name = _name(hosts[0])
        return name in self._names or (self._is_anywhere and _is_address(name))


def is_same_site(headers: Mapping[str, str], strict: bool = False) -> bool:
    """Sent by a page of ours. A browser says so with everything but plain GETs; who says nothing is no browser."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        return False
    if origin is None:
        return not strict
    return origin.partition("://")[2].lower() == headers.get("host", "").lower()


def _name(host: str) -> str:
    """Without the port."""
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
