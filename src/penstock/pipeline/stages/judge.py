"""Stage judge over tables: what do policy statements make of an event for a subject?

The steps are the engine's own. Events are recorded as they came. What policies ask of a node and cannot be known any
more, such as its load, is beside them (`facts`). If it is not, what asks for it fails: the rule's `OnException` counts,
or the event is blocked. Nobody is a member of a trust group who was not found to be one, unless the domain vouches for
it.
"""

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple, TypeVar

import msgspec
from pyspark.sql import Column, DataFrame

from penstock.engine.events import user_properties
from penstock.engine.federation.wants import is_of_client, owner, owner_in
from penstock.engine.node import Node
from penstock.engine.sessions import session_rights
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.statements import applicability, bindings
from penstock.engine.statements.event_judging import Judging
from penstock.engine.statements.facts import AnnouncedPolicy, Facts, RecordedFacts
from penstock.language.errors import ConditionError
from penstock.language.statements.statement import Message
from penstock.model.content.content import Content
from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.model.topic_tree import place_index
from penstock.model.verdict import Verdict
from penstock.pipeline.conditions.payloads import condition
from penstock.pipeline.spark.policies import CompiledDomain, by_name
from penstock.pipeline.stages.stage import KeyDraft, Traffic
from penstock.pipeline.state.actors import Actors
from penstock.pipeline.state.rows import Fields, content_fields, event_of, stepping
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables.executor import F
from penstock.policy.statements.advertisement import ProducerAdvertisement
from penstock.policy.statements.elements.element import ElementError
from penstock.policy.statements.elements.tracing import TRACE
from penstock.policy.statements.judging import Bound, Here

NOTHING = RecordedFacts()


def plan(draft: KeyDraft) -> None:
    """Mark the receivers for which the domain has policy statements."""
    draft.receivers = [
        (session, receiver._replace(judged=_is_given(draft, session))) for session, receiver in draft.receivers
    ]


def _is_given(draft: KeyDraft, session: Session) -> bool:
    """Return whether the domain gives policies to what the publisher publishes, or to the session's subscriptions."""
    topic, publisher = draft.key.topic, draft.publisher
    at = (draft.policy.digest, draft.node.name, publisher.link.neighbour, publisher.entity)
    if at not in draft.trees:
        draft.trees[at] = place_index(bound.filter for bound in _bounds(draft))
    return bool(draft.trees[at].match(topic)) or any(
        bound.policy.concerns(Message.PUBLICATION) and matches(bound.filter, topic) for bound in session.place.policies
    )


def _bounds(draft: KeyDraft) -> list[Bound]:
    """Return the policies that the domain may give to what comes from the publisher."""
    neighbour = draft.publisher.link.neighbour
    if neighbour is None:
        return list(bindings.given_bounds(draft.node, draft.publisher.entity))
    return [*bindings.own_bounds(draft.node), *_offered(draft.policy, draft.node.name, neighbour)]


def on_table(traffic: Traffic) -> Traffic:
    """Leave of events what policy statements leave; rows that they do not concern are not sent to Python and back."""
    if not traffic.scope.has_statements:
        return traffic
    rows = _beside(traffic)
    judged = _judged(rows.filter("is_judged"), traffic.scope)
    return traffic.with_rows(rows.filter(~F.col("is_judged")).unionByName(judged).drop("is_judged", "asks"))


def on_stream(traffic: Traffic) -> Traffic:
    """Do the same in one table: of two, each would have all rows planned."""
    if not traffic.scope.has_statements:
        return traffic
    return traffic.with_rows(_judged(_beside(traffic), traffic.scope).drop("is_judged", "asks"))


def _beside(traffic: Traffic) -> DataFrame:
    """Return rows with payloads that later stages need: where events come by several ways, in `said` the one before
    policies changed it for one receiver; in `left`, what policies leave of an event that only monitors see, if any.
    """
    rows, scope = traffic.rows, traffic.scope
    rows = rows.withColumn("said", F.col("payload")) if scope.is_cyclic else rows
    payload = F.when(F.col("payload").isNotNull(), F.col("payload"))  # which may be NULL, for Spark
    return rows.withColumn("left", payload) if scope.has_monitors_out else rows


def is_judged() -> Column:
    """Return whether policies may concern a row: those of its key, attached ones, those that other nodes announced."""
    return F.col("judged") | F.col("facts").isNotNull() | is_carrying()


def is_carrying() -> Column:
    """Return whether an event carries policies, or what policies have put there."""
    return reduce(or_, (F.contains(F.col("properties"), F.lit(name.encode())) for name in _OF_POLICIES))


_OF_POLICIES = (user_properties.POLICY, user_properties.MADE, TRACE)


def has_reserved() -> Column:
    """Return whether an event carries anything of policies or contracts."""
    names = user_properties.OF_POLICIES
    return reduce(or_, (F.contains(F.col("properties"), F.lit(name.encode())) for name in names))


def _judged(rows: DataFrame, scope: Scope) -> DataFrame:
    """Return rows as policies leave them: `where` is asked, so that `wanted` is known."""
    return rows.mapInArrow(stepping(lambda: JudgeSteps(scope).step, "is_judged"), rows.schema)


class Judged(NamedTuple):
    """What becomes of a row."""

    event: Event
    wanted: bool
    """Else only monitors look on."""
    said: bytes
    """The payload as it was for all."""
    left: bytes | None
    """What policies leave of the payload for the subject."""


class JudgeSteps:
    """The engine's stage for one row after the other. The rows of one event come together."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._actors = Actors(scope.policies, scope.askers)
        self._at: tuple[object, ...] = ()
        self._facts: RecordedFacts = NOTHING
        self._judging: Judging | None = None
        self._asks: str | None = None
        """The condition of the row that is being judged."""

    def step(self, row: Fields) -> Iterator[Fields]:
        """Yield what changes in a row, if it goes on."""
        judged = self.judged(row)
        if judged is not None:
            changes = {**content_fields(judged.event), "wanted": judged.wanted}
            changes |= {"said": judged.said} if self._scope.is_cyclic else {}
            yield changes | ({"left": judged.left} if self._scope.has_monitors_out else {})

    def judged(self, row: Fields) -> Judged | None:
        """Return the event as it goes to the subject; None if it does not concern the subject, or policies block it."""
        policy = self._actors.policy(row)
        node = self._actors.node(policy, row["node"])
        at = (policy.digest, row["node"], row["arrival"], row["place"])
        if at != self._at:
            self._at, self._facts = at, remembered(row["facts"])
            self._judging = self._begin(policy, node, row)
        judging = self._judging
        judged = None if judging is None else self._towards(policy, node, judging, row)
        node.statements.made.clear()
        node.notices.clear()
        return judged

    def _begin(self, policy: CompiledDomain, node: Node, row: Fields) -> Judging | None:
        """Return the event as policies leave it before receivers are known; None if they stop it."""
        sender = self._sender(policy, node, row)
        if sender is None:
            return None
        event = event_of(row, row["link_type_now"])
        if sender.neighbour is None and self._scope.policies.decide_again and not _may_attach(node, sender, event):
            return None
        statements = self._statements(policy, node, sender, row)
        if statements is None:
            return None
        prove(node, sender, self._facts, self._scope.at_rest, is_sender=True)
        here = Then.of(node, policy, self._facts, self._scope.at_rest)
        about = [bound for bound in statements if matches(bound.filter, event.topic)]
        made = Judging(node, event, sender, row["time"], about, here, self._satisfies)
        return made if made.verdict is None else None

    def _statements(self, policy: CompiledDomain, node: Node, sender: Session, row: Fields) -> list[Bound] | None:
        """Return the policies for what somebody publishes; None if one cannot be read."""
        if sender.neighbour is None:
            is_read = advertise(node, sender, self._facts, self._scope.policies.decide_again)
            return [*bindings.bounds_of(node, sender)] if is_read else None
        bounds = [*bindings.bounds_of(node, sender)]
        by = "" if row["publisher"] is None else owner(row["publisher_node"] or "", row["publisher"])
        if self._scope.at_rest:
            known = {announced.policy for announced in self._facts.statements}
            beyond = _offered(policy, node.name, sender.neighbour)
            bounds += [bound for bound in beyond if bound.policy.text not in known]
        for announced in self._facts.statements:
            bound = _bound(announced)
            if bound is None:
                return None
            if owner_in(announced.name) in ("", by):  # else it concerns what another client publishes
                bounds.append(bound._replace(is_strange=is_of_client(announced.name)))
        return bounds

    def _towards(self, policy: CompiledDomain, node: Node, judging: Judging, row: Fields) -> Judged | None:
        session = self._actors.receiver(policy, node, row["subject"])
        is_node = applicability.is_node(node, session)
        subscribed = () if is_node else (by_name(node, session, row["topic"]),)
        self._asks = row["asks"]
        is_late = any(judging.is_late or applicability.is_matched_late(each, row["topic"]) for each in subscribed)
        is_wanted = row["reads"] and (is_late or _holds(self._asks, judging.content))
        if not is_wanted and not row["looks_on"]:
            return None
        prove(node, session, self._facts, self._scope.at_rest)
        if not is_wanted:
            self._asks = None
            left, _ = judging.explained(session, (Subscribed(session, row["topic"], 2),))
            return Judged(judging.event, False, judging.event.payload, None if left is None else left.payload)
        forms = judging.forms(session, subscribed)
        if forms is None:
            return None
        # Monitors on the link see all of it, and what they let out is cut then.
        # And what contracts have attached is needed where they are asked.
        is_kept = is_node or row["watched"] or self._scope.has_contracts
        shown = forms.event if is_kept else user_properties.for_clients(forms.event)
        return Judged(shown, True, judging.event.payload, shown.payload)

    def _satisfies(self, node: Node, event: Event, subscribed: Subscribed, now: float) -> bool:
        """Return whether an event satisfies the row's condition, after rules before matching."""
        return _holds(self._asks, node.ensemble.reader.read(event))

    def _sender(self, policy: CompiledDomain, node: Node, row: Fields) -> Session | None:
        session = self._actors.publisher(policy, node, row)
        if session is not None and session.neighbour is None and session.rights is None:
            session.rights = session_rights.rights_of(node, session.client_id, session.subject.user)
        return session


def advertise(node: Node, sender: Session, facts: RecordedFacts, decide_again: bool) -> bool:
    """Let a client have advertised what it had then, as far as it may; False if a policy cannot be read."""
    sender.declared.advertisements.clear()
    for place, announced in enumerate(facts.statements):
        bound = _bound(announced)
        if bound is None:
            return False
        own = (sender, bound.policy, Message.ADVERTISEMENT, bound.filter)
        if not decide_again or not bindings.why_not(node, *own):
            name = announced.name.partition(": ")[2]
            made = ProducerAdvertisement(name, bound.filter, bound.condition, policy=bound.policy)
            sender.declared.advertisements[f"{place:06}"] = made
    return True


def prove(node: Node, session: Session, facts: Facts, at_rest: bool, is_sender: bool = False) -> None:
    """Let a session have proven what it had then."""
    who = session.neighbour or session.place.entity
    recorded = facts.sender if is_sender else facts.receivers.get(who, {})
    session.trust.proven = {group: math.inf for group, is_member in recorded.items() if is_member}
    if at_rest and applicability.is_node(node, session):
        for name, group in node.ensemble.trust_groups.items():
            if name not in recorded and {session.neighbour, node.name} <= group.nodes:
                session.trust.proven[name] = math.inf


class JudgedCause(Judging):
    """An event that was judged for a receiver before the monitors of the link saw it."""

    def __init__(self, node: Node, event: Event, row: Fields, at: Here) -> None:
        super().__init__(node, user_properties.for_clients(event), None, row["time"], at=at)
        self._left = None if row["left"] is None else event._replace(payload=row["left"])

    def explained(self, session: Session, subscribed: Sequence[Subscribed]) -> tuple[Event | None, tuple[Verdict, ...]]:
        return self._left, ()


class Then(Here):
    """A node as it was when an event came there, as far as that was recorded."""

    facts: Facts

    @classmethod
    def of(cls, node: Node, policy: CompiledDomain, facts: Facts, at_rest: bool) -> Here:
        settings = policy.domain.nodes[node.name]
        has_store = settings.store != "memory" if facts.has_store is None else facts.has_store
        if at_rest:
            load, elapsed = facts.load or 0.0, facts.elapsed or 0.0
            return Here(node.name, facts.host or "", load, lambda: elapsed, settings.limits.max_packet_size, has_store)
        made = cls(node.name, largest=settings.limits.max_packet_size, has_store=has_store)
        made.facts = facts
        return made

    def moved_to(self, node: str) -> Here:
        moved = Then(*self._replace(node=node))
        moved.facts = self.facts
        return moved

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


def remembered(facts: str | None) -> RecordedFacts:
    """Return what was recorded beside an event."""
    return NOTHING if facts is None else msgspec.json.decode(facts, type=RecordedFacts)


def _bound(announced: AnnouncedPolicy) -> Bound | None:
    try:
        where = None if announced.where is None else condition(announced.where)
        policy = bindings.readable(announced.policy)
    except (ConditionError, PolicyError):
        return None
    return Bound(policy, announced.name, announced.filter, where, Message.ADVERTISEMENT)


def _may_attach(node: Node, sender: Session, event: Event) -> bool:
    """Return whether a client may attach what it has attached, by the policies that count here."""
    texts = user_properties.told(event, user_properties.POLICY)
    return all(not isinstance(bindings.settable(node, sender, text, Message.PUBLICATION), str) for text in texts)


def _holds(where: str | None, content: Content) -> bool:
    return where is None or condition(where).holds(content) is True


def _offered(policy: CompiledDomain, node: str, neighbour: str) -> list[Bound]:
    """Return the policies that the domain gives to advertisements of clients beyond a neighbour; a foreign broker tells
    of none.
    """
    whole = policy.ensemble
    seen, waiting = {node, neighbour}, [neighbour] if neighbour in whole.nodes else []
    bounds: dict[Bound, None] = {}
    while waiting:
        here = waiting.pop()
        beyond = [target for source, target in whole.links if source == here and target in whole.nodes]
        waiting += [name for name in beyond if name not in seen]
        seen.update(beyond)
        for entry in whole.listed(here):
            for given in whole.statements.of(entry.name, Message.ADVERTISEMENT):
                if given.policy.concerns(Message.PUBLICATION):
                    bounds[Bound(given.policy, given.name, given.filter, given.condition, given.to, is_given=True)] = (
                        None
                    )
    return list(bounds)
