"""Numbers and booleans of clients' attributes in policies: cases on nodes, and what `check` says of other types."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.checks import contracts as checks
from penstock.domain.compile.ensemble import ensemble
from penstock.domain.problems import Remark
from penstock.domain.schema.contracts import compiled
from penstock.engine.governing import govern
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.errors import PolicyError
from penstock.policy.xacml.names import SHORT_CATEGORIES
from tests.support.cases.privacy_types import CASES, CLIENTS, expected, film_club, got, story

KEYS = ("attributes", "rules")


def domain_of(case: dict[str, Any], folder: Path) -> Domain:
    policy = folder / "policy.yaml"
    policy.write_text(json.dumps({"policy": "p", **{key: case[key] for key in KEYS if key in case}}))
    return Domain.model_validate(
        {
            "nodes": {"a": {"listen": "127.0.0.1:0"}},
            "clients": {"kid": {"node": "a", "attributes": {"age": case.get("age", 9)}}},
            "privacy": [{"name": "films", "topics": "film/#", "policies": str(policy)}],
        }
    )


def test_who_gets_what(tmp_path: Path) -> None:
    domain = film_club(tmp_path)
    rehearsal = Rehearsal(domain, ensemble(domain))
    for client in ("cinema", *CLIENTS):
        rehearsal.connect(client)
        rehearsal.subscribe(client, "#")
    for who, topic, content in story():
        rehearsal.publish(who, topic, json.dumps(content).encode())
    rehearsal.run()
    assert got({name: [one.topic for one in rehearsal.deliveries(name)] for name in CLIENTS}) == expected()
    assert not list(checks.check(domain))


@pytest.mark.parametrize("case", CASES["refused"], ids=lambda case: case["title"])
def test_other_types_are_refused(case: dict[str, Any], tmp_path: Path) -> None:
    domain = domain_of(case, tmp_path)
    (said,) = checks.check(domain)
    assert case["says"] in str(said)
    with pytest.raises(PolicyError, match="policy `p` asks for"):
        compiled(domain)


@pytest.mark.parametrize("case", CASES["warned"], ids=lambda case: case["title"])
def test_other_types_are_warned_of(case: dict[str, Any], tmp_path: Path) -> None:
    domain = domain_of(case, tmp_path)
    assert not list(checks.check(domain))
    said = [str(one) for one in checks.warnings(domain)]
    assert [case["says"] in one for one in said] == ([True] if "says" in case else [])


# --- policies in XACML that contracts bring


def designated(function: str, type: str, value: str, category: str, attribute: str) -> str:
    """A policy in XML that permits if an attribute, of this type, is a value."""
    uri = f"http://www.w3.org/2001/XMLSchema#{type}"
    combining = "urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:deny-unless-permit"
    return f"""<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="p" Version="1.0"
 RuleCombiningAlgId="{combining}"><Target/><Rule RuleId="r" Effect="Permit"><Target><AnyOf><AllOf>
 <Match MatchId="urn:oasis:names:tc:xacml:1.0:function:{function}">
 <AttributeValue DataType="{uri}">{value}</AttributeValue>
 <AttributeDesignator Category="{SHORT_CATEGORIES[category]}" AttributeId="{attribute}" DataType="{uri}"
 MustBePresent="true"/></Match></AllOf></AnyOf></Target></Rule></Policy>"""


AT = ("contracts", "producers", "mine", "xacml")
WRONG = {
    "an integer that the domain has as a text": (
        ("integer-equal", "integer", "9", "subject", "badge"),
        "policy `p` asks for `badge` as integer, and that of client `kid` is string",
    ),
    "an integer that the domain has as a double": (
        ("integer-equal", "integer", "9", "subject", "height"),
        "policy `p` asks for `height` as integer, and that of client `kid` is double",
    ),
    "the purpose as a number": (
        ("double-equal", "double", "9", "subject", "purpose"),
        "policy `p` asks for `purpose` as double, and that of nodes is string",
    ),
    "a retention as a text": (
        ("string-equal", "string", "9", "subject", "retention"),
        "policy `p` asks for `retention` as string, and that of nodes is double: it is not found",
    ),
    "a quality as an integer": (
        ("integer-equal", "integer", "9", "resource", "quality:precision/precision/precision"),
        "policy `p` asks for `quality:precision/precision/precision` as integer, and that of nodes is double",
    ),
    "a type that nodes never give": (
        ("date-equal", "date", "2026-11-18", "subject", "since"),
        "attribute `since` is asked for as date, which nodes do not give",
    ),
}
RIGHT = {
    "an integer": ("integer-equal", "integer", "9", "subject", "age"),
    "the same as a text": ("string-equal", "string", "9", "subject", "age"),
    "the same as a double": ("double-equal", "double", "9", "subject", "age"),
    "an attribute that nobody knows": ("integer-equal", "integer", "9", "subject", "unknown"),
    "a quality": ("double-equal", "double", "9", "resource", "quality:precision/precision/precision"),
}


def with_contracts(xacml: str = "", **kid: Any) -> Domain:
    attributes = {"age": 9, "badge": "9", "height": 9.5, **kid}
    producers = {"mine": {"producer": "cinema", "filter": "film/#", "xacml": xacml}} if xacml else {}
    return Domain.model_validate(
        {
            "nodes": {"a": {"listen": "127.0.0.1:0"}},
            "clients": {"cinema": {"node": "a"}, "kid": {"node": "a", "attributes": attributes}},
            "contracts": {"producers": producers, "bring": ["cinema"]},
        }
    )


def warnings_of(domain: Domain) -> list[Remark]:
    """What `check` warns of, where the domain has no mistakes."""
    return [] if list(checks.check(domain)) else list(checks.warnings(domain))


def bring(domain: Domain, xacml: str) -> Rehearsal:
    play = Rehearsal(domain, ensemble(domain))
    play.connect("cinema")
    play.bring("cinema", "mine", {"produces": {"filter": "film/#", "xacml": xacml}})
    play.run()
    return play


@pytest.mark.parametrize(("asked", "why"), WRONG.values(), ids=WRONG.keys())
def test_a_contract_with_a_type_that_is_not_given_is_refused_with_the_attribute(
    asked: tuple[str, str, str, str, str], why: str
) -> None:
    (notice,) = bring(with_contracts(), designated(*asked)).notices
    assert notice.kind == "contract denied"
    assert notice.reason.startswith("contract `mine`: xacml: ")
    assert why in notice.reason
    domain = with_contracts(designated(*asked))
    said = [each for each in (*checks.check(domain), *warnings_of(domain)) if isinstance(each, Remark)]
    assert any(each.loc == AT and why in each.what for each in said), said


@pytest.mark.parametrize("asked", RIGHT.values(), ids=RIGHT.keys())
def test_a_contract_with_types_as_they_are_given_is_taken(asked: tuple[str, str, str, str, str]) -> None:
    assert bring(with_contracts(), designated(*asked)).notices == ()
    assert not list(checks.check(with_contracts(designated(*asked))))
    assert not [each for each in checks.warnings(with_contracts(designated(*asked))) if each.loc == AT]


def test_a_reload_that_takes_the_type_away_is_told() -> None:
    play = bring(with_contracts(), designated(*RIGHT["an integer"]))
    node, after = play.nodes["a"], ensemble(with_contracts(age="nine"))
    govern(node, node.limits, node.admission.passwords, node.admission.acl, after, play.now)
    (notice,) = play.notices
    assert notice.kind == "policy failed"
    assert "policy `p` asks for `age` as integer, and that of client `kid` is string" in notice.reason
