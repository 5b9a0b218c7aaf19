"""Arguments of actions, and what else may stand between the parts of a statement."""

import pytest

from penstock.language.statements.parser import parse_statement
from penstock.language.statements.printer import show_argument, show_compact
from penstock.language.statements.statement import Argument, Attach, Matching, Point

ARGUMENTS: list[tuple[str, Argument, str]] = [
    ("TrustGroup1", "TrustGroup1", "TrustGroup1"),
    ("a.b", "a.b", "a.b"),
    ("zone-1.a_b", "zone-1.a_b", "zone-1.a_b"),
    ("in", "in", "in"),
    ("Then", "Then", "Then"),
    ("null", "null", "null"),
    ("r", "r", "r"),
    ("true", True, "true"),
    ("false", False, "false"),
    ("'true'", "true", '"true"'),
    ("'True'", "True", '"True"'),
    ("truth", "truth", "truth"),
    ("0", 0, "0"),
    ("-1", -1, "-1"),
    ("+1", 1, "1"),
    ("0x1F", 31, "31"),
    ("9223372036854775807", 2**63 - 1, "9223372036854775807"),
    ("-9223372036854775808", -(2**63), "-9223372036854775808"),
    ("1.0", 1.0, "1.0"),
    (".5", 0.5, "0.5"),
    ("-1e3", -1000.0, "-1000.0"),
    ("'1'", "1", '"1"'),
    ("''", "", '""'),
    ('"a"', "a", "a"),
    ("'a b'", "a b", '"a b"'),
    ('"it\'s"', "it's", '"it\'s"'),
    ("'say \"a\"'", 'say "a"', "'say \"a\"'"),
    (r"'\n\x41\u00e9'", "\nAé", r'"\nAé"'),
    (r"r'\n'", "\\n", r'"\\n"'),
    ("'''a\n'b'''", "a\n'b", r'"a\n' + "'" + 'b"'),
    ("'a\nb'", "a\nb", r'"a\nb"'),
    ("'a\r\nb'", "a\r\nb", r'"a\r\nb"'),
    ("'// }'", "// }", '"// }"'),
    ("`a b`", "a b", '"a b"'),
    ("a // first\n", "a", "a"),
]


@pytest.mark.parametrize(("text", "value", "shown"), ARGUMENTS)
def test_argument(text: str, value: Argument, shown: str) -> None:
    (rule,) = parse_statement(f"PolicyStatement {{On(Forward, Publication) {{If {{}} Then {{A({text})}}}}}}").rules
    (read,) = rule.clauses[0].actions[0].arguments
    assert (type(read), read) == (type(value), value)
    assert show_argument(read) == shown


LAYOUTS = {
    "no blanks": "PolicyStatement{On(Forward,Publication){@broker:Egress@attach:Always If{a>1}Then{A(),B(a,b)}}}",
    "a blank everywhere": " PolicyStatement { On ( Forward , Publication ) { @broker : Egress @attach : Always "
    "If { a > 1 } Then { A ( ) , B ( a , b ) } } } ",
    "a new line everywhere": "PolicyStatement\n{\nOn\n(\nForward\n,\nPublication\n)\n{\n@broker\n:\nEgress\n@attach\n"
    ":\nAlways\nIf\n{\na\n>\n1\n}\nThen\n{\nA\n(\n)\n,\nB\n(\na\n,\nb\n)\n}\n}\n}\n",
    "carriage returns": "PolicyStatement {\r\n\tOn(Forward, Publication) {\r\n@broker: Egress // x\r\n@attach: Always"
    "\r\nIf {a > 1} Then {A(), B(a, b)}}}\r\n",
    "comments": "// p\nPolicyStatement {// p\nOn( // On(\nForward, Publication) {// @matching: Before\n@broker: "
    "// Ingress\nEgress @attach: Always If {a > 1 // }\n} Then {A(), // C(),\nB(a, b)} // Elseif\n}}//",
    "qualifiers the other way round": "PolicyStatement {On(Forward, Publication) {@attach: Always @broker: Egress "
    "@yield_attach: False @match: After If {a > 1} Then {A(), B(a, b)}}}",
}


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_layout(text: str) -> None:
    usual = (
        "PolicyStatement {On(Forward, Publication) {@broker: Egress @attach: Always If {a > 1} Then {A(), B(a, b)}}}"
    )
    assert parse_statement(text) == parse_statement(usual)
    assert show_compact(parse_statement(text)) == usual


POINTS = [
    ("Egress", "Egress"),
    ("Routing, Ingress", "Ingress Routing"),
    ("Routing (Ingress)", "Ingress Routing"),
    ("Routing (Egress, Ingress)", "Ingress Egress Routing"),
    ("Egress (Routing) (Ingress)", "Ingress Egress Routing"),
]


@pytest.mark.parametrize(("text", "points"), POINTS)
def test_points(text: str, points: str) -> None:
    (rule,) = parse_statement(
        f"PolicyStatement {{On(Forward, Publication) {{@broker: {text} If {{}} Then {{}}}}}}"
    ).rules
    assert rule.points == tuple(map(Point, points.split()))


def test_what_is_so_without_saying() -> None:
    (rule,) = parse_statement("PolicyStatement {On(Forward, Publication) {If {} Then {}}}").rules
    assert (rule.matching, rule.points, rule.attach, rule.yields) == (Matching.AFTER, tuple(Point), Attach.NEVER, False)
    assert (rule.clauses[0].condition, rule.clauses[0].actions, rule.on_exception) == (None, (), ())
