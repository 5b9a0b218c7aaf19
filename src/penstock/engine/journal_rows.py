"""Rows for the journal, as values: sources, events, receivers, decisions."""

from collections.abc import Sequence
from itertools import accumulate
from struct import pack
from typing import NamedTuple

from penstock.engine.statements.facts import AnnouncedPolicy, Facts
from penstock.model.verdict import Verdict

CUT = "i"
"""The type of the positions where packets end, in the notation of `struct` and of NumPy."""


class Source(NamedTuple):
    """A source of events: the columns that all publications of a session share."""

    client_id: str
    user: str | None
    entity: str
    link_type: str
    neighbour: str | None
    version: int
    packets: int
    """The version that its packets are written in here: its own, unless they say what only MQTT 5 can."""


class Reached(NamedTuple):
    """One session that a plan leads to."""

    entity: str
    client_id: str
    user: str | None
    link_type: str
    neighbour: str | None
    qos: int


MAX_NAMED = 100
"""Receivers that a withholding names; of more it says how many there are."""


class Withholding(NamedTuple):
    """Receivers that policies kept an event from, or some of it: that subscribe to it, and for the same reason."""

    verdict: Verdict
    """Suppress: they got nothing; replace: something else or less than what is recorded."""
    receivers: tuple[str, ...]
    """Their entities: the first `MAX_NAMED`."""
    total: int

    @classmethod
    def of(cls, withheld: dict[Verdict, list[str]]) -> "tuple[Withholding, ...]":
        """Return what was withheld from whom, by verdict."""
        items = ((verdict, tuple(dict.fromkeys(names))) for verdict, names in withheld.items())
        return tuple(cls(verdict, names[:MAX_NAMED], len(names)) for verdict, names in items)


class Note(NamedTuple):
    """The decision of a plan for each of its events."""

    number: int
    verdict: Verdict
    is_open: bool
    """Content or monitors decide; rows that follow say how."""
    reached: tuple[Reached, ...]
    groups: tuple[str, ...]
    statements: tuple[AnnouncedPolicy, ...] = ()
    """Policies that clients or neighbours have told of, for these events."""
    withheld: tuple[Withholding, ...] = ()
    """Sessions that subscribe to these events and may not have them, whatever they say."""


class Rows(NamedTuple):
    """The rows gathered since the last time. Rows from one source that came together are a run."""

    notes: list[Note]
    """For each row."""
    ends: list[int]
    """For each run: up to which row it goes; it begins where the run before ends."""
    sources: list[Source]
    """For each run: from whom."""
    times: list[float]
    """For each run: when."""
    packets: list[bytes]
    """For each run: its packets, joined."""
    cuts: list[bytes]
    """For each run of several: where all but the last of its packets end, as integers of the machine (`CUT`)."""
    outputs: list[int]
    """Rows that are what a monitor made of the last row that is not one; with an empty packet if it is the same."""
    verdicts: dict[int, Verdict]
    """By row, what was decided about this one event."""
    chosen: dict[int, tuple[Reached, ...]]
    """By row, whom it was sent to besides those that its note names: members of groups whose turn it was."""
    missed: dict[int, tuple[Reached, ...]]
    """By row, whom its note names and it was not sent to, for a reason of this one event."""
    retained: list[int]
    """Rows that are retained events, as they were sent to who subscribed later."""
    views: list[int]
    """Rows that are the last arrival or output, as it was sent to those who did not get it as it is."""
    sent: list[int]
    """Rows that are events that were sent and are no arrivals."""
    withdrawn: list[int]
    """Rows that are events that were queued and not sent."""
    facts: dict[int, Facts]
    """By row, what policies asked of the node."""
    withheld: dict[int, tuple[Withholding, ...]]
    """By row, from whom this one event, or some of it, was withheld."""

    @classmethod
    def new(cls) -> "Rows":
        return cls([], [], [], [], [], [], [], {}, {}, {}, [], [], [], [], {}, {})

    @classmethod
    def of(cls, packets: Sequence[bytes], note: Note, source: Source, time: float) -> "Rows":
        """Return a run of consecutive packets."""
        rows = cls.new()
        if packets:
            rows.notes.extend([note] * len(packets))
            if len(packets) > 1:
                rows.cuts.append(pack(f"{len(packets) - 1}{CUT}", *accumulate(map(len, packets[:-1]))))
            rows.run(source, time, b"".join(packets))
        return rows

    def run(self, source: Source, time: float, packets: bytes) -> None:
        """Make one run of the notes that belong to none yet."""
        self.ends.append(len(self.notes))
        self.sources.append(source)
        self.times.append(time)
        self.packets.append(packets)
