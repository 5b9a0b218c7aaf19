"""The CONNECT with which a node introduces itself to a neighbour that it dials."""

from typing import NamedTuple

from penstock.engine.federation import overlay
from penstock.engine.federation.wants import NODE_PREFIX
from penstock.engine.sessions import lifecycle
from penstock.engine.sessions.state import max_packet_size
from penstock.model.group_proof import METHOD
from penstock.wire.framing import MAX_PACKET
from penstock.wire.packet import Connect, Subscribe, SubscriptionRequest
from penstock.wire.properties import NO_PROPERTIES, Properties

KEEPALIVE = 20


class Greeting(NamedTuple):
    """The identity a node shows, and its subscriptions at a foreign broker."""

    client_id: str
    version: int = 5
    user: str | None = None
    password: bytes | None = None
    filters: tuple[str, ...] = ()
    """The filters to subscribe to; nodes send wants instead."""
    qos: int = 0
    max_bytes: int | None = None
    """Of the largest packet that it takes; None: any."""

    @classmethod
    def of_node(cls, name: str, secret: bytes, max_bytes: int) -> "Greeting":
        """Return the greeting for another node."""
        max_bytes = max_packet_size(max_bytes, name)
        bound = max_bytes if max_bytes < MAX_PACKET else None
        return cls(NODE_PREFIX + name, user=name, password=secret, max_bytes=bound)

    def packet(self, claim: bytes | None = None) -> Connect:
        """Return the CONNECT; `claim`: the trust groups to prove next."""
        properties = NO_PROPERTIES
        if self.version == 5:
            properties = Properties(
                session_expiry=lifecycle.NO_EXPIRY,
                receive_maximum=overlay.WINDOW,
                maximum_packet_size=self.max_bytes,
                request_problem_info=True,
                auth_method=METHOD if claim is not None else None,
                auth_data=claim,
            )
        return Connect(self.client_id, self.version, False, KEEPALIVE, self.user, self.password, None, properties)

    def wish(self, is_new: bool = True) -> Subscribe | None:
        """Return the packets to send once the neighbour has accepted; `is_new`: nothing retained there is known."""
        modern = self.version == 5
        handling = 0 if is_new or not modern else 1  # retained messages would come again at each reconnect
        wanted = tuple(SubscriptionRequest(filter, self.qos, modern, modern, handling) for filter in self.filters)
        return Subscribe(1, wanted) if wanted else None
