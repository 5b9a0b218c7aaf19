"""Each policy text of the paper in each of the forms."""

import json
from contextlib import nullcontext
from typing import Any

import pytest
import yaml

from penstock.language.errors import StatementError
from penstock.language.statements.parser import parse_statement
from penstock.language.statements.plain import from_plain, to_plain
from penstock.language.statements.printer import show_compact, show_statement
from penstock.language.statements.statement import (
    ANYWHERE,
    Attach,
    ElementUse,
    Message,
    Point,
    Statement,
    StatementClause,
    StatementRule,
    Verb,
)
from penstock.language.statements.table import check_place
from penstock.language.statements.xml import from_xml, to_xml
from penstock.language.tree import Attribute, Call
from tests.support.cases.statements import cases, paper, same

PAPER = cases("paper.yaml")
each_text = pytest.mark.parametrize("case", PAPER, ids=lambda case: case["title"])


@each_text
def test_prints(case: dict[str, Any]) -> None:
    assert show_statement(parse_statement(case["text"])) == case["canonical"]


@each_text
def test_parses_back(case: dict[str, Any]) -> None:
    statement = parse_statement(case["text"])
    assert same(parse_statement(case["canonical"]), statement)
    assert "\n" not in show_compact(statement)
    assert same(parse_statement(show_compact(statement)), statement)


@each_text
def test_plain_form(case: dict[str, Any]) -> None:
    statement = parse_statement(case["text"])
    written = yaml.safe_dump(to_plain(statement))
    assert same(from_plain(yaml.safe_load(written)), statement)
    assert same(from_plain(json.loads(json.dumps(to_plain(statement)))), statement)


@each_text
def test_xml(case: dict[str, Any]) -> None:
    statement = parse_statement(case["text"])
    assert same(from_xml(to_xml(statement)), statement)


@each_text
def test_place(case: dict[str, Any]) -> None:
    statement = parse_statement(case["text"])
    for message in Message:
        with nullcontext() if message in case["may_be_set_on"] else pytest.raises(StatementError):
            check_place(statement, message)


def test_the_tree_of_the_security_zones() -> None:
    """Fig. 16: one text seen in full, so that printer and parser cannot be wrong together."""

    def receiver(group: str) -> Call:
        return Call("AuthenticateReceiver", None, (Attribute(group),))

    zones = (
        StatementClause(receiver("Restricted")),
        StatementClause(receiver("Controlled"), (ElementUse("RemoveAttributes", ("a", "b", "n")),)),
        StatementClause(None, (ElementUse("BlockMessage"),)),
    )
    meta_event = f"[class,UnauthorizedSubscribe],\n{' ' * 20}[message,$Message]"
    inside = (Point.INGRESS, Point.ROUTING)
    assert parse_statement(paper()["Fig. 16, security zones"]) == Statement(
        (
            StatementRule(Verb.FORWARD, Message.ADVERTISEMENT, zones, points=inside),
            StatementRule(
                Verb.FORWARD,
                Message.SUBSCRIPTION,
                (
                    StatementClause(Call("AuthenticateSender", None, (Attribute("AuthorizedSubscribers"),))),
                    StatementClause(None, (ElementUse("Publish", (meta_event,)),)),
                ),
                points=(Point.INGRESS,),
            ),
            StatementRule(Verb.FORWARD, Message.PUBLICATION, zones, points=inside, attach=Attach.ALWAYS),
        )
    )


def test_all_points_are_no_restriction() -> None:
    assert parse_statement(paper()["Fig. 6, tracing"]).rules[0].points == ANYWHERE
