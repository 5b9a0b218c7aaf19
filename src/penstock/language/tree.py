"""The tree of a condition: what the parser makes, and what every evaluator, the checker and the printer read.

Nodes are equal if they mean the same by form; `at`, the place in the text, does not count.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

ORDER = ("<", "<=", ">", ">=")
EQUALITY = ("==", "!=")
RELATIONS = (*ORDER, *EQUALITY, "in")
ADDITIVE = ("+", "-")
MULTIPLICATIVE = ("*", "/", "%")
MACROS = ("all", "exists", "exists_one", "filter", "map")


def _at() -> Any:
    return field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. `kind` is its type's name, as 1, 1.0 and true are one in Python."""

    kind: str
    value: bool | int | float | str | bytes | None
    at: int = _at()


@dataclass(frozen=True, slots=True)
class TypeLiteral:
    """The name of a type: `int`, `google.protobuf.Timestamp`."""

    name: str
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of the content, by name."""

    name: str
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Variable:
    """The element that the macro around it is at."""

    name: str
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.name`"""

    operand: "Tree"
    name: str
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Has:
    """`has(operand.name)`; without an operand `has(name)`: whether the content has an attribute."""

    operand: "Tree | None"
    name: str
    at: int = _at()


@dataclass(frozen=True, slots=True)
class IndexAccess:
    """`operand[index]`"""

    operand: "Tree"
    index: "Tree"
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Call:
    """`function(arguments)`, or with a receiver `receiver.function(arguments)`."""

    function: str
    receiver: "Tree | None"
    arguments: "tuple[Tree, ...]"
    at: int = _at()

    @property
    def operands(self) -> "tuple[Tree, ...]":
        """Receiver and arguments."""
        return self.arguments if self.receiver is None else (self.receiver, *self.arguments)


@dataclass(frozen=True, slots=True)
class XPath:
    """`xpath('…')`: what an XPath expression finds in XML content."""

    expression: str
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Unary:
    """`!operand` or `-operand`"""

    operator: str
    operand: "Tree"
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Binary:
    """A relation or arithmetic; `at` is the place of the operator."""

    operator: str
    left: "Tree"
    right: "Tree"
    at: int = _at()


@dataclass(frozen=True, slots=True)
class And:
    """`a && b && c`: two or more, none of them an `And`."""

    operands: "tuple[Tree, ...]"
    at: int = _at()

    def __post_init__(self) -> None:
        _check_flat(self)


@dataclass(frozen=True, slots=True)
class Or:
    """`a || b || c`: two or more, none of them an `Or`."""

    operands: "tuple[Tree, ...]"
    at: int = _at()

    def __post_init__(self) -> None:
        _check_flat(self)


def _check_flat(node: And | Or) -> None:
    if len(node.operands) < 2 or any(type(operand) is type(node) for operand in node.operands):
        raise ValueError(f"{type(node).__name__} takes two or more operands that are something else")


@dataclass(frozen=True, slots=True)
class Conditional:
    """`condition ? yes : no`"""

    condition: "Tree"
    yes: "Tree"
    no: "Tree"
    at: int = _at()


@dataclass(frozen=True, slots=True)
class ListOf:
    """`[a, b]`"""

    items: "tuple[Tree, ...]"
    at: int = _at()


@dataclass(frozen=True, slots=True)
class MapOf:
    """`{a: b}`"""

    entries: "tuple[tuple[Tree, Tree], ...]"
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Macro:
    """`range.name(variable, body)`; `map` may have a guard: `range.map(variable, guard, body)`."""

    name: str
    range: "Tree"
    variable: str
    body: "Tree"
    guard: "Tree | None" = None
    at: int = _at()


Tree = (
    Literal | TypeLiteral | Attribute | Variable | Select | Has | IndexAccess | Call | XPath | Unary | Binary
    | And | Or | Conditional | ListOf | MapOf | Macro
)  # fmt: skip


def children(node: Tree) -> tuple[Tree, ...]:
    """Return the direct subexpressions, in the order of the text."""
    match node:
        case Select(operand, _) | Unary(_, operand):
            return (operand,)
        case Has(operand, _):
            return () if operand is None else (operand,)
        case IndexAccess(operand, index):
            return (operand, index)
        case Call():
            return node.operands
        case Binary(_, left, right):
            return (left, right)
        case And(operands) | Or(operands):
            return operands
        case Conditional(condition, yes, no):
            return (condition, yes, no)
        case ListOf(items):
            return items
        case MapOf(entries):
            return tuple(part for entry in entries for part in entry)
        case Macro(_, range_, _, body, guard):
            return (range_, body) if guard is None else (range_, guard, body)
        case _:
            return ()


def rebuilt(node: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """Return the tree with each node replaced by the result of `change`; recursive."""
    changed = change(node)
    if changed is not node:
        return changed
    match node:
        case Select(operand, _) | Unary(_, operand):
            return replace(node, operand=rebuilt(operand, change))
        case Has(operand, _):
            return node if operand is None else replace(node, operand=rebuilt(operand, change))
        case IndexAccess(operand, index):
            return replace(node, operand=rebuilt(operand, change), index=rebuilt(index, change))
        case Call(_, receiver, arguments):
            receiver = None if receiver is None else rebuilt(receiver, change)
            return replace(node, receiver=receiver, arguments=tuple(rebuilt(operand, change) for operand in arguments))
        case Binary(_, left, right):
            return replace(node, left=rebuilt(left, change), right=rebuilt(right, change))
        case And(operands) | Or(operands):
            return replace(node, operands=tuple(rebuilt(operand, change) for operand in operands))
        case Conditional(condition, yes, no):
            return replace(node, condition=rebuilt(condition, change), yes=rebuilt(yes, change), no=rebuilt(no, change))
        case ListOf(items):
            return replace(node, items=tuple(rebuilt(operand, change) for operand in items))
        case MapOf(entries):
            return replace(node, entries=tuple((rebuilt(k, change), rebuilt(v, change)) for k, v in entries))
        case Macro(_, range_, _, body, guard):
            guard = None if guard is None else rebuilt(guard, change)
            return replace(node, range=rebuilt(range_, change), body=rebuilt(body, change), guard=guard)
        case _:
            return node


def walk(tree: Tree) -> Iterator[tuple[Tree, int]]:
    """Yield every node with its depth, the root first. Iterative, so that any depth is walked."""
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in reversed(children(node)))


def reads(tree: Tree) -> bool:
    """Return whether an expression reads attributes of the content."""
    return any(isinstance(node, Attribute | Has) for node, _ in walk(tree))
