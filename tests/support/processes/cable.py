"""A TCP connection that can be cut: what stands between a client and a node in tests of lost connections."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.support.processes.mosquitto import HOST


class Cable:
    """Passes on what comes to its `port` to the port of a node, while it is plugged in."""

    def __init__(self, node_port: int) -> None:
        self.node_port = node_port
        self.port = 0
        self.carried = bytearray()
        """All bytes that have gone over it, in both directions."""
        self.change: Callable[[bytes], bytes] = bytes
        """What it makes of data that it passes on."""
        self._is_plugged = True
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks)

    def cut(self) -> None:
        """End all connections, without a word, and make no new ones."""
        self._is_plugged = False
        for writer in self._writers:
            writer.transport.abort()

    def plug(self, node_port: int | None = None) -> None:
        """Make connections again, to the same node or to another port."""
        self._is_plugged = True
        self.node_port = node_port or self.node_port

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass_on(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_plugged:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(HOST, self.node_port)
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))
        self._writers -= {writer, far_writer}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                self.carried += data
                writer.write(self.change(data))
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
