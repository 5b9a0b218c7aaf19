"""The tree of a condition: what the parser makes, and what every evaluator, the checker and the printer read.

Nodes are equal if they mean the same by form; `at`, the place in the text, does not count.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

ORDER = ("<", "<=", ">", ">=")
EQUALITY = ("==", "!=")
RELATIONS = (*ORDER, *EQUALITY, "in")
ADDITIVE = ("+", "-")
MULTIPLICATIVE = ("*", "/", "%")
MACROS = ("all", "exists", "exists_one", "filter", "map")


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    """A part of a condition; `at` is its place in the text."""

    at: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Literal(SyntaxNode):
    """A constant. `kind` is its type's name, as 1, 1.0 and true are one in Python."""

    kind: str
    value: bool | int | float | str | bytes | None


@dataclass(frozen=True, slots=True)
class TypeLiteral(SyntaxNode):
    """The name of a type: `int`, `google.protobuf.Timestamp`."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute(SyntaxNode):
    """An attribute of the content, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable(SyntaxNode):
    """The element that the macro around it is at."""

    name: str


@dataclass(frozen=True, slots=True)
class Select(SyntaxNode):
    """`operand.name`"""

    operand: "Tree"
    name: str


@dataclass(frozen=True, slots=True)
class Has(SyntaxNode):
    """`has(operand.name)`; without an operand `has(name)`: whether the content has an attribute."""

    operand: "Tree | None"
    name: str


@dataclass(frozen=True, slots=True)
class IndexAccess(SyntaxNode):
    """`operand[index]`"""

    operand: "Tree"
    index: "Tree"


@dataclass(frozen=True, slots=True)
class Call(SyntaxNode):
    """`function(arguments)`, or with a receiver `receiver.function(arguments)`."""

    function: str
    receiver: "Tree | None"
    arguments: "tuple[Tree, ...]"

    @property
    def operands(self) -> "tuple[Tree, ...]":
        """Receiver and arguments."""
        return self.arguments if self.receiver is None else (self.receiver, *self.arguments)


@dataclass(frozen=True, slots=True)
class XPath(SyntaxNode):
    """`xpath('…')`: what an XPath expression finds in XML content."""

    expression: str


@dataclass(frozen=True, slots=True)
class Unary(SyntaxNode):
    """`!operand` or `-operand`"""

    operator: str
    operand: "Tree"


@dataclass(frozen=True, slots=True)
class Binary(SyntaxNode):
    """A relation or arithmetic; `at` is the place of the operator."""

    operator: str
    left: "Tree"
    right: "Tree"


@dataclass(frozen=True, slots=True)
class _Joined(SyntaxNode):
    operands: "tuple[Tree, ...]"

    def __post_init__(self) -> None:
        if len(self.operands) < 2 or any(type(operand) is type(self) for operand in self.operands):
            raise ValueError(f"{type(self).__name__} takes two or more operands that are something else")


@dataclass(frozen=True, slots=True)
class And(_Joined):
    """`a && b && c`: two or more, none of them an `And`."""


@dataclass(frozen=True, slots=True)
class Or(_Joined):
    """`a || b || c`: two or more, none of them an `Or`."""


@dataclass(frozen=True, slots=True)
class Conditional(SyntaxNode):
    """`condition ? yes : no`"""

    condition: "Tree"
    yes: "Tree"
    no: "Tree"


@dataclass(frozen=True, slots=True)
class ListOf(SyntaxNode):
    """`[a, b]`"""

    items: "tuple[Tree, ...]"


@dataclass(frozen=True, slots=True)
class MapOf(SyntaxNode):
    """`{a: b}`"""

    entries: "tuple[tuple[Tree, Tree], ...]"


@dataclass(frozen=True, slots=True)
class Macro(SyntaxNode):
    """`range.name(variable, body)`; `map` may have a guard: `range.map(variable, guard, body)`."""

    name: str
    range: "Tree"
    variable: str
    body: "Tree"
    guard: "Tree | None" = None


Tree = (
    Literal | TypeLiteral | Attribute | Variable | Select | Has | IndexAccess | Call | XPath | Unary | Binary
    | And | Or | Conditional | ListOf | MapOf | Macro
)  # fmt: skip


_LEAVES = (Literal, Attribute, Variable, TypeLiteral, XPath)


def children(node: Tree) -> tuple[Tree, ...]:
    """Return the direct subexpressions, in the order of the text."""
    if isinstance(node, _LEAVES):
        return ()
    if isinstance(node, Macro):
        return (node.range, node.body) if node.guard is None else (node.range, node.guard, node.body)
    if isinstance(node, Call):
        return node.operands
    return tuple(_nodes(getattr(node, name) for name in node.__match_args__))


def _nodes(parts: Iterable[Any]) -> Iterator[Tree]:
    for part in parts:
        if isinstance(part, tuple):
            yield from _nodes(part)
        elif isinstance(part, SyntaxNode):
            yield part  # type: ignore[misc]


def rebuilt(node: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """Return the tree with each node replaced by the result of `change`; recursive."""

    def inside(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(inside, part))
        return rebuilt(part, change) if isinstance(part, SyntaxNode) else part  # type: ignore[arg-type]

    changed = change(node)
    if changed is not node:
        return changed
    return replace(node, **{name: inside(getattr(node, name)) for name in node.__match_args__})


def flat(kind: type[And] | type[Or], operands: Iterable[Tree]) -> tuple[Tree, ...]:
    """Return operands with those that are themselves of this kind replaced by their operands."""
    return tuple(part for node in operands for part in (node.operands if isinstance(node, kind) else (node,)))


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
