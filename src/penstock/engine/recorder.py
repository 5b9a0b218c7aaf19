"""The recorder gathers a node's events, monitors' outputs and decisions for the journal.

Rows are gathered in lists that a writer takes over as they are. A row names its plan by a `Note`, which says once what
all events of the plan have in common; and packets that are passed on as they are stay in the buffer that they came in.
So an event costs one append. Where packets come singly each is a run of its own, and there are lists of plain values
for these too, one for each column: no object is made for a row.
"""

from collections.abc import Sequence
from struct import pack

from penstock.engine.events.plan import Plan, Target
from penstock.engine.events.user_properties import as_recorded
from penstock.engine.journal_rows import CUT, Note, Reached, Rows, Source, Withholding
from penstock.engine.sessions.render import packet_parts
from penstock.engine.sessions.session import Session
from penstock.engine.statements.facts import AnnouncedPolicy, EvidenceNote, Facts
from penstock.model.event import Event
from penstock.model.verdict import Effect, Verdict
from penstock.wire.codec import encode_varint
from penstock.wire.framing import Frame

_SOME_ID = b"\0\1"
_BETWEEN = {(4, False): b"", (4, True): _SOME_ID, (5, False): b"\0", (5, True): _SOME_ID + b"\0"}
"""The bytes between topic and payload without properties, by version and presence of a packet identifier."""
_FIRST = tuple(bytes((0x30 | flags,)) for flags in range(8))


_SENT = Note(0, Verdict("emit", Effect.PASS), False, (), ())
"""Of forms that were sent, each names its receivers itself."""
MAX_PUBLISHERS = 10_000


class Recorder:
    """Gathers rows. A connection that passes packets on as they are appends to `notes` itself, then calls `relayed`."""

    __slots__ = ("_arrived", "_forms", "_last", "_numbered", "_publishers", "_seen", "came", "notes", "rows", "weight")

    def __init__(self) -> None:
        self._numbered = 0
        self._publishers: dict[Source, Source] = {}
        """Of retained events, each once: a writer tells them apart by identity."""
        self._last: Event | None = None
        """The last arrival, and in `_arrived` its row."""
        self._arrived = 0
        self._seen: list[EvidenceNote] = []
        """The evidence of the next arrival."""
        self._forms: dict[tuple[str, bytes, int, bytes], tuple[Event, list[Reached]]] = {}
        """Forms in which the last event was sent, and to whom, until `forms_end`."""
        self.came: tuple[Event | None, bytes] = (None, b"")
        """An event that says just what its packet says, and the packet: then none has to be made."""
        self._begin()

    def _begin(self) -> None:
        self.rows = Rows.new()
        self.notes = self.rows.notes
        self.weight = 0
        """Bytes of packets that were made for it; those that connections append they count themselves."""

    def take(self) -> Rows:
        """Return the rows gathered so far; they belong to the caller."""
        rows = self.rows
        self._begin()
        return rows

    def note(self, plan: Plan) -> Note:
        """Return the note for all events of a plan."""
        if plan.note is None:
            self._numbered += 1
            targets = [*plan.targets, *(target for _, behind in plan.watched for target in behind)]
            is_open = plan.is_open
            groups = tuple(f"$share/{group.name}/{group.filter}" for group in plan.groups)
            policies = tuple(AnnouncedPolicy.of(bound) for bound in plan.statements if not bound.is_given)
            plan.note = Note(self._numbered, plan.verdict, is_open, tuple(map(_reached_by, targets)), groups, policies)
            if plan.withheld:
                withheld: dict[Verdict, list[str]] = {}
                for session, verdict in plan.withheld:
                    withheld.setdefault(verdict, []).append(session.place.entity)
                plan.note = plan.note._replace(withheld=Withholding.of(withheld))
        return plan.note

    def relayed(
        self, session: Session, now: float, buffer: bytes, begin: int, frames: Sequence[Frame], first: int
    ) -> None:
        """Record packets of a session that were passed on: as many as there are notes without a run.

        They are one after the other in the buffer, from `begin` on, and their frames so from the `first` on.
        """
        rows = self.rows
        count = len(self.notes) - rows.ends[-1] if rows.ends else len(self.notes)
        if not count:
            return
        last = first + count - 1
        end = frames[last][2]
        if count > 1:
            ends = [end - begin for _, _, end in frames[first:last]] if begin else [end for _, _, end in frames[:last]]
            rows.cuts.append(pack(f"{count - 1}{CUT}", *ends))
        rows.run(source_of(session), now, buffer[begin:end])

    def add(
        self, session: Session, event: Event, plan: Plan, now: float, is_output: bool, verdict: Verdict | None
    ) -> None:
        """Record one event: as it came, or as a monitor made it."""
        rows = self.rows
        if is_output and event is self._last:
            packet, source = b"", source_of(session)
        elif event is self.came[0]:
            packet, source = self.came[1], source_of(session)
        else:
            packet, source = _packet(session, event, now)
        self.weight += len(packet)
        if verdict is not None:
            rows.verdicts[len(self.notes)] = verdict
        if is_output:
            rows.outputs.append(len(self.notes))
        else:
            self._last, self._arrived = event, len(self.notes)
            if self._seen:
                rows.facts[self._arrived] = Facts(evidence=tuple(self._seen))
                self._seen.clear()
        self.notes.append(plan.note or self.note(plan))
        rows.run(source, now, packet)

    def saw(self, seen: EvidenceNote, is_before: bool = False) -> None:
        """Record that the last arrival, or the next one, was evidence about a neighbour."""
        if is_before:
            self._seen.append(seen)
        else:
            facts = self.rows.facts.setdefault(self._arrived, Facts())
            facts.evidence = (*facts.evidence, seen)

    def show(self, event: Event, session: Session, qos: int) -> None:
        """Record that an event was sent to this session in this form; `forms_end` makes rows of all its forms."""
        key = event.topic, event.payload, event.qos, event.properties
        self._forms.setdefault(key, (event, []))[1].append(_reached(session, qos))

    def withhold(self, withheld: dict[Verdict, list[str]]) -> None:
        """Record that policies kept the last event, or some of it, from these."""
        self.rows.withheld[len(self.notes) - 1] = Withholding.of(withheld)

    def forms_end(
        self,
        source: Source,
        now: float,
        rows: list[int],
        verdict: Verdict | None = None,
        withheld: tuple[Event, dict[Verdict, list[str]]] | None = None,
    ) -> None:
        """Make rows of the forms in which an event was sent: of one of the kinds of `self.rows`.

        `withheld`: an event that has no row, and from whom it was withheld.
        """
        if withheld is not None and not self._forms:
            self._forms[(*withheld[0][:3], b"")] = withheld[0], []
        if not self._forms:
            return
        if len(self._publishers) >= MAX_PUBLISHERS:
            self._publishers.clear()
        source = source._replace(packets=5)
        source = self._publishers.setdefault(source, source)
        for event, receivers in self._forms.values():
            row, packet = len(self.notes), _encoded(as_recorded(event, source.neighbour), source, now)
            self.weight += len(packet)
            self.notes.append(_SENT)
            self.rows.run(source, now, packet)
            rows.append(row)
            if verdict is not None:
                self.rows.verdicts[row] = verdict
            self.rows.chosen[row] = tuple(receivers)
            if withheld is not None:
                self.rows.withheld[row], withheld = Withholding.of(withheld[1]), None
        self._forms.clear()

    def chose(self, target: Target) -> None:
        """Record that the last event also went to this session, which its plan does not name: a group's member."""
        row, chosen = len(self.notes) - 1, self.rows.chosen
        chosen[row] = (*chosen.get(row, ()), _reached_by(target))

    def passed_over(self, target: Target) -> None:
        """Record that the last event was not sent, as it is, to this session, which its plan names."""
        row, missed = len(self.notes) - 1, self.rows.missed
        missed[row] = (*missed.get(row, ()), _reached_by(target))

    def dropped(self, plan: Plan, session: Session) -> None:
        """Record that the next event is not sent to this session of its plan: it is away, or too slow."""
        row, missed = len(self.notes), self.rows.missed
        target = next(target for target in plan.targets if target.session is session)
        missed[row] = (*missed.get(row, ()), _reached_by(target))

    def judged(self, facts: Facts) -> None:
        """About the last event, policies asked this of the node. If a monitor made it, its arrival is given it too:
        another monitor may make something else of that.
        """
        row, rows = len(self.notes) - 1, self.rows
        before = rows.facts.get(row)
        rows.facts[row] = facts
        if before is not None:
            facts.evidence = (*before.evidence, *facts.evidence)
        if rows.outputs and rows.outputs[-1] == row:
            rows.facts.setdefault(self._arrived, Facts()).add(facts)


def _packet(session: Session, event: Event, now: float) -> tuple[bytes, Source]:
    """Return the event as a packet, in its source's own version if possible."""
    source = source_of(session)
    topic, payload, qos, retain, properties, expires = event[:6]
    if not properties and expires is None and not event.id and (not event.path or event.path == (session.neighbour,)):
        name = topic.encode()
        between = _BETWEEN[source.packets, qos > 0]
        length = encode_varint(2 + len(name) + len(between) + len(payload))
        first = _FIRST[qos << 1 | retain]
        return b"".join((first, length, len(name).to_bytes(2, "big"), name, between, payload)), source
    event = as_recorded(event, session.neighbour)
    if source.packets == 4 and (event.properties or event.expires is not None):
        source = source._replace(packets=5)
    return _encoded(event, source, now), source


def _encoded(event: Event, source: Source, now: float) -> bytes:
    head, tail = packet_parts(event, source.packets, event.qos, event.retain, (), now)
    return head + _SOME_ID + tail if event.qos else head + tail


def source_of(session: Session) -> Source:
    """Return the session as a source of events, made once."""
    if session.place.source is None or session.place.source.version != session.version:
        session.place.source = Source(
            session.client_id,
            session.subject.user,
            session.place.entity,
            session.place.publish_type,
            session.neighbour,
            session.version,
            session.version,
        )
    return session.place.source


def _reached_by(target: Target) -> Reached:
    return _reached(target.session, target.qos)


def _reached(session: Session, qos: int) -> Reached:
    return Reached(
        session.place.entity,
        session.client_id,
        session.subject.user,
        session.place.notify_type,
        session.neighbour,
        qos,
    )
