"""What a domain lets pass at one moment, as plain data and a few lines: the oracle of plays over time.

It knows nothing of plans and stages: an event may go to a reader if there is a way between them that every policy of
the present domain leaves open.
"""

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import Any, NamedTuple, TypeVar

TYPES = ("open", "secret")
TOPICS = ("t/1", "t/2")
METRICS = ("alpha", "beta", "gamma")
EDGE, EDGE_NODE, FOREIGN = "e", "G/E", "f"
DELAY = 3
BLOCK, REMOVE = (
    f"PolicyStatement {{ On(Forward, Publication) {{ If {{}} Then {{{element}}} }} }}"
    for element in ("BlockMessage()", "RemoveAttributes(y)")
)
WANTS = {"all": {"filter": "t/#"}, "plant": {"filter": "spBv1.0/#"}}
RULES: dict[str, dict[str, Any]] = {
    "plain": {"purpose": "health"},
    "keep": {"purpose": "health", "degrade": [{"keep": ["n", "x"]}]},
    "delay": {"purpose": "health", "degrade": [{"delay": DELAY}]},
}


K = TypeVar("K")
V = TypeVar("V")
Ends = tuple[str, str]


class Sent(NamedTuple):
    """What was published: by whom and where, and what the oracle must know of it."""

    publisher: str
    node: str
    topic: str
    x: int = 0
    at: float = 0
    expires: float | None = None
    token: str = ""


def _topics_of(publisher: str) -> str:
    return "spBv1.0/#" if publisher == EDGE else "t/#"


def _turned(policies: dict[K, V], key: K, new: V) -> dict[K, V]:
    """The policies without that of the key, or, if there is none, with a new one."""
    left = {known: value for known, value in policies.items() if known != key}
    return left if key in policies else left | {key: new}


@dataclass(frozen=True)
class Shape:
    """The part of a domain that does not change in a play: nodes, links, the places of clients, a foreign broker."""

    nodes: tuple[str, ...]
    links: tuple[Ends, ...]
    publishers: dict[str, str]
    """With the edge node, but not the foreign broker."""
    readers: dict[str, str]
    foreign: tuple[str, ...]
    """The nodes that have a link to the foreign broker."""
    has_tokens: bool

    @classmethod
    def draw(cls, random: Random) -> "Shape":
        nodes = tuple("abcd"[: random.randint(1, 4)])
        links = list(itertools.pairwise(nodes))
        if len(nodes) > 2 and random.random() < 0.4:
            links.append((nodes[-1], nodes[0]))
        places = {name: random.choice(nodes) for name in ("p1", "p2", EDGE, "r1", "r2", "r3")}
        publishers = {name: node for name, node in places.items() if not name.startswith("r")}
        readers = {name: node for name, node in places.items() if name not in publishers}
        foreign = tuple(random.sample(nodes, min(len(nodes), random.choice((0, 0, 1, 2)))))
        return cls(nodes, tuple(links), publishers, readers, foreign, random.random() < 0.2)

    @property
    def clients(self) -> dict[str, str]:
        return {**self.publishers, **self.readers}

    @property
    def speakers(self) -> list[str]:
        """Who publishes JSON."""
        return ["p1", "p2", *([FOREIGN] if self.foreign else [])]

    @property
    def receivers(self) -> list[str]:
        """Who is sent something: the readers and the foreign broker."""
        return [*self.readers, *([FOREIGN] if self.foreign else [])]

    @property
    def joined(self) -> list[Ends]:
        """The links between nodes, and to the foreign broker."""
        return [*self.links, *((node, FOREIGN) for node in self.foreign)]

    @property
    def monitored(self) -> list[Ends]:
        """The links that may have a monitor."""
        ends = [ends for link in self.joined for ends in (link, link[::-1])]
        return [*ends, *self.publishers.items(), *((node, reader) for reader, node in self.readers.items())]

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
    """Of clients and the foreign broker; and of links, by their first node."""
    denies: bool = False
    """Nothing goes from `secret` to `open`."""
    unlisted: frozenset[str] = frozenset()
    lists: dict[str, frozenset[str]] = field(default_factory=dict)
    """By client, the topics that the access list of its node lets it write or read; none named: all. In `out` and `in`
    the topics of the foreign broker.
    """
    where: dict[str, int] = field(default_factory=dict)
    """By reader, what `x` must be above."""
    advertises: dict[str, int] = field(default_factory=dict)
    """By publisher, what `x` must be below."""
    statements: dict[str, str] = field(default_factory=dict)
    """By publisher or reader, `block` or `remove`."""
    monitors: dict[Ends, int] = field(default_factory=dict)
    """By link, the greatest `x` that passes."""
    contracts: dict[str, str] = field(default_factory=dict)
    """By publisher, one of `RULES`; of the edge node, not `keep`."""
    purposes: dict[str, str] = field(default_factory=dict)
    """By reader, its purpose; only `health` is given anything of a contract."""
    withheld: frozenset[Ends] = frozenset()
    """Readers, or the edge node as the writer, with metrics that they may not have."""
    unread: frozenset[str] = frozenset()
    """Readers that may read no Sparkplug."""
    until: dict[str, float] = field(default_factory=dict)
    """By reader, when its access to Sparkplug ends."""
    revoked: frozenset[str] = frozenset()
    """Tokens."""

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in vars(self).items() if value and name != "shape")

    def changed(self, random: Random, now: float) -> "Present":
        """Another domain, which differs in one thing."""
        shape = self.shape
        publisher, reader = random.choice(["p1", "p2"]), random.choice(list(shape.readers))
        name = random.choice([publisher, reader])
        often = ("statements", "contracts", "until")  # these have most to do with what waits
        match random.choice([*often, *(name for name in CHANGES if name != "lists" or random.random() < 0.7)]):
            case "types":
                key = random.choice([publisher, reader, EDGE, FOREIGN, *shape.nodes])
                return replace(self, types=self.types | {key: random.choice(TYPES)})
            case "denies":
                return replace(self, denies=not self.denies)
            case "unlisted":
                return replace(self, unlisted=self.unlisted ^ {random.choice([name, EDGE])})
            case "lists":
                key = random.choice([name, "out", "in"] if shape.foreign else [name])
                return replace(self, lists=_turned(self.lists, key, frozenset({random.choice(TOPICS)})))
            case "where":
                return replace(self, where=_turned(self.where, reader, random.randint(1, 8)))
            case "advertises":
                return replace(self, advertises=_turned(self.advertises, publisher, random.randint(1, 8)))
            case "statements":
                return replace(
                    self, statements=_turned(self.statements, name, random.choice(("block", "remove", "remove")))
                )
            case "monitors":
                link = random.choice(shape.monitored)
                return replace(self, monitors=_turned(self.monitors, link, random.randint(1, 8)))
            case "contracts":
                of = random.choice([publisher, publisher, EDGE])
                contracts = _turned(self.contracts, of, random.choice([*RULES] if of != EDGE else ["plain", "delay"]))
                return replace(self, contracts=contracts, purposes=self.purposes | {reader: "health"})
            case "purposes":
                return replace(self, purposes=self.purposes | {reader: random.choice(("health", "health", "sales"))})
            case "withheld":
                pair = random.choice([reader, reader, EDGE]), random.choice(METRICS)
                return replace(self, withheld=self.withheld ^ {pair})
            case "unread":
                return replace(self, unread=self.unread ^ {reader})
            case _:
                return replace(self, until=_turned(self.until, reader, float(int(now) + random.randint(1, 8))))

    # --- the oracle

    def allows(self, sent: Sent, reader: str, has_y: bool, now: float) -> bool:
        """Whether the reader may be sent such an event now."""
        publisher = sent.publisher
        kinds = {self.statements.get(publisher), self.statements.get(reader)}
        contract = self.contracts.get(publisher)
        is_bare = "remove" in kinds or contract == "keep"
        return (
            self._may_say(sent, now)
            and not {publisher, reader} & self.unlisted
            and publisher != reader
            and sent.topic in self.lists.get("in" if publisher == FOREIGN else publisher, TOPICS)
            and sent.topic in self.lists.get("out" if reader == FOREIGN else reader, TOPICS)
            and sent.x > self.where.get(reader, 0)
            and sent.x < self.advertises.get(publisher, 100)
            and "block" not in kinds
            and not (is_bare and has_y)
            and (contract is None or self.purposes.get(reader) == "health")
            and (contract != "delay" or now >= sent.at + DELAY)
            and self.is_open(sent, reader)
        )

    def allows_metrics(
        self, sent: Sent, reader: str, metrics: Collection[str], now: float, is_kept: bool = False
    ) -> bool:
        """Whether the reader may be sent Sparkplug with these metrics now; `is_kept`: as a birth certificate, which no
        contract is for.
        """
        contract = None if is_kept else self.contracts.get(sent.publisher)
        return (
            not {sent.publisher, reader} & self.unlisted
            and self._may_say(sent, now)
            and reader not in self.unread
            and now < self.until.get(reader, now + 1)
            and not any((name, metric) in self.withheld for name in (reader, EDGE) for metric in metrics)
            and (contract is None or self.purposes.get(reader) == "health")
            and (contract != "delay" or now >= sent.at + DELAY)
            and self.is_open(sent, reader)
        )

    def _may_say(self, sent: Sent, now: float) -> bool:
        rounding = len(self.shape.nodes)  # nodes tell each other whole seconds
        return sent.token not in self.revoked and (sent.expires is None or now <= sent.expires + rounding)

    def is_open(self, sent: Sent, reader: str) -> bool:
        """Whether types and monitors leave a way open."""
        ends = self.shape.foreign if reader == FOREIGN else (self.shape.readers[reader],)
        return any(self._is_open(sent, reader, way) for end in ends for way in self.shape.ways(sent.node, end))

    def _is_open(self, sent: Sent, reader: str, way: tuple[str, ...]) -> bool:
        hops = list(itertools.pairwise(way))
        types = [self._type(sent.publisher), *(self._link_type(hop) for hop in hops), self._type(reader)]
        is_closed = self.denies and any(pair == ("secret", "open") for pair in itertools.pairwise(types))
        links = [(sent.publisher, way[0]), *hops, (way[-1], reader)]
        return not is_closed and all(sent.x <= self.monitors.get(link, 100) for link in links)

    def _type(self, name: str) -> str:
        return self.types.get(name, "open")

    def _link_type(self, ends: Ends) -> str:
        return self._type(ends[0] if ends in self.shape.links else ends[1])

    # --- the same as a domain file has it

    def as_domain(self) -> dict[str, Any]:
        shape = self.shape
        clients: dict[str, Any] = {}
        for name, node in shape.clients.items():
            if name not in self.unlisted:
                clients[name] = {"node": node, "user": name, "type": self._type(name)}
        if EDGE in clients:
            clients[EDGE]["edge"] = EDGE_NODE
        for name in clients.keys() & self.where.keys():
            clients[name]["where"] = {"t/#": f"x > {self.where[name]}"}
        for name in clients.keys() & self.advertises.keys():
            clients[name]["advertises"] = [{"name": "a", "filter": "t/#", "where": f"x < {self.advertises[name]}"}]
        deny = [{"from": "secret", "to": "open"}] if self.denies else []
        links = [{"between": list(link), "type": self._link_type(link)} for link in shape.links]
        links += [{"between": [node, FOREIGN], "type": self._type(FOREIGN)} for node in shape.foreign]
        nodes: dict[str, Any] = {name: {"listen": "127.0.0.1:0"} for name in shape.nodes}
        domain: dict[str, Any] = {
            "domain": "play",
            "nodes": nodes,
            "links": links,
            "clients": clients,
            "brokering": {"types": list(TYPES), "deny": deny},
            "monitors": dict(self._monitors(clients)),
            "statements": {"policies": {"block": BLOCK, "remove": REMOVE}, "apply": list(self._apply(clients))},
            "contracts": self._contracts(clients),
            "access": list(self._access()),
        }
        if shape.foreign:
            out, taken = (sorted(self.lists.get(key, TOPICS)) for key in ("out", "in"))
            domain["foreign"] = {FOREIGN: {"address": "127.0.0.1:1", "out": out, "in": taken, "qos": 2}}
        if shape.has_tokens:
            for name, node in nodes.items():
                node["signing_key"] = f"{name}.pem"
            domain["tokens"] = {"keys": "keys.json", "grants": [{"clients": "*", "publish": "#", "subscribe": "#"}]}
        return domain

    def _monitors(self, clients: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        for place, ((source, target), bound) in enumerate(self.monitors.items()):
            if not {source, target} & self.unlisted:
                edges = [{"when": f"x <= {bound}", "pass": True}, {"suppress": True}]
                yield f"m{place}", {"link": f"{source} -> {target}", "states": {"q": {"t/#": edges, "*": "pass"}}}

    def _apply(self, clients: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for name in self.statements.keys() & clients.keys():
            whose = "subscription" if name in self.shape.readers else "publication"
            yield {"policy": self.statements[name], "to": whose, "of": name, "filter": "t/#"}

    def _contracts(self, clients: dict[str, Any]) -> dict[str, Any]:
        producers = {
            name: {"producer": name, "filter": _topics_of(name), "rules": {"all": RULES[self.contracts[name]]}}
            for name in self.contracts.keys() & clients.keys()
        }
        for name in producers.keys() & self.advertises.keys():  # a contract advertises too, and one is enough
            producers[name]["where"] = f"x < {self.advertises[name]}"
        consumers = {
            name: {"consumer": name, "purpose": self.purposes[name], "wants": WANTS}
            for name in self.purposes.keys() & clients.keys()
        }
        return {"producers": producers, "consumers": consumers} if producers else {}

    def _access(self) -> Iterator[dict[str, Any]]:
        for name in (EDGE, *self.shape.readers):
            if name in self.unread:
                continue
            subject, may = (EDGE_NODE, ["read", "write"]) if name == EDGE else (name, ["read"])
            policy: dict[str, Any] = {"subject": subject, "topics": "spBv1.0/#", "may": may}
            excluded = sorted(metric for metric in METRICS if (name, metric) in self.withheld)
            if excluded:
                policy["except"] = excluded
            if name in self.until:
                end = datetime.fromtimestamp(self.until[name], UTC).isoformat().replace("+00:00", "Z")
                policy["when"] = f"now < timestamp('{end}')"
            yield policy

    def access_list(self, node: str) -> str:
        """The access list of a node."""
        lines = []
        for name, place in self.shape.clients.items():
            if place == node:
                may = "read" if name in self.shape.readers else "write"
                topics = (*self.lists.get(name, TOPICS), "spBv1.0/#", "$sparkplug/#")
                lines += [f"user {name}", *(f"topic {may} {topic}" for topic in topics)]
        return "\n".join(lines)


CHANGES = (
    "types",
    "denies",
    "unlisted",
    "lists",
    "where",
    "advertises",
    "statements",
    "monitors",
    "contracts",
    "purposes",
    "withheld",
    "unread",
    "until",
)
