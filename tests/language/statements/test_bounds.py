"""How large a policy statement can be in each form, and what is done with one that was made to do harm."""

from collections.abc import Callable

import pytest

from penstock.language.errors import StatementError
from penstock.language.limits import (
    MAX_ACTIONS,
    MAX_ARGUMENTS,
    MAX_CLAUSES,
    MAX_RULES,
    MAX_STATEMENT,
    MAX_STRING,
    MAX_TEXT,
)
from penstock.language.statements.parser import parse_statement
from penstock.language.statements.plain import from_plain
from penstock.language.statements.printer import show_compact, show_statement
from penstock.language.statements.xml import from_xml


def in_rule(inside: str) -> str:
    return f"PolicyStatement {{On(Forward, Publication) {{{inside}}}}}"


def with_rules(count: int) -> str:
    return f"PolicyStatement {{{'On(Forward, Publication) {If {} Then {}}' * count}}}"


def with_clauses(count: int) -> str:
    return in_rule("If {} Then {}" + "Elseif {} Then {}" * (count - 1))


def with_exceptions(count: int) -> str:
    return in_rule("If {} Then {} OnException {If {} Then {}" + "Elseif {} Then {}" * (count - 1) + "}")


def with_actions(count: int) -> str:
    return in_rule(f"If {{}} Then {{{', '.join(['A()'] * count)}}}")


def with_arguments(count: int) -> str:
    return in_rule(f"If {{}} Then {{A({', '.join(['a'] * count)})}}")


def with_string(length: int) -> str:
    return in_rule(f"If {{}} Then {{A('{'a' * length}')}}")


def with_name(length: int) -> str:
    return in_rule(f"If {{}} Then {{A({'a' * length})}}")


def with_condition(length: int) -> str:
    return in_rule(f"If {{{'a' * length}}} Then {{}}")


def with_canonical_condition(length: int) -> str:
    return in_rule(f"If {{a == '{chr(0x2028) * ((length - 7) // 6)}{'a' * ((length - 7) % 6)}'}} Then {{}}")


def with_text(length: int) -> str:
    return in_rule("If {} Then {}").rjust(length)


def with_canonical_form(length: int) -> str:
    """Short for its canonical form, in which each of the line separators takes six characters."""
    written = in_rule("If {} Then {A(%s)}")
    rest = length - len(show_statement(parse_statement(written % f"'{'a' * 200} '"))) + 201
    return written % f"'{chr(0x2028) * (rest // 6)}{'a' * (rest % 6)}'"


BOUNDS: list[tuple[Callable[[int], str], int, str]] = [
    (with_rules, MAX_RULES, "a policy statement has at most 50 rules"),
    (with_clauses, MAX_CLAUSES, "a chain has at most 50 clauses"),
    (with_exceptions, MAX_CLAUSES, "a chain has at most 50 clauses"),
    (with_actions, MAX_ACTIONS, "a clause has at most 50 actions"),
    (with_arguments, MAX_ARGUMENTS, "an action has at most 200 arguments"),
    (with_string, MAX_STRING, "an argument has at most 10000 characters, this has 10001"),
    (with_name, MAX_STRING, "an argument has at most 10000 characters, this has 10001"),
    (with_condition, MAX_TEXT, "a condition has at most 10000 characters, this has 10001"),
    (with_canonical_condition, MAX_TEXT, "a condition has at most 10000 characters, this has 10001 in canonical form"),
    (with_text, MAX_STATEMENT, "a policy statement has at most 20000 characters, this has 20001"),
    (
        with_canonical_form,
        MAX_STATEMENT,
        "a policy statement has at most 20000 characters, this has 20001 in canonical form",
    ),
]


@pytest.mark.parametrize(("text", "most", "what"), BOUNDS, ids=[text.__name__ for text, _, _ in BOUNDS])
def test_bound(text: Callable[[int], str], most: int, what: str) -> None:
    statement = parse_statement(text(most))
    assert parse_statement(show_statement(statement)) == parse_statement(show_compact(statement)) == statement
    with pytest.raises(StatementError) as caught:
        parse_statement(text(most + 1))
    assert caught.value.what == what


def test_new_lines_count_as_they_travel() -> None:
    """On one line a new line takes two characters."""
    with pytest.raises(StatementError, match="this has 20067 in canonical form"):
        parse_statement(in_rule(f"If {{}} Then {{A('{chr(10) * 5000}', '{chr(10) * 5000}')}}"))


PLAIN_RULE = {"on": "Forward Publication", "then": []}
PLAIN_BOUNDS: list[tuple[str, object, str]] = [
    ("rules", [PLAIN_RULE] * 51, "a policy statement has at most 50 rules"),
    ("clauses", [{"on": "Forward Publication", "rules": [{"then": []}] * 51}], "a chain has at most 50 clauses"),
    ("exceptions", [{**PLAIN_RULE, "on_exception": [{"then": []}] * 51}], "a chain has at most 50 clauses"),
    ("actions", [{**PLAIN_RULE, "then": ["A()"] * 51}], "a clause has at most 50 actions"),
    ("actions in texts", [{**PLAIN_RULE, "then": ["A(), A()"] * 26}], "a clause has at most 50 actions"),
    ("text", [{**PLAIN_RULE, "then": ["A(a)".ljust(10_000)] * 3}], "a policy statement has at most 20000 characters"),
    ("words", [{**PLAIN_RULE, "on": ["Forward"] * 1_000_000}], "expected what happens and the kind of message, as in"),
    ("key", [{**PLAIN_RULE, "a" * 1_000_000: 1}], f"expected `on`, .*, found `{'a' * 40}…`"),
]


@pytest.mark.parametrize(("value", "what"), [case[1:] for case in PLAIN_BOUNDS], ids=[case[0] for case in PLAIN_BOUNDS])
def test_bound_of_plain_form(value: object, what: str) -> None:
    with pytest.raises(StatementError, match=what):
        from_plain(value)


XML_CLAUSE = "<Clause><Then/></Clause>"
XML_RULE = f"<Rule verb='Forward' message='Publication'>{XML_CLAUSE}</Rule>"
XML_ACTION = "<Action name='A'/>"


def in_xml(inside: str) -> str:
    return f"<PolicyStatement><Rule verb='Forward' message='Publication'>{inside}</Rule></PolicyStatement>"


XML_BOUNDS = [
    (
        "rules",
        f"<PolicyStatement>{XML_RULE * 51}</PolicyStatement>",
        "a policy statement has at most 50 rules",
    ),
    ("clauses", in_xml(XML_CLAUSE * 51), "a chain has at most 50 clauses"),
    (
        "exceptions",
        in_xml(f"{XML_CLAUSE}<OnException>{XML_CLAUSE * 51}</OnException>"),
        "a chain has at most 50 clauses",
    ),
    (
        "actions",
        in_xml(f"<Clause><Then>{XML_ACTION * 51}</Then></Clause>"),
        "a clause has at most 50 actions",
    ),
    (
        "arguments",
        in_xml(
            f"<Clause><Then><Action name='A'>{'<Argument>1</Argument>' * 201}</Action></Then></Clause>",
        ),
        "an action has at most 200 arguments",
    ),
    (
        "text",
        in_xml(f"<Clause><If>{' ' * 20_001}</If><Then/></Clause>"),
        "a policy statement has at most 20000 characters",
    ),
    ("bytes", in_xml(XML_CLAUSE).ljust(500_001), "a policy statement in XML has at most 500000 bytes, this has 500001"),
    ("depth", "<PolicyStatement>" * 20_000, "expected `Rule`, found `PolicyStatement`"),
]


@pytest.mark.parametrize(("xml", "what"), [case[1:] for case in XML_BOUNDS], ids=[case[0] for case in XML_BOUNDS])
def test_bound_of_xml(xml: str, what: str) -> None:
    with pytest.raises(StatementError, match=what):
        from_xml(xml.encode())


LARGE = MAX_STATEMENT - 100
HOSTILE = {
    "braces": "{" * LARGE,
    "braces in a condition": in_rule("If {" + "{" * LARGE),
    "closed braces in a condition": in_rule("If {" + "{" * 4_000 + "}" * 4_000 + "} Then {}"),
    "parentheses in a condition": in_rule("If {" + "(" * 9_000 + "} Then {}"),
    "signs in a condition": in_rule("If {" + "!" * 9_000 + "a} Then {}"),
    "nested rules": "PolicyStatement {" + "On(Forward, Publication) {" * 700,
    "nested statements": "PolicyStatement {" * 1_000,
    "nested exceptions": in_rule("If {} Then {} " + "OnException {If {} Then {} " * 700),
    "nested actions": in_rule("If {} Then {" + "A(" * 9_000),
    "comments without an end": "//" * 9_000,
    "many short comments": "//\n" * 6_000,
    "comment signs inside a string": in_rule("If {} Then {A('" + "//" * 9_000),
    "quotation marks": in_rule("If {} Then {A(" + "'" * LARGE),
    "backslashes": in_rule("If {} Then {A('" + "\\" * LARGE),
    "backticks": in_rule("If {" + "`" * 9_000),
    "digits": in_rule("If {} Then {A(" + "9" * LARGE),
    "signs": in_rule("If {} Then {A(" + "-" * LARGE),
    "dots": in_rule("If {} Then {A(a" + ".-" * 9_000),
    "commas": in_rule("If {} Then {A(" + "," * LARGE),
    "qualifiers": in_rule("@" * LARGE),
    "words": "PolicyStatement " * 1_200,
    "one word": "P" * LARGE,
    "one qualifier": in_rule("@" + "b" * LARGE),
    "points": in_rule("@broker: " + "Ingress(" * 2_000),
    "NUL": "\0" * LARGE,
    "huge": "PolicyStatement {" * 1_000_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text(text: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse_statement(text)
    assert len(str(caught.value)) < 500


def test_billion_laughs() -> None:
    entities = "".join(f"<!ENTITY a{level} '" + f"&a{level - 1};" * 10 + "'>" for level in range(1, 10))
    document = f'<!DOCTYPE a [<!ENTITY a0 "ha">{entities}]><PolicyStatement>&a9;</PolicyStatement>'
    with pytest.raises(StatementError, match="a document type is not read"):
        from_xml(document.encode())
    with pytest.raises(StatementError, match="a document type is not read"):
        from_xml(document.encode("utf-16"))
