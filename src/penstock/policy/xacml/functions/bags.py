"""Functions of bags and sets (A.3.10, A.3.11), the same for each data type."""

from collections.abc import Callable
from typing import Any

from penstock.policy.xacml.functions.function import BOOLEAN, INTEGER, FunctionTable, XacmlFunction
from penstock.policy.xacml.names import FUNCTION_1, FUNCTION_2, FUNCTION_3
from penstock.policy.xacml.status import unprocessable
from penstock.policy.xacml.values.values import DATA_TYPES, Bag, Type, Value


def _one_and_only(bag: Bag) -> Value:
    if len(bag) != 1:
        raise unprocessable(f"expected one value, not {len(bag)}")
    return bag[0]


def _intersection(bag: Bag, other: Bag) -> Bag:
    other_members = frozenset(other)
    return tuple(value for value in dict.fromkeys(bag) if value in other_members)


def _union(*bags: Bag) -> Bag:
    return tuple(dict.fromkeys(value for bag in bags for value in bag))


def bag_functions() -> FunctionTable:
    table: FunctionTable = {}
    for uri, data_type in DATA_TYPES.items():
        value, bag = Type(uri), Type(uri, is_bag=True)
        functions: dict[str, tuple[tuple[Type, ...], Type, Callable[..., Any], Type | None]] = {
            "one-and-only": ((bag,), value, _one_and_only, None),
            "bag-size": ((bag,), INTEGER, len, None),
            "is-in": ((value, bag), BOOLEAN, lambda value, bag: value in bag, None),
            "bag": ((), bag, lambda *values: values, value),
            "intersection": ((bag, bag), bag, _intersection, None),
            "at-least-one-member-of": ((bag, bag), BOOLEAN, lambda bag, other: not set(bag).isdisjoint(other), None),
            "union": ((bag, bag), bag, _union, bag),
            "subset": ((bag, bag), BOOLEAN, lambda bag, other: frozenset(bag) <= frozenset(other), None),
            "set-equals": ((bag, bag), BOOLEAN, lambda bag, other: frozenset(bag) == frozenset(other), None),
        }
        for prefix in _prefixes(data_type.name):
            for name, (takes, gives, apply, rest) in functions.items():
                full = f"{prefix}{data_type.name}-{name}"
                table[full] = XacmlFunction(full, takes, gives, apply, rest)
    return table


def _prefixes(name: str) -> tuple[str, ...]:
    """Return the versions that have functions of a type: durations had others of the same name before."""
    if name.endswith("Duration"):
        return (FUNCTION_1, FUNCTION_3)
    if name == "xpathExpression":
        return (FUNCTION_3,)
    return (FUNCTION_2, FUNCTION_1) if name in ("ipAddress", "dnsName") else (FUNCTION_1,)
