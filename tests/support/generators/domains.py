"""Random small domains, and the same as schemas of the semantics, so that the two can be held against each other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from hypothesis import strategies as st

from penstock.domain import Domain, Ensemble
from penstock.domain.compile.ensemble import ensemble
from penstock.model.event import Event
from penstock.policy.monitors.monitor import Monitor as PolicyMonitor
from penstock.semantics.explore import DevicePublication
from penstock.semantics.ordering import Ordering
from penstock.semantics.schema import (
    BrokeringPolicy,
    ConnectionGraph,
    EventPolicy,
    LinkMonitor,
    MonitorState,
    Pair,
    Schema,
    in_turn,
)

TOPICS = ("a", "b", "c/d")
PAYLOADS = ("1", "2", "?")
"""Contents whose attribute `value` is 1 or 2, or that have none."""
TYPES = ("r", "s", "t")


def word(topic: str, payload: str) -> str:
    """What the semantics has for an event: its topics are any names, so content that monitors look at is one's part."""
    return f"{topic} {payload}"


def parts(word: str) -> tuple[str, str]:
    """The topic and the payload of an event of the semantics."""
    topic, payload = word.split()
    return topic, payload


def words(topics: Iterable[str]) -> frozenset[str]:
    """All events on these topics."""
    return frozenset(word(topic, payload) for topic in topics for payload in PAYLOADS)


@dataclass(frozen=True)
class Scene:
    """A domain, who subscribes to what at which node, and what is published."""

    domain: Domain
    whole: Ensemble
    subscriptions: Mapping[Pair, frozenset[str]]
    """Topics, by node and device."""
    publications: tuple[DevicePublication, ...]
    """Of words."""

    def schema(self, ordering: Ordering) -> Schema:
        """The same scene for the semantics."""
        whole = self.whole
        graph = ConnectionGraph(frozenset(whole.devices), frozenset(whole.nodes), frozenset(whole.links))
        allowed = {
            node: frozenset(pair for pair in product(TYPES, TYPES) if whole.table(node).allows(*pair))
            for node in whole.nodes
        }
        brokering = BrokeringPolicy(
            frozenset(TYPES), {ends: link.type for ends, link in whole.links.items()}, frozenset(), allowed
        )
        monitors = {ends: in_turn(*map(as_semantics, whole.monitors(link))) for ends, link in whole.links.items()}
        subscribed = {ends: words(topics) for ends, topics in self.subscriptions.items()}
        return Schema(graph, brokering, EventPolicy(words(TOPICS), monitors), subscribed, ordering)


def as_semantics(monitor: PolicyMonitor) -> LinkMonitor:
    """A monitor of the policy layer as a transition function on words."""

    def step(state: MonitorState, event: str) -> tuple[MonitorState, tuple[str, ...]]:
        topic, payload = parts(event)
        after, events = monitor.step(state, Event(topic, payload.encode()), 0.0)
        assert isinstance(after, str)
        return after, tuple(word(each.topic, each.payload.decode()) for each in events)

    start = monitor.start()
    assert isinstance(start, str)
    return LinkMonitor(step, start)


_STATES = ("q0", "q1", "q2")


@st.composite
def automata(draw: st.DrawFn, max_states: int) -> dict[str, dict[str, Any]]:
    """An automaton as the domain file writes it: any edges, not only sensible ones."""
    names = _STATES[: draw(st.integers(1, max_states))]
    made = st.sampled_from(TOPICS)
    outputs = st.one_of(
        st.just({"pass": True}),
        st.just({"suppress": True}),
        st.builds(lambda topic: {"rename": topic}, made),
        st.builds(lambda several: {"emit": several}, st.lists(made, min_size=2, max_size=2)),
    )
    sure = st.builds(lambda output, following: {**output, "next": following}, outputs, st.sampled_from(names))
    guarded = st.builds(lambda one, when: {**one, "when": when}, sure, st.sampled_from(["value == 1", "value > 1"]))
    action = st.one_of(sure, guarded, st.builds(lambda *both: list(both), guarded, sure))
    edges = st.sets(st.sampled_from([*TOPICS, "*"]), min_size=2)
    return {name: {edge: draw(action) for edge in sorted(draw(edges))} for name in names}


def _allowed_or_denied() -> st.SearchStrategy[dict[str, Any]]:
    rule = st.builds(lambda one, other: {"from": one, "to": other}, st.sampled_from(TYPES), st.sampled_from(TYPES))
    few, many = (
        st.lists(rule, min_size=least, max_size=most, unique_by=lambda one: (one["from"], one["to"]))
        for least, most in ((1, 3), (4, 8))
    )
    return st.one_of(
        st.just({}), st.builds(lambda some: {"deny": some}, few), st.builds(lambda some: {"allow": some}, many)
    )


@st.composite
def _links(draw: st.DrawFn, nodes: list[str], cyclic: bool) -> list[dict[str, Any]]:
    """A tree of the nodes; with `cyclic`, more links between them."""
    pairs = [(name, draw(st.sampled_from(nodes[:at]))) for at, name in enumerate(nodes) if at]
    if cyclic:
        others = [(x, y) for at, y in enumerate(nodes) for x in nodes[at + 1 :] if (x, y) not in pairs]
        pairs += draw(st.lists(st.sampled_from(others), unique=True, max_size=2)) if others else []
    kind = st.sampled_from(TYPES)
    return [
        {
            "between": draw(st.permutations(pair)),
            "type": draw(kind),
            "back": draw(kind),
            "forward": draw(st.sampled_from(["subscribed", "all"])),
        }
        for pair in pairs
    ]


@st.composite
def scenes(
    draw: st.DrawFn,
    most_nodes: int = 3,
    most_devices: int = 3,
    most_publications: int = 3,
    max_states: int = 3,
    cyclic: bool = False,
) -> Scene:
    """Any domain of a few nodes and devices, with any types, tables and monitors."""
    nodes = [f"n{at}" for at in range(draw(st.integers(3 if cyclic else 1, most_nodes)))]
    devices = [f"d{at}" for at in range(draw(st.integers(1, most_devices)))]
    kind = st.sampled_from(TYPES)
    places = {device: draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=2, unique=True)) for device in devices}
    ends = [(device, node) for device, several in places.items() for node in several]
    publication = st.builds(
        lambda at, event: DevicePublication(at[0], at[1], event),
        st.sampled_from(ends),
        st.sampled_from(sorted(words(TOPICS))),
    )
    publications = tuple(draw(st.lists(publication, min_size=1, max_size=most_publications)))
    publishers = {one.device for one in publications}
    written: dict[str, Any] = {
        "nodes": {
            name: {
                "listen": f"127.0.0.1:{1883 + at}",
                "brokering": draw(st.one_of(st.none(), _allowed_or_denied())) or None,
            }
            for at, name in enumerate(nodes)
        },
        "links": draw(_links(nodes, cyclic)),
        "clients": {
            device: {"node": several, "type": {"publish": draw(kind), "notify": draw(kind)}}
            for device, several in places.items()
        },
        "brokering": {"types": TYPES, **draw(_allowed_or_denied())},
    }
    some_topics = st.one_of(st.just(frozenset(TOPICS)), st.frozensets(st.sampled_from(TOPICS)))
    subscriptions = {(node, device): draw(some_topics) for device, node in ends}
    links: list[Pair] = [(x, y) for x, y in (link["between"] for link in written["links"])] + ends
    links += [(y, x) for x, y in links]
    # A monitor towards a client sees all that concerns it, subscribed to or not and whoever published it; in the
    # semantics it sees what goes to the client, and what it makes of one event arrives at once. Where the client has
    # everything, says nothing and is at one node, that is the same.
    silent = [device for device in devices if device not in publishers and len(places[device]) == 1]
    monitored = [link for link in links if link[1] in nodes or link[1] in silent]
    between_nodes = [link for link in monitored if {*link} <= {*nodes}]
    for at in range(draw(st.integers(0, 3))):
        is_between = draw(st.booleans())
        link = draw(st.sampled_from((between_nodes if is_between else []) or monitored))
        monitors = written.setdefault("monitors", {})
        monitors[f"m{at}"] = {"link": " -> ".join(link), "states": draw(automata(max_states))}
        if link[1] in devices:
            subscriptions[link] = frozenset(TOPICS)
    domain = Domain.model_validate(written)
    return Scene(domain, ensemble(domain), subscriptions, publications)
