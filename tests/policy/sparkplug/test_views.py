"""Views of Sparkplug messages: the examples of the sparkplug paper, and what they leave open."""

from typing import Any

import pytest

from penstock.language.condition import make_condition
from penstock.model.sparkplug.message import parse
from penstock.model.sparkplug.payload import read_sparkplug
from penstock.model.sparkplug.topic import message_topic
from penstock.policy.sparkplug.policies import Access, AccessPolicy, Privilege
from penstock.policy.sparkplug.views import (
    START,
    BirthRecord,
    View,
    ViewRequest,
    WithheldMetrics,
    read_view,
    write_view,
)
from tests.support.memory.sparkplug import encode

NBIRTH, NDATA, DCMD = "spBv1.0/G1/NBIRTH/E1", "spBv1.0/G1/NDATA/E1", "spBv1.0/G1/DCMD/E1/d1"


def metric(name: str, value: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "datatype": 3, "int_value": value, **more}


def sensitive(is_so: bool) -> dict[str, Any]:
    return {"properties": {"keys": ["sensitive"], "values": [{"type": 11, "int_value": int(is_so)}]}}


def policy(
    filter: str,
    exceptions: tuple[str, ...] = (),
    privilege: Privilege = "read",
    condition: str = "",
    subject: str = "a1",
) -> AccessPolicy:
    made = make_condition(condition) if condition else None
    return AccessPolicy(f"client:{subject}", filter, exceptions, privilege, made, f"{filter} {condition}")


class Reader:
    """What one subject sees of one edge node, step by step."""

    def __init__(self, *policies: AccessPolicy) -> None:
        self.access = Access(policies)
        self.known = BirthRecord()
        self.standing = START

    def sees(self, topic: str, *metrics: dict[str, Any]) -> dict[str, Any] | None:
        """The values of the view, None if there is none."""
        view = self.view(topic, *metrics)
        return None if view is None else read_sparkplug(view.payload())["metrics"]

    def view(self, topic: str, *metrics: dict[str, Any]) -> View | None:
        message = parse(encode({"timestamp": 1, "metrics": list(metrics), "seq": 0}))
        if "BIRTH" in topic:
            self.known.born(message)
        else:
            self.known.reported(message)
        grants = self.access.grants(["client:a1"], topic, "read")
        request = ViewRequest(message_topic(topic), message, self.known)
        view, self.standing = read_view(grants, request, {}, self.standing)
        return view


def writes(topic: str, policies: list[AccessPolicy], *metrics: dict[str, Any]) -> dict[str, Any] | None:
    request = ViewRequest(message_topic(topic), parse(encode({"metrics": list(metrics)})))
    view = write_view(Access(policies).grants(["client:a1"], topic, "write"), request, {})
    return None if view is None else read_sparkplug(view.payload())["metrics"]


# --- sparkplug Examples 2 and 3

EXAMPLE_2 = policy(NBIRTH, ("mt_c",), condition="mt_c.value > 5 || mt_c.properties.sensitive == 1")


def test_example_3() -> None:
    metrics = [metric(name, 10) for name in ("mt_a", "mt_b", "mt_d")]
    view = Reader(EXAMPLE_2).sees(NBIRTH, *metrics, metric("mt_c", 10, **sensitive(True)))
    assert view == {"mt_a": 10, "mt_b": 10, "mt_d": 10}


@pytest.mark.parametrize(
    ("value", "is_sensitive", "expected"),
    [(10, False, {"mt_a": 1}), (3, True, {"mt_a": 1}), (3, False, None), (5, False, None)],
)
def test_example_2_applies_by_value_or_by_mark(value: int, is_sensitive: bool, expected: object) -> None:
    reader = Reader(EXAMPLE_2)
    assert reader.sees(NBIRTH, metric("mt_a", 1), metric("mt_c", value, **sensitive(is_sensitive))) == expected


# --- sparkplug Example 4

EXAMPLE_4 = [
    policy("spBv1.0/G1/DCMD/E1/+", ("mt_1",), "write", "mt_1.value >= 5"),
    policy("spBv1.0/G1/DCMD/E1/d1", (), "write", "true"),
]


def test_example_4() -> None:
    assert writes(DCMD, EXAMPLE_4, *(metric(f"mt_{n}", 10) for n in (1, 2, 3))) == {"mt_2": 10, "mt_3": 10}


def test_example_4_below_the_bound() -> None:
    assert writes(DCMD, EXAMPLE_4, metric("mt_1", 4), metric("mt_2", 10)) == {"mt_1": 4, "mt_2": 10}


def test_without_exceptions_the_message_is_whole() -> None:
    assert writes(DCMD, EXAMPLE_4[1:], metric("mt_1", 10)) == {"mt_1": 10}


# --- sparkplug Example 1: a command for retransmission, and nothing else


def test_example_1_commands() -> None:
    only = [policy("spBv1.0/+/NCMD/+", (), "write", "metrics.all(name, name == 'Node Control/Rebirth')")]
    rebirth = {"name": "Node Control/Rebirth", "datatype": 11, "boolean_value": True}
    topic = "spBv1.0/G1/NCMD/E1"
    assert writes(topic, only, rebirth) == {"Node Control/Rebirth": True}
    assert writes(topic, only, rebirth, metric("speed", 9)) is None
    assert writes(topic, only, metric("speed", 9)) is None
    assert writes(DCMD, only, metric("speed", 9)) is None


# --- sparkplug Examples 5 and 6


def test_examples_5_and_6() -> None:
    reader = Reader(
        policy("spBv1.0/G1/NBIRTH/E1"),
        policy(NDATA, ("mt_3",), condition="has(mt_2)"),
        policy(NDATA),
    )
    born = {f"mt_{n}": 0 for n in (1, 2, 3, 4)}
    assert reader.sees(NBIRTH, *(metric(name, value) for name, value in born.items())) == born
    assert reader.sees(NDATA, metric("mt_2", 6), metric("mt_3", 8)) == {"mt_2": 6}
    assert reader.standing.withheld == {"mt_3"}
    assert reader.sees(NDATA, metric("mt_1", 7)) == {"mt_1": 7, "mt_3": 8}
    assert reader.standing.withheld == set()


# --- what the paper leaves open


def test_what_was_withheld_comes_back_as_it_is_now_even_if_a_report_in_between_was_denied() -> None:
    reader = Reader(
        policy(NBIRTH),
        policy(NDATA, ("s",), condition="mode.value == 1"),
        policy(NDATA, (), condition="mode.value == 2"),
    )
    reader.sees(NBIRTH, metric("s", 0), metric("mode", 0))
    assert reader.sees(NDATA, metric("s", 8), metric("mode", 1)) == {"mode": 1}
    assert reader.sees(NDATA, metric("s", 9), metric("mode", 3)) is None
    assert reader.sees(NDATA, metric("mode", 2)) == {"mode": 2, "s": 9}


def test_a_condition_on_what_is_withheld_goes_on_holding() -> None:
    reader = Reader(policy(NBIRTH), policy(NDATA), policy(NDATA, ("s",), condition="s.value > 5"))
    reader.sees(NBIRTH, metric("s", 0), metric("a", 0))
    assert reader.sees(NDATA, metric("s", 8)) == {}
    assert reader.sees(NDATA, metric("a", 1)) == {"a": 1}
    assert reader.sees(NDATA, metric("s", 4)) == {"s": 4}


def test_a_birth_begins_anew() -> None:
    reader = Reader(policy(NBIRTH), policy(NDATA, ("s",)))
    reader.sees(NBIRTH, metric("s", 0))
    reader.sees(NDATA, metric("s", 8))
    assert reader.standing.withheld == {"s"}
    reader.sees(NBIRTH, metric("s", 0))
    assert reader.standing == START


def test_a_birth_that_is_denied_begins_anew_too() -> None:
    reader = Reader(policy(NDATA, ("s",)))
    reader.standing = WithheldMetrics(frozenset({"s"}))
    assert reader.sees(NBIRTH, metric("s", 0)) is None
    assert reader.standing == START


def test_aliases_are_resolved_from_the_birth() -> None:
    reader = Reader(policy(NBIRTH, ("s",)), policy(NDATA, ("s",)))
    assert reader.sees(NBIRTH, metric("s", 0, alias=1), metric("a", 0, alias=2)) == {"a": 0}
    view = reader.view(NDATA, {"alias": 1, "int_value": 8}, {"alias": 2, "int_value": 9})
    assert view is not None
    assert read_sparkplug(view.payload())["aliases"] == {2: 9}


def test_an_alias_that_no_birth_has_told_of_is_taken_out_where_something_is() -> None:
    reader = Reader(policy(NDATA, ("s",)))
    assert reader.sees(NDATA, {"alias": 1, "int_value": 8}, metric("a", 1)) == {"a": 1}
    whole = Reader(policy(NDATA)).view(NDATA, {"alias": 1, "int_value": 8})
    assert whole is not None
    assert whole.is_whole


def test_a_name_does_not_hide_what_its_alias_stands_for() -> None:
    reader = Reader(policy(NBIRTH), policy(NDATA, ("s",)))
    reader.sees(NBIRTH, metric("s", 0, alias=1), metric("a", 0, alias=2))
    assert reader.sees(NDATA, metric("a", 8, alias=1), metric("a", 9, alias=2)) == {"a": 9}


def test_a_metric_that_was_not_in_the_birth_view_is_told_by_name() -> None:
    reader = Reader(policy(NBIRTH, ("s",)), policy(NDATA))
    reader.sees(NBIRTH, metric("s", 0, alias=1), metric("a", 0, alias=2))
    assert reader.sees(NDATA, {"alias": 1, "int_value": 8}) == {"s": 8}


def test_what_is_told_of_the_past_is_not_what_is_now() -> None:
    reader = Reader(policy(NBIRTH), policy(NDATA, ("s",), condition="has(hide)"), policy(NDATA))
    reader.sees(NBIRTH, metric("s", 0), metric("hide", 0))
    reader.sees(NDATA, metric("s", 7), metric("hide", 1))
    assert reader.known.values["s"] == encode({"metrics": [metric("s", 7)]})
    reader.sees(NDATA, metric("s", 3, is_historical=True), metric("hide", 1))
    assert reader.known.values["s"] == encode({"metrics": [metric("s", 7)]})
    assert reader.sees(NDATA, metric("a", 1)) == {"a": 1, "s": 7}


def test_each_of_several_values_counts() -> None:
    reader = Reader(policy(NBIRTH), policy(NDATA), policy(NDATA, ("s",), condition="s.value > 5"))
    reader.sees(NBIRTH, metric("s", 0), metric("a", 0))
    assert reader.sees(NDATA, metric("s", 8, is_historical=True), metric("s", 3)) == {}
    grants_all = Reader(policy(NDATA, condition="s.value > 5"))
    assert grants_all.sees(NDATA, metric("s", 8, is_historical=True), metric("s", 3)) is None


def test_a_condition_that_fails_grants_nothing_and_takes_its_exceptions_out() -> None:
    failing = policy(NDATA, ("s",), condition="not_there.value > 5")
    assert Reader(failing).sees(NDATA, metric("a", 1)) is None
    assert Reader(failing, policy(NDATA)).sees(NDATA, metric("a", 1), metric("s", 2)) == {"a": 1}


def test_properties_and_type_of_the_birth_hold_for_reports() -> None:
    reader = Reader(
        policy(NBIRTH),
        policy(NDATA),
        policy(NDATA, ("s",), condition="s.properties.sensitive == 1 && s.type == 'Int32'"),
    )
    reader.sees(NBIRTH, metric("s", 0, alias=1, **sensitive(True)), metric("a", 0, alias=2))
    assert reader.sees(NDATA, {"alias": 1, "int_value": 8}) == {}


@pytest.mark.parametrize(
    ("written_as", "gone"),
    [
        ("Motor/*", {"Motor/speed", "Motor/"}),
        ("m?", {"mx"}),
        (r"m\*", {"m*"}),
        ("*", {"Motor/speed", "Motor/", "mx", "m*", "motor"}),
    ],
)
def test_exceptions_by_pattern(written_as: str, gone: set[str]) -> None:
    names = {"Motor/speed", "Motor/", "mx", "m*", "motor"}
    view = Reader(policy(NDATA, (written_as,))).sees(NDATA, *(metric(name, 1) for name in names))
    expected = names - gone - ({"m*"} if written_as == "m?" else set())
    assert view is not None
    assert set(view) == expected


def test_subjects_of_whom_the_same_is_said_share_their_grants() -> None:
    access = Access(
        [policy(NDATA, ("s",), subject="a1"), policy(NDATA, ("s",), subject="a2"), policy(NDATA, subject="a3")]
    )
    one, two, three = (access.grants([f"client:{name}"], NDATA, "read") for name in ("a1", "a2", "a3"))
    assert one is two
    assert one is not three


def test_what_is_kept_is_kept_byte_for_byte() -> None:
    known = encode({"metrics": [metric("a", 1)]})
    unknown = b"\x9a\x06\x03abc"  # field 99
    payload = known + unknown + encode({"metrics": [metric("s", 2)]}) + b"\x18\x05"
    message = parse(payload)
    assert message.cut([message.metrics[1]], (), 200) == known + unknown + b"\x18\xc8\x01"


def test_a_value_of_another_type_than_the_birth_s_is_nothing_to_go_by() -> None:
    hides = policy(NDATA, ("mt_1",), condition="mt_1.value >= 5")
    reader = Reader(policy(NBIRTH), policy(NDATA), hides)
    reader.sees(NBIRTH, metric("mt_1", 0), metric("a", 0))
    assert reader.sees(NDATA, metric("mt_1", 200, datatype=1), metric("a", 1)) == {"a": 1}
    assert reader.sees(NDATA, metric("mt_1", 4)) == {"mt_1": 4}
