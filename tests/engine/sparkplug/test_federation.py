"""Sparkplug messages between nodes: each knows what aliases mean, and shows its own clients what they may see."""

from typing import Any

import pytest

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.sparkplug import births
from penstock.model.event import Event
from penstock.model.sparkplug.payload import read_sparkplug
from penstock.model.sparkplug.topic import SparkplugSource
from tests.engine.sparkplug.test_leaks import BORN, CERTIFICATE, MARK, NBIRTH, NDATA, payload

ACCESS: list[dict[str, Any]] = [
    {"subject": "G1/E1", "topics": "spBv1.0/G1/#", "may": ["read", "write"]},
    {"subject": ["here", "there"], "topics": "spBv1.0/G1/#", "may": "read", "except": "secret*"},
]
LINE = [("a", "b"), ("b", "c")]
RING = [*LINE, ("a", "c")]
MODES = ["all", "subscribed", "advertised", "routed"]


def federation(pairs: list[tuple[str, str]], mode: str = "subscribed", **more: Any) -> Rehearsal:
    """Three nodes; the edge node is at the first, readers are at the first and at the last."""
    clients = {"e1": {"node": ["a", "c"], "edge": "G1/E1"}, "here": {"node": "a"}, "there": {"node": "c"}}
    nodes = {name: {"listen": f"127.0.0.1:{number}", "store": "memory"} for number, name in enumerate("abc", start=1)}
    joined = [{"between": list(pair), "forward": mode} for pair in pairs]
    keys = {"nodes": nodes, "links": joined, "clients": clients, "access": ACCESS, **more}
    domain = Domain.model_validate(keys)
    rehearsal = Rehearsal(domain, ensemble(domain))
    for name in ("here", "there"):
        rehearsal.connect(name)
    rehearsal.connect("e1", "a")
    rehearsal.advertise("e1", "all", "spBv1.0/#")
    return rehearsal


def said(rehearsal: Rehearsal, topic: str, *metrics: dict[str, Any], node: str = "a", **more: Any) -> None:
    rehearsal.publish("e1", topic, payload(*metrics, **more), node=node)
    rehearsal.run()


def seen(rehearsal: Rehearsal, name: str) -> list[dict[Any, Any]]:
    """What a reader has got, by name or alias; the mark is nowhere in it."""
    got = rehearsal.deliveries(name)
    assert all(MARK not in one.payload for one in got)
    read = [read_sparkplug(one.payload) for one in got]
    return [{"seq": one.get("seq"), **one["metrics"], **one["aliases"]} for one in read]


@pytest.mark.parametrize("links", [LINE, RING], ids=["line", "ring"])
@pytest.mark.parametrize("mode", MODES)
def test_readers_elsewhere_see_what_readers_here_see(links: list[tuple[str, str]], mode: str) -> None:
    rehearsal = federation(links, mode)
    for name in ("here", "there"):
        rehearsal.subscribe(name, "spBv1.0/#")
    rehearsal.run()
    rehearsal.wait(1)
    said(rehearsal, NBIRTH, *BORN, seq=0)
    for seq in range(1, 300):
        said(rehearsal, NDATA, {"alias": 1, "string_value": "x"}, {"alias": 2, "string_value": "SECRET"}, seq=seq % 256)
    here, there = seen(rehearsal, "here"), seen(rehearsal, "there")
    assert [one["seq"] for one in there] == [number % 256 for number in range(300)]
    assert there == here


@pytest.mark.parametrize("links", [LINE, RING], ids=["line", "ring"])
def test_who_comes_late_and_wants_no_births_has_aliases_all_the_same(links: list[tuple[str, str]]) -> None:
    rehearsal = federation(links)
    rehearsal.run()
    said(rehearsal, NBIRTH, *BORN, seq=0)
    rehearsal.subscribe("there", NDATA)
    rehearsal.wait(1)
    said(rehearsal, NDATA, {"alias": 1, "string_value": "x"}, {"alias": 2, "string_value": "SECRET"}, seq=1)
    assert seen(rehearsal, "there") == [{"seq": 1, 1: "x"}]


def test_asking_for_content_elsewhere_tells_nothing_either() -> None:
    rehearsal = federation(LINE)
    rehearsal.subscribe("there", "spBv1.0/#", where="metrics.secret == 'SECRET'", name="one")
    rehearsal.subscribe("there", "spBv1.0/#", where="!('secret' in metrics)", name="two")
    rehearsal.wait(1)
    said(rehearsal, NBIRTH, *BORN, seq=0)
    assert len(seen(rehearsal, "there")) == 1


def test_a_restarted_node_knows_aliases_again() -> None:
    rehearsal = federation(LINE)
    rehearsal.subscribe("there", NDATA)
    rehearsal.wait(1)
    said(rehearsal, NBIRTH, *BORN, seq=0)
    rehearsal.restart("b")
    rehearsal.wait(10)
    said(rehearsal, NDATA, {"alias": 1, "string_value": "x"}, {"alias": 2, "string_value": "SECRET"}, seq=1)
    assert seen(rehearsal, "there") == [{"seq": 1, 1: "x"}]


def test_of_an_edge_node_that_has_moved_the_older_birth_does_not_come_back() -> None:
    """It was at one node, moves to another while they are apart, with other aliases; then they are joined again."""
    rehearsal = federation(LINE)
    rehearsal.wait(1)
    said(rehearsal, NBIRTH, *BORN, seq=0)
    rehearsal.disconnect("e1", "a")
    rehearsal.cut("b", "c")
    rehearsal.connect("e1", "c")
    moved = [{"name": "a", "alias": 2, "string_value": "x"}, {"name": "secret", "alias": 1, "string_value": "SECRET"}]
    rehearsal.publish("e1", NBIRTH, payload(*moved, seq=0).replace(b"\x08\x01", b"\x08\x02", 1), node="c")
    rehearsal.run()
    rehearsal.restore("b", "c")
    rehearsal.wait(10)
    older = Event(CERTIFICATE, payload(*BORN, seq=0), 1, True, path=("a",))
    for name in "abc":
        assert "a newer birth certificate" in births.take_in(rehearsal.nodes[name], older)
        sparkplug = rehearsal.nodes[name].sparkplug
        assert sparkplug is not None
        assert sparkplug.plant.known(SparkplugSource("G1", "E1")).names == {2: "a", 1: "secret"}, name


@pytest.mark.parametrize("time", [b"\x08\x01", b""], ids=["a clock that was set back", "no clock"])
def test_a_birth_with_an_older_time_is_the_newer_one_everywhere(time: bytes) -> None:
    rehearsal = federation(LINE)
    rehearsal.wait(1)
    rehearsal.publish("e1", NBIRTH, payload(*BORN, seq=0).replace(b"\x08\x01", b"\x08\x05", 1))
    rehearsal.run()
    again = [{"name": "a", "alias": 2, "string_value": "x"}, {"name": "secret", "alias": 1, "string_value": "SECRET"}]
    rehearsal.publish("e1", NBIRTH, payload(*again, seq=0).replace(b"\x08\x01", time, 1))
    rehearsal.run()
    for name in "abc":
        sparkplug = rehearsal.nodes[name].sparkplug
        assert sparkplug is not None
        assert sparkplug.plant.known(SparkplugSource("G1", "E1")).names == {2: "a", 1: "secret"}, name


def test_certificates_do_not_go_where_births_may_not() -> None:
    kinds = {"e1": "inner", "here": "inner", "there": "outer"}
    rehearsal = federation(
        LINE,
        brokering={"types": ["inner", "outer"], "deny": [{"from": "inner", "to": "outer"}]},
        links=[{"between": list(pair), "type": "outer"} for pair in LINE],
        clients={
            name: {"node": "c" if name == "there" else "a", "type": kind, **({"edge": "G1/E1"} if name == "e1" else {})}
            for name, kind in kinds.items()
        },
    )
    rehearsal.wait(1)
    said(rehearsal, NBIRTH, *BORN, seq=0)
    assert [node.retained.get(CERTIFICATE) is not None for node in rehearsal.nodes.values()] == [True, False, False]
