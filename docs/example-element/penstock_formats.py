"""The formats of two systems that do not speak JSON, for brokers between them and us (statements §5.1)."""

from penstock.language.statements.statement import Message, Verb
from penstock.language.types import BOOL
from penstock.policy.statements.elements.element import Element, ElementError
from penstock.policy.statements.judging import Judgement

PUBLICATIONS, FORWARDED = frozenset({Message.PUBLICATION}), frozenset({Verb.FORWARD})


def _attributes(on: Judgement) -> dict[str, object]:
    return dict(sorted(on.copy.current().items()))


def to_format_1(on: Judgement) -> None:
    """Write the attributes as lines of `name=value`."""
    lines = (f"{name}={value}\n" for name, value in _attributes(on).items())
    on.copy.write("".join(lines).encode(), "text/plain")


def to_format_2(on: Judgement) -> None:
    """Write the attributes as one line of values with semicolons between them."""
    values = [str(value) for value in _attributes(on).values()]
    if any(";" in value for value in values):
        raise ElementError("a value has a semicolon in it")
    on.copy.write(";".join(values).encode(), "text/csv")


def is_under(on: Judgement, prefix: str) -> bool:
    """Whether the topic begins with a prefix."""
    return on.copy.raw()[0].startswith(prefix)


ELEMENTS = [
    Element("ToFormat1", to_format_1, None, PUBLICATIONS, FORWARDED, is_shared=True),
    Element("ToFormat2", to_format_2, None, PUBLICATIONS, FORWARDED, is_shared=True),
    Element("IsUnder", is_under, BOOL, least=1, most=1, is_shared=True),
]
