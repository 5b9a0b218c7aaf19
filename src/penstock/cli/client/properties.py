"""MQTT 5 properties given as `-D COMMAND NAME VALUE`, spelled as Mosquitto's clients spell them."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from penstock.cli.options import UsageError, number, utf8

Value = int | str | bytes | tuple[str, str]

_PACKETS = {
    "connect": PacketTypes.CONNECT,
    "publish": PacketTypes.PUBLISH,
    "subscribe": PacketTypes.SUBSCRIBE,
    "unsubscribe": PacketTypes.UNSUBSCRIBE,
    "disconnect": PacketTypes.DISCONNECT,
    "will": PacketTypes.WILLMESSAGE,
}

_NUMBERS = {
    "maximum-packet-size": (1, 268_435_455),
    "message-expiry-interval": (0, 0xFFFFFFFF),
    "payload-format-indicator": (0, 1),
    "receive-maximum": (1, 0xFFFF),
    "request-problem-information": (0, 1),
    "request-response-information": (0, 1),
    "session-expiry-interval": (0, 0xFFFFFFFF),
    "subscription-identifier": (1, 268_435_455),
    "topic-alias": (1, 0xFFFF),
    "topic-alias-maximum": (0, 0xFFFF),
    "will-delay-interval": (0, 0xFFFFFFFF),
}
_BINARIES = ("authentication-data", "correlation-data")

_WHERE = {
    "connect": (
        *("authentication-data", "authentication-method", "maximum-packet-size", "receive-maximum"),
        *("request-problem-information", "request-response-information", "session-expiry-interval"),
        *("topic-alias-maximum", "user-property"),
    ),
    "publish": (
        *("content-type", "correlation-data", "message-expiry-interval", "payload-format-indicator"),
        *("response-topic", "topic-alias", "user-property"),
    ),
    "subscribe": ("subscription-identifier", "user-property"),
    "unsubscribe": ("user-property",),
    "disconnect": ("session-expiry-interval", "user-property"),
    "will": (
        *("content-type", "correlation-data", "message-expiry-interval", "payload-format-indicator"),
        *("response-topic", "user-property", "will-delay-interval"),
    ),
}


@dataclass(frozen=True)
class Property:
    """One property for one kind of packet."""

    command: str
    name: str
    value: Value


def take_property(following: Callable[[], str]) -> Property:
    """Read a property from the words after `-D`; raise `UsageError`."""
    command = following().lower()
    if command not in _WHERE:
        raise UsageError(f"`{command}` is not one of {', '.join(_WHERE)}")
    name = following().lower()
    if not any(name in names for names in _WHERE.values()):
        raise UsageError(f"unknown property `{name}`")
    if name not in _WHERE[command]:
        raise UsageError(f"property `{name}` is not for {command}: it takes {', '.join(_WHERE[command])}")
    return Property(command, name, _take_value(name, following))


def properties_for(command: str, chosen: Iterable[Property]) -> Properties | None:
    """Return the properties for `command`, as paho-mqtt takes them; None if there are none."""
    mine = [property_ for property_ in chosen if property_.command == command]
    if not mine:
        return None
    packet_properties = Properties(_PACKETS[command])  # type: ignore[no-untyped-call]
    for property_ in mine:
        setattr(packet_properties, attribute(property_.name), property_.value)
    return packet_properties


def attribute(name: str) -> str:
    """Return the name of paho-mqtt's attribute for a property: `content-type` is `ContentType`."""
    return "".join(word.capitalize() for word in name.split("-"))


def _take_value(name: str, following: Callable[[], str]) -> Value:
    if name == "user-property":
        return utf8(following()), utf8(following())
    text = following()
    if name in _NUMBERS:
        return int(number(*_NUMBERS[name])(text))
    return os.fsencode(text) if name in _BINARIES else utf8(text)
