"""A client or a foreign broker of a rehearsal: it does all that MQTT asks of it."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from penstock.engine.connections.host import DISCARD, Transport
from penstock.engine.contracts.client_contracts import TOPIC as CONTRACT
from penstock.engine.events.user_properties import POLICY
from penstock.engine.sessions.advertise import ADVERTISE, SET_POLICY, UNADVERTISE
from penstock.engine.sessions.session import key_of
from penstock.engine.trust import group_proofs
from penstock.model.group_proof import Claimant
from penstock.model.topic import matches
from penstock.wire.codec import encode
from penstock.wire.packet import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
)
from penstock.wire.properties import NO_PROPERTIES, Properties
from penstock.wire.reason import Reason
from penstock.wire.stream import StreamDecoder


class Delivered(NamedTuple):
    """A message as it came to an entity, and the node that it came from."""

    node: str
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: tuple[tuple[str, str], ...] = ()
    """User properties."""
    expiry: int | None = None

    def __str__(self) -> str:
        return f"{self.topic} {self.payload.decode(errors='backslashreplace')}".rstrip()


class Peer:
    """One entity's end of a connection with one node."""

    def __init__(self, name: str, node: str, got: Callable[[Delivered], None]) -> None:
        self.name = name
        self.node = node
        self.is_open = False
        self.refused = ""
        """The reason why the node refused or disconnected it."""
        self.answers: list[Reason] = []
        """The node's answers to publications with QoS 1 and 2, and to subscriptions."""
        self.subscriptions: dict[str, SubscriptionRequest] = {}
        """The subscriptions of a client; at a foreign broker, of the node."""
        self.secrets: dict[str, bytes] = {}
        """Of the trust groups that it is in."""
        self._claimant: Claimant | None = None
        self._client_id = ""
        self._wishes: dict[str, Properties] = {}
        self._advertised: dict[str, bytes] = {}
        self._brought: dict[str, bytes] = {}
        self._got = got
        self._transport: Transport = DISCARD
        self._decoder = StreamDecoder()
        self._version = 5
        self._last_id = 0

    def join(self, transport: Transport, greeting: Connect | None, claimant: Claimant | None = None) -> None:
        """Begin a connection: a client sends its CONNECT; a foreign broker, with None, awaits the one of the node."""
        self._transport = transport
        self._claimant = claimant
        self.is_open = False
        self.refused = ""
        self._decoder = StreamDecoder(version=0 if greeting is None else greeting.version)
        if greeting is not None:
            self._version = greeting.version
            self._client_id = greeting.client_id
            self._send(greeting)

    def part(self) -> None:
        """Handle the loss of the connection."""
        self.is_open = False
        self._transport = DISCARD

    def subscribe(
        self,
        subscription: SubscriptionRequest,
        where: str = "",
        name: str = "",
        scope: str = "",
        policy: str = "",
        contract: str = "",
    ) -> None:
        key = key_of(subscription.filter, name)
        self.subscriptions[key] = subscription
        pairs = (("where", where), ("name", name), ("scope", scope), ("policy", policy), ("contract", contract))
        self._wishes[key] = Properties(user_properties=tuple(pair for pair in pairs if pair[1]))
        self._subscribe(key)

    def unsubscribe(self, filter: str, name: str = "", policy: str = "") -> None:
        self.subscriptions.pop(key_of(filter, name), None)
        pairs = tuple(pair for pair in (("name", name), ("policy", policy)) if pair[1])
        properties = Properties(user_properties=pairs) if pairs else NO_PROPERTIES
        self._send(Unsubscribe(self._next_id(), (filter,), properties))

    def advertise(self, name: str, filter: str, where: str = "", scope: str = "global", policy: str = "") -> None:
        fields = {"name": name, "filter": filter, "scope": scope, "where": where, "policy": policy}
        self._advertised[name] = msgspec.json.encode({key: value for key, value in fields.items() if value})
        self.publish(ADVERTISE, self._advertised[name], 1, False)

    def unadvertise(self, name: str, policy: str = "") -> None:
        self._advertised.pop(name, None)
        fields = {"name": name, **({"policy": policy} if policy else {})}
        self.publish(UNADVERTISE, msgspec.json.encode(fields), 1, False)

    def bring(self, name: str, contract: dict[str, object]) -> None:
        self._brought[name] = msgspec.json.encode({"name": name, **contract})
        self.publish(CONTRACT, self._brought[name], 1, False)

    def set_policy(self, fields: dict[str, object]) -> None:
        self.publish(SET_POLICY, msgspec.json.encode(fields), 1, False)

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        retain: bool,
        policy: str = "",
        properties: tuple[tuple[str, str], ...] = (),
        expiry: int | None = None,
    ) -> None:
        packet_id = self._next_id() if qos else 0
        pairs = ((POLICY, policy), *properties) if policy else properties
        sent = Properties(user_properties=pairs, message_expiry=expiry) if pairs or expiry else NO_PROPERTIES
        self._send(Publish(topic, payload, qos, retain, packet_id=packet_id, properties=sent))

    def forward(
        self, topic: str, payload: bytes, qos: int, retain: bool, properties: tuple[tuple[str, str], ...] = ()
    ) -> bool:
        """Publish as a foreign broker does, if the node has subscribed to the topic there; return whether it has."""
        granted = [wanted.qos for wanted in self.subscriptions.values() if matches(wanted.filter, topic)]
        if granted:
            self.publish(topic, payload, min(qos, max(granted)), retain, properties=properties)
        return bool(granted)

    def prove(self, nonce: bytes) -> None:
        """Prove anew that it is in its trust groups."""
        self._claimant = Claimant(self._client_id, self.secrets, nonce)
        self._send(group_proofs.auth(Reason.REAUTHENTICATE, self._claimant.claim))

    def disconnect(self) -> None:
        """Send a DISCONNECT."""
        self._send(Disconnect())

    def receive(self, data: bytes) -> None:
        """Take bytes of the node, and do what MQTT asks for."""
        for packet in self._decoder.feed(data):
            self._handle(packet)
        assert self._decoder.error is None, self._decoder.error

    def _handle(self, packet: Packet) -> None:
        match packet:
            case Connect(version=version):
                self._version = version
                self.is_open = True
                self._send(Connack())
            case Connack():
                self._welcomed(packet)
            case Auth(reason=Reason.CONTINUE_AUTHENTICATION) if self._claimant is not None:
                self._send(group_proofs.answer(self._claimant, packet))
            case Publish():
                message = (packet.topic, packet.payload, packet.qos, packet.retain)
                properties = packet.properties
                self._got(Delivered(self.node, *message, properties.user_properties, properties.message_expiry))
                if packet.qos:
                    self._send(Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id))
            case Pubrel():
                self._send(Pubcomp(packet.packet_id))
            case Pubrec() if packet.reason < 0x80:
                self._send(Pubrel(packet.packet_id))
            case Puback() | Pubrec() | Pubcomp():
                self.answers.append(Reason(packet.reason))
            case Suback():
                self.answers.extend(map(Reason, packet.reasons))
            case Subscribe():
                self.subscriptions |= {wanted.filter: wanted for wanted in packet.subscriptions}
                self._send(Suback(packet.packet_id, tuple(wanted.qos for wanted in packet.subscriptions)))
            case Disconnect():
                self.refused = packet.properties.reason_string or Reason(packet.reason).name
                self.is_open = False
            case _:
                pass  # an answer that says nothing new

    def _welcomed(self, packet: Connack) -> None:
        if packet.reason:
            self.refused = packet.properties.reason_string or Reason(packet.reason).name
            return
        self.is_open = True
        if not packet.session_present:  # as any good client does when its session is gone
            for key in self.subscriptions:
                self._subscribe(key)
            for payload in self._advertised.values():
                self.publish(ADVERTISE, payload, 1, False)
            for payload in self._brought.values():
                self.publish(CONTRACT, payload, 1, False)

    def _subscribe(self, key: str) -> None:
        self._send(Subscribe(self._next_id(), (self.subscriptions[key],), self._wishes[key]))

    def _send(self, packet: Packet) -> None:
        self._transport.write(encode(packet, self._version))

    def _next_id(self) -> int:
        self._last_id = self._last_id % 65535 + 1
        return self._last_id
