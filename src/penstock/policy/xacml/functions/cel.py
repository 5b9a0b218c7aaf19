"""Conditions of the project's language (docs/conditions.md) as a function of XACML.

`cel(text, name, bag, name, bag, …)`: the condition, and the attributes that it names. A name is `subject.age`: the
value of a bag of one; an attribute that is not there, of an empty one. `subject.groups[]` is the list of all values.
A name may be there several times, with bags of different types: the first that is not empty counts.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock.language.condition import Condition, make_condition
from penstock.language.errors import ConditionError, EvaluationError, Failure
from penstock.language.evaluators.times import make_duration, make_timestamp
from penstock.language.values import MAX_INT, MIN_INT
from penstock.policy.xacml import names
from penstock.policy.xacml.request import Context
from penstock.policy.xacml.status import XacmlError, unprocessable
from penstock.policy.xacml.tree import Expression, LiteralValue
from penstock.policy.xacml.values.values import Bag, Value, show_value

LIST = "[]"


class NamedBag(NamedTuple):
    """An attribute that a condition names: `of.name`, the type of its values, and the function that finds them."""

    of: str
    name: str
    is_list: bool
    type: str
    find: Callable[[Context], Bag]


def split_arguments(arguments: Sequence[Expression]) -> tuple[Condition, list[tuple[str, Expression]]]:
    """Return the condition, and the attributes by name; raises `XacmlError`."""
    first, *rest = (*arguments, None)
    named = list(zip(rest[:-1:2], rest[1:-1:2], strict=False))
    if not _is_text(first) or len(rest) % 2 == 0:
        raise XacmlError(f"`{names.CEL}` takes a condition, and names with a bag each")
    assert isinstance(first, LiteralValue)
    attributes: list[tuple[str, Expression]] = []
    for name, bag in named:
        if not isinstance(name, LiteralValue) or not _is_text(name) or "." not in name.value or bag is None:
            raise XacmlError(f"`{names.CEL}` takes names such as `subject.age`")
        attributes.append((name.value, bag))
    return condition_of(first.value), attributes


def _is_text(tree: Expression | None) -> bool:
    return isinstance(tree, LiteralValue) and tree.type == names.STRING


def named(name: str, type_uri: str, find: Callable[[Context], Bag]) -> NamedBag:
    of, _, rest = name.removesuffix(LIST).partition(".")
    return NamedBag(of, rest, name.endswith(LIST), type_uri, find)


def condition_of(text: str) -> Condition:
    """Parse a condition; raises `XacmlError`."""
    try:
        return make_condition(text)
    except ConditionError as error:
        raise XacmlError(str(error)) from None


def holds(condition: Condition, attributes: Sequence[NamedBag], context: Context) -> bool:
    """Return whether the condition holds; raises `Indeterminate` if it fails."""
    chosen: dict[tuple[str, str], tuple[NamedBag, Bag]] = {}
    for attribute in attributes:
        bag = attribute.find(context)
        before = chosen.setdefault((attribute.of, attribute.name), (attribute, bag))[1]
        if not before:
            chosen[attribute.of, attribute.name] = attribute, bag
        elif len(bag) > len(before):
            raise unprocessable(f"`{attribute.of}.{attribute.name}` has values of several types")
    values: dict[str, Any] = {}
    for attribute, bag in chosen.values():
        within = values.setdefault(attribute.of, {})
        if attribute.is_list:
            within[attribute.name] = [_plain(attribute.type, value) for value in bag]
        elif len(bag) > 1:
            raise unprocessable(
                f"`{attribute.of}.{attribute.name}` has {len(bag)} values; as a list it is `{attribute.name}{LIST}`"
            )
        elif bag:
            within[attribute.name] = _plain(attribute.type, bag[0])
    context.charge(1 + len(attributes))
    outcome = condition.decide(values)
    if isinstance(outcome, Failure):
        raise unprocessable(f"`{condition.text}` fails: {outcome.reason}")
    return outcome


def _plain(type_uri: str, value: Value) -> Value:
    """Return a value of the language; a value of a type that it does not have is a string."""
    match type_uri:
        case names.STRING | names.BOOLEAN | names.DOUBLE | names.HEX_BINARY | names.BASE64_BINARY | names.ANY_URI:
            return value
        case names.INTEGER:
            if not MIN_INT <= value <= MAX_INT:
                raise unprocessable("an integer of more than 64 bits in a condition")
            return value
    try:
        if type_uri == names.DATE_TIME:
            return make_timestamp(value.instant)
        if type_uri == names.DAY_TIME_DURATION:
            return make_duration(value.nanos)
    except EvaluationError as error:
        raise unprocessable(str(error)) from None
    return show_value(type_uri, value)
