"""Differences between two domains."""

from typing import Any

import pytest

from penstock.domain import Domain, diff
from penstock.domain.diff import ChangeKind
from tests.domain.compile.test_patterns import SAMPLES
from tests.support.scenes.domains import nodes

BASE: dict[str, Any] = {
    "nodes": nodes("a", "b"),
    "links": [{"between": ["a", "b"], "type": "t"}],
    "clients": {
        "x": {"node": "a", "type": "t"},
        "y": {"node": "b", "type": "t", "advertises": [{"name": "n", "filter": "p/+", "where": "v < 5"}]},
    },
    "content": [{"topics": "o", "format": "opaque"}, {"topics": ["p/#", "q"], "format": "json"}],
    "brokering": {"types": ["t", "u"], "deny": [{"from": "u", "to": "t"}]},
    "monitors": {"m": {"link": "a -> b", "filter": "p"}, "n": {"link": "a -> b", "filter": "p"}},
}


LOG = "PolicyStatement { On(Forward, Publication) { If {} Then {Log()} } }"


def domain(**changed: Any) -> Domain:
    return Domain.model_validate({**BASE, **changed})


def node(name: str, **keys: Any) -> dict[str, Any]:
    return {**BASE["nodes"], name: {**BASE["nodes"][name], **keys}}


@pytest.mark.parametrize("title", SAMPLES)
def test_equal_domains_have_no_difference(title: str) -> None:
    first, second = (Domain.model_validate(SAMPLES[title]) for _ in range(2))
    assert not diff(first, second)
    assert str(diff(first, second)) == "nothing changes"


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        ({"domain": "z"}, ["domain changed: from `penstock` to `z` (needs a restart)"]),
        ({"nodes": nodes("a", "b", "c")}, ["node `c` added"]),
        ({"nodes": node("a", listen="127.0.0.1:5")}, ["listeners `a` changed (needs a restart)"]),
        ({"journal": {"folder": "j"}}, ["journal added (needs a restart)"]),
        ({"nodes": node("a", store="a.db")}, ["settings `a` changed: `store` (needs a restart)"]),
        ({"nodes": node("a", sys_interval=5)}, ["settings `a` changed: `sys_interval`"]),
        ({"nodes": node("a", limits={"inflight": 5})}, ["limits `a` changed"]),
        ({"nodes": node("b", passwords="users")}, ["passwords `b` changed"]),
        ({"nodes": node("b", acl="rights")}, ["acl `b` changed"]),
        ({"nodes": node("b", brokering={"deny": []})}, ["table `b` changed"]),
        ({"nodes": node("b", brokering={"default": "t"})}, ["default `b` changed: clients that are not listed"]),
        (
            {"links": [{"between": ["a", "b"], "type": "u"}]},
            ["link `a -> b` changed: from type `t` to `u`", "link `b -> a` changed: from type `t` to `u`"],
        ),
        (
            {"links": [{"between": ["a", "b"], "type": "t", "back": "u"}]},
            ["link `b -> a` changed: from type `t` to `u`"],
        ),
        ({"links": [{"between": ["a", "b"], "type": "t", "queue": 5}]}, ["connection `a - b` changed: `queue`"]),
        (
            {"links": [{"between": ["a", "b"], "type": "t", "forward": {"p/#": "routed", "#": "all"}}]},
            ["connection `a - b` changed: `forward`"],
        ),
        ({"content": [*BASE["content"], {"topics": "r", "format": "xml"}]}, ["content `r` added"]),
        ({"content": BASE["content"][:1]}, ["content `p/#, q` removed"]),
        ({"content": BASE["content"][::-1]}, ["content changed: their order"]),
        ({"content": [{"topics": "o", "format": "text"}, BASE["content"][1]]}, ["content `o` changed: `format`"]),
        (
            {"clients": {**BASE["clients"], "x": {"node": "a", "type": "t", "where": {"p/#": "v > 1"}}}},
            ["client `x` changed: `where`"],
        ),
        (
            {"clients": {**BASE["clients"], "y": {"node": "b", "type": "t", "advertises": []}}},
            ["client `y` changed: `advertises`"],
        ),
        (
            {"links": [], "monitors": {}},
            [
                "connection `a - b` removed",
                "link `a -> b` removed",
                "link `b -> a` removed",
                "monitor `m` removed",
                "monitor `n` removed",
            ],
        ),
        ({"foreign": {"f": {"address": "localhost:1"}}}, ["foreign broker `f` added"]),
        (
            {"clients": {"x": {"node": "a", "type": "t", "user": "bob"}, "z": {"node": "b", "type": "t"}}},
            [
                "link `y -> b` removed",
                "link `b -> y` removed",
                "link `z -> b` added",
                "link `b -> z` added",
                "client `y` removed",
                "client `x` changed: `user`",
                "client `z` added",
            ],
        ),
        ({"brokering": {"types": ["t", "u"]}}, ["table `a` changed", "table `b` changed"]),
        (
            {"monitors": {"m": {"link": "a -> b", "filter": "q"}, "n": BASE["monitors"]["n"]}},
            ["monitor `m` changed: `filter`"],
        ),
        ({"monitors": {"n": BASE["monitors"]["n"], "m": BASE["monitors"]["m"]}}, ["monitor changed: their order"]),
        ({"assertions": [{"never": "x to y"}]}, ["assertions changed"]),
        ({"nodes": node("a", overlay="east")}, ["settings `a` changed: `overlay`"]),
        (
            {"statements": {"policies": {"one": LOG}, "files": [{"name": "two", "file": "two.policy"}]}},
            ["policy `one` added", "policy `two` added"],
        ),
        (
            {
                "statements": {
                    "policies": {"one": LOG},
                    "apply": [{"policy": "one", "to": "publication", "of": "x"}],
                    "grants": [{"to": "x", "set": "publication", "elements": "Log"}],
                }
            },
            ["policy `one` added", "given policies changed", "grants of policies changed"],
        ),
    ],
)
def test_a_difference_says_what_is_other(changed: dict[str, Any], lines: list[str]) -> None:
    assert str(diff(domain(), domain(**changed))).split("\n") == lines


def test_policies_are_compared_by_what_they_say() -> None:
    plain = [{"on": "Forward Publication", "then": "Log()"}]
    first, same, other, none = (
        domain(statements={"policies": policies})
        for policies in ({"p": LOG}, {"p": plain}, {"p": LOG.replace("Log", "BlockMessage")}, {})
    )
    assert not diff(first, same)
    assert str(diff(first, other)) == "policy `p` changed"
    assert str(diff(first, none)) == "policy `p` removed"
    assert diff(first, other).needs_restart == ()


def test_what_a_rule_spells_otherwise_but_means_the_same_is_no_difference() -> None:
    together = domain(brokering={"types": ["t", "u"], "deny": [{"from": ["t", "u"], "to": "t"}]})
    other = domain(brokering={"types": ["u", "t"], "deny": [{"from": "u", "to": "t"}, {"from": "t", "to": "t"}]})
    assert not diff(together, other)


def test_a_condition_that_is_only_written_otherwise_is_no_difference() -> None:
    first, second = (
        domain(clients={"x": {"node": "a", "type": "t", "where": {"p": text}}}) for text in ("v>1 && (w)", "v > 1&&w")
    )
    assert not diff(first, second)


def test_what_is_said_about_content_changes_without_a_restart() -> None:
    changed = domain(
        content=[],
        links=[{"between": ["a", "b"], "type": "t", "forward": "routed"}],
        clients={"x": {"node": "a", "type": "t", "where": {"p": "v > 1"}}, "y": {"node": "b", "type": "t"}},
    )
    whole = diff(domain(), changed)
    assert {change.kind for change in whole.changes} == {ChangeKind.CONTENT, ChangeKind.CONNECTION, ChangeKind.CLIENT}
    assert whole.needs_restart == ()


def test_patterns_are_compared_by_what_they_expand_to() -> None:
    short = Domain.model_validate(
        {"nodes": nodes("a", "b"), "patterns": [{"pattern": "hierarchy", "parents": {"a": "b"}}]}
    )
    spelt = Domain.model_validate(
        {
            "nodes": nodes("a", "b"),
            "links": [{"between": ["a", "b"], "type": "up", "back": "down"}],
            "brokering": {"types": ["up", "down"], "deny": [{"from": "down", "to": "up"}]},
        }
    )
    assert not diff(short, spelt)


def test_a_change_is_a_value() -> None:
    whole = diff(domain(), domain(links=[{"between": ["a", "b"], "type": "u"}], nodes=node("a", listen="127.0.0.1:5")))
    assert [(change.name, change.effect) for change in whole.of(ChangeKind.LINK)] == [
        ("a -> b", "changed"),
        ("b -> a", "changed"),
    ]
    assert whole.of(ChangeKind.LINK, "added") == ()
    assert [change.kind for change in whole.needs_restart] == [ChangeKind.LISTENERS]
    assert {change.new.type for change in whole.of(ChangeKind.LINK)} == {"u"}  # type: ignore[attr-defined]
