r"""Printing of messages by `penstock sub`: the payload, topic and payload (`-v`), or a format (`-F`).

The format is mosquitto_sub's: `%` for fields of the message, `@` for the time as in strftime(3), `\` for characters
that are hard to type. A number after `%` is the least width, as mosquitto_sub(1) says; mosquitto_sub 2.0 also cuts a
payload to it. A payload that is not UTF-8 is a list of bytes in `%j`, as in newer mosquitto_sub.
"""

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from paho.mqtt.client import MQTTMessage

from penstock.cli.client.properties import attribute
from penstock.cli.options import UsageError

Formatter = Callable[[MQTTMessage, int], bytes]
"""Returns the text of a message that came at a time in nanoseconds since 1970."""

_JSON_PROPERTIES = (
    *("payload-format-indicator", "message-expiry-interval", "content-type", "response-topic"),
    *("correlation-data", "subscription-identifier", "topic-alias"),
)
_ESCAPES = dict(zip("\\0aenrtv", (b"\\", b"\0", b"\a", b"\x1b", b"\n", b"\r", b"\t", b"\v"), strict=True))
_SEQUENCE = re.compile(
    r"%(?P<left>-?)(?P<zero>0?)(?P<width>\d*)(?:\.(?P<max_width>\d*))?(?P<field>[^\d.-])"
    r"|@(?P<time>.)|\\(?P<escape>.)|(?P<text>[^%@\\]+)",
    re.DOTALL,
)


@dataclass(frozen=True)
class FieldLayout:
    """The alignment and width of a value in its field."""

    is_left: bool
    is_zero: bool
    width: int
    max_width: int | None

    def number(self, value: object) -> bytes:
        """Return a number, or nothing if it is None."""
        return self._pad(b"" if value is None else str(value).encode(), is_zero=self.is_zero)

    def text(self, value: object) -> bytes:
        """Return a text cut to the greatest width, or nothing if it is None."""
        return self._pad(("" if value is None else str(value))[: self.max_width].encode(), is_zero=False)

    def data(self, value: bytes) -> bytes:
        return self._pad(value, is_zero=self.is_zero)

    def _pad(self, value: bytes, *, is_zero: bool) -> bytes:
        if self.is_left:
            return value.ljust(self.width)
        return value.rjust(self.width, b"0" if is_zero else b" ")


def plain(eol: bytes) -> Formatter:
    """Return a formatter for the payload alone; nothing, not even a line end, if it is empty."""
    return lambda message, now: bytes(message.payload) + eol if message.payload else b""


def verbose(eol: bytes) -> Formatter:
    """Return a formatter for the topic and the payload."""

    def form(message: MQTTMessage, now: int) -> bytes:
        if message.payload:
            return message.topic.encode() + b" " + message.payload + eol
        return message.topic.encode() + b" (null)" + eol if eol else b""

    return form


def compile_format(text: str, eol: bytes, indent: str | None, warn: Callable[[str], None]) -> Formatter:
    """Compile a format string; raise `UsageError`. `indent` is the indentation of JSON, None for one line."""
    pieces: list[Formatter] = []
    at = 0
    while at < len(text):
        match = _SEQUENCE.match(text, at)
        if match is None:
            raise UsageError(f"`{text[at:]}` ends a format too early")
        pieces.append(_piece(match, indent, warn))
        at = match.end()
    return lambda message, now: b"".join([piece(message, now) for piece in pieces]) + eol


def _piece(match: re.Match[str], indent: str | None, warn: Callable[[str], None]) -> Formatter:
    if (literal := match["text"]) is not None:
        encoded = os.fsencode(literal)
        return lambda message, now: encoded
    if (letter := match["escape"]) is not None:
        if letter not in _ESCAPES:
            raise UsageError(f"unknown escape `\\{letter}` in a format")
        return lambda message, now: _ESCAPES[letter]
    if (letter := match["time"]) is not None:
        return _time(letter)
    max_width = None if match["max_width"] is None else int(match["max_width"] or 0)
    layout = FieldLayout(bool(match["left"]), bool(match["zero"]), int(match["width"] or 0), max_width)
    return _field(match["field"], layout, indent, warn)


def _time(letter: str) -> Formatter:
    if letter == "@":
        return lambda message, now: b"@"
    if letter == "N":
        return lambda message, now: b"%09d" % (now % 1_000_000_000)
    return lambda message, now: _local(f"%{letter}", now)


def _field(letter: str, layout: FieldLayout, indent: str | None, warn: Callable[[str], None]) -> Formatter:
    simple: dict[str, Formatter] = {
        "%": lambda message, now: b"%",
        "A": lambda message, now: layout.number(_property(message, "topic-alias")),
        "C": lambda message, now: layout.text(_property(message, "content-type")),
        "D": lambda message, now: bytes(_property(message, "correlation-data") or b""),  # type: ignore[call-overload]
        "E": lambda message, now: layout.number(_property(message, "message-expiry-interval")),
        "F": lambda message, now: layout.number(_property(message, "payload-format-indicator")),
        "I": lambda message, now: layout.text(_local("%Y-%m-%dT%H:%M:%S%z", now).decode()),
        "l": lambda message, now: layout.number(len(message.payload)),
        "m": lambda message, now: layout.number(message.mid),
        "P": lambda message, now: " ".join(
            f"{k}:{v}" for k, v in getattr(message.properties, "UserProperty", [])
        ).encode(),
        "p": lambda message, now: layout.data(bytes(message.payload)),
        "q": lambda message, now: b"%d" % message.qos,
        "R": lambda message, now: layout.text(_property(message, "response-topic")),
        "r": lambda message, now: b"%d" % message.retain,
        "S": lambda message, now: layout.number(_first(_property(message, "subscription-identifier"))),
        "t": lambda message, now: layout.text(message.topic),
        "U": lambda message, now: b"%d.%09d" % divmod(now, 1_000_000_000),
        "x": lambda message, now: layout.data(message.payload.hex().encode()),
        "X": lambda message, now: layout.data(message.payload.hex().upper().encode()),
        "j": lambda message, now: _json(_described(message, now, _payload_text(message)), indent).encode(),
        "J": lambda message, now: _json_payload(message, now, indent, warn),
    }
    if letter not in simple:
        raise UsageError(f"unknown field `%{letter}` in a format")
    return simple[letter]


def _local(form: str, now: int) -> bytes:
    return time.strftime(form, time.localtime(now // 1_000_000_000)).encode()


def _property(message: MQTTMessage, name: str) -> object:
    return getattr(message.properties, attribute(name), None)


def _first(values: object) -> object:
    return values[0] if isinstance(values, list) else values


class _Object(list[tuple[str, object]]):
    """A JSON object that keeps the order of its members, and members of the same name."""


def _described(message: MQTTMessage, now: int, payload: object) -> _Object:
    # mosquitto_sub's time has both a Z and an offset; programs that read it rely on that.
    zone = _local("%z", now).decode()
    micros = now % 1_000_000_000 // 1000
    members: list[tuple[str, object]] = [
        ("tst", f"{_local('%Y-%m-%dT%H:%M:%S', now).decode()}.{micros:06d}Z{zone}"),
        ("topic", message.topic),
        ("qos", message.qos),
        ("retain", int(message.retain)),
        ("payloadlen", len(message.payload)),
    ]
    if message.qos:
        members.append(("mid", message.mid))
    if properties := _described_properties(message):
        members.append(("properties", properties))
    return _Object([*members, ("payload", payload)])


def _described_properties(message: MQTTMessage) -> _Object:
    """Return the properties in the order in which they came."""
    names = {attribute(name): name for name in _JSON_PROPERTIES}
    members = _Object()
    for key, value in vars(message.properties or object).items():
        if key == "UserProperty":
            members.append(("user-properties", _Object(value)))
        elif key in names:
            values = value if isinstance(value, list) else [value]
            members += [(names[key], _readable(value) if isinstance(value, bytes) else value) for value in values]
    return members


def _payload_text(message: MQTTMessage) -> object:
    return _readable(bytes(message.payload)) if message.payload else None


def _readable(data: bytes) -> object:
    """Return the text, or the list of bytes if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)


def _json_payload(message: MQTTMessage, now: int, indent: str | None, warn: Callable[[str], None]) -> bytes:
    try:
        text = message.payload.decode() or "null"
        payload = json.loads(text, object_pairs_hook=_Object, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        warn(f"the payload is not JSON, on topic `{message.topic}`")
        return b""
    return _json(_described(message, now, payload), indent).encode()


def _no_constant(name: str) -> object:
    raise ValueError(f"`{name}` is not JSON")


def _json(value: object, indent: str | None, depth: int = 1) -> str:
    """Return JSON as mosquitto_sub prints it: objects over several lines if indented, arrays on one."""
    if isinstance(value, _Object):
        if indent is None:
            return "{" + ",".join(f"{_text(key)}:{_json(member, None)}" for key, member in value) + "}"
        if not value:
            return "{\n" + indent * (depth - 1) + "}"
        lines = [f"{indent * depth}{_text(key)}:\t{_json(member, indent, depth + 1)}" for key, member in value]
        return "{\n" + ",\n".join(lines) + "\n" + indent * (depth - 1) + "}"
    if isinstance(value, list):
        return "[" + (", " if indent else ",").join(_json(item, indent, depth + 1) for item in value) + "]"
    return _text(value)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
