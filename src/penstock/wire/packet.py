"""The fifteen MQTT control packets as values, the same for MQTT 3.1.1 and 5.0.

What 3.1.1 does not have (properties, most reason codes, subscription options) keeps its default there.
"""

from typing import TypeAlias

import msgspec

from penstock.wire.properties import NO_PROPERTIES, Properties

MQTT_311 = 4
MQTT_5 = 5


class WillMessage(msgspec.Struct, frozen=True, gc=False):
    """The message that the node publishes for a client that disconnects without DISCONNECT."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(msgspec.Struct, frozen=True, gc=False):
    client_id: str
    version: int = MQTT_5
    clean_start: bool = True
    keepalive: int = 0
    username: str | None = None
    password: bytes | None = None
    will: WillMessage | None = None
    properties: Properties = NO_PROPERTIES
    is_bridge: bool = False
    """The highest bit of the protocol level, by which Mosquitto's bridges in 3.1.1 ask not to get their own messages
    back and to keep the retain flag.
    """


class Connack(msgspec.Struct, frozen=True, gc=False):
    """`reason` is a `Reason` in MQTT 5 and a return code (0 to 5) in 3.1.1."""

    session_present: bool = False
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Publish(msgspec.Struct, frozen=True, gc=False):
    """`packet_id` is 0 when, and only when, `qos` is 0."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES


class _Acknowledgement(msgspec.Struct, frozen=True, gc=False):
    """The fields of PUBACK, PUBREC, PUBREL and PUBCOMP."""

    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Puback(_Acknowledgement, frozen=True, gc=False):
    pass


class Pubrec(_Acknowledgement, frozen=True, gc=False):
    pass


class Pubrel(_Acknowledgement, frozen=True, gc=False):
    pass


class Pubcomp(_Acknowledgement, frozen=True, gc=False):
    pass


class SubscriptionRequest(msgspec.Struct, frozen=True, gc=False):
    """One topic filter of a SUBSCRIBE, with its options."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(msgspec.Struct, frozen=True, gc=False):
    packet_id: int
    subscriptions: tuple[SubscriptionRequest, ...]
    properties: Properties = NO_PROPERTIES


class Suback(msgspec.Struct, frozen=True, gc=False):
    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(msgspec.Struct, frozen=True, gc=False):
    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class Unsuback(msgspec.Struct, frozen=True, gc=False):
    """`reasons` is empty in MQTT 3.1.1."""

    packet_id: int
    reasons: tuple[int, ...] = ()
    properties: Properties = NO_PROPERTIES


class Pingreq(msgspec.Struct, frozen=True, gc=False):
    pass


class Pingresp(msgspec.Struct, frozen=True, gc=False):
    pass


class Disconnect(msgspec.Struct, frozen=True, gc=False):
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class Auth(msgspec.Struct, frozen=True, gc=False):
    """MQTT 5 only."""

    reason: int = 0
    properties: Properties = NO_PROPERTIES


Ack: TypeAlias = Puback | Pubrec | Pubrel | Pubcomp
Packet: TypeAlias = (
    Connect | Connack | Publish | Ack | Subscribe | Suback | Unsubscribe | Unsuback
    | Pingreq | Pingresp | Disconnect | Auth
)  # fmt: skip
