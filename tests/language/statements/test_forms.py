"""Every form says the same: random statements through each of them, and texts that are nearly statements."""

import json
from collections.abc import Callable

import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock.language.errors import StatementError
from penstock.language.statements.parser import parse_statement
from penstock.language.statements.plain import from_plain, to_plain
from penstock.language.statements.printer import show_clause, show_compact, show_statement, show_use
from penstock.language.statements.statement import Statement
from penstock.language.statements.xml import from_xml, to_xml
from tests.support.cases.statements import paper, same
from tests.support.generators.statements import mutations, statements, wild_texts

TEXTS = st.one_of(st.sampled_from(list(paper().values())), statements.map(show_compact))
XMLS = st.one_of(st.sampled_from(list(paper().values())).map(parse_statement), statements).map(
    lambda statement: to_xml(statement).decode()
)


def attempt(read: Callable[[], Statement]) -> Statement | StatementError:
    """What is read, or the only error that may come of it."""
    try:
        return read()
    except StatementError as error:
        return error


@given(statements)
def test_round_trip(statement: Statement) -> None:
    text, line = show_statement(statement), show_compact(statement)
    assert line.isprintable()
    assert same(parse_statement(line), statement)
    assert same(parse_statement(text), statement)
    assert show_statement(parse_statement(text)) == text
    plain = to_plain(statement)
    assert same(from_plain(json.loads(json.dumps(plain))), statement)
    assert same(from_plain(yaml.safe_load(yaml.safe_dump(plain))), statement)
    assert same(from_xml(to_xml(statement)), statement)
    for rule in statement.rules:
        assert show_clause(rule.clauses[0]) in line
        assert all(show_use(use) in line for clause in rule.clauses for use in clause.actions)


def test_places_are_those_of_the_text() -> None:
    for text in paper().values():
        for rule in parse_statement(text).rules:
            assert text.startswith("On", rule.at)
            for word, clause in zip(("If", *["Else"] * len(rule.clauses)), rule.clauses, strict=False):
                assert text.startswith(word, clause.at)
                assert all(text.startswith(use.name, use.at) for use in clause.actions)


@given(st.one_of(wild_texts, mutations(TEXTS)))
def test_wild_text(text: str) -> None:
    read = attempt(lambda: parse_statement(text))
    if isinstance(read, StatementError):
        assert all(line.isprintable() for line in str(read).split("\n"))
        assert read.at is None or 0 <= read.at <= len(text)
    else:
        assert same(parse_statement(show_statement(read)), read)
        assert same(from_xml(to_xml(read)), read)
        assert same(from_plain(to_plain(read)), read)


@given(st.one_of(st.binary(max_size=60), mutations(XMLS).map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_wild_xml(data: bytes) -> None:
    read = attempt(lambda: from_xml(data))
    if isinstance(read, StatementError):
        assert all(line.isprintable() for line in str(read).split("\n"))
    else:
        assert same(from_xml(to_xml(read)), read)
        assert same(parse_statement(show_compact(read)), read)


WORDS = st.sampled_from(["on", "if", "then", "rules", "broker", "attach", "yield_attach", "on_exception", "Forward"])
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), WORDS, wild_texts, st.binary(max_size=3))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.one_of(WORDS, LEAVES), inner, max_size=3),
    max_leaves=8,
)
RULES = st.fixed_dictionaries(
    {"on": st.one_of(st.just("Forward Publication"), VALUES)},
    optional={
        "broker": st.one_of(st.just(["Egress"]), VALUES),
        "if": st.one_of(st.just("a > 1"), VALUES),
        "then": st.one_of(st.just(["A()"]), VALUES),
        "rules": st.one_of(st.just([{"then": "A()"}]), VALUES),
        "on_exception": VALUES,
        "attach": VALUES,
        "yield_attach": VALUES,
    },
)


@given(st.one_of(VALUES, st.lists(st.one_of(RULES, VALUES), max_size=2)))
def test_wild_plain_form(value: object) -> None:
    read = attempt(lambda: from_plain(value))
    if isinstance(read, StatementError):
        assert all(line.isprintable() for line in str(read).split("\n"))
    else:
        assert same(from_plain(to_plain(read)), read)
