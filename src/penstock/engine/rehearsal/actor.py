"""Who is outside the nodes of a rehearsal: a client, or a foreign broker, that does all that MQTT asks of it."""

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
    Subscription,
    Unsubscribe,
)
from penstock.wire.properties import NO_PROPERTIES, Properties
from penstock.wire.reason import Reason
from penstock.wire.stream import Decoder


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


class Actor:
    """One entity's end of a connection with one node. `greeting` is None for a foreign broker: the node dials it."""

    def __init__(self, name: str, node: str, got: Callable[[Delivered], None]) -> None:
        self.name = name
        self.node = node
        self.is_open = False
        self.refused = ""
        """Why the node turned it down, or sent it away."""
        self.answers: list[Reason] = []
        """What the node answered to publications with QoS 1 and 2, and to subscriptions."""
        self.subscriptions: dict[str, Subscription] = {}
        """What a client has asked for; a foreign broker: what the node has."""
        self.secrets: dict[str, bytes] = {}
        """Of the trust groups that it is in."""
        self._claimant: Claimant | None = None
        self._client_id = ""
        self._wishes: dict[str, Properties] = {}
        self._advertised: dict[str, bytes] = {}
        self._brought: dict[str, bytes] = {}
        self._got = got
        self._transport: Transport = DISCARD
        self._decoder = Decoder()
        self._version = 5
        self._last_id = 0

    def join(self, transport: Transport, greeting: Connect | None, claimant: Claimant | None = None) -> None:
        """A connection is there: a client says who it is, a foreign broker waits to be told."""
        self._transport = transport
        self._claimant = claimant
        self.is_open = False
        self.refused = ""
        self._decoder = Decoder(version=0 if greeting is None else greeting.version)
        if greeting is not None:
            self._version = greeting.version
            self._client_id = greeting.client_id
            self._send(greeting)

    def part(self) -> None:
        """The connection is gone."""
        self.is_open = False
        self._transport = DISCARD

    def subscribe(
        self,
        subscription: Subscription,
        where: str = "",
        name: str = "",
        scope: str = "",
        policy: str = "",
        contract: str = "",
    ) -> None:
        key = key_of(subscription.filter, name)
        self.subscriptions[key] = subscription
        told = (("where", where), ("name", name), ("scope", scope), ("policy", policy), ("contract", contract))
        self._wishes[key] = Properties(user_properties=tuple(pair for pair in told if pair[1]))
        self._subscribe(key)

    def unsubscribe(self, filter: str, name: str = "", policy: str = "") -> None:
        self.subscriptions.pop(key_of(filter, name), None)
        said = tuple(pair for pair in (("name", name), ("policy", policy)) if pair[1])
        told = Properties(user_properties=said) if said else NO_PROPERTIES
        self._send(Unsubscribe(self._next_id(), (filter,), told))

    def advertise(self, name: str, filter: str, where: str = "", scope: str = "global", policy: str = "") -> None:
        told = {"name": name, "filter": filter, "scope": scope, "where": where, "policy": policy}
        self._advertised[name] = msgspec.json.encode({key: said for key, said in told.items() if said})
        self.publish(ADVERTISE, self._advertised[name], 1, False)

    def unadvertise(self, name: str, policy: str = "") -> None:
        self._advertised.pop(name, None)
        told = {"name": name, **({"policy": policy} if policy else {})}
        self.publish(UNADVERTISE, msgspec.json.encode(told), 1, False)

    def bring(self, name: str, told: dict[str, object]) -> None:
        self._brought[name] = msgspec.json.encode({"name": name, **told})
        self.publish(CONTRACT, self._brought[name], 1, False)

    def set_policy(self, told: dict[str, object]) -> None:
        self.publish(SET_POLICY, msgspec.json.encode(told), 1, False)

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
        told = Properties(user_properties=pairs, message_expiry=expiry) if pairs or expiry else NO_PROPERTIES
        self._send(Publish(topic, payload, qos, retain, packet_id=packet_id, properties=told))

    def forward(
        self, topic: str, payload: bytes, qos: int, retain: bool, properties: tuple[tuple[str, str], ...] = ()
    ) -> bool:
        """As `publish`, by a foreign broker: only what the node has subscribed to there; whether it has."""
        wanted = [one for one in self.subscriptions.values() if matches(one.filter, topic)]
        if wanted:
            self.publish(topic, payload, min(qos, max(one.qos for one in wanted)), retain, properties=properties)
        return bool(wanted)

    def prove(self, nonce: bytes) -> None:
        """Prove anew that it is in its trust groups."""
        self._claimant = Claimant(self._client_id, self.secrets, nonce)
        self._send(group_proofs.auth(Reason.REAUTHENTICATE, self._claimant.claim))

    def disconnect(self) -> None:
        """Say goodbye."""
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
                told, expiry = packet.properties.user_properties, packet.properties.message_expiry
                said = (packet.topic, packet.payload, packet.qos, packet.retain)
                self._got(Delivered(self.node, *said, told, expiry))
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
                self.subscriptions |= {one.filter: one for one in packet.subscriptions}
                self._send(Suback(packet.packet_id, tuple(one.qos for one in packet.subscriptions)))
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
