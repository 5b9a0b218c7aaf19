"""Random histories on a node and on a broker as plain as can be: the same messages, to the same clients."""

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.domain import LimitSettings
from penstock.language.condition import make_condition
from penstock.model.topic import parse_filter
from penstock.policy.access.acl import Acl
from penstock.wire.packet import Pubrec, Pubrel, WillMessage
from tests.support.generators.examples import some
from tests.support.memory.node import Client, MemoryNode
from tests.support.models.invariants import check_node
from tests.support.models.plain_broker import NEVER, Message, Outcome, PlainBroker, PlainSession, Sub

USERS: dict[str, str | None] = {"c0": "ann", "c1": "bob", "c2": None}
TOPICS = ["a", "a/b", "a/b/c", "b", "$d/a"]
FILTERS = ["a", "a/b", "+", "a/+", "a/#", "#", "+/b", "$d/#", "b"]
SHARED = "$share/g/a/#"
WHERE = ["", "", "value % 2 == 0", "value > 5", "value < 20 && value > 3", "value in [1, 4, 9, 16, 25]", "text == 'x'"]
"""Payloads count up, so they are content with one attribute, `value`."""
ACLS = [
    "topic readwrite #\nuser ann\ntopic readwrite #\nuser bob\ntopic readwrite #\npattern readwrite $d/#",
    "topic readwrite a/#\nuser ann\ntopic deny a/b\ntopic readwrite #\nuser bob\ntopic read #\ntopic write b",
    "pattern readwrite #\ntopic deny b\nuser bob\ntopic deny a/b/c",
]
MOST_OWED = 40


def read_acls() -> list[Acl]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "acl"
        read = []
        for text in ACLS:
            path.write_text(text)
            read.append(Acl.read(path))
        return read


READ_ACLS = read_acls()

clients = st.sampled_from(sorted(USERS))
topics = st.sampled_from(TOPICS)
qos_levels = st.integers(0, 2)
filters = st.sampled_from([*FILTERS, SHARED, SHARED, "a/#", "#"])
wills = st.none() | st.tuples(topics, st.just(b""), qos_levels, st.booleans())


class Histories(RuleBasedStateMachine):
    """Whatever clients do in whatever order."""

    durable = False

    def __init__(self) -> None:
        super().__init__()
        self.joined = MemoryNode(LimitSettings(inflight=2 * MOST_OWED), durable=self.durable)
        self.model = PlainBroker()
        self.clients: dict[str, Client] = {}
        self.bridges: set[str] = set()
        self.count = 0

    @initialize(versions=st.tuples(*[st.sampled_from([4, 5])] * len(USERS)), filter=filters)
    def begin(self, versions: tuple[int, ...], filter: str) -> None:
        """Everybody is there: random clients do not find together fast enough."""
        for name, version in zip(USERS, versions, strict=True):
            self.connect(name, version, False, NEVER, None, False)
            self.subscribe(name, filter, 1, (False, False, 0), 0)

    # --- what clients do

    @rule(
        name=clients,
        version=st.sampled_from([4, 5]),
        clean=st.booleans(),
        expiry=st.sampled_from([0.0, 5.0, NEVER]),
        will=wills,
        measured=st.booleans(),
    )
    def connect(
        self,
        name: str,
        version: int,
        clean: bool,
        expiry: float,
        will: tuple[str, bytes, int, bool] | None,
        measured: bool,
    ) -> None:
        """A client may say how large a packet may be, and so cannot be sent another client's bytes as they are.

        In 3.1.1, it says that it is a bridge instead.
        """
        if version == 4:
            expiry = 0 if clean else NEVER
        self._take_over(name)
        session = self.model.sessions.get(name)
        present = session is not None and not clean
        expected = []
        if present and session is not None:
            expected = self.model.resume(session, version)
        else:
            session = self.model.sessions[name] = PlainSession(name, USERS[name], version, expiry)
        session.expiry = expiry
        session.will = None if will is None else (will[0], self._payload(), *will[2:])
        seconds = 0xFFFFFFFF if expiry == NEVER else int(expiry)
        client = self.clients[name] = self.joined.connect(
            name,
            version,
            USERS[name],
            clean_start=clean,
            will=None if session.will is None else WillMessage(*session.will),
            **({"session_expiry": seconds} if version == 5 else {}),
            **({"maximum_packet_size": 1000} if version == 5 and measured else {}),
            is_bridge=version == 4 and measured,
        )
        (self.bridges.add if version == 4 and measured else self.bridges.discard)(name)
        assert self.joined.session_present(client) is present
        assert seen(client) == expected
        self._compare(Outcome())

    def _take_over(self, name: str) -> None:
        """A connection that is there ends first."""
        session = self.model.sessions.get(name)
        if session is not None and session.online:
            self.lose(name)

    @rule(name=clients)
    def lose(self, name: str) -> None:
        if self._online(name):
            outcome = self.model.lose(self.model.sessions[name], self.joined.now)
            self.clients.pop(name).lose()
            self._compare(outcome)

    @rule(name=clients, version=st.sampled_from([4, 5]), measured=st.booleans())
    def come_back(self, name: str, version: int, measured: bool) -> None:
        """With another version, or other wishes."""
        if name in self.model.sessions:
            self.connect(name, version, False, NEVER, None, measured)

    @rule(name=clients)
    def leave(self, name: str) -> None:
        if self._online(name):
            self.model.lose(self.model.sessions[name], self.joined.now, says_goodbye=True)
            self.clients.pop(name).leave()
            self._compare(Outcome())

    @rule(
        name=clients,
        filter=filters,
        qos=qos_levels,
        options=st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)),
        retain_handling=st.integers(0, 2),
        called=st.sampled_from(["", "", "one", "two"]),
        where=st.sampled_from(WHERE),
    )
    def subscribe(
        self,
        name: str,
        filter: str,
        qos: int,
        options: tuple[bool, bool, int],
        retain_handling: int,
        called: str = "",
        where: str = "",
    ) -> None:
        if not self._reads(name):
            return
        client, session = self.clients[name], self.model.sessions[name]
        no_local, retain_as_published, identifier = options
        if session.version == 4:
            no_local = retain_as_published = name in self.bridges
            identifier, retain_handling, called, where = 0, 0, "", ""
        if filter == SHARED:
            no_local, called = False, ""
        rights = self.model.rights(name, USERS[name])
        expected = []
        if rights is None or rights.may_subscribe(parse_filter(filter).filter):
            condition = make_condition(where) if where else None
            sub = Sub(filter, qos, no_local, retain_as_published, identifier, called, condition)
            expected = self.model.subscribe(session, sub, retain_handling)
        client.subscribe(
            filter,
            qos,
            identifier,
            no_local=no_local and session.version == 5,
            retain_as_published=retain_as_published and session.version == 5,
            retain_handling=retain_handling,
            user_properties=tuple((key, text) for key, text in (("name", called), ("where", where)) if text),
        )
        assert seen(client) == expected
        self._compare(Outcome())

    @rule(name=clients, filter=filters, called=st.sampled_from(["", "one", "two"]))
    def unsubscribe(self, name: str, filter: str, called: str) -> None:
        if self._reads(name):
            if self.model.sessions[name].version == 4:
                called = ""
            self.model.sessions[name].subs.pop(f"{filter}\0{called}" if called else filter, None)
            self.clients[name].unsubscribe(filter, user_properties=(("name", called),) if called else ())
            self._compare(Outcome())

    @rule(name=clients, topic=topics, qos=qos_levels, retain=st.booleans(), empty=st.booleans())
    def publish(self, name: str, topic: str, qos: int, retain: bool, empty: bool) -> None:
        if not self._reads(name):
            return
        client = self.clients[name]
        payload = b"" if empty and retain else self._payload()
        outcome = self.model.publish(self.model.sessions[name], topic, payload, qos, retain)
        client.publish(topic, payload, qos, retain=retain)
        for packet in [packet for packet in client.inbox if isinstance(packet, Pubrec) and packet.reason < 0x80]:
            client.sends(Pubrel(packet.packet_id))
        self._compare(outcome)

    @rule(name=clients, topic=topics, times=st.integers(2, 4))
    def publish_plainly(self, name: str, topic: str, times: int) -> None:
        """The way on which no packet is decoded."""
        for _ in range(times):
            self.publish(name, topic, 0, False, False)

    @rule(name=clients)
    def acknowledge(self, name: str) -> None:
        if self._reads(name):
            client, session = self.clients[name], self.model.sessions[name]
            assert client.acknowledge() == []
            assert all(owed.sent for owed in session.owed)
            session.owed = []

    @rule(name=clients)
    def stop_reading(self, name: str) -> None:
        if self._reads(name) and not any(key.startswith(SHARED) for key in self.model.sessions[name].subs):
            self.model.sessions[name].deaf = True
            self.clients[name].goes_deaf()

    @rule(name=clients)
    def read_on(self, name: str) -> None:
        if self._online(name) and not self._reads(name):
            expected = self.model.reads_on(self.model.sessions[name])
            self.clients[name].reads_on()
            assert seen(self.clients[name]) == expected

    # --- what happens to all

    @rule(seconds=st.sampled_from([1, 4, 20]))
    def wait(self, seconds: int) -> None:
        self.joined.wait(seconds)
        self.model.pass_time(self.joined.now)
        self._compare(Outcome())

    @rule(acl=st.none() | st.sampled_from(range(len(ACLS))))
    def reload(self, acl: int | None) -> None:
        read = None if acl is None else READ_ACLS[acl]
        self.model.reload(read)
        self.joined.govern(read)
        self._compare(Outcome())

    # --- what must hold

    @invariant()
    def the_node_agrees_with_itself(self) -> None:
        check_node(self.joined.node)

    @invariant()
    def both_have_the_same_sessions(self) -> None:
        sessions = self.joined.node.sessions
        assert set(sessions) == set(self.model.sessions)
        for name, session in self.model.sessions.items():
            assert set(sessions[name].subscriptions) == set(session.subs)
            assert len(sessions[name].outbox.inflight) + sessions[name].outbox.waiting() == len(session.owed)
            if len(session.owed) > MOST_OWED:
                self.acknowledge(name)

    def _online(self, name: str) -> bool:
        session = self.model.sessions.get(name)
        return session is not None and session.online

    def _reads(self, name: str) -> bool:
        return self._online(name) and not self.model.sessions[name].deaf

    def _payload(self) -> bytes:
        self.count += 1
        return b"%d" % self.count

    def _compare(self, outcome: Outcome) -> None:
        """Every client has got what it should, and one member of the group too."""
        extra: list[tuple[str, Message]] = []
        for name, client in self.clients.items():
            if self._reads(name):
                missing = Counter(outcome.plain.get(name, []))
                for message in seen(client):
                    if missing[message]:
                        missing[message] -= 1
                    else:
                        extra.append((name, message))
                assert not +missing, name
        if any(self._online(name) for name in outcome.group):
            assert len(extra) == 1, extra
            name, message = extra[0]
            session, kept = self.model.sessions[name], outcome.group[name]
            assert session.as_sent(kept) == message
            assert session.online
            if kept.qos:
                session.take(kept)
        else:
            assert extra == []
            self._find_waiting(outcome.group)

    def _find_waiting(self, members: dict[str, Message]) -> None:
        """All members are away: one of them has it in its queue, unless it is for a QoS 0 subscription."""
        chosen = []
        for name, message in members.items():
            session = self.joined.node.sessions[name]
            if len(session.outbox.inflight) + session.outbox.waiting() > len(self.model.sessions[name].owed):
                self.model.sessions[name].take(message)
                chosen.append(name)
        assert len(chosen) <= 1
        assert chosen or not members or any(message.qos == 0 for message in members.values())


def seen(client: Client) -> list[Message]:
    """The messages that came, as the model writes them; their identifiers are kept to be acknowledged."""
    return [
        Message(one.topic, one.payload, one.qos, one.retain, tuple(sorted(one.properties.subscription_ids)), one.dup)
        for one in client.messages()
    ]


class DurableHistories(Histories):
    """The same, where everything waits for the store."""

    durable = True


TestHistories = Histories.TestCase
TestDurableHistories = DurableHistories.TestCase
TestHistories.settings = TestDurableHistories.settings = settings(max_examples=some(150), stateful_step_count=50)
