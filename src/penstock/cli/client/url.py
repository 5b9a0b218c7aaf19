"""The URL of a broker, as Mosquitto's clients take it, and of a WebSocket."""

from dataclasses import dataclass
from urllib.parse import unquote

from penstock.cli.options import UsageError, number


@dataclass(frozen=True)
class Url:
    """`mqtt[s]://[user[:password]@]host[:port][/topic]`, or `ws[s]://[user[:password]@]host[:port][/path]`."""

    is_secure: bool
    is_websocket: bool
    user: str | None
    password: str | None
    host: str
    port: int | None
    rest: str
    """The topic, which may have a `#` in it, or the path of a WebSocket."""

    @classmethod
    def parse(cls, text: str) -> "Url":
        """Parse a URL; raise `UsageError`."""
        scheme, mark, rest = text.partition("://")
        if not mark or scheme not in ("mqtt", "mqtts", "ws", "wss"):
            raise UsageError(f"`{text}` does not begin with mqtt://, mqtts://, ws:// or wss://")
        authority, _, path = rest.partition("/")
        credentials, at, place = authority.rpartition("@")
        user, colon, password = credentials.partition(":")
        host, bracket, port = place.rpartition("]") if place.startswith("[") else place.partition(":")
        host, port = (host[1:], port.removeprefix(":")) if bracket == "]" else (host, port)
        if not host:
            raise UsageError(f"no host in `{text}`")
        return cls(
            is_secure=scheme in ("mqtts", "wss"),
            is_websocket=scheme in ("ws", "wss"),
            user=unquote(user) if at else None,
            password=unquote(password) if colon else None,
            host=host,
            port=int(number(1, 65535)(port)) if port else None,
            rest=path,
        )
