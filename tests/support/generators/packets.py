"""Hypothesis strategies for every packet that MQTT can carry, by version."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from penstock.wire import kinds
from penstock.wire import packet as p
from penstock.wire.properties import NO_PROPERTIES, Properties
from penstock.wire.reason import REASONS, SUBACK_CODES_311

_NON_CHARACTERS = [chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF)]
_NON_CHARACTERS += [chr(code) for code in range(0xFDD0, 0xFDF0)]

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
names = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters=_NON_CHARACTERS), max_size=12
)
filters = names.filter(bool)
topics = filters.map(lambda text: text.translate({ord("+"): "-", ord("#"): "-"}))
blobs = st.binary(max_size=12)
u16 = st.integers(0, 0xFFFF)
u32 = st.integers(0, 0xFFFF_FFFF)
bits = st.integers(0, 1)
packet_ids = st.integers(1, 0xFFFF)
qos_levels = st.integers(0, 2)

# MQTT 5, table 2-4, said again: the codec's own table is what is tested
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "payload_format": bits,
    "message_expiry": u32,
    "content_type": texts,
    "response_topic": topics,
    "correlation_data": blobs,
    "session_expiry": u32,
    "assigned_client_id": texts,
    "server_keepalive": u16,
    "auth_method": texts,
    "request_problem_info": st.booleans(),
    "will_delay": u32,
    "request_response_info": st.booleans(),
    "response_info": texts,
    "server_reference": texts,
    "reason_string": texts,
    "receive_maximum": st.integers(1, 0xFFFF),
    "topic_alias_maximum": u16,
    "topic_alias": st.integers(1, 0xFFFF),
    "maximum_qos": bits,
    "retain_available": st.booleans(),
    "user_properties": st.lists(st.tuples(texts, texts), max_size=4).map(tuple),
    "maximum_packet_size": st.integers(1, 0xFFFF_FFFF),
    "wildcard_available": st.booleans(),
    "subscription_ids_available": st.booleans(),
    "shared_available": st.booleans(),
}
_MESSAGE = "payload_format message_expiry content_type response_topic correlation_data user_properties"
_OUTCOME = "reason_string user_properties"


def _properties(version: int, fields: str, **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Properties]:
    if version == p.MQTT_311:
        return st.just(NO_PROPERTIES)
    optional = {name: _VALUES[name] for name in fields.split()} | more
    return st.fixed_dictionaries({}, optional=optional).map(lambda values: Properties(**values))


def _with_auth(properties: st.SearchStrategy[Properties]) -> st.SearchStrategy[Properties]:
    """Authentication data goes only with a method."""
    return st.tuples(properties, st.none() | blobs).map(
        lambda pair: pair[0] if pair[0].auth_method is None else msgspec.structs.replace(pair[0], auth_data=pair[1])
    )


def _reasons(version: int, allowed: frozenset[Any]) -> st.SearchStrategy[int]:
    return st.just(0) if version == p.MQTT_311 else st.sampled_from(sorted(int(each) for each in allowed))


def wills(version: int) -> st.SearchStrategy[p.WillMessage]:
    return st.builds(
        p.WillMessage, topics, blobs, qos_levels, st.booleans(), _properties(version, _MESSAGE + " will_delay")
    )


@st.composite
def connects(draw: st.DrawFn, version: int) -> p.Connect:
    username = draw(st.none() | names)
    password = draw(st.none() | blobs) if version == p.MQTT_5 or username is not None else None
    properties = _with_auth(
        _properties(
            version,
            "session_expiry auth_method request_problem_info request_response_info receive_maximum"
            " topic_alias_maximum user_properties maximum_packet_size",
        )
    )
    return p.Connect(
        draw(names),
        version,
        draw(st.booleans()),
        draw(u16),
        username,
        password,
        draw(st.none() | wills(version)),
        draw(properties),
        version == p.MQTT_311 and draw(st.booleans()),
    )


@st.composite
def connacks(draw: st.DrawFn, version: int) -> p.Connack:
    reason = draw(st.integers(0, 5) if version == p.MQTT_311 else _reasons(version, REASONS[kinds.CONNACK]))
    properties = _with_auth(
        _properties(
            version,
            "session_expiry assigned_client_id server_keepalive auth_method response_info server_reference"
            " reason_string receive_maximum topic_alias_maximum maximum_qos retain_available user_properties"
            " maximum_packet_size wildcard_available subscription_ids_available shared_available",
        )
    )
    return p.Connack(reason == 0 and draw(st.booleans()), reason, draw(properties))


@st.composite
def publishes(draw: st.DrawFn, version: int) -> p.Publish:
    qos = draw(qos_levels)
    ids = st.lists(st.integers(1, 268_435_455), max_size=3).map(tuple)
    properties = draw(_properties(version, _MESSAGE + " topic_alias", subscription_ids=ids))
    return p.Publish(
        draw(topics if properties.topic_alias is None else topics | st.just("")),
        draw(st.binary(max_size=200)),
        qos,
        draw(st.booleans()),
        qos > 0 and draw(st.booleans()),
        draw(packet_ids) if qos else 0,
        properties,
    )


def subscriptions(version: int) -> st.SearchStrategy[p.SubscriptionRequest]:
    if version == p.MQTT_311:
        return st.builds(p.SubscriptionRequest, filters, qos_levels)
    unshared = filters.filter(lambda text: not text.startswith("$share/"))
    return st.builds(p.SubscriptionRequest, unshared, qos_levels, st.booleans(), st.booleans(), qos_levels)


def _subscribes(version: int) -> st.SearchStrategy[p.Subscribe]:
    ids = st.integers(1, 268_435_455).map(lambda value: (value,))
    properties = _properties(version, "user_properties", subscription_ids=ids)
    several = st.lists(subscriptions(version), min_size=1, max_size=4).map(tuple)
    return st.builds(p.Subscribe, packet_ids, several, properties)


def _several(reasons: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(reasons, min_size=1, max_size=4).map(tuple)


def packets(version: int) -> st.SearchStrategy[p.Packet]:
    """Any packet that a peer may send in this version, in its shortest form."""
    outcome = _properties(version, _OUTCOME)
    granted = SUBACK_CODES_311 if version == p.MQTT_311 else REASONS[kinds.SUBACK]
    removed = st.just(()) if version == p.MQTT_311 else _several(_reasons(version, REASONS[kinds.UNSUBACK]))
    both: list[st.SearchStrategy[p.Packet]] = [
        connects(version),
        connacks(version),
        publishes(version),
        st.builds(p.Puback, packet_ids, _reasons(version, REASONS[kinds.PUBACK]), outcome),
        st.builds(p.Pubrec, packet_ids, _reasons(version, REASONS[kinds.PUBACK]), outcome),
        st.builds(p.Pubrel, packet_ids, _reasons(version, REASONS[kinds.PUBREL]), outcome),
        st.builds(p.Pubcomp, packet_ids, _reasons(version, REASONS[kinds.PUBREL]), outcome),
        _subscribes(version),
        st.builds(p.Suback, packet_ids, _several(st.sampled_from(sorted(map(int, granted)))), outcome),
        st.builds(
            p.Unsubscribe,
            packet_ids,
            st.lists(filters, min_size=1, max_size=4).map(tuple),
            _properties(version, "user_properties"),
        ),
        st.builds(p.Unsuback, packet_ids, removed, outcome),
        st.just(p.Pingreq()),
        st.just(p.Pingresp()),
    ]
    if version == p.MQTT_311:
        return st.one_of(*both, st.just(p.Disconnect()))
    gone = _properties(version, "session_expiry server_reference " + _OUTCOME)
    method = _with_auth(_properties(version, _OUTCOME, auth_method=texts))
    return st.one_of(
        *both,
        st.builds(p.Disconnect, _reasons(version, REASONS[kinds.DISCONNECT]), gone),
        st.builds(p.Auth, _reasons(version, REASONS[kinds.AUTH]), method).filter(
            lambda auth: auth.reason == 0 or auth.properties.auth_method is not None
        ),
    )
