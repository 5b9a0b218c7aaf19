"""The rule behind a change: why a policy does not let one event come to a subject, as `penstock explain` finds it."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.engine.account import leads_to
from penstock.engine.explain import ExplainError, arrival, explain
from penstock.engine.rehearsal import Rehearsal, RehearsalError
from penstock.model.decision import Decision
from penstock.model.event import Event
from penstock.model.verdict import Effect
from penstock.pipeline.policies import Asker, Policy


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


class Reason(NamedTuple):
    """What stood in the way, and where."""

    node: str
    stage: str
    rule: str
    reason: str

    def __str__(self) -> str:
        place = f"{self.node}: " if self.node else ""
        return f"{place}{self.stage} {self.rule}".rstrip()


class Explainer:
    """One policy, played: clients connect as they are asked about, and monitors are in their first states."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._play = Rehearsal(policy.domain, policy.ensemble, policy.acls)
        self._present: set[tuple[str, ...]] = set()

    def why_not(self, example: Example, asker: Asker) -> Reason:
        """Why the event does not come to the subject; if it would, monitors must have been in other states."""
        if example.node not in self._play.nodes:
            return Reason(example.node, "admit", "node", f"there is no node `{example.node}`")
        decisions = self._decisions(example, asker)
        if isinstance(decisions, Reason):
            return decisions
        if any(one.outputs and one.goes_by is not None and one.goes_by.target == asker.name for one in decisions):
            return self._by_history(decisions, asker)
        for one in decisions:
            if one.effect is Effect.SUPPRESS and leads_to(one, asker.name, self._policy.ensemble):
                stage, _, rule, reason = one.reason
                return Reason(one.node, stage, rule, reason)
        return Reason("", "match", "", "no way leads there")

    def _decisions(self, example: Example, asker: Asker) -> tuple[Decision, ...] | Reason:
        name = example.entity if example.entity in self._known else example.client_id
        try:
            self._connect(name, example.node, example.user)
            for node in self._places(asker):
                self._connect(asker.name, node, asker.user, "#")
            event = Event(example.topic, example.payload, example.qos, example.retain, properties=example.properties)
            start = arrival(self._play.nodes[example.node], name, event)
        except (ExplainError, RehearsalError) as error:
            return Reason(example.node, "admit", "place", str(error))
        return explain(self._play.nodes, start, self._play.now, (asker.name,))

    def _by_history(self, decisions: tuple[Decision, ...], asker: Asker) -> Reason:
        whole = self._policy.ensemble
        names = dict.fromkeys(
            verdict.rule
            for one in decisions
            if leads_to(one, asker.name, whole)
            for verdict in one.verdicts
            if verdict.stage in ("edit", "emit") and verdict.rule
        )
        return Reason("", "edit", ", ".join(names), "by what monitors had seen before")

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
            self._play.subscribe(name, filter, no_local=False, node=node)
