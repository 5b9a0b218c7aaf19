"""A policy test whose events may overtake each other: one interleaving after another, move by move.

Steps that only publish and expect messages are open: each client does its part in the order of the file, and publishes
once it has what the steps before expect it to get; all else comes as it may. Every other step is done when all is
quiet. Acknowledgements are not interleaved: they arrive at once.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from penstock.domain.schema.tests import OTHERS, Expected, PolicyTest, PolicyTestStep, PublishStep
from penstock.engine.explain.arrival import ExplainError
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.rehearsal import expectations
from penstock.engine.rehearsal.assembly import RehearsalError
from penstock.engine.rehearsal.interleavings import Actor, PlayedMove
from penstock.engine.rehearsal.policy_test import NOTHING_SEEN, Mismatch, Trial
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.rehearsal.wires import Wire
from penstock.model.sparkplug.payload import is_sparkplug
from penstock.policy.monitors.monitor import State
from penstock.wire.framing import Framer

JOIN = "join"
"""The actor when nothing is under way and nobody has more to publish: the test goes to its next part."""
_PUBLISH = 3
_TIMELESS = {"cut", "restore", "wait", "at", "disconnect", "publish"}
"""Actions of a policy test that bring nobody a retained message."""


class _TestPart(NamedTuple):
    """Steps of a test that are open together, or one that is not."""

    steps: range
    is_open: bool


def _parts(steps: Sequence[PolicyTestStep]) -> Iterator[_TestPart]:
    start = 0
    for at, step in enumerate(steps):
        if step.actions not in ([], ["publish"]) or step.verdicts:
            if start < at:
                yield _TestPart(range(start, at), True)
            yield _TestPart(range(at, at + 1), False)
            start = at + 1
        elif step.states or step.refused or step.ratings:
            yield _TestPart(range(start, at + 1), True)
            start = at + 1
    if start < len(steps):
        yield _TestPart(range(start, len(steps)), True)


class _Due(NamedTuple):
    """A publication that an entity has yet to make."""

    step: int
    number: int
    publication: PublishStep
    payload: bytes


class _Packet(NamedTuple):
    """A publication on a wire."""

    key: Hashable
    cause: Hashable
    wire: Wire
    number: int
    topic: str


class OrderedPlay:
    """A test that is played again and again, each time in another order; a `System`."""

    def __init__(self, test: PolicyTest, start: Callable[[], Rehearsal], keeps_order: bool) -> None:
        """`start` begins a rehearsal; with `keeps_order` each link keeps the order of its events."""
        self._test = test
        self._start = start
        self._keeps_order = keeps_order
        self._parts = tuple(_parts(test.steps))
        self._is_seen: dict[str, bool] = {}
        self._play: Rehearsal | None = None
        self._is_plain = False
        self._initial: list[tuple[Watch, int, State]] = []
        self._trial: Trial
        self.failures: tuple[Mismatch, ...] = ()

    # --- the system that is explored

    def begin(self) -> None:
        self.failures = ()
        self._next_part = 0
        self._last: Hashable = None
        """The key of the last join."""
        self._under_way: dict[int, _Packet] = {}
        self._due: dict[str, list[_Due]] = {}
        self._reached: dict[str, list[tuple[float, Hashable]]] = {}
        """By entity, up to which step it has what is expected, and the move by which it came to that."""
        self._set_up()
        self._go_on()

    def options(self) -> list[Actor]:
        if self.failures:
            return []
        packets = sorted(self._under_way.values(), key=lambda packet: packet.number)
        options = list(dict.fromkeys(self._actor(packet) for packet in packets))
        options += [entity for entity, due in self._due.items() if due and self._enabling(entity) is not None]
        if not options and self._next_part <= len(self._parts):
            return [JOIN]
        return options

    def take(self, actor: Actor) -> PlayedMove:
        try:
            if actor == JOIN:
                return self._join()
            if isinstance(actor, str):
                return self._publish(actor)
            packets = (packet for packet in self._under_way.values() if self._actor(packet) == actor)
            return self._hand_over(min(packets, key=lambda packet: packet.number))
        except (RehearsalError, ExplainError) as error:
            at = self._part.steps[0] if self._next_part else 0
            self.failures = (Mismatch(at, "the step", ("that it can be done",), (str(error),)),)
            return PlayedMove(actor, ("failed", actor), joins=True, text=str(error))

    # --- moves

    def _publish(self, entity: str) -> PlayedMove:
        due = self._due[entity].pop(0)
        key = ("publish", entity, due.number)
        cause = self._enabling(entity, due)
        self._trial.send(entity, due.publication, due.payload)
        self._settle(key)
        return PlayedMove(entity, key, cause or self._last, text=f"{entity} publishes {due.publication.topic}")

    def _hand_over(self, packet: _Packet) -> PlayedMove:
        del self._under_way[packet.number]
        source, target = packet.wire.source, packet.wire.target
        node = self.play.nodes.get(target)
        touched = self._touched(node, source, packet.topic) if node is not None else {}
        before = self._states(node) if node is not None else {}
        packet.wire.hand_over(packet.number)
        sent = self._settle(packet.key)
        text = f"{target} gets {packet.topic} from {source}"
        common = (self._actor(packet), packet.key, packet.cause)
        if node is None:
            self._note(target, packet.key)
            got = frozenset({("got", target)} if self.sees_order(target) else ())
            return PlayedMove(*common, writes=got, is_packet=True, text=text)
        after = self._states(node)
        moved = {place: state for place, state in after.items() if state != before.get(place)}
        wires: set[Hashable] = {
            (made.wire.source, made.wire.target) for made in sent if self._keeps_order and self._is_ordered(made.wire)
        }
        opaque = {place for place in touched if not isinstance(before.get(place), str)}
        reads: frozenset[Hashable] = frozenset(touched) if self._is_plain else frozenset()
        writes = frozenset[Hashable]().union(wires, *((moved, opaque) if self._is_plain else [{target}]))
        return PlayedMove(
            *common, reads, writes, is_packet=True, text=text + self._passes(sent, packet, moved, touched)
        )

    def _join(self) -> PlayedMove:
        """Compare the part that is over with what was expected, and begin the next."""
        self._last = key = (JOIN, self._next_part)
        if self._next_part and not (failures := tuple(self._compare())):
            self._go_on()
        elif self._next_part:
            self.failures = failures
        return PlayedMove(JOIN, key, joins=True)

    def _passes(
        self, sent: list[_Packet], packet: _Packet, moved: dict[Hashable, object], named: dict[Any, str]
    ) -> str:
        """Return in words what a node did with an event."""
        made = dict.fromkeys(
            made.wire.target if made.topic == packet.topic else f"{made.wire.target} as {made.topic}" for made in sent
        )
        onward = f", passes it to {', '.join(made)}" if made else ", passes it to nobody"
        return onward + "".join(f"; {named.get(place, 'a monitor')} is now {state}" for place, state in moved.items())

    # --- parts

    @property
    def play(self) -> Rehearsal:
        assert self._play is not None
        return self._play

    @property
    def _part(self) -> _TestPart:
        return self._parts[self._next_part - 1]

    def _set_up(self) -> None:
        """Begin a rehearsal, or put the one that there is back to its beginning."""
        if self._play is not None and self._is_plain and all(part.is_open for part in self._parts):
            self.play.run()
            for watch, place, state in self._initial:
                watch.move(place, state)
            for got in self.play.assembly.got.values():
                got.clear()
            self._trial.seen = {}
            return
        self._play = self._start()
        self._trial = Trial(self._play)
        self._trial.begin(self._test)
        self._is_plain = is_plain(self._play, self._test)
        self._initial = [
            (watch, place, state)
            for node in self._play.nodes.values()
            for watch in _watches(node)
            for place, state in enumerate(watch.states)
        ]

    def _go_on(self) -> None:
        """Do the steps that are not open, up to the next that are."""
        self.play.run()
        while self._next_part < len(self._parts):
            self._next_part += 1
            if self._part.is_open:
                self._open()
                return
            at = self._part.steps[0]
            self.failures = tuple(self._trial.step(at, self._test.steps[at]))
            if self.failures:
                return
        self._next_part += 1

    def _open(self) -> None:
        self._due = {}
        for at in self._part.steps:
            for entity, publications in (self._test.steps[at].publish or {}).items():
                due = self._due.setdefault(entity, [])
                for publication in publications:
                    number = self._part.steps[0] * 1000 + len(due)
                    due.append(_Due(at, number, publication, self._trial.payload(publication)))
        self._reached = {}
        for entity in self._due:
            self._note(entity, None)

    def _note(self, entity: str, key: Hashable) -> None:
        """Note how far an entity has what is expected."""
        reached = next((at for at, _, marks in self._marks(entity) if not marks), inf)
        self._reached.setdefault(entity, []).append((reached, key))

    def _enabling(self, entity: str, due: _Due | None = None) -> Hashable:
        """Return the key of the move that let an entity publish what is due; None: it cannot yet."""
        step = (due or self._due[entity][0]).step
        return next((key or self._last or JOIN for reached, key in self._reached[entity] if reached >= step), None)

    def _expected(self, entity: str, step: PolicyTestStep) -> Expected | None:
        return step.expect.get(entity, step.expect.get(OTHERS))

    def _marks(self, entity: str) -> Iterator[tuple[int, Expected | None, frozenset[int]]]:
        """Yield each step of the part that expects something, and how many deliveries may have been for it and those
        before it; none, if what came is not what is expected.
        """
        deliveries = self.play.deliveries(entity)
        marks = self._trial.seen.get(entity, NOTHING_SEEN)
        for at in self._part.steps:
            if not self._test.steps[at].expects:
                continue
            expected = self._expected(entity, self._test.steps[at])
            if expected is None:
                marks = frozenset(range(min(marks), len(deliveries) + 1)) if marks else marks
            else:
                size = len(expected.in_order or expected.any_order or ())
                ends = ((mark, mark + size) for mark in marks if mark + size <= len(deliveries))
                marks = frozenset(end for mark, end in ends if expectations.is_met(expected, deliveries[mark:end]))
            yield at, expected, marks

    def _compare(self) -> Iterator[Mismatch]:
        """Compare what came in an open part with what was expected."""
        last = self._part.steps[-1]
        seen = {}
        for entity in self._trial.entities():
            got = self.play.deliveries(entity)
            marks, wanted, place = self._trial.seen.get(entity, NOTHING_SEEN), list[Expected](), last
            began = min(marks)
            for at, expected, reached in self._marks(entity):
                wanted += [expected] if expected is not None else []
                marks, place = reached, at if marks else place
            if self._test.steps[last].expects and marks:
                marks &= {len(got)}
            if marks:
                seen[entity] = marks
                continue
            details = Expected(in_order=tuple(m for part in wanted for m in part.in_order or part.any_order or ()))
            yield Mismatch(place, entity, _texts(wanted), expectations.texts(got[began:], details))
        self._trial.seen = seen
        yield from self._trial.facts(last, self._test.steps[last])

    # --- packets and what they touch

    def _actor(self, packet: _Packet) -> Actor:
        if self._keeps_order and self._is_ordered(packet.wire):
            return packet.wire.source, packet.wire.target
        return packet.key

    def _is_ordered(self, wire: Wire) -> bool:
        return wire.target in self.play.nodes or self.sees_order(wire.target)

    def sees_order(self, entity: str) -> bool:
        """Return False if it makes no difference to the test in which order an entity gets its events."""
        if entity not in self._is_seen:
            self._is_seen[entity] = self._depends_on_order(entity)
        return self._is_seen[entity]

    def _depends_on_order(self, entity: str) -> bool:
        all_ = [self._expected(entity, step) for step in self._test.steps if step.expects]
        some = [expected for expected in all_ if expected is not None and (expected.in_order or expected.any_order)]
        if not some:
            return False
        is_single = len(some) == 1 and (some[0].any_order is not None or len(some[0].in_order or ()) == 1)
        is_single = is_single and None not in all_ and all(self._is_closed(part) for part in self._parts)
        return not is_single or any(self._waits(entity, part.steps) for part in self._parts)

    def _is_closed(self, part: _TestPart) -> bool:
        """Return False if anything may come after what a part expects: then it matters what came first."""
        expects = [self._test.steps[at].expects for at in part.steps]
        return expects[-1] or not any(expects)

    def _waits(self, entity: str, steps: range) -> bool:
        """Return whether an entity publishes something only when it has got something in the same part."""
        expects = False
        for step in (self._test.steps[at] for at in steps):
            if expects and entity in (step.publish or ()):
                return True
            expected = self._expected(entity, step)
            expects = expects or (expected is not None and bool(expected.in_order or expected.any_order))
        return False

    def _settle(self, cause: Hashable) -> list[_Packet]:
        """Hand over all that is not interleaved, and return the publications that a move has sent."""
        assembly = self.play.assembly
        sent = list[_Packet]()
        is_quiet = False
        while not is_quiet:
            is_quiet = True
            for wire in [wire for connection in assembly.connections.values() for wire in connection.wires]:
                for number, data in wire.packets:
                    if number in self._under_way:
                        continue
                    topic = _topic(data)
                    if topic is None or topic.startswith("$"):
                        wire.hand_over(number)
                        assembly.end_closed()
                        is_quiet = False
                        break
                    same = sum(packet.wire is wire for packet in sent)
                    key = (cause, wire.source, wire.target, same)
                    self._under_way[number] = packet = _Packet(key, cause, wire, number, topic)
                    sent.append(packet)
        for node in self.play.nodes.values():
            for session in node.sessions.values():
                if session.outlet is not None and session.outbox.queue:
                    raise RehearsalError(f"more is under way to `{session.place.entity}` than it takes at once")
        return sent

    def _touched(self, node: Node, source: str, topic: str) -> dict[Hashable, str]:
        """Return the monitors whose states may decide about an event, by their places, with their names."""
        touched = dict[Hashable, str]()
        inwards = [watch for watch in _watches(node) if watch.ends == (source, node.name)]
        outwards = [watch for watch in _watches(node) if watch.ends[0] == node.name]
        onward: str | None = topic
        for watch in inwards:
            onward = _ask(node, watch, onward, touched)
        for watch in outwards:
            _ask(node, watch, onward, touched)
        return touched

    def _states(self, node: Node) -> dict[Hashable, object]:
        return {
            (node.name, watch.ends, place): state
            for watch in _watches(node)
            for place, state in enumerate(watch.states)
        }


def _ask(node: Node, watch: Watch, topic: str | None, touched: dict[Hashable, str]) -> str | None:
    """Add the monitors of a link that an event on a topic, or any, needs the states of; return its topic then."""
    for place, monitor in enumerate(watch.monitors):
        if not monitor.is_stateless and (topic is None or monitor.always(topic) is None):
            touched[node.name, watch.ends, place] = monitor.name
        if not monitor.is_selector:
            topic = None
    return topic


def _watches(node: Node) -> list[Watch]:
    places = (session.place for session in node.sessions.values())
    watches = (watch for place in places for watch in (place.watch_in, place.watch_out))
    return list({watch.ends: watch for watch in watches if watch is not None}.values())


def _topic(packet: bytes) -> str | None:
    """Return the topic of a PUBLISH packet; None if it is another."""
    if packet[0] >> 4 != _PUBLISH:
        return None
    _, [(_, start, _)] = Framer().feed(packet)
    size = int.from_bytes(packet[start : start + 2], "big")
    return packet[start + 2 : start + 2 + size].decode()


def _texts(wanted: list[Expected]) -> tuple[str, ...]:
    texts = [text for part in wanted if part.in_order or part.any_order for text in expectations.expected_texts(part)]
    return tuple(texts) or ("nothing",)


def is_plain(play: Rehearsal, test: PolicyTest) -> bool:
    """Return whether nodes remember nothing of events but the states of monitors, so that events at one node which
    concern different monitors and receivers can be told apart.
    """
    whole = play.ensemble
    stateful = (whole.access, whole.contracts, whole.trust, whole.tokens, whole.statements.given)
    if any(stateful) or whole.statements.grants or whole.trust_groups or whole.certificates or whole.is_cyclic:
        return False
    if any(whole.capsules.values()) or any(set(step.actions) - _TIMELESS for step in test.steps):
        return False
    subscriptions = (wish for wishes in (test.subscribe or {}).values() for wish in wishes)
    if any(wish.filter.startswith("$share/") for wish in subscriptions):
        return False
    publications = [item for step in test.steps for items in (step.publish or {}).values() for item in items]
    return not any(item.retain or item.policy or is_sparkplug(item.topic) for item in publications)
