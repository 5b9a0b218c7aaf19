"""A live node and many clients that send valid packets in invalid orders, changed packets, and half packets.

    python -m tests.fuzz.session_fuzz --seconds 60 --seed 1

The node must go on answering a client that behaves, within bounds of memory and files, without an error of its own in
its log; and must stop and start again with the store that it has after all this.
"""

import argparse
import asyncio
import contextlib
import random
import socket
import struct
import sys
import time
from dataclasses import dataclass

from tests.fuzz.wild_packets import Wild
from tests.support.clients.peer import Peer
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import LiveNode, open_files, running

CLIENTS = 40
PAUSE = 0.03
"""Seconds that a client waits on average before it sends on: this is about order, not about speed."""
MEMORY_BOUND = 200 * 2**20
"""How much larger the node may become: what its limits let `CLIENTS` clients and their sessions use."""
SETTINGS = {
    "store": "main.db",
    "synchronous": "normal",
    "log": {"level": "warning"},
    "limits": {
        "queued_messages": 100,
        "queued_bytes": "1 MiB",
        "outbox_bytes": "256 KiB",
        "retained_messages": 1000,
        "connect_timeout": 2,
    },
}


@dataclass
class Tally:
    connections: int = 0
    packets: int = 0
    checks: int = 0
    most_memory: int = 0


class Fuzz:
    """One run against one node."""

    def __init__(self, node: LiveNode, seed: int, seconds: float) -> None:
        self.node = node
        self.tally = Tally()
        self._seeds = random.Random(seed)
        self._end = time.monotonic() + seconds

    async def run(self) -> Tally:
        """Raises AssertionError when the node does not do what it should."""
        memory, files = self.node.rss(), open_files(self.node)
        everybody = [self._client(random.Random(self._seeds.random())) for _ in range(CLIENTS)]
        await asyncio.gather(self._watch(memory), *everybody)
        await self._check()
        end = time.monotonic() + 20
        while open_files(self.node) > files + 5:
            assert time.monotonic() < end, f"{open_files(self.node)} files are open, there were {files}"
            await asyncio.sleep(0.1)
        return self.tally

    async def _watch(self, memory: int) -> None:
        while time.monotonic() < self._end:
            await self._check()
            self.tally.most_memory = max(self.tally.most_memory, self.node.rss() - memory)
            assert self.tally.most_memory < MEMORY_BOUND, f"the node has grown by {self.tally.most_memory} bytes"
            await asyncio.sleep(0.2)

    async def _check(self) -> None:
        """A client that behaves gets what is its due."""
        assert self.node.is_alive, f"the node has ended:\n{self.node.log[-3000:]}"
        assert "Traceback" not in self.node.log, self.node.log[-3000:]
        self.tally.checks += 1
        peer = await Peer.open(HOST, self.node.port)
        await peer.connect("well-behaved")
        topic = f"check/{self.tally.checks}"
        await peer.subscribe(topic, qos=2)
        for qos in (0, 1, 2):
            await self._publish_to_itself(peer, topic, qos)
        await peer.disconnect()

    async def _publish_to_itself(self, peer: Peer, topic: str, qos: int) -> None:
        other = await Peer.open(HOST, self.node.port)
        await other.connect()
        await other.publish(topic, b"%d" % qos, qos)
        await peer.receive(topic, payload=b"%d" % qos, qos=qos)
        await other.disconnect()

    # --- clients that do not behave

    async def _client(self, chance: random.Random) -> None:
        while time.monotonic() < self._end:
            with contextlib.suppress(ConnectionError):
                await self._life(chance)

    async def _life(self, chance: random.Random) -> None:
        """One connection."""
        reader, writer = await asyncio.open_connection(HOST, self.node.port)
        self.tally.connections += 1
        deaf = chance.random() < 0.1
        reading = None if deaf else asyncio.create_task(_read_all(reader))
        try:
            wild = Wild(chance)
            data = wild.greeting()
            for _ in range(chance.randrange(60)):
                data += wild.packet()
                self.tally.packets += 1
                if chance.random() < 0.4:
                    await self._send(chance, writer, data)
                    data = b""
                if writer.is_closing() or (reading is not None and reading.done()):
                    break
            if data and not writer.is_closing():
                await self._send(chance, writer, data)
        finally:
            if chance.random() < 0.3:
                _reset_on_close(writer)
            writer.close()
            if reading is not None:
                reading.cancel()

    async def _send(self, chance: random.Random, writer: asyncio.StreamWriter, data: bytes) -> None:
        """In one piece or in several."""
        cut = chance.randrange(len(data) + 1) if data and chance.random() < 0.2 else 0
        for part in (data[:cut], data[cut:]):
            writer.write(part)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(writer.drain(), 1)
        await asyncio.sleep(chance.expovariate(1 / PAUSE))


async def _read_all(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(ConnectionError):
        while await reader.read(65536):
            pass


def _reset_on_close(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # it may be closed already
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def fuzz(seconds: float, seed: int) -> Tally:
    """Start a node, fuzz it, stop it, and see that it starts again."""
    with running(SETTINGS) as node:
        run = Fuzz(node, seed, seconds)
        tally = await run.run()
        assert node.stop() == 0, f"the node did not stop well:\n{node.log[-3000:]}"
        node.start()
        await Fuzz(node, seed, 0).run()
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.session_fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    print(f"fuzzing for {options.seconds:.0f} s with --seed {options.seed}", flush=True)
    try:
        tally = asyncio.run(fuzz(options.seconds, options.seed))
    except AssertionError as error:
        print(f"failed with --seed {options.seed}: {error}", file=sys.stderr)
        return 1
    grown = tally.most_memory / 2**20
    print(f"{tally.connections} connections, {tally.packets} packets, {tally.checks} checks, grown by {grown:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
