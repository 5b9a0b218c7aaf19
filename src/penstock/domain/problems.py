"""Mistakes in a domain, and suggestions for messages about them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from penstock.domain.schema.domain import Domain
from penstock.language.words import nearest
from penstock.model.yaml.tree import Step

Loc = tuple[Step, ...]
_SHOWN_NAMES = 8


@dataclass(frozen=True, slots=True)
class WrongValue:
    """A value that is not as expected: its location, what was expected, and what was found if that is not the value
    itself."""

    loc: Loc
    expected: str
    found: str | None = None

    @property
    def what(self) -> str:
        """Return the mistake in words, without the value at its location."""
        expected = f"expected {self.expected}"
        return expected if self.found is None else f"found {self.found}, {expected}"


@dataclass(frozen=True, slots=True)
class Remark:
    """A mistake or warning in words of its own."""

    loc: Loc
    what: str


Mistake = WrongValue | Remark


def join_names(names: Iterable[str], last: str = "or") -> str:
    """Join names for a message: `` `a`, `b` or `c` ``; at most a few."""
    shown = [f"`{name}`" for name in names]
    if len(shown) > _SHOWN_NAMES:
        return ", ".join(shown[:_SHOWN_NAMES]) + f" {last} {len(shown) - _SHOWN_NAMES} more"
    return f" {last} ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def suggestion(name: str, known: Collection[str]) -> str:
    """Return the known name most similar to this one, as a question; empty if there is none."""
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else ""


def known_names_hint(name: str, known: Collection[str]) -> str:
    """Return a hint for an unknown name: a similar one, or the known names."""
    near = suggestion(name, known)
    if near:
        return near
    return f"there is {join_names(known, 'and')}" if known else "there is none"


def unknown(loc: Loc, kind: str, name: str, known: Collection[str]) -> WrongValue:
    """Return the mistake of a name that is none of the known ones; `kind` is what was expected."""
    return WrongValue(loc, f"{kind}, {known_names_hint(name, known)}", f"`{name}`")


@dataclass(frozen=True, slots=True)
class Entities:
    """The names of a domain's entities, each kind in the order of the file."""

    nodes: Collection[str]
    foreign: Collection[str]
    clients: Collection[str]
    brokers: Collection[str]
    """Nodes and foreign brokers: the possible ends of a link."""
    all: Collection[str]

    @classmethod
    def of(cls, domain: Domain) -> Entities:
        brokers = {**domain.nodes, **domain.foreign}
        entities = {**brokers, **domain.clients}
        return cls(domain.nodes.keys(), domain.foreign.keys(), domain.clients.keys(), brokers.keys(), entities.keys())

    def kind(self, name: str) -> str:
        """Return the kind of an entity in words; empty if there is none of this name."""
        if name in self.nodes:
            return "a node"
        if name in self.foreign:
            return "a foreign broker"
        return "a client" if name in self.clients else ""

    def not_a_node(self, name: str) -> str:
        """Return the expectation for a name that is not a node's."""
        return self._other_kind("a node", name, self.nodes)

    def not_a_client(self, name: str) -> str:
        """Return the expectation for a name that is not a client's."""
        return self._other_kind("a client", name, self.clients)

    def _other_kind(self, expected: str, name: str, known: Collection[str]) -> str:
        kind = self.kind(name)
        return f"{expected}, {f'and `{name}` is {kind}' if kind else known_names_hint(name, known)}"

    def not_an_entity(self, name: str) -> str:
        """Return the expectation for a name that is not an entity's."""
        return f"a node, client or foreign broker, {known_names_hint(name, self.all)}"
