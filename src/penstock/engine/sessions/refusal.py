"""Reasons for refusals, sent to a client unless it has declined them."""

from typing import NamedTuple

import msgspec

from penstock.wire.codec import encode
from penstock.wire.packet import MQTT_5, Connack, Disconnect, Puback, Pubrec, Suback, Unsuback
from penstock.wire.primitives import is_name
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason

MAX_REASON_LENGTH = 1024
"""Characters of a reason string; topics in it may be longer."""


class Outcome(NamedTuple):
    """The result of a request: a reason code, and the reason in words if it was refused."""

    reason: Reason
    text: str = ""


class RefusedPublish(NamedTuple):
    """A QoS 2 message that was refused. Its identifier is free, but its sender may not have seen the answer."""

    reason: Reason
    text: str
    digest: bytes
    """Of topic and payload: another message with the identifier is not this one sent again."""


MAX_NAME_LENGTH = 200


def problem_of_name(name: str) -> str:
    """Return what is wrong with a client's name for a subscription or an advertisement; empty if nothing."""
    if len(name) > MAX_NAME_LENGTH:
        return f"a name has at most {MAX_NAME_LENGTH} characters, this one has {len(name)}"
    return "" if is_name(name) else f"name {name!r} contains a control character or a non-character"


def wants_reasons(connect: Properties) -> bool:
    """Return True if a client takes reason strings; a missing property means that it does."""
    return connect.request_problem_info is not False


Answer = Connack | Disconnect | Puback | Pubrec | Suback | Unsuback


def encode_told(packet: Answer, text: str, version: int, asked: bool, most: int) -> bytes:
    """Encode the packet with the text as its reason string, if the client wants it and can take it. `most`: its
    maximum packet size, 0 if it has none.
    """
    if text and asked and version == MQTT_5:
        reason = Properties(reason_string=text[:MAX_REASON_LENGTH].replace("\0", "\ufffd"))
        data = encode(msgspec.structs.replace(packet, properties=reason), version)
        # [MQTT-3.2.2-19], [MQTT-3.4.2-2], [MQTT-3.5.2-2], [MQTT-3.9.2-1], [MQTT-3.11.2-1], [MQTT-3.14.2-3]
        if not most or len(data) <= most:
            return data
    return encode(packet, version)
