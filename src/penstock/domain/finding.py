"""What a check finds wrong with a domain, and how it names what would be right."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from penstock.domain.schema.domain import Domain
from penstock.language.words import nearest
from penstock.model.yaml.tree import Step

Loc = tuple[Step, ...]
_SHOWN_NAMES = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake: where, what was expected there, and what was found if that is not just what stands there."""

    loc: Loc
    expected: str
    found: str | None = None

    @property
    def what(self) -> str:
        """The mistake in words, for one who knows what stands there."""
        expected = f"expected {self.expected}"
        return expected if self.found is None else f"found {self.found}, {expected}"


@dataclass(frozen=True, slots=True)
class Said:
    """One mistake in the words of the part that found it."""

    loc: Loc
    what: str


Mistake = Finding | Said


def listed(names: Iterable[str], last: str = "or") -> str:
    """Names as a message shows them: `` `a`, `b` or `c` ``; not more than a few."""
    shown = [f"`{name}`" for name in names]
    if len(shown) > _SHOWN_NAMES:
        return ", ".join(shown[:_SHOWN_NAMES]) + f" {last} {len(shown) - _SHOWN_NAMES} more"
    return f" {last} ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def meant(name: str, known: Collection[str]) -> str:
    """The known name that is like this one, as a question; empty if there is none."""
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else ""


def hint(name: str, known: Collection[str]) -> str:
    """What a name that is not known may stand for: one like it, or any there is."""
    near = meant(name, known)
    if near:
        return near
    return f"there is {listed(known, 'and')}" if known else "there is none"


@dataclass(frozen=True, slots=True)
class Entities:
    """The names of a domain's entities, each kind in the order of the file."""

    nodes: Collection[str]
    foreign: Collection[str]
    clients: Collection[str]
    brokers: Collection[str]
    """Nodes and foreign brokers: what a link can join."""
    all: Collection[str]

    @classmethod
    def of(cls, domain: Domain) -> Entities:
        brokers = {**domain.nodes, **domain.foreign}
        every = {**brokers, **domain.clients}
        return cls(domain.nodes.keys(), domain.foreign.keys(), domain.clients.keys(), brokers.keys(), every.keys())

    def kind(self, name: str) -> str:
        """What an entity is, in words; empty if there is none of this name."""
        if name in self.nodes:
            return "a node"
        if name in self.foreign:
            return "a foreign broker"
        return "a client" if name in self.clients else ""

    def not_a_node(self, name: str) -> str:
        """Why a name is not that of a node."""
        kind = self.kind(name)
        return f"a node, and `{name}` is {kind}" if kind else f"a node, {hint(name, self.nodes)}"

    def not_an_entity(self, name: str) -> str:
        """Why a name is not that of any entity."""
        return f"a node, client or foreign broker, {hint(name, self.all)}"
