"""Equality, order and `in` as conditions have them: what goes through long values pays for it first."""

from itertools import repeat

from penstock.language.evaluators.work import CHARACTERS, Work, charge
from penstock.language.values import Value, as_key, equal, in_order, no_overload

_TEXTS = frozenset({str, bytes})
_LONG = frozenset({str, bytes, list, dict})


def same(left: Value, right: Value, work: Work) -> bool:
    """Return `left == right`."""
    kind = type(left)
    if kind is not type(right):
        return equal(left, right)
    if kind not in _LONG:
        return left == right  # type: ignore[no-any-return]
    if kind in _TEXTS:
        _pay_for_texts(left, right, work)
        return left == right  # type: ignore[no-any-return]
    if len(left) != len(right):
        return False
    charge(work, len(left))
    if kind is list:
        return all(map(same, left, right, repeat(work)))
    return all(key in right and same(left[key], right[key], work) for key in left)


def ordered(symbol: str, left: Value, right: Value, work: Work) -> bool:
    """Return `left < right`, or one of the other three comparisons."""
    if type(left) in _TEXTS and type(left) is type(right):
        _pay_for_texts(left, right, work)
    return in_order(symbol, left, right)


def is_in(element: Value, container: Value, work: Work) -> bool:
    """Return `element in container`: whether a list has an element, or a map a key."""
    if type(container) is list:
        charge(work, len(container))
    return is_among(element, container, work)


def is_among(element: Value, container: Value, work: Work) -> bool:
    """Return the same for a list literal, whose elements are parts of the condition and cost nothing."""
    kind = type(element)
    if type(container) is list:
        if kind is str and len(element) < CHARACTERS:
            return element in container  # what Python has equal to a string is a string
        if kind in _LONG:
            return any(map(same, repeat(element), container, repeat(work)))
        return any(map(equal, repeat(element), container))
    if type(container) is dict:
        return kind not in (list, dict) and as_key(element) in container
    raise no_overload("in", element, container)


def _pay_for_texts(left: Value, right: Value, work: Work) -> None:
    steps = min(len(left), len(right)) // CHARACTERS
    if steps:
        charge(work, steps)
