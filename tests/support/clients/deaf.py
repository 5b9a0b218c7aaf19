"""Clients that do not read, and floods."""

import socket
import time

from penstock.wire.codec import encode
from penstock.wire.packet import Connect, Subscribe, SubscriptionRequest
from penstock.wire.properties import Properties
from tests.support.processes.mosquitto import HOST


class Deaf:
    """A client that reads its CONNACK and SUBACK, and nothing after them."""

    def __init__(
        self,
        port: int,
        filter: str = "",
        qos: int = 0,
        client_id: str = "",
        lasting: bool = False,
        clean: bool = True,
    ) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(20)
        self.socket.connect((HOST, port))
        properties = Properties(session_expiry=600 if lasting else None)
        self.socket.sendall(encode(Connect(client_id, 5, clean, properties=properties), 5))
        self._skip_packet()
        if filter:
            self.socket.sendall(encode(Subscribe(1, (SubscriptionRequest(filter, qos),)), 5))
            self._skip_packet()

    def _skip_packet(self) -> None:
        _, length = self.socket.recv(2, socket.MSG_WAITALL)
        assert len(self.socket.recv(length, socket.MSG_WAITALL)) == length

    def floods(self, packet: bytes, limit: int) -> int:
        """Send the packet again and again until the node takes no more for a second, or `limit` bytes are sent."""
        chunk = packet * max(1, 65536 // len(packet))
        self.socket.settimeout(1)
        sent = 0
        try:
            while sent < limit:
                self.socket.sendall(chunk)
                sent += len(chunk)
        except TimeoutError:
            pass
        return sent

    def close(self) -> None:
        self.socket.close()


def is_closed(port: int, data: bytes, patience: float = 20.0) -> bytes:
    """Send bytes and read until the node closes the connection; what it said. Raises TimeoutError if it does not."""
    end = time.monotonic() + patience
    answer = b""
    with socket.create_connection((HOST, port)) as client:
        try:
            client.sendall(data)
            while True:
                client.settimeout(max(0.01, end - time.monotonic()))
                chunk = client.recv(65536)
                if not chunk:
                    return answer
                answer += chunk
        except ConnectionError:
            return answer
