"""Protocols: their text, the automaton that keeps their order, and where it is put."""

import pytest

from penstock.model.errors import PolicyError
from penstock.model.event import Event as Publication
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.monitor import State
from penstock.policy.monitors.protocol import UNLISTED, MonitorDefinition, Protocol, Surroundings, compile_protocol
from penstock.policy.monitors.protocol_machine import kinds_of, order_states
from penstock.policy.monitors.protocol_text import (
    EventChoice,
    EventRepeat,
    EventSequence,
    ProtocolEvent,
    Tree,
    events_of,
    parse_protocol,
)
from tests.support.models.automata import M2, automaton, topics

UNLOCK = "AC_request (AC_grant DL_unlock? | AC_deny)"
SENDERS = {"AC_request": ("bell",), "AC_grant": ("phone",), "AC_deny": ("phone",), "DL_unlock": ("bell",)}
A, B, C = ProtocolEvent("a"), ProtocolEvent("b"), ProtocolEvent("c")


def both(*pairs: tuple[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset({*pairs, *(pair[::-1] for pair in pairs)})


HOME = Surroundings(
    nodes=frozenset({"cloud", "gateway", "locks"}),
    homes={"phone": ("cloud",), "motion": ("gateway",), "bell": ("gateway",), "lock": ("locks",)},
    joined=both(("cloud", "gateway"), ("gateway", "locks")),
)
"""Brokering Fig. 2."""


def alike(one: Automaton, other: Automaton, words: list[str]) -> bool:
    """Whether two automata cannot be told apart by these topics."""
    seen: set[tuple[State, State]] = set()
    waiting: list[tuple[State, State]] = [(one.start(), other.start())]
    while waiting:
        pair = waiting.pop()
        if pair in seen:
            continue
        seen.add(pair)
        for word in words:
            event = Publication(word, b"")
            (state, out), (other_state, other_out) = one.step(pair[0], event, 0), other.step(pair[1], event, 0)
            if out != other_out:
                return False
            waiting.append((state, other_state))
    return True


def keeper(text: str, *guard: str) -> Automaton:
    tree = parse_protocol(text)
    return automaton(order_states(tree, guard or events_of(tree)))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", A),
        ("a b", EventSequence((A, B))),
        ("a|b", EventChoice((A, B))),
        ("a b | c", EventChoice((EventSequence((A, B)), C))),
        ("a (b | c)", EventSequence((A, EventChoice((B, C))))),
        ("a? b* c+", EventSequence((EventRepeat(A, "?"), EventRepeat(B, "*"), EventRepeat(C, "+")))),
        ("(a b)+", EventRepeat(EventSequence((A, B)), "+")),
        ("a+*", EventRepeat(EventRepeat(A, "+"), "*")),
        ("((a))", A),
        ("\n a\tb ", EventSequence((A, B))),
        ("home/#", ProtocolEvent("home/#")),
        ("'home/+/x'* b", EventSequence((EventRepeat(ProtocolEvent("home/+/x"), "*"), B))),
        ('"with space" b', EventSequence((ProtocolEvent("with space"), B))),
        ('"it\'s"', ProtocolEvent("it's")),
    ],
)
def test_a_text_is_read(text: str, tree: Tree) -> None:
    assert parse_protocol(text) == tree


@pytest.mark.parametrize(
    ("text", "what", "at"),
    [
        ("", "expected an event here", 1),
        ("   ", "expected an event here", 4),
        ("a |", "expected an event here", 4),
        ("| a", "expected an event here", 1),
        ("a () b", "expected an event here", 4),
        ("a (b", "this is not closed", 3),
        ("a (b (c)", "this is not closed", 3),
        ("a ) b", "this closes nothing", 3),
        ("? a", "expected an event before `?`", 1),
        ("a | *", "expected an event before `*`", 5),
        ('a "b', "this quotation does not end", 3),
        ("home/+/x", "put a topic filter with wildcards in quotes", 6),
        ("home/+", "put a topic filter with wildcards in quotes", 6),
        ("a*b", "put a topic filter with wildcards in quotes", 3),
        ("a 'b+'", "wildcard `+` does not fill level 1 of topic filter `b+`", 3),
        ("a ''", "topic filter is empty", 3),
        ("a '*'", "`*` is not an event; write `#` for any topic", 3),
        ("a $share/g/b", "a shared subscription is not a topic filter here: `$share/g/b`", 3),
        ("(" * 60 + "a" + ")" * 60, "more than 50 parentheses inside each other", 51),
    ],
)
def test_a_mistake_in_a_text_is_shown_with_a_caret(text: str, what: str, at: int) -> None:
    with pytest.raises(PolicyError) as raised:
        parse_protocol(text)
    assert str(raised.value) == f"{what}, at character {at}\n  {text}\n  {' ' * (at - 1)}^"


def test_fig_4_comes_out_of_its_protocol() -> None:
    """With the unlocking guarded, the protocol is M2: the same states, and no way to tell them apart."""
    made = keeper(UNLOCK, "DL_unlock")
    assert alike(made, automaton(M2), ["AC_request", "AC_grant", "AC_deny", "DL_unlock", "other"])
    assert len(made.states) == len(M2)


def test_with_all_guarded_a_protocol_is_stricter_than_fig_4() -> None:
    made = keeper(UNLOCK)
    assert topics(made, "AC_grant AC_request AC_request AC_deny AC_grant DL_unlock") == "AC_request AC_deny"
    assert topics(made, "AC_request AC_grant AC_request DL_unlock") == "AC_request AC_grant AC_request"


@pytest.mark.parametrize(
    ("title", "text", "guard", "went_in", "came_out"),
    [
        ("runs follow one another", "a b", "", "a b a b", "a b a b"),
        ("a run that is not over is not begun again", "a b c", "", "a b a c", "a b c"),
        ("unless the text says so", "(a b)+ c", "", "a b a c b c", "a b a b c"),
        ("what is not of the protocol passes", "a b", "", "x b x a x b", "x x a x b"),
        ("what is optional may be left out", "a b? c", "", "a c a b c", "a c a b c"),
        ("what is optional at the end, too", "a b?", "", "a a b b", "a a b"),
        ("a filter stands for its topics", "'s/+' go", "", "go s/1 s/2 go", "s/1 go"),
        ("a topic may be two events", "'s/#' s/x", "", "s/x s/y s/x s/y s/x", "s/x s/x s/y s/x"),
        ("what is not guarded passes and moves the run on", "a b u", "u", "u b a u b u", "b a b u"),
        ("what is not guarded does not end a run that can go on", "a g u?", "u", "a g a u u", "a g a u"),
        ("what is guarded does", "a g u?", "a u", "a g a u g u", "a g a g u"),
        ("what is not guarded begins a new run when nothing can follow", "a u? v", "u v", "a v a u v", "a v a u v"),
    ],
)
def test_order_is_kept(title: str, text: str, guard: str, went_in: str, came_out: str) -> None:
    assert topics(keeper(text, *guard.split()), went_in) == came_out, title


def test_a_protocol_that_needs_too_many_states_is_refused() -> None:
    with pytest.raises(PolicyError, match="the protocol needs more than 500 states"):
        keeper("(a|b)* a " + "(a|b) " * 12 + "c")


def test_kinds_part_topics_by_the_events_that_they_match() -> None:
    found = kinds_of(["s/#", "+/x", "s/x", "t"])
    assert [(kind.filter, sorted(kind.events)) for kind in found] == [
        ("s/x", ["+/x", "s/#", "s/x"]),
        ("s/#", ["s/#"]),
        ("+/x", ["+/x"]),
        ("t", ["t"]),
    ]


def test_events_that_overlap_in_too_many_ways_are_refused() -> None:
    wild = ["/".join("a" if at == place else "+" for at in range(12)) for place in range(12)]
    with pytest.raises(PolicyError, match="the events overlap in more than 200 ways"):
        kinds_of(wild)


def definitions(protocol: Protocol, around: Surroundings) -> dict[str, MonitorDefinition]:
    return {one.name: one for one in compile_protocol(protocol, around)}


def test_the_smart_home_is_protected_where_the_paper_does_it() -> None:
    """§4.3, Policy 4: M2 is on the link from H (gateway) to S (locks)."""
    made = definitions(Protocol("unlock", UNLOCK, ("lock",), SENDERS, ("DL_unlock",)), HOME)
    assert made["unlock-order"].links == (("gateway", "locks"),)
    assert made["unlock-order"].plain() == {
        "link": "gateway -> locks",
        "states": {
            "q0": {"AC_request": {"pass": True, "next": "q1"}, "DL_unlock": "suppress", "*": "pass"},
            "q1": {
                "AC_grant": {"pass": True, "next": "q2"},
                "DL_unlock": "suppress",
                "AC_deny": {"pass": True, "next": "q0"},
                "*": "pass",
            },
            "q2": {"DL_unlock": {"pass": True, "next": "q0"}, "*": "pass"},
        },
    }


def test_an_event_comes_from_its_senders_only() -> None:
    made = compile_protocol(Protocol("unlock", UNLOCK, ("lock",), SENDERS), HOME)
    word = "AC_request AC_grant AC_deny DL_unlock other"
    found = {link: topics(automaton(one.states), word) for one in made if one.keeps == "senders" for link in one.links}
    assert found == {
        ("phone", "cloud"): "AC_grant AC_deny other",
        ("bell", "gateway"): "AC_request DL_unlock other",
        ("motion", "gateway"): "other",
        ("lock", "locks"): "other",
    }
    assert [one.name for one in made] == [
        "unlock-senders",
        "unlock-senders-2",
        "unlock-senders-3",
        "unlock-from-bell",
        "unlock-order",
    ]
    assert made[1].plain()["link"] == ["motion -> gateway", "lock -> locks"]


def test_clients_that_are_not_listed_send_nothing_that_has_senders() -> None:
    around = Surroundings(HOME.nodes, HOME.homes, HOME.joined, frozenset({"cloud"}))
    made = compile_protocol(Protocol("p", "a b", ("lock",), {"a": ("bell",), "b": ("bell",)}), around)
    (on,) = [one for one in made if (UNLISTED, "cloud") in one.links]
    assert topics(automaton(on.states), "a b c") == "c"


def test_a_topic_of_two_events_comes_from_the_senders_of_either() -> None:
    made = compile_protocol(Protocol("p", "'s/#' s/x", ("lock",), {"s/#": ("bell",), "s/x": ("phone",)}), HOME)
    filters = [one for one in made if one.keeps == "senders"]
    found = {link: topics(automaton(one.states), "s/x s/y s") for one in filters for link in one.links}
    assert found["phone", "cloud"] == "s/x"
    assert found["motion", "gateway"] == ""
    assert ("bell", "gateway") in found
    assert found["bell", "gateway"] == "s/x s/y s"


def test_a_sender_is_stopped_on_its_own_link_before_its_turn() -> None:
    """That link has only what the bell sends: what the phone said is known where the order is kept."""
    made = definitions(Protocol("unlock", UNLOCK, ("lock",), SENDERS), HOME)
    assert made["unlock-from-bell"].links == (("bell", "gateway"),)
    own = automaton(made["unlock-from-bell"].states)
    assert topics(own, "DL_unlock AC_request DL_unlock DL_unlock") == "AC_request DL_unlock"
    assert topics(own, "AC_request AC_request DL_unlock other") == "AC_request AC_request DL_unlock other"
    assert "unlock-from-phone" not in made, "a grant can be right whatever the phone has sent before"


def test_a_sender_with_links_to_several_nodes_is_judged_where_all_comes_by() -> None:
    twice = Surroundings(HOME.nodes, {**HOME.homes, "bell": ("gateway", "locks")}, HOME.joined)
    assert "unlock-from-bell" not in definitions(Protocol("unlock", UNLOCK, ("lock",), SENDERS), twice)


def test_senders_are_protected_too() -> None:
    """On the link to a sender its own events come by as well: the bell sees a grant only after it has asked."""
    made = definitions(Protocol("unlock", UNLOCK, (), SENDERS), HOME)
    assert made["unlock-order"].links == (("gateway", "bell"), ("cloud", "phone"))


def test_an_event_goes_to_its_receivers_only() -> None:
    receivers = {"AC_request": ("phone",), "DL_unlock": ("lock",)}
    around = Surroundings(HOME.nodes, HOME.homes, HOME.joined, frozenset({"cloud"}))
    made = compile_protocol(Protocol("unlock", UNLOCK, (), SENDERS, receivers=receivers), around)
    word = "AC_request AC_grant AC_deny DL_unlock other"
    filters = [one for one in made if one.keeps == "receivers"]
    found = {link: topics(automaton(one.states), word) for one in filters for link in one.links}
    assert found == {
        ("cloud", "phone"): "AC_request AC_grant AC_deny other",
        ("gateway", "motion"): "AC_grant AC_deny other",
        ("gateway", "bell"): "AC_grant AC_deny other",
        ("locks", "lock"): "AC_grant AC_deny DL_unlock other",
        ("cloud", UNLISTED): "AC_grant AC_deny other",
    }
    assert made.index(filters[0]) > [one.keeps for one in made].index("order"), "the order is judged before"


LOCAL = Surroundings(HOME.nodes, {**HOME.homes, "keypad": ("locks",)}, HOME.joined)
RING = Surroundings(HOME.nodes, HOME.homes, both(("cloud", "gateway"), ("gateway", "locks"), ("cloud", "locks")))
TWICE = Surroundings(HOME.nodes, {**HOME.homes, "lock": ("locks", "cloud")}, HOME.joined)
ALL_BELL = {"a": ("bell",), "b": ("bell",)}


@pytest.mark.parametrize(
    ("title", "around", "protects", "senders", "links"),
    [
        ("one link has all", HOME, ("lock",), ALL_BELL, [("gateway", "locks")]),
        ("anybody may send, all are beyond one link", HOME, ("lock",), {}, [("gateway", "locks")]),
        ("a sender is at the same node", LOCAL, ("lock",), {**ALL_BELL, "b": ("keypad",)}, [("locks", "lock")]),
        ("anybody may send, one is at the same node", LOCAL, ("lock",), {"a": ("bell",)}, [("locks", "lock")]),
        ("one who is at the same node may not send", LOCAL, ("lock",), ALL_BELL, [("gateway", "locks")]),
        ("senders come by two links", RING, ("lock",), ALL_BELL, [("locks", "lock")]),
        ("a node", HOME, ("locks",), ALL_BELL, [("gateway", "locks")]),
        ("a client and its node", HOME, ("lock", "locks"), ALL_BELL, [("gateway", "locks")]),
        ("a client of two nodes", TWICE, ("lock",), ALL_BELL, [("gateway", "locks"), ("gateway", "cloud")]),
        (
            "two clients of a node with a sender",
            HOME,
            ("motion", "phone"),
            ALL_BELL,
            [("gateway", "motion"), ("gateway", "cloud")],
        ),
        ("a sender", HOME, ("bell",), {"a": ("bell",), "b": ("phone",)}, [("gateway", "bell")]),
        (
            "clients that are not listed come to the node itself",
            Surroundings(HOME.nodes, HOME.homes, HOME.joined, frozenset({"locks"})),
            ("lock",),
            {},
            [("locks", "lock")],
        ),
    ],
)
def test_the_order_is_kept_on_the_last_link_that_has_all_events(
    title: str,
    around: Surroundings,
    protects: tuple[str, ...],
    senders: dict[str, tuple[str, ...]],
    links: list[tuple[str, str]],
) -> None:
    made = definitions(Protocol("p", "a b", protects, senders), around)
    assert list(made["p-order"].links) == links, title


@pytest.mark.parametrize(
    ("title", "around", "protects", "senders", "said"),
    [
        ("unknown sender", HOME, ("lock",), {"a": ("bel",)}, "`bel` is not a client or foreign broker (did you mean"),
        ("a node as sender", HOME, ("lock",), {"a": ("cloud",)}, "`cloud` is not a client or foreign broker"),
        ("unknown protected", HOME, ("loc",), {}, "`protects`: `loc` is not an entity (did you mean `lock`?)"),
        ("a node with two ways", RING, ("locks",), ALL_BELL, "the events come to node `locks` by more than one link"),
    ],
)
def test_a_protocol_that_does_not_fit_its_surroundings_is_refused(
    title: str, around: Surroundings, protects: tuple[str, ...], senders: dict[str, tuple[str, ...]], said: str
) -> None:
    with pytest.raises(PolicyError) as raised:
        compile_protocol(Protocol("p", "a b", protects, senders), around)
    assert said in str(raised.value), title


@pytest.mark.parametrize(
    ("protects", "senders", "guard", "said"),
    [
        ((), {}, None, "`protects` names nobody"),
        (("lock",), {"c": ("bell",)}, None, "`senders`: `c` is not an event of the protocol (known: `a`, `b`)"),
        (("lock",), {}, ("c",), "`guard`: `c` is not an event of the protocol"),
        (("lock",), {}, (), "`guard` is empty: nothing would be kept in order"),
    ],
)
def test_a_protocol_whose_parts_do_not_fit_is_refused(
    protects: tuple[str, ...], senders: dict[str, tuple[str, ...]], guard: tuple[str, ...] | None, said: str
) -> None:
    with pytest.raises(PolicyError) as raised:
        Protocol("p", "a b", protects, senders, guard)
    assert said in str(raised.value)
