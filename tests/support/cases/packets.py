"""The packet cases: one corpus for codec, session and node tests.

A case is the bytes of one whole packet and either the packet that they say or the reason why they are refused.
Bytes are written as hex digits, `'text'` and `'text'*times`, spaced at will, with comments after `#`. Bytes inside an
expected packet are written as text, or as `{bytes: "00 ff 'x'*100"}`.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from penstock.wire import kinds, packet
from penstock.wire.packet import Packet
from penstock.wire.reason import Reason

FOLDER = Path(__file__).parents[2] / "cases" / "packets"

_TOKEN = re.compile(r"'([^']*)'(?:\*(\d+))?|([0-9A-Fa-f]{2}(?:[0-9A-Fa-f]{2})*)|\s+|#[^\n]*")
_BYTES_FIELDS = frozenset({"payload", "password", "correlation_data", "auth_data"})
_CLIENT_ONLY = frozenset({kinds.CONNECT, kinds.SUBSCRIBE, kinds.UNSUBSCRIBE, kinds.PINGREQ})
_SERVER_ONLY = frozenset({kinds.CONNACK, kinds.SUBACK, kinds.UNSUBACK, kinds.PINGRESP})


class PacketCase(msgspec.Struct, frozen=True):
    """One packet on the wire and what must become of it: just one of `packet` and `error` is set."""

    title: str
    version: int
    """The version of the connection; a CONNECT also names its own."""
    data: bytes
    direction: str
    """Who would send it: client, server or both."""
    packet: Packet | None
    error: Reason | None
    clauses: tuple[str, ...]
    canonical: bool
    """Whether encoding `packet` gives `data` again."""

    @property
    def kind(self) -> int:
        return self.data[0] >> 4

    @property
    def from_client(self) -> bool:
        return self.direction != "server"

    def __str__(self) -> str:
        return f"v{self.version} {self.title}"


@cache
def all_cases() -> tuple[PacketCase, ...]:
    return tuple(case for path in sorted(FOLDER.glob("*.yaml")) for case in _read(path))


def valid_cases() -> tuple[PacketCase, ...]:
    return tuple(case for case in all_cases() if case.packet is not None)


def invalid_cases() -> tuple[PacketCase, ...]:
    return tuple(case for case in all_cases() if case.error is not None)


def parse_bytes(text: str) -> bytes:
    """The bytes that a case's notation says."""
    out = bytearray()
    pos = 0
    while pos < len(text):
        token = _TOKEN.match(text, pos)
        if token is None:
            raise ValueError(f"not hex, text or a comment: `{text[pos : pos + 20]}`")
        quoted, times, digits = token.groups()
        if quoted is not None:
            out += quoted.encode() * int(times or 1)
        elif digits:
            out += bytes.fromhex(digits)
        pos = token.end()
    return bytes(out)


def _read(path: Path) -> Iterator[PacketCase]:
    for raw in yaml.safe_load(path.read_text()):
        versions = raw.pop("versions", None) or [raw.pop("version")]
        for version in versions:
            try:
                yield _case(version=version, **raw)
            except (AttributeError, KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
                raise ValueError(f"{path.name}: case `{raw.get('title')}`: {error}") from error


def _case(
    title: str,
    version: int,
    bytes: str,
    packet: dict[str, Any] | None = None,
    error: str | None = None,
    direction: str | None = None,
    clauses: tuple[str, ...] = (),
    canonical: bool = True,
) -> PacketCase:
    data = parse_bytes(bytes)
    if (packet is None) == (error is None):
        raise ValueError("a case has either `packet` or `error`")
    if direction is None:
        if error is not None:
            raise ValueError("a case with an error has a `direction`")
        direction = _usual_direction(data[0] >> 4)
    if direction not in ("client", "server", "both"):
        raise ValueError(f"direction is `{direction}`")
    return PacketCase(
        title=title,
        version=version,
        data=data,
        direction=direction,
        packet=None if packet is None else packet_of(packet),
        error=None if error is None else Reason[error],
        clauses=tuple(clauses),
        canonical=canonical,
    )


def _usual_direction(kind: int) -> str:
    return "client" if kind in _CLIENT_ONLY else "server" if kind in _SERVER_ONLY else "both"


def packet_of(raw: dict[str, Any]) -> Packet:
    """The packet that a case writes as `{kind: Publish, topic: a, ...}`."""
    fields = dict(raw)
    cls = getattr(packet, fields.pop("kind"))
    value: Packet = msgspec.convert(_bytes_of(fields), cls, builtin_types=(bytes,))
    _check_names(fields, value)
    return value


def _check_names(raw: Any, value: Any) -> None:
    """A name that the packet does not have is a slip in the case, which `convert` passes over."""
    if isinstance(raw, list):
        for each, one in zip(raw, value, strict=True):
            _check_names(each, one)
    elif isinstance(raw, dict) and isinstance(value, msgspec.Struct):
        for name, each in raw.items():
            _check_names(each, getattr(value, name))


def _bytes_of(value: Any, field: str = "") -> Any:
    """The value with every field that holds bytes turned from its notation into bytes."""
    if field in _BYTES_FIELDS:
        return parse_bytes(value["bytes"]) if isinstance(value, dict) else value.encode()
    if isinstance(value, dict):
        return {name: _bytes_of(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_bytes_of(each) for each in value]
    return value
