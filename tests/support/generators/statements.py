"""Random policy statements, and texts that are nearly ones."""

from hypothesis import strategies as st

from penstock.language.errors import ConditionError
from penstock.language.parser import parse
from penstock.language.statements.statement import (
    ANYWHERE,
    Attach,
    ElementUse,
    Matching,
    Message,
    Statement,
    StatementClause,
    StatementRule,
    Verb,
)
from penstock.language.tree import Tree
from tests.support.generators.conditions import expressions

_ELEMENTS = [
    "StrictMatch()",
    "MessageSizeIndex() > 0.8 && BrokerLoadIndex() > 0.75",
    "AuthenticateReceiver(TrustGroup1) || !AuthenticateSender('a b')",
    "{'}': \"{\"}.size() == 1",
    "`a}b`.c == r'\\}' // }\n",
    "a == '''\n}'''",
]


def _condition(text: str) -> Tree | None:
    try:
        return parse(text)
    except ConditionError:
        return None


characters = st.characters(exclude_categories=["Cs"])
strings = st.one_of(
    st.text(characters, max_size=20),
    st.text("ab.-_1 \n\r\t'\"\\`$[],(){}/\0", max_size=10),
    st.sampled_from(["true", "false", "True", "a.b", "a-b", "-1", "1", "", "r", "a//b", "\u2028", "\ufffe", "é"]),
)
arguments = st.one_of(
    strings, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,10}", fullmatch=True)
uses = st.builds(ElementUse, names, st.lists(arguments, max_size=3).map(tuple))
conditions = st.one_of(st.just(""), st.sampled_from(_ELEMENTS), expressions("bool", 2)).map(_condition)
clauses = st.builds(StatementClause, conditions, st.lists(uses, max_size=2).map(tuple))
chains = st.lists(clauses, min_size=1, max_size=2).map(tuple)
rules = st.builds(
    StatementRule,
    st.sampled_from(Verb),
    st.sampled_from(Message),
    chains,
    st.sampled_from(Matching),
    st.sets(st.sampled_from(ANYWHERE), min_size=1).map(lambda some: tuple(each for each in ANYWHERE if each in some)),
    st.sampled_from(Attach),
    st.booleans(),
    st.one_of(st.just(()), chains),
)
statements = st.lists(rules, min_size=1, max_size=2).map(lambda some: Statement(tuple(some)))

_WORDS = """
    PolicyStatement On If Then Elseif ElseIf Else OnException Forward Insert Publication @broker @attach @match
    : , ( ) { } Ingress Egress Never True true BlockMessage() A(a) 'a' "b // a>1 a = -1 1.5 \\ ` $Message [ ] é
"""
words = st.sampled_from([*_WORDS.split(), "\n", "\0", "\ud800"])
wild_texts = st.one_of(st.text(max_size=60), st.lists(words, max_size=40).map(" ".join))
"""Texts that are no statements, or hardly ever."""


@st.composite
def mutations(draw: st.DrawFn, originals: st.SearchStrategy[str]) -> str:
    """A text with one to three places changed: cut out, doubled, exchanged, or with something put in."""
    text = draw(originals)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        piece = draw(st.one_of(st.just(""), st.just(text[start:end] * 2), words, st.text(max_size=3)))
        text = text[:start] + piece + text[end:]
    return text
