"""Facts that policies asked of a node while they judged an event; the journal keeps them, to judge again alike.

Only facts that were asked for are noted: an event whose policies ask for none has none.
"""

from msgspec import Struct, field

from penstock.policy.statements.judging import Bound, Here


class EvidenceNote(Struct, frozen=True, omit_defaults=True):
    """Evidence about a neighbour."""

    neighbour: str
    good: bool
    source: str
    """`feedback`, `monitor`, `conform`, `contract`, `evaluate`, `token`, or `operator`, who sets all that is held."""
    held: tuple[float, float, float] | None = None
    """An operator's setting: good, bad, as of when."""


class Facts(Struct, omit_defaults=True):
    """The answers that policies had; None or absent: nobody asked."""

    load: float | None = None
    host: str | None = None
    elapsed: float | None = None
    """Seconds that the event had been in the node."""
    has_store: bool | None = None
    sender: dict[str, bool] = field(default_factory=dict)
    """By trust group, whether who sent it is a member."""
    receivers: dict[str, dict[str, bool]] = field(default_factory=dict)
    """The same of those whom it would go to, by name; of several under one name, whether all are."""
    evidence: tuple[EvidenceNote, ...] = ()
    """The evidence about neighbours that it gave."""

    def __bool__(self) -> bool:
        return self != NOTHING

    def answer(self, receiver: str | None, group: str, is_member: bool) -> None:
        """Note whether the receiver of this name, or without one the sender, is in a group."""
        known = self.sender if receiver is None else self.receivers.setdefault(receiver, {})
        known[group] = is_member and known.get(group, True)

    def add(self, other: "Facts") -> None:
        """Take in what is known from another event that was made of the same."""
        for name in ("load", "host", "elapsed", "has_store"):
            if getattr(self, name) is None:
                setattr(self, name, getattr(other, name))
        for receiver, answers in ((None, other.sender), *other.receivers.items()):
            for group, is_member in answers.items():
                self.answer(receiver, group, is_member)
        self.evidence = (*self.evidence, *other.evidence)


NOTHING = Facts()


class AnnouncedPolicy(Struct, frozen=True):
    """A policy that somebody has told of: of a client's own advertisement, or by a neighbour."""

    policy: str
    name: str
    filter: str
    where: str | None

    @classmethod
    def of(cls, bound: Bound) -> "AnnouncedPolicy":
        where = None if bound.condition is None else bound.condition.text
        return cls(bound.policy.text, bound.name, bound.filter, where)


class RecordedFacts(Facts, omit_defaults=True):
    """All that the journal has beside an event."""

    statements: tuple[AnnouncedPolicy, ...] = ()


class RecordingHere(Here):
    """The node as policies see it, which notes what they ask."""

    facts: Facts

    @classmethod
    def on(cls, here: Here, facts: Facts) -> "RecordingHere":
        row = cls(*here)
        row.facts = facts
        return row

    def moved_to(self, node: str) -> Here:
        return RecordingHere.on(self._replace(node=node), self.facts)

    @property
    def load(self) -> float:
        self.facts.load = super().load
        return super().load

    @property
    def host(self) -> str:
        self.facts.host = super().host
        return super().host

    def elapsed(self) -> float:
        if self.facts.elapsed is None:
            self.facts.elapsed = super().elapsed()
        return self.facts.elapsed

    @property
    def has_store(self) -> bool:
        self.facts.has_store = super().has_store
        return super().has_store
