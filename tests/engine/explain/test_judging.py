"""What policy statements do to an event is explained as it happens, and nothing comes of the question."""

import json
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.domain.schema.tests import PolicyTest
from penstock.engine.events import user_properties
from penstock.engine.explain.arrival import arrival
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.policy_test import try_out
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.decision import Decision
from penstock.model.event import Event

RULE = "PolicyStatement {{ On(Forward, Publication) {{ {} }} }}"
BLOCK = RULE.format("@broker: Routing If {StrictMatch()} Then {BlockMessage()}")
TRIM = RULE.format("If {} Then {RemoveAttributes(b), Log(trimmed), Publish('[class,Trimmed]')}")
FLOOD = RULE.format("If {} Then {FloodMessage()}")
BEFORE = RULE.format("@matching: Before If {a > 1} Then {BlockMessage(), Publish('[class,Blocked]')}")
MEMBERS = RULE.format("If {AuthenticateReceiver(inner)} Then {} Elseif {} Then {BlockMessage()}")


def domain(**statements: Any) -> Domain:
    return Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("n0", "n1")},
            "links": [{"between": ["n0", "n1"]}],
            "clients": {"p": {"node": "n0"}, "s": {"node": "n1"}, "m": {"node": "n1"}},
            "trust_groups": {"inner": {"secret": {"env": "INNER"}, "nodes": ["n0", "n1"], "clients": ["m"]}},
            "statements": {"grants": [{"to": "*", "set": ["subscription", "advertisement"], "elements": "*"}]}
            | statements,
        }
    )


def play() -> Rehearsal:
    settings = domain()
    rehearsal = Rehearsal(settings, ensemble(settings))
    for client in ("p", "s", "m"):
        rehearsal.connect(client)
    return rehearsal


def asked(rehearsal: Rehearsal, content: object, policy: str = "") -> tuple[Decision, ...]:
    event = Event("t", json.dumps(content).encode(), 0)
    if policy:
        event = user_properties.having(event, None, [(user_properties.POLICY, policy)])
    return explain(rehearsal.nodes, arrival(rehearsal.nodes["n0"], "p", event), rehearsal.now, ("p", "s", "m"))


def judged(found: tuple[Decision, ...], target: str | None) -> list[tuple[str, str, str]]:
    """What the stage says towards somebody: effect, rule, reason."""
    verdicts = [v for one in found if (one.goes_by and one.goes_by.target) == target for v in one.verdicts]
    if target is None:
        verdicts = [v for one in found if one.goes_by is None for v in one.verdicts]
    return [(v.effect, v.rule, v.reason) for v in verdicts if v.stage == "judge"]


def got(rehearsal: Rehearsal, who: str) -> list[Any]:
    return [json.loads(one.payload) for one in rehearsal.deliveries(who)]


def told(found: tuple[Decision, ...], who: str) -> list[Any]:
    """What somebody would get."""
    outputs = [output for one in found if one.goes_by and one.goes_by.target == who for output in one.outputs]
    return [json.loads(one.payload) for one in outputs]


@pytest.mark.parametrize("content", [{"a": 1}, {"a": 1, "b": 2}])
@pytest.mark.parametrize(
    "policies",
    [
        pytest.param({"s": BLOCK}, id="a subscription's, that blocks on the way"),
        pytest.param({"s": TRIM}, id="a subscription's, that takes out"),
        pytest.param({"p": TRIM}, id="an advertisement's"),
        pytest.param({"p": FLOOD}, id="an advertisement's, that floods"),
        pytest.param({"p": MEMBERS}, id="one that asks who gets it"),
        pytest.param({"s": TRIM, "p": MEMBERS}, id="of both"),
        pytest.param({"p": BEFORE}, id="before matching"),
    ],
)
def test_what_is_told_is_what_happens_and_nothing_comes_of_asking(policies: dict[str, str], content: Any) -> None:
    rehearsal = play()
    rehearsal.subscribe("s", "t", where="a > 0", policy=policies.get("s", ""))
    rehearsal.subscribe("m", "t", where="a > 0")
    if "p" in policies:
        rehearsal.advertise("p", "all", "t", policy=policies["p"])
    before = len(rehearsal.notices)
    found = asked(rehearsal, content)
    assert (got(rehearsal, "s"), got(rehearsal, "m"), len(rehearsal.notices)) == ([], [], before)
    assert not any(node.statements.made for node in rehearsal.nodes.values())
    rehearsal.publish("p", "t", json.dumps(content).encode())
    rehearsal.run()
    for who in ("s", "m"):
        assert told(found, who) == got(rehearsal, who)


def test_the_rule_that_blocks_is_named() -> None:
    rehearsal = play()
    rehearsal.subscribe("s", "t", where="a > 0", policy=BLOCK)
    said = [("suppress", "n1: t#1.1", "`StrictMatch()` holds: BlockMessage()")]
    assert judged(asked(rehearsal, {"a": 1}), "n1") == said
    assert judged(asked(rehearsal, {"a": 1, "b": 2}), "n1") == []


def test_what_is_blocked_before_matching_goes_to_nobody() -> None:
    rehearsal = play()
    rehearsal.advertise("p", "all", "t", policy=BEFORE)
    found = asked(rehearsal, {"a": 2})
    reason = '`a > 1` holds: BlockMessage(), Publish("[class,Blocked]")'
    assert judged(found, None) == [("suppress", "p: all#1.1", reason)]
    rehearsal.run()
    assert len(found) == 1


def test_a_policy_that_is_flooded_shows_the_way_to_who_has_not_asked() -> None:
    rehearsal = play()
    rehearsal.advertise("p", "all", "t", policy=FLOOD)
    assert judged(asked(rehearsal, {"a": 2}), "n1") == [("pass", "p: all#1.1", "FloodMessage()")]


def test_members_of_a_group_that_a_policy_passes_over_are_told_of() -> None:
    rehearsal = play()
    rehearsal.advertise("p", "all", "t", policy=MEMBERS)
    for who in ("s", "m"):
        rehearsal.subscribe(who, "$share/g/t", no_local=False)
    found = asked(rehearsal, {"a": 1})
    rehearsal.publish("p", "t", b'{"a": 1}')
    rehearsal.run()
    assert told(found, "m") == got(rehearsal, "m") == [{"a": 1}]
    assert told(found, "s") == got(rehearsal, "s") == []


def test_a_policy_that_the_publisher_may_not_attach_is_refused() -> None:
    (decision,) = asked(play(), {"a": 1}, TRIM)
    assert str(decision.verdicts[-1]) == "admit: suppress by policy: policy: `p` may not set policies on publications"


@pytest.mark.parametrize(
    ("step", "passes"),
    [
        ({"subscribe": {"s": {"filter": "t", "where": "a > 0", "policy": "block"}}}, True),
        ({"subscribe": {"s": {"filter": "t", "where": "a > 0"}}}, False),
        ({"advertise": {"p": {"name": "all", "filter": "t", "policy": "nobody"}}}, True),
    ],
)
def test_a_step_of_a_test_sets_a_policy_by_its_name(step: dict[str, Any], passes: bool) -> None:
    nobody = RULE.format("If {} Then {BlockMessage()}")
    settings = domain(policies={"block": BLOCK, "nobody": nobody})
    test = PolicyTest.model_validate(
        {
            "subscribe": {"s": {"filter": "t", "where": "a > 0", "name": "plain"}},
            "steps": [
                step,
                {
                    "publish": {"p": {"topic": "t", "content": {"a": 1}}},
                    "expect": {"s": []},
                    "verdicts": {"at": "n0", "to": "n1", "stage": "judge", "effect": "suppress"},
                },
            ],
        }
    )
    assert try_out("t", test, Rehearsal(settings, ensemble(settings))).passed is passes


def test_a_step_of_a_test_attaches_a_policy_to_what_is_published() -> None:
    grants = [{"to": "p", "set": "publication", "elements": "*"}]
    settings = domain(policies={"members": MEMBERS, "trim": TRIM}, grants=grants)
    said = {"topic": "t", "content": {"a": 1, "b": 2}}
    steps = [
        {"publish": {"p": {**said, "policy": "members"}}, "expect": {"s": [], "m": "t"}},
        {
            "publish": {"p": {**said, "policy": "trim"}},
            "expect": {"s": {"topic": "t", "payload": '{"a":1}'}, "m": {"topic": "t", "payload": '{"a":1}'}},
        },
        {"publish": {"s": {**said, "policy": "trim"}}, "expect": {"*": []}, "verdicts": {"at": "n1", "rule": "policy"}},
    ]
    result = try_out("t", PolicyTest.model_validate({"steps": steps}), Rehearsal(settings, ensemble(settings)))
    assert result.failures == ()


def test_a_step_of_a_test_gives_a_policy_to_what_there_is_and_takes_it_away() -> None:
    publish = {"publish": {"p": {"topic": "t", "content": {"a": 1, "b": 2}}}}
    whole, less = ({"topic": "t", "payload": text} for text in ('{"a": 1, "b": 2}', '{"a":1}'))
    remove = RULE.format("If {} Then {RemoveAttributes(b)}")
    steps = [
        {"advertise": {"p": {"name": "all", "filter": "t"}}},
        {**publish, "expect": {"s": whole}},
        {"set_policy": {"s": {"subscription": "t", "name": "one", "policy": "trim"}}},
        {**publish, "expect": {"s": less}},
        {"set_policy": {"s": {"subscription": "t", "name": "one"}}},
        {**publish, "expect": {"s": whole}},
        {"set_policy": {"p": [{"advertisement": "all", "policy": remove}]}},
        {**publish, "expect": {"s": less}, "verdicts": {"at": "n0", "to": "n1", "rule": "p: all#1.1"}},
    ]
    test = PolicyTest.model_validate({"subscribe": {"s": {"filter": "t", "name": "one"}}, "steps": steps})
    settings = domain(policies={"trim": TRIM})
    assert try_out("t", test, Rehearsal(settings, ensemble(settings))).failures == ()
