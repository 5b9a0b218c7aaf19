"""What changes from one domain to another: what a reload has to do, and what it cannot do without a restart.

It compares what the files say. That a file which they name (passwords, an access list, a monitor's module) has other
content than before is not seen here.
"""

from __future__ import annotations

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


class Kind(StrEnum):
    """What a change is about."""

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


class Change(NamedTuple):
    """One thing that is other than before, in two values that can be compared (None: it is not there)."""

    kind: Kind
    effect: Effect
    name: str
    """The node, link, client or monitor that it is about."""
    old: object
    new: object
    detail: str = ""
    needs_restart: bool = False
    """Whether it takes effect only when the node is started again."""

    def __str__(self) -> str:
        subject = f"{self.kind} `{self.name}`" if self.name else str(self.kind)
        detail = f": {self.detail}" if self.detail else ""
        return f"{subject} {self.effect}{detail}{' (needs a restart)' if self.needs_restart else ''}"


@dataclass(frozen=True, slots=True)
class Difference:
    """All changes from one domain to another, in the order in which they can be applied."""

    changes: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "nothing changes"

    def of(self, kind: Kind, effect: Effect | None = None) -> tuple[Change, ...]:
        """The changes of one kind, and of one effect if it is said."""
        return tuple(one for one in self.changes if one.kind is kind and effect in (None, one.effect))

    @property
    def needs_restart(self) -> tuple[Change, ...]:
        """The changes that a reload cannot make."""
        return tuple(one for one in self.changes if one.needs_restart)


_OF_NODE = {"listen": Kind.LISTENERS, "limits": Kind.LIMITS, "passwords": Kind.PASSWORDS, "acl": Kind.ACL}
_AT_START = ("listen", "store", "synchronous", "admin", "admin_tls", "console", "log")
_ELSEWHERE = ("brokering",)
_OF_JOURNAL_AT_START = ("folder",)


def diff(old: Domain, new: Domain) -> Difference:
    """What is other in `new`; patterns and protocols are compared by what they expand to."""
    old, new = expand(old), expand(new)
    return Difference(tuple(_changes(old, new)))


def _admin(old: AdminSettings, new: AdminSettings) -> Iterator[Change]:
    """Who may do what is told person by person: it is what is asked first when something has gone wrong."""
    for key in ("users", "clients"):
        before, after = getattr(old, key), getattr(new, key)
        for name in sorted(before.keys() | after.keys()):
            was, is_now = before.get(name), after.get(name)
            if was != is_now:
                effect: Effect = "added" if was is None else "removed" if is_now is None else "changed"
                detail = f"`{was or 'nothing'}` to `{is_now or 'nothing'}`"
                yield Change(Kind.ADMIN, effect, name, was, is_now, detail)
    others = [name for name in AdminSettings.model_fields if name not in ("users", "clients")]
    changed = [name for name in others if getattr(old, name) != getattr(new, name)]
    if changed:
        yield Change(Kind.ADMIN, "changed", "", old, new, ", ".join(f"`{name}`" for name in changed))


def _changes(old: Domain, new: Domain) -> Iterator[Change]:
    if old.domain != new.domain:
        detail = f"from `{old.domain}` to `{new.domain}`"
        yield Change(Kind.DOMAIN, "changed", "", old.domain, new.domain, detail, needs_restart=True)
    yield from _entries(Kind.NODE, old.nodes, new.nodes, changed=False)
    for name, node in new.nodes.items():
        if name in old.nodes:
            yield from _node(name, old.nodes[name], node)
    yield from _entries(Kind.FOREIGN, old.foreign, new.foreign)
    yield from _connections(old, new)
    yield from _links(old, new)
    yield from _entries(Kind.CLIENT, old.clients, new.clients)
    yield from _in_order(Kind.CONTENT, *({", ".join(one.topics): one for one in each.content} for each in (old, new)))
    yield from _tables(old, new)
    yield from _admin(old.admin or AdminSettings(), new.admin or AdminSettings())
    yield from _in_order(Kind.MONITOR, old.monitors, new.monitors)
    yield from _whole(Kind.ACCESS, old.access, new.access)
    yield from _statements(old.statements or StatementSettings(), new.statements or StatementSettings())
    yield from _entries(Kind.TRUST_GROUP, old.trust_groups, new.trust_groups)
    yield from _whole(Kind.QUALITY, old.quality, new.quality)
    yield from _in_order(Kind.PRIVACY, *({one.name: one for one in each.privacy} for each in (old, new)))
    yield from _whole(Kind.CONTRACTS, old.contracts, new.contracts)
    yield from _whole(Kind.TOKENS, old.tokens, new.tokens)
    yield from _whole(Kind.TRUST, old.trust, new.trust)
    yield from _entries(Kind.CAPSULE, old.capsules, new.capsules)
    yield from _journal(old.journal, new.journal)
    if old.assertions != new.assertions:
        yield Change(Kind.ASSERTIONS, "changed", "", old.assertions, new.assertions)


def _in_order(kind: Kind, old: Mapping[str, Settings], new: Mapping[str, Settings]) -> Iterator[Change]:
    """Entries of which the order counts."""
    yield from _entries(kind, old, new)
    if list(old) != list(new) and old.keys() == new.keys():
        yield Change(kind, "changed", "", tuple(old), tuple(new), "their order")


def _entries(
    kind: Kind, old: Mapping[str, Entry], new: Mapping[str, Entry], *, changed: bool = True
) -> Iterator[Change]:
    for name in old:
        if name not in new:
            yield Change(kind, "removed", name, old[name], None)
    for name in new:
        if name not in old:
            yield Change(kind, "added", name, None, new[name])
        elif changed and old[name] != new[name]:
            yield Change(kind, "changed", name, old[name], new[name], _other_keys(old[name], new[name]))


def _other_keys(old: Entry, new: Entry) -> str:
    """The keys of an entry that are other than before."""
    assert isinstance(old, Settings)
    other = (key for key, field, _ in keys(type(old)) if getattr(old, field) != getattr(new, field))
    return ", ".join(f"`{key}`" for key in other)


def _node(name: str, old: NodeSettings, new: NodeSettings) -> Iterator[Change]:
    for key, field, _ in keys(NodeSettings):
        before, after = getattr(old, field), getattr(new, field)
        if before != after and key not in _ELSEWHERE:
            kind = _OF_NODE.get(key, Kind.SETTINGS)
            detail = "" if key in _OF_NODE else f"`{key}`"
            yield Change(kind, "changed", name, before, after, detail, needs_restart=key in _AT_START)


def _whole(kind: Kind, old: Settings | None, new: Settings | None) -> Iterator[Change]:
    """What a domain has once, or not at all."""
    if old is None or new is None:
        if old is not new:
            yield Change(kind, "added" if old is None else "removed", "", old, new)
    elif old != new:
        yield Change(kind, "changed", "", old, new, _other_keys(old, new))


def _statements(old: StatementSettings, new: StatementSettings) -> Iterator[Change]:
    before, after = ({**each.policies, **{one.name: one for one in each.files}} for each in (old, new))
    for name in {**before, **after}:
        was, is_ = before.get(name), after.get(name)
        if was != is_:
            effect: Effect = "added" if was is None else "removed" if is_ is None else "changed"
            yield Change(Kind.POLICY, effect, name, was, is_)
    if old.apply != new.apply:
        yield Change(Kind.GIVEN, "changed", "", old.apply, new.apply)
    if old.grants != new.grants:
        yield Change(Kind.GRANTS, "changed", "", old.grants, new.grants)


def _journal(old: JournalSettings | None, new: JournalSettings | None) -> Iterator[Change]:
    if old is None or new is None:
        if old is not new:
            yield Change(Kind.JOURNAL, "added" if old is None else "removed", "", old, new, needs_restart=True)
        return
    for key, field, _ in keys(JournalSettings):
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            needs_restart = key in _OF_JOURNAL_AT_START
            yield Change(Kind.JOURNAL, "changed", "", before, after, f"`{key}`", needs_restart)


def _connections(old: Domain, new: Domain) -> Iterator[Change]:
    """How nodes reach each other; what types their links have is another matter."""
    before, after = (
        {
            f"{link.between[0]} - {link.between[1]}": link.model_copy(update={"type": None, "back": None})
            for link in domain.links
        }
        for domain in (old, new)
    )
    yield from _entries(Kind.CONNECTION, before, after)


def _links(old: Domain, new: Domain) -> Iterator[Change]:
    before, after = (_all_links(domain) for domain in (old, new))
    yield from _entries(Kind.LINK, before, after, changed=False)
    for name in after:
        if name in before and before[name] != after[name]:
            detail = f"from type `{before[name].type}` to `{after[name].type}`"
            yield Change(Kind.LINK, "changed", name, before[name], after[name], detail)


def _all_links(domain: Domain) -> dict[str, Link]:
    joined = graph(domain)
    return {str(link): link for link in joined.links.values()}


def _tables(old: Domain, new: Domain) -> Iterator[Change]:
    """The table in force at each node, whether it is its own or the domain's."""
    before, after = graph(old), graph(new)
    for name in new.nodes:
        if name not in before.tables:
            continue
        if before.tables[name] != after.tables[name]:
            yield Change(Kind.TABLE, "changed", name, before.tables[name], after.tables[name])
        had, has = _default(old, name), _default(new, name)
        if had != has:
            yield Change(Kind.DEFAULT, "changed", name, had, has, "clients that are not listed")


def _default(domain: Domain, node: str) -> object:
    """What clients that are not listed get at a node; False if they are refused."""
    return domain.default_types(node) or domain.admits_unlisted(node)
