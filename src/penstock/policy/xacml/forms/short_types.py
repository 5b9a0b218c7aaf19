"""The types of attributes of the short form without a declared type: they follow from comparisons.

A number makes it a number, whatever the request has (integer or double), a text a text. Else numbers would be compared
as texts, and `9` would be more than `18`.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from math import ceil, floor

from penstock.language import tree as cel
from penstock.language.tree import Tree, children
from penstock.policy.xacml import names
from penstock.policy.xacml.status import XacmlError


class ValueKind(Enum):
    """The kind of an attribute, with its types."""

    value: tuple[str, ...]

    NUMBER = (names.INTEGER, names.DOUBLE)
    BOOLEAN = (names.BOOLEAN,)
    TEXT = (names.STRING,)


ANY = (*ValueKind.NUMBER.value, *ValueKind.BOOLEAN.value, *ValueKind.TEXT.value)
"""The types of an attribute that is compared with nothing: the first that it has values of counts."""
EXACT = 2**53
"""From here on, doubles cannot represent every integer."""

_LITERALS = {
    **dict.fromkeys(("int", "uint", "double"), ValueKind.NUMBER),
    "bool": ValueKind.BOOLEAN,
    "string": ValueKind.TEXT,
}
_TEXT_CALLS = frozenset({"startsWith", "endsWith", "contains", "matches"})
_RESULTS = {"size": ValueKind.NUMBER, "int": ValueKind.NUMBER, "double": ValueKind.NUMBER, "string": ValueKind.TEXT}


def kind_of(value: object) -> ValueKind | None:
    """Return the kind of a YAML value."""
    if isinstance(value, bool):
        return ValueKind.BOOLEAN
    if isinstance(value, int | float):
        return ValueKind.NUMBER
    return ValueKind.TEXT if isinstance(value, str) else None


def kind_of_type(type_uri: str) -> ValueKind | None:
    return next((kind for kind in ValueKind if type_uri in kind.value), None)


def among_integers(operator: str, bound: float) -> tuple[str, int] | None:
    """Return an equivalent comparison of an integer with an integer; None: no integer satisfies it."""
    if bound == floor(bound):
        return operator, int(bound)
    if operator == "==":
        return None
    return (">=", ceil(bound)) if operator in (">", ">=") else ("<=", floor(bound))


def kinds_asked(condition: Tree, declared: Mapping[str, ValueKind | None]) -> dict[str, ValueKind]:
    """Return the kinds of attributes by their use in a condition; missing attributes may be anything. `declared` are
    the known kinds. Raises `XacmlError` if one is used as two kinds.
    """
    kinds_by_name = {name: {kind} for name, kind in declared.items() if kind is not None}
    alike: dict[str, set[str]] = {}
    for name, what in (*((name, ValueKind.BOOLEAN) for name in _names(condition, {})), *_evidence(condition, {})):
        if isinstance(what, ValueKind):
            kinds_by_name.setdefault(name, set()).add(what)
        else:
            _join(alike, name, what)
    for name, others in alike.items():  # what is known of one side counts for the other
        kinds_by_name[name] = set().union(*(kinds_by_name.get(other, ()) for other in others)) or {ValueKind.TEXT}
    for name, kinds in kinds_by_name.items():
        if len(kinds) > 1 and name not in declared:
            kinds_text = " and as ".join(sorted(kind.name.lower() for kind in kinds))
            raise XacmlError(f"`{name}` is taken as {kinds_text} in one condition: declare its type")
    return {name: next(iter(kinds)) for name, kinds in kinds_by_name.items() if len(kinds) == 1}


def _join(alike: dict[str, set[str]], name: str, other: str) -> None:
    few, many = sorted((alike.get(side, {side}) for side in (name, other)), key=len)
    many |= few
    alike.update(dict.fromkeys(few | {name, other}, many))


Elements = Mapping[str, str | None]
"""By variable of a macro, the attribute whose elements it is, if there is one."""


def _evidence(node: Tree, elements: Elements) -> Iterator[tuple[str, "ValueKind | str"]]:
    """Yield names with the kind that each is compared with, or with another name."""
    match node:
        case cel.Binary(operator, left, right):
            for operand, other in ((left, right), (right, left)):
                yield from ((name, kind) for name in _names(operand, elements) for kind in _kinds(other))
            if operator in (*cel.EQUALITY, "in"):
                yield from ((name, other) for name in _names(left, elements) for other in _names(right, elements))
        case cel.Call(function) if function in _TEXT_CALLS:
            yield from ((name, ValueKind.TEXT) for operand in node.operands for name in _names(operand, elements))
        case cel.And(operands) | cel.Or(operands):
            yield from ((name, ValueKind.BOOLEAN) for operand in operands for name in _names(operand, elements))
        case cel.Unary("!", operand) | cel.Conditional(operand):
            yield from ((name, ValueKind.BOOLEAN) for name in _names(operand, elements))
        case cel.Macro(_, within, variable):
            of = next(iter(_names(within, elements)), None)
            elements = {**elements, variable: of}
    for child in children(node):
        yield from _evidence(child, elements)


def _names(node: Tree, elements: Elements) -> list[str]:
    """Return the attributes that an expression is, or is calculated from."""
    match node:
        case cel.Select(cel.Attribute(of), name):
            return [f"{of}.{name}"]
        case cel.Variable(variable):
            of_macro = elements.get(variable)
            return [] if of_macro is None else [of_macro]
        case cel.IndexAccess(operand, _) | cel.Unary("-", operand):
            return _names(operand, elements)
        case cel.Binary(operator, left, right) if operator in (*cel.ADDITIVE, *cel.MULTIPLICATIVE):
            return [*_names(left, elements), *_names(right, elements)]
        case cel.Conditional(_, yes, no):
            return [*_names(yes, elements), *_names(no, elements)]
        case cel.ListOf(items):
            return [name for item in items for name in _names(item, elements)]
    return []


def _kinds(node: Tree) -> set[ValueKind]:
    """Return the certain kinds of an expression."""
    match node:
        case cel.Literal(kind) if kind in _LITERALS:
            return {_LITERALS[kind]}
        case cel.Unary("-", operand):
            return _kinds(operand)
        case cel.Binary(operator, left, right) if operator in (*cel.ADDITIVE, *cel.MULTIPLICATIVE):
            return _kinds(left) | _kinds(right)
        case cel.Conditional(_, yes, no):
            return _kinds(yes) | _kinds(no)
        case cel.ListOf(items):
            return {kind for item in items for kind in _kinds(item)}
        case cel.Call(function) if function in _RESULTS:
            return {_RESULTS[function]}
    return set()
