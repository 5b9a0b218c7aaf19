"""Functions of XACML: the types of arguments and result, and the implementation."""

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.policy.xacml import names
from penstock.policy.xacml.values.values import SHORT_TYPES, Type

BOOLEAN = Type(names.BOOLEAN)
INTEGER = Type(names.INTEGER)


class XacmlFunction(NamedTuple):
    """A function of values; `apply` raises `Indeterminate`."""

    id: str
    parameters: tuple[Type, ...]
    result: Type
    apply: Callable[..., Any]
    rest: Type | None = None
    """The type of any number of further arguments."""
    cost: Callable[..., int] | None = None
    """The number of steps, where it depends on the arguments."""

    def accepts(self, count: int) -> bool:
        return count == len(self.parameters) or (self.rest is not None and count > len(self.parameters))

    def parameter(self, at: int) -> Type | None:
        """Return the type of an argument by its place; None if there is none."""
        return self.parameters[at] if at < len(self.parameters) else self.rest


FunctionTable = dict[str, XacmlFunction]


def add(table: FunctionTable, prefix: str, name: str, signature: str, apply: Callable[..., Any]) -> None:
    """Put a function into a table; its signature is the short names of its types: `string integer -> boolean`.

    Of the last type before `...` it takes any number of further arguments.
    """
    takes, _, gives = signature.partition(" -> ")
    *parameters, last = (Type(SHORT_TYPES[word.removesuffix("...")]) for word in takes.split())
    rest = last if takes.endswith("...") else None
    table[prefix + name] = XacmlFunction(prefix + name, (*parameters, last), Type(SHORT_TYPES[gives]), apply, rest)
