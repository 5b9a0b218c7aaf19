"""Which rules had a say in what was recorded: lines of access control files, advertisements, conditions on what clients
are sent, policy statements, brokering tables, edges of monitors.

Rules are those of one policy; what was recorded is held against them, whatever was in force then.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.engine.node import Node
from penstock.engine.sessions import placement, session_rights
from penstock.engine.stages import edit
from penstock.journal.read.events import ARRIVAL, WITHDRAWN
from penstock.language.statements.statement import Message
from penstock.model.event import Event
from penstock.model.topic_tree import FilterIndex, place_index
from penstock.pipeline.spark.policies import CompiledDomain, PolicyFiles, link_into
from penstock.pipeline.stages.stage import was_stopped_before
from penstock.pipeline.state.rows import event_of, rows_of
from penstock.policy.access.acl import Access, AclRule, Rights
from penstock.policy.access.brokering import BrokeringTable
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.transitions import label_of

ACL, ADVERTISEMENT, WHERE, BROKERING, MONITOR = "acl", "advertisement", "where", "brokering", "monitor"
STATEMENT = "statement"

Batches = Iterator[pa.RecordBatch]


class RuleUse(NamedTuple):
    """A rule that decided something: about whom, on which topic, for how many events."""

    kind: str
    node: str
    rule: str
    subject: str
    access: str
    topic: str
    events: int


_USE = pa.schema([*((name, pa.string()) for name in RuleUse._fields[:-1]), ("events", pa.int64())])
USE = from_arrow_schema(_USE)


class RuleName(NamedTuple):
    """A rule by its name; `node` is empty if it is not that of one node alone."""

    kind: str
    node: str
    rule: str


@dataclass(frozen=True)
class NodeClient:
    """Somebody at a node."""

    node: str
    entity: str
    client_id: str
    user: str | None


class PolicyNodes:
    """The nodes of a policy, each made once."""

    def __init__(self, policy: CompiledDomain) -> None:
        self._policy = policy
        self._made: dict[str, Node] = {}

    def of(self, name: str) -> Node | None:
        """Return the node of this name, if the policy has one."""
        if name in self._policy.ensemble.nodes and name not in self._made:
            self._made[name] = self._policy.new_node(name)
        return self._made.get(name)

    def rights(self, client: NodeClient) -> Rights | None:
        """Return the rights that the access control file of its node gives to a client; None if there is no file."""
        node = self.of(client.node)
        return None if node is None else session_rights.rights_of(node, client.client_id, client.user)


def uses(events: DataFrame, standing: PolicyFiles, clients: tuple[NodeClient, ...]) -> DataFrame:
    """Return what rules decided, with the columns `USE`; `clients` are those whom a denial of reading may concern."""
    went = events.filter(F.col("kind") != WITHDRAWN).select(
        "node", "topic", "link_type", F.explode("reached").alias("to")
    )
    reads = went.groupBy(
        *(F.lit("read").alias("access"), "node", "topic"),
        *(F.col(f"to.{name}").alias(name) for name in ("client_id", "user", "entity", "neighbour")),
        *(F.col("link_type").alias("comes_by"), F.col("to.link_type").alias("goes_by")),
    ).count()
    passes = F.col("effect") != "suppress"
    came = events.filter(F.col("kind") == ARRIVAL).groupBy(
        F.when(passes, "write").otherwise("denied").alias("access"),
        *("node", "topic", "client_id", "user", "entity", "neighbour"),
        *(F.col("link_type").alias("comes_by"), F.lit("").alias("goes_by")),
    )
    decided = came.count().unionByName(reads).mapInArrow(_judging(standing, clients), USE)
    return decided.unionByName(_edges(events, standing))


def rules(policy: CompiledDomain, recording: frozenset[str]) -> list[RuleName]:
    """Return all rules that could have decided what these nodes recorded."""
    nodes = [name for name in policy.ensemble.nodes if name in recording]
    named: list[RuleName] = []
    for name in nodes:
        acl = policy.acls.get(name)
        if acl is not None:
            lines = (*acl.anonymous, *(rule for several in acl.users.values() for rule in several), *acl.patterns)
            named += [RuleName(ACL, name, line(name, rule)) for rule in lines]
        named += [RuleName(*known.rule) for known in _by_filter(policy, name)]
        table = policy.ensemble.table(name)
        named += [RuleName(BROKERING, _whose(policy, name), pair(table, *ends)) for ends in sorted(table.pairs)]
    for link in policy.ensemble.links.values():
        if link.target in nodes:
            for monitor in policy.ensemble.monitors(link):
                states = monitor.states if isinstance(monitor, Automaton) else ()
                names = [edge_name(monitor.name, state.name, edge.label) for state in states for edge in state.edges]
                named += [RuleName(MONITOR, "", name) for name in names or [monitor.name]]
    return list(dict.fromkeys(named))


def line(node: str, rule: AclRule) -> str:
    """Return a line of an access control file with its number."""
    return rule.source[rule.source.rindex(f"{node}.acl:") :] if f"{node}.acl:" in rule.source else rule.source


class _ByFilter(NamedTuple):
    """A rule about what is on topics that a filter matches."""

    filter: str
    publisher: str | None
    """Whose events it is about; None: everybody's."""
    rule: tuple[str, str, str]
    client: str


def _by_filter(policy: CompiledDomain, node: str) -> list[_ByFilter]:
    """Return what the domain advertises for clients that it lists at a node, its conditions on what they are sent, and
    the policies that it gives to either."""
    rules: list[_ByFilter] = []
    for entry in policy.ensemble.listed(node):
        for advertisement in entry.advertises:
            text = f"{entry.name} advertises {label_of(advertisement.filter, advertisement.condition)}"
            rules.append(_ByFilter(advertisement.filter, entry.name, (ADVERTISEMENT, node, text), entry.name))
        for filter, condition in entry.where:
            text = f"{entry.name} where {filter}: {condition.text}"
            rules.append(_ByFilter(filter, None, (WHERE, node, text), entry.name))
    return [*rules, *_statements(policy, node)]


def _statements(policy: CompiledDomain, node: str) -> Iterator[_ByFilter]:
    """Return the policy statements that the domain gives to what clients of a node publish, or are sent."""
    here = {entry.name for entry in policy.ensemble.listed(node)}
    for given in policy.ensemble.statements.given:
        if given.nodes and node not in given.nodes:
            continue
        who = ", ".join(sorted(given.nodes or given.clients or {"*"}))
        where = f" where {given.condition.text}" if given.condition is not None else ""
        text = f"{given.name} for {given.to.lower()}s of {who}: {given.filter}{where}"
        # Who is listed nowhere may come to any node.
        clients = [
            client for client in sorted(given.clients or ()) if client in here or client not in policy.ensemble.devices
        ]
        is_anybody = given.clients is None or given.nodes
        for client in ("",) if is_anybody else clients:
            publisher = None if is_anybody or given.to is Message.SUBSCRIPTION else client
            yield _ByFilter(given.filter, publisher, (STATEMENT, "", text), client)


def pair(table: BrokeringTable, source: str, target: str) -> str:
    """Return the name of an entry of a brokering table."""
    return f"{'allow' if table.lists_allowed else 'deny'} from {source} to {target}"


def edge_name(monitor: str, state: str, label: str) -> str:
    """Return the name of an edge of a monitor."""
    return f"{monitor}: in {state}, {label}"


def _whose(policy: CompiledDomain, node: str) -> str:
    """Return the node whose brokering table it is; empty if all nodes have the same."""
    tables = {policy.ensemble.table(name) for name in policy.ensemble.nodes}
    return "" if len(tables) == 1 else node


# --- by topic and client


def _judging(standing: PolicyFiles, clients: tuple[NodeClient, ...]) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        judge = _Judge(standing.compiled(), clients)
        for batch in batches:
            yield _batch([use for row in batch.to_pylist() for use in judge.uses(row)])

    return work


def _batch(uses: list[RuleUse]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([use._asdict() for use in uses], schema=_USE)


class _Judge:
    """Asks the rules of a policy about keys."""

    def __init__(self, policy: CompiledDomain, clients: tuple[NodeClient, ...]) -> None:
        self._policy = policy
        self._nodes = PolicyNodes(policy)
        self._trees: dict[str, tuple[list[_ByFilter], FilterIndex[int]]] = {}
        self._denied: dict[str, list[tuple[str, Rights]]] = {}
        for client in clients:
            rights = self._nodes.rights(client)
            if rights is not None and any(rule.access == "deny" for rule in (*rights.topics, *rights.patterns)):
                self._denied.setdefault(client.node, []).append((client.entity, rights))

    def uses(self, row: dict[str, Any]) -> Iterator[RuleUse]:
        node = self._nodes.of(row["node"])
        if node is None:
            return
        topic, events = row["topic"], row["count"]
        if row["neighbour"] is None:
            rights = session_rights.rights_of(node, row["client_id"], row["user"])
            access: Access = "read" if row["access"] == "read" else "write"
            rule = rights.deciding(topic, access) if rights is not None else None
            if rule is not None:
                yield RuleUse(ACL, node.name, line(node.name, rule), row["entity"], access, topic, events)
        for ends in self._pairs(node, row):
            yield RuleUse(BROKERING, _whose(self._policy, node.name), pair(node.table, *ends), "", "", topic, events)
        if row["access"] == "write":
            for entity, rights in self._denied.get(node.name, ()):
                rule = rights.deciding(topic, "read")
                if rule is not None and rule.access == "deny":
                    yield RuleUse(ACL, node.name, line(node.name, rule), entity, "read", topic, events)
            for known in self._about(node.name, topic, row["neighbour"] or row["entity"]):
                yield RuleUse(*known.rule, known.client, "", topic, events)

    def _about(self, node: str, topic: str, publisher: str) -> Iterator[_ByFilter]:
        if node not in self._trees:
            rules = _by_filter(self._policy, node)
            self._trees[node] = rules, place_index(rule.filter for rule in rules)
        several, tree = self._trees[node]
        for known in (several[at] for at in sorted(tree.match(topic))):
            if known.publisher in (None, publisher):
                yield known

    def _pairs(self, node: Node, row: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Entries of the table that let an event go on, or that kept it from a link that there is."""
        table, comes_by = node.table, row["comes_by"]
        if row["access"] == "read" and table.lists_allowed:
            yield from {(comes_by, row["goes_by"])} & table.pairs
        if row["access"] == "write" and not table.lists_allowed:
            ends = [link for link in self._policy.ensemble.links.values() if link.source == node.name]
            types = {link.type for link in ends if link.target != row["neighbour"]}
            yield from {(comes_by, type) for type in types} & table.pairs


# --- by what monitors have seen


def _edges(events: DataFrame, standing: PolicyFiles) -> DataFrame:
    arrivals = events.filter((F.col("kind") == ARRIVAL) & ~was_stopped_before("edit")).drop("reached")
    policy = standing.compiled()
    arrivals = arrivals.drop("withheld").unionByName(_kept_from_nodes(events, list(policy.ensemble.nodes)))
    watched = [name for name in policy.ensemble.nodes if _is_watched(policy, name)]
    rows = arrivals.filter(F.col("node").isin(*watched))
    rows = rows.withColumn("source", F.coalesce("neighbour", "entity")).repartition("node", "source")
    return rows.sortWithinPartitions("node", "source", "time", "arrival").mapInArrow(_stepping(standing), USE)


def _kept_from_nodes(events: DataFrame, nodes: list[str]) -> DataFrame:
    """Return what monitors stopped before it left for another node, as if it had arrived there: the same edges."""
    kept = events.withColumn("kept", F.explode("withheld")).filter("kept.stage = 'shape' and kept.effect = 'suppress'")
    kept = kept.withColumn("beyond", F.explode("kept.receivers")).filter(F.col("beyond").isin(*nodes))
    kept = kept.withColumn("neighbour", F.col("node")).withColumn("node", F.col("beyond"))
    return kept.withColumn("entity", F.col("neighbour")).drop("reached", "withheld", "kept", "beyond")


def _is_watched(policy: CompiledDomain, node: str) -> bool:
    links = [link for link in policy.ensemble.links.values() if link.target == node]
    return any(policy.ensemble.monitors(link) for link in links) or bool(policy.monitors("", node))


def _stepping(standing: PolicyFiles) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        policy = standing.compiled()
        here: tuple[str, str] | None = None
        node: Node | None = None
        for batch in batches:
            taken: dict[tuple[str, str, str], int] = {}
            for row in rows_of(batch):
                if (row["node"], row["source"]) != here:
                    here = row["node"], row["source"]
                    node = policy.new_node(row["node"])
                assert node is not None
                for rule in _taken(policy, node, row):
                    key = (rule, row["source"], row["topic"])
                    taken[key] = taken.get(key, 0) + 1
            yield _batch([RuleUse(MONITOR, "", rule, who, "", topic, n) for (rule, who, topic), n in taken.items()])

    return work


def _taken(policy: CompiledDomain, node: Node, row: dict[str, Any]) -> Iterator[str]:
    """Return the edges that an event takes, one monitor after the other."""
    publisher = policy.publisher(node, row["client_id"], row["user"], row["entity"], row["neighbour"])
    watch = placement.watch(node, link_into(node, publisher)) if publisher is not None else None
    if publisher is None or watch is None:
        return
    first, event = edit.first_to_ask(watch, event_of(row, publisher.link.link_type))
    events: tuple[Event, ...] = (event,)
    for at, monitor in enumerate(watch.monitors[first:], first):
        if not isinstance(monitor, Automaton):
            yield monitor.name
            events = edit.ask(node, watch, at, events, row["time"])
            continue
        made: list[Event] = []
        for event in events:  # one by one: each may find another state
            yield edge_name(monitor.name, str(watch.states[at]), monitor.edge(watch.states[at], event))
            made += edit.ask(node, watch, at, (event,), row["time"])
        events = tuple(made)
    node.notices.clear()


def listed_clients(policy: CompiledDomain) -> list[NodeClient]:
    """Return the clients that a domain lists, at their nodes, with their client ids and users there."""
    clients: list[NodeClient] = []
    for name in policy.ensemble.nodes:
        for entry in policy.ensemble.listed(name):
            shown = policy.ensemble.shown(name, entry.name)
            if shown is not None:
                clients.append(NodeClient(name, entry.name, shown.client_id, shown.user))
    return clients
