"""Functions of XACML: the types of arguments and result, and the implementation."""

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.policy.xacml import names
from penstock.policy.xacml.values.values import Type

STRING = Type(names.STRING)
BOOLEAN = Type(names.BOOLEAN)
INTEGER = Type(names.INTEGER)
DOUBLE = Type(names.DOUBLE)
TIME = Type(names.TIME)
DATE = Type(names.DATE)
DATE_TIME = Type(names.DATE_TIME)
DAYS = Type(names.DAY_TIME_DURATION)
MONTHS = Type(names.YEAR_MONTH_DURATION)
URI = Type(names.ANY_URI)
MAILBOX = Type(names.RFC822_NAME)
X500 = Type(names.X500_NAME)
ADDRESS = Type(names.IP_ADDRESS)
DNS = Type(names.DNS_NAME)
PATH = Type(names.XPATH_EXPRESSION)


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


def add(
    table: FunctionTable, prefix: str, name: str, takes: tuple[Type, ...], gives: Type, apply: Callable[..., Any]
) -> None:
    """Put a function with a fixed number of arguments into a table."""
    table[prefix + name] = XacmlFunction(prefix + name, takes, gives, apply)
