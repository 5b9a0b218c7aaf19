"""The journal says of each event whom it was sent to and in which form: byte for byte what their connections got."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from penstock.wire.packet import (
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    SubscriptionRequest,
)
from penstock.wire.properties import NO_PROPERTIES, Properties
from tests.support.clients.peer import Peer
from tests.support.generators.examples import some
from tests.support.generators.governed import (
    FILTERS,
    HELD_BACK,
    PUBLISHERS,
    READERS,
    played,
    random_domain,
    random_messages,
)
from tests.support.memory.recording import Written, differing, seen_by, sent, sockets
from tests.support.processes.commands import PATIENCE
from tests.support.processes.federation import together
from tests.support.processes.mosquitto import HOST


@pytest.mark.fuzz
def test_what_is_recorded_as_sent_is_what_sockets_got(tmp_path: Path) -> None:
    for seed in range(some(60)):
        assert _differing(Random(seed), tmp_path / str(seed)) == (), f"seed {seed}"


def _differing(random: Random, folder: Path) -> tuple[str, ...]:
    """What a journal of random traffic in a random domain says, and sockets do not; and the other way round."""
    with sockets() as got:
        domain, rehearsal = played(random)
    journal = Written(folder)
    journal.add_all(rehearsal.nodes.values(), journal.keep(domain))
    return differing(sent(folder), got)


# --- with live nodes

VERSIONS = {"bob": 5, "eve": 4, "dan": 5}


class Reader:
    """A client of a live node whose session outlives its connections; it acknowledges all that it gets."""

    def __init__(self, name: str, port: int, got: Counter[bytes]) -> None:
        self.name = name
        self.version = VERSIONS[name]
        self._port = port
        self._got = got
        self._seen: dict[int, bytes] = {}
        self._peer: Peer | None = None
        self._reading: asyncio.Task[None] | None = None

    async def come(self) -> None:
        self._peer = await Peer.open(HOST, self._port, self.version)
        lasting = Properties(session_expiry=1000) if self.version == 5 else NO_PROPERTIES
        await self._peer.connect(self.name, clean_start=False, properties=lasting)
        self._reading = asyncio.create_task(self._read(self._peer))

    async def go(self) -> None:
        assert self._peer is not None
        assert self._reading is not None
        await self._peer.send(Disconnect())
        await self._reading  # all that is still under way
        await self._peer.close()
        self._peer = None

    async def subscribe(self, filter: str, qos: int) -> None:
        if self._peer is not None:
            await self._peer.send(Subscribe(self._peer.new_id(), (SubscriptionRequest(filter, qos),)))

    async def toggle(self) -> None:
        await (self.come() if self._peer is None else self.go())

    async def stay(self) -> None:
        if self._peer is None:
            await self.come()

    async def _read(self, peer: Peer) -> None:
        while (packet := await peer.next(10 * PATIENCE)) is not None:
            if isinstance(packet, Pubrel):
                await peer.send(Pubcomp(packet.packet_id))
            elif isinstance(packet, Publish):
                seen = seen_by(self.name, packet, has_properties=self.version == 5)
                if not packet.dup or self._seen.get(packet.packet_id) != seen:
                    self._got[seen] += 1
                self._seen[packet.packet_id] = seen
                if packet.qos:
                    await peer.send(Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id))


@pytest.mark.parametrize("seed", range(some(2)))
async def test_live_nodes_record_what_sockets_got(seed: int) -> None:
    random, got = Random(seed), Counter[bytes]()
    settings = random_domain(random, 0.7, "nm") | {"journal": {"folder": "journal", "flush": 0.05}}
    settings["nodes"] = {name: {"store": "memory"} for name in settings["nodes"]}
    with together(settings, links=1) as nodes:
        readers = [Reader(name, nodes.ports[settings["clients"][name]["node"]], got) for name in READERS]
        for reader in readers:
            await reader.come()
        publishers = [await Peer.open(HOST, nodes.ports["n"]) for _ in PUBLISHERS]
        for name, peer in zip(PUBLISHERS, publishers, strict=True):
            await peer.connect(name)
        for turn in range(60):
            for reader in readers:
                for filter in random.sample(FILTERS, 3) if not turn else ():
                    await reader.subscribe(filter, random.randrange(3))
            if random.random() < 0.2:
                reader = random.choice(readers)
                await reader.toggle()
                await reader.subscribe(random.choice(FILTERS), random.randrange(3))
            publisher = random.choice(publishers)
            for topic, payload in random_messages(random):
                pairs = Properties(user_properties=random.choice([(), (("unit", "C"),)]))
                await publisher.publish(topic, payload, random.randrange(3), random.random() < 0.2, pairs)
        for reader in readers:
            await reader.stay()
        await asyncio.sleep(HELD_BACK + 0.5)
        for reader in readers:
            await reader.go()
        for publisher in publishers:
            await publisher.close()
        nodes.stop()
        without = {name for name, version in VERSIONS.items() if version == 4}
        assert differing(sent(nodes.folder / "journal", without), got) == ()
        assert got
