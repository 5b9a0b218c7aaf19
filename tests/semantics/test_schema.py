"""§5.1: what a schema requires is checked when it is made, and what it induces is what the paper says."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.semantics.ordering import unordered
from penstock.semantics.schema import (
    UNMONITORED,
    BrokeringPolicy,
    ConnectionGraph,
    EventPolicy,
    Schema,
    SchemaError,
    event_filter,
    event_mapper,
    in_turn,
    liberal,
)
from tests.support.models.ensembles import M1, M2, both_ways, smart_home

GRAPH = ConnectionGraph(frozenset("d"), frozenset("xy"), both_ways([("d", "x"), ("x", "y")]))


def schema(
    graph: ConnectionGraph = GRAPH, brokering: BrokeringPolicy | None = None, events: EventPolicy | None = None
) -> Schema:
    return Schema(graph, brokering or liberal(graph), events or EventPolicy(frozenset("a")), {}, unordered)


def policy(graph: ConnectionGraph = GRAPH) -> BrokeringPolicy:
    return liberal(graph)


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "an entity is a device and a broker": (
        lambda: ConnectionGraph(frozenset("dx"), frozenset("x"), frozenset()),
        "`x` is a device and a broker",
    ),
    "link is not irreflexive": (
        lambda: ConnectionGraph(frozenset(), frozenset("x"), frozenset({("x", "x")})),
        "link `x -> x` is not irreflexive",
    ),
    "link is not symmetric": (
        lambda: ConnectionGraph(frozenset("d"), frozenset("x"), frozenset({("d", "x")})),
        "link `d -> x` is not symmetric: there is no `x -> d`",
    ),
    "link joins two devices": (
        lambda: ConnectionGraph(frozenset("de"), frozenset("x"), both_ways([("d", "e")])),
        "link `d -> e` joins two devices",
    ),
    "link has an unknown entity": (
        lambda: ConnectionGraph(frozenset("d"), frozenset("x"), both_ways([("d", "z")])),
        "link `d -> z` has the unknown entity `z`",
    ),
    "type gives an unknown link type": (
        lambda: replace(policy(), types=frozenset({"t1"}), allow=frozenset()),
        "has the unknown link type `t0`",
    ),
    "allow has an unknown link type": (
        lambda: replace(policy(), allow=frozenset({("t0", "t9")})),
        "`allow` has the unknown link type `t9`",
    ),
    "a broker's own allow has an unknown link type": (
        lambda: replace(policy(), overrides={"x": frozenset({("t9", "t0")})}),
        "`allow` has the unknown link type `t9`",
    ),
    "a link has no type": (
        lambda: schema(brokering=replace(policy(), type={})),
        "has no link type",
    ),
    "a link that is not there has a type": (
        lambda: schema(brokering=replace(policy(), type={**policy().type, ("d", "y"): "t0"})),
        "link `d -> y` has a link type, but is not there",
    ),
    "a device has a brokering table": (
        lambda: schema(brokering=replace(policy(), overrides={"d": frozenset()})),
        "`d` has a brokering table, but is not a broker",
    ),
    "a link that is not there has a monitor": (
        lambda: schema(events=EventPolicy(frozenset("a"), {("d", "y"): UNMONITORED})),
        "link `d -> y` has a monitor, but is not there",
    ),
    "a subscription is not at a link from a broker to a device": (
        lambda: replace(schema(), sub={("d", "x"): frozenset("a")}),
        "subscription at `d -> x`, which is not a link from a broker to a device",
    ),
    "a subscription has an unknown topic": (
        lambda: replace(schema(), sub={("x", "d"): frozenset("b")}),
        "subscription of `d` to the unknown topic `b`",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_it_is_refused_when(mistake: str) -> None:
    make, message = MISTAKES[mistake]
    with pytest.raises(SchemaError) as raised:
        make()
    assert message in str(raised.value)


def test_the_four_relations_that_link_induces() -> None:
    relations = (GRAPH.publish, GRAPH.notify, GRAPH.bridge, GRAPH.monitored)
    induced = {relation.__name__: {link for link in GRAPH.link if relation(*link)} for relation in relations}
    assert induced == {
        "publish": {("d", "x")},
        "notify": {("x", "d")},
        "bridge": {("x", "y"), ("y", "x")},
        "monitored": {("d", "x"), ("x", "y"), ("y", "x")},
    }
    assert not any(relation("d", "y") for relation in relations), "what is not linked is in none of them"


def test_propagate_follows_the_types_of_the_two_links() -> None:
    home = smart_home()
    assert home.propagate("DB", "H", "I")
    assert not home.propagate("MD", "H", "I"), "from sensitive to internet"
    assert home.propagate("MD", "H", "DB")
    assert not home.propagate("MD", "H", "DL"), "H and DL are not linked"


def test_a_broker_may_have_a_table_of_its_own() -> None:
    home = smart_home()
    own = replace(home, brokering=replace(home.brokering, overrides={"I": frozenset()}))
    assert not own.propagate("SP", "I", "H")
    assert own.propagate("DB", "H", "I")


def test_the_most_liberal_policy_allows_all() -> None:
    assert all(schema().propagate(x, "x", z) for x in "dy" for z in "dy")


def test_event_filter() -> None:
    keep = event_filter(frozenset("ab"))
    assert [keep.step("q0", topic) for topic in "abc"] == [("q0", ("a",)), ("q0", ("b",)), ("q0", ())]


def test_event_mapper() -> None:
    rename = event_mapper(lambda topic: topic.upper())
    assert rename.step("q0", "a") == ("q0", ("A",))


def test_monitors_in_turn_see_what_the_one_before_put_out() -> None:
    both = in_turn(event_mapper(lambda topic: "DL_unlock" if topic == "open" else topic), M1, M2)
    assert both.start == ("q0", "q0", "q0")
    assert both.step(both.start, "open") == (("q0", "q0", "q0"), ())
    assert both.step(both.start, "AC_request") == (("q0", "q0", "q1"), ("AC_request",))
