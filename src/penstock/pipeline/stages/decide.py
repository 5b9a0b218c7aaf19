"""What can be decided by topic and by who published: once for each combination there is, by the engine's own stages.

A combination is a *key*; a table of events has few of them. What is decided is joined to the events again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.engine.events.plan import Draft, Plans
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.stages import admit, conform, route
from penstock.engine.statements import bindings
from penstock.language.condition import Condition
from penstock.language.statements.statement import Message
from penstock.model.topic import matches
from penstock.model.topic_tree import FilterIndex, place_index
from penstock.model.verdict import Effect, Verdict
from penstock.pipeline.spark.policies import Asker, Policies, Policy, Publisher, by_name
from penstock.pipeline.stages import admit as tokens
from penstock.pipeline.stages.judge import offered
from penstock.pipeline.tables.distinct import distinct
from penstock.pipeline.tables.executor import F

KEYS = ("revision", "node", "topic", "client_id", "user", "entity", "link_type", "neighbour")
_NULLABLE = frozenset({"user", "neighbour"})
MOST_KEYS_HERE = 10_000
"""More are decided by Spark's workers: that takes them less time than to compile the policies."""

AS_IT_CAME, RECORDED, RUN = "as it came", "recorded", "run"
"""What edit has to do: there are no monitors, they are those that were, they are others."""

RECEIVER = (
    "struct<subject: string, reads: boolean, where: string, looks_on: boolean, watched: boolean, judged: boolean>"
)
"""Who may get an event. `reads`: the subject may read the topic; `where`: if this condition holds; `looks_on`: the
monitors on its link see the event in any case; `watched`: there are such monitors; `judged`: the domain has policy
statements for it."""

DECIDED = (
    "policy string, admitted boolean, stage_now string, rule_now string, reason_now string, source string,"
    " link_type_now string,"
    " is_trusted boolean, conforms boolean, conditions array<string>, edit string,"
    f" receivers array<{RECEIVER}>"
)
_KEY_TYPES = ", ".join(f"{name} string" for name in KEYS)
_RECEIVER = pa.struct(
    [
        ("subject", pa.string()),
        ("reads", pa.bool_()),
        ("where", pa.string()),
        ("looks_on", pa.bool_()),
        ("watched", pa.bool_()),
        ("judged", pa.bool_()),
    ]
)
_ARROW = pa.schema(
    [
        *((name, pa.string()) for name in KEYS),
        ("policy", pa.string()),
        ("admitted", pa.bool_()),
        ("stage_now", pa.string()),
        ("rule_now", pa.string()),
        ("reason_now", pa.string()),
        ("source", pa.string()),
        ("link_type_now", pa.string()),
        ("is_trusted", pa.bool_()),
        ("conforms", pa.bool_()),
        ("conditions", pa.list_(pa.string())),
        ("edit", pa.string()),
        ("receivers", pa.list_(_RECEIVER)),
    ]
)


class Key(NamedTuple):
    """All that events have in common which are decided alike."""

    revision: str
    node: str
    topic: str
    client_id: str
    user: str | None
    entity: str
    link_type: str
    neighbour: str | None


class Receiver(NamedTuple):
    """One of `RECEIVER`."""

    subject: str
    reads: bool
    where: str | None
    looks_on: bool
    watched: bool
    judged: bool = False


class Decided(NamedTuple):
    """What holds of all events with a key: `DECIDED`."""

    policy: str
    admitted: bool
    stage_now: str
    rule_now: str
    reason_now: str
    source: str
    """The entity that published, as the policy knows it, and the type of its link."""
    link_type_now: str
    is_trusted: bool = True
    """What conform decided then holds now too."""
    conforms: bool | None = True
    """Else, what conform decides; None: one of `conditions` must hold."""
    conditions: tuple[str, ...] = ()
    edit: str = AS_IT_CAME
    receivers: tuple[Receiver, ...] = ()


def decide(events: DataFrame, policies: Policies, askers: tuple[Asker, ...]) -> DataFrame:
    """The events with what is decided about their keys beside them."""
    return Keys.of(events, policies, askers).beside(events)


@dataclass(frozen=True)
class Keys:
    """The keys of events, and what is decided about them."""

    decided: DataFrame
    alike: Mapping[str, str | None]
    """What all of them have."""
    wheres: frozenset[str] | None
    """The conditions that receivers have; None if it is not known yet."""

    @classmethod
    def of(cls, events: DataFrame, policies: Policies, askers: tuple[Asker, ...]) -> "Keys":
        """The keys are looked for at once.

        If they are few they are decided here, where the policies are compiled already, and the workers need no Python
        for them.
        """
        keys = events.select(*KEYS).distinct()
        found = keys.limit(MOST_KEYS_HERE + 1).toArrow()
        if found.num_rows > MOST_KEYS_HERE:
            return cls(_decided_there(keys, policies, askers), {}, None)
        decider = Decider(policies, askers)
        decided = pa.Table.from_batches([_decided(decider, one) for one in found.to_batches()], _ARROW)
        named = F.broadcast(events.sparkSession.createDataFrame(decided, f"{_KEY_TYPES}, {DECIDED}"))
        values = {name: found[name].unique().to_pylist() for name in KEYS if name != "topic"}
        alike = {name: some[0] for name, some in values.items() if len(some) == 1}
        receivers = pc.list_flatten(decided["receivers"])
        wheres = pc.struct_field(receivers, "where").unique().drop_null().to_pylist()
        return cls(named, alike, frozenset(wheres))

    def beside(self, events: DataFrame) -> DataFrame:
        """The events, whose keys these are, with what is decided about them."""
        return _joined(events, self.decided, self.alike)


def decide_later(events: DataFrame, policies: Policies, askers: tuple[Asker, ...]) -> DataFrame:
    """The same for events that it takes long to make: they are not made for the sake of their keys alone."""
    return _joined(events, _decided_there(events.select(*KEYS).distinct(), policies, askers))


def _decided_there(keys: DataFrame, policies: Policies, askers: tuple[Asker, ...]) -> DataFrame:
    return keys.mapInArrow(_decider(policies, askers), f"{_KEY_TYPES}, {DECIDED}")


def _joined(events: DataFrame, decided: DataFrame, alike: Mapping[str, str | None] = MappingProxyType({})) -> DataFrame:
    """`alike`: what all keys have. It is asked of each event, which is quicker than to look for it."""
    if alike:
        events = events.filter(reduce(and_, (F.col(name).eqNullSafe(F.lit(value)) for name, value in alike.items())))
    others = [name for name in KEYS if name not in alike]
    named = decided.select(*(F.col(name).alias(f"key_{name}") for name in others), *decided.columns[len(KEYS) :])
    same = [
        events[name].eqNullSafe(named[f"key_{name}"]) if name in _NULLABLE else events[name] == named[f"key_{name}"]
        for name in others
    ]
    return events.join(named, same).drop(*(f"key_{name}" for name in others))


def decide_by_batch(events: DataFrame, policies: Policies, askers: tuple[Asker, ...]) -> DataFrame:
    """The same for a stream, which cannot be joined with itself: the keys of each Arrow batch by themselves."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decider = Decider(policies, askers)
        for batch in batches:
            keys = batch.select(list(KEYS))
            firsts, at = distinct(keys)
            decided = _decided(decider, keys.take(pa.array(firsts))).take(pa.array(at))
            columns = [*batch.columns, *decided.columns[len(KEYS) :]]
            yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, *_ARROW.names[len(KEYS) :]])

    types = StructType([*events.schema.fields, *from_arrow_schema(_ARROW).fields[len(KEYS) :]])
    return events.mapInArrow(work, types)


def _decider(
    policies: Policies, askers: tuple[Asker, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decider = Decider(policies, askers)
        for batch in batches:
            yield _decided(decider, batch)

    return work


def _decided(decider: "Decider", batch: pa.RecordBatch) -> pa.RecordBatch:
    """Keys with what is decided about them."""
    keys = [Key(*row.values()) for row in batch.to_pylist()]
    rows = [(*key, *decider.decide(key)) for key in keys]
    columns = zip(*rows, strict=True) if rows else ([] for _ in _ARROW)
    arrays = [pa.array(_plain(column), field.type) for column, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _plain(column: object) -> list[object]:
    """Tuples of tuples as Arrow takes them."""
    assert isinstance(column, tuple | list)
    return [
        [one._asdict() if isinstance(one, Receiver) else one for one in value] if isinstance(value, tuple) else value
        for value in column
    ]


class Decider:
    """Decides keys, and remembers whom it knows."""

    def __init__(self, policies: Policies, askers: tuple[Asker, ...]) -> None:
        self._policies = policies
        self._askers = askers
        self._sessions: dict[tuple[str, str], list[tuple[Asker, Session]]] = {}
        self._nodes: dict[tuple[str, str], Node | None] = {}
        self._statements: dict[tuple[str | None, ...], FilterIndex[int]] = {}

    def decide(self, key: Key) -> Decided:
        """What holds of all events with this key."""
        policy = self._policies.of(key.revision or None)
        node = self._node(policy, key.node)
        if node is None:
            return _refused(policy, key, "node", f"there is no node `{key.node}`")
        publisher = policy.publisher(node, key.client_id, key.user, key.entity, key.neighbour)
        if publisher is None:
            return _refused(policy, key, "place", f"`{key.entity}` has no place at node `{key.node}`")
        is_same = policy.digest == key.revision and self._policies.are_recorded
        before = None if is_same else self._before(key)
        verdict = admit_key(node, publisher, key.topic)
        if not is_same and verdict.effect is not Effect.SUPPRESS:
            verdict = self._by_token(policy, key, publisher, before) or verdict
        return Decided(
            policy.digest,
            verdict.effect is not Effect.SUPPRESS,
            verdict.stage,
            verdict.rule,
            verdict.reason,
            publisher.entity,
            publisher.link.link_type,
            is_same or _advertises_the_same(publisher, before),
            *conform_key(node, publisher, key.topic),
            RECORDED if is_same else edit_key(policy, publisher, before, key.node),
            tuple(self._receivers(policy, node, publisher, key.topic)),
        )

    def _node(self, policy: Policy, name: str) -> Node | None:
        at = (policy.digest, name)
        if at not in self._nodes:
            self._nodes[at] = policy.new_node(name) if name in policy.ensemble.nodes else None
        return self._nodes[at]

    def _before(self, key: Key) -> "Before | None":
        """Who published, under the policies that were in force; None if that is not known."""
        then = self._policies.known(key.revision) if self._policies.are_recorded else None
        node = self._node(then, key.node) if then is not None else None
        if then is None or node is None:
            return None
        publisher = then.publisher(node, key.client_id, key.user, key.entity, key.neighbour)
        return None if publisher is None else Before(then, publisher)

    def _by_token(self, policy: Policy, key: Key, publisher: Publisher, before: "Before | None") -> Verdict | None:
        """What is refused by tokens that the publisher did not need then, or that say other things now."""
        then, own = before.policy if before is not None else None, policy.ensemble.tokens
        if key.neighbour in policy.ensemble.nodes and self._policies.are_recorded:
            tokens.check_neighbour(policy, then, key.node, key.neighbour or "")
        holder = policy.holder(publisher.entity, key.user)
        if own is None or key.neighbour is not None or tokens.is_the_same(policy, then, holder):
            return None
        return tokens.publish_key(own, holder, key.topic)

    def _receivers(self, policy: Policy, node: Node, publisher: Publisher, topic: str) -> Iterator[Receiver]:
        for asker, session in self._sessions_at(policy, node):
            if route_key(node, publisher, session):
                found = match_key(node, asker, session, topic)
                if found is not None:
                    yield found._replace(judged=self._is_judged(policy, node, publisher, session, topic))

    def _is_judged(self, policy: Policy, node: Node, publisher: Publisher, session: Session, topic: str) -> bool:
        at = (policy.digest, node.name, publisher.link.neighbour, publisher.entity)
        if at not in self._statements:
            self._statements[at] = place_index(statements_key(policy, node, publisher))
        return bool(self._statements[at].match(topic)) or judge_key(session, topic)

    def _sessions_at(self, policy: Policy, node: Node) -> list[tuple[Asker, Session]]:
        at = (policy.digest, node.name)
        if at not in self._sessions:
            placed = [(asker, policy.session(node, asker)) for asker in self._askers]
            self._sessions[at] = [(asker, session) for asker, session in placed if session is not None]
        return self._sessions[at]


class Before(NamedTuple):
    """Who published, under the policies that were in force."""

    policy: Policy
    publisher: Publisher


def _refused(policy: Policy, key: Key, rule: str, reason: str) -> Decided:
    return Decided(policy.digest, False, "admit", rule, reason, key.entity, "")


def _draft(node: Node, publisher: Publisher, topic: str) -> Draft:
    return Draft(node, topic, Plans(publisher.link, {}))


def _advertises_the_same(publisher: Publisher, before: Before | None) -> bool:
    """Whether the domain says the same for the publisher as it did then."""
    return before is not None and before.publisher.link.claims == publisher.link.claims


def admit_key(node: Node, publisher: Publisher, topic: str) -> Verdict:
    """Stage admit: may the publisher say anything on this topic?"""
    draft = _draft(node, publisher, topic)
    admit.plan(draft)
    return draft.verdict


def conform_key(node: Node, publisher: Publisher, topic: str) -> tuple[bool | None, tuple[str, ...]]:
    """Stage conform: is the topic one that the domain advertises for the publisher; if content decides, by what?"""
    draft = _draft(node, publisher, topic)
    asked = conform.demands(draft.link.claims, topic)
    if not asked:
        return True, ()
    (demand,) = asked  # what clients advertise themselves is known only by what was decided then
    return (None, tuple(one.text for one in demand.conditions)) if demand.conditions else (False, ())


def edit_key(policy: Policy, publisher: Publisher, before: Before | None, node: str) -> str:
    """Stage edit: are there monitors on the link, and are they those that there were?"""
    monitors = policy.monitors(publisher.entity, node)
    if not monitors:
        return AS_IT_CAME
    same = before is not None and before.policy.monitors(before.publisher.entity, node) == monitors
    # What they made then has the quality and the contracts of then with it.
    attaches = policy.ensemble.contracts is not None or (before and before.policy.ensemble.contracts) is not None
    return RECORDED if same and not attaches else RUN


def match_key(node: Node, asker: Asker, session: Session, topic: str) -> Receiver | None:
    """Stage match, but for content: may the subject read the topic, and what must hold of the content?"""
    watch = session.watch_out
    listed = (node.name, session.entity) in node.ensemble.links
    looks_on = watch is not None and listed and any(matches(filter, topic) for filter in watch.alphabet())
    reads = session.rights is None or session.rights.may_read(topic)
    sent = node.ensemble.sent.get(session.entity)
    if sent is not None:  # to a foreign broker
        reads = any(matches(filter, topic) for filter in sent)
    if not reads and not looks_on:
        return None
    where: Condition | None = by_name(node, session, topic).condition if reads else None
    return Receiver(asker.label, reads, None if where is None else where.text, looks_on, watch is not None)


def route_key(node: Node, publisher: Publisher, session: Session) -> bool:
    """Stage route: may what came by the publisher's link go on to the subject?"""
    return route.is_open(node, publisher.link, session)


def statements_key(policy: Policy, node: Node, publisher: Publisher) -> list[str]:
    """Stage judge: the filters of the policies that the domain may give to what comes from the publisher."""
    if publisher.link.neighbour is None:
        return [one.filter for one in bindings.given_bounds(node, publisher.entity)]
    beyond = offered(policy, node.name, publisher.link.neighbour)
    return [one.filter for one in (*bindings.own_bounds(node), *beyond)]


def judge_key(session: Session, topic: str) -> bool:
    """Stage judge: does the domain give policies to the subject's subscriptions to the topic?"""
    return any(one.policy.concerns(Message.PUBLICATION) and matches(one.filter, topic) for one in session.policies)
