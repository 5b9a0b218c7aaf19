"""The state of edge nodes and devices, and of what each reader has received of them: views in the order of messages.

A node keeps one plant, and Spark makes one for each edge node that it looks back on: both go through `Plant.take` once
for each message and through `Plant.show` once for each message and reader.

A reader's `seq` has only the gaps of lost messages. A message that is withheld as a whole is not counted, so that a
host asks for no rebirth; a message that was lost on its way here leaves the same gap as without policies.
"""

from dataclasses import dataclass, field, replace

from penstock.model.errors import ContentError
from penstock.model.sparkplug.message import SparkplugMessage
from penstock.model.sparkplug.metric import Record
from penstock.model.sparkplug.topic import BIRTHS, LIVES, REPORTS, MessageTopic, SparkplugSource
from penstock.model.values import Value
from penstock.policy.sparkplug.policies import Grants
from penstock.policy.sparkplug.views import START, UNKNOWN, BirthRecord, View, ViewRequest, WithheldMetrics, read_view

MAX_SOURCES = 100_000
"""Edge nodes and devices that are known at a time."""

_CYCLE = 256
"""`seq` goes from 0 to 255, and begins again."""


@dataclass(slots=True)
class Numbered:
    """The messages of an edge node and its devices, which share one `seq`."""

    last: int
    lost: int = 0
    """The number of messages lost since the birth."""


@dataclass(slots=True)
class PlantReader:
    """The state of one reader."""

    standings: dict[SparkplugSource, WithheldMetrics] = field(default_factory=dict)
    numbers: dict[SparkplugSource, tuple[int, int]] = field(default_factory=dict)
    """By edge node, the last `seq` that it received, and the number of messages lost before."""

    late: set[str] = field(default_factory=set)
    """The edge nodes, devices and hosts whose last birth, death or STATE message was withheld because of the time."""

    def copy(self) -> "PlantReader":
        return PlantReader(dict(self.standings), dict(self.numbers), set(self.late))


class Plant:
    """The edge nodes and devices of a plant, by their births and reports."""

    def __init__(
        self,
        known: dict[SparkplugSource, BirthRecord] | None = None,
        numbered: dict[SparkplugSource, Numbered] | None = None,
    ) -> None:
        self._known = known or {}
        self._numbered = numbered or {}
        self._devices: dict[SparkplugSource, set[SparkplugSource]] = {}
        """By edge node, the devices with a birth since its own."""
        self._spoken: dict[str, set[SparkplugSource]] = {}
        """By client, the edge nodes and devices whose last birth it has published here."""
        for source in self._known:
            self._note(source)
        self._message: SparkplugMessage | None = None
        self._cached: dict[tuple[Grants, WithheldMetrics, int, Value], _CachedView] = {}
        """Views of this one message, shared by readers with the same grants."""

    def known(self, source: SparkplugSource) -> BirthRecord:
        """Return the birth record of an edge node or device."""
        return self._known.get(source, UNKNOWN)

    def sources(self) -> tuple[SparkplugSource, ...]:
        """Return all edge nodes and devices with a birth."""
        return tuple(self._known)

    def generations(self, edge: SparkplugSource) -> list[str]:
        """Return the names of the last births of an edge node and its devices."""
        return [self.known(source).generation for source in (edge, *self._devices.get(edge, ()))]

    def last_seq(self, edge: SparkplugSource) -> int | None:
        """Return the `seq` of the last message of an edge node or its devices."""
        numbered = self._numbered.get(edge)
        return None if numbered is None else numbered.last

    def memory(self) -> tuple[dict[SparkplugSource, BirthRecord], dict[SparkplugSource, Numbered]]:
        """Return all its state, from which another plant can be made."""
        return self._known, self._numbered

    def part(self, edge: SparkplugSource) -> "Plant":
        """Return a copy of the state of one edge node and its devices, for trials."""
        part = {source: record for source, record in self._known.items() if source.node == edge}
        plant = Plant({source: replace(record, values=dict(record.values)) for source, record in part.items()})
        if edge in self._numbered:
            plant._numbered[edge] = replace(self._numbered[edge])
        return plant

    def take(self, topic: MessageTopic, message: SparkplugMessage, generation: str = "", speaker: str = "") -> None:
        """Take in an admitted message that is, or is to be read by, this birth; raises `ContentError` for an invalid
        birth. `speaker`: the client that published it at this node.
        """
        source = topic.source
        if source is None:
            return
        if topic.type in BIRTHS:
            self.learn(source, message, None, generation, speaker)
            if topic.type == "NBIRTH":  # its devices are to be born again: until then their aliases mean nothing
                for device in self._devices.pop(source, ()):
                    self._forget(device)
        elif topic.type in REPORTS and source in self._known:
            self._known[source].as_of(generation).reported(message)
        self._number(topic, source.node, message.seq)

    def end(self, source: SparkplugSource, speaker: str) -> list[SparkplugSource]:
        """Let the births that a client has published of an edge node and its devices, or of a device, count no more:
        until it publishes others, its aliases mean nothing. Return the edge node or devices that they were of.
        """
        ended = [each for each in (source, *self._devices.get(source, ())) if self.known(each).is_of(speaker)]
        for each in ended:
            self._known[each].is_over = True
        return ended

    def leave(self, speaker: str) -> list[SparkplugSource]:
        """Let the births of a client count no more, as if it had published none here: it is connected anew, and what it
        has published meanwhile may be lost. Return the edge nodes and devices that they were of.
        """
        left = self._spoken.pop(speaker, set())
        for source in left:
            self._known[source].is_over, self._known[source].speaker = True, ""
        return sorted(left)

    def is_ended_by(self, topic: MessageTopic, death: SparkplugMessage) -> bool:
        """Return whether a death is that of the last birth."""
        return topic.source is not None and self.known(topic.source).is_ended_by(death)

    def learn(
        self,
        source: SparkplugSource,
        message: SparkplugMessage,
        time: int | None = None,
        generation: str = "",
        speaker: str = "",
    ) -> None:
        """Take in a birth certificate, with its time if it is not of now; raises `ContentError`."""
        record = BirthRecord(generation=generation, speaker=speaker)
        record.born(message)
        if source not in self._known and len(self._known) >= MAX_SOURCES:
            raise ContentError(f"more than {MAX_SOURCES} edge nodes and devices")
        before = self._known.get(source)
        if time is not None:
            record.time = time
        elif before is not None and before.time is not None:
            record.time = max(record.time or 0, before.time + 1)
        self._forget(source)
        self._known[source] = record
        self._note(source)

    def _note(self, source: SparkplugSource) -> None:
        if source.device:
            self._devices.setdefault(source.node, set()).add(source)
        speaker = self._known[source].speaker
        if speaker:
            self._spoken.setdefault(speaker, set()).add(source)

    def _forget(self, source: SparkplugSource) -> None:
        known = self._known.pop(source, None)
        spoken = None if known is None else self._spoken.get(known.speaker)
        if known is not None and spoken is not None:
            spoken.discard(source)
            if not spoken:
                del self._spoken[known.speaker]

    def _number(self, topic: MessageTopic, edge: SparkplugSource, seq: int | None) -> None:
        if seq is None:
            return
        numbered = self._numbered.get(edge)
        if numbered is None:
            self._numbered[edge] = Numbered(seq)
            return
        if topic.type != "NBIRTH":
            numbered.lost += (seq - numbered.last - 1) % _CYCLE
        numbered.last = seq

    def show(
        self, reader: PlantReader, grants: Grants, request: ViewRequest, edge: SparkplugSource | None, subject: Record
    ) -> "ShownView | None":
        """Return a reader's view of a message that was taken in from the edge node `edge`; None if there is none."""
        source = request.topic.source
        before = START if source is None else reader.standings.get(source, START)
        cached = self._view(grants, request, subject, before)
        if source is not None and cached.after is not before:
            if cached.after == START:
                reader.standings.pop(source, None)
            else:
                reader.standings[source] = cached.after
        if request.topic.type in LIVES:
            if cached.view is None and grants.reads_now:
                reader.late.add(request.topic.speaker)
            elif reader.late:
                reader.late.discard(request.topic.speaker)
        if cached.view is None:
            return None
        return ShownView(cached, None if edge is None else self._next(reader, request, edge))

    def request(
        self, topic: MessageTopic, message: SparkplugMessage, generation: str, now: Value, state: Record
    ) -> ViewRequest:
        """Return the request for a message that is to be read by this birth; all its readers share it."""
        known = UNKNOWN if topic.source is None else self.known(topic.source).as_of(generation)
        return ViewRequest(topic, message, known, now, state)

    def preview(self, reader: PlantReader, grants: Grants, request: ViewRequest, subject: Record) -> View | None:
        """Return the view that `show` would return, except for its `seq`."""
        source = request.topic.source
        before = START if source is None else reader.standings.get(source, START)
        return self._view(grants, request, subject, before).view

    def _view(self, grants: Grants, request: ViewRequest, subject: Record, before: WithheldMetrics) -> "_CachedView":
        if request.message is not self._message:
            self._message, self._cached = request.message, {}
        key = grants, before, id(subject) if grants.reads_subject else 0, request.now if grants.reads_now else None
        cached = self._cached.get(key)
        if cached is None:
            cached = self._cached[key] = _CachedView(*read_view(grants, request, subject, before), subject)
        return cached

    def _next(self, reader: PlantReader, request: ViewRequest, edge: SparkplugSource) -> int | None:
        """Return the next `seq` of a reader; the message's own if the reader begins here."""
        seq, numbered = request.message.seq, self._numbered.get(edge)
        if seq is None or numbered is None:
            return None
        before = reader.numbers.get(edge)
        if before is not None and request.topic.type != "NBIRTH":
            seq = (before[0] + 1 + numbered.lost - before[1]) % _CYCLE
        reader.numbers[edge] = seq, numbered.lost
        return seq


@dataclass(slots=True)
class _CachedView:
    """A view, the withheld metrics after it, and its bytes by `seq`."""

    view: View | None
    after: WithheldMetrics
    subject: Record
    """The first reader: it is kept, so that no other object can have its identity."""
    payloads: dict[int | None, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShownView:
    """The view of a message that a reader receives."""

    _cached: _CachedView
    seq: int | None
    """None: as in the message."""

    @property
    def view(self) -> View:
        """The metrics that are removed and given back."""
        assert self._cached.view is not None
        return self._cached.view

    @property
    def is_whole(self) -> bool:
        """True if it is the message unchanged."""
        return self.view.is_whole and self.seq in (None, self.view.message.seq)

    def payload(self) -> bytes:
        """Return its bytes: the same object for all readers of the same view."""
        payloads = self._cached.payloads
        if self.seq not in payloads:
            payloads[self.seq] = self.view.payload(self.seq)
        return payloads[self.seq]
