"""The types of the attributes that nodes give to policies in XACML, and policies that ask for other types.

A number of the domain file is given as what it is and as a text, a text as a text only: so an attribute has its number
where a policy asks for one, and nothing is read as a number that was not meant to be one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from penstock.policy.xacml.forms.short_types import EXACT
from penstock.policy.xacml.functions.cel import LIST
from penstock.policy.xacml.names import BOOLEAN, CEL, DOUBLE, ENVIRONMENT, INTEGER, RESOURCE, STRING
from penstock.policy.xacml.tree import Apply, Designator, Expression, LiteralValue, Root, Target, XacmlPolicy, inside
from penstock.policy.xacml.values.values import DATA_TYPES

Plain = bool | int | float | str
"""A value as the domain file has it."""
Values = tuple[tuple[str, tuple[LiteralValue, ...]], ...]
"""Attributes by name, with their values in XACML."""
QUALITY = "quality:"
"""The begin of the names of attributes of the resource that are metrics of its quality."""
_NUMBERS = frozenset({INTEGER, DOUBLE, BOOLEAN})


def text_of(value: Plain) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def typed(value: Plain) -> tuple[LiteralValue, ...]:
    """Return a value in every type that it has beside text."""
    if isinstance(value, bool):
        return (LiteralValue(BOOLEAN, value),)
    if isinstance(value, int):
        exact = (LiteralValue(DOUBLE, float(value)),) if abs(value) < EXACT else ()
        return (LiteralValue(INTEGER, value), *exact)
    return (LiteralValue(DOUBLE, value),) if isinstance(value, float) else ()


def types_of(value: Plain) -> frozenset[str]:
    """Return the types that a value is given in."""
    return frozenset({STRING, *(literal.type for literal in typed(value))})


AttributePlace = tuple[str, str]
"""Category and identifier of an attribute."""
GivenTypes = Mapping[AttributePlace, Mapping[frozenset[str], str]]
"""The types in which nodes give an attribute, with the owner of the value, in words."""


class RequestedAttribute(NamedTuple):
    """An attribute that a policy asks for, in one of these types."""

    policy: str
    place: AttributePlace
    types: frozenset[str]
    is_ordered: bool = False
    """True if it is compared in order as a text."""


def refused_types(roots: Iterable[Root], given_types: GivenTypes) -> Iterator[str]:
    """Yield numbers and booleans that policies ask for where nodes have a text: a denial would miss such a subject."""
    for requested, types, whose in _unlike(roots, given_types):
        if requested.types <= _NUMBERS:
            yield f"{_shown(requested)}, and {whose} is {_named(types)}"


def wrong_types(roots: Iterable[Root], given_types: GivenTypes) -> Iterator[str]:
    """Yield attributes that policies ask for in a type that nodes do not give, or that some subject does not have."""
    roots = list(roots)
    yield from refused_types(roots, given_types)
    yield from _never_found(roots, given_types)


def odd_types(roots: Iterable[Root], given_types: GivenTypes) -> Iterator[str]:
    """Yield attributes that nodes never give in the type asked for, and numbers that policies order as texts."""
    roots = list(roots)
    yield from _never_found(roots, given_types)
    for requested in _asked(roots):
        for types, whose in given_types.get(requested.place, {}).items() if requested.is_ordered else ():
            if types & _NUMBERS:
                what = f"policy `{requested.policy}` puts `{requested.place[1]}` in order as a text"
                yield f"{what}, and {whose} is {_named(types)}: as texts, 9 is more than 18"


def _never_found(roots: Iterable[Root], given_types: GivenTypes) -> Iterator[str]:
    for requested in dict.fromkeys(request._replace(is_ordered=False) for request in _asked(roots)):
        if requested.place[0] != ENVIRONMENT and requested.types.isdisjoint({STRING, *_NUMBERS}):
            what = f"attribute `{requested.place[1]:.80}` is asked for as {_named(requested.types)}"
            yield f"policy `{requested.policy}`: {what}, which nodes do not give"
    for requested, types, whose in _unlike(roots, given_types):
        if STRING in requested.types:
            yield f"{_shown(requested)}, and {whose} is {_named(types)}: it is not found"


def _unlike(roots: Iterable[Root], given_types: GivenTypes) -> Iterator[tuple[RequestedAttribute, frozenset[str], str]]:
    for requested in dict.fromkeys(request._replace(is_ordered=False) for request in _asked(roots)):
        types_of_owners = given_types.get(requested.place, {})
        if requested.place[0] == RESOURCE and requested.place[1].startswith(QUALITY):
            types_of_owners = {frozenset({DOUBLE}): "that of nodes"}
        for types, whose in types_of_owners.items():
            if not types & requested.types:
                yield requested, types, whose


def _shown(requested: RequestedAttribute) -> str:
    return f"policy `{requested.policy}` asks for `{requested.place[1]}` as {_named(requested.types)}"


def _named(types: frozenset[str]) -> str:
    if len(types) > 1:
        types -= {STRING}
    return " or ".join(sorted(DATA_TYPES[type_uri].name if type_uri in DATA_TYPES else type_uri for type_uri in types))


def _asked(roots: Iterable[Root]) -> Iterator[RequestedAttribute]:
    for policy in (policy for root in roots for policy in inside(root)):
        rules = policy.rules if isinstance(policy, XacmlPolicy) else ()
        for target in (policy.target, *(rule.target for rule in rules)):
            yield from _asked_by_target(policy.id, target)
        owners = (policy, *rules)
        duties = (duty for owner in owners for listed in (owner.obligations, owner.advice) for duty in listed)
        expressions = [assignment.expression for duty in duties for assignment in duty.assignments]
        expressions += [rule.condition for rule in rules if rule.condition is not None]
        expressions += [variable for _, variable in policy.variables] if isinstance(policy, XacmlPolicy) else []
        for expression in expressions:
            yield from _asked_by(policy.id, expression)


def _asked_by_target(policy: str, target: Target) -> Iterator[RequestedAttribute]:
    """Yield the attributes of a target. Of alternatives that ask for one attribute in several types, one is enough."""
    for any_of in target:
        types_by_place: dict[AttributePlace, set[str]] = {}
        ordered: set[AttributePlace] = set()
        for match in (match for all_of in any_of for match in all_of):
            if isinstance(source := match.source, Designator):
                types_by_place.setdefault((source.category, source.id), set()).add(source.type)
                if _orders_texts(match.function):
                    ordered.add((source.category, source.id))
        for place, types in types_by_place.items():
            yield RequestedAttribute(policy, place, frozenset(types), place in ordered)


def _orders_texts(function: str) -> bool:
    return function.rpartition(":")[2].startswith(("string-less-", "string-greater-"))


def _asked_by(policy: str, expression: Expression, is_ordered: bool = False) -> Iterator[RequestedAttribute]:
    match expression:
        case Designator(category, name, type_uri):
            yield RequestedAttribute(policy, (category, name), frozenset({type_uri}), is_ordered)
        case Apply(function, arguments) if function == CEL:
            yield from _asked_by_condition(policy, arguments)
        case Apply(function, arguments):
            for argument in arguments:
                yield from _asked_by(policy, argument, is_ordered or _orders_texts(function))


def _asked_by_condition(policy: str, arguments: tuple[Expression, ...]) -> Iterator[RequestedAttribute]:
    """Yield the attributes of a condition. A name that is there several times may have any of the types."""
    types_by_key: dict[tuple[str, AttributePlace], set[str]] = {}
    for name, bag in zip(arguments[1::2], arguments[2::2], strict=False):
        if isinstance(name, LiteralValue) and isinstance(bag, Designator):
            key = str(name.value).removesuffix(LIST), (bag.category, bag.id)
            types_by_key.setdefault(key, set()).add(bag.type)
    yield from (RequestedAttribute(policy, place, frozenset(types)) for (_, place), types in types_by_key.items())
