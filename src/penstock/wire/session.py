"""Session transitions as tables: who may send what when, and the QoS handshakes.

Everything here is data. The engine looks transitions up; a pair that is not in a table is a protocol error.
"""

from typing import Final

from penstock.wire import kinds

# Phases of a connection.
NEW: Final = 0
PROVING: Final = 1  # the CONNECT is good, and its sender is asked for more
OPEN: Final = 2
CLOSED: Final = 3
LEAVING: Final = 4  # closed once the packets that wait for the store are out

_WHILE_OPEN = (
    *range(kinds.PUBLISH, kinds.SUBSCRIBE + 1),  # PUBLISH and its acknowledgements, SUBSCRIBE
    *(kinds.UNSUBSCRIBE, kinds.PINGREQ, kinds.AUTH),
)

CONNECTION: Final[dict[tuple[int, int], int]] = {
    (NEW, kinds.CONNECT): OPEN,  # [MQTT-3.1.0-1] the first packet is CONNECT; [MQTT-3.1.0-2] and there is only one
    (PROVING, kinds.AUTH): OPEN,  # [MQTT-3.1.2-30]
    (PROVING, kinds.DISCONNECT): CLOSED,
    **{(OPEN, kind): OPEN for kind in _WHILE_OPEN},
    (OPEN, kinds.DISCONNECT): CLOSED,
}
"""(phase, packet type from a client) -> next phase. What is missing is a protocol error."""

DIALLED: Final[dict[tuple[int, int], int]] = {
    (NEW, kinds.CONNACK): OPEN,
    (NEW, kinds.AUTH): PROVING,
    (PROVING, kinds.CONNACK): OPEN,
    **{(OPEN, kind): OPEN for kind in (*_WHILE_OPEN, kinds.SUBACK, kinds.PINGRESP)},
    (OPEN, kinds.DISCONNECT): CLOSED,
}
"""The same on a connection that we made: what the neighbour sends to us."""

# The states of the handshake of a message that we send.
WAITING: Final = 0  # not sent yet
PUBLISHED: Final = 1  # QoS 1, PUBACK awaited
OFFERED: Final = 2  # QoS 2, PUBREC awaited
RELEASED: Final = 3  # QoS 2, PUBCOMP awaited
DONE: Final = 4

SENDER: Final[dict[tuple[int, int], tuple[int, int]]] = {
    # [MQTT-4.3.2-3] [MQTT-4.3.3-3]
    (PUBLISHED, kinds.PUBACK): (DONE, 0),
    (OFFERED, kinds.PUBREC): (RELEASED, kinds.PUBREL),  # [MQTT-4.3.3-4]
    (RELEASED, kinds.PUBREC): (RELEASED, kinds.PUBREL),  # the peer repeats itself after a reconnect
    # [MQTT-4.3.3-5] [MQTT-4.3.3-6]
    (RELEASED, kinds.PUBCOMP): (DONE, 0),
}
"""(state, acknowledgement) -> (next state, packet type to answer with, or 0)."""

START: Final = {1: PUBLISHED, 2: OFFERED}
"""QoS -> the state of a message just sent."""

# A QoS 2 message that we receive: whether its packet identifier is held.
FREE: Final = 0
HELD: Final = 1

RECEIVER: Final[dict[tuple[int, int], tuple[int, int]]] = {
    (FREE, kinds.PUBLISH): (HELD, kinds.PUBREC),
    (HELD, kinds.PUBLISH): (HELD, kinds.PUBREC),  # [MQTT-4.3.3-10] repeated, not delivered again
    (HELD, kinds.PUBREL): (FREE, kinds.PUBCOMP),  # [MQTT-4.3.3-11]
    (FREE, kinds.PUBREL): (FREE, kinds.PUBCOMP),  # answered with 0x92 in MQTT 5
}
"""(state of the packet identifier, packet) -> (next state, packet type to answer with)."""
