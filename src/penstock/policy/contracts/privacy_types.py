"""Types of the attributes that nodes give to policies in XACML, and policies that ask for others.

A number of the domain file is given as what it is and as a text, a text as a text only: so an attribute has its number
where a policy asks for one, and nothing is read as a number that was not meant to be one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.policy.xacml.forms.short_types import EXACT
from penstock.policy.xacml.functions.cel import LIST
from penstock.policy.xacml.names import BOOLEAN, CEL, DOUBLE, ENVIRONMENT, INTEGER, STRING
from penstock.policy.xacml.tree import Apply, Designator, Expression, LiteralValue, Root, Target, XacmlPolicy, inside
from penstock.policy.xacml.values.values import DATA_TYPES

Plain = bool | int | float | str
"""A value as the domain file has it."""
Values = tuple[tuple[str, tuple[LiteralValue, ...]], ...]
"""Attributes by name, with their values in XACML."""
_NUMBERS = frozenset({INTEGER, DOUBLE, BOOLEAN})


def text_of(value: Plain) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def typed(value: Plain) -> tuple[LiteralValue, ...]:
    """Return a value in every type that it has beside that of texts."""
    if isinstance(value, bool):
        return (LiteralValue(BOOLEAN, value),)
    if isinstance(value, int):
        exact = (LiteralValue(DOUBLE, float(value)),) if abs(value) < EXACT else ()
        return (LiteralValue(INTEGER, value), *exact)
    return (LiteralValue(DOUBLE, value),) if isinstance(value, float) else ()


def types_of(value: Plain) -> frozenset[str]:
    """Return the types that a value is given in."""
    return frozenset({STRING, *(one.type for one in typed(value))})


AttributePlace = tuple[str, str]
"""Category and identifier of an attribute."""
GivenTypes = Mapping[AttributePlace, Mapping[frozenset[str], str]]
"""The types that nodes give an attribute in, all that one value has; and whose value it is, in words."""


class RequestedAttribute(NamedTuple):
    """An attribute that a policy asks for, in one of these types."""

    policy: str
    place: AttributePlace
    types: frozenset[str]
    is_ordered: bool = False
    """True if its order as text is asked for."""


def refused_types(roots: Iterable[Root], given: GivenTypes) -> Iterator[str]:
    """Numbers and booleans that policies ask for where nodes have a text: who has one would escape a denial."""
    for one, types, whose in _unlike(roots, given):
        if one.types <= _NUMBERS:
            yield f"{_said(one)}, and {whose} is {_named(types)}"


def odd_types(roots: Iterable[Root], given: GivenTypes) -> Iterator[str]:
    """Attributes that nodes never give as policies ask for them; numbers that policies put in order as texts."""
    roots = list(roots)
    for one in dict.fromkeys(asked._replace(is_ordered=False) for asked in _asked(roots)):
        if one.place[0] != ENVIRONMENT and one.types.isdisjoint({STRING, *_NUMBERS}):
            what = f"attribute `{one.place[1]:.80}` is asked for as {_named(one.types)}, which nodes do not give"
            yield f"policy `{one.policy}`: {what}"
    for one, types, whose in _unlike(roots, given):
        if STRING in one.types:
            yield f"{_said(one)}, and {whose} is {_named(types)}: it is not found"
    for one in _asked(roots):
        for types, whose in given.get(one.place, {}).items() if one.is_ordered else ():
            if types & _NUMBERS:
                what = f"policy `{one.policy}` puts `{one.place[1]}` in order as a text, and {whose} is {_named(types)}"
                yield f"{what}: as texts, 9 is more than 18"


def _unlike(roots: Iterable[Root], given: GivenTypes) -> Iterator[tuple[RequestedAttribute, frozenset[str], str]]:
    for one in dict.fromkeys(asked._replace(is_ordered=False) for asked in _asked(roots)):
        for types, whose in given.get(one.place, {}).items():
            if not types & one.types:
                yield one, types, whose


def _said(one: RequestedAttribute) -> str:
    return f"policy `{one.policy}` asks for `{one.place[1]}` as {_named(one.types)}"


def _named(types: frozenset[str]) -> str:
    if len(types) > 1:
        types -= {STRING}
    return " or ".join(sorted(DATA_TYPES[one].name if one in DATA_TYPES else one for one in types))


def _asked(roots: Iterable[Root]) -> Iterator[RequestedAttribute]:
    for policy in (one for root in roots for one in inside(root)):
        rules = policy.rules if isinstance(policy, XacmlPolicy) else ()
        for target in (policy.target, *(rule.target for rule in rules)):
            yield from _asked_by_target(policy.id, target)
        duties = (duty for one in (policy, *rules) for several in (one.obligations, one.advice) for duty in several)
        expressions = [each.expression for duty in duties for each in duty.assignments]
        expressions += [rule.condition for rule in rules if rule.condition is not None]
        expressions += [one for _, one in policy.variables] if isinstance(policy, XacmlPolicy) else []
        for expression in expressions:
            yield from _asked_by(policy.id, expression)


def _asked_by_target(policy: str, target: Target) -> Iterator[RequestedAttribute]:
    """Of alternatives that ask for one attribute in several types, one will do."""
    for any_of in target:
        found: dict[AttributePlace, set[str]] = {}
        ordered: set[AttributePlace] = set()
        for match in (match for all_of in any_of for match in all_of):
            if isinstance(source := match.source, Designator):
                found.setdefault((source.category, source.id), set()).add(source.type)
                if _orders_texts(match.function):
                    ordered.add((source.category, source.id))
        yield from (
            RequestedAttribute(policy, place, frozenset(types), place in ordered) for place, types in found.items()
        )


def _orders_texts(function: str) -> bool:
    return function.rpartition(":")[2].startswith(("string-less-", "string-greater-"))


def _asked_by(policy: str, expression: Expression, is_ordered: bool = False) -> Iterator[RequestedAttribute]:
    match expression:
        case Designator(category, name, type_uri):
            yield RequestedAttribute(policy, (category, name), frozenset({type_uri}), is_ordered)
        case Apply(function, arguments) if function == CEL:
            yield from _asked_by_condition(policy, arguments)
        case Apply(function, arguments):
            for one in arguments:
                yield from _asked_by(policy, one, is_ordered or _orders_texts(function))


def _asked_by_condition(policy: str, arguments: tuple[Expression, ...]) -> Iterator[RequestedAttribute]:
    """Yield a name that is there several times may have any of the types."""
    found: dict[tuple[str, AttributePlace], set[str]] = {}
    for name, bag in zip(arguments[1::2], arguments[2::2], strict=False):
        if isinstance(name, LiteralValue) and isinstance(bag, Designator):
            key = str(name.value).removesuffix(LIST), (bag.category, bag.id)
            found.setdefault(key, set()).add(bag.type)
    yield from (RequestedAttribute(policy, place, frozenset(types)) for (_, place), types in found.items())
