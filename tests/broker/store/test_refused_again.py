"""Random histories of a publisher whose QoS 2 messages are suppressed, and who often does not see the answer.

The connection breaks, the node is killed and starts again with its store, identifiers are used again, messages are lost
on their way. The oracle is a list: the monitor has seen each message once, in whatever order, and the sender is told
the same each time it asks.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.broker.store.store import Store
from penstock.domain import Domain, LimitSettings, ensemble
from penstock.model.event import Event
from penstock.wire.packet import Connack, Pubcomp, Publish, Pubrec, Pubrel, Suback, Subscribe, SubscriptionRequest
from penstock.wire.reason import Reason
from tests.support.generators.examples import some
from tests.support.memory.node import Client, MemoryNode
from tests.support.models.invariants import check_node
from tests.support.models.stored_state import durable_state
from tests.support.scenes.domains import nodes

IDS = (1, 2, 3, 4, 5)
WINDOW = 3
"""Messages that the publisher may have on their way, fewer than it has identifiers."""


class Seen:
    """A monitor that remembers all it has seen, and lets every third pass."""

    def start(self) -> list[str]:
        return []

    def step(self, state: list[str], event: Event, now: float) -> tuple[list[str], tuple[Event, ...]]:
        return [*state, event.payload.decode()], (event,) if int(event.payload) % 3 == 0 else ()


DOMAIN = {
    "nodes": nodes("test"),
    "clients": {"ann": {"node": "test"}},
    "monitors": {"seen": {"link": "ann -> test", "python": f"{__name__}:Seen"}},
}


@dataclass
class Sent:
    """A message that its publisher has not seen through."""

    packet: Publish
    versions: set[int] = field(default_factory=set)
    """Of MQTT, of the connections that it was sent on."""
    has_pubrec: bool = False


class Repeats(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = Store(Path(":memory:"), "normal")
        self.whole = ensemble(Domain.model_validate(DOMAIN))
        self.out: dict[int, Sent] = {}
        self.count = 0
        self.hides = False
        self._start()

    def teardown(self) -> None:
        self.store.close()

    def _start(self) -> None:
        self.ann: Client | None = None
        self.joined = self._node()
        self.joined.node.admission.hides = self.hides
        self.store.load(self.joined.node, self.joined.now)

    def _node(self) -> MemoryNode:
        return MemoryNode(LimitSettings(receive_maximum=WINDOW), durable=True, commits=False, whole=self.whole)

    @initialize(hides=st.booleans())
    def begin(self, hides: bool) -> None:
        self.joined.node.admission.hides = self.hides = hides

    # --- the publisher

    @precondition(lambda self: self.ann is None)
    @rule(version=st.sampled_from((5, 5, 5, 4)))
    def connect(self, version: int) -> None:
        """Come back, and repeat in order what was not seen to be answered."""
        expiry: dict[str, Any] = {"session_expiry": 0xFFFFFFFF} if version == 5 else {}
        self.ann = self.joined.connect("ann", version, clean_start=False, **expiry)
        for packet_id, sent in self.out.items():
            sent.versions.add(version)
            packet = sent.packet
            again = Publish(packet.topic, packet.payload, 2, dup=True, packet_id=packet_id)
            self.ann.sends(Pubrel(packet_id) if sent.has_pubrec else again)

    @precondition(lambda self: self.ann is not None)
    @rule(packet_id=st.sampled_from(IDS), arrives=st.sampled_from((True, True, True, False)))
    def publish(self, packet_id: int, arrives: bool) -> None:
        if packet_id in self.out or len(self.out) >= WINDOW:
            return
        assert self.ann is not None
        self.count += 1
        packet = Publish("a", b"%d" % self.count, 2, packet_id=packet_id)
        self.out[packet_id] = Sent(packet, {self.ann.version})
        if arrives:
            self.ann.sends(packet)
        else:  # the bytes are lost with the connection
            self.lose()

    @precondition(lambda self: self.ann is not None)
    @rule(packet_id=st.sampled_from(IDS))
    def subscribe(self, packet_id: int) -> None:
        if packet_id not in self.out:
            assert self.ann is not None
            self.ann.sends(Subscribe(packet_id, (SubscriptionRequest("b", 0),)))

    @precondition(lambda self: self.ann is not None)
    @rule()
    def lose(self) -> None:
        """The connection breaks; what has come and was not read is lost."""
        assert self.ann is not None
        self.ann.lose()
        self.ann = None

    @precondition(lambda self: self.ann is not None)
    @rule()
    def read(self) -> None:
        assert self.ann is not None
        for packet in self.ann.take():
            match packet:
                case Connack() | Suback():
                    pass
                case Pubcomp():
                    self.out.pop(packet.packet_id, None)
                case Pubrec():
                    self._answered(packet)
                case _:
                    raise AssertionError(packet)

    def _answered(self, answer: Pubrec) -> None:
        assert self.ann is not None
        sent = self.out.get(answer.packet_id)
        if sent is None or sent.has_pubrec:
            return  # answered twice, as it was sent twice
        is_told = int(sent.packet.payload) % 3 != 0 and not self.hides
        if not is_told or self.ann.version == 4:
            assert answer.reason == Reason.SUCCESS
        elif 4 not in sent.versions:
            assert answer.reason == Reason.NOT_AUTHORIZED
        if answer.reason >= 0x80:
            del self.out[answer.packet_id]
        else:
            sent.has_pubrec = True
            self.ann.sends(Pubrel(answer.packet_id))

    # --- the node

    @precondition(lambda self: self.joined.node.ledger.changes or self.joined.node.ledger.deferred)
    @rule()
    def commit(self) -> None:
        """Have the store write all so far; only then do answers leave."""
        node = self.joined.node
        self.store.write(node.ledger.changes)
        self.store.commit()
        loaded = self._node()
        self.store.load(loaded.node, loaded.now)
        assert durable_state(loaded.node) == durable_state(node)
        self.joined.commit()
        self.joined.turn()

    @rule()
    def kill(self) -> None:
        self._start()

    # --- what must hold

    def _seen(self) -> Iterator[str]:
        for watch in self.joined.node.monitors.watches.values():
            for state in watch.states:
                assert isinstance(state, list)
                yield from state

    @invariant()
    def each_message_steps_the_monitor_once(self) -> None:
        check_node(self.joined.node, are_plans_plain=False)
        assert not {payload: count for payload, count in Counter(self._seen()).items() if count > 1}

    @rule()
    def come_to_rest(self) -> None:
        """All is repeated until all is answered: the monitor has seen each message."""
        for _ in range(20):
            if self.ann is None:
                self.connect(5)
            self.read()
            if self.joined.node.ledger.changes or self.joined.node.ledger.deferred:
                self.commit()
            elif not self.out:
                break
        assert not self.out
        assert sorted(map(int, self._seen())) == list(range(1, self.count + 1))


TestRepeats = Repeats.TestCase
TestRepeats.settings = settings(max_examples=some(100), stateful_step_count=40)


def test_those_that_may_be_sent_again_are_forgotten_last() -> None:
    """The store does not keep their order, but what was not seen is sent again first."""
    play = Repeats()
    play.begin(False)
    play.connect(5)
    for packet_id in (4, 5):
        play.publish(packet_id, True)
        play.commit()
        play.read()
    play.count += 1  # the monitor lets every third pass
    play.publish(1, True)
    play.commit()
    play.kill()
    play.connect(5)
    play.publish(2, False)
    for _ in range(2):
        play.connect(5)
        play.commit()
        play.lose()
    play.each_message_steps_the_monitor_once()
    assert sorted(play._seen()) == ["1", "2", "4", "5"]
