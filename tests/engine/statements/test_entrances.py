"""Policies hold on every way: before matching, at edges of parts, for what waits, is retained or shared, for wills."""

from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.sessions import lifecycle
from penstock.engine.stages.admit import Door
from penstock.wire.packet import Connect, Publish, WillMessage
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.engine.statements.test_paper import got, join, play, say
from tests.support.cases.statements import paper

REMOVE = "PolicyStatement { On(Forward, Publication) { If {} Then {RemoveAttributes(secret)} } }"
BLOCK = "PolicyStatement { On(Forward, Publication) { If {} Then {BlockMessage()} } }"


def rule(inside: str) -> str:
    return f"PolicyStatement {{ On(Forward, Publication) {{ {inside} }} }}"


def given(policy: str, to: str = "subscription", of: str = "s", **more: Any) -> dict[str, Any]:
    return {"policies": {"it": policy}, "apply": [{"policy": "it", "to": to, "of": of, **more}]}


# --- before matching


def test_before_matching_a_policy_changes_what_is_matched() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t", where="secret == 1")
    rehearsal.subscribe("s", "t", where="open == 1", name="other")
    before = rule("@matching: Before If {} Then {RemoveAttributes(secret)}")
    say(rehearsal, "p", {"secret": 1, "open": 2}, policy=before)
    say(rehearsal, "p", {"secret": 1, "open": 1}, policy=before)
    assert got(rehearsal, "s") == [{"open": 1}]


def test_before_matching_content_is_not_asked_for() -> None:
    rehearsal = play(
        statements=given(
            rule("@matching: Before If {} Then {BlockMessage()}"), "advertisement", "p", filter="t", where="a > 5"
        )
    )
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "#")
    say(rehearsal, "p", {"a": 1})
    say(rehearsal, "p", {"a": 1}, "u")
    assert got(rehearsal, "s") == [{"a": 1}]


# --- where


@pytest.mark.parametrize(
    ("point", "marked"),
    [("Ingress", ["n0", "n2"]), ("Egress", ["n1", "n3"]), ("Routing", ["n0", "n1", "n2"])],
)
def test_the_edges_of_a_part_of_the_domain_are_where_messages_come_in_and_go_out(point: str, marked: list[str]) -> None:
    parts = {"n0": "left", "n1": "left", "n2": "right", "n3": "right"}
    rehearsal = play(4, nodes={name: {"overlay": part} for name, part in parts.items()})
    join(rehearsal, p="n0", s="n3")
    rehearsal.subscribe("s", "t")
    trace = rule(f"@broker: {point} If {{}} Then {{AugmentBrokerHostInfo(Attributes)}}")
    say(rehearsal, "p", {}, policy=trace)
    (told,) = got(rehearsal, "s")
    assert [one["broker"] for one in told["penstock_trace_host"]] == marked


# --- exceptions


FAILING = "If {x > 1} Then {} OnException { If {has(y)} Then {RemoveAttributes(secret)} Elseif {z > 1} Then {} }"


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ({"x": 2, "secret": 1}, [{"x": 2, "secret": 1}]),
        ({"y": 1, "secret": 1}, [{"y": 1}]),
        ({"z": 2, "secret": 1}, [{"z": 2, "secret": 1}]),
        ({"z": 1, "secret": 1}, []),
        ({"secret": 1}, []),
    ],
    ids=["none", "compensated", "let pass", "not compensated", "one more"],
)
def test_what_fails_is_compensated_or_blocked_and_told(content: dict[str, int], seen: list[dict[str, int]]) -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0", officer="n0")
    rehearsal.subscribe("s", "t")
    rehearsal.subscribe("officer", "$penstock/meta/PolicyException")
    say(rehearsal, "p", content, policy=rule(FAILING))
    assert got(rehearsal, "s") == seen
    told = got(rehearsal, "officer")
    assert bool(told) is not bool(seen)
    assert all(one["class"] == "PolicyException" and one["reason"] == "attached policy#1 failed" for one in told)
    assert all("`x`" in one.reason for one in rehearsal.notices if one.kind == "policy failed")


def test_a_policy_on_content_that_cannot_be_read_blocks_it() -> None:
    rehearsal = play(statements=given(REMOVE, filter="t", where="secret > 0"))
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "#")
    rehearsal.publish("p", "t", b'{"secret": 1, "secret": 0}')
    rehearsal.publish("p", "t", b"\xff")
    say(rehearsal, "p", {"secret": 1, "a": 1})
    say(rehearsal, "p", {"secret": 0, "a": 2})
    say(rehearsal, "p", {"a": 3})
    assert got(rehearsal, "s") == [{"a": 1}, {"secret": 0, "a": 2}, {"a": 3}]


def test_what_a_policy_takes_out_cannot_be_asked_for() -> None:
    rehearsal = play(2, statements=given(REMOVE, filter="t"))
    join(rehearsal, p="n0", s="n1")
    rehearsal.subscribe("s", "t", where="secret == 1", name="asks")
    say(rehearsal, "p", {"secret": 1, "a": 1})
    assert got(rehearsal, "s") == []
    rehearsal.subscribe("s", "t", where="a == 1", name="other")
    say(rehearsal, "p", {"secret": 1, "a": 1})
    assert got(rehearsal, "s") == [{"a": 1}]


# --- conflicts


def test_two_policies_that_want_the_opposite_are_told_and_the_stricter_holds() -> None:
    rehearsal = play(statements=given(REMOVE, filter="t"))
    join(rehearsal, p="n0", s="n0", officer="n0")
    rehearsal.subscribe("officer", "$penstock/meta/PolicyConflict")
    rehearsal.subscribe("s", "t", policy=rule("If {} Then {KeepOnlyAttributes(secret, a)}"))
    say(rehearsal, "p", {"secret": 1, "a": 1, "b": 1})
    assert got(rehearsal, "s") == [{"a": 1}]
    (told,) = got(rehearsal, "officer")
    assert told["class"] == "PolicyConflict"
    assert told["reason"] == "`it` says remove, `s: t` says keep"


# --- every way


def test_what_is_retained_is_judged_for_who_comes_later() -> None:
    rehearsal = play(2, statements=given(REMOVE, filter="t"))
    join(rehearsal, p="n0", s="n1", other="n1")
    say(rehearsal, "p", {"secret": 1, "a": 1}, retain=True)
    rehearsal.subscribe("s", "#")
    rehearsal.subscribe("other", "#")
    assert got(rehearsal, "s") == [{"a": 1}]
    assert got(rehearsal, "other") == [{"secret": 1, "a": 1}]


@pytest.mark.parametrize("attach", ["Never", "Always"])
def test_what_is_retained_keeps_its_publisher_s_policy_when_that_is_gone(attach: str) -> None:
    rehearsal = play(2)
    join(rehearsal, p="n0")
    rehearsal.advertise("p", "A", "t", policy=rule(f"@attach: {attach} If {{}} Then {{RemoveAttributes(secret)}}"))
    say(rehearsal, "p", {"secret": 1, "a": 1}, retain=True)
    rehearsal.unadvertise("p", "A")
    for number in (0, 1):
        join(rehearsal, **{f"s{number}": f"n{number}"})
        rehearsal.subscribe(f"s{number}", "#")
        assert got(rehearsal, f"s{number}") == [{"a": 1}]


def test_members_of_a_shared_subscription_get_what_policies_let_them_have() -> None:
    rehearsal = play(
        statements=given(rule("If {secret > 1} Then {BlockMessage()} Elseif {} Then {RemoveAttributes(secret)}"))
    )
    join(rehearsal, p="n0", s="n0", other="n0")
    for who in ("s", "other"):
        rehearsal.subscribe(who, "$share/g/t", no_local=False)
    for number in range(4):
        say(rehearsal, "p", {"secret": number})
    assert sorted(map(str, got(rehearsal, "s"))) == ["{}"]
    assert {"secret": 2} in got(rehearsal, "other")
    assert {"secret": 3} in got(rehearsal, "other")
    assert len(got(rehearsal, "other")) == 3


def test_what_waits_is_judged_when_it_is_published() -> None:
    rehearsal = play(statements=given(REMOVE))
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t", qos=1)
    rehearsal.disconnect("s")
    say(rehearsal, "p", {"secret": 1, "a": 1}, qos=1)
    rehearsal.connect("s", "n0")
    assert got(rehearsal, "s") == [{"a": 1}]


def test_a_monitor_on_the_link_to_a_client_sees_what_policies_leave() -> None:
    domain = Domain.model_validate(
        {
            "nodes": {"n0": {"listen": "127.0.0.1:0"}},
            "clients": {"p": {"node": "n0"}, "s": {"node": "n0"}},
            "monitors": {
                "m": {
                    "link": "n0 -> s",
                    "states": {"q0": {"t": [{"suppress": True, "when": "has(secret)"}, {"pass": True}], "*": "pass"}},
                }
            },
            "statements": given(REMOVE),
        }
    )
    rehearsal = Rehearsal(domain, ensemble(domain))
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t")
    say(rehearsal, "p", {"secret": 1, "a": 1})
    assert got(rehearsal, "s") == [{"a": 1}]


def test_a_publication_is_flooded_to_nodes_that_have_not_asked() -> None:
    rehearsal = play(3)
    join(rehearsal, p="n0", s="n0")
    sent = {name: rehearsal.nodes[name].stats.received for name in rehearsal.nodes}
    say(rehearsal, "p", {"a": 1}, policy=rule("If {} Then {FloodMessage()}"))
    assert {name: rehearsal.nodes[name].stats.received - sent[name] for name in sent} == {"n0": 1, "n1": 1, "n2": 1}


def test_a_policy_of_another_kind_of_message_has_no_say() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t", where="a > 0", policy=paper()["Fig. 4, notification"].replace("Egress", "Routing"))
    say(rehearsal, "p", {"a": 1, "b": 1})
    assert got(rehearsal, "s") == [{"a": 1, "b": 1}]


def test_clients_cannot_forge_what_nodes_tell_and_do_not_see_it() -> None:
    rehearsal = play(2, statements={"grants": []})
    join(rehearsal, p="n0", s="n1")
    rehearsal.subscribe("s", "t")
    actor = rehearsal.assembly.peers["p", "n0"]
    for name in ("made", "path"):
        actor._send(Publish("t", b"{}", properties=Properties(user_properties=((f"penstock-{name}", "1"),))))
        rehearsal.run()
        assert rehearsal.deliveries("s") == ()
        assert rehearsal.notices[-1].reason == f"user property `penstock-{name}` is for nodes only"
    forged = ((f"penstock-{name}", "1") for name in ("trace-host", "facts"))
    told = (*forged, ("mine", "2"))
    actor._send(Publish("t", b"{}", properties=Properties(user_properties=told)))
    rehearsal.run()
    (one,) = rehearsal.deliveries("s")
    assert one.properties == (("mine", "2"),)


@pytest.mark.parametrize("is_granted", [True, False])
def test_a_will_has_its_policy_or_is_refused(is_granted: bool) -> None:
    rehearsal = play() if is_granted else play(statements={"grants": []})
    join(rehearsal, s="n0", p="n0")
    rehearsal.subscribe("s", "t")
    left = WillMessage(
        "t", b'{"secret":1,"a":1}', properties=Properties(user_properties=(("penstock-policy", REMOVE),))
    )
    node = rehearsal.nodes["n0"]
    packet, door = Connect("w", will=left), Door("", "n0/0", True)
    outlet = Nowhere()
    opened = lifecycle.connect(node, packet, door, outlet, rehearsal.now)
    if not is_granted:
        assert isinstance(opened, lifecycle.Refusal)
        assert opened.text == "will: policy: `w` may not set policies on publications"
        return
    assert isinstance(opened, lifecycle.Opened)
    lifecycle.lost(node, opened.session, outlet, rehearsal.now)
    rehearsal.wait(1)
    assert got(rehearsal, "s") == [{"a": 1}]


class Nowhere:
    def send(self, packets: list[bytes]) -> None:
        packets.clear()

    def disconnect(self, reason: Reason, text: str = "") -> None:
        pass


# --- what cannot be found out


SALARY = given("PolicyStatement { On(Forward, Publication) { If {} Then {RemoveAttributes(salary)} } }")


@pytest.mark.parametrize(
    "where", ["salary > 4000", "!has(salary) || salary > 4000", "has(salary) ? salary > 4000 : true"]
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_conditions_do_not_tell_of_what_is_taken_out(where: str, nodes: int) -> None:
    rehearsal = play(nodes, statements=SALARY)
    join(rehearsal, p="n0", s=f"n{nodes - 1}")
    rehearsal.subscribe("s", "t", where=where)
    for salary in (10, 5000):
        say(rehearsal, "p", {"salary": salary})
    assert got(rehearsal, "s") == []


def test_neither_qos_nor_a_policy_of_its_own_tells_of_what_is_taken_out() -> None:
    own = rule("If {has(salary)} Then {BlockMessage()} Elseif {} Then {AppendPrevHop()}")
    rehearsal = play(2, statements=SALARY | {"grants": [{"to": "*", "set": "subscription", "elements": "*"}]})
    join(rehearsal, p="n0", s="n1")
    rehearsal.subscribe("s", "t", qos=2, where="salary > 4000", name="asks")
    rehearsal.subscribe("s", "t", qos=0, name="all", policy=own)
    for salary in (10, 5000):
        say(rehearsal, "p", {"salary": salary}, qos=2)
    assert [(one.payload, one.qos) for one in rehearsal.deliveries("s")] == 2 * [(b'{"PrevHop":"n0"}', 0)]


@pytest.mark.parametrize("payload", [b'{"salary": 1, "salary": 2}', b"salary: 77"])
def test_a_meta_event_of_a_failure_does_not_show_what_was_blocked(payload: bytes) -> None:
    rehearsal = play(statements=SALARY)
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "#")
    rehearsal.subscribe("s", "$penstock/meta/#")
    rehearsal.publish("p", "t", payload)
    rehearsal.run()
    (told,) = got(rehearsal, "s")
    assert (told["class"], told["message"]) == ("PolicyException", "t")


def test_policies_that_make_many_of_one_come_to_an_end() -> None:
    many = ", ".join(['Publish("[class,L]")'] * 50)
    rehearsal = play(2)
    join(rehearsal, p="n0", s="n0", t="n1")
    for who in ("s", "t"):
        rehearsal.subscribe(who, "$penstock/meta/#", policy=rule(f"If {{}} Then {{{many}}}"))
    rehearsal.subscribe("s", "go", policy=rule(f"If {{}} Then {{{many}}}"))
    say(rehearsal, "p", {}, "go")
    assert 32 < len(rehearsal.deliveries("s")) < 1000
    assert {one.kind for one in rehearsal.notices} == {"policy loop"}
    assert len(rehearsal.notices) < 50


def test_what_is_retained_at_another_node_is_not_changed_by_one_subscriber() -> None:
    rehearsal = play(2)
    join(rehearsal, p="n0", s="n1", other="n1", later="n1")
    rehearsal.subscribe("other", "t")
    say(rehearsal, "p", {"secret": 1, "a": 1}, retain=True)
    rehearsal.subscribe("s", "+", policy=REMOVE)
    rehearsal.subscribe("later", "t")
    assert got(rehearsal, "s") == [{"a": 1}]
    assert got(rehearsal, "other") == got(rehearsal, "later") == [{"secret": 1, "a": 1}]


def test_more_policies_than_a_few_on_one_publication_are_refused() -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t")
    told = Properties(user_properties=5 * (("penstock-policy", REMOVE),))
    rehearsal.assembly.peers["p", "n0"]._send(Publish("t", b"{}", properties=told))
    rehearsal.run()
    assert got(rehearsal, "s") == []
    assert [one.reason for one in rehearsal.notices] == ["policy: more than 4 policies on one publication"]


@pytest.mark.parametrize("where", ["`a.b` == 1", "!has(`a.b`) || `a.b` == 1", "a.b == 1", "`a.b.c` == 1"])
def test_a_name_with_dots_is_hidden_like_names_inside_each_other(where: str) -> None:
    rehearsal = play(statements=given(rule("If {} Then {RemoveAttributes(a.b)}")))
    join(rehearsal, p="n0", s="n0", other="n0")
    rehearsal.subscribe("s", "t", where=where)
    rehearsal.subscribe("s", "u")
    for value in (0, 1):
        for content in ({"a.b": value}, {"a": {"b": value}}, {"a.b": {"c": value}}):
            say(rehearsal, "p", content)
    assert got(rehearsal, "s") == []
    for content in ({"a.b": 1, "c": 2}, {"a": {"b": 1, "d": 3}}):
        say(rehearsal, "p", content, "u")
    assert got(rehearsal, "s") == [{"c": 2}, {"a": {"d": 3}}]


def test_what_a_condition_of_a_policy_fails_at_is_told_only_to_operators() -> None:
    policy = rule("If {int(salary) > 5} Then {BlockMessage()}")
    rehearsal = play(statements=given(policy))
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "#")
    rehearsal.subscribe("s", "$penstock/meta/#")
    say(rehearsal, "p", {"salary": "my secret salary"})
    assert [(one.topic, b"secret" in one.payload) for one in rehearsal.deliveries("s")] == [
        ("$penstock/meta/PolicyException", False)
    ]


@pytest.mark.parametrize("chain", ["If {} Then {RemoveAttributes(secret)}", "If {secret == 1} Then {BlockMessage()}"])
def test_a_retained_message_can_be_taken_back_beyond_a_policy(chain: str) -> None:
    rehearsal = play(2)
    join(rehearsal, p="n0", s="n1")
    rehearsal.advertise("p", "A", "t", policy=rule(chain))
    rehearsal.subscribe("s", "t")
    say(rehearsal, "p", {"secret": 2}, retain=True)
    rehearsal.publish("p", "t", b"", retain=True)
    rehearsal.run()
    assert [node.retained.get("t") for node in rehearsal.nodes.values()] == [None, None]


def test_what_is_advertised_again_is_another_message() -> None:
    told = 'PolicyStatement { On(Forward, Advertisement) { If {} Then {Publish("[class,Told]")} } }'
    rehearsal = play(3, "routed")
    join(rehearsal, p="n1", s="n1")
    rehearsal.subscribe("s", "$penstock/meta/Told", qos=0)
    for count in (1, 2):
        rehearsal.advertise("p", "A", "t", policy=told)
        assert got(rehearsal, "s") == count * [{"class": "Told"}]  # once, although it goes two ways
        rehearsal.unadvertise("p", "A")
