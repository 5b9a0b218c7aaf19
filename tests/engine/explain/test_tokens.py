"""Tokens and trust explained: what is said is what happens, and why."""

from collections import Counter
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.explain.arrival import arrival
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.event import Event
from penstock.model.verdict import Effect
from tests.engine.explain.test_explain import decisions, delivered, everything, said
from tests.engine.trust.test_trust import begin, denied, fig_4, line, play

TOPICS = ("home/door", "home/hall/light", "garden")
FILTERS: tuple[list[str], ...] = (["#"], ["#"], ["#"], ["home/#"], ["home/+", "garden"], [])


@st.composite
def federations(draw: st.DrawFn) -> tuple[Rehearsal, tuple[str, ...]]:
    """Nodes in any shape, with a client at each, rated at random; some clients have no token, or another."""
    names = [f"b{number}" for number in range(1, draw(st.integers(2, 5)) + 1)]
    joined = [(names[draw(st.integers(0, at - 1))], names[at]) for at in range(1, len(names))]
    more = st.lists(st.sampled_from(list(combinations(names, 2))), max_size=2, unique=True)
    pairs = [*joined, *(pair for pair in draw(more) if pair not in joined)]
    rating = st.integers(1, 19).map(lambda twentieths: twentieths / 20)
    ratings = [begin(of, by, draw(rating)) for pair in pairs for of, by in (pair, pair[::-1])]
    sign = draw(rating)
    rule = draw(st.sampled_from(["strict", "introducer", "path"]))
    trust = {
        "rule": rule,
        "sign": sign,
        "accept": min(sign, draw(rating)),
        "signers": draw(st.sampled_from([1, 2, 3])) if rule == "path" else 1,
        "begin": ratings,
    }
    some = st.sampled_from(FILTERS)
    clients = tuple(f"c{number}" for number in range(1, len(names) + 1))
    grants = [
        {"clients": one, "publish": draw(some), "subscribe": draw(some)} for one in clients if draw(st.booleans())
    ]
    shared = [
        {"node": second, "at": first, "subscribe": draw(some)} for first, second in pairs if not draw(st.integers(0, 2))
    ]
    tokens = {"grants": grants, "neighbours": shared, "required": draw(st.booleans())}
    rehearsal = play(pairs, draw(st.sampled_from([trust, trust, trust, None])), tokens=tokens)
    for client, node in zip(clients, names, strict=True):
        rehearsal.connect(client, node)
        for filter in rehearsal.widest(client, ("#",)):
            rehearsal.subscribe(client, filter)
    return rehearsal, clients


def got(rehearsal: Rehearsal, clients: tuple[str, ...]) -> Counter[tuple[str, str, str, int]]:
    return Counter((one.node, name, one.topic, one.qos) for name in clients for one in rehearsal.deliveries(name))


@given(federations(), st.lists(st.tuples(st.integers(0, 4), st.sampled_from(TOPICS)), min_size=1, max_size=3))
def test_what_is_explained_with_tokens_is_what_happens(
    federation: tuple[Rehearsal, tuple[str, ...]], published: list[tuple[int, str]]
) -> None:
    rehearsal, clients = federation
    for number, topic in published:
        client = clients[number % len(clients)]
        node = f"b{client[1:]}"
        before, already = everything(rehearsal), got(rehearsal, clients)
        start = arrival(rehearsal.nodes[node], client, Event(topic, b"1"))
        found = explain(rehearsal.nodes, start, rehearsal.now, clients)
        assert everything(rehearsal) == before
        if not rehearsal.is_connected(client):
            (only,) = found
            assert (only.verdicts[-1].stage, only.verdicts[-1].rule) == ("admit", "token")
            assert rehearsal.refusal(client, node)
            continue
        told = len(denied(rehearsal))
        rehearsal.publish(client, topic, b"1")
        rehearsal.run()
        assert got(rehearsal, clients) - already == delivered(found, clients)
        refused = [one.verdicts[0].reason for one in found if one.verdicts[0].effect is Effect.SUPPRESS]
        happened = denied(rehearsal)[told:]
        assert len(happened) == len(refused)
        assert all(any(one.startswith(reason) for one in refused) for reason in happened)


def why(
    rehearsal: Rehearsal, node: str, entity: str, at: str, target: str | None, topic: str = "home/door"
) -> list[str]:
    found = explain(
        rehearsal.nodes, arrival(rehearsal.nodes[node], entity, Event(topic, b"")), rehearsal.now, ("ann", "bob", "eve")
    )
    return said(found, at, target)


def two(trust: dict[str, Any] | None = None, **tokens: Any) -> Rehearsal:
    rehearsal = line(2, trust, tokens=tokens)
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b2")
    rehearsal.subscribe("bob", "home/#")
    return rehearsal


def test_who_has_signed_and_how_the_neighbour_is_rated_is_told() -> None:
    rehearsal = line(3, {"sign": 0.6, "begin": [begin("b1", "b2", 0.9), begin("b2", "b3", 0.65)]})
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b3")
    rehearsal.subscribe("bob", "home/#")
    assert why(rehearsal, "b1", "ann", "b1", "b2")[0] == (
        "admit: pass by token: may write to `home/door`: by its token; it has shown one of `b1`"
    )
    assert why(rehearsal, "b1", "ann", "b2", "b3")[0] == (
        "admit: pass by trust: the neighbour `b1` has signed, rated 0.9, at least 0.6; "
        "the token is `ann`'s, signed by `b1`; `b1` is rated 0.9; `b2` signs it"
    )
    assert why(rehearsal, "b1", "ann", "b3", "bob")[0] == (
        "admit: pass by trust: the neighbour `b2` has signed, rated 0.65, at least 0.6; "
        "the token is `ann`'s, signed by `b1`, `b2`; `b2` is rated 0.65; `b3` signs it"
    )


def test_the_worked_example_is_told_with_its_numbers() -> None:
    rehearsal = fig_4(0.51)
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b6")
    rehearsal.subscribe("bob", "home/#")
    found = decisions(rehearsal, "b1", "ann", "home/door")
    path = "the least trustworthy path from `{}` is rated {}, below 0.51"
    paths = "; ".join(path.format(*one) for one in (("b1", 0.5), ("b2", 0.45), ("b3", 0.4)))
    assert (
        f"admit: suppress by trust: no signer has trusted paths only: {paths}; "
        "the token is `ann`'s, signed by `b1`, `b2`, `b3`; `b5` is rated 0.9"
    ) in {str(one.verdicts[0]) for one in found if one.node == "b6"}
    assert delivered(found, ("bob",)) == Counter()


def test_who_is_granted_nothing_is_not_let_in() -> None:
    rehearsal = two(grants=[{"clients": "bob", "subscribe": "home/#"}])
    assert why(rehearsal, "b1", "ann", "b1", None) == [
        "admit: suppress by token: `ann` has no token, and `tokens.grants` gives it none"
    ]


def test_who_is_not_here_would_have_what_it_is_granted() -> None:
    rehearsal = two()
    assert why(rehearsal, "b1", "eve", "b1", "b2")[0] == (
        "admit: pass by token: may write to `home/door`: by its token; as `tokens.grants` says"
    )
    assert why(rehearsal, "b1", "eve", "b2", "bob")[-1] == "emit: pass: delivered with QoS 0"
    assert why(rehearsal, "b1", "eve", "b1", None, "garden") == [
        "admit: suppress by token: may not write to `garden`: its token has no filter to publish that matches it"
    ]


def test_a_node_vouches_for_who_needs_no_token() -> None:
    rehearsal = two({"sign": 0.5}, grants=[{"clients": "bob", "subscribe": "home/#"}], required=False)
    assert why(rehearsal, "b1", "ann", "b1", "b2")[0] == (
        "admit: pass by token: it has shown no token, and the node vouches for it"
    )
    assert "the token is `b1`'s own, signed by `b1`" in why(rehearsal, "b1", "ann", "b2", "bob")[0]


def test_a_receiver_is_told_that_its_token_does_not_let_it_read() -> None:
    rehearsal = two(grants=[{"clients": "ann", "publish": "#"}, {"clients": "bob", "subscribe": "home/#"}])
    rehearsal.subscribe("bob", "home/#")
    assert why(rehearsal, "b1", "ann", "b2", "bob")[-1] == "emit: pass: delivered with QoS 0"
    rehearsal.show("bob", (), ("garden",))
    assert why(rehearsal, "b1", "ann", "b2", "bob")[-1] == (
        "match: suppress by token: may not read `home/door`: its token has no filter to subscribe that matches it"
    )


def test_from_a_neighbour_it_is_the_token_that_it_has_told() -> None:
    rehearsal = two()
    assert why(rehearsal, "b2", "b1", "b2", None) == [
        "admit: suppress by token: `b1` has told no token for `home/door`"
    ]
    rehearsal.publish("ann", "home/door")
    rehearsal.run()
    assert why(rehearsal, "b2", "b1", "b2", "bob")[0] == "admit: pass by token: the token is `ann`'s, signed by `b1`"


def test_what_a_neighbour_may_not_have_does_not_go_there() -> None:
    rehearsal = two(neighbours=[{"node": "b2", "at": "b1", "subscribe": "home/hall/#"}])
    assert why(rehearsal, "b1", "ann", "b1", "b2")[-1].endswith("its token has no filter to subscribe that matches it")


def test_for_what_a_monitor_puts_on_another_topic_its_node_vouches() -> None:
    renames = {"renames": {"link": "b1 -> b2", "mapper": {"home/+": "garden/{1}"}}}
    grants = [{"clients": "ann", "publish": "home/#"}, {"clients": "bob", "subscribe": "#"}]
    rehearsal = line(3, {"sign": 0.5}, monitors=renames, tokens={"grants": grants})
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b3")
    rehearsal.subscribe("bob", "#")
    found = explain(
        rehearsal.nodes, arrival(rehearsal.nodes["b1"], "ann", Event("home/door", b"")), rehearsal.now, ("bob",)
    )
    assert "the token is `b1`'s own, signed by `b1`, `b2`; `b2` is rated 0.5" in said(found, "b3", "bob")[0]
    rehearsal.publish("ann", "home/door")
    rehearsal.run()
    assert [one.topic for one in rehearsal.deliveries("bob")] == ["garden/door"]
    assert delivered(found, ("bob",)) == got(rehearsal, ("bob",))
