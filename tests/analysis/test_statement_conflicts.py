"""Policies at odds: which `penstock check` tells of, and that nodes resolve them as it says."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.analysis.statement_conflicts import conflicts
from penstock.cli.domain.check import check_domain
from penstock.domain import Domain, read
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.support.generators.examples import some

ON = "PolicyStatement {{ On(Forward, Publication) {{ {} }} }}"


def always(actions: str, head: str = "") -> str:
    return ON.format(f"{head} If {{}} Then {{{actions}}}")


def if_(condition: str, actions: str) -> str:
    return ON.format(f"If {{{condition}}} Then {{{actions}}}")


def domain(*given: dict[str, Any]) -> Domain:
    """Policies `p0`, `p1`, ...: each with what it is given to."""
    return Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("n0", "n1")},
            "links": [{"between": ["n0", "n1"]}],
            "clients": {"p": {"node": "n0"}, "q": {"node": "n0"}, "s": {"node": "n0"}, "t": {"node": "n1"}},
            "statements": {
                "policies": {f"p{at}": one["policy"] for at, one in enumerate(given)},
                "apply": [{**one, "policy": f"p{at}"} for at, one in enumerate(given)],
            },
        }
    )


def found(*given: dict[str, Any]) -> list[str]:
    return [one.what for one in conflicts(ensemble(domain(*given)).statements)]


def publication(policy: str, of: str = "p", **more: Any) -> dict[str, Any]:
    return {"policy": policy, "to": "publication", "of": of, **more}


def advertisement(policy: str, of: str = "p", **more: Any) -> dict[str, Any]:
    return {"policy": policy, "to": "advertisement", "of": of, **more}


def subscription(policy: str, of: str = "s", **more: Any) -> dict[str, Any]:
    return {"policy": policy, "to": "subscription", "of": of, **more}


XML, JSON = always("ToXML()"), always("ToJSON()")
BLOCK, FLOOD = always("BlockMessage()"), always("FloodMessage()")
KEEP, REMOVE = always("KeepOnlyAttributes(a, b)"), always("RemoveAttributes(b, c)")
OPPOSITE = "`p0` and `p1` ask the opposite of one message, "

AT_ODDS = {
    "one blocks, the other floods": (
        [publication(FLOOD), publication(if_("a > 1", "BlockMessage()"))],
        [OPPOSITE + "`FloodMessage()` and `BlockMessage()`: it is blocked"],
        {"a": 2},
        None,
    ),
    "one removes, the other keeps": (
        [publication(KEEP), advertisement(REMOVE)],
        [OPPOSITE + "`KeepOnlyAttributes(a, b)` and `RemoveAttributes(b, c)`: `b` is removed"],
        {"a": 2, "b": 3, "c": 4},
        '{"a":2}',
    ),
    "and the other way round": (
        [publication(REMOVE), subscription(KEEP)],
        [OPPOSITE + "`RemoveAttributes(b, c)` and `KeepOnlyAttributes(a, b)`: `b` is removed"],
        {"a": 2, "b": 3, "c": 4},
        '{"a":2}',
    ),
    "two formats": (
        [publication(XML), subscription(JSON)],
        [OPPOSITE + "`ToXML()` and `ToJSON()`: `ToJSON()` of `p1` comes later and holds"],
        {"class": "x", "a": "2"},
        '{"class": "x", "a": "2"}',
    ),
    "two formats, in the order in which they are applied and not given": (
        [subscription(XML), publication(JSON)],
        [
            "`p1` and `p0` ask the opposite of one message, `ToJSON()` and `ToXML()`:"
            " `ToXML()` of `p0` comes later and holds"
        ],
        {"class": "x", "a": "2"},
        "<event><class>x</class><a>2</a></event>",
    ),
    "two places at which a message is at once": (
        [
            publication(always("ToXML()", "@broker: Ingress")),
            subscription(always("ToJSON()", "@broker: Egress")),
        ],
        [OPPOSITE + "`ToXML()` and `ToJSON()`: `ToJSON()` of `p1` comes later and holds"],
        {"class": "x", "a": "2"},
        '{"class": "x", "a": "2"}',
    ),
    "conditions that can both hold": (
        [publication(if_("a > 1", "ToXML()")), subscription(if_("a < 5", "ToJSON()"))],
        [OPPOSITE + "`ToXML()` and `ToJSON()`: `ToJSON()` of `p1` comes later and holds"],
        {"class": "x", "a": 2},
        None,
    ),
    "a clause that is reached where the other policy acts": (
        [publication(ON.format("If {a > 9} Then {} Elseif {} Then {ToXML()}")), subscription(if_("a < 5", "ToJSON()"))],
        [OPPOSITE + "`ToXML()` and `ToJSON()`: `ToJSON()` of `p1` comes later and holds"],
        {"class": "x", "a": 2},
        None,
    ),
}


@pytest.mark.parametrize("title", AT_ODDS)
def test_policies_at_odds_are_found(title: str) -> None:
    given, expected, _, _ = AT_ODDS[title]
    assert found(*given) == expected


@pytest.mark.parametrize("title", AT_ODDS)
def test_a_node_tells_of_them_and_resolves_them_as_it_was_said(title: str) -> None:
    given, (told, *_), message, result = AT_ODDS[title]
    made = domain(*given)
    rehearsal = Rehearsal(made, ensemble(made))
    for client in ("p", "s"):
        rehearsal.connect(client, "n0")
    rehearsal.subscribe("s", "x")
    rehearsal.subscribe("s", "$penstock/meta/#")
    rehearsal.publish("p", "x", json.dumps(message).encode())
    rehearsal.run()
    got = {one.topic: one.payload.decode() for one in rehearsal.deliveries("s")}
    meta = json.loads(got["$penstock/meta/PolicyConflict"])
    assert all(name in meta["reason"] for name in ("`p0`", "`p1`"))
    assert meta["class"] == "PolicyConflict"
    if "is blocked" in told:
        assert "x" not in got
    elif result is not None:
        assert got["x"] == result


NEVER = {
    "a block for all comes first": (
        [publication(BLOCK, "*"), subscription(always("Log(seen)"))],
        ["`Log(seen)` of `p1` is never done: `p0` comes first and blocks all that it is for"],
    ),
    "a block for the same client": (
        [publication(BLOCK), advertisement(always("Log(seen)"))],
        ["`Log(seen)` of `p1` is never done: `p0` comes first and blocks all that it is for"],
    ),
    "subscriptions that are never let in": (
        [
            advertisement("PolicyStatement { On(Insert, Subscription) { If {} Then {UninsertMessage()} } }", "*"),
            advertisement("PolicyStatement { On(Insert, Subscription) { If {} Then {Log()} } }"),
        ],
        ["`Log()` of `p1` is never done: `p0` comes first and lets in none of what it is for"],
    ),
}


@pytest.mark.parametrize("title", NEVER)
def test_actions_that_are_never_done_are_found(title: str) -> None:
    given, expected = NEVER[title]
    assert found(*given) == expected


AT_PEACE = {
    "the same": [publication(XML), subscription(XML)],
    "other clients' publications": [publication(XML), publication(JSON, "q")],
    "other readers": [subscription(XML), subscription(JSON, "t")],
    "other topics": [publication(XML, filter="a/#"), subscription(JSON, filter="b/#")],
    "other points": [
        publication(always("ToXML()", "@broker: Egress")),
        advertisement(always("ToJSON()", "@broker: Routing")),
    ],
    "other places of what is inserted": [
        advertisement(
            "PolicyStatement { On(Insert, Subscription) { @broker: Ingress If {} Then {UninsertMessage()} } }", "*"
        ),
        advertisement("PolicyStatement { On(Insert, Subscription) { @broker: Routing If {} Then {Log()} } }"),
    ],
    "other content": [publication(if_("a > 5", "ToXML()")), subscription(if_("a < 5", "ToJSON()"))],
    "other content, by what the policies are given to": [
        publication(XML, where="a > 5"),
        subscription(JSON, where="a < 5"),
    ],
    "a clause that is not reached there": [
        publication(ON.format("If {a > 5} Then {ToXML()} Elseif {} Then {}")),
        subscription(ON.format("If {a > 5} Then {} Elseif {} Then {ToJSON()}")),
    ],
    "what only an element can say": [
        publication(if_("AuthenticateReceiver(g)", "ToXML()")),
        subscription(if_("MessageSizeIndex() > 0.5", "ToJSON()")),
    ],
    "what is removed is not what is kept": [publication(KEEP), publication(always("RemoveAttributes(z)"))],
    "other nodes": [
        {"policy": XML, "to": "advertisement", "at": "n0"},
        {"policy": JSON, "to": "advertisement", "at": "n1"},
    ],
    "a block after the others": [publication(always("Log()")), subscription(BLOCK)],
    "a block of some": [publication(if_("a > 1", "BlockMessage()")), subscription(always("Log()"))],
    "a block of fewer topics": [publication(BLOCK, "*", filter="a"), subscription(always("Log()"))],
    "a block at fewer points": [
        publication(always("BlockMessage()", "@broker: Ingress"), "*"),
        subscription(always("Log()")),
    ],
    "a block for one of many": [publication(BLOCK), subscription(always("Log()"))],
    "one policy alone": [publication(always("ToXML(), ToJSON()"))],
}


@pytest.mark.parametrize("title", AT_PEACE)
def test_what_is_not_at_odds_is_not_told(title: str) -> None:
    assert found(*AT_PEACE[title]) == []


# --- what is found, beside what happens

# `>=` is left out: where neither `a < 1` nor `a >= 1` holds, `a` is not a number, and JSON has no such value.
conditions = st.builds(lambda sign, value: f"a {sign} {value}", st.sampled_from(["<", "=="]), st.integers(0, 2))
clauses = st.lists(st.tuples(conditions, st.sampled_from(["", "ToXML()", "ToJSON()"])), min_size=1, max_size=2)
places = st.sampled_from(["", "@broker: Ingress", "@broker: Egress"])
kinds = st.sampled_from([publication, advertisement, subscription])


@st.composite
def givens(draw: st.DrawFn) -> dict[str, Any]:
    """A policy for p or q, which both publish and subscribe."""
    chain = [
        *draw(clauses),
        *draw(st.lists(st.tuples(st.just(""), st.sampled_from(["ToXML()", "ToJSON()"])), max_size=1)),
    ]
    told = " Elseif ".join(f"{{{condition}}} Then {{{action}}}" for condition, action in chain)
    more = draw(st.fixed_dictionaries({"filter": st.sampled_from(["#", "x", "y"])}, optional={"where": conditions}))
    who = draw(st.sampled_from(["*", "p", "q"]))
    made: dict[str, Any] = draw(kinds)(ON.format(f"{draw(places)} If {told}"), who, **more)
    return made


@settings(max_examples=some(25), deadline=None)
@given(givens(), givens())
def test_two_policies_are_told_to_be_at_odds_if_and_only_if_some_message_shows_it(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    made = domain(first, second)
    rehearsal = Rehearsal(made, ensemble(made))
    for client in ("p", "q", "s"):
        rehearsal.connect(client, "n0")
    for reader in ("p", "q"):
        for topic in ("x", "y"):
            rehearsal.subscribe(reader, topic)
    rehearsal.subscribe("s", "$penstock/meta/PolicyConflict")
    for publisher in ("p", "q"):
        for topic in ("x", "y"):
            for value in range(-1, 7):
                rehearsal.publish(publisher, topic, json.dumps({"a": value / 2}).encode())
    rehearsal.run()
    assert bool(found(first, second)) == bool(rehearsal.deliveries("s"))


def test_the_command_tells_of_them_as_warnings_where_they_are_given(tmp_path: Path) -> None:
    (tmp_path / "domain.yaml").write_text(
        f"""
nodes: {{n0: {{listen: "127.0.0.1:0"}}}}
clients: {{p: {{node: n0}}, s: {{node: n0}}}}
statements:
  policies:
    one: {XML}
    two: {JSON}
  apply:
  - {{policy: one, to: publication, of: p}}
  - {{policy: two, to: subscription, of: s}}
"""
    )
    report = check_domain(read(tmp_path / "domain.yaml", {}))
    (warning,) = report.warnings
    assert (warning.line, warning.path) == (10, "statements.apply[1]")
    assert "ask the opposite of one message" in warning.what
    assert not report.problems
