"""Integers that are doubles by declaration: JSON's `71` where a schema says `double`."""

from collections.abc import Callable

from penstock.language.types import DOUBLE, ListType, MapType, RecordType, Type
from penstock.language.values import Uint, Value, as_double

Widen = Callable[[Value], Value]
"""Gives a value with doubles where its type says so; what has parts is changed itself."""


def widening(declared: Type) -> Widen | None:
    """Return the function that converts content as declared; None if no doubles are declared."""
    match declared:
        case ListType(element):
            return _in_list(widening(element))
        case MapType(_, value):
            return _in_map({}, widening(value))
        case RecordType(fields, others):
            inside = {name: widening(kind) for name, kind in fields.items()}
            return _in_map(inside, None if others is None else widening(others))
        case _:
            return _double if declared == DOUBLE else None


def _double(value: Value) -> Value:
    return as_double(value) if type(value) in (int, Uint) else value


def _in_list(element: Widen | None) -> Widen | None:
    if element is None:
        return None

    def widen(value: Value) -> Value:
        if type(value) is list:
            value[:] = map(element, value)
        return value

    return widen


def _in_map(fields: dict[str, Widen | None], others: Widen | None) -> Widen | None:
    named = {name: convert for name, convert in fields.items() if convert is not None}
    if not named and others is None:
        return None

    def widen(value: Value) -> Value:
        if type(value) is not dict:
            return value
        for name, convert in named.items():
            if name in value:
                value[name] = convert(value[name])
        if others is not None:
            for name in value.keys() - fields.keys():
                value[name] = others(value[name])
        return value

    return widen
