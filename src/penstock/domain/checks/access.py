"""Checks of access policies: files that cannot be read, and policies that are probably not what was meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from penstock.domain.problems import Loc, Remark, known_names_hint
from penstock.domain.schema.domain import Domain
from penstock.language.condition import Condition
from penstock.language.tree import And, Attribute, Select, walk
from penstock.model.errors import PolicyError
from penstock.model.sparkplug.topic import NAMESPACE, OF_DEVICES, OF_NODES, STATE
from penstock.model.topic import overlaps
from penstock.policy.sparkplug.bulk_files import read_policies, uncollected
from penstock.policy.sparkplug.policies import EVERYBODY, MESSAGE, METRICS, NOW, SUBJECT, AccessPolicy

_TOPICS = (
    *(f"{NAMESPACE}/+/{kind}/+" for kind in sorted(OF_NODES)),
    *(f"{NAMESPACE}/+/{kind}/+/+" for kind in sorted(OF_DEVICES)),
    f"{NAMESPACE}/{STATE}/+",
)
"""All topics of Sparkplug messages."""

_OF_METRICS = frozenset({"value", "type", "timestamp", "properties", "alias", "historical", "transient"})
_FIELDS: dict[str, Collection[str]] = {
    MESSAGE: ("type", "group", "edge", "device", "timestamp", "seq", "host", "online"),
    SUBJECT: ("client", "name", "user", "groups", "edge", "attributes"),
    NOW: (),
}


def check(domain: Domain) -> Iterator[Remark]:
    """Find files that are missing or wrong."""
    for index, file in enumerate(domain.access.files if domain.access is not None else ()):
        try:
            read_policies(file)
        except PolicyError as error:
            yield Remark(("access", "files", index), str(error))


def warnings(domain: Domain) -> Iterator[Remark]:
    """Find policies that are probably not what was meant; for each file, the first of a kind and the number of
    others."""
    if domain.access is None:
        return
    people = KnownSubjects(domain)
    for index, settings in enumerate(domain.access.policies):
        loc: Loc = ("access", "policies", index)
        texts = (odd.what for policy in settings.policies("") for odd in oddities(policy, people))
        yield from (Remark(loc, what) for what in dict.fromkeys(texts))
    for index, file in enumerate(domain.access.files):
        for first, count in _counted(read_policies(file), people):
            yield Remark(("access", "files", index), first if count == 1 else f"{first}; and {count - 1} more like it")


def _counted(policies: Iterable[AccessPolicy], people: KnownSubjects) -> list[tuple[str, int]]:
    """Return the first oddity of each kind, and how many there are."""
    by_kind: dict[str, tuple[str, int]] = {}
    with uncollected():
        for policy in policies:
            for odd in oddities(policy, people):
                first, count = by_kind.get(odd.kind, (f"{policy.id}: {odd.what}", 0))
                by_kind[odd.kind] = first, count + 1
    return list(by_kind.values())


@dataclass(frozen=True, slots=True)
class Oddity:
    """A property of a policy that is probably not what was meant."""

    kind: str
    what: str
    is_idle: bool = False
    """The policy can never apply because of it."""


class KnownSubjects:
    """The subjects that policies can be about."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._oddities: dict[str, Oddity | None] = {}
        ids = (client.client_id(name) for name, client in domain.clients.items())
        self._known = {
            "client": {*domain.clients, *domain.foreign, *filter(None, ids)},
            "edge": {client.edge for client in domain.clients.values() if client.edge is not None},
            "group": {group for client in domain.clients.values() for group in client.groups},
        }

    @cached_property
    def open_node(self) -> str | None:
        """Return a node that admits unlisted clients without a password, or None."""
        return next((name for name in self._without_password if self._domain.admits_unlisted(name)), None)

    @cached_property
    def trusting_node(self) -> str | None:
        """Return a node that does not check user names, or None."""
        return next((name for name in self._without_password if self._domain.nodes[name].passwords is None), None)

    @cached_property
    def _without_password(self) -> list[str]:
        nodes = self._domain.nodes.items()
        return [name for name, node in nodes if any(map(node.allows_anonymous, node.listeners))]

    @cached_property
    def admits_unlisted(self) -> bool:
        return any(map(self._domain.admits_unlisted, self._domain.nodes))

    def oddity(self, subject: str) -> Oddity | None:
        """Return the oddity of a policy for this subject, or None."""
        if subject not in self._oddities:
            self._oddities[subject] = self._oddity(subject)
        return self._oddities[subject]

    def _oddity(self, subject: str) -> Oddity | None:
        kind, _, name = subject.partition(":")
        if subject == EVERYBODY or name in self._known.get(kind, ()):
            return None
        if kind == "client":
            if not self.admits_unlisted:
                return Oddity("unknown client", f"no client has the id `{name}`, {self._hint(kind, name)}", True)
            if self.open_node is not None:
                why = f"it is not among `clients`, and node `{self.open_node}` asks for no password"
                return Oddity("open client", f"anyone may connect as `{name}`: {why}")
            return None
        if kind == "user":
            if self.trusting_node is None:
                return None
            why = f"node `{self.trusting_node}` has no `passwords`"
            return Oddity("open user", f"a client that claims to be user `{name}` is refused: {why}")
        if kind == "edge":
            return Oddity("unknown edge", f"no client is edge node `{name}`, {self._hint(kind, name)}", True)
        return Oddity("unknown group", f"no client is in group `{name}`, {self._hint(kind, name)}", True)

    def _hint(self, kind: str, name: str) -> str:
        return known_names_hint(name, sorted(self._known[kind]))


def oddities(policy: AccessPolicy, people: KnownSubjects) -> Iterator[Oddity]:
    """Find the properties of a policy that are probably not what was meant."""
    subject = people.oddity(policy.subject)
    if subject is not None:
        yield subject
    if not is_sparkplug_filter(policy.filter):
        yield Oddity("filter", f"`{policy.filter}` matches no Sparkplug topic", True)
    if policy.condition is not None:
        if is_never_true(policy.condition):
            yield Oddity("never", f"`{policy.condition.text}` is never true", True)
        for text in _reserved(policy.condition):
            yield Oddity("reserved", text)


def is_never_true(condition: Condition) -> bool:
    """Return whether provably no message satisfies a condition; only conditions with several parts can contradict
    themselves."""
    return isinstance(condition.tree, And) and condition.ranges is not None and condition.ranges.is_empty


@lru_cache(maxsize=100_000)
def is_sparkplug_filter(filter: str) -> bool:
    """Return whether a topic filter matches any topic of a Sparkplug message."""
    return any(overlaps(filter, topic) for topic in _TOPICS)


@lru_cache(maxsize=100_000)
def _reserved(condition: Condition) -> tuple[str, ...]:
    """Find places where `message`, `subject`, `now` or `metrics` is taken for a metric of this name."""
    selects = (node for node, _ in walk(condition.tree) if isinstance(node, Select))
    fields = ((node.operand.name, node.name) for node in selects if isinstance(node.operand, Attribute))
    return tuple(
        f"`{name}.{field}` is not of a metric: a metric of this name is `metrics['{name}']`"
        for name, field in fields
        if _is_misread(name, field)
    )


def _is_misread(name: str, field: str) -> bool:
    if name == METRICS:
        return field in _OF_METRICS
    return name in _FIELDS and field not in _FIELDS[name]
