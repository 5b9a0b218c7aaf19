"""Random networks of nodes with content subscriptions, advertisements and publications."""

from dataclasses import dataclass

import msgspec
from hypothesis import strategies as st

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.language.condition import make_condition
from penstock.model.content.content import Content
from penstock.model.topic import matches

MODES = ("all", "subscribed", "advertised", "routed")
FILTERS = ("a", "b", "a/+", "#", "a/#")
TOPICS = ("a", "b", "a/b")
CONDITIONS = ("", "x > 2", "x < 4", "x > 1 && x < 5", "x == 3", "x > 2 && y == 'k'", "x % 2 == 0", "z > 0")
CONTENTS = ({"x": 1}, {"x": 3}, {"x": 4}, {"x": 5, "y": "k"}, {"y": "k"}, {"x": "text"})


SMALL_PACKETS = {"max_packet_size": 400}
"""Limits by which two or three wants fill a packet."""


def network(pairs: list[tuple[int, int]], modes: list[str], nodes: int, limits: dict[str, int] | None = None) -> Domain:
    """Nodes `n0`, `n1`, …, each with two clients: `p0` that publishes and `s0` that subscribes."""
    settings = {"listen": "127.0.0.1:0", "store": "memory", "limits": limits or {}}
    return Domain.model_validate(
        {
            "nodes": {f"n{number}": settings for number in range(nodes)},
            "links": [
                {"between": [f"n{first}", f"n{second}"], "forward": mode}
                for (first, second), mode in zip(pairs, modes, strict=True)
            ],
            "clients": {
                name: {"node": f"n{number}"} for number in range(nodes) for name in (f"p{number}", f"s{number}")
            },
        }
    )


@dataclass(frozen=True)
class Wish:
    """A subscription or an advertisement of the client at a node."""

    at: int
    filter: str
    where: str

    def takes(self, topic: str, payload: bytes) -> bool:
        holds = not self.where or make_condition(self.where).holds(Content(payload)) is True
        return matches(self.filter, topic) and holds


@dataclass(frozen=True)
class NetworkScene:
    """A network, who wants what, who advertises what, and what is published."""

    domain: Domain
    modes: tuple[str, ...]
    wanted: tuple[Wish, ...]
    advertised: tuple[Wish, ...]
    published: tuple[tuple[int, str, bytes], ...]

    def play(self, rehearsal: Rehearsal) -> None:
        for number, wish in enumerate(self.advertised):
            rehearsal.advertise(f"p{wish.at}", str(number), wish.filter, wish.where)
        for number, wish in enumerate(self.wanted):
            rehearsal.subscribe(f"s{wish.at}", wish.filter, qos=1, where=wish.where, name=str(number))

    def conforms(self, at: int, topic: str, payload: bytes) -> bool:
        own = [wish for wish in self.advertised if wish.at == at]
        return not own or any(wish.takes(topic, payload) for wish in own)

    def is_advertised(self, at: int, topic: str, payload: bytes) -> bool:
        return any(wish.at == at and wish.takes(topic, payload) for wish in self.advertised)


@st.composite
def scenes(draw: st.DrawFn, cyclic: bool, modes: tuple[str, ...] = MODES, one_mode: bool = False) -> NetworkScene:
    nodes = draw(st.integers(2, 5))
    pairs = [(number, draw(st.integers(0, number - 1))) for number in range(1, nodes)]
    if cyclic:
        others = [(a, b) for a in range(nodes) for b in range(a) if (a, b) not in pairs]
        pairs += draw(st.lists(st.sampled_from(others), min_size=1, max_size=3, unique=True)) if others else []
    mode = draw(st.sampled_from(modes))
    chosen = [mode if one_mode else draw(st.sampled_from(modes)) for _ in pairs]
    wish = st.builds(Wish, st.integers(0, nodes - 1), st.sampled_from(FILTERS), st.sampled_from(CONDITIONS))
    payload = st.sampled_from([msgspec.json.encode(content) for content in CONTENTS])
    publication = st.tuples(st.integers(0, nodes - 1), st.sampled_from(TOPICS), payload)
    return NetworkScene(
        network(pairs, chosen, nodes, draw(st.sampled_from((None, SMALL_PACKETS)))),
        tuple(chosen),
        tuple(draw(st.lists(wish, min_size=1, max_size=6))),
        tuple(draw(st.lists(wish, max_size=4))),
        tuple(draw(st.lists(publication, min_size=1, max_size=4))),
    )


def begin(scene: NetworkScene) -> Rehearsal:
    rehearsal = Rehearsal(scene.domain, ensemble(scene.domain))
    for name in scene.domain.clients:
        rehearsal.connect(name)
    scene.play(rehearsal)
    return rehearsal
