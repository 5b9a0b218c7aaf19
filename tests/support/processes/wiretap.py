"""A recording proxy on a TCP connection: shows which bytes have crossed it, and can hold them back."""

import socket
import threading
from types import TracebackType
from typing import Self

from tests.support.processes.mosquitto import HOST


class Wiretap:
    """Passes on what comes to its `port` to another port, in both directions, and keeps every byte.

    Between `hold` and `release` nothing comes through from those who connect: the link is slow, and keeps its order.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self.forth = bytearray()
        """All bytes from those who connect."""
        self.back = bytearray()
        """All bytes to them."""
        self._open = threading.Event()
        self._open.set()
        self._server = socket.create_server((HOST, 0))
        self.port: int = self._server.getsockname()[1]
        self._sockets = [self._server]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for one in self._sockets:
            one.close()

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            try:
                far = socket.create_connection((HOST, self._target_port))
            except OSError:
                near.close()
                continue
            self._sockets += [near, far]
            always = threading.Event()
            always.set()
            for way in ((near, far, self.forth, self._open), (far, near, self.back, always)):
                threading.Thread(target=_copy, args=way, daemon=True).start()


def _copy(source: socket.socket, target: socket.socket, record: bytearray, is_open: threading.Event) -> None:
    try:
        while data := source.recv(65536):
            is_open.wait()
            record += data
            target.sendall(data)
    except OSError:
        pass
    finally:
        for one in (source, target):
            one.close()
