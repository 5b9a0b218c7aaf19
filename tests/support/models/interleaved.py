"""Policy tests in all orders by brute force: no two interleavings are taken for the same, nothing is played twice.

It plays whole rehearsals by itself, for tests whose steps publish with QoS 0 and expect messages, and nothing else.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from penstock.domain.schema.tests import Expected, PolicyTest, PublishStep
from penstock.engine.rehearsal.expectations import is_met
from penstock.engine.rehearsal.peer import Delivered
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.rehearsal.wires import Wire

History = tuple[Delivered, ...]


@dataclass(frozen=True)
class Ending:
    """What each entity got in one interleaving, and whether that is what was expected."""

    got: dict[str, History]
    holds: bool


@dataclass
class _Run:
    """One interleaving, under way: it follows the choices that it is given, then takes the first option each time."""

    rehearsal: Rehearsal
    test: PolicyTest
    ordering: str
    given: Sequence[int]
    taken: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    """How many options there were at each choice."""
    sent: dict[int, int] = field(default_factory=dict)
    """By packet, the number of the step that sent it."""

    def play(self) -> None:
        done = dict[str, int]()
        while options := self._options(done):
            at = len(self.taken)
            choice = self.given[at] if at < len(self.given) else 0
            self.taken.append(choice)
            self.widths.append(len(options))
            option = options[choice]
            if isinstance(option, str):
                _, publication = _program(self.test, option)[done.setdefault(option, 0)]
                done[option] += 1
                self.rehearsal.publish(option, publication.topic, publication.payload.encode(), node=publication.at)
            else:
                option[0].hand_over(option[1])
            for wire in self._wires():
                for number, data in wire.packets:
                    assert data[0] >> 4 == 3, "only publications are under way"
                    self.sent.setdefault(number, at)
        assert self.done_all(done) or not self.holds()

    def _options(self, done: dict[str, int]) -> list[str | tuple[Wire, int]]:
        return [*self._packets(), *self._publications(done)]

    def done_all(self, done: dict[str, int]) -> bool:
        return all(done.get(name, 0) == len(_program(self.test, name)) for name in self.rehearsal.ensemble.devices)

    def holds(self) -> bool:
        last = len(self.test.steps)
        is_closed = self.test.steps[-1].expects
        return all(
            any(not rest or not is_closed for rest in _rests(self.test, name, self.rehearsal.deliveries(name), last))
            for name in self.rehearsal.ensemble.devices
        )

    def _wires(self) -> list[Wire]:
        return [wire for connection in self.rehearsal.assembly.connections.values() for wire in connection.wires]

    def _packets(self) -> list[tuple[Wire, int]]:
        under_way = [(wire, number) for wire in self._wires() for number, _ in wire.packets]
        if self.ordering == "in-order":
            return [(wire, wire.first) for wire in self._wires() if wire]
        if self.ordering == "fifo" and under_way:
            first = min(self.sent[number] for _, number in under_way)
            return [(wire, wire.first) for wire in self._wires() if wire and self.sent[wire.first] == first]
        return under_way

    def _publications(self, done: dict[str, int]) -> Iterator[str]:
        for name in self.rehearsal.ensemble.devices:
            program = _program(self.test, name)
            if done.get(name, 0) < len(program):
                step, _ = program[done.get(name, 0)]
                if any(True for _ in _rests(self.test, name, self.rehearsal.deliveries(name), step)):
                    yield name


def _program(test: PolicyTest, name: str) -> list[tuple[int, PublishStep]]:
    return [(at, one) for at, step in enumerate(test.steps) for one in (step.publish or {}).get(name, ())]


def _rests(test: PolicyTest, name: str, got: History, end: int, at: int = 0) -> Iterator[History]:
    """What is left of a history when some beginning of it has been what the steps before `end` expect."""
    if at == end:
        yield got
        return
    step = test.steps[at]
    expected: Expected | None = step.expect.get(name, step.expect.get("*"))
    for cut in range(len(got) + 1):
        if not step.expects:
            yield from _rests(test, name, got, end, at + 1)
            return
        if expected is None or is_met(expected, got[:cut]):
            yield from _rests(test, name, got[cut:], end, at + 1)


def all_endings(test: PolicyTest, start: Callable[[], Rehearsal], ordering: str, most: int) -> list[Ending] | None:
    """The endings of all interleavings; None if there are more than `most`."""
    endings = list[Ending]()
    given: list[int] = []
    while True:
        run = _Run(start(), test, ordering, given)
        run.play()
        names = run.rehearsal.ensemble.devices
        endings.append(Ending({name: run.rehearsal.deliveries(name) for name in names}, run.holds()))
        given = run.taken
        while given and given[-1] + 1 == run.widths[len(given) - 1]:
            given.pop()
        if not given:
            return endings
        given[-1] += 1
        if len(endings) == most:
            return None
