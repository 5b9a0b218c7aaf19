"""What a domain lets pass at one moment, as plain data and a few lines: the oracle of plays over time.

It knows nothing of plans and stages: an event may go to a reader if there is a way between them that every policy of
the present domain leaves open.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar

TYPES = ("open", "secret")
TOPICS = ("t/1", "t/2")
BLOCK, REMOVE = (
    f"PolicyStatement {{ On(Forward, Publication) {{ If {{}} Then {{{element}}} }} }}"
    for element in ("BlockMessage()", "RemoveAttributes(y)")
)


K = TypeVar("K")
V = TypeVar("V")


def _turned(policies: dict[K, V], key: K, new: V) -> dict[K, V]:
    """The policies without that of the key, or, if there is none, with a new one."""
    left = {known: value for known, value in policies.items() if known != key}
    return left if key in policies else left | {key: new}


@dataclass(frozen=True)
class Shape:
    """The part of a domain that does not change in a play: nodes, links and the places of clients."""

    nodes: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    publishers: dict[str, str]
    readers: dict[str, str]

    @classmethod
    def draw(cls, random: Random) -> "Shape":
        nodes = tuple("abcd"[: random.randint(1, 4)])
        links = list(itertools.pairwise(nodes))
        if len(nodes) > 2 and random.random() < 0.4:
            links.append((nodes[-1], nodes[0]))
        places = {name: random.choice(nodes) for name in ("p1", "p2", "r1", "r2", "r3")}
        publishers = {name: node for name, node in places.items() if name.startswith("p")}
        return cls(nodes, tuple(links), publishers, {k: v for k, v in places.items() if k not in publishers})

    def ways(self, begin: str, end: str, passed: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        """All ways between two nodes that pass none twice."""
        if begin == end:
            yield (*passed, end)
            return
        for link in self.links:
            for here, there in (link, link[::-1]):
                if here == begin and there not in passed:
                    yield from self.ways(there, end, (*passed, begin))


@dataclass(frozen=True)
class Present:
    """The policies of a moment."""

    shape: Shape
    types: dict[str, str] = field(default_factory=dict)
    """Of clients; and of links, by their first node."""
    denies: bool = False
    """Nothing goes from `secret` to `open`."""
    unlisted: frozenset[str] = frozenset()
    writes: dict[str, frozenset[str]] = field(default_factory=dict)
    """By publisher, the topics that the access list of its node grants; none named: all."""
    where: dict[str, int] = field(default_factory=dict)
    """By reader, what `x` must be above."""
    advertises: dict[str, int] = field(default_factory=dict)
    """By publisher, what `x` must be below."""
    statements: dict[str, str] = field(default_factory=dict)
    """By publisher, `block` or `remove`."""
    monitors: dict[tuple[str, str], int] = field(default_factory=dict)
    """By link, the greatest `x` that passes."""

    def changed(self, random: Random) -> "Present":
        """Another domain, which differs in one thing."""
        shape = self.shape
        publisher, reader = random.choice(list(shape.publishers)), random.choice(list(shape.readers))
        name = random.choice([publisher, reader])
        links = [(publisher, shape.publishers[publisher])]
        links += [ends for link in shape.links for ends in (link, link[::-1])]
        match random.choice(("types", "denies", "unlisted", "writes", "where", "advertises", "statements", "monitors")):
            case "types":
                key = random.choice([publisher, reader, *shape.nodes])
                return replace(self, types=self.types | {key: random.choice(TYPES)})
            case "denies":
                return replace(self, denies=not self.denies)
            case "unlisted":
                return replace(self, unlisted=self.unlisted ^ {name})
            case "writes":
                return replace(self, writes=_turned(self.writes, publisher, frozenset({random.choice(TOPICS)})))
            case "where":
                return replace(self, where=_turned(self.where, reader, random.randint(1, 8)))
            case "advertises":
                return replace(self, advertises=_turned(self.advertises, publisher, random.randint(1, 8)))
            case "statements":
                chosen = random.choice(("block", "remove"))
                return replace(self, statements=_turned(self.statements, publisher, chosen))
            case _:
                return replace(self, monitors=_turned(self.monitors, random.choice(links), random.randint(1, 8)))

    def allows(self, publisher: str, reader: str, topic: str, x: int, has_y: bool) -> bool:
        """Whether the reader may be sent such an event now."""
        shape, begin = self.shape, self.shape.publishers[publisher]
        statement = self.statements.get(publisher)
        return (
            not {publisher, reader} & self.unlisted
            and topic in self.writes.get(publisher, TOPICS)
            and x > self.where.get(reader, 0)
            and x < self.advertises.get(publisher, 100)
            and x <= self.monitors.get((publisher, begin), 100)
            and (statement is None or (statement == "remove" and not has_y))
            and any(self._is_open(publisher, reader, way, x) for way in shape.ways(begin, shape.readers[reader]))
        )

    def _is_open(self, publisher: str, reader: str, way: tuple[str, ...], x: int) -> bool:
        hops = list(itertools.pairwise(way))
        types = [self._type(publisher), *(self._link_type(hop) for hop in hops), self._type(reader)]
        is_closed = self.denies and any(pair == ("secret", "open") for pair in itertools.pairwise(types))
        return not is_closed and all(x <= self.monitors.get(hop, 100) for hop in hops)

    def _type(self, name: str) -> str:
        return self.types.get(name, "open")

    def _link_type(self, ends: tuple[str, str]) -> str:
        return self._type(ends[0] if ends in self.shape.links else ends[1])

    def as_domain(self) -> dict[str, Any]:
        """The same as a domain file has it."""
        shape = self.shape
        clients: dict[str, Any] = {}
        for name, node in {**shape.publishers, **shape.readers}.items():
            if name not in self.unlisted:
                clients[name] = {"node": node, "user": name, "type": self._type(name)}
        for name in clients.keys() & self.where.keys():
            clients[name]["where"] = {"t/#": f"x > {self.where[name]}"}
        for name in clients.keys() & self.advertises.keys():
            clients[name]["advertises"] = [{"name": "a", "filter": "t/#", "where": f"x < {self.advertises[name]}"}]
        deny = [{"from": "secret", "to": "open"}] if self.denies else []
        monitors = {
            f"m{place}": {
                "link": f"{source} -> {target}",
                "states": {"q": {"t/#": [{"when": f"x <= {bound}", "pass": True}, {"suppress": True}], "*": "pass"}},
            }
            for place, ((source, target), bound) in enumerate(self.monitors.items())
            if source not in self.unlisted
        }
        apply = [
            {"policy": kind, "to": "publication", "of": name}
            for name, kind in self.statements.items()
            if name in clients
        ]
        return {
            "domain": "play",
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in shape.nodes},
            "links": [{"between": list(link), "type": self._link_type(link)} for link in shape.links],
            "clients": clients,
            "brokering": {"types": list(TYPES), "deny": deny},
            "monitors": monitors,
            "statements": {"policies": {"block": BLOCK, "remove": REMOVE}, "apply": apply},
        }

    def access_list(self, node: str) -> str:
        """The access list of a node."""
        lines = ["pattern read #"]
        for name, place in self.shape.publishers.items():
            if place == node:
                lines += [f"user {name}", *(f"topic write {topic}" for topic in self.writes.get(name, TOPICS))]
        return "\n".join(lines)
