"""Edges with conditions on content: which edge is taken, also where a condition fails, and what is known beforehand."""

import pytest

from penstock.language.condition import make_condition
from penstock.model.content.content import ContentReader, Format, FormatRule
from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.policy.monitors.action import PASS, SUPPRESS, Action
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.transitions import CACHED_TOPICS
from tests.support.models.automata import Written, automaton

HOT = {"when": "celsius > 80.0", "emit": ["alarm"]}
WARM = {"when": "celsius > 60.0", "rename": "warm"}
SECRET = {"when": "secret", "suppress": True}
OPEN = {"when": "!secret", "pass": True}

CASES: list[tuple[str, Written, str, str, str]] = [
    ("a condition that holds", {"q0": {"t": [HOT, "pass"]}}, "t", '{"celsius": 81}', "alarm"),
    ("a condition that does not hold", {"q0": {"t": [HOT, "pass"]}}, "t", '{"celsius": 80}', "t"),
    ("the first that holds", {"q0": {"t": [HOT, WARM, "pass"]}}, "t", '{"celsius": 90}', "alarm"),
    ("a later one that holds", {"q0": {"t": [HOT, WARM, "pass"]}}, "t", '{"celsius": 70}', "warm"),
    ("none holds, and nothing follows", {"q0": {"t": [HOT, WARM]}}, "t", '{"celsius": 20}', ""),
    ("none holds, then the rest", {"q0": {"t": HOT, "*": "pass"}}, "t", '{"celsius": 20}', "t"),
    ("none holds, then another filter", {"q0": {"t": HOT, "+": {"rename": "x"}}}, "t", '{"celsius": 20}', "x"),
    ("a filter before a topic", {"q0": {"+": HOT, "t": {"rename": "x"}}}, "t", '{"celsius": 90}', "alarm"),
    ("a filter before a topic does not hold", {"q0": {"+": HOT, "t": {"rename": "x"}}}, "t", '{"celsius": 1}', "x"),
    ("the rest with a condition", {"q0": {"*": [HOT, "pass"], "u": "suppress"}}, "t", '{"celsius": 90}', "alarm"),
    ("the rest stands first and comes last", {"q0": {"*": HOT, "t": "pass"}}, "t", '{"celsius": 90}', "t"),
    ("the rest, and nothing holds", {"q0": {"*": HOT}}, "t", '{"celsius": 20}', ""),
    ("to let out fails: it is not taken", {"q0": {"t": [OPEN, "suppress"]}}, "t", "{}", ""),
    ("to rename fails: it is not taken", {"q0": {"t": [WARM, "pass"]}}, "t", "{}", "t"),
    ("to inject fails: it is not taken", {"q0": {"t": [HOT, "pass"]}}, "t", '{"celsius": "hot"}', "t"),
    ("to suppress fails: it is taken", {"q0": {"t": [SECRET, "pass"]}}, "t", "{}", ""),
    ("to emit nothing is to suppress", {"q0": {"t": [{"when": "secret", "emit": []}, "pass"]}}, "t", "{}", ""),
    ("to suppress does not hold", {"q0": {"t": [SECRET, "pass"]}}, "t", '{"secret": false}', "t"),
    ("opaque content has no attributes", {"q0": {"t": [SECRET, "pass"]}}, "t", "\x01", ""),
    ("a condition without attributes", {"q0": {"t": [{"when": "1 < 2", "rename": "x"}, "pass"]}}, "t", "\x01", "x"),
    ("what a wildcard matched", {"q0": {"r/+": {"when": "x", "rename": "to/{1}"}}}, "r/k", '{"x": true}', "to/k"),
]


@pytest.mark.parametrize("case", CASES, ids=[title for title, *_ in CASES])
def test_which_edge_is_taken(case: tuple[str, Written, str, str, str]) -> None:
    _, written, topic, payload, expected = case
    _, events = automaton(written).step("q0", Event(topic, payload.encode()), 0.0)
    assert " ".join(event.topic for event in events) == expected


def test_only_the_edge_that_is_taken_changes_the_state() -> None:
    made = automaton(
        {
            "q0": {
                "t": [{"when": "open", "pass": True, "next": "in"}, {"when": "shut", "suppress": True, "next": "out"}]
            },
            "in": {"*": "pass"},
            "out": {"*": "suppress"},
        }
    )
    states = [
        made.step("q0", Event("t", payload), 0.0)[0]
        for payload in (b'{"open": true}', b'{"open": false, "shut": true}', b'{"open": false, "shut": false}', b"{}")
    ]
    assert states == ["in", "out", "q0", "out"]


def test_an_edge_of_a_failing_condition_whose_topic_cannot_be_is_not_taken() -> None:
    made = automaton({"q0": {"r/#": [{"when": "x", "rename": "{1}"}, "pass"]}})
    assert made.step("q0", Event("r", b"{}"), 0.0)[1] == (Event("r", b"{}"),)


def test_content_is_read_as_the_domain_says() -> None:
    unless_secret = Action(PASS.outputs, when=make_condition("!secret"))
    damaged = Event("t", b'{"secret": false')
    as_json = Automaton.of_states("m", {"q0": {"t": unless_secret}}, ContentReader((FormatRule("#", Format.JSON),)))
    assert as_json.step("q0", damaged, 0.0)[1] == ()
    assert "fails: " in as_json.why("q0", (damaged,))
    assert as_json.step("q0", Event("t", b'{"secret": false}'), 0.0)[1] != ()


def test_where_a_condition_decides_nothing_is_known_beforehand() -> None:
    made = automaton({"q0": {"t": SECRET, "w": "suppress", "*": "pass"}})
    assert [made.steady("q0", topic) for topic in ("t", "w", "z")] == [None, False, True]
    rest = automaton({"q0": {"t": "pass", "*": [HOT, "pass"]}})
    assert [rest.steady("q0", topic) for topic in ("t", "z")] == [True, None]


def test_what_may_come_out_counts_every_edge_that_may_be_taken() -> None:
    made = automaton({"q0": {"t": [HOT, WARM, "pass"], "*": "suppress"}})
    assert made.outputs("t") == ("alarm", "t", "warm")
    assert automaton({"q0": {"#": HOT, "t": "pass"}}).outputs("t") == ("alarm", "t")
    assert automaton({"q0": {"#": SECRET, "*": "pass"}}).outputs("t") == ("t",), "it may be that it is not suppressed"


def test_conditions_that_only_pass_or_suppress_need_not_see_what_nobody_wants() -> None:
    assert automaton({"q0": {"t": [SECRET, "pass"], "u": OPEN}}).alphabet() == ()
    assert automaton({"q0": {"t": [HOT, "pass"]}}).alphabet() == ("t",)


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b'{"celsius": 81}', "`celsius > 80.0` holds"),
        (b'{"celsius": 61}', "`celsius > 80.0` is false, `celsius > 60.0` holds"),
        (b"{}", "`celsius > 80.0` fails: there is no `celsius`, `celsius > 60.0` fails: there is no `celsius`"),
    ],
)
def test_it_says_what_its_conditions_came_to(payload: bytes, said: str) -> None:
    made = automaton({"q0": {"t": [HOT, WARM, "pass"], "u": "pass"}})
    assert made.why("q0", (Event("t", payload),)) == said
    assert made.why("q0", (Event("u", payload), Event("t", payload))) == said


def test_it_says_so_in_the_states_that_several_events_lead_through() -> None:
    made = automaton({"q0": {"t": {**HOT, "next": "q1"}}, "q1": {"t": WARM}})
    event = Event("t", b'{"celsius": 90}')
    assert made.why("q0", (event, event)) == "`celsius > 80.0` holds, `celsius > 60.0` holds"


def test_topics_are_forgotten_within_a_bound_and_decided_anew() -> None:
    made = automaton({"q0": {"+": [HOT, "pass"]}})
    for at in range(CACHED_TOPICS + 10):
        assert made.step("q0", Event(f"t{at}", b"{}"), 0.0)[1][0].topic == f"t{at}"
    assert made.step("q0", Event("t0", b'{"celsius": 90}'), 0.0)[1][0].topic == "alarm"


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ({"t": ["pass", HOT]}, "edge `t`: the second of several is never taken: one before it has no `when`"),
        ({"t": [HOT, WARM, HOT]}, "edge `t`: the third of several is never taken: one before it has the same `when`"),
        (
            {"t": [HOT, WARM, SECRET, {"when": "(secret)", "pass": True}]},
            "edge `t`: the 4th of several is never taken: one before it has the same `when`",
        ),
        ({"*": ["pass", "suppress"]}, "edge `*`: the second of several is never taken"),
        ({"#": "pass", "t": HOT}, "edge `t` is never taken: `#` matches all that it matches"),
        ({"t": []}, "edge `t`: expected what it does, found nothing"),
    ],
)
def test_an_edge_that_is_never_taken_is_a_mistake(edges: dict[str, object], said: str) -> None:
    with pytest.raises(PolicyError) as raised:
        automaton({"q0": edges})
    assert f"state `q0`, {said}" in str(raised.value)


def test_one_condition_may_stand_twice_if_the_second_suppresses_what_it_fails_on() -> None:
    made = automaton({"q0": {"t": [OPEN, {"when": "!secret", "suppress": True}, {"rename": "secret"}]}})
    topics = [
        [event.topic for event in made.step("q0", Event("t", payload), 0.0)[1]]
        for payload in (b'{"secret": false}', b"{}", b'{"secret": true}')
    ]
    assert topics == [["t"], [], ["secret"]]


def test_an_automaton_without_conditions_never_reads_content() -> None:
    class Blind(ContentReader):
        def read(self, event: Event) -> object:  # type: ignore[override]
            raise AssertionError("nothing asks for it")

    made = Automaton.of_states("m", {"q0": {"t": SUPPRESS, "*": PASS}}, Blind())
    assert made.step("q0", Event("u", b"{}"), 0.0)[1] == (Event("u", b"{}"),)
    assert made.why("q0", (Event("t", b"{}"),)) == ""
