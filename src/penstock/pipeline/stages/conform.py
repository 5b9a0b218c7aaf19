"""Quality and contracts over tables of events: what a domain that stands now attaches to what was published then.

Where the policies are those that were in force, events are as nodes recorded them: with their quality, and with the
names of the contracts that bind them. Where they are others, that is taken off again, and the engine's own stage
attaches what they say (`engine/contracts/registry.py`).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame

from penstock.engine.contracts import registry
from penstock.engine.contracts.quality import attach
from penstock.engine.contracts.registry import State, contract_of
from penstock.engine.events import user_properties
from penstock.engine.events.user_properties import CONTRACT
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.journal.read.events import ARRIVAL
from penstock.model.errors import ContentError, PolicyError
from penstock.model.event import Event
from penstock.model.quality import NO_QUALITY, Quality, moment
from penstock.model.verdict import Verdict
from penstock.pipeline.spark.policies import Policies, Policy
from penstock.pipeline.stages.edit import event_of, rows_of
from penstock.pipeline.tables.executor import F
from penstock.policy.contracts.contract_set import Contracts
from penstock.policy.contracts.release import PRIVACY
from penstock.policy.contracts.release_place import ACE
from penstock.policy.quality.carriage import ATTACHED, CLAIMED, read_properties, read_quality, write_properties
from penstock.wire.properties import encode_properties

_REATTACHED = "reattached"


def was_stopped() -> Column:
    """Whether a node refused an event at conform by its quality or a contract, not by an advertisement."""
    by = (F.col("rule") == "quality") | F.col("rule").startswith("contract ")
    return (F.col("effect") == "suppress") & (F.col("stage") == "conform") & by


def is_as_recorded(policies: Policies) -> Column:
    """Whether a row is judged by the policies that were in force when it came."""
    return (F.col("policy") == F.col("revision")) & F.lit(policies.are_recorded)


def attached(rows: DataFrame, policies: Policies, from_nodes: bool) -> DataFrame:
    """Arrivals with the quality and the contracts that their policies attach; `passes` is false of what breaks one.

    `from_nodes`: of what came from other nodes too. It is not known who published that, so contracts bind it whosever
    they are, and all collectors measure it that are for its topic.
    """
    asked = F.col("passes") & (F.col("kind") == ARRIVAL) & ~is_as_recorded(policies)
    if not from_nodes:
        nodes = {name for policy in policies.judging for name in policy.ensemble.nodes}
        asked &= F.col("neighbour").isNull() | ~F.col("neighbour").isin(*nodes)
    return _over(rows.withColumn(_REATTACHED, asked), policies, lambda steps: steps.step)


def made(rows: DataFrame, policies: Policies) -> DataFrame:
    """What monitors have made now, with what is attached to such; without what breaks a contract."""
    marked = rows.withColumns({_REATTACHED: F.lit(True), "passes": F.lit(True)})
    return _over(marked, policies, lambda steps: steps.made).filter("passes").drop("passes")


Step = Callable[[dict[str, Any]], tuple[bool, bytes]]


def _over(marked: DataFrame, policies: Policies, which: Callable[["Conform"], Step]) -> DataFrame:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = which(Conform(policies))
        for batch in batches:
            yield _applied(batch, step)

    return marked.mapInArrow(work, marked.schema).drop(_REATTACHED)


def _applied(batch: pa.RecordBatch, step: Step) -> pa.RecordBatch:
    asked = batch.column(_REATTACHED)
    if not asked.true_count:
        return batch
    made = iter([step(row) for row in rows_of(batch.filter(asked))])
    said = [next(made) if one else None for one in asked.to_pylist()]
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if field.name in ("passes", "properties"):
            at = ("passes", "properties").index(field.name)
            before = column.to_pylist()
            now = [old if one is None else one[at] for one, old in zip(said, before, strict=True)]
            column = pa.array(now, field.type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


class Conform:
    """The part of the stage `conform` that is about contracts, of all nodes."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._nodes: dict[tuple[str, str, bool], Node] = {}
        self._senders: dict[tuple[str | None, ...], Session | None] = {}

    def step(self, row: dict[str, Any]) -> tuple[bool, bytes]:
        """Whether the event passes, and what travels with it."""
        policy = self._policies.by_digest[row["policy"]].compiled()
        is_client = row["neighbour"] not in policy.ensemble.nodes  # or a foreign broker
        event = event_of(row, row["link_type"])
        before = self._policies.known(row["revision"]) if self._policies.are_recorded else None
        node = self._node(policy, row["node"], is_client)
        plain, brought = _taken_off(node, event, before, row)
        sender = self._sender(policy, node, row)
        if node.contracts is None or sender is None:
            return not brought, plain.properties  # what a producer asks for is not given where nobody heeds it
        try:
            read = [contract_of(node.contracts.contracts, one) for one in brought]
        except PolicyError:
            return False, plain.properties
        sender.produces = {one.name: one for one in read}
        return _attached(node, sender, plain, row)

    def made(self, row: dict[str, Any]) -> tuple[bool, bytes]:
        """The same for what monitors have made, and nothing is attached to yet."""
        policy = self._policies.by_digest[row["policy"]].compiled()
        node = self._node(policy, row["node"], True)
        event, sender = event_of(row, row["link_type"]), self._sender(policy, node, row)
        if sender is None or not registry.is_bound(node, sender, event, is_admitted=True):
            return True, row["properties"]
        sender.produces = {}
        return _attached(node, sender, event, row)

    def _node(self, policy: Policy, name: str, is_client: bool) -> Node:
        at = (policy.digest, name, is_client)
        if at not in self._nodes:
            node = self._nodes[at] = policy.new_node(name)
            if not is_client and node.contracts is not None:
                node.contracts = State(_of_anybody(node.contracts.contracts, frozenset(policy.ensemble.nodes)))
        return self._nodes[at]

    def _sender(self, policy: Policy, node: Node, row: dict[str, Any]) -> Session | None:
        who = (row["client_id"], row["user"], row["entity"], row["neighbour"])
        at = (policy.digest, node.name, *who)
        if at not in self._senders:
            self._senders[at] = policy.publishing(node, *who)
        return self._senders[at]


def _attached(node: Node, sender: Session, event: Event, row: dict[str, Any]) -> tuple[bool, bytes]:
    made = attach(node, sender, event, row["time"])
    return (False, event.properties) if isinstance(made, Verdict) else (True, made.properties)


def _of_anybody(said: Contracts, nodes: frozenset[str]) -> Contracts:
    """Contracts and collectors for events of which it is only known which node they came from."""
    producers = tuple(replace(one, producers=one.producers | nodes) for one in said.producers)
    collecting = tuple(one._replace(clients=frozenset()) for one in said.collecting)
    return replace(said, producers=producers, collecting=collecting)


def _taken_off(node: Node, event: Event, before: Policy | None, row: dict[str, Any]) -> tuple[Event, list[str]]:
    """The event as it was before anything was attached to it, as far as that is known; and the contracts that its
    producer had brought.

    What its producer said of its quality, nodes have put into what they attached. So that counts as its producer's
    word, but for what was measured then.
    """
    properties = user_properties.carried(event.properties) if event.properties else None
    if properties is None or user_properties.RESERVED_BYTES not in event.properties:
        return event, []
    pairs = properties.user_properties
    brought = [value for name, value in pairs if name == CONTRACT and value.startswith("{")]
    left = tuple(
        pair for pair in pairs if not pair[0].startswith((ATTACHED, CONTRACT, ACE)) or _is_inherited(node, pair)
    )
    received = moment(row["time"])
    try:
        said = read_properties(pairs, received, ATTACHED)
        inside = _inside(node, event, row)
    except (ContentError, PolicyError):
        said = inside = NO_QUALITY
    measured = _measured(before, row)
    own = (one for one in said if one.key not in measured and inside.get(one.key) != one)
    made = msgspec.structs.replace(properties, user_properties=(*left, *write_properties(Quality(own), CLAIMED)))
    return event._replace(properties=encode_properties(made)), brought


def _is_inherited(node: Node, pair: tuple[str, str]) -> bool:
    """Whether it says that the event was made of what a policy of this domain in XACML is about: by its topic nobody
    would know.
    """
    if node.contracts is None or pair[0] != CONTRACT:
        return False
    name = pair[1].removeprefix(PRIVACY).rpartition("#")[0]
    return pair[1].startswith(PRIVACY) and name in {one.name for one in node.contracts.contracts.privacy}


def _inside(node: Node, event: Event, row: dict[str, Any]) -> Quality:
    try:
        return read_quality(node.ensemble.reader.read(event), moment(row["time"]))
    except ContentError:
        return NO_QUALITY


def _measured(before: Policy | None, row: dict[str, Any]) -> frozenset[object]:
    """The metrics that nodes measured then."""
    said = None if before is None else before.ensemble.contracts
    if said is None:
        return frozenset()
    if before is not None and row["neighbour"] in before.ensemble.nodes:
        said = _of_anybody(said, frozenset())
    return frozenset(one.key for one in said.collectors(row["entity"], row["topic"]))
