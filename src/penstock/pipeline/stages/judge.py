"""Policy statements over tables of events: what they make of each for a subject, by the engine's own stage.

Events are recorded as they came. What policies ask of a node and cannot be known any more, such as its load, is beside
them (`facts`). If it is not, what asks for it fails: the rule's `OnException` counts, or the event is blocked. Nobody
is a member of a trust group who was not found to be one, unless the domain vouches for it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame

from penstock.engine.events import user_properties
from penstock.engine.federation.wants import is_of_client
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.stages import judge
from penstock.engine.statements import applicability, bindings
from penstock.engine.statements.facts import Facts, Remembered, Told
from penstock.language.condition import Condition, condition_of
from penstock.language.errors import ConditionError
from penstock.language.parser import parse
from penstock.language.statements.statement import Message
from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.pipeline.spark.policies import Asker, Policies, Policy, by_name
from penstock.pipeline.stages.edit import event_of, rows_of
from penstock.pipeline.tables.executor import F
from penstock.policy.statements.elements.element import ElementError
from penstock.policy.statements.elements.tracing import TRACE
from penstock.policy.statements.judging import Bound, Here

NOTHING = Remembered()


def is_judged() -> Column:
    """Whether policies may have something to say of a row: those of its key, attached ones, those that were told."""
    return F.col("judged") | F.col("facts").isNotNull() | is_carrying()


def is_carrying() -> Column:
    """Whether an event has with it policies, or what policies have put there."""
    return reduce(or_, (F.contains(F.col("properties"), F.lit(name.encode())) for name in _OF_POLICIES))


_OF_POLICIES = (user_properties.POLICY, user_properties.MADE, TRACE)


def has_reserved() -> Column:
    """Whether an event has with it anything that is only for nodes."""
    return F.contains(F.col("properties"), F.lit(user_properties.RESERVED_BYTES))


@dataclass(frozen=True)
class Judges:
    """By which policies, for whom."""

    policies: Policies
    askers: tuple[Asker, ...]
    at_rest: bool = False
    """What was not recorded is as at a node that has nothing to do, whose neighbours have proven what the domain says
    of them, and told of all policies that it gives. It is so where the question is what could be; a view assumes
    nothing.
    """
    has_contracts: bool = False
    """Whether contracts are asked after this: they take off what is only for nodes."""


class Made(NamedTuple):
    """What becomes of a row."""

    event: Event
    wanted: bool
    """Else only monitors look on."""
    said: bytes
    """The payload as it was for all."""
    blocked: bool = False


def with_ways(rows: DataFrame) -> DataFrame:
    """Rows with the columns `said` and `blocked`. Where events come by several ways, the first counts, as it was before
    policies changed it for one receiver; and it counts even if they block it then.
    """
    return rows.withColumns({"said": F.col("payload"), "blocked": F.lit(False)})


def judged(rows: DataFrame, judges: Judges) -> DataFrame:
    """Rows as policies leave them: `where` is asked, so that `wanted` is known. Those that they block are left out,
    unless there is a column `blocked` to say so.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stage = Stage(judges)
        for batch in batches:
            yield _applied(batch, stage)

    return rows.mapInArrow(work, rows.schema)


def _applied(batch: pa.RecordBatch, stage: "Stage") -> pa.RecordBatch:
    """What no policy concerns is left as it is."""
    concerned = batch.column("is_judged").to_pylist()
    if not any(concerned):
        return batch
    rows = iter(rows_of(batch.filter(batch.column("is_judged"))))
    keeps_blocked = "blocked" in batch.schema.names
    kept: list[int] = []
    changed: dict[int, Made] = {}
    for at, is_concerned in enumerate(concerned):
        made = stage.step(next(rows)) if is_concerned else None
        if made is not None and (keeps_blocked or not made.blocked):
            changed[at] = made
        if at in changed or not is_concerned:
            kept.append(at)
    said: dict[str, dict[int, Any]] = {
        "payload": {at: made.event.payload for at, made in changed.items()},
        "properties": {at: made.event.properties for at, made in changed.items()},
        "content_type": {at: made.event.content_type or None for at, made in changed.items()},
        "wanted": {at: made.wanted for at, made in changed.items()},
        "said": {at: made.said for at, made in changed.items()},
        "blocked": {at: made.blocked for at, made in changed.items()},
    }
    taken = batch.take(pa.array(kept, pa.int64()))
    columns = [
        _with(taken.column(field.name), kept, said[field.name]) if field.name in said else taken.column(field.name)
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _with(column: pa.Array, kept: list[int], made: dict[int, Any]) -> pa.Array:
    before = column.to_pylist()
    return pa.array([made.get(at, old) for at, old in zip(kept, before, strict=True)], column.type)


class Stage:
    """The stage `judge` of all nodes, for one row after the other. Of one event, rows come together."""

    def __init__(self, judges: Judges) -> None:
        self._judges = judges
        self._askers = {asker.label: asker for asker in judges.askers}
        self._nodes: dict[tuple[str, str], Node] = {}
        self._receivers: dict[tuple[str, str, str], Session] = {}
        self._senders: dict[tuple[str | None, ...], Session | None] = {}
        self._at: tuple[object, ...] = ()
        self._facts: Remembered = NOTHING
        self._judging: judge.Judging | None = None

    def step(self, row: dict[str, Any]) -> Made | None:
        """The event as it goes to the subject; None if it has nothing to do with that."""
        policy = self._judges.policies.by_digest[row["policy"]].compiled()
        node = self._node(policy, row["node"])
        at = (policy.digest, row["node"], row["arrival"], row["place"])
        if at != self._at:
            self._at, self._facts = at, remembered(row["facts"])
            self._judging = self._begin(policy, node, row)
        judging = self._judging
        made = None if judging is None else self._towards(policy, node, judging, row)
        node.made.clear()
        node.notices.clear()
        return made

    def _begin(self, policy: Policy, node: Node, row: dict[str, Any]) -> judge.Judging | None:
        """What policies make of the event before it is known who gets it; None if that is nothing."""
        sender = self._sender(policy, node, row)
        if sender is None:
            return None
        event = event_of(row, row["link_type_now"])
        if sender.neighbour is None and self._judges.policies.decide_again and not _may_attach(node, sender, event):
            return None
        statements = self._statements(policy, node, sender)
        if statements is None:
            return None
        self._prove(node, sender, self._facts.sender)
        here = Then.of(node, policy, self._facts, self._judges.at_rest)
        about = [one for one in statements if matches(one.filter, event.topic)]
        made = judge.Judging(node, event, sender, row["time"], about, here)
        return made if made.verdict is None else None

    def _statements(self, policy: Policy, node: Node, sender: Session) -> list[Bound] | None:
        """The policies for what somebody publishes; None if one cannot be read."""
        found = [*bindings.bounds_of(node, sender)]
        if sender.neighbour is not None and self._judges.at_rest:
            known = {one.policy for one in self._facts.statements}
            beyond = offered(policy, node.name, sender.neighbour)
            found += [one for one in beyond if one.policy.text not in known]
        for told in self._facts.statements:
            bound = _bound(told)
            if bound is None:
                return None
            bound = bound._replace(is_strange=sender.neighbour is not None and is_of_client(told.name))
            own = (sender, bound.policy, Message.ADVERTISEMENT)
            if sender.neighbour is None and self._judges.policies.decide_again and bindings.why_not(node, *own):
                continue  # the client could not have set it
            found.append(bound)
        return found

    def _towards(self, policy: Policy, node: Node, judging: judge.Judging, row: dict[str, Any]) -> Made | None:
        session = self._receiver(policy, node, row["subject"])
        if not row["reads"] or not _holds(row["asks"], judging):
            return Made(judging.event, False, judging.event.payload) if row["looks_on"] else None
        is_node = applicability.is_node(node, session)
        self._prove(node, session, self._facts.receivers.get(session.neighbour or session.entity, {}))
        forms = judging.forms(session, () if is_node else (by_name(node, session, row["topic"]),))
        if forms is None:
            return Made(judging.event, False, judging.event.payload, blocked=True)
        # Monitors on the link see all of it, and what they let out is cut then.
        # And what contracts have attached is needed where they are asked.
        is_kept = is_node or row["watched"] or self._judges.has_contracts
        shown = forms.event if is_kept else user_properties.for_clients(forms.event)
        return Made(shown, True, judging.event.payload)

    def _prove(self, node: Node, session: Session, recorded: dict[str, bool]) -> None:
        """Let a session have proven what it had then."""
        session.proven = {group: math.inf for group, is_member in recorded.items() if is_member}
        if self._judges.at_rest and applicability.is_node(node, session):
            for name, group in node.ensemble.trust_groups.items():
                if name not in recorded and {session.neighbour, node.name} <= group.nodes:
                    session.proven[name] = math.inf

    def _node(self, policy: Policy, name: str) -> Node:
        at = (policy.digest, name)
        if at not in self._nodes:
            self._nodes[at] = policy.new_node(name)
        return self._nodes[at]

    def _sender(self, policy: Policy, node: Node, row: dict[str, Any]) -> Session | None:
        who = (row["client_id"], row["user"], row["entity"], row["neighbour"])
        at = (policy.digest, node.name, *who)
        if at not in self._senders:
            session = self._senders[at] = policy.publishing(node, *who)
            if session is not None and session.neighbour is None:
                session.rights = node.rights_of(session.client_id, session.subject.user)
        return self._senders[at]

    def _receiver(self, policy: Policy, node: Node, subject: str) -> Session:
        at = (policy.digest, node.name, subject)
        if at not in self._receivers:
            session = policy.session(node, self._askers[subject])
            assert session is not None  # it is among the receivers of the row's key
            self._receivers[at] = session
        return self._receivers[at]


class Then(Here):
    """A node as it was when an event came there, as far as that was recorded."""

    facts: Facts

    @classmethod
    def of(cls, node: Node, policy: Policy, facts: Facts, at_rest: bool) -> Here:
        settings = policy.domain.nodes[node.name]
        has_store = settings.store != "memory" if facts.has_store is None else facts.has_store
        if at_rest:
            load, elapsed = facts.load or 0.0, facts.elapsed or 0.0
            return Here(node.name, facts.host or "", load, lambda: elapsed, settings.limits.max_packet_size, has_store)
        made = cls(node.name, largest=settings.limits.max_packet_size, has_store=has_store)
        made.facts = facts
        return made

    @property
    def load(self) -> float:
        return _recorded(self.facts.load, "how busy the node was")

    @property
    def host(self) -> str:
        return _recorded(self.facts.host, "where the node ran")

    def elapsed(self) -> float:
        return _recorded(self.facts.elapsed, "how long the node took")


_T = TypeVar("_T")


def _recorded(value: _T | None, what: str) -> _T:
    if value is None:
        raise ElementError(f"the journal does not say {what}")
    return value


def remembered(facts: str | None) -> Remembered:
    """What was recorded beside an event."""
    return NOTHING if facts is None else msgspec.json.decode(facts, type=Remembered)


def _bound(told: Told) -> Bound | None:
    try:
        condition = None if told.where is None else _condition(told.where)
        policy = bindings.readable(told.policy)
    except (ConditionError, PolicyError):
        return None
    return Bound(policy, told.name, told.filter, condition, Message.ADVERTISEMENT)


def _may_attach(node: Node, sender: Session, event: Event) -> bool:
    """Whether a client may attach what it has attached, by the policies that count here."""
    texts = user_properties.told(event, user_properties.POLICY)
    return all(not isinstance(bindings.settable(node, sender, one, Message.PUBLICATION), str) for one in texts)


def _holds(where: str | None, judging: judge.Judging) -> bool:
    return where is None or _condition(where).holds(judging.content) is True


@lru_cache(maxsize=10_000)
def _condition(text: str) -> Condition:
    return condition_of(parse(text))


def offered(policy: Policy, node: str, neighbour: str) -> list[Bound]:
    """The policies that the domain gives to advertisements of clients beyond a neighbour: a node is told of them."""
    whole = policy.ensemble
    seen, waiting = {node, neighbour}, [neighbour]
    found: dict[Bound, None] = {}
    while waiting:
        here = waiting.pop()
        beyond = [target for source, target in whole.links if source == here and target in whole.nodes]
        waiting += [name for name in beyond if name not in seen]
        seen.update(beyond)
        for entry in whole.listed(here):
            for one in whole.statements.of(entry.name, Message.ADVERTISEMENT):
                if one.policy.concerns(Message.PUBLICATION):
                    found[Bound(one.policy, one.name, one.filter, one.condition, one.to, is_given=True)] = None
    return list(found)
