"""The trust paper's nodes, live in this process, with keys and tokens; and a neighbour that says what it is told to."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from penstock.broker.federation import Federation
from penstock.domain import Domain
from penstock.engine.federation.dialling import Greeting
from penstock.engine.node import Node
from penstock.engine.trust import announcements
from penstock.policy.tokens.keys import KeySet, SigningKey
from penstock.policy.tokens.token import Party, Token, issue, parse_token, sign
from penstock.wire.framing import MAX_PACKET
from penstock.wire.packet import Connack, Connect, Disconnect, Packet, Pingreq, Pingresp, Puback, Publish
from penstock.wire.properties import NO_PROPERTIES, Properties
from tests.support.clients.peer import Peer
from tests.support.memory.tokens import CLAIMS, KEY_SET, KEYS
from tests.support.processes.commands import PATIENCE
from tests.support.processes.mosquitto import HOST

SECRET = "what nodes show each other"
KEYS_FILE, REVOKED_FILE = "keys.json", "revoked"
ASKS_WHY = Properties(request_problem_info=True)

Pairs = Iterable[tuple[str, str]]


def write_keys(folder: Path, names: Iterable[str], public: KeySet = KEY_SET) -> None:
    """The files that a domain with tokens names."""
    for name in names:
        if not (folder / f"{name}.pem").exists():
            KEYS[name].write(folder / f"{name}.pem")
    public.write(folder / KEYS_FILE)
    (folder / REVOKED_FILE).touch()


def secured(folder: Path, pairs: Pairs, tokens: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A domain of these links, whose nodes have tokens; the files that it names are written."""
    pairs = list(pairs)
    names = sorted({name for pair in pairs for name in pair})
    write_keys(folder, names)
    own = more.pop("nodes", {})
    usual = {"listen": f"{HOST}:0", "store": "memory"}
    return {
        "domain": "plant",
        "nodes": {name: {**usual, "signing_key": str(folder / f"{name}.pem"), **own.get(name, {})} for name in names},
        "links": [{"between": list(pair), "secret": SECRET} for pair in pairs],
        "tokens": {"keys": str(folder / KEYS_FILE), "revoked": str(folder / REVOKED_FILE), **(tokens or {})},
        **more,
    }


def token_of(
    client: str, node: str = "b1", key: SigningKey | None = None, seconds: int = 3600, **changes: Any
) -> Token:
    """A token of a node for a client, to publish and subscribe `home/#` for an hour unless said."""
    now = int(time.time())
    usual = {
        "issuer": node,
        "subject": Party("client", client),
        "publish": frozenset({"home/#"}),
        "subscribe": frozenset({"home/#"}),
        "issued": now - 10,
        "not_before": now - 10,
        "expiry": now + seconds,
        "id": f"t-{client}",
    }
    return issue(replace(CLAIMS, **{**usual, **changes}), key or KEYS[node])


async def until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.01)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        said = vars(record)
        told = (f"{name}={said[name]}" for name in ("node", "client", "reason", "cause", "neighbour") if said.get(name))
        self.lines.append(" ".join((record.getMessage(), *told)))


class Live:
    """The nodes, their log, and time."""

    def __init__(self, federation: Federation, log: _Lines, clocks: Mapping[str, float]) -> None:
        self.federation = federation
        self._log = log
        self._ahead = 0.0
        for name, server in federation.servers.items():
            server.now = partial(self.now, clocks.get(name, 0.0))

    def now(self, ahead: float = 0.0) -> float:
        return time.time() + self._ahead + ahead

    def later(self, seconds: float) -> None:
        """Let it be later at all nodes."""
        self._ahead += seconds
        for server in self.federation.servers.values():
            server._tick()

    def node(self, name: str) -> Node:
        return self.federation.servers[name].node

    def port(self, name: str) -> int:
        return self.federation.servers[name].listeners.bound[0].port

    def logged(self, *parts: str) -> list[str]:
        """Lines of the log that have all of these."""
        return [line for line in self._log.lines if all(part in line for part in parts)]

    async def until_logged(self, *parts: str) -> None:
        await until(lambda: self.logged(*parts), f"{parts} in {self._log.lines[-5:]}")

    async def reload(self, plain: Mapping[str, Any]) -> None:
        await self.federation.reload(Domain.model_validate(plain))

    async def linked(self, *pairs: tuple[str, str]) -> None:
        for first, second in pairs:
            ends = self.node(first).federation.neighbours[second], self.node(second).federation.neighbours[first]
            await until(partial(_are_up, ends), f"{first} - {second} is up")

    async def client(self, at: str, name: str, token: Token | None = None, version: int = 5, **fields: Any) -> Peer:
        """A client that shows a token of the node, unless another is given."""
        peer = await Peer.open(HOST, self.port(at), version)
        shown = token or token_of(name, at)
        if version == 5:
            fields.setdefault("properties", ASKS_WHY)
        await peer.connect(name, password=shown.text, **{"username": name, **fields})
        return peer

    async def settled(self, subscriber: Peer, publisher: Peer, topic: str = "home/settle") -> None:
        """Go on once what the subscriber wants is known where the publisher is. It has subscribed to `home/#`."""
        end, count = time.monotonic() + PATIENCE, 0
        while True:
            assert time.monotonic() < end, "an event has come through"
            count += 1
            await publisher.publish(topic, str(count).encode(), 1)
            with contextlib.suppress(TimeoutError):
                message = await subscriber.next(0.05)
                while not (isinstance(message, Publish) and message.payload == str(count).encode()):
                    assert message is not None
                    message = await subscriber.next(5.0)
                return


def _are_up(ends: Iterable[Any]) -> bool:
    return all(end.outlet is not None for end in ends)


@contextlib.asynccontextmanager
async def live(plain: Mapping[str, Any], *names: str, clocks: Mapping[str, float] | None = None) -> AsyncIterator[Live]:
    """The nodes of a domain, or some of them, and the links between those made. `clocks`: which are how much ahead."""
    domain = Domain.model_validate(plain)
    names = names or tuple(domain.nodes)
    log = _Lines()
    logger = logging.getLogger("penstock")
    before = logger.level
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    federation = Federation(domain, names, None)
    try:
        found = Live(federation, log, clocks or {})
        await federation.start()
        await found.linked(*(one.between for one in domain.links if set(one.between) <= set(names)))
        yield found
    finally:
        await federation.stop()
        logger.removeHandler(log)
        logger.setLevel(before)


class Neighbour(Peer):
    """A peer that has shown a link's secret, so that a node takes it for its neighbour: it may say what it likes."""

    told: list[dict[str, Any]]
    """What the node has told it of tokens and ratings."""
    tokens: dict[str, Token]
    bound: dict[str, str]

    @classmethod
    async def join(
        cls, at: Live, node: str, name: str = "b1", registers: bool = True, max_bytes: int | None = None
    ) -> Self:
        return await cls.dial(at.port(node), name, registers, max_bytes)

    @classmethod
    async def dial(cls, port: int, name: str, registers: bool = True, max_bytes: int | None = None) -> Self:
        peer = await cls.open(HOST, port)
        peer.told, peer.tokens, peer.bound = [], {}, {}
        greeting = Greeting.of_node(name, SECRET.encode(), MAX_PACKET)
        await peer.send(greeting._replace(max_bytes=max_bytes).packet())
        await peer.expect(Connack, reason=0)
        if registers:
            given = parse_token(await peer.hears("gives"))
            await peer.says(shows=sign(given, name, KEYS[name]).text.decode())
        return peer

    async def next(self, patience: float = PATIENCE) -> Packet | None:
        """The next packet that is not between nodes."""
        while True:
            packet = await super().next(patience)
            if not isinstance(packet, Publish) or not packet.topic.startswith("$penstock/"):
                return packet
            self._hears(packet)

    def _hears(self, packet: Publish) -> None:
        if packet.topic == announcements.TOPIC:
            said = json.loads(packet.payload)
            self.told.append(said)
            if "token" in said:
                token = parse_token(said["token"])
                self.tokens[token.digest] = token
            if "bind" in said:
                topic, digest = said["bind"]
                assert digest in self.tokens, "named before it was told"
                self.bound[topic] = digest

    def token_of(self, message: Publish) -> Token:
        """The token that an event has: as it says, or as its topic is bound. It has been told before."""
        said = dict(message.properties.user_properties).get("penstock-token") or self.bound[message.topic]
        return self.tokens[said]

    async def hears(self, what: str) -> Any:
        """The next thing of a kind that the node tells."""
        while True:
            for place, one in enumerate(self.told):
                if what in one:
                    return self.told.pop(place)[what]
            packet = await Peer.next(self)
            assert isinstance(packet, Publish), packet
            self._hears(packet)

    async def says(self, **what: Any) -> None:
        """Tell the node something of tokens or ratings, and wait until it has taken it."""
        await self.says_raw(json.dumps(what).encode())

    async def says_raw(self, payload: bytes) -> None:
        await self.send(Publish(announcements.TOPIC, payload), Pingreq())
        await self.expect(Pingresp)

    async def is_cut_off(self, payload: bytes, reason: int) -> str:
        """The node ends the connection because of what it is told; its words."""
        await self.send(Publish(announcements.TOPIC, payload))
        return await self.hears_the_end(reason)

    async def hears_the_end(self, reason: int) -> str:
        packet = await self.next()
        assert isinstance(packet, Disconnect), packet
        assert packet.reason == reason, packet
        return packet.properties.reason_string or ""

    async def passes_on(self, topic: str, payload: bytes = b"", digest: str = "", **fields: Any) -> tuple[int, str]:
        """Publish at QoS 1, naming a token or not; the reason code of the answer, and its words."""
        said = Properties(user_properties=(("penstock-token", digest),)) if digest else NO_PROPERTIES
        number = self.new_id()
        await self.send(Publish(topic, payload, 1, packet_id=number, properties=said, **fields))
        answer = await self.expect(Puback, packet_id=number)
        return answer.reason, answer.properties.reason_string or ""

    async def wants(self, *filters: str) -> None:
        """Tell the node what somebody beyond wants."""
        said = {"begins": "wants", "add": [{"filter": one} for one in filters], "ends": "wants"}
        await self.send(Publish("$penstock/interest", json.dumps(said).encode()))


async def refused_connect(live: Live, at: str, packet: Connect, version: int = 5) -> Connack:
    """What the node says to a CONNECT that it refuses."""
    peer = await Peer.open(HOST, live.port(at), version)
    await peer.send(packet)
    answer = await peer.expect(Connack)
    await peer.close()
    return answer
