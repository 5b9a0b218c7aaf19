"""The rule behind a change: why a policy does not let one event come to a subject, as `penstock explain` finds it."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql import DataFrame, Row

from penstock.engine.explain.arrival import ExplainError, arrival
from penstock.engine.explain.report import leads_to
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.assembly import RehearsalError
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.statements.facts import NOTHING, Facts
from penstock.journal.read.events import ARRIVAL
from penstock.model.decision import Decision
from penstock.model.event import Event
from penstock.model.verdict import Effect
from penstock.pipeline.spark.policies import Asker, CompiledDomain, Policies
from penstock.pipeline.stages.judge import remembered
from penstock.pipeline.tables.executor import F

_OF_MONITORS = ("edit", "shape", "emit")
"""Stages whose verdicts monitors give; `emit` in what was explained before there was `shape`."""


class Example(NamedTuple):
    """An event as it began."""

    node: str
    client_id: str
    user: str | None
    entity: str
    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: bytes
    facts: Facts = NOTHING
    """What policies asked of the node then."""


class ChangeReason(NamedTuple):
    """What stood in the way, and where."""

    node: str
    stage: str
    rule: str
    reason: str

    def __str__(self) -> str:
        place = f"{self.node}: " if self.node else ""
        return f"{place}{self.stage} {self.rule}".rstrip()


class ChangeExplainer:
    """One policy, played: clients connect as they are asked about, and monitors are in their first states."""

    def __init__(self, policy: CompiledDomain) -> None:
        self._policy = policy
        self._play = Rehearsal(policy.domain, policy.ensemble, policy.acls)
        self._present: set[tuple[str, ...]] = set()

    def why_not(self, example: Example, asker: Asker) -> ChangeReason:
        """Return why the event does not come to the subject; if it would, monitors must have been in other states."""
        if example.node not in self._play.nodes:
            return ChangeReason(example.node, "admit", "node", f"there is no node `{example.node}`")
        decisions = self._decisions(example, asker)
        if isinstance(decisions, ChangeReason):
            return decisions
        if any(
            decision.outputs and decision.goes_by is not None and decision.goes_by.target == asker.name
            for decision in decisions
        ):
            return self._by_history(decisions, asker)
        for decision in decisions:
            if decision.effect is Effect.SUPPRESS and leads_to(decision, asker.name, self._policy.ensemble):
                stage, _, rule, reason = decision.reason
                return ChangeReason(decision.node, stage, rule, reason)
        return ChangeReason("", "match", "", "no way leads there")

    def changed_by(self, example: Example, asker: Asker) -> ChangeReason | None:
        """Return the rule by which the event comes changed to the subject, as far as it is not one of a monitor."""
        if example.node not in self._play.nodes:
            return None
        decisions = self._decisions(example, asker)
        reason = None
        for decision in () if isinstance(decisions, ChangeReason) else decisions:
            for verdict in decision.verdicts if leads_to(decision, asker.name, self._policy.ensemble) else ():
                if verdict.effect is Effect.REPLACE and verdict.stage not in _OF_MONITORS:
                    reason = ChangeReason(decision.node, verdict.stage, verdict.rule, verdict.reason)
        return reason

    def _decisions(self, example: Example, asker: Asker) -> tuple[Decision, ...] | ChangeReason:
        name = example.entity if example.entity in self._known else example.client_id
        try:
            self._connect(name, example.node, example.user)
            for node in self._places(asker):
                self._connect(asker.name, node, asker.user, "#")
            event = Event(example.topic, example.payload, example.qos, example.retain, properties=example.properties)
            start = arrival(self._play.nodes[example.node], name, event)
        except (ExplainError, RehearsalError) as error:
            return ChangeReason(example.node, "admit", "place", str(error))
        self._remember(example.node, example.facts, asker)
        return explain(self._play.nodes, start, self._play.now, (asker.name,))

    def _remember(self, name: str, facts: Facts, asker: Asker) -> None:
        """Let the first node be as it was, as far as policies asked for that."""
        node = self._play.nodes[name]
        node.runtime.load, node.runtime.host = facts.load or 0.0, facts.host or ""
        for session in node.sessions.values():
            if session.neighbour is None and session.place.entity == asker.name:
                groups = facts.receivers.get(asker.name, {})
                session.trust.proven = {group: math.inf for group, is_member in groups.items() if is_member}

    def _by_history(self, decisions: tuple[Decision, ...], asker: Asker) -> ChangeReason:
        whole = self._policy.ensemble
        names = dict.fromkeys(
            verdict.rule
            for decision in decisions
            if leads_to(decision, asker.name, whole)
            for verdict in decision.verdicts
            if verdict.stage in _OF_MONITORS and verdict.rule
        )
        return ChangeReason("", "edit", ", ".join(names), "by what monitors had seen before")

    @property
    def _known(self) -> tuple[str, ...]:
        whole = self._policy.ensemble
        return (*whole.devices, *whole.foreign, *whole.nodes)

    def _places(self, asker: Asker) -> Iterator[str]:
        if asker.is_neighbour:
            return
        for node in self._policy.ensemble.nodes:
            if self._policy.session(self._policy.new_node(node), asker) is not None:
                yield node

    def _connect(self, name: str, node: str, user: str | None, filter: str | None = None) -> None:
        if name in self._policy.ensemble.nodes or name in self._policy.ensemble.foreign:
            return
        if (name, node) not in self._present:
            self._present.add((name, node))
            self._play.connect(name, node, user)
        if filter is not None and (name, node, filter) not in self._present:
            self._present.add((name, node, filter))
            for widest in self._play.widest(name, (filter,)):
                self._play.subscribe(name, widest, no_local=False, node=node)


class Reasons:
    """The rules behind changes, each by its first event."""

    def __init__(
        self, began: DataFrame, policy: CompiledDomain, then: Policies, askers: tuple[Asker, ...], rows: list[Row]
    ) -> None:
        self._askers = {asker.label: asker for asker in askers}
        self._policy, self._then = policy, then
        self._explainers: dict[str, ChangeExplainer] = {}
        wanted = {origin for row in rows for origin in (row.more, row.less) if origin is not None}
        events = began.filter((F.col("kind") == ARRIVAL) & F.col("arrival").isin(*wanted)).collect() if wanted else []
        self._firsts = {row.arrival: row for row in events}

    def of(self, row: Row) -> tuple[str, str]:
        """Return the rule and the reason: of the draft for what is lost, of the policies then for what is gained."""
        changed = self._why_changed(row) if row.changed and not row.lost else None
        less = [changed] if changed is not None else self._why(row, row.less, False)
        reasons = [*less, *self._why(row, row.more, True)]
        return "; ".join(map(str, reasons)), "; ".join(reason.reason for reason in reasons)

    def _why(self, row: Row, origin: int | None, is_gained: bool) -> Iterator[ChangeReason]:
        event = self._firsts.get(origin)
        if event is not None:
            policy = self._then.of(event.revision) if is_gained else self._policy
            yield self._explainer(policy).why_not(_example(event), self._askers[row.subject])

    def _why_changed(self, row: Row) -> ChangeReason | None:
        """Return the rule that changes an event which the subject has either way: of the draft, else of then."""
        event = self._firsts.get(row.less)
        if event is None:
            return None
        both = (self._explainer(policy) for policy in (self._policy, self._then.of(event.revision)))
        reasons = (explainer.changed_by(_example(event), self._askers[row.subject]) for explainer in both)
        return next((reason for reason in reasons if reason is not None), None)

    def _explainer(self, policy: CompiledDomain) -> ChangeExplainer:
        if policy.digest not in self._explainers:
            self._explainers[policy.digest] = ChangeExplainer(policy)
        return self._explainers[policy.digest]


def _example(event: Row) -> Example:
    publisher = event.node, event.client_id, event.user, event.neighbour or event.entity
    properties, facts = bytes(event.properties), remembered(event.facts)
    return Example(*publisher, event.topic, bytes(event.payload), event.qos, event.retain, properties, facts)
