"""What is known of edge nodes and devices, and what each reader has had of them: views in the order of messages.

A node keeps one plant, and Spark makes one for each edge node that it looks back on: both go through `Plant.take` once
for each message and through `Plant.show` once for each message and reader.

A reader's `seq` has no gaps but those that are real. What is withheld as a whole is not counted, so that a host asks
for no rebirth; what was lost on its way here leaves the gap that it would leave without policies.
"""

from dataclasses import dataclass, field, replace

from penstock.model.errors import ContentError
from penstock.model.sparkplug.message import Message
from penstock.model.sparkplug.metric import Record
from penstock.model.sparkplug.topic import BIRTHS, REPORTS, MessageTopic, Source
from penstock.model.values import Value
from penstock.policy.sparkplug.policies import Grants
from penstock.policy.sparkplug.views import START, UNKNOWN, Known, Request, Standing, View, seen

MOST_SOURCES = 100_000
"""Edge nodes and devices that are known at a time."""

_CYCLE = 256
"""`seq` goes from 0 to 255, and begins again."""


@dataclass(slots=True)
class Numbered:
    """The messages of an edge node and its devices, which share one `seq`."""

    last: int
    lost: int = 0
    """How many did not come since the birth."""


@dataclass(slots=True)
class Reader:
    """What one reader has had."""

    standings: dict[Source, Standing] = field(default_factory=dict)
    numbers: dict[Source, tuple[int, int]] = field(default_factory=dict)
    """By edge node, the last `seq` that it was shown, and how many were lost before."""

    def copy(self) -> "Reader":
        return Reader(dict(self.standings), dict(self.numbers))


class Plant:
    """Edge nodes and devices by what they have said."""

    def __init__(
        self, known: dict[Source, Known] | None = None, numbered: dict[Source, Numbered] | None = None
    ) -> None:
        self._known = known or {}
        self._numbered = numbered or {}
        self._devices: dict[Source, set[Source]] = {}
        """By edge node, those that a birth was seen of since its own."""
        for source in self._known:
            self._note(source)
        self._message: Message | None = None
        self._made: dict[tuple[Grants, Standing, int, Value], _Made] = {}
        """Views of this one message, so that readers of whom the same is said share them."""

    def known(self, source: Source) -> Known:
        """What is known of an edge node or device."""
        return self._known.get(source, UNKNOWN)

    def sources(self) -> tuple[Source, ...]:
        """All that a birth was seen of."""
        return tuple(self._known)

    def memory(self) -> tuple[dict[Source, Known], dict[Source, Numbered]]:
        """All that it knows, of which another can be made."""
        return self._known, self._numbered

    def part(self, edge: Source) -> "Plant":
        """A copy of what is known of one edge node and its devices, to try things on."""
        part = {source: known for source, known in self._known.items() if source.node == edge}
        made = Plant({source: replace(known, values=dict(known.values)) for source, known in part.items()})
        if edge in self._numbered:
            made._numbered[edge] = replace(self._numbered[edge])
        return made

    def take(self, topic: MessageTopic, message: Message) -> None:
        """Take in a message that was admitted; raises `ContentError` for a birth that is none."""
        source = topic.source
        if source is None:
            return
        if topic.type in BIRTHS:
            self.learn(source, message)
            if topic.type == "NBIRTH":  # its devices are to be born again: until then their aliases mean nothing
                for device in self._devices.pop(source, ()):
                    self._known.pop(device, None)
        elif topic.type in REPORTS and source in self._known:
            self._known[source].reported(message)
        self._number(topic, source.node, message.seq)

    def learn(self, source: Source, message: Message, time: int | None = None) -> None:
        """Take in a birth certificate, which need not be of now if it is said of which time; raises `ContentError`."""
        known = Known()
        known.born(message)
        if source not in self._known and len(self._known) >= MOST_SOURCES:
            raise ContentError(f"more than {MOST_SOURCES} edge nodes and devices")
        before = self._known.get(source)
        known.is_steady = before is None or (before.is_steady and before.names.items() <= known.names.items())
        if time is not None:
            known.time = time
        elif before is not None and before.time is not None:
            known.time = max(known.time or 0, before.time + 1)
        self._known[source] = known
        self._note(source)

    def _note(self, source: Source) -> None:
        if source.device:
            self._devices.setdefault(source.node, set()).add(source)

    def _number(self, topic: MessageTopic, edge: Source, seq: int | None) -> None:
        if seq is None:
            return
        numbered = self._numbered.get(edge)
        if numbered is None:
            self._numbered[edge] = Numbered(seq)
            return
        if topic.type == "NBIRTH":
            numbered.last = seq
            return
        numbered.lost += (seq - numbered.last - 1) % _CYCLE
        numbered.last = seq

    def show(
        self, reader: Reader, grants: Grants, request: Request, edge: Source | None, subject: Record
    ) -> "Shown | None":
        """What a reader is shown of a message that was taken in; None if nothing. `edge` is its edge node."""
        source = request.topic.source
        before = START if source is None else reader.standings.get(source, START)
        made = self._view(grants, request, subject, before)
        if source is not None and made.after is not before:
            _keep(reader.standings, source, made.after)
        if made.view is None:
            return None
        return Shown(made, None if edge is None else self._next(reader, request, edge))

    def request(self, topic: MessageTopic, message: Message, now: Value, state: Record) -> Request:
        """A message as all its readers ask for it."""
        return Request(topic, message, UNKNOWN if topic.source is None else self.known(topic.source), now, state)

    def preview(self, reader: Reader, grants: Grants, request: Request, subject: Record) -> View | None:
        """What `show` would show, but for its `seq`."""
        source = request.topic.source
        before = START if source is None else reader.standings.get(source, START)
        return self._view(grants, request, subject, before).view

    def _view(self, grants: Grants, request: Request, subject: Record, before: Standing) -> "_Made":
        if request.message is not self._message:
            self._message, self._made = request.message, {}
        key = grants, before, id(subject) if grants.reads_subject else 0, request.now if grants.reads_now else None
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = _Made(*seen(grants, request, subject, before), subject)
        return made

    def _next(self, reader: Reader, request: Request, edge: Source) -> int | None:
        """The `seq` for a reader; that of the message itself if it begins here."""
        seq, numbered = request.message.seq, self._numbered.get(edge)
        if seq is None or numbered is None:
            return None
        before = reader.numbers.get(edge)
        if before is not None and request.topic.type != "NBIRTH":
            seq = (before[0] + 1 + numbered.lost - before[1]) % _CYCLE
        reader.numbers[edge] = seq, numbered.lost
        return seq


def _keep(standings: dict[Source, Standing], source: Source, standing: Standing) -> None:
    if standing == START:
        standings.pop(source, None)
    else:
        standings[source] = standing


@dataclass(slots=True)
class _Made:
    """A view, the standing after it, and its bytes by `seq`."""

    view: View | None
    after: Standing
    subject: Record
    """Of the first reader: it is kept, so that no other can have its identity."""
    payloads: dict[int | None, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a reader is shown of a message."""

    _made: _Made
    seq: int | None
    """None: as in the message."""

    @property
    def view(self) -> View:
        """What is taken out and what is given back."""
        assert self._made.view is not None
        return self._made.view

    @property
    def is_whole(self) -> bool:
        """Whether it is the message as it is."""
        return self.view.is_whole and self.seq in (None, self.view.message.seq)

    def payload(self) -> bytes:
        """Its bytes: the same object for all who are shown the same."""
        payloads = self._made.payloads
        if self.seq not in payloads:
            payloads[self.seq] = self.view.payload(self.seq)
        return payloads[self.seq]
