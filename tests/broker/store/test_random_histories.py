"""Random histories with commits that take their time, fail, and are cut short by the end of the process.

What is promised: nothing that was acknowledged is lost, no QoS 2 message comes twice, no packet leaves before what it
promises is on disk. The clients keep their side: they repeat what was not acknowledged.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.broker.store.store import Store
from penstock.engine.ledger import Changes
from penstock.engine.sessions import outbox
from penstock.engine.sessions.outbox import flush
from penstock.engine.sessions.session import Session
from penstock.model.topic import matches
from penstock.wire.packet import (
    Connack,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
)
from penstock.wire.session import RELEASED
from tests.support.generators.examples import some
from tests.support.memory.node import Client, MemoryNode
from tests.support.models.invariants import check_node
from tests.support.models.stored_state import Disk, durable_state, read_disk

PUBLISHERS = ("p0", "p1")
READERS = ("r0", "r1")
NAMES = (*PUBLISHERS, *READERS)
TOPICS = ("a", "b")
FILTERS = ("a", "b", "#")
IDS = (1, 2, 3)


@dataclass
class Sent:
    """A publication on its way in, as its publisher keeps it."""

    packet: Publish
    has_pubrec: bool = False


@dataclass
class Life:
    """One client, which outlives connections and nodes."""

    client: Client | None = None
    out: dict[int, Sent] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)
    """QoS 2 packet identifiers that were received and not released."""
    got: Counter[bytes] = field(default_factory=Counter)
    answers: list[Packet] = field(default_factory=list)
    asked: dict[int, str] = field(default_factory=dict)
    """Filters of SUBSCRIBE packets that are not answered."""


class Promises(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = Store(Path(":memory:"), "normal")
        self.disk = Disk()
        self.lives = {name: Life() for name in NAMES}
        self.readers_of: dict[bytes, dict[str, int]] = {}
        """For each payload the readers that must get it, with the lowest QoS at which it was ever theirs."""
        self.settled: set[tuple[str, bytes]] = set()
        self.acknowledged: set[bytes] = set()
        self.count = 0
        self._start()

    def teardown(self) -> None:
        self.store.close()

    def _start(self) -> None:
        self.joined = MemoryNode(durable=True, commits=False)
        self.store.load(self.joined.node, self.joined.now)
        self.committing: tuple[Changes, list[tuple[Session, object, bytes]]] | None = None
        self.expected: object = None

    # --- clients

    @initialize(filters=st.tuples(*[st.sampled_from(FILTERS)] * 2), qos=st.tuples(*[st.integers(1, 2)] * 2))
    def begin(self, filters: tuple[str, ...], qos: tuple[int, ...]) -> None:
        for name in NAMES:
            self.connect(name)
        for name, filter, level in zip(READERS, filters, qos, strict=True):
            self.subscribe(name, filter, level)

    @rule(name=st.sampled_from(NAMES))
    def connect(self, name: str) -> None:
        """Come, or come back, and repeat what was not acknowledged."""
        life = self.lives[name]
        if life.client is not None:
            return
        life.client = self.joined.connect(name, clean_start=False, session_expiry=0xFFFFFFFF)
        life.asked.clear()
        life.answers.clear()
        for packet_id, sent in sorted(life.out.items()):
            self._send(name, Pubrel(packet_id) if sent.has_pubrec else _repeated(sent.packet))

    @rule(name=st.sampled_from(NAMES))
    def lose(self, name: str) -> None:
        life = self.lives[name]
        if life.client is not None:
            life.client.lose()
            life.client = None

    @rule(name=st.sampled_from(READERS), filter=st.sampled_from(FILTERS), qos=st.integers(1, 2))
    def subscribe(self, name: str, filter: str, qos: int) -> None:
        client = self.lives[name].client
        if client is not None:
            client.subscribe(filter, qos, retain_handling=2)
            self.lives[name].asked[client.last_id] = filter

    @rule(
        name=st.sampled_from(PUBLISHERS),
        topic=st.sampled_from(TOPICS),
        qos=st.integers(1, 2),
        packet_id=st.sampled_from(IDS),
    )
    def publish(self, name: str, topic: str, qos: int, packet_id: int) -> None:
        life = self.lives[name]
        if life.client is None or packet_id in life.out:
            return
        self.count += 1
        packet = Publish(topic, b"%d" % self.count, qos, packet_id=packet_id)
        life.out[packet_id] = Sent(packet)
        self._send(name, packet)

    def _send(self, name: str, packet: Publish | Pubrel) -> None:
        client = self.lives[name].client
        assert client is not None
        if isinstance(packet, Publish):
            held = self.joined.node.sessions[name].received or ()
            if packet.qos == 1 or packet.packet_id not in held:
                self._expect(packet)
        client.sends(packet)

    def _expect(self, packet: Publish) -> None:
        """The node takes it for new: whoever subscribes now must get it."""
        before = self.readers_of.get(packet.payload, {})
        readers = self.readers_of[packet.payload] = {}
        for reader in READERS:
            session = self.joined.node.sessions.get(reader)
            subscriptions = session.subscriptions.values() if session is not None else ()
            levels = [subscription.qos for subscription in subscriptions if matches(subscription.filter, packet.topic)]
            if levels:
                readers[reader] = min(packet.qos, max(levels), before.get(reader, 2))

    @rule(name=st.sampled_from(NAMES))
    def answer(self, name: str) -> None:
        """Send the acknowledgements that are due."""
        life = self.lives[name]
        if life.client is not None and life.answers:
            answers, life.answers = life.answers, []
            life.client.sends(*answers)

    # --- the store

    @precondition(lambda self: self.committing is None and self.joined.node.ledger.changes)
    @rule()
    def begin_commit(self) -> None:
        self.expected = durable_state(self.joined.node)
        self.committing = self.joined.node.ledger.take()
        self.store.write(self.committing[0])

    @precondition(lambda self: self.committing is None and not self.joined.node.ledger.changes)
    @rule()
    def let_go(self) -> None:
        """Nothing has changed that is not on disk: nothing has to wait."""
        outbox.release_deferred(self.joined.node, self.joined.node.ledger.take()[1])
        flush(self.joined.node)

    @precondition(lambda self: self.committing is not None)
    @rule()
    def end_commit(self) -> None:
        assert self.committing is not None
        self.store.commit()
        self.disk = read_disk(self.store)
        if self.expected is not None:
            assert self._loaded() == self.expected
        deferred, self.committing = self.committing[1], None
        outbox.release_deferred(self.joined.node, deferred)
        flush(self.joined.node)

    @precondition(lambda self: self.committing is not None)
    @rule()
    def fail_to_commit(self) -> None:
        """The disk refuses; the same is tried again, with what has happened since left for the next time."""
        assert self.committing is not None
        self.store.rollback()
        self.expected = None  # what is written now may be newer than the changes: states only move on
        self.store.write(self.committing[0])

    def _loaded(self) -> object:
        joined = MemoryNode(durable=True)
        self.store.load(joined.node, joined.now)
        check_node(joined.node)
        return durable_state(joined.node)

    @rule()
    def kill(self) -> None:
        """The process ends; another begins with what is on disk."""
        self.store.rollback()
        for life in self.lives.values():
            life.client = None
        self._start()

    # --- what must hold

    @invariant()
    def the_node_agrees_with_itself(self) -> None:
        check_node(self.joined.node)

    @invariant()
    def what_came_was_on_disk(self) -> None:
        for name, life in self.lives.items():
            for packet in life.client.take() if life.client is not None else ():
                self._check(name, life, packet)

    def _check(self, name: str, life: Life, packet: Packet) -> None:
        match packet:
            case Connack():
                assert name in self.disk.sessions
            case Suback():
                assert (name, life.asked.pop(packet.packet_id)) in self.disk.subscriptions
            case Puback() | Pubrec():
                self._check_kept(name, life, packet)
            case Pubcomp():
                assert (name, packet.packet_id) not in self.disk.received
                life.out.pop(packet.packet_id, None)
            case Publish():
                self._read(name, life, packet)
            case Pubrel():
                assert packet.reason or self.disk.state_of(name, packet.packet_id) == RELEASED
                life.held.discard(packet.packet_id)
                life.answers.append(Pubcomp(packet.packet_id))

    def _check_kept(self, name: str, life: Life, packet: Puback | Pubrec) -> None:
        sent = life.out.get(packet.packet_id)
        if sent is None:
            return  # a second answer to a message that was repeated
        payload = sent.packet.payload
        for reader in self.readers_of[payload]:
            assert payload in self.disk.payloads(reader) or (reader, payload) in self.settled
        self.acknowledged.add(payload)
        if isinstance(packet, Puback):
            del life.out[packet.packet_id]
        else:
            assert (name, packet.packet_id) in self.disk.received or sent.has_pubrec
            sent.has_pubrec = True
            life.answers.append(Pubrel(packet.packet_id))

    def _read(self, name: str, life: Life, packet: Publish) -> None:
        self.settled.add((name, packet.payload))
        if packet.qos == 2:
            assert (packet.payload, packet.packet_id) in self.disk.offered(name)
            if packet.packet_id not in life.held:
                life.got[packet.payload] += 1
            life.held.add(packet.packet_id)
            life.answers.append(Pubrec(packet.packet_id))
        else:
            life.got[packet.payload] += 1
            life.answers.append(Puback(packet.packet_id))

    @rule()
    def come_to_rest(self) -> None:
        """Everybody comes back and everything is acknowledged: then everything acknowledged is there, QoS 2 once."""
        self._rest()
        for payload, readers in self.readers_of.items():
            for reader, qos in readers.items():
                got = self.lives[reader].got[payload]
                if payload in self.acknowledged:
                    assert got >= 1, f"{reader} never got {payload!r}"
                if qos == 2:
                    assert got <= 1, f"{reader} got {payload!r} {got} times"

    def _rest(self) -> None:
        for name in NAMES:
            self.connect(name)
        for _ in range(100):
            self.what_came_was_on_disk()
            for name in NAMES:
                self.answer(name)
            if self.committing is not None:
                self.end_commit()
            elif self.joined.node.ledger.changes:
                self.begin_commit()
            elif self.joined.node.ledger.deferred:
                self.let_go()
            elif not any(life.answers or life.out for life in self.lives.values()):
                return
        raise AssertionError("the node does not come to rest")


def _repeated(packet: Publish) -> Publish:
    return Publish(packet.topic, packet.payload, packet.qos, dup=True, packet_id=packet.packet_id)


TestPromises = Promises.TestCase
TestPromises.settings = settings(max_examples=some(150), stateful_step_count=50)
