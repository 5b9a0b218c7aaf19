"""Differences between two domains: what a reload has to do, and what needs a restart.

Only the domain files are compared. Changes inside a file that they name (passwords, an access list, a monitor's
module) are not seen here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from penstock.domain.compile.expand import expand
from penstock.domain.compile.graph import graph
from penstock.domain.schema.admin import AdminSettings
from penstock.domain.schema.base import Settings, keys
from penstock.domain.schema.domain import Domain, JournalSettings
from penstock.domain.schema.node_settings import NodeSettings
from penstock.domain.schema.statements import StatementSettings
from penstock.model.link import Link

Effect = Literal["added", "removed", "changed"]
Entry = Settings | Link


class ChangeKind(StrEnum):
    """The subject of a change."""

    DOMAIN = "domain"
    NODE = "node"
    LISTENERS = "listeners"
    SETTINGS = "settings"
    LIMITS = "limits"
    PASSWORDS = "passwords"
    ACL = "acl"
    CONNECTION = "connection"
    LINK = "link"
    FOREIGN = "foreign broker"
    CLIENT = "client"
    CONTENT = "content"
    TABLE = "table"
    DEFAULT = "default"
    MONITOR = "monitor"
    ACCESS = "access"
    POLICY = "policy"
    GIVEN = "given policies"
    GRANTS = "grants of policies"
    TRUST_GROUP = "trust group"
    QUALITY = "quality"
    PRIVACY = "privacy"
    CONTRACTS = "contracts"
    TOKENS = "tokens"
    TRUST = "trust"
    CAPSULE = "capsule"
    JOURNAL = "journal"
    ASSERTIONS = "assertions"
    ADMIN = "admin"


class DomainChange(NamedTuple):
    """One change, with two values that can be compared (None: absent)."""

    kind: ChangeKind
    effect: Effect
    name: str
    """The node, link, client or monitor that it is about."""
    old: object
    new: object
    detail: str = ""
    needs_restart: bool = False
    """It takes effect only when the node is restarted."""

    def __str__(self) -> str:
        subject = f"{self.kind} `{self.name}`" if self.name else str(self.kind)
        detail = f": {self.detail}" if self.detail else ""
        return f"{subject} {self.effect}{detail}{' (needs a restart)' if self.needs_restart else ''}"


@dataclass(frozen=True, slots=True)
class DomainDiff:
    """All changes from one domain to another, in the order in which they can be applied."""

    changes: tuple[DomainChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "nothing changes"

    def of(self, kind: ChangeKind, effect: Effect | None = None) -> tuple[DomainChange, ...]:
        """Return the changes of one kind, optionally of one effect."""
        return tuple(change for change in self.changes if change.kind is kind and effect in (None, change.effect))

    @property
    def needs_restart(self) -> tuple[DomainChange, ...]:
        """Return the changes that a reload cannot make."""
        return tuple(change for change in self.changes if change.needs_restart)


_OF_NODE = {
    "listen": ChangeKind.LISTENERS,
    "limits": ChangeKind.LIMITS,
    "passwords": ChangeKind.PASSWORDS,
    "acl": ChangeKind.ACL,
}
_AT_START = ("listen", "store", "synchronous", "admin", "admin_tls", "console", "log")
_ELSEWHERE = ("brokering",)
_OF_JOURNAL_AT_START = ("folder",)


def diff(old: Domain, new: Domain) -> DomainDiff:
    """Compare two domains; patterns and protocols are compared by their expansion."""
    return DomainDiff(tuple(_changes(expand(old), expand(new))))


def _effect(old: object, new: object) -> Effect:
    return "added" if old is None else "removed" if new is None else "changed"


def _admin(old: AdminSettings, new: AdminSettings) -> Iterator[DomainChange]:
    """Compare the rights person by person: they are the first question when something has gone wrong."""
    for key in ("users", "clients"):
        before, after = getattr(old, key), getattr(new, key)
        for name in sorted(before.keys() | after.keys()):
            was, is_now = before.get(name), after.get(name)
            if was != is_now:
                detail = f"`{was or 'nothing'}` to `{is_now or 'nothing'}`"
                yield DomainChange(ChangeKind.ADMIN, _effect(was, is_now), name, was, is_now, detail)
    others = [name for name in AdminSettings.model_fields if name not in ("users", "clients")]
    changed = [name for name in others if getattr(old, name) != getattr(new, name)]
    if changed:
        yield DomainChange(ChangeKind.ADMIN, "changed", "", old, new, ", ".join(f"`{name}`" for name in changed))


def _changes(old: Domain, new: Domain) -> Iterator[DomainChange]:
    if old.domain != new.domain:
        detail = f"from `{old.domain}` to `{new.domain}`"
        yield DomainChange(ChangeKind.DOMAIN, "changed", "", old.domain, new.domain, detail, needs_restart=True)
    yield from _entries(ChangeKind.NODE, old.nodes, new.nodes, changed=False)
    for name, node in new.nodes.items():
        if name in old.nodes:
            yield from _node(name, old.nodes[name], node)
    yield from _entries(ChangeKind.FOREIGN, old.foreign, new.foreign)
    yield from _connections(old, new)
    yield from _links(old, new)
    yield from _entries(ChangeKind.CLIENT, old.clients, new.clients)
    yield from _in_order(
        ChangeKind.CONTENT, *({", ".join(rule.topics): rule for rule in domain.content} for domain in (old, new))
    )
    yield from _tables(old, new)
    yield from _admin(old.admin or AdminSettings(), new.admin or AdminSettings())
    yield from _in_order(ChangeKind.MONITOR, old.monitors, new.monitors)
    yield from _whole(ChangeKind.ACCESS, old.access, new.access)
    yield from _statements(old.statements or StatementSettings(), new.statements or StatementSettings())
    yield from _entries(ChangeKind.TRUST_GROUP, old.trust_groups, new.trust_groups)
    yield from _whole(ChangeKind.QUALITY, old.quality, new.quality)
    yield from _in_order(
        ChangeKind.PRIVACY, *({settings.name: settings for settings in domain.privacy} for domain in (old, new))
    )
    yield from _whole(ChangeKind.CONTRACTS, old.contracts, new.contracts)
    yield from _whole(ChangeKind.TOKENS, old.tokens, new.tokens)
    yield from _whole(ChangeKind.TRUST, old.trust, new.trust)
    yield from _entries(ChangeKind.CAPSULE, old.capsules, new.capsules)
    yield from _journal(old.journal, new.journal)
    if old.assertions != new.assertions:
        yield DomainChange(ChangeKind.ASSERTIONS, "changed", "", old.assertions, new.assertions)


def _in_order(kind: ChangeKind, old: Mapping[str, Settings], new: Mapping[str, Settings]) -> Iterator[DomainChange]:
    """Compare entries whose order counts."""
    yield from _entries(kind, old, new)
    if list(old) != list(new) and old.keys() == new.keys():
        yield DomainChange(kind, "changed", "", tuple(old), tuple(new), "their order")


def _entries(
    kind: ChangeKind, old: Mapping[str, Entry], new: Mapping[str, Entry], *, changed: bool = True
) -> Iterator[DomainChange]:
    for name in old:
        if name not in new:
            yield DomainChange(kind, "removed", name, old[name], None)
    for name in new:
        if name not in old:
            yield DomainChange(kind, "added", name, None, new[name])
        elif changed and old[name] != new[name]:
            yield DomainChange(kind, "changed", name, old[name], new[name], _other_keys(old[name], new[name]))


def _other_keys(old: Entry | None, new: Entry | None) -> str:
    """Return the keys of an entry that have changed; empty if one of the two is not there."""
    if not isinstance(old, Settings) or new is None:
        return ""
    other = (key for key, field, _ in keys(type(old)) if getattr(old, field) != getattr(new, field))
    return ", ".join(f"`{key}`" for key in other)


def _node(name: str, old: NodeSettings, new: NodeSettings) -> Iterator[DomainChange]:
    for key, field, _ in keys(NodeSettings):
        before, after = getattr(old, field), getattr(new, field)
        if before != after and key not in _ELSEWHERE:
            kind = _OF_NODE.get(key, ChangeKind.SETTINGS)
            detail = "" if key in _OF_NODE else f"`{key}`"
            yield DomainChange(kind, "changed", name, before, after, detail, needs_restart=key in _AT_START)


def _whole(kind: ChangeKind, old: Settings | None, new: Settings | None) -> Iterator[DomainChange]:
    """Compare settings that a domain has once, or not at all."""
    if old != new:
        yield DomainChange(kind, _effect(old, new), "", old, new, _other_keys(old, new))


def _statements(old: StatementSettings, new: StatementSettings) -> Iterator[DomainChange]:
    before, after = ({**settings.policies, **{file.name: file for file in settings.files}} for settings in (old, new))
    for name in {**before, **after}:
        was, is_ = before.get(name), after.get(name)
        if was != is_:
            yield DomainChange(ChangeKind.POLICY, _effect(was, is_), name, was, is_)
    if old.apply != new.apply:
        yield DomainChange(ChangeKind.GIVEN, "changed", "", old.apply, new.apply)
    if old.grants != new.grants:
        yield DomainChange(ChangeKind.GRANTS, "changed", "", old.grants, new.grants)


def _journal(old: JournalSettings | None, new: JournalSettings | None) -> Iterator[DomainChange]:
    if old is None or new is None:
        if old is not new:
            yield DomainChange(ChangeKind.JOURNAL, _effect(old, new), "", old, new, needs_restart=True)
        return
    for key, field, _ in keys(JournalSettings):
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            needs_restart = key in _OF_JOURNAL_AT_START
            yield DomainChange(ChangeKind.JOURNAL, "changed", "", before, after, f"`{key}`", needs_restart)


def _connections(old: Domain, new: Domain) -> Iterator[DomainChange]:
    """Compare how nodes reach each other; the types of their links are compared elsewhere."""
    before, after = (
        {" - ".join(link.between): link.model_copy(update={"type": None, "back": None}) for link in domain.links}
        for domain in (old, new)
    )
    yield from _entries(ChangeKind.CONNECTION, before, after)


def _links(old: Domain, new: Domain) -> Iterator[DomainChange]:
    before, after = ({str(link): link for link in graph(domain).links.values()} for domain in (old, new))
    yield from _entries(ChangeKind.LINK, before, after, changed=False)
    for name in after:
        if name in before and before[name] != after[name]:
            detail = f"from type `{before[name].type}` to `{after[name].type}`"
            yield DomainChange(ChangeKind.LINK, "changed", name, before[name], after[name], detail)


def _tables(old: Domain, new: Domain) -> Iterator[DomainChange]:
    """Compare the table in force at each node, whether it is its own or the domain's."""
    before, after = graph(old), graph(new)
    for name in new.nodes:
        if name not in before.tables:
            continue
        if before.tables[name] != after.tables[name]:
            yield DomainChange(ChangeKind.TABLE, "changed", name, before.tables[name], after.tables[name])
        had, has = _default(old, name), _default(new, name)
        if had != has:
            yield DomainChange(ChangeKind.DEFAULT, "changed", name, had, has, "clients that are not listed")


def _default(domain: Domain, node: str) -> object:
    """Return the types of unlisted clients at a node; False if they are refused."""
    return domain.default_types(node) or domain.admits_unlisted(node)
