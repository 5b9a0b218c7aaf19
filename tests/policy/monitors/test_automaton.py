"""Edit automata: the paper's figures and conventions, and each mistake that one can be written with."""

import pytest

from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.policy.monitors.action import PASS, SUPPRESS, Action, MonitorOutput, parse_action
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.monitor import MonitorError
from penstock.policy.monitors.transitions import CACHED_TOPICS
from tests.support.models.automata import M1, M2, Written, automaton, run, topics

EVENT = Event("a/b", b"\xff42", 2, True, b"properties", 9.0, "ann", path=("n1", "n2"))


@pytest.mark.parametrize(
    ("went_in", "came_out"),
    [
        ("DL_unlock", ""),
        ("AC_grant", "AC_grant"),
        ("AC_grant DL_unlock AC_deny DL_unlock", "AC_grant AC_deny"),
        ("MD_motion MD_no_motion", "MD_motion MD_no_motion"),
    ],
)
def test_fig_3_suppresses_unlock_and_preserves_all_else(went_in: str, came_out: str) -> None:
    assert topics(automaton(M1), went_in) == came_out


@pytest.mark.parametrize(
    ("title", "went_in", "came_out"),
    [
        ("first permitted sequence", "AC_request AC_grant DL_unlock", "AC_request AC_grant DL_unlock"),
        ("second permitted sequence", "AC_request AC_deny", "AC_request AC_deny"),
        ("unlock first", "DL_unlock AC_request AC_grant", "AC_request AC_grant"),
        ("unlock without grant", "AC_request DL_unlock AC_grant DL_unlock", "AC_request AC_grant DL_unlock"),
        ("unlock after denial", "AC_request AC_deny DL_unlock", "AC_request AC_deny"),
        ("grant without request", "AC_grant DL_unlock", "AC_grant"),
        ("unlock twice", "AC_request AC_grant DL_unlock DL_unlock", "AC_request AC_grant DL_unlock"),
        ("again and again", "AC_request AC_grant DL_unlock " * 3, "AC_request AC_grant DL_unlock " * 3),
        (
            "others pass in every state",
            "x AC_request x AC_grant x DL_unlock x",
            "x AC_request x AC_grant x DL_unlock x",
        ),
    ],
)
def test_fig_4_permits_unlock_only_after_request_and_grant(title: str, went_in: str, came_out: str) -> None:
    assert topics(automaton(M2), went_in) == came_out.strip(), title


def test_convention_1_rule_1_the_first_state_is_the_initial_one() -> None:
    assert automaton(M2).start() == "q0"
    assert automaton({"locked": {"*": "suppress"}, "open": {"*": "pass"}}).start() == "locked"


def test_convention_1_rule_2_an_event_becomes_a_sequence_and_the_state_changes() -> None:
    made = automaton({"q0": {"a": {"emit": ["b", "c"], "next": "q1"}, "*": "pass"}, "q1": {"a": "pass"}})
    assert topics(made, "a a") == "b c a"


def test_convention_1_rule_3_a_preserved_event_is_the_same_object() -> None:
    for does in ("pass", {"pass": True}, {"emit": ["a/b"]}, {"emit": ["{topic}"]}, {"rename": "a/b"}):
        state, (out,) = automaton({"q0": {"a/b": does}}).step("q0", EVENT, 0.0)
        assert out is EVENT
        assert state == "q0"


def test_convention_1_rule_4_a_suppressed_event_leaves_nothing_but_may_change_the_state() -> None:
    made = automaton({"q0": {"a": {"suppress": True, "next": "q1"}, "*": "pass"}, "q1": {"a": "pass"}})
    assert made.step("q0", Event("a", b""), 0.0) == ("q1", ())
    assert topics(made, "a a") == "a"


@pytest.mark.parametrize(
    ("star", "came_out"),
    [("pass", "named b c"), ("suppress", "named"), ({"emit": ["w", "w"]}, "named w w w w")],
)
def test_convention_1_rule_5_star_concerns_only_what_no_other_edge_names(star: object, came_out: str) -> None:
    first = automaton({"q0": {"a": {"emit": ["named"]}, "*": star}})
    last = automaton({"q0": {"*": star, "a": {"emit": ["named"]}}})
    assert topics(first, "a b c") == topics(last, "a b c") == came_out


def test_convention_1_rule_5_star_may_change_the_state_and_is_each_states_own() -> None:
    made = automaton({"q0": {"a": "pass", "*": {"pass": True, "next": "q1"}}, "q1": {"b": "pass", "*": "suppress"}})
    assert topics(made, "a b a b c") == "a b b"


def test_convention_1_rule_6_without_a_star_the_rest_is_suppressed_and_the_state_stays() -> None:
    made = automaton({"q0": {"a": {"pass": True, "next": "q1"}}, "q1": {"b": "pass"}})
    assert made.step("q0", Event("b", b""), 0.0) == ("q0", ())
    assert topics(made, "b c a a b") == "a b"


def test_a_filter_of_events_is_an_automaton_of_one_state() -> None:
    """§6.2.1."""
    made = Automaton.of_filter("f", ["x/#", "y", "x/z", "y"])
    assert topics(made, "x x/1/2 x/z y y/1 z $SYS/x") == "x x/1/2 x/z y"
    assert made.outputs("z") == ()
    assert made.outputs("+") == ("x", "y")
    assert made.alphabet() == ()


def test_a_mapper_renames_what_it_names_and_passes_the_rest() -> None:
    """§6.2.2."""
    made = Automaton.of_mapper("m", {"home/+/t": "house/{1}/t", "old": "new"})
    assert topics(made, "home/kitchen/t old home/x other") == "house/kitchen/t new home/x other"
    assert made.alphabet() == ("home/+/t", "old")


def test_a_mapper_may_say_what_becomes_of_the_rest() -> None:
    assert topics(Automaton.of_mapper("m", {"a": "b", "*": "rest/{topic}"}), "a c/d") == "b rest/c/d"


def test_a_renamed_event_keeps_everything_but_its_topic() -> None:
    (out,) = run(automaton({"q0": {"a/+": {"rename": "{1}"}}}), [EVENT])
    assert out == EVENT._replace(topic="b")


def test_an_injected_event_has_the_qos_of_its_cause_and_is_not_retained() -> None:
    own, new = run(automaton({"q0": {"a/b": {"emit": ["a/b", "c"]}}}), [EVENT])
    assert own is EVENT
    assert new == EVENT._replace(topic="c", retain=False)


def test_an_injected_event_has_what_is_said_of_it() -> None:
    output = {"topic": "c", "payload": "got {payload} on {topic} of {1}, {{so}}", "qos": 0, "retain": True}
    (out,) = run(automaton({"q0": {"a/+": {"emit": [output]}}}), [EVENT])
    expected = b"got \xff42 on a/b of b, {so}"
    assert out == EVENT._replace(topic="c", payload=expected, qos=0, retain=True, properties=b"")


@pytest.mark.parametrize(
    ("edge", "template", "topic", "made"),
    [
        ("+/+", "{2}/{1}", "a/b", "b/a"),
        ("+/+", "{2}/{1}", "/b", "b/"),
        ("a/#", "b/{1}", "a/x/y", "b/x/y"),
        ("a/#", "b/{1}", "a/", "b/"),
        ("a/#", "b/{1}", "a", "b"),
        ("a/#", "{1}/b", "a", "b"),
        ("a/#", "c/{1}/b", "a", "c/b"),
        ("a/#", "c{1}", "a/b", "cb"),
        ("#", "x/{1}", "a/b", "x/a/b"),
        ("*", "x/{topic}", "a/b", "x/a/b"),
        ("*", "x/{topic}", "$SYS/b", "x/$SYS/b"),
        ("$SYS/#", "{topic}/x", "$SYS/b", "$SYS/b/x"),
        ("a/b", "{{{topic}}}", "a/b", "{a/b}"),
    ],
)
def test_a_topic_template_is_filled(edge: str, template: str, topic: str, made: str) -> None:
    assert topics(automaton({"q0": {edge: {"rename": template}}}), topic) == made


@pytest.mark.parametrize(
    ("edge", "template", "topic", "said"),
    [
        ("a/#", "{1}", "a", "topic is empty"),
        ("a/+", "{1}", "a/", "topic is empty"),
        ("a/+", "{1}/x", "a/$SYS", "`$SYS/x` is a `$` topic, which `{1}/x` does not say"),
        ("*", "{topic}/{topic}", "a" * 40_000, "topic has 80001 bytes, more than 65535"),
    ],
)
def test_a_topic_that_cannot_be_is_an_error_at_the_event(edge: str, template: str, topic: str, said: str) -> None:
    made = automaton({"q0": {edge: {"rename": template}}})
    assert made.steady("q0", topic) is None
    with pytest.raises(MonitorError) as raised:
        made.step("q0", Event(topic, b""), 0.0)
    assert str(raised.value).startswith(f"monitor `m`: on `{topic}` in state `q0`: {said}")


def test_steady_says_what_needs_no_step() -> None:
    made = automaton(M2)
    assert made.steady("q0", "other") is True
    assert made.steady("q0", "AC_grant") is True
    assert made.steady("q0", "DL_unlock") is False
    assert made.steady("q0", "AC_request") is None
    assert made.steady("granted", "DL_unlock") is None
    assert automaton({"q0": {"a": "pass"}}).steady("q0", "b") is False


def test_the_alphabet_is_what_changes_the_state_or_comes_out_otherwise() -> None:
    assert automaton(M1).alphabet() == ()
    assert automaton(M2).alphabet() == ("AC_deny", "AC_grant", "AC_request", "DL_unlock")
    made = {"q0": {"a/b": {"emit": ["x"]}, "a/#": {"rename": "c"}, "*": "pass"}}
    assert automaton(made).alphabet() == ("a/#",)
    assert automaton({"q0": {"a": "pass", "*": {"emit": ["x"]}}}).alphabet() == ("#",)


@pytest.mark.parametrize(
    ("states", "filter", "outputs"),
    [
        (M1, "DL_unlock", ()),
        (M1, "#", ("#",)),
        (M2, "DL_unlock", ("DL_unlock",)),
        ({"q0": {"a": {"emit": ["b", "c"]}, "*": "pass"}}, "a", ("b", "c")),
        ({"q0": {"a/+": "suppress", "*": "pass"}}, "a/b", ()),
        ({"q0": {"a/+": "suppress", "*": "pass"}}, "a/#", ("a/#",)),
        ({"q0": {"a": "suppress", "a/+/#": "suppress", "*": "pass"}}, "a/#", ()),
        ({"q0": {"home/+/t": {"rename": "house/{1}/t"}}}, "home/#", ("house/+/t",)),
        ({"q0": {"home/+/t": {"rename": "house/{1}/t"}}}, "home/x/t", ("house/x/t",)),
        ({"q0": {"a/#": {"rename": "b/{1}/c"}}}, "a/x/#", ("b/x/#",)),
        ({"q0": {"a/#": {"rename": "b-{1}"}}}, "#", ("+/#",)),
        ({"q0": {"*": {"rename": "x/{topic}"}}}, "+/y", ("x/+/y",)),
    ],
)
def test_outputs_cover_what_may_come_out(states: Written, filter: str, outputs: tuple[str, ...]) -> None:
    assert automaton(states).outputs(filter) == outputs


def test_a_stored_state_goes_on_if_the_automaton_still_has_it() -> None:
    made = automaton(M2)
    assert made.resume("granted") == "granted"
    assert made.resume("unheard-of") == "q0"
    assert made.resume(["q0"]) == "q0"


@pytest.mark.parametrize("state", ["unheard-of", None, ["q0"]])
def test_a_state_that_is_not_the_automatons_is_an_error(state: object) -> None:
    with pytest.raises(MonitorError, match="monitor `m` has no state"):
        automaton(M2).step(state, EVENT, 0.0)


def test_more_topics_than_are_remembered_make_no_difference() -> None:
    made = automaton({"q0": {"t/+": {"rename": "u/{1}"}, "t": "pass"}})
    for _ in range(2):
        for number in range(CACHED_TOPICS + 10):
            assert topics(made, f"t/{number} t") == f"u/{number} t"
            assert sum(len(table._moves) for table in made._tables.values()) <= CACHED_TOPICS + 1


def test_a_state_that_cannot_be_reached_is_a_warning() -> None:
    written: Written = {"q0": {"*": "pass"}, "q1": {"a": {"pass": True, "next": "q2"}}, "q2": {"*": "pass"}}
    assert automaton(written).warnings == ("state `q1` cannot be reached", "state `q2` cannot be reached")
    assert automaton(M2).warnings == ()


def test_automata_that_are_written_alike_are_equal() -> None:
    used = automaton(M2)
    topics(used, "AC_request x")
    assert used == automaton(M2)
    assert hash(used) == hash(automaton(M2))
    assert used != automaton(M1)


@pytest.mark.parametrize(
    ("title", "states", "said"),
    [
        ("no states", {}, "no states: the first one is the initial state"),
        ("empty state", {"q0": {}}, "state `q0` has no edges: everything would be suppressed; write `*: suppress`"),
        (
            "unknown next",
            {"q0": {"a": {"pass": True, "next": "q9"}}, "q1": {"*": "pass"}},
            "state `q0`, edge `a`: there is no state `q9` (states: `q0`, `q1`)",
        ),
        ("bad filter", {"q0": {"a/b+": "pass"}}, "state `q0`, edge `a/b+`: wildcard `+` does not fill level 2"),
        ("empty filter", {"q0": {"": "pass"}}, "state `q0`, edge ``: topic filter is empty"),
        ("shared", {"q0": {"$share/g/a": "pass"}}, "a shared subscription is not a topic filter here: `$share/g/a`"),
        (
            "covered by one",
            {"q0": {"a/#": "pass", "a/b": "suppress"}},
            "state `q0`, edge `a/b` is never taken: `a/#` matches all that it matches",
        ),
        (
            "covered by several",
            {"q0": {"a": "pass", "a/+": "pass", "a/+/+/#": "pass", "a/#": "suppress"}},
            "state `q0`, edge `a/#` is never taken: what stands before it matches all that it matches",
        ),
        (
            "unknown hole",
            {"q0": {"a": {"rename": "{tpoic}"}}},
            "template `{tpoic}`: `{` at character 1 opens or closes",
        ),
        ("lonely brace", {"q0": {"a": {"rename": "x}"}}}, "template `x}`: `}` at character 2 opens or closes no hole"),
        ("hole zero", {"q0": {"+": {"rename": "{0}"}}}, "template `{0}`: `{` at character 1"),
        ("no such wildcard", {"q0": {"a/+": {"rename": "{2}"}}}, "`{2}`, but edge `a/+` has 1 wildcard"),
        ("star has no wildcard", {"q0": {"*": {"rename": "{1}"}}}, "`{1}`, but edge `*` has 0 wildcards"),
        ("wildcard in topic", {"q0": {"+": {"rename": "a/+"}}}, "a wildcard cannot be part of a topic; write `{1}`"),
        ("payload in topic", {"q0": {"a": {"rename": "{payload}"}}}, "a payload cannot be part of a topic"),
        ("empty topic", {"q0": {"a": {"emit": [""]}}}, "state `q0`, edge `a`: template ``: topic is empty"),
        ("NUL in topic", {"q0": {"+": {"rename": "{1}/\0"}}}, "U+0000 at character 2 of topic"),
        ("open $ level", {"q0": {"+": {"rename": "$x{1}/y"}}}, "the first level of a `$` topic must be literal text"),
        ("too long", {"q0": {"a" * 50_000: {"rename": "{topic}{topic}"}}}, "topic has 100000 bytes, more than 65535"),
        ("bad payload template", {"q0": {"a": {"emit": [{"topic": "b", "payload": "{x}"}]}}}, "template `{x}`"),
    ],
)
def test_a_mistake_is_one_clear_error(title: str, states: Written, said: str) -> None:
    with pytest.raises(PolicyError) as raised:
        automaton(states)
    assert said in str(raised.value), title


@pytest.mark.parametrize(
    ("edge", "written", "action"),
    [
        ("a", "pass", PASS),
        ("a", "suppress", SUPPRESS),
        ("a", {"pass": True}, PASS),
        ("a", {"suppress": True, "next": "s"}, Action((), "s")),
        ("a", {"rename": "b", "next": "s"}, Action((MonitorOutput("b"),), "s")),
        ("a", {"emit": []}, SUPPRESS),
        ("a", {"emit": ["a", "b"]}, Action((MonitorOutput(), MonitorOutput("b", retain=False)))),
        ("*", {"emit": ["*"]}, Action((MonitorOutput("*", retain=False),))),
        ("+", {"emit": [{"topic": "{topic}", "payload": "{payload}"}]}, PASS),
        (
            "a",
            {"emit": [{"topic": "b", "payload": "", "qos": 0, "retain": True}]},
            Action((MonitorOutput("b", "", 0, True),)),
        ),
    ],
)
def test_an_action_is_read_as_the_file_writes_it(edge: str, written: object, action: Action) -> None:
    assert parse_action(edge, written) == action


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("drop", "expected `pass`, `suppress`, or a mapping with one of `pass`, `suppress`, `rename`, `emit`"),
        (None, "found `None`"),
        ({}, "found none of them"),
        ({"next": "s"}, "found none of them"),
        ({"pass": True, "emit": ["a"]}, "found `pass`, `emit`"),
        ({"pass": False}, "`pass`: expected `true`, found `False`"),
        ({"pass": True, "nxt": "s"}, "unknown key `nxt` (known: `pass`, `suppress`, `rename`, `emit`, `next`)"),
        ({"pass": True, "next": 1}, "`next`: expected the name of a state, found `1`"),
        ({"rename": ["b"]}, "`rename`: expected a topic template"),
        ({"emit": "b"}, "`emit`: expected a list of topics, found `'b'`"),
        ({"emit": [1]}, "`emit`: expected a topic, or a mapping with `topic`, found `1`"),
        ({"emit": [{"payload": "x"}]}, "`emit`: expected a topic template as `topic`, found `None`"),
        ({"emit": [{"topic": "b", "payload": 5}]}, "`emit`: expected text as `payload`, found `5`; put it in quotes"),
        ({"emit": [{"topic": "b", "qos": 3}]}, "expected a QoS of 0, 1 or 2, found `3`"),
        ({"emit": [{"topic": "b", "qos": True}]}, "expected a QoS of 0, 1 or 2, found `True`"),
        ({"emit": [{"topic": "b", "qos": "1"}]}, "expected a QoS of 0, 1 or 2, found `'1'`"),
        ({"emit": [{"topic": "b", "retain": 1}]}, "expected true or false as `retain`, found `1`"),
        ({"emit": [{"topic": "b", "color": 1}]}, "unknown key `color` (known: `topic`, `payload`, `qos`, `retain`)"),
        ({"emit": ["b"] * 101}, "101 events at one step, more than 100"),
    ],
)
def test_an_action_that_cannot_be_read_says_why(written: object, said: str) -> None:
    with pytest.raises(PolicyError) as raised:
        parse_action("a", written)
    assert said in str(raised.value)


def test_a_filter_of_nothing_is_refused() -> None:
    with pytest.raises(PolicyError, match="state `q0` has no edges"):
        Automaton.of_filter("f", [])


@pytest.mark.parametrize("filters", [["#", "+/#", "$x"], ["$x", "+/#", "#"], ["a", "a/+/#", "a/#", "$x", "#"]])
def test_filters_that_say_the_same_do_no_harm(filters: list[str]) -> None:
    assert topics(Automaton.of_filter("f", filters), "a a/b $x $y") == "a a/b $x"


def test_a_filter_of_many_topics_is_compiled_and_asked_without_comparing_them_all() -> None:
    made = Automaton.of_filter("f", [f"t/{number}" for number in range(20_000)])
    assert len(made.outputs("#")) == 20_000
    assert made.outputs("t/7") == ("t/7",)
