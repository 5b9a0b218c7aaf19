"""A domain file prepared for a rehearsal without sockets, for `penstock test` and `penstock explain`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.domain import Domain, DomainSource, Ensemble, ensemble
from penstock.engine.connections.host import Storage
from penstock.engine.rehearsal.assembly import START
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.policy.access.acl import Acl


@dataclass(frozen=True, slots=True)
class StagedDomain:
    """A checked domain, and the files that its policies depend on."""

    domain: Domain
    """The domain without patterns and protocols."""
    ensemble: Ensemble
    acls: Mapping[str, Acl]

    @classmethod
    def of(cls, source: DomainSource, domain: Domain) -> "StagedDomain":
        """Compile the checked domain of `source`; raise `PolicyError` if a file cannot be read."""
        acls = {name: Acl.read(node.acl) for name, node in domain.nodes.items() if node.acl is not None}
        return cls(domain, ensemble(domain, source.folder), acls)

    def start(self, keeps: bool = False, now: float = START) -> Rehearsal:
        """Start all nodes in memory; with `keeps`, nodes that have a store have one in memory, to be restarted from."""
        return Rehearsal(self.domain, self.ensemble, self.acls, self._stores() if keeps else None, now=now)

    def _stores(self) -> dict[str, Storage]:
        from penstock.broker.store.store import Store

        names = (name for name, node in self.domain.nodes.items() if node.durable)
        return {name: Store(Path(":memory:"), "normal") for name in names}


def all_filters(topic: str) -> tuple[str, ...]:
    """Return filters that cover this topic and the events that are derived from it."""
    first = topic.partition("/")[0]
    return ("#", f"{first}/#") if topic.startswith("$") else ("#",)  # [MQTT-4.7.2-1]
