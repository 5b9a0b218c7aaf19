"""A client that changes its node at random, while others publish, gets what it would have got at one node.

The oracle is small: what was published, by publisher and topic, in order. At QoS 2 the client has each once; at QoS 1 a
message may come again only as a repetition. Packets arrive in any order that connections allow.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.broker.store.store import IN_MEMORY, Store
from penstock.domain import ensemble
from penstock.engine.node import Node
from penstock.engine.rehearsal.peer import Peer
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.wire import packet as mqtt
from penstock.wire.properties import Properties
from tests.support.generators.examples import some
from tests.support.memory.rehearsed import domain

CHAIN = """
nodes:
  a: {listen: ["127.0.0.1:0"]}
  b: {listen: ["127.0.0.1:0"]}
  c: {listen: ["127.0.0.1:0"]}
links: [{between: [a, b]}, {between: [c, b]}]
clients:
  at-a: {node: a}
  at-b: {node: b}
  at-c: {node: c}
  bob: {node: [a, b, c], roams: true}
"""


class Memory:
    """What a client keeps when it changes its connection, as MQTT asks of it."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        self.nodes = nodes
        self.held: dict[int, int] = {}
        """By identifier, the QoS 2 messages that are not released."""
        self.finished: set[int] = set()
        """QoS 2 messages that are released."""
        self.finished_before: set[int] = set()
        """Those finished when a node said for the first time that the session is gone, and on no link then."""
        self.got: list[tuple[str, int, int, bool]] = []
        """Topic, number and QoS of each message; and whether it was marked as a repetition."""
        self.at = ""
        self.absent = 0
        """How often a node had no session."""


def on_links(nodes: Iterable[Node]) -> set[int]:
    """Return the messages that wait to go from one node to another, or whose way there is not acknowledged."""
    neighbours = [neighbour.outbox for node in nodes for neighbour in node.federation.neighbours.values()]
    waiting = [each for outbox in neighbours for each in (*outbox.inflight.values(), *(outbox.queue or ()))]
    return {int(each.event.payload) for each in waiting if each.event.topic.startswith("t/")}


class Roamer(Peer):
    """The client's end at one node; it hears nothing of a node that it has left."""

    def __init__(self, node: str, memory: Memory) -> None:
        super().__init__("bob", node, lambda _: None)
        self.memory = memory

    def _handle(self, packet: mqtt.Packet) -> None:
        memory = self.memory
        if memory.at != self.node:
            return
        if isinstance(packet, mqtt.Connack) and not packet.session_present:
            memory.held.clear()
            memory.absent += 1
            if memory.absent == 2:
                memory.finished_before = memory.finished - on_links(memory.nodes.values())
        elif isinstance(packet, mqtt.Publish):
            if packet.qos == 1 or packet.packet_id not in memory.held:
                memory.got.append((packet.topic, int(packet.payload), packet.qos, packet.dup))
            if packet.qos == 2:
                memory.held[packet.packet_id] = int(packet.payload)
        elif isinstance(packet, mqtt.Pubrel) and packet.packet_id in memory.held:
            memory.finished.add(memory.held.pop(packet.packet_id))
        super()._handle(packet)


class Play:
    """A rehearsal in which everything is done by chance."""

    def __init__(self, chance: Random, text: str, is_stored: bool = False) -> None:
        written = domain(text)
        self.names = tuple(written.nodes)
        self.chance = chance
        stores: dict[str, Any] = {name: Store(Path(IN_MEMORY), "normal") for name in written.nodes} if is_stored else {}
        self.rehearsal = Rehearsal(written, ensemble(written), stores=stores, choose=chance.choice)
        self.assembly = self.rehearsal.assembly
        self.memory = Memory(self.rehearsal.nodes)
        wanted: dict[str, mqtt.SubscriptionRequest] = {}
        wishes: dict[str, Properties] = {}
        for node in self.names:
            self.assembly.peers["bob", node] = Roamer(node, self.memory)
            self.rehearsal.connect(f"at-{node}")
            roamer = self.assembly.peers["bob", node]
            roamer.subscriptions, roamer._wishes = wanted, wishes  # it subscribes again where it has no session
        self.published: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.count = 0
        self.move("a")
        self.assembly.run()
        self.rehearsal.subscribe("bob", "t/#", node="a")

    def move(self, node: str) -> None:
        """Connect to a node; the connection before is cut, or left as it is, or ended with a DISCONNECT."""
        before = self.memory.at
        if before and before != node and ("bob", before) in self.assembly.peers:
            how = self.chance.randrange(4)
            if how == 0:
                self.assembly.break_off(before, "bob")
            elif how == 1 and (before, "bob") in self.assembly.connections:
                self.assembly.peers["bob", before].disconnect()
        self.memory.at = node
        self.assembly.now += 0.001
        subject = self.rehearsal.ensemble.shown(node, "bob")
        assert subject is not None
        self.assembly.join_client(self.assembly.peers["bob", node], subject)

    def leave(self) -> None:
        self.assembly.break_off(self.memory.at, "bob")

    def publish(self) -> None:
        node, qos = self.chance.choice(self.names), self.chance.choice((1, 2))
        topic = f"t/{node}/{self.chance.randrange(2)}"
        self.count += 1
        self.published[topic, qos].append(self.count)
        self.rehearsal.publish(f"at-{node}", topic, str(self.count).encode(), qos=qos)

    def step(self, packets: int) -> None:
        """Let some packets arrive."""
        for _ in range(packets):
            waiting = [wire for each in self.assembly.connections.values() for wire in each.wires if wire]
            if not waiting:
                self.assembly.now += 0.06
                for node in self.rehearsal.nodes.values():
                    self.assembly.turn(node)
                continue
            self.chance.choice(waiting).hand_over()
            self.assembly.end_closed()

    def until_acknowledged(self) -> None:
        """Let what a publisher has just sent be acknowledged."""
        for name in self.names:
            connection = self.assembly.connections[name, f"at-{name}"]
            while any(connection.wires):
                for wire in connection.wires:
                    if wire:
                        wire.hand_over()

    def cut_or_restore(self) -> None:
        link = self.chance.choice(self.rehearsal.ensemble.connections)
        ends = frozenset(link.between)
        if ends in self.assembly.cut:
            self.assembly.cut.discard(ends)
            self.assembly.dial(link)
        else:
            self.assembly.cut.add(ends)
            self.assembly.break_off(*link.between)

    def kill(self, name: str) -> None:
        """End a node without a word, and start it with what its store has."""
        self.assembly.kill(name)
        self.assembly.start(name)
        for link in self.rehearsal.ensemble.connections:
            if name in link.between:
                self.assembly.dial(link)
        subject = self.rehearsal.ensemble.shown(name, f"at-{name}")
        assert subject is not None
        self.assembly.join_client(self.assembly.peers[f"at-{name}", name], subject)
        while not self.assembly.peers[f"at-{name}", name].is_open:
            self.step(1)

    def check_all_came(self) -> None:
        """Everything has come. At QoS 2 it has come once, unless the client was told that its session is gone: what it
        had not finished by then, or was still on a link, may have come again, and what was published later.
        """
        copies = Counter(number for _, number, _, _ in self.memory.got)
        missing = {number for each in self.published.values() for number in each} - copies.keys()
        assert not missing, missing
        twice = {number for _, number, qos, _ in self.memory.got if qos == 2 and copies[number] > 1}
        if self.memory.absent == 1:
            assert not twice, twice
        assert not twice & self.memory.finished_before
        self.check_places()

    def end(self) -> None:
        for link in self.rehearsal.ensemble.connections:
            self.assembly.cut.discard(frozenset(link.between))
            self.assembly.dial(link)
        self.move(self.chance.choice(self.names))
        self.assembly.run()
        for _ in range(10):
            if self.assembly.peers["bob", self.memory.at].is_open:
                break
            self.rehearsal.wait(1)
            self.move(self.memory.at)  # as any client does that is refused
            self.assembly.run()
        assert self.assembly.peers["bob", self.memory.at].is_open

    def check(self, is_in_order: bool = True) -> None:
        """Compare with what was published."""
        got: dict[tuple[str, int], list[int]] = defaultdict(list)
        seen: set[int] = set()
        for topic, number, qos, is_again in self.memory.got:
            if number in seen:
                assert qos == 1, f"{number} came twice"
                assert is_again or not is_in_order, f"{number} came as if it were new"
                continue
            seen.add(number)
            got[topic, qos].append(number)
        for key, numbers in self.published.items():
            assert (got[key] if is_in_order else sorted(got[key])) == numbers, key
        assert got.keys() <= self.published.keys()
        self.check_places()

    def check_places(self) -> None:
        """There is one session, at the node of the client, and nothing is under way."""
        for name, node in self.rehearsal.nodes.items():
            session = node.sessions.get("bob")
            assert (session is not None) == (name == self.memory.at), name
            assert not node.federation.moves.leaving
            if session is not None:
                assert session.connection.moving is None
                assert session.outbox.behind is None


@settings(max_examples=some(60))
@given(st.integers(0, 2**32))
@pytest.mark.parametrize("steps", [40])
def test_nothing_is_lost_nor_twice_nor_out_of_order(steps: int, seed: int) -> None:
    chance = Random(seed)
    play = Play(chance, CHAIN)
    for _ in range(steps):
        act = chance.randrange(10)
        if act < 5:
            play.publish()
        elif act < 7:
            play.move(chance.choice(play.names))
        elif act < 8:
            play.leave()
        play.step(chance.randrange(12))
    play.end()
    play.check()
    assert play.memory.absent == 1, "only the first time there is no session"


def play_at_random(seed: int, is_killed: bool) -> None:
    """Move a client and publish while links are cut, and nodes are killed as well if asked for."""
    chance = Random(seed)
    play = Play(chance, CHAIN, is_stored=is_killed)
    for _ in range(40):
        act = chance.randrange(12)
        if act < 5:
            play.publish()
            if is_killed:
                play.until_acknowledged()
        elif act < 7:
            play.move(chance.choice(play.names))
        elif act < 8:
            play.leave()
        elif act == 8 or (act == 9 and not is_killed):
            play.cut_or_restore()
        elif act == 9:
            play.kill(chance.choice(play.names))
        play.step(chance.randrange(12))
    play.end()
    play.check_all_came()


@settings(max_examples=some(40))
@given(st.integers(0, 2**32))
@example(27)  # what a session that is joined has sent is not sent again
@example(42)  # the client takes messages of one session for repetitions of another's
@example(68)  # two CONNECTs at the same time
@example(616)  # two sessions that go to each other's node
def test_with_links_cut_everything_comes_and_the_sessions_are_joined(seed: int) -> None:
    play_at_random(seed, is_killed=False)


@settings(max_examples=some(40))
@given(st.integers(0, 2**32))
@example(11023)  # packet identifiers after a restart are those of what comes from the other node
@example(80)  # packet identifiers after a restart are those of another session
def test_with_links_cut_and_nodes_killed_nothing_acknowledged_is_lost(seed: int) -> None:
    play_at_random(seed, is_killed=True)
