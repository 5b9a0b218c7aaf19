"""The CONNACK that opens a connection: what the node tells of itself and of the session."""

from penstock.engine.federation import overlay
from penstock.engine.node import Node
from penstock.engine.sessions import outbox
from penstock.engine.sessions.session import NEVER, Session
from penstock.engine.sessions.state import max_packet_size
from penstock.engine.trust import group_proofs
from penstock.model.topic import MAX_BYTES, is_wild
from penstock.wire.codec import encode
from penstock.wire.framing import MAX_PACKET
from penstock.wire.packet import Connack, Connect
from penstock.wire.properties import NO_PROPERTIES, Properties

NO_EXPIRY = 0xFFFFFFFF


def keepalive_of(node: Node, packet: Connect) -> int:
    """Return the keep-alive in seconds: the client's, or in MQTT 5 the node's if that is less."""
    most = node.limits.max_keepalive
    if packet.version == 5 and most and (packet.keepalive == 0 or packet.keepalive > most):
        return most
    # [MQTT-3.2.2-22]
    return packet.keepalive


def say(
    node: Node,
    session: Session,
    packet: Connect,
    present: bool,
    assigned: str | None,
    keepalive: int,
    proof: group_proofs.Proof | None,
) -> None:
    """Queue the CONNACK. `assigned`: the client id that the node has chosen; `proof`: of trust groups."""
    properties = NO_PROPERTIES
    if packet.version == 5:
        limits, max_size = node.limits, max_packet_size(node.limits.max_packet_size, session.neighbour)
        proven = proof.answer if proof is not None and proof.answer is not None else NO_PROPERTIES
        wished = packet.properties.session_expiry or 0
        expiry = NO_EXPIRY if session.connection.expiry == NEVER else int(session.connection.expiry)
        properties = Properties(
            session_expiry=expiry if expiry != wished else None,
            receive_maximum=most if (most := receive_maximum(node, session)) < 65535 else None,
            # [MQTT-3.2.2-9]
            maximum_qos=limits.max_qos if limits.max_qos < 2 else None,
            retain_available=None if limits.retain else False,
            maximum_packet_size=max_size if max_size < MAX_PACKET else None,
            assigned_client_id=assigned,  # [MQTT-3.2.2-16]
            topic_alias_maximum=limits.topic_alias_maximum or None,
            server_keepalive=keepalive if keepalive != packet.keepalive else None,
            # [MQTT-3.1.2-28]
            response_info=_response_info(session) if packet.properties.request_response_info else None,
            auth_method=proven.auth_method,
            auth_data=proven.auth_data,
        )
    outbox.push_durable(node, session, encode(Connack(present, 0, properties), packet.version))


def receive_maximum(node: Node, session: Session) -> int:
    """Return how many QoS 1 and 2 messages a session may have sent and not seen acknowledged."""
    return node.limits.receive_maximum if session.neighbour is None else overlay.WINDOW


def _response_info(session: Session) -> str | None:
    """Return the topic for responses to the client; None if its id cannot be part of a topic."""
    topic = f"response/{session.client_id}/"
    return None if is_wild(topic) or len(topic.encode()) > MAX_BYTES else topic
