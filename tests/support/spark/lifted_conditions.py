"""Trees changed for tests: constants become attributes, and expressions of any type become conditions."""

import math
from dataclasses import replace
from typing import Any

from penstock.language import tree as ast
from penstock.language.errors import EvaluationError
from penstock.language.evaluators.times import duration_from_string, duration_to_string, timestamp_to_string
from penstock.language.values import BoolKey, Duration, Timestamp, TypeName, Uint, Value, kind


def lifted(tree: ast.Tree) -> tuple[ast.Tree, dict[str, Value]]:
    """The same expression with its constants as attributes, so that columns have to do what folding would.

    Patterns, time zones, keys of maps and names of fields stay: they are gaps where content says them. As content has
    no durations, these become the time since 1970.
    """
    attributes: dict[str, Value] = {}

    def attribute(value: Value) -> ast.Attribute:
        name = f"constant {len(attributes)}"
        attributes[name] = value
        return ast.Attribute(name)

    def lift(node: ast.Tree) -> ast.Tree:
        match node:
            case ast.Literal(name, value):
                return attribute(Uint(value) if name == "uint" and isinstance(value, int) else value)
            case ast.Call("duration", None, (ast.Literal("string", str(text)),)) if (nanos := _nanos(text)) is not None:
                moments = timestamp_to_string(Timestamp(nanos)), timestamp_to_string(Timestamp(0))
                first, second = (ast.Call("timestamp", None, (attribute(each),)) for each in moments)
                return ast.Binary("-", first, second)
            case ast.Call(_, receiver, (ast.Literal(),)) if node.function.startswith("get") and receiver is not None:
                return replace(node, receiver=lift(receiver))
            case ast.Select() | ast.Has() if node.operand is not None:
                return replace(node, operand=lift(node.operand))
            case ast.IndexAccess(operand, ast.Literal("string")):
                return replace(node, operand=lift(operand))
            case ast.IndexAccess(operand, index):
                return replace(node, operand=lift(operand), index=lift(index))
            case ast.Call("matches", receiver, (*others, pattern)):
                arguments = (*map(lift, others), pattern)
                return replace(node, receiver=receiver and lift(receiver), arguments=arguments)
            case ast.Call(_, receiver, arguments):
                return replace(node, receiver=receiver and lift(receiver), arguments=tuple(map(lift, arguments)))
            case ast.Unary(_, operand):
                return replace(node, operand=lift(operand))
            case ast.Binary(_, left, right):
                return replace(node, left=lift(left), right=lift(right))
            case ast.And(operands) | ast.Or(operands):
                return replace(node, operands=tuple(map(lift, operands)))
            case ast.Conditional(condition, yes, no):
                return replace(node, condition=lift(condition), yes=lift(yes), no=lift(no))
            case ast.ListOf(items):
                return replace(node, items=tuple(map(lift, items)))
            case ast.MapOf(entries):
                return replace(node, entries=tuple((key, lift(value)) for key, value in entries))
            case ast.Macro():
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


def as_condition(tree: ast.Tree, value: Value) -> ast.Tree:
    """A condition that is true where an expression has this value, which is not a bool, of this type."""
    if not isinstance(value, int | float):
        return _has_value(tree, value)  # only numbers are equal to values of other types
    of_type = ast.Binary("==", ast.Call("type", None, (tree,)), ast.TypeLiteral(kind(value)))
    return ast.And((of_type, _has_value(tree, value)))


def _has_value(tree: ast.Tree, value: Value) -> ast.Tree:
    if isinstance(value, float) and math.isnan(value):
        return ast.Unary("!", ast.Binary("==", tree, tree))
    if isinstance(value, float) and value == 0:
        infinity = _double("-inf" if math.copysign(1, value) < 0 else "inf")
        return ast.Binary("==", ast.Binary("/", ast.Literal("double", 1.0), tree), infinity)
    return ast.Binary("==", tree, constant(value))


def _double(text: str) -> ast.Tree:
    return ast.Call("double", None, (ast.Literal("string", text),))


def constant(value: Any) -> ast.Tree:
    """The expression of a value."""
    match value:
        case list():
            return ast.ListOf(tuple(map(constant, value)))
        case dict():
            return ast.MapOf(tuple((constant(key), constant(each)) for key, each in value.items()))
        case BoolKey():
            return ast.Literal("bool", value.value)
        case Timestamp():
            return ast.Call("timestamp", None, (ast.Literal("string", timestamp_to_string(value)),))
        case Duration():
            return ast.Call("duration", None, (ast.Literal("string", duration_to_string(value)),))
        case TypeName(name):
            return ast.TypeLiteral(name)
        case float() if math.isinf(value):
            return _double(str(value))
        case _:
            return ast.Literal(kind(value), int(value) if isinstance(value, Uint) else value)
