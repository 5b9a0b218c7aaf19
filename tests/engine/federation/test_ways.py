"""Nodes joined in cycles: every way to a receiver is judged by itself, and of those that are open it gets one copy."""

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain import Domain, ensemble
from penstock.engine.explain.arrival import arrival
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.event import Event


@dataclass(frozen=True)
class Ways:
    """A graph of nodes, the place of a publisher, and for each node the neighbours from which its subscriber may not
    have anything.
    """

    nodes: int
    pairs: tuple[tuple[int, int], ...]
    at: int
    refused: tuple[frozenset[int], ...]

    def domain(self) -> Domain:
        policies = {
            f"not-from-{at}-{there}": "PolicyStatement { On(Forward, Publication) { "
            f"If {{Sender() == 'n{there}'}} Then {{BlockMessage()}} }} }}"
            for at, some in enumerate(self.refused)
            for there in some
        }
        apply = [
            {"policy": name, "to": "subscription", "of": [f"s{name.split('-')[2]}"], "filter": "#"} for name in policies
        ]
        return Domain.model_validate(
            {
                "nodes": {f"n{at}": {"listen": "127.0.0.1:0", "store": "memory"} for at in range(self.nodes)},
                "links": [{"between": [f"n{one}", f"n{other}"]} for one, other in self.pairs],
                "clients": {"p": {"node": f"n{self.at}"}} | {f"s{at}": {"node": f"n{at}"} for at in range(self.nodes)},
                "statements": {"policies": policies, "apply": apply},
            }
        )

    def open_to(self) -> set[str]:
        """The subscribers to which some way without a return leads, by a last step that is not refused."""
        return {f"s{way[-1]}" for way in self._ways((self.at,)) if not {*way[-2:-1]} & self.refused[way[-1]]}

    def _ways(self, way: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        yield way
        for pair in self.pairs:
            if way[-1] in pair:
                there = sum(pair) - way[-1]
                if there not in way:
                    yield from self._ways((*way, there))


@st.composite
def ways(draw: st.DrawFn) -> Ways:
    nodes = draw(st.integers(3, 5))
    every = [(one, other) for one in range(nodes) for other in range(one)]
    pairs = {(one, one - 1) for one in range(1, nodes)} | set(draw(st.lists(st.sampled_from(every), min_size=1)))
    refused = st.frozensets(st.integers(0, nodes - 1), max_size=nodes - 1)
    return Ways(
        nodes,
        tuple(sorted(pairs)),
        draw(st.integers(0, nodes - 1)),
        tuple(draw(refused) for _ in range(nodes)),
    )


@given(ways(), st.sampled_from([0, 1]))
def test_who_may_have_an_event_by_some_way_gets_it_once(scene: Ways, qos: int) -> None:
    domain = scene.domain()
    rehearsal = Rehearsal(domain, ensemble(domain))
    for name in domain.clients:
        rehearsal.connect(name)
        rehearsal.subscribe(name, "t" if name != "p" else "other", qos=1)
    came = arrival(rehearsal.nodes[f"n{scene.at}"], "p", Event("t", b"x", qos))
    told = explain(rehearsal.nodes, came, rehearsal.now, rehearsal.ensemble.devices)
    rehearsal.publish("p", "t", b"x", qos=qos)
    rehearsal.run()
    got = [name for name in domain.clients for _ in rehearsal.deliveries(name)]
    assert sorted(got) == sorted(scene.open_to())
    explained = [one.goes_by.target for one in told if one.goes_by is not None for _ in one.outputs]
    assert sorted(name for name in explained if name in domain.clients) == sorted(got)


@given(ways(), st.data())
def test_a_foreign_broker_gets_an_event_once_if_one_node_serves_it_or_that_of_the_publisher(
    scene: Ways, data: st.DataObject
) -> None:
    """Several nodes that serve it and get the event by different ways do not know of each other."""
    serving = data.draw(st.sets(st.integers(0, scene.nodes - 1), min_size=1))
    plain = scene.domain().model_dump(mode="json", by_alias=True, exclude_unset=True)
    plain["foreign"] = {"f": {"address": "127.0.0.1:1"}}
    plain["links"] += [{"between": [f"n{at}", "f"]} for at in sorted(serving)]
    domain = Domain.model_validate(plain)
    rehearsal = Rehearsal(domain, ensemble(domain))
    rehearsal.connect("p")
    came = arrival(rehearsal.nodes[f"n{scene.at}"], "p", Event("t", b"x", 1))
    told = explain(rehearsal.nodes, came, rehearsal.now, ("f",))
    rehearsal.publish("p", "t", b"x", qos=1)
    rehearsal.run()
    copies = len(rehearsal.deliveries("f"))
    explained = [one for one in told if one.goes_by is not None and one.goes_by.target == "f" and one.outputs]
    assert 1 <= copies <= len(serving)
    if len(serving) == 1 or scene.at in serving:
        assert copies == len(explained) == 1
