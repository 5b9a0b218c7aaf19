"""Trees changed for tests: constants become attributes, and expressions of any type become conditions."""

import math
from dataclasses import replace
from typing import Any

from penstock.language.errors import EvaluationError
from penstock.language.evaluators.times import duration_from_string, duration_to_string, timestamp_to_string
from penstock.language.tree import (
    And,
    Attribute,
    Binary,
    Call,
    Conditional,
    Has,
    IndexAccess,
    ListOf,
    Literal,
    Macro,
    MapOf,
    Or,
    Select,
    Tree,
    TypeLiteral,
    Unary,
)
from penstock.language.values import BoolKey, Duration, Timestamp, TypeName, Uint, Value, kind


def lifted(tree: Tree) -> tuple[Tree, dict[str, Value]]:
    """The same expression with its constants as attributes, so that columns have to do what folding would.

    Patterns, time zones, keys of maps and names of fields stay: they are gaps where content says them. As content has
    no durations, these become the time since 1970.
    """
    attributes: dict[str, Value] = {}

    def attribute(value: Value) -> Attribute:
        name = f"constant {len(attributes)}"
        attributes[name] = value
        return Attribute(name)

    def lift(node: Tree) -> Tree:
        match node:
            case Literal(name, value):
                return attribute(Uint(value) if name == "uint" and isinstance(value, int) else value)
            case Call("duration", None, (Literal("string", str(text)),)) if (nanos := _nanos(text)) is not None:
                moments = timestamp_to_string(Timestamp(nanos)), timestamp_to_string(Timestamp(0))
                first, second = (Call("timestamp", None, (attribute(each),)) for each in moments)
                return Binary("-", first, second)
            case Call(_, receiver, (Literal(),)) if node.function.startswith("get") and receiver is not None:
                return replace(node, receiver=lift(receiver))
            case Select() | Has() if node.operand is not None:
                return replace(node, operand=lift(node.operand))
            case IndexAccess(operand, Literal("string")):
                return replace(node, operand=lift(operand))
            case IndexAccess(operand, index):
                return replace(node, operand=lift(operand), index=lift(index))
            case Call("matches", receiver, (*others, pattern)):
                arguments = (*map(lift, others), pattern)
                return replace(node, receiver=receiver and lift(receiver), arguments=arguments)
            case Call(_, receiver, arguments):
                return replace(node, receiver=receiver and lift(receiver), arguments=tuple(map(lift, arguments)))
            case Unary(_, operand):
                return replace(node, operand=lift(operand))
            case Binary(_, left, right):
                return replace(node, left=lift(left), right=lift(right))
            case And(operands) | Or(operands):
                return replace(node, operands=tuple(map(lift, operands)))
            case Conditional(condition, yes, no):
                return replace(node, condition=lift(condition), yes=lift(yes), no=lift(no))
            case ListOf(items):
                return replace(node, items=tuple(map(lift, items)))
            case MapOf(entries):
                return replace(node, entries=tuple((key, lift(value)) for key, value in entries))
            case Macro():
                guard = None if node.guard is None else lift(node.guard)
                return replace(node, range=lift(node.range), body=lift(node.body), guard=guard)
            case _:
                return node

    return lift(tree), attributes


def _nanos(text: str) -> int | None:
    try:
        return duration_from_string(text).nanos
    except EvaluationError:
        return None


def as_condition(tree: Tree, value: Value) -> Tree:
    """A condition that is true where an expression has this value, which is not a bool, of this type."""
    if not isinstance(value, int | float):
        return _has_value(tree, value)  # only numbers are equal to values of other types
    of_type = Binary("==", Call("type", None, (tree,)), TypeLiteral(kind(value)))
    return And((of_type, _has_value(tree, value)))


def _has_value(tree: Tree, value: Value) -> Tree:
    if isinstance(value, float) and math.isnan(value):
        return Unary("!", Binary("==", tree, tree))
    if isinstance(value, float) and value == 0:
        infinity = _double("-inf" if math.copysign(1, value) < 0 else "inf")
        return Binary("==", Binary("/", Literal("double", 1.0), tree), infinity)
    return Binary("==", tree, constant(value))


def _double(text: str) -> Tree:
    return Call("double", None, (Literal("string", text),))


def constant(value: Any) -> Tree:
    """The expression of a value."""
    match value:
        case list():
            return ListOf(tuple(map(constant, value)))
        case dict():
            return MapOf(tuple((constant(key), constant(each)) for key, each in value.items()))
        case BoolKey():
            return Literal("bool", value.value)
        case Timestamp():
            return Call("timestamp", None, (Literal("string", timestamp_to_string(value)),))
        case Duration():
            return Call("duration", None, (Literal("string", duration_to_string(value)),))
        case TypeName(name):
            return TypeLiteral(name)
        case float() if math.isinf(value):
            return _double(str(value))
        case _:
            return Literal(kind(value), int(value) if isinstance(value, Uint) else value)
