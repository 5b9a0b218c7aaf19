"""What type an attribute of the short form has that declares none: what it is compared with says it.

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
    """What an attribute is taken for, with its types."""

    value: tuple[str, ...]

    NUMBER = (names.INTEGER, names.DOUBLE)
    BOOLEAN = (names.BOOLEAN,)
    TEXT = (names.STRING,)


ANY = (*ValueKind.NUMBER.value, *ValueKind.BOOLEAN.value, *ValueKind.TEXT.value)
"""The types of an attribute that is compared with nothing: the first that it has values of counts."""
EXACT = 2**53
"""From here on, doubles do not have every integer."""

_LITERALS = {
    **dict.fromkeys(("int", "uint", "double"), ValueKind.NUMBER),
    "bool": ValueKind.BOOLEAN,
    "string": ValueKind.TEXT,
}
_TEXT_CALLS = frozenset({"startsWith", "endsWith", "contains", "matches"})
_RESULTS = {"size": ValueKind.NUMBER, "int": ValueKind.NUMBER, "double": ValueKind.NUMBER, "string": ValueKind.TEXT}


def kind_of(value: object) -> ValueKind | None:
    """What a value of YAML is."""
    if isinstance(value, bool):
        return ValueKind.BOOLEAN
    if isinstance(value, int | float):
        return ValueKind.NUMBER
    return ValueKind.TEXT if isinstance(value, str) else None


def kind_of_type(type_uri: str) -> ValueKind | None:
    return next((kind for kind in ValueKind if type_uri in kind.value), None)


def among_integers(operator: str, bound: float) -> tuple[str, int] | None:
    """What a comparison of an integer with any number comes to, with an integer; None: no integer is so."""
    if bound == floor(bound):
        return operator, int(bound)
    if operator == "==":
        return None
    return (">=", ceil(bound)) if operator in (">", ">=") else ("<=", floor(bound))


def kinds_asked(condition: Tree, declared: Mapping[str, ValueKind | None]) -> dict[str, ValueKind]:
    """By name, what a condition takes attributes for; those that are not there may be anything. `declared`: what is
    known of some already. Raises `XacmlError` if one is taken for two things.
    """
    found = {name: {kind} for name, kind in declared.items() if kind is not None}
    alike: dict[str, set[str]] = {}
    for name, what in (*((name, ValueKind.BOOLEAN) for name in _names(condition, {})), *_evidence(condition, {})):
        if isinstance(what, ValueKind):
            found.setdefault(name, set()).add(what)
        else:
            _join(alike, name, what)
    for name, others in alike.items():  # what is known of one side counts for the other
        found[name] = set().union(*(found.get(one, ()) for one in others)) or {ValueKind.TEXT}
    for name, kinds in found.items():
        if len(kinds) > 1 and name not in declared:
            said = " and as ".join(sorted(kind.name.lower() for kind in kinds))
            raise XacmlError(f"`{name}` is taken as {said} in one condition: declare its type")
    return {name: next(iter(kinds)) for name, kinds in found.items() if len(kinds) == 1}


def _join(alike: dict[str, set[str]], one: str, other: str) -> None:
    few, many = sorted((alike.get(name, {name}) for name in (one, other)), key=len)
    many |= few
    alike.update(dict.fromkeys(few | {one, other}, many))


Elements = Mapping[str, str | None]
"""By variable of a macro, the attribute whose elements it is, if there is one."""


def _evidence(node: Tree, elements: Elements) -> Iterator[tuple[str, "ValueKind | str"]]:
    """Names, and what each is compared with: a kind, or another name."""
    match node:
        case cel.Binary(operator, left, right):
            for one, other in ((left, right), (right, left)):
                yield from ((name, kind) for name in _names(one, elements) for kind in _kinds(other))
            if operator in (*cel.EQUALITY, "in"):
                yield from ((name, other) for name in _names(left, elements) for other in _names(right, elements))
        case cel.Call(function) if function in _TEXT_CALLS:
            yield from ((name, ValueKind.TEXT) for one in node.operands for name in _names(one, elements))
        case cel.And(operands) | cel.Or(operands):
            yield from ((name, ValueKind.BOOLEAN) for one in operands for name in _names(one, elements))
        case cel.Unary("!", one) | cel.Conditional(one):
            yield from ((name, ValueKind.BOOLEAN) for name in _names(one, elements))
        case cel.Macro(_, within, variable):
            of = next(iter(_names(within, elements)), None)
            elements = {**elements, variable: of}
    for child in children(node):
        yield from _evidence(child, elements)


def _names(node: Tree, elements: Elements) -> list[str]:
    """Return the attributes whose value an expression is, or is calculated from."""
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
            return [name for one in items for name in _names(one, elements)]
    return []


def _kinds(node: Tree) -> set[ValueKind]:
    """What an expression is for sure."""
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
            return {kind for one in items for kind in _kinds(one)}
        case cel.Call(function) if function in _RESULTS:
            return {_RESULTS[function]}
    return set()
