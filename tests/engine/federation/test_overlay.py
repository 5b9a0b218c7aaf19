"""Subscriptions and advertisements between nodes: whatever the mode, everybody gets what it asks for, and no more."""

from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain import LimitSettings, LinkSettings, ensemble
from penstock.domain.schema.federation import ClientSettings
from penstock.engine.federation import overlay
from penstock.engine.federation.maximal_wants import MAX_CONDITIONS
from penstock.engine.federation.messages import Interest
from penstock.engine.federation.overlay import GRACE_SECONDS
from penstock.engine.federation.wants import Want
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.sessions import lifecycle
from tests.support.generators.examples import some
from tests.support.generators.networks import SMALL_PACKETS, NetworkScene, begin, network, scenes


def publish(rehearsal: Rehearsal, at: int, topic: str, payload: bytes) -> dict[str, int]:
    """How many copies come to each subscriber."""
    before = {name: len(rehearsal.deliveries(name)) for name in rehearsal.ensemble.devices}
    rehearsal.publish(f"p{at}", topic, payload, qos=1)
    rehearsal.run()
    copies = {name: len(rehearsal.deliveries(name)) - count for name, count in before.items()}
    return {name: count for name, count in copies.items() if count}


def expected(scene: NetworkScene, at: int, topic: str, payload: bytes) -> set[str]:
    if not scene.conforms(at, topic, payload):
        return set()
    return {f"s{wish.at}" for wish in scene.wanted if wish.takes(topic, payload)}


def reach(scene: NetworkScene, at: int, needs_advertisement: tuple[str, ...]) -> set[int]:
    """The nodes that an event that nobody advertised comes to: not over links where that counts."""
    seen, waiting = {at}, [at]
    while waiting:
        here = waiting.pop()
        for link, mode in zip(scene.domain.links, scene.modes, strict=True):
            ends = [int(name[1:]) for name in link.between]
            if here in ends and mode not in needs_advertisement:
                there = ends[1] if ends[0] == here else ends[0]
                if there not in seen:
                    seen.add(there)
                    waiting.append(there)
    return seen


@given(scenes(cyclic=False))
def test_in_a_tree_every_advertised_event_comes_once_to_all_who_want_it(scene: NetworkScene) -> None:
    rehearsal = begin(scene)
    for at, topic, payload in scene.published:
        got = publish(rehearsal, at, topic, payload)
        everybody = expected(scene, at, topic, payload)
        assert all(count == 1 for count in got.values())
        assert set(got) <= everybody
        if scene.is_advertised(at, topic, payload):
            assert set(got) == everybody
        else:
            near = {f"s{number}" for number in reach(scene, at, ("advertised", "routed"))}
            assert everybody & near <= set(got)


@given(scenes(cyclic=True, modes=("advertised", "routed"), one_mode=True))
def test_in_a_graph_with_cycles_an_advertised_event_comes_once_to_all_who_want_it(scene: NetworkScene) -> None:
    rehearsal = begin(scene)
    for at, topic, payload in scene.published:
        got = publish(rehearsal, at, topic, payload)
        everybody = expected(scene, at, topic, payload)
        assert set(got.values()) <= {1}
        assert set(got) <= everybody
        if scene.is_advertised(at, topic, payload):
            assert set(got) == everybody


@given(scenes(cyclic=True, modes=("all", "subscribed")))
def test_in_a_graph_with_cycles_events_come_once_to_all_who_want_them(scene: NetworkScene) -> None:
    rehearsal = begin(scene)
    for at, topic, payload in scene.published:
        assert publish(rehearsal, at, topic, payload) == dict.fromkeys(expected(scene, at, topic, payload), 1)


def told(rehearsal: Rehearsal) -> Counter[str]:
    """What nodes know of each other's wants and offers."""
    return Counter(
        {
            f"{node.name} {neighbour}": len(session.subscriptions) + len(session.federation.offers)
            for node in rehearsal.nodes.values()
            for neighbour, session in node.federation.neighbours.items()
            if session.subscriptions or session.federation.offers
        }
    )


@given(scenes(cyclic=True))
@settings(max_examples=some(60))
def test_when_nobody_wants_or_advertises_any_more_nothing_is_left(scene: NetworkScene) -> None:
    rehearsal = begin(scene)
    for number, wish in enumerate(scene.wanted):
        rehearsal.unsubscribe(f"s{wish.at}", wish.filter, name=str(number))
    for number, wish in enumerate(scene.advertised):
        rehearsal.unadvertise(f"p{wish.at}", str(number))
    left = told(rehearsal)
    assert set(left.values()) <= ({1} if "all" in scene.modes else set())  # `#`, which is always wanted there


@given(scenes(cyclic=True), st.data())
@settings(max_examples=some(60))
def test_after_links_were_cut_and_nodes_restarted_all_is_as_if_nothing_had_happened(
    scene: NetworkScene, data: st.DataObject
) -> None:
    steady, moved = begin(scene), begin(scene)
    for link in data.draw(st.lists(st.sampled_from(scene.domain.links), max_size=3, unique_by=str)):
        moved.cut(*link.between)
        if data.draw(st.booleans()):
            moved.restore(*link.between)
    for name in data.draw(st.lists(st.sampled_from(sorted(scene.domain.nodes)), max_size=2, unique=True)):
        moved.restart(name)
    for link in scene.domain.links:
        moved.restore(*link.between)
    moved.wait(GRACE_SECONDS)
    moved.wait(GRACE_SECONDS)  # what hung on what was forgotten
    assert _knowledge(moved) == _knowledge(steady)


def _knowledge(rehearsal: Rehearsal) -> dict[str, object]:
    return {
        f"{node.name} of {neighbour}": (
            {key: sorted(one.ways) for key, one in sorted(session.subscriptions.items())},
            sorted(offered.offer for offered in session.federation.offers.values()),
        )
        for node in rehearsal.nodes.values()
        for neighbour, session in node.federation.neighbours.items()
    }


@given(scenes(cyclic=True, modes=("subscribed", "routed"), one_mode=True), st.data())
@settings(max_examples=some(60))
def test_while_there_is_another_way_a_cut_link_is_no_loss(scene: NetworkScene, data: st.DataObject) -> None:
    rehearsal = begin(scene)
    link = data.draw(st.sampled_from(scene.domain.links))
    rehearsal.cut(*link.between)
    left = [one for one in scene.domain.links if one is not link]
    for at, topic, payload in scene.published:
        got = publish(rehearsal, at, topic, payload)
        if scene.is_advertised(at, topic, payload):
            near = {f"s{number}" for number in _joined(left, at)}
            assert set(got) == expected(scene, at, topic, payload) & near


def _joined(links: list[LinkSettings], at: int) -> set[int]:
    seen = {at}
    while True:
        more = {end for link in links for end in _ends(link) if seen & _ends(link)} - seen
        if not more:
            return seen
        seen |= more


def _ends(link: LinkSettings) -> set[int]:
    return {int(end[1:]) for end in link.between}


# --- what is told


def wants(rehearsal: Rehearsal, node: str, neighbour: str) -> list[str]:
    """What a neighbour wants of a node: filter and condition."""
    session = rehearsal.nodes[node].federation.neighbours[neighbour]
    return sorted(f"{one.filter} {one.asked}".strip() for one in session.subscriptions.values())


def line(*modes: str, limits: dict[str, int] | None = None) -> Rehearsal:
    """Nodes `n0`, `n1`, … in a row."""
    pairs = [(number, number + 1) for number in range(len(modes))]
    domain = network(pairs, list(modes), len(modes) + 1, limits)
    rehearsal = Rehearsal(domain, ensemble(domain))
    for name in domain.clients:
        rehearsal.connect(name)
    return rehearsal


def covering() -> Iterator[tuple[str, list[tuple[str, str]], list[str]]]:
    yield "equal ones are told once", [("a", "x > 1"), ("a", "x>1")], ["a x > 1"]
    yield "a wider range covers", [("a", "x > 1"), ("a", "x > 5"), ("a", "x > 3 && y < 2")], ["a x > 1"]
    yield "no condition covers all", [("a", "x > 1"), ("a", ""), ("a/b", "")], ["a", "a/b"]
    yield "a wider filter covers", [("#", "x > 1"), ("a/b", "x > 2"), ("a", "x < 0")], ["# x > 1", "a x < 0"]
    yield "what is not in the normal form stays", [("a", "x % 2 == 0"), ("a", "x > 0")], ["a x % 2 == 0", "a x > 0"]
    yield "what can never be is not told", [("a", "x > 1"), ("b", "x > 5 && x < 3")], ["a x > 1"]
    yield "of very many ranges the widest is told", [("a", f"x > {number}") for number in range(300)], ["a x > 0"]
    yield (
        "of very many spans those that no other covers",
        [("a", f"x > {number} && x < {number + 2 + number % 2}") for number in range(300)],
        ["a x > 0 && x < 2", *(f"a x > {number} && x < {number + 3}" for number in range(1, 300, 2))],
    )
    yield (
        "also beside a wider filter with another condition",
        [("#", "x > 100"), *(("a", f"x > {number} && y == 1") for number in range(200))],
        ["# x > 100", "a x > 0 && y == 1"],
    )


@pytest.mark.parametrize(
    ("wishes", "expected"), [(some, wanted) for _, some, wanted in covering()], ids=[title for title, *_ in covering()]
)
def test_what_another_subscription_covers_is_not_told(wishes: list[tuple[str, str]], expected: list[str]) -> None:
    rehearsal = line("subscribed", "subscribed")
    for number, (filter, where) in enumerate(wishes):
        rehearsal.subscribe("s0", filter, where=where, name=str(number))
    assert wants(rehearsal, "n1", "n0") == wants(rehearsal, "n2", "n1") == sorted(expected)


def test_very_many_conditions_become_their_filter() -> None:
    rehearsal = line("subscribed")
    for number in range(MAX_CONDITIONS):
        rehearsal.subscribe("s0", "a", where=f"x == {number}", name=str(number))
    assert len(wants(rehearsal, "n1", "n0")) == MAX_CONDITIONS
    rehearsal.subscribe("s0", "a", where="x == -1", name="one more")
    assert wants(rehearsal, "n1", "n0") == ["a"]
    rehearsal.unsubscribe("s0", "a", name="one more")
    assert len(wants(rehearsal, "n1", "n0")) == MAX_CONDITIONS


def test_routed_subscriptions_go_towards_intersecting_advertisements_only() -> None:
    # statements §3.2: A1 and A2 at two sides, S1 meets both, S2 only A2
    rehearsal = line("routed", "routed")
    rehearsal.advertise("p0", "A1", "p", "x < 100 && y < 50")
    rehearsal.advertise("p2", "A2", "p", "x > 75 && y < 100")
    rehearsal.subscribe("s1", "p", where="x > 25 && y < 75", name="S1")
    rehearsal.subscribe("s1", "p", where="x < 100 && y > 75", name="S2")
    assert wants(rehearsal, "n0", "n1") == ["p x > 25 && y < 75"]
    assert wants(rehearsal, "n2", "n1") == ["p x < 100 && y > 75", "p x > 25 && y < 75"]


@pytest.mark.parametrize("mode", ["subscribed", "routed"])
def test_what_is_retained_beyond_is_replaced_and_taken_back_whatever_is_asked_for(mode: str) -> None:
    rehearsal = line(mode)
    rehearsal.advertise("p0", "all", "r/#")
    rehearsal.subscribe("s1", "r/#", where="x > 50")
    for topic, payload in (("r/1", b'{"x": 60}'), ("r/1", b'{"x": 5}'), ("r/2", b'{"x": 60}'), ("r/2", b"")):
        rehearsal.publish("p0", topic, payload, qos=1, retain=True)
        rehearsal.run()
    assert [one.payload for one in rehearsal.deliveries("s1")] == [b'{"x": 60}', b'{"x": 60}']
    kept = rehearsal.nodes["n1"].retained
    assert {topic: event.payload for topic, event in kept.match("r/#")} == {"r/1": b'{"x": 5}'}


def test_local_subscriptions_and_advertisements_stay_where_they_are() -> None:
    rehearsal = line("routed")
    rehearsal.advertise("p0", "here", "p", scope="local")
    rehearsal.subscribe("s1", "p")
    assert wants(rehearsal, "n0", "n1") == []
    rehearsal.advertise("p0", "far", "p")
    assert wants(rehearsal, "n0", "n1") == ["p"]
    rehearsal.subscribe("s1", "p", scope="local")
    assert wants(rehearsal, "n0", "n1") == []


def test_where_advertisements_spread_subscriptions_stay() -> None:
    rehearsal = line("advertised", "advertised")
    rehearsal.subscribe("s2", "p", where="x > 1")
    assert wants(rehearsal, "n1", "n2") == []
    rehearsal.advertise("p0", "a", "p", "x < 9")
    assert wants(rehearsal, "n0", "n1") == wants(rehearsal, "n1", "n2") == ["p x < 9"]
    assert publish(rehearsal, 0, "p", b'{"x": 5}') == {"s2": 1}
    assert publish(rehearsal, 0, "p", b'{"x": 0}') == {}
    rehearsal.unadvertise("p0", "a")
    assert wants(rehearsal, "n0", "n1") == wants(rehearsal, "n1", "n2") == []


def test_each_class_of_events_has_its_mode() -> None:
    domain = network([(0, 1)], ["subscribed"], 2)
    link = domain.links[0].model_copy(
        update={"forward": (("a/#", "routed"), ("b/#", "all"), ("c/#", "subscribed"), ("d/#", "advertised"))}
    )
    domain = domain.model_copy(update={"links": (link,)})
    rehearsal = Rehearsal(domain, ensemble(domain))
    for name in domain.clients:
        rehearsal.connect(name)
    rehearsal.subscribe("s1", "#", where="x > 1")
    assert wants(rehearsal, "n0", "n1") == ["b/#", "c/# x > 1"]
    rehearsal.advertise("p0", "a", "a/1")
    rehearsal.advertise("p0", "d", "d/1", "x < 5")
    assert wants(rehearsal, "n0", "n1") == ["a/# x > 1", "b/#", "c/# x > 1", "d/1 x < 5"]


def test_a_class_of_topics_with_a_dollar_sign_has_its_mode_too() -> None:
    domain = network([(0, 1)], ["subscribed"], 2)
    link = domain.links[0].model_copy(update={"forward": (("$a/#", "all"), ("#", "routed"))})
    domain = domain.model_copy(update={"links": (link,)})
    rehearsal = Rehearsal(domain, ensemble(domain))
    for name in domain.clients:
        rehearsal.connect(name)
    rehearsal.advertise("p0", "b", "$b/1")
    rehearsal.subscribe("s1", "$b/+")
    assert wants(rehearsal, "n0", "n1") == ["$a/#", "$b/+"]


# --- who tells it


def shared() -> Rehearsal:
    """Two nodes; two sessions at the first, `left` and `right`, are one entity of the domain."""
    domain = network([(0, 1)], ["routed"], 2)
    entity = ClientSettings.model_validate({"node": "n0", "user": "scanner"})
    domain = domain.model_copy(update={"clients": {**domain.clients, "scanners": entity}})
    rehearsal = Rehearsal(domain, ensemble(domain))
    for name in ("left", "right"):
        rehearsal.connect(name, "n0", user="scanner")
    rehearsal.connect("s1")
    return rehearsal


def offered(rehearsal: Rehearsal) -> list[str]:
    return sorted(
        one.offer.filter for one in rehearsal.nodes["n1"].federation.neighbours["n0"].federation.offers.values()
    )


def test_two_sessions_of_one_entity_advertise_each_for_itself() -> None:
    rehearsal = shared()
    rehearsal.advertise("left", "A", "a")
    rehearsal.advertise("right", "A", "b")
    assert offered(rehearsal) == ["a", "b"]
    rehearsal.unadvertise("left", "A")
    assert offered(rehearsal) == ["b"]


def test_two_sessions_of_one_entity_want_each_for_itself() -> None:
    rehearsal = shared()
    rehearsal.connect("p1")
    rehearsal.advertise("p1", "all", "#")
    for name in ("left", "right"):
        rehearsal.subscribe(name, "a", where="x > 1", name="S")
    rehearsal.unsubscribe("left", "a", name="S")
    assert wants(rehearsal, "n1", "n0") == ["a x > 1"]
    rehearsal.unsubscribe("right", "a", name="S")
    assert wants(rehearsal, "n1", "n0") == []


def test_names_with_slashes_are_told_apart() -> None:
    rehearsal = shared()
    for client_id in ("x/client/y", "x"):
        rehearsal.connect(client_id, "n0", user="scanner")
    rehearsal.advertise("x/client/y", "z", "a")
    rehearsal.advertise("x", "y/client/z", "b")
    assert offered(rehearsal) == ["a", "b"]


# --- in packets that the neighbour takes


def test_what_does_not_fit_into_one_packet_is_told_in_several() -> None:
    rehearsal = line("routed", "subscribed", limits=SMALL_PACKETS)  # a packet that is too large would break the link
    for number in range(50):
        rehearsal.advertise("p0", str(number), f"t/{number}", f"x > {number}")
        rehearsal.subscribe("s2", f"t/{number}", where=f"x > {number}", name=str(number))
    everything = sorted(f"t/{number} x > {number}" for number in range(50))
    assert wants(rehearsal, "n0", "n1") == wants(rehearsal, "n1", "n2") == everything
    for cut in (("n0", "n1"), ("n1", "n2")):  # all at once
        rehearsal.cut(*cut)
        rehearsal.restore(*cut)
    rehearsal.wait(GRACE_SECONDS)
    assert wants(rehearsal, "n0", "n1") == wants(rehearsal, "n1", "n2") == everything
    rehearsal.disconnect("s2")
    node = rehearsal.nodes["n2"]
    lifecycle.end(node, node.sessions["s2"], rehearsal.now)
    rehearsal.run()
    assert wants(rehearsal, "n0", "n1") == wants(rehearsal, "n1", "n2") == []


def test_a_list_that_breaks_off_takes_nothing_away() -> None:
    rehearsal = line("subscribed", limits=SMALL_PACKETS)
    for number in range(20):
        rehearsal.subscribe("s1", f"t/{number}")
    node = rehearsal.nodes["n0"]
    session = node.federation.neighbours["n1"]
    begun = Interest(add=(Want("t/0"),), begins="wants")
    overlay.take_interest(node, session, msgspec.json.encode(begun), rehearsal.now)
    rehearsal.wait(10 * GRACE_SECONDS)
    assert len(session.subscriptions) == 20
    ended = Interest(add=(Want("t/1"),), ends="wants")
    overlay.take_interest(node, session, msgspec.json.encode(ended), rehearsal.now)
    assert len(session.subscriptions) == 20
    rehearsal.wait(GRACE_SECONDS)
    assert wants(rehearsal, "n0", "n1") == ["t/0", "t/1"]


def too_long() -> Iterator[tuple[str, str, str, list[str]]]:
    yield "a condition", "t/1", " && ".join(f"x{number} > 1" for number in range(40)), ["t/1"]
    yield "a filter", f"t/{'a' * 200}/{'b' * 200}", "x > 1", [f"t/{'a' * 200}/#"]
    yield "one name of a filter", "t" * 300, "", ["#"]
    yield "a name of a filter with a dollar sign", f"$t/{'a' * 300}", "", ["$t/#"]


@pytest.mark.parametrize(
    ("filter", "where", "told"), [some for _, *some in too_long()], ids=[title for title, *_ in too_long()]
)
def test_what_does_not_fit_alone_is_widened_and_said(filter: str, where: str, told: list[str]) -> None:
    domain = network([(0, 1)], ["routed"], 2)
    nodes = {
        "n0": domain.nodes["n0"].model_copy(update={"limits": LimitSettings(max_packet_size=400)}),
        "n1": domain.nodes["n1"],
    }
    domain = domain.model_copy(update={"nodes": nodes})
    rehearsal = Rehearsal(domain, ensemble(domain))
    for name in ("s1", "p1"):
        rehearsal.connect(name)
    rehearsal.advertise("p1", "it", filter, where)
    assert [
        one.offer.filter for one in rehearsal.nodes["n0"].federation.neighbours["n1"].federation.offers.values()
    ] == told
    rehearsal.connect("p0")
    rehearsal.advertise("p0", "all", "#")
    rehearsal.advertise("p0", "also", "$t/#")
    rehearsal.subscribe("s1", filter, where=where)
    assert wants(rehearsal, "n0", "n1") == told
    said = [one for one in rehearsal.notices if one.kind == "too long to tell"]
    assert [one.client_id for one in said] == ["$node/n0"] * 2
    assert all("at most 400 bytes" in one.reason for one in said)
    rehearsal.unsubscribe("s1", filter)
    assert wants(rehearsal, "n0", "n1") == []


def test_where_packets_are_too_small_for_any_interest_the_link_stays_up_and_the_log_says_why() -> None:
    rehearsal = line("subscribed", limits={"max_packet_size": 140})
    rehearsal.subscribe("s1", "a")
    assert wants(rehearsal, "n0", "n1") == []
    assert any(one.kind == "too long to tell" and "nothing can be told" in one.reason for one in rehearsal.notices)
