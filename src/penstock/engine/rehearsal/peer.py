"""A client or a foreign broker of a rehearsal: it does all that MQTT asks of it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from penstock.engine.connections.host import DISCARD, Transport
from penstock.engine.contracts.client_contracts import TOPIC as CONTRACT
from penstock.engine.sessions.advertise import ADVERTISE, UNADVERTISE
from penstock.engine.sessions.session import key_of
from penstock.engine.trust import group_proofs, publication_proofs
from penstock.model.group_proof import Claimant
from penstock.model.publication_proof import PROOF, PublicationProver
from penstock.model.topic import matches
from penstock.wire import packet as mqtt
from penstock.wire.codec import encode
from penstock.wire.packet import Packet, SubscriptionRequest
from penstock.wire.properties import NO_PROPERTIES, Properties
from penstock.wire.reason import Reason
from penstock.wire.stream import StreamDecoder

Pairs = tuple[tuple[str, str], ...]
"""User properties."""


class Delivered(NamedTuple):
    """A message as it came to an entity, and the node that it came from."""

    node: str
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Pairs = ()
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
        self._prover: PublicationProver | None = None
        self._uncached: dict[str, bytes] = {}
        """The secrets of groups that each publication has to prove."""
        self._client_id = ""
        self._wishes: dict[str, Properties] = {}
        self._declared: dict[tuple[str, str], bytes] = {}
        """By topic and name, what it says again when its session is gone: advertisements and contracts."""
        self._got = got
        self._transport: Transport = DISCARD
        self._decoder = StreamDecoder()
        self._version = 5
        self._last_id = 0

    def join(self, transport: Transport, greeting: mqtt.Connect | None, claimant: Claimant | None = None) -> None:
        """Begin a connection: a client sends its CONNECT; a foreign broker, with None, awaits the one of the node."""
        self._transport = transport
        self._claimant = claimant
        self._prover = None
        self._uncached = {}
        self.is_open = False
        self.refused = ""
        self._decoder = StreamDecoder(version=0 if greeting is None else greeting.version)
        if greeting is not None:
            self._version = greeting.version
            self._client_id = greeting.client_id
            self._send(greeting)

    def end(self) -> None:
        """Handle the loss of the connection."""
        self.is_open = False
        self._transport = DISCARD

    def subscribe(self, subscription: SubscriptionRequest, name: str, **pairs: str) -> None:
        """Subscribe; `pairs` are the user properties besides the name."""
        key = key_of(subscription.filter, name)
        self.subscriptions[key] = subscription
        self._wishes[key] = Properties(user_properties=_said(name=name, **pairs))
        self._subscribe(key)

    def unsubscribe(self, filter: str, name: str, policy: str) -> None:
        self.subscriptions.pop(key_of(filter, name), None)
        pairs = _said(name=name, policy=policy)
        properties = Properties(user_properties=pairs) if pairs else NO_PROPERTIES
        self._send(mqtt.Unsubscribe(self._next_id(), (filter,), properties))

    def advertise(self, name: str, **fields: str) -> None:
        self._declare(ADVERTISE, name, dict(_said(**fields)))

    def unadvertise(self, name: str, policy: str) -> None:
        self._declared.pop((ADVERTISE, name), None)
        self.publish(UNADVERTISE, msgspec.json.encode(dict(_said(name=name, policy=policy))), 1)

    def bring(self, name: str, contract: dict[str, object]) -> None:
        self._declare(CONTRACT, name, contract)

    def _declare(self, topic: str, name: str, fields: Mapping[str, object]) -> None:
        payload = self._declared[topic, name] = msgspec.json.encode({"name": name, **fields})
        self.publish(topic, payload, 1)

    def publish(
        self, topic: str, payload: bytes, qos: int, retain: bool = False, pairs: Pairs = (), expiry: int | None = None
    ) -> None:
        packet_id = self._next_id() if qos else 0
        sent = Properties(user_properties=pairs, message_expiry=expiry) if pairs or expiry else NO_PROPERTIES
        packet = mqtt.Publish(topic, payload, qos, retain, packet_id=packet_id, properties=sent)
        if self._prover is not None and self._uncached:
            proof = self._prover.prove(publication_proofs.as_sent(packet, topic), self._uncached)
            properties = msgspec.structs.replace(sent, user_properties=(*pairs, (PROOF, proof)))
            packet = msgspec.structs.replace(packet, properties=properties)
        self._send(packet)

    def forward(self, topic: str, payload: bytes, qos: int, retain: bool, pairs: Pairs) -> None:
        """Publish as a foreign broker does, if the node has subscribed to the topic there."""
        granted = [wanted.qos for wanted in self.subscriptions.values() if matches(wanted.filter, topic)]
        if granted:
            self.publish(topic, payload, min(qos, max(granted)), retain, pairs)

    def prove(self, nonce: bytes) -> None:
        """Prove anew that it is in its trust groups."""
        self._claimant = Claimant(self._client_id, self.secrets, nonce)
        self._send(group_proofs.auth(Reason.REAUTHENTICATE, self._claimant.claim))

    def disconnect(self) -> None:
        """Send a DISCONNECT."""
        self._send(mqtt.Disconnect())

    def receive(self, data: bytes) -> None:
        """Take bytes of the node, and do what MQTT asks for."""
        for packet in self._decoder.feed(data):
            self._handle(packet)
        assert self._decoder.error is None, self._decoder.error

    def _handle(self, packet: Packet) -> None:
        match packet:
            case mqtt.Connect(version=version):
                self._version = version
                self.is_open = True
                self._send(mqtt.Connack())
            case mqtt.Connack():
                self._welcomed(packet)
            case mqtt.Auth(reason=Reason.CONTINUE_AUTHENTICATION) if self._claimant is not None:
                self._send(group_proofs.answer(self._claimant, packet))
                assert self._claimant.exchange is not None
                self._prover = PublicationProver(self._claimant.exchange, "client")
            case mqtt.Auth(reason=Reason.SUCCESS):
                self._accepted(packet)
            case mqtt.Publish():
                message = (packet.topic, packet.payload, packet.qos, packet.retain)
                properties = packet.properties
                self._got(Delivered(self.node, *message, properties.user_properties, properties.message_expiry))
                if packet.qos:
                    self._send((mqtt.Puback if packet.qos == 1 else mqtt.Pubrec)(packet.packet_id))
            case mqtt.Pubrel():
                self._send(mqtt.Pubcomp(packet.packet_id))
            case mqtt.Pubrec() if packet.reason < 0x80:
                self._send(mqtt.Pubrel(packet.packet_id))
            case mqtt.Puback() | mqtt.Pubrec() | mqtt.Pubcomp():
                self.answers.append(Reason(packet.reason))
            case mqtt.Suback():
                self.answers.extend(map(Reason, packet.reasons))
            case mqtt.Subscribe():
                self.subscriptions |= {wanted.filter: wanted for wanted in packet.subscriptions}
                self._send(mqtt.Suback(packet.packet_id, tuple(wanted.qos for wanted in packet.subscriptions)))
            case mqtt.Disconnect():
                self.refused = packet.properties.reason_string or Reason(packet.reason).name
                self.is_open = False
            case _:
                pass  # an answer that says nothing new

    def _welcomed(self, packet: mqtt.Connack) -> None:
        if packet.reason:
            self.refused = packet.properties.reason_string or Reason(packet.reason).name
            return
        self.is_open = True
        self._accepted(packet)
        if not packet.session_present:  # as any good client does when its session is gone
            for key in self.subscriptions:
                self._subscribe(key)
            for (topic, _), payload in self._declared.items():
                self.publish(topic, payload, 1)

    def _accepted(self, packet: mqtt.Connack | mqtt.Auth) -> None:
        """Take the end of an exchange: the groups that count for no time are to be proven by each publication."""
        data = packet.properties.auth_data
        if self._claimant is not None and self._prover is not None and data is not None:
            accepted = self._claimant.accepted(data)
            self._uncached = {group: self.secrets[group] for group, seconds in accepted.items() if not seconds}

    def _subscribe(self, key: str) -> None:
        self._send(mqtt.Subscribe(self._next_id(), (self.subscriptions[key],), self._wishes[key]))

    def _send(self, packet: Packet) -> None:
        self._transport.write(encode(packet, self._version))

    def _next_id(self) -> int:
        self._last_id = self._last_id % 65535 + 1
        return self._last_id


def _said(**fields: str) -> Pairs:
    """Return the fields that are not empty."""
    return tuple((name, value) for name, value in fields.items() if value)
