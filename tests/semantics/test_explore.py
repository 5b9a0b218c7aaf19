"""Whole systems: Fig. 1, the smart home of §4.3 with its four policies, roles of §6.2.3, and exploration itself."""

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import pytest

from penstock.semantics.explore import (
    DevicePublication,
    ExplorationError,
    RunOutcome,
    explore,
    histories,
    run,
    work_first,
)
from penstock.semantics.ordering import Ordering, by_publication, fifo, in_order_links, unordered
from penstock.semantics.schema import ConnectionGraph, EventPolicy, LinkMonitor, Schema, liberal
from tests.support.models.ensembles import both_ways, figure_1, roles, smart_home, subscribed_to_all

ORDERINGS = [unordered, fifo, by_publication, in_order_links]


def published(*texts: str) -> list[DevicePublication]:
    """Publications from texts such as `DB H AC_request`."""
    return [DevicePublication(*text.split()) for text in texts]


def notified(outcomes: Iterable[RunOutcome]) -> set[str]:
    """Devices that some outcome notifies."""
    return {device for outcome in outcomes for device, _ in outcome.histories}


@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
@pytest.mark.parametrize(
    ("publication", "receivers"),
    [("1 C a", {"2", "3"}), ("3 D a", {"1", "2", "4"}), ("4 E a", {"3"})],
)
def test_figure_1_an_event_is_visible_under_a_common_ancestor(
    publication: str, receivers: set[str], ordering: Ordering
) -> None:
    (outcome,) = explore(figure_1(ordering), published(publication))
    assert {device: outcome.topics(device) for device in notified([outcome])} == dict.fromkeys(receivers, ("a",))


@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
def test_policy_1_the_home_works_without_the_cloud(ordering: Ordering) -> None:
    home = smart_home(ordering, cut=[("I", "H")])
    outcomes = explore(home, published("MD H MD_motion"))
    assert histories(outcomes, "DB") == {("MD_motion",)}


@pytest.mark.parametrize("topic", ["MD_motion", "MD_no_motion"])
@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
def test_policy_2_motion_is_not_told_outside_the_home(ordering: Ordering, topic: str) -> None:
    outcomes = explore(smart_home(ordering), published(f"MD H {topic}"))
    assert histories(outcomes, "SP") == {()}
    assert histories(outcomes, "DB") == {(topic,)}


@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
def test_policy_3_an_unlock_from_the_internet_is_discarded(ordering: Ordering) -> None:
    home = smart_home(ordering)
    assert notified(explore(home, published("SP I DL_unlock"))) == set()
    granted = explore(smart_home(ordering, ["DL"]), published("DB H AC_request", "SP I AC_grant", "SP I DL_unlock"))
    assert {"DL_unlock" in history for history in histories(granted, "DL")} == {False}, "not even after a grant"


FLOW = ["DB H AC_request", "SP I AC_grant", "DB H DL_unlock"]


def test_policy_4_the_normal_flow_unlocks() -> None:
    trace, outcome = run(smart_home(), published(*FLOW), work_first)
    assert outcome.topics("DL") == ("AC_request", "AC_grant", "DL_unlock")
    assert {step.rule for step in trace} == {"T-Publish", "T-Deliver", "T-Broker", "T-Notify"}


@pytest.mark.parametrize("ordering", [fifo, by_publication, in_order_links], ids=str)
def test_policy_4_the_lock_never_hears_an_unlock_before_a_grant(ordering: Ordering) -> None:
    heard = histories(explore(smart_home(ordering, ["DL"]), published(*FLOW)), "DL")
    assert ("AC_request", "AC_grant", "DL_unlock") in heard
    assert any("DL_unlock" not in history for history in heard), "an unlock that comes too early is suppressed"
    for history in heard:
        assert history.index("AC_request") < history.index("AC_grant") or "DL_unlock" not in history
        assert "DL_unlock" not in history or history[-1] == "DL_unlock"


def test_policy_4_a_link_that_overtakes_shows_events_out_of_order_but_unlocks_no_oftener() -> None:
    heard = histories(explore(smart_home(unordered, ["DL"]), published(*FLOW)), "DL")
    assert ("DL_unlock", "AC_grant", "AC_request") in heard
    assert {history.count("DL_unlock") for history in heard} == {0, 1}


@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
def test_policy_4_a_second_unlock_needs_a_second_grant(ordering: Ordering) -> None:
    outcomes = explore(smart_home(ordering), published("DB H DL_unlock", "DB H DL_unlock"))
    assert histories(outcomes, "DL") == {()}


def test_policy_4_a_denial_closes_the_request() -> None:
    flow = published("DB H AC_request", "SP I AC_deny", "DB H DL_unlock")
    _, outcome = run(smart_home(), flow, work_first)
    assert outcome.topics("DL") == ("AC_request", "AC_deny")


def test_roles_limit_what_is_published_and_what_is_heard() -> None:
    schema = roles(
        {"nurse": ["n"], "ward": ["w"]},
        pub={"nurse": frozenset({"call"}), "ward": frozenset({"pulse", "door"})},
        sub={"nurse": frozenset({"pulse"}), "ward": frozenset({"call"})},
    )
    told = {
        (device, topic): notified(explore(schema, published(f"{device} {role}_pub {topic}")))
        for device, role in (("n", "nurse"), ("w", "ward"))
        for topic in ("call", "pulse", "door")
    }
    assert {pair: who for pair, who in told.items() if who} == {("n", "call"): {"w"}, ("w", "pulse"): {"n"}}


def test_a_device_in_two_roles_hears_an_event_of_both_twice() -> None:
    topics = frozenset({"alarm"})
    schema = roles({"one": ["d", "s"], "two": ["d"]}, {"one": topics, "two": topics}, {"one": topics, "two": topics})
    outcomes = explore(schema, published("s one_pub alarm"))
    assert histories(outcomes, "d") == {("alarm", "alarm")}
    assert {notification.broker for outcome in outcomes for notification in outcome.of("d")} == {"one_sub", "two_sub"}
    assert histories(outcomes, "s") == {("alarm",)}, "by the way over the bus: s is a member of the role"


def test_an_event_injected_by_a_monitor_goes_the_whole_way() -> None:
    graph = ConnectionGraph(frozenset("de"), frozenset("xy"), both_ways([("d", "x"), ("x", "y"), ("e", "y")]))
    monitor = LinkMonitor(lambda state, topic: (state, (topic, "b", topic)))
    events = EventPolicy(frozenset("ab"), {("x", "y"): monitor})
    schema = Schema(graph, liberal(graph), events, subscribed_to_all(graph, events.topics), in_order_links)
    assert histories(explore(schema, published("d x a")), "e") == {("a", "b", "a")}


def _ring(brokers: str) -> Schema:
    pairs = [*pairwise(brokers), (brokers[-1], brokers[0]), ("d", brokers[0])]
    graph = ConnectionGraph(frozenset("d"), frozenset(brokers), both_ways(pairs))
    events = EventPolicy(frozenset("a"))
    return Schema(graph, liberal(graph), events, subscribed_to_all(graph, events.topics), in_order_links)


def test_a_ring_of_brokers_never_comes_to_rest() -> None:
    with pytest.raises(ExplorationError, match="an event may travel forever"):
        explore(_ring("xyz"), published("d x a"))


def test_a_system_that_is_too_large_is_refused() -> None:
    with pytest.raises(ExplorationError, match="more than 10 configurations"):
        explore(smart_home(), published(*FLOW), max_states=10)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
def test_what_one_run_shows_is_among_what_exploring_finds(ordering: Ordering, seed: int) -> None:
    chance = random.Random(seed)
    home = smart_home(ordering, chance.sample(["SP", "MD", "DB", "SC", "DL"], 2))
    topics = sorted(home.events.topics)
    devices = [(x, y) for x, y in sorted(home.graph.link) if home.graph.publish(x, y)]
    flow = [DevicePublication(*chance.choice(devices), chance.choice(topics)) for _ in range(2)]
    outcomes = explore(home, flow)
    assert run(home, flow, chance.choice)[1] in outcomes
    assert run(home, flow, work_first)[1] in outcomes


@pytest.mark.parametrize("ordering", ORDERINGS, ids=str)
def test_exploring_finds_the_same_without_forgetting_times(ordering: Ordering) -> None:
    home = smart_home(ordering, ["DL"])
    exact = replace(home, ordering=ordering._replace(forget=lambda wl: wl))
    flow = published("DB H AC_request", "SP I AC_grant")
    assert explore(home, flow) == explore(exact, flow)
