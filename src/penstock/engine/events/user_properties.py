"""MQTT 5 properties that travel with an event, and between nodes its path."""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256

import msgspec

from penstock.model.event import Event
from penstock.policy.contracts.release import RETAIN_UNTIL
from penstock.policy.contracts.release_place import ACE, DEGRADED
from penstock.policy.statements.elements.tracing import TRACE
from penstock.wire.kinds import PUBLISH
from penstock.wire.packet import Publish
from penstock.wire.primitives import MAX_VARINT, encode_varint
from penstock.wire.properties import NO_PROPERTIES, Properties, decode_properties, encode_properties

PATH = "penstock-path"
ID = "penstock-id"
REPLAY = "penstock-replay"
POLICY = "penstock-policy"
"""The text of a policy that is attached to a publication."""
TOKEN = "penstock-token"
"""The digest of the authorisation token that an event has."""
CONTRACT = "penstock-contract"
"""The user property with the producer's contracts of an event: names of those that the domain has, or all of one."""
CONTRACT_BYTES = CONTRACT.encode()
AT = "penstock-at"
"""The time of a private event's publication, in seconds since the epoch: its permitted retention counts from then."""
PUBLISHER = "penstock-publisher"
"""The publisher of an event that may wait at another node, as `publishers.Publisher` in JSON."""
CAUSE = "penstock-cause"
"""Of an event that a monitor has made: the topic of the event that it was made of."""
SHAPED = "penstock-shaped"
"""Of an event from another node: the monitors on the link that this node has put it through, as `Placing.mark`."""
SHAPED_BYTES = SHAPED.encode()
SERVED = "penstock-served"
"""The foreign brokers that nodes on the way of an event have sent it to."""
ECHO = "penstock-echo"
"""Of what goes to a foreign broker that may bring it back: the ids that the event has had in this domain. Who else sets
it keeps its own event from those who have had that very event, and nothing more.
"""
MADE = "penstock-made"
"""Of what policies have made: how many events they may make because of it."""
MOVED = "penstock-moved"
"""Of a message that waited for a session which a neighbour hands over: as `mobility.state.MovedMessage`."""
BIRTH = "penstock-birth"
"""Of a Sparkplug message, the name of the birth by which its aliases are to be read."""
BIRTH_BYTES = BIRTH.encode()
PROVEN = "penstock-proven"
"""At the node itself, never sent: a trust group that a publication has proven, or why it has not (`expiry: 0`)."""
PROVEN_BYTES = PROVEN.encode()
OF_NODES = frozenset(
    {
        PROVEN,
        PATH,
        ID,
        REPLAY,
        MADE,
        TOKEN,
        "penstock-quality",
        CONTRACT,
        ACE,
        DEGRADED,
        AT,
        PUBLISHER,
        CAUSE,
        SHAPED,
        SERVED,
        BIRTH,
        MOVED,
    }
)
"""Properties between nodes: a client that sets one is refused; other reserved ones are removed."""
RESERVED = "penstock-"
"""User properties that only nodes may set; from a client they are removed."""
RESERVED_BYTES = RESERVED.encode()
_OF_POLICIES = (POLICY, MADE, TRACE, "penstock-quality", CONTRACT, ACE, DEGRADED, AT)
_WITH_EVENTS = (*_OF_POLICIES, PUBLISHER, CAUSE, SHAPED, SERVED, ECHO, BIRTH)
"""Those of them that belong to an event, and are kept with it. The last six say where it comes from."""
_SHOWN = (TRACE, RETAIN_UNTIL)
"""Those that clients get."""
OF_POLICIES = (*_OF_POLICIES, *_SHOWN)
"""Those that policies have put there, or that policies ask for."""


def travelling(properties: Properties, is_node: bool = False, is_record: bool = False) -> bytes:
    """Return the properties that go on to subscribers unaltered; `is_record`: those that policies gave it, whoever it
    was sent to.
    """
    if properties is NO_PROPERTIES:
        return b""
    kept = (*OF_POLICIES, SHAPED, BIRTH) if is_record else _WITH_EVENTS if is_node else ()
    return encode_properties(
        Properties(
            payload_format=properties.payload_format,
            content_type=properties.content_type,
            response_topic=properties.response_topic,
            correlation_data=properties.correlation_data,
            user_properties=tuple(
                pair
                for pair in properties.user_properties
                if not pair[0].startswith(RESERVED) or pair[0].startswith(kept)
            ),
        )
    )


def from_outside(packet: Publish) -> Publish:
    """Return a foreign broker's properties without those reserved for nodes: anybody behind it could have set them.

    What tells events of this domain that come back is left: it can only keep an event away.
    """
    pairs = packet.properties.user_properties
    left = tuple(pair for pair in pairs if not pair[0].startswith(RESERVED) or pair[0] == ECHO)
    if len(left) == len(pairs):
        return packet
    properties = msgspec.structs.replace(packet.properties, user_properties=left)
    return msgspec.structs.replace(packet, properties=properties)


def told(event: Event, name: str) -> tuple[str, ...]:
    """Return the values of a reserved user property of an event."""
    if RESERVED_BYTES not in event.properties:
        return ()
    return tuple(value for key, value in carried(event.properties).user_properties if key == name)


def concerns_policies(properties: bytes) -> bool:
    """Return True if there is something reserved beside the birth by which aliases are read."""
    return properties.count(RESERVED_BYTES) > properties.count(BIRTH_BYTES)


def for_clients(event: Event) -> Event:
    """Return the event without what is only for nodes."""
    if RESERVED_BYTES not in event.properties:
        return event
    shown = _shown if len(event.properties) <= _MAX_SMALL else _shown_of_large
    return event._replace(properties=shown(event.properties))


def without_proven(event: Event) -> Event:
    """Return the event without what it has proven at this node."""
    if not event.properties or PROVEN_BYTES not in event.properties:
        return event
    return having(event, None, (), without=PROVEN)


def _without_reserved(encoded: bytes) -> bytes:
    properties = carried(encoded)
    shown = tuple(
        pair for pair in properties.user_properties if not pair[0].startswith(RESERVED) or pair[0].startswith(_SHOWN)
    )
    return encode_properties(msgspec.structs.replace(properties, user_properties=shown))


def for_record(event: Event) -> Event:
    """Return the event as clients get it, and with its publisher if it came from another node."""
    publishers = told(event, PUBLISHER)
    return having(for_clients(event), None, ((PUBLISHER, publishers[-1]),)) if publishers else for_clients(event)


def for_foreign(event: Event) -> Event:
    """Return the event without what is only for nodes, but with the ids by which they know it again."""
    shown = for_clients(event)
    return _with_property(shown, ECHO, ",".join((*echoes(event), event.id))) if event.id else shown


def echoes(event: Event) -> tuple[str, ...]:
    """Return the ids that an event had when it went to foreign brokers, if it has come back from one."""
    return tuple(id for text in told(event, ECHO)[:MAX_ECHOES] for id in text.split(",", MAX_ECHOES))[:MAX_ECHOES]


MAX_ECHOES = 4
"""Times that an event may come back from foreign brokers until it is sent to none any more."""


def is_alike(event: Event, other: Event) -> bool:
    """Return True if a client would get the same bytes of both."""
    if event.topic != other.topic or event.payload != other.payload or event.qos != other.qos:
        return False
    return event.properties == other.properties or for_clients(event).properties == for_clients(other).properties


def bare(event: Event) -> Event:
    """Return the event without what its publisher has put beside its content: only the media type is left."""
    if not event.properties:
        return event
    properties = carried(event.properties)
    kept = Properties(
        payload_format=properties.payload_format,
        content_type=None if properties.content_type is None else properties.content_type.partition(";")[0].strip(),
        user_properties=tuple(pair for pair in properties.user_properties if pair[0].startswith(RESERVED)),
    )
    return event._replace(properties=encode_properties(kept))


def having(event: Event, content_type: str | None, add: Iterable[tuple[str, str]], without: str = "") -> Event:
    """Return the event with another content type (None: the same, empty: none), without one user property, and with
    more of them.
    """
    properties = carried(event.properties)
    left = tuple(pair for pair in properties.user_properties if pair[0] != without)
    changed = msgspec.structs.replace(properties, user_properties=(*left, *add))
    if content_type is not None:
        changed = msgspec.structs.replace(changed, content_type=content_type or None)
    return event._replace(properties=encode_properties(changed))


def carried(properties: bytes) -> Properties:
    """Return what travels with an event, read back."""
    return _carried(properties) if len(properties) <= _MAX_SMALL else _carried_large(properties)


def _decoded(properties: bytes) -> Properties:
    return decode_properties(encode_varint(len(properties)) + properties, 0, PUBLISH, MAX_VARINT)[0]


_MAX_SMALL, _SMALL, _LARGE = 8_192, 64, 4
"""Properties are kept in caches, as several stages and each delivery ask for what travels with an event: bytes of what
is small, and how many of it, and of what is larger, are kept.
"""
_carried, _carried_large = lru_cache(_SMALL)(_decoded), lru_cache(_LARGE)(_decoded)
_shown, _shown_of_large = lru_cache(_SMALL)(_without_reserved), lru_cache(_LARGE)(_without_reserved)


def path_of(neighbour: str, properties: Properties) -> tuple[str, ...]:
    """Return the nodes that an event from a neighbour has been through."""
    text = next((value for name, value in properties.user_properties if name == PATH), None)
    return tuple(text.split(",")) if text else (neighbour,)


def id_of(properties: Properties) -> str:
    """Return the unique id of an event from a neighbour; empty if it has none."""
    return next((value for name, value in properties.user_properties if name == ID), "")


def is_replay(properties: Properties) -> bool:
    """Return True if a neighbour sends it because it is retained there, not because it is new."""
    return (REPLAY, "1") in properties.user_properties


def with_path(event: Event, node: str) -> Event:
    """Return the event as it leaves a node for a neighbour."""
    event = _with_property(event, PATH, ",".join((*event.path, node)))
    return _with_property(event, ID, event.id) if event.id else event


def as_recorded(event: Event, neighbour: str | None) -> Event:
    """Return the event with all that came with it from a neighbour, for the journal."""
    if event.path and event.path != (neighbour,):
        event = _with_property(event, PATH, ",".join(event.path))
    return _with_property(event, ID, event.id) if event.id else event


def with_token(event: Event, digest: str) -> Event:
    """Return the event as it leaves a node for a neighbour, with the digest of its token."""
    return _with_property(event, TOKEN, digest)


def born_by(event: Event) -> str:
    """Return the name of the birth by which the aliases of a Sparkplug message are to be read; empty: by none."""
    return next(iter(told(event, BIRTH)), "") if event.properties else ""


def with_birth(event: Event, name: str) -> Event:
    """Return the event with this birth, and no other, to read its aliases by."""
    if event.properties and BIRTH_BYTES in event.properties:
        return having(event, None, ((BIRTH, name),) if name else (), without=BIRTH)
    return _with_property(event, BIRTH, name) if name else event


def digest_of(text: bytes) -> str:
    """Return the digest of a token as it was sent, whether or not it can be read."""
    return sha256(text).hexdigest()


def as_replay(event: Event) -> Event:
    """Mark a retained event that a neighbour may have already."""
    return _with_property(event, REPLAY, "1")


def _with_property(event: Event, name: str, value: str) -> Event:
    return event._replace(properties=event.properties + encode_properties(Properties(user_properties=((name, value),))))
