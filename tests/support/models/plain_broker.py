"""A broker as small as it can be: what clients must get, found by looking at every subscription for every message.

It is the oracle of the differential test. It takes it that windows are never full and that nothing is larger than a
client takes; the cases of stage `emit` are about those.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.model.content.content import Content
from penstock.model.topic import matches, parse_filter
from penstock.policy.access.acl import Acl, Rights

NEVER = float("inf")


class Condition(Protocol):
    """What content must be."""

    def holds(self, content: Content, /) -> object:
        """Whether it is true of content; an error is neither true nor false."""


@dataclass(frozen=True)
class Message:
    """As a client sees it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    ids: tuple[int, ...]
    dup: bool = False
    by: tuple[str, str | None] | None = field(default=None, compare=False)
    """Who published it, which a client does not see."""


@dataclass(frozen=True)
class Sub:
    """One subscription."""

    filter: str
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    id: int = 0
    name: str = ""
    condition: Condition | None = None

    @property
    def key(self) -> str:
        return f"{self.filter}\0{self.name}" if self.name else self.filter

    def is_satisfied(self, payload: bytes) -> bool:
        return self.condition is None or self.condition.holds(Content(payload)) is True


@dataclass
class Owed:
    """A QoS 1 or 2 message that is not acknowledged."""

    message: Message
    sent: bool


@dataclass
class PlainSession:
    client_id: str
    user: str | None
    version: int
    expiry: float
    online: bool = True
    deaf: bool = False
    ended: float = 0
    subs: dict[str, Sub] = field(default_factory=dict)
    owed: list[Owed] = field(default_factory=list)
    later: list[Message] = field(default_factory=list)
    """QoS 0 messages that a client which does not read will find when it reads on."""
    will: tuple[str, bytes, int, bool] | None = None

    def copy_of(
        self, subs: list[Sub], topic: str, payload: bytes, qos: int, retain: bool, sender: "PlainSession"
    ) -> Message:
        ids = tuple(sorted(sub.id for sub in subs if sub.id))
        kept = retain and any(sub.retain_as_published for sub in subs)
        by = sender.client_id, sender.user
        return Message(topic, payload, min(qos, max(sub.qos for sub in subs)), kept, ids, by=by)

    def take(self, message: Message) -> list[Message]:
        """Deliver; what the client gets at once."""
        if message.qos:
            self.owed.append(Owed(message, self.online and not self.deaf))
        elif self.deaf:
            self.later.append(self.as_sent(message))
        return [self.as_sent(message)] if self.online and not self.deaf else []

    def as_sent(self, message: Message) -> Message:
        """MQTT 3.1.1 has no subscription identifiers; a message that waits keeps them, for the version may change."""
        return message if self.version == 5 else replace(message, ids=())


@dataclass
class Outcome:
    """What one publication brings: to each client, as it is sent; and to one of the members of the group that it
    matches, as it is kept."""

    plain: dict[str, list[Message]] = field(default_factory=dict)
    group: dict[str, Message] = field(default_factory=dict)


class PlainBroker:
    """Sessions, subscriptions, retained messages; nothing is remembered that can be looked up."""

    def __init__(self) -> None:
        self.sessions: dict[str, PlainSession] = {}
        self.retained: dict[str, tuple[bytes, int, str, str | None]] = {}
        self.acl: Acl | None = None

    def rights(self, client_id: str, user: str | None) -> Rights | None:
        return self.acl.rights(client_id, user) if self.acl else None

    def may_read(self, session: PlainSession, topic: str) -> bool:
        rights = self.rights(session.client_id, session.user)
        return rights is None or rights.may_read(topic)

    def may_write(self, client_id: str, user: str | None, topic: str) -> bool:
        rights = self.rights(client_id, user)
        return rights is None or rights.may_write(topic)

    def may_keep(self, client_id: str, user: str | None, topic: str) -> bool:
        """Whether what a client has published stays retained for others."""
        return self.may_write(client_id, user, topic)

    def publish(self, sender: PlainSession, topic: str, payload: bytes, qos: int, retain: bool) -> Outcome:
        if not self.may_write(sender.client_id, sender.user, topic):
            return Outcome()
        return self.spread(sender, topic, payload, qos, retain)

    def spread(self, sender: PlainSession, topic: str, payload: bytes, qos: int, retain: bool) -> Outcome:
        """Deliver to everybody what may be published."""
        outcome = Outcome()
        if retain:
            self.retained.pop(topic, None)
            if payload:
                self.retained[topic] = payload, qos, sender.client_id, sender.user
        for session in self.sessions.values():
            if not self.may_read(session, topic):
                continue
            subs = [
                sub
                for sub in self._matching(session, topic, payload, shared=False)
                if session is not sender or not sub.no_local
            ]
            if subs:
                copy = session.copy_of(subs, topic, payload, qos, retain, sender)
                shown = self.shown(session, subs, copy)
                outcome.plain[session.client_id] = [sent for one in shown for sent in session.take(one)]
            for sub in self._matching(session, topic, payload, shared=True):
                outcome.group[session.client_id] = session.copy_of([sub], topic, payload, qos, retain, sender)
        return outcome

    def shown(self, session: PlainSession, subs: list[Sub], message: Message) -> list[Message]:
        """What policies make of a message for one session; here there are none."""
        return [message]

    def is_withheld(self, session: PlainSession, message: Message) -> bool:
        """Whether policies of the day keep from a session what was published before."""
        return False

    def _matching(self, session: PlainSession, topic: str, payload: bytes, shared: bool) -> Iterator[Sub]:
        for sub in session.subs.values():
            parsed = parse_filter(sub.filter)
            if (parsed.group is not None) is shared and matches(parsed.filter, topic) and sub.is_satisfied(payload):
                yield sub

    def subscribe(self, session: PlainSession, sub: Sub, retain_handling: int) -> list[Message]:
        """The retained messages that come; the caller has asked whether the subscription is granted."""
        is_new = sub.key not in session.subs
        session.subs[sub.key] = sub
        parsed = parse_filter(sub.filter)
        if parsed.group is not None or retain_handling == 2 or (retain_handling == 1 and not is_new):
            return []
        got: list[Message] = []
        for topic, (payload, qos, publisher, user) in sorted(self.retained.items()):
            if (
                matches(parsed.filter, topic)
                and sub.is_satisfied(payload)
                and self.may_read(session, topic)
                and self.may_keep(publisher, user, topic)
            ):
                ids = (sub.id,) if sub.id else ()
                message = Message(topic, payload, min(qos, sub.qos), True, ids, by=(publisher, user))
                if not self.is_withheld(session, message):
                    got += [sent for one in self.shown(session, [sub], message) for sent in session.take(one)]
        return got

    def reads_on(self, session: PlainSession) -> list[Message]:
        session.deaf = False
        got, session.later = session.later, []
        for owed in session.owed:
            if not owed.sent:
                owed.sent = True
                got.append(session.as_sent(owed.message))
        return got

    def resume(self, session: PlainSession, version: int) -> list[Message]:
        """The client is back: what comes again, if it may still be said and read, and what waited."""
        session.online, session.version = True, version
        session.owed = [owed for owed in session.owed if not owed.sent or self._may_come_again(session, owed.message)]
        got = []
        for owed in session.owed:
            message = owed.message
            ids = message.ids if version == 5 else ()
            got.append(Message(message.topic, message.payload, message.qos, message.retain, ids, dup=owed.sent))
            owed.sent = True
        return got

    def _may_come_again(self, session: PlainSession, message: Message) -> bool:
        is_said = message.by is None or self.may_write(*message.by, message.topic)
        return is_said and self.may_read(session, message.topic)

    def lose(self, session: PlainSession, now: float, says_goodbye: bool = False) -> Outcome:
        """The connection ends; what the will brings."""
        session.online = session.deaf = False
        session.later, session.ended = [], now
        will, session.will = session.will, None
        if not session.expiry:
            del self.sessions[session.client_id]
        if will is None or says_goodbye:
            return Outcome()
        return self.publish(session, *will)

    def pass_time(self, now: float) -> None:
        for session in list(self.sessions.values()):
            if not session.online and now >= session.ended + session.expiry:
                del self.sessions[session.client_id]

    def reload(self, acl: Acl | None) -> None:
        """What waits and was never sent is judged again."""
        self.acl = acl
        for session in self.sessions.values():
            session.owed = [owed for owed in session.owed if owed.sent or self._may_still_have(session, owed.message)]

    def _may_still_have(self, session: PlainSession, message: Message) -> bool:
        """Rights as they are now, and of the subscriptions to the topic, if there are any, one that wants it."""
        topic, payload = message.topic, message.payload
        subs = [sub for sub in session.subs.values() if matches(parse_filter(sub.filter).filter, topic)]
        if self.is_withheld(session, message) or (message.by is not None and not self.may_write(*message.by, topic)):
            return False
        return self.may_read(session, topic) and (not subs or any(sub.is_satisfied(payload) for sub in subs))
