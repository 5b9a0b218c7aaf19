"""Quality and contracts: what a domain that stands now attaches to what was published then.

Where the policies are those that were in force, events are as nodes recorded them: with their quality, and with the
names of the contracts that bind them. Where they are others, that is taken off again, and the engine attaches what they
say (`engine/contracts/registry.py`).
"""

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from penstock.engine.contracts import registry
from penstock.engine.contracts.quality import attach
from penstock.engine.contracts.registry import contract_of
from penstock.engine.contracts.state import ContractState
from penstock.engine.events import user_properties
from penstock.engine.events.user_properties import CONTRACT
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.errors import ContentError, PolicyError
from penstock.model.event import Event
from penstock.model.quality import NO_QUALITY, Quality, moment
from penstock.model.verdict import Verdict
from penstock.pipeline.spark.policies import CompiledDomain, Policies
from penstock.pipeline.state.actors import Actors
from penstock.pipeline.state.rows import Fields, event_of
from penstock.policy.contracts.contract_set import Contracts
from penstock.policy.contracts.release import PRIVACY
from penstock.policy.contracts.release_place import ACE, DEGRADED
from penstock.policy.quality.carriage import ATTACHED, CLAIMED, read_properties, read_quality, write_properties
from penstock.wire.properties import encode_properties


class AttachmentSteps:
    """Attaches to one event after the other what the contracts of its node attach."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._actors = Actors(policies)
        self._of_anybody: dict[tuple[str, str], Node] = {}

    def attach(self, row: Fields) -> Iterator[Fields]:
        """Yield whether a published event passes, and what travels with it."""
        policy = self._actors.policy(row)
        is_client = row["neighbour"] not in policy.ensemble.nodes  # or a foreign broker
        event = event_of(row, row["link_type"])
        before = self._policies.known(row["revision"]) if self._policies.are_recorded else None
        node = self._actors.node(policy, row["node"]) if is_client else self._beyond(policy, row["node"])
        plain, brought = _taken_off(node, event, before, row)
        sender = self._actors.publisher(policy, node, row)
        if node.contracts is None or sender is None:
            # what a producer asks for is not given where nobody heeds it
            yield _outcome(not brought, plain)
            return
        try:
            read = [contract_of(node.contracts.contracts, text) for text in brought]
        except PolicyError:
            yield _outcome(False, plain)
            return
        sender.declared.produces = {contract.name: contract for contract in read}
        yield _attached(node, sender, plain, row)

    def attach_made(self, row: Fields) -> Iterator[Fields]:
        """Yield the same for what monitors have made, and nothing is attached to yet."""
        policy = self._actors.policy(row)
        node = self._actors.node(policy, row["node"])
        event, sender = event_of(row, row["link_type"]), self._actors.publisher(policy, node, row)
        if sender is None or not registry.is_bound(node, sender, event, is_admitted=True):
            yield {}
            return
        sender.declared.produces = {}
        yield _attached(node, sender, event, row)

    def _beyond(self, policy: CompiledDomain, name: str) -> Node:
        """Return a node for what came from other nodes: who published that is not known."""
        at = (policy.digest, name)
        if at not in self._of_anybody:
            node = self._of_anybody[at] = policy.new_node(name)
            if node.contracts is not None:
                node.contracts = ContractState(_of_anybody(node.contracts.contracts, frozenset(policy.ensemble.nodes)))
        return self._of_anybody[at]


def _outcome(passes: bool, event: Event) -> Fields:
    return {"passes": passes, "properties": event.properties}


def _attached(node: Node, sender: Session, event: Event, row: Fields) -> Fields:
    made = attach(node, sender, event, row["time"])
    return _outcome(False, event) if isinstance(made, Verdict) else _outcome(True, made)


def _of_anybody(contracts: Contracts, nodes: frozenset[str]) -> Contracts:
    """Contracts and collectors for events of which it is only known which node they came from."""
    producers = tuple(replace(producer, producers=producer.producers | nodes) for producer in contracts.producers)
    collecting = tuple(collector._replace(clients=frozenset()) for collector in contracts.collecting)
    return replace(contracts, producers=producers, collecting=collecting)


def _taken_off(node: Node, event: Event, before: CompiledDomain | None, row: Fields) -> tuple[Event, list[str]]:
    """Return the event as it was before anything was attached to it, as far as that is known; and the contracts that
    its producer had brought.

    What its producer said of its quality, nodes have put into what they attached. So that counts as its producer's
    word, but for what was measured then.
    """
    properties = user_properties.carried(event.properties) if event.properties else None
    if properties is None or user_properties.RESERVED_BYTES not in event.properties:
        return event, []
    pairs = properties.user_properties
    if any(name == DEGRADED for name, _ in pairs):  # what is left of it cannot be measured again
        left = tuple(pair for pair in pairs if not pair[0].startswith((CONTRACT, ACE)) or _is_inherited(node, pair))
        made = msgspec.structs.replace(properties, user_properties=left)
        return event._replace(properties=encode_properties(made)), _brought(pairs)
    brought = _brought(pairs)
    left = tuple(
        pair for pair in pairs if not pair[0].startswith((ATTACHED, CONTRACT, ACE)) or _is_inherited(node, pair)
    )
    received = moment(row["time"])
    try:
        attached = read_properties(pairs, received, ATTACHED)
        inside = _inside(node, event, row)
    except (ContentError, PolicyError):
        attached = inside = NO_QUALITY
    measured = _measured(before, row)
    own = (metric for metric in attached if metric.key not in measured and inside.get(metric.key) != metric)
    made = msgspec.structs.replace(properties, user_properties=(*left, *write_properties(Quality(own), CLAIMED)))
    return event._replace(properties=encode_properties(made)), brought


def _brought(pairs: tuple[tuple[str, str], ...]) -> list[str]:
    """Return the contracts that the producer of an event had brought."""
    return [value for name, value in pairs if name == CONTRACT and value.startswith("{")]


def _is_inherited(node: Node, pair: tuple[str, str]) -> bool:
    """Return whether a property marks the event as made of what a policy in XACML of this domain is about: its topic
    does not show that."""
    if node.contracts is None or pair[0] != CONTRACT:
        return False
    name = pair[1].removeprefix(PRIVACY).rpartition("#")[0]
    return pair[1].startswith(PRIVACY) and name in {policy.name for policy in node.contracts.contracts.privacy}


def _inside(node: Node, event: Event, row: Fields) -> Quality:
    try:
        return read_quality(node.ensemble.reader.read(event), moment(row["time"]))
    except ContentError:
        return NO_QUALITY


def _measured(before: CompiledDomain | None, row: Fields) -> frozenset[object]:
    """Return the metrics that nodes measured then."""
    contracts = None if before is None else before.ensemble.contracts
    if contracts is None:
        return frozenset()
    if before is not None and row["neighbour"] in before.ensemble.nodes:
        contracts = _of_anybody(contracts, frozenset())
    return frozenset(collector.key for collector in contracts.collectors(row["entity"], row["topic"]))
