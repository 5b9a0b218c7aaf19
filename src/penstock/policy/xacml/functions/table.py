"""All functions by their identifiers: of values and bags, and those that take functions (A.3.12)."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from penstock.policy.xacml.functions.bags import bag_functions
from penstock.policy.xacml.functions.function import FunctionTable, XacmlFunction
from penstock.policy.xacml.functions.values import value_functions
from penstock.policy.xacml.names import FUNCTION_1, FUNCTION_3
from penstock.policy.xacml.status import Indeterminate, Unsupported, XacmlError
from penstock.policy.xacml.values.values import Bag, Value

FUNCTIONS: FunctionTable = value_functions() | bag_functions()

LOGICAL = {FUNCTION_1 + name: name for name in ("or", "and", "n-of")}
"""Functions that need not evaluate all of their arguments."""

Apply = Callable[..., Any]


class Higher(NamedTuple):
    """A function that applies another to members of bags."""

    combine: Callable[[Apply, Sequence[Bag]], Value]
    fits: Callable[[Sequence[bool]], bool]
    usage: str
    is_map: bool = False


def _decided(decisive: bool, outcomes: Iterable[Callable[[], bool]]) -> bool:
    """Return whether one is decisive; what fails does not matter then (A.3.12: as if by `or`, or by `and`)."""
    failure = None
    for outcome in outcomes:
        try:
            if bool(outcome()) is decisive:
                return decisive
        except Indeterminate as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return not decisive


_any, _all = partial(_decided, True), partial(_decided, False)


def _later(apply: Apply, *values: Value) -> Callable[[], bool]:
    return lambda: apply(*values)


def _any_of(apply: Apply, bags: Sequence[Bag]) -> bool:
    return _any(_later(apply, *values) for values in product(*bags))


def _all_of(apply: Apply, bags: Sequence[Bag]) -> bool:
    return _all(_later(apply, *values) for values in product(*bags))


def _all_of_any(apply: Apply, bags: Sequence[Bag]) -> bool:
    first, second = bags
    return _all(_later(_any, [_later(apply, member, other) for other in second]) for member in first)


def _any_of_all(apply: Apply, bags: Sequence[Bag]) -> bool:
    """Return whether for each member of the second bag any of the first fits, as the norm's text says, not its name."""
    first, second = bags
    return _all(_later(_any, [_later(apply, member, other) for member in first]) for other in second)


def _map(apply: Apply, bags: Sequence[Bag]) -> Bag:
    return tuple(apply(*values) for values in product(*bags))


_ONE_BAG = (lambda are_bags: sum(are_bags) == 1, "takes a function, and arguments of which one is a bag")
_TWO_BAGS = (lambda are_bags: list(are_bags) == [True, True], "takes a function and two bags")
_HIGHER = {
    "any-of": Higher(_any_of, *_ONE_BAG),
    "all-of": Higher(_all_of, *_ONE_BAG),
    "any-of-any": Higher(_any_of, bool, "takes a function, values and bags"),
    "map": Higher(_map, *_ONE_BAG, is_map=True),
    "all-of-any": Higher(_all_of_any, *_TWO_BAGS),
    "any-of-all": Higher(_any_of_all, *_TWO_BAGS),
    "all-of-all": Higher(_all_of, *_TWO_BAGS),
}
HIGHER = {prefix + name: higher for name, higher in _HIGHER.items() for prefix in (FUNCTION_1, FUNCTION_3)}


OPTIONAL = frozenset(
    {FUNCTION_3 + "access-permitted"} | {f"{FUNCTION_1}xpath-node-{name}" for name in ("count", "equal", "match")}
)
"""Optional functions of the norm that are not supported: a decision inside a decision; XPath as it was in 1.0."""


def function_named(identifier: str) -> XacmlFunction:
    """Return a function of values; raises `XacmlError` if there is none of this identifier."""
    function = FUNCTIONS.get(identifier)
    if function is None:
        if identifier in HIGHER or identifier in LOGICAL:
            raise XacmlError(f"`{identifier}` cannot be applied to members of bags")
        if identifier in OPTIONAL:
            raise Unsupported(f"`{identifier}` is optional, and not known here")
        raise XacmlError(f"`{identifier}` is not a function that is known here")
    return function
