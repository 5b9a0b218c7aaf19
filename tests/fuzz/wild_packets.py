"""Packets as a careless or hostile client might send them: valid ones in any order, and valid ones changed."""

import random

import msgspec

from penstock.model.group_proof import METHOD, NONCE_BYTES, GroupAnswer, GroupClaim
from penstock.wire.codec import encode
from penstock.wire.errors import PacketError
from penstock.wire.packet import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
    WillMessage,
)
from penstock.wire.properties import NO_PROPERTIES, Properties

TOPICS = ("a", "a/b", "a/b/c", "d/e", "", "$SYS/broker/uptime", "$share/g/a", "ü/\U0001f600", "x" * 300, "/" * 150)
FILTERS = ("#", "a/#", "+/b", "a", "$share/g/a/#", "$share/g/+", "$SYS/#", "+/+/+", "d/e", "/" * 150 + "#")
CLIENT_IDS = ("", *(f"wild-{number}" for number in range(100)))


class Wild:
    """A source of packets for one connection."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.version = chance.choice((4, 5))

    def greeting(self) -> bytes:
        """Nearly always a CONNECT, and nearly always a good one."""
        if self.chance.random() < 0.03:
            return self.packet()
        connect = self._connect()
        data = encode(connect, self.version)
        if connect.properties.auth_method is not None and self.chance.random() < 0.7:
            data += encode(Auth(0x18, self._proofs(GroupAnswer({}))), self.version)
        return self._changed(data) if self.chance.random() < 0.05 else data

    def packet(self) -> bytes:
        """Some packet, as it should be or changed."""
        while True:
            try:
                data = encode(self._packet(), self.version)
            except (PacketError, ValueError):  # what cannot even be encoded
                continue
            return self._changed(data) if self.chance.random() < 0.02 else data

    # --- packets

    def _packet(self) -> Packet:
        chance = self.chance
        number = chance.randrange(1, 30) if chance.random() < 0.9 else chance.randrange(1, 65536)
        reason = chance.choice((0, 0, 0, 0x10, 0x80, 0x92)) if self.version == 5 else 0
        kind = chance.choices(range(14), (30, 8, 8, 8, 8, 10, 4, 6, 1, 0.3, 0.3, 0.2, 0.2, 0.2))[0]
        match kind:
            case 0:
                return self._publish(number)
            case 1:
                return Puback(number, reason)
            case 2:
                return Pubrec(number, reason)
            case 3:
                return Pubrel(number, 0)
            case 4:
                return Pubcomp(number, 0)
            case 5:
                wanted = [self._subscription() for _ in range(chance.randrange(1, 4))]
                return Subscribe(number, tuple(wanted), self._properties(subscription_ids=(chance.randrange(1, 300),)))
            case 6:
                return Unsubscribe(number, tuple(chance.sample(FILTERS, chance.randrange(1, 4))))
            case 7:
                return Pingreq()
            case 8:
                return Disconnect(chance.choice((0, 4)) if self.version == 5 else 0, self._properties(session_expiry=1))
            case 9:
                return self._connect()
            case 10:
                return Auth(
                    chance.choice((0, 0x18, 0x19)), self._proofs(chance.choice((self._claim(), GroupAnswer({}))))
                )
            case 11:
                return Connack()
            case 12:
                return Suback(number, (0,))
        return Pingresp()

    def _connect(self) -> Connect:
        chance = self.chance
        will = None
        if chance.random() < 0.3:
            delay = self._properties(will_delay=chance.choice((0, 1)))
            will = WillMessage(chance.choice(TOPICS[:4]), b"will", chance.randrange(3), chance.random() < 0.2, delay)
        properties = self._properties(
            session_expiry=chance.choice((0, 1, 600)),
            receive_maximum=chance.choice((1, 5, 100)),
            maximum_packet_size=chance.choices((30, 1000, 100_000), (1, 5, 5))[0],
            topic_alias_maximum=chance.choice((0, 3, 1000)),
            request_problem_info=chance.random() < 0.5,
        )
        if self.version == 5 and chance.random() < 0.2:
            claim = self._proofs(self._claim())
            properties = msgspec.structs.replace(
                properties, auth_method=claim.auth_method, auth_data=claim.auth_data if claim.auth_method else None
            )
        keepalive = chance.choice((0, 1, 60))
        return Connect(
            chance.choice(CLIENT_IDS), self.version, chance.random() < 0.5, keepalive, None, None, will, properties
        )

    def _claim(self) -> GroupClaim:
        return GroupClaim(self.chance.randbytes(NONCE_BYTES), tuple(self.chance.sample(("a", "b", "c"), 2)))

    def _proofs(self, message: GroupClaim | GroupAnswer) -> Properties:
        """Authentication data, as it should be or not."""
        chance = self.chance
        method = chance.choices((METHOD, "SCRAM", None), (20, 1, 1))[0]
        data = message.encode() if chance.random() < 0.8 else chance.randbytes(chance.randrange(80))
        return Properties(auth_method=method, auth_data=data if method else None)

    def _publish(self, number: int) -> Publish:
        chance = self.chance
        qos = chance.randrange(3)
        size = chance.choice((0, 1, 10, 100, 1000, 20_000))
        properties = self._properties(
            topic_alias=chance.choices((1, 2, 10, 60_000), (8, 8, 8, 1))[0],
            message_expiry=chance.choice((0, 1, 100)),
            user_properties=(("name", "value"),) * chance.randrange(4),
            response_topic="a/b",
        )
        dup = qos > 0 and chance.random() < 0.2
        topic = chance.choice(TOPICS[:4] if chance.random() < 0.97 else TOPICS)
        return Publish(topic, bytes(size), qos, chance.random() < 0.15, dup, number if qos else 0, properties)

    def _subscription(self) -> SubscriptionRequest:
        chance = self.chance
        if self.version == 4:
            return SubscriptionRequest(chance.choice(FILTERS), chance.randrange(3))
        flags = chance.random() < 0.2, chance.random() < 0.3
        return SubscriptionRequest(chance.choice(FILTERS), chance.randrange(3), *flags, chance.randrange(3))

    def _properties(self, **values: object) -> Properties:
        """Some of the properties, in MQTT 5."""
        if self.version == 4:
            return NO_PROPERTIES
        chosen = {name: value for name, value in values.items() if self.chance.random() < 0.3}
        return Properties(**chosen) if chosen else NO_PROPERTIES  # type: ignore[arg-type]

    # --- changes

    def _changed(self, data: bytes) -> bytes:
        chance, changed = self.chance, bytearray(data)
        place = chance.randrange(len(changed))
        match chance.randrange(6):
            case 0:
                changed[place] ^= 1 << chance.randrange(8)
            case 1:
                changed[place] = chance.randrange(256)
            case 2:
                del changed[place:]
            case 3:
                changed[place:place] = chance.randbytes(chance.randrange(1, 20))
            case 4:
                del changed[place : place + chance.randrange(1, 5)]
            case _:
                changed += changed[place:]
        return bytes(changed)
