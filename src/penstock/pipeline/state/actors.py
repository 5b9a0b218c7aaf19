"""The nodes that policies describe, and the sessions of publishers and subjects there, each made when it is needed."""

from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.pipeline.spark.policies import Asker, CompiledDomain, Policies
from penstock.pipeline.state.rows import Fields


class Actors:
    """Nodes and sessions by policy. Each step has its own: what it changes in them concerns nobody else."""

    def __init__(self, policies: Policies, askers: tuple[Asker, ...] = ()) -> None:
        self._policies = policies
        self._askers = {asker.label: asker for asker in askers}
        self._nodes: dict[tuple[str, str], Node] = {}
        self._publishers: dict[tuple[str | None, ...], Session | None] = {}
        self._subjects: dict[tuple[str, str, str], Session | None] = {}

    def policy(self, row: Fields) -> CompiledDomain:
        """Return the policy that a row is judged by."""
        return self._policies.by_digest[row["policy"]].compiled()

    def node(self, policy: CompiledDomain, name: str) -> Node:
        """Return a node of a policy."""
        at = (policy.digest, name)
        if at not in self._nodes:
            self._nodes[at] = policy.new_node(name)
        return self._nodes[at]

    def publisher(self, policy: CompiledDomain, node: Node, row: Fields) -> Session | None:
        """Return the session that published a row's event; None if the policy has no place for it."""
        who = (row["client_id"], row["user"], row["entity"], row["neighbour"])
        at = (policy.digest, node.name, *who)
        if at not in self._publishers:
            self._publishers[at] = policy.publishing(node, *who)
        return self._publishers[at]

    def subject(self, policy: CompiledDomain, node: Node, label: str) -> Session | None:
        """Return the session of a subject at a node; None if the policy has no place for it."""
        at = (policy.digest, node.name, label)
        if at not in self._subjects:
            self._subjects[at] = policy.session(node, self._askers[label])
        return self._subjects[at]

    def receiver(self, policy: CompiledDomain, node: Node, label: str) -> Session:
        """Return the session of a subject that is among the receivers of a row, so that it has a place."""
        session = self.subject(policy, node, label)
        assert session is not None
        return session

    def subjects(self, policy: CompiledDomain, node: Node) -> list[tuple[Asker, Session]]:
        """Return all subjects that have a place at a node."""
        placed = ((asker, self.subject(policy, node, label)) for label, asker in self._askers.items())
        return [(asker, session) for asker, session in placed if session is not None]
