"""The alternatives of a condition between its `||`, each with a normal form, which an index files one by one."""

from itertools import product
from math import prod

from penstock.language.ranges.ranges import ranges
from penstock.language.tree import And, Or, Tree, flat

MAX_ALTERNATIVES = 8
"""A condition with more is decided as it is."""


def alternatives(tree: Tree) -> tuple[Tree, ...]:
    """Return conditions of which one is true exactly where this one is; none if some would have no normal form.

    `||` is true where an operand is, and `&&` where all are, whatever fails beside; so `a && (b || c)` may be taken as
    `a && b || a && c`. Of what is false and what fails, this says nothing.
    """
    result = _alternatives(tree)
    if len(result) < 2 or any(ranges(alternative) is None for alternative in result):
        return ()
    return result


def _alternatives(tree: Tree) -> tuple[Tree, ...]:
    match tree:
        case Or(operands) if ranges(tree) is None:
            inside = tuple(alternative for operand in operands for alternative in _alternatives(operand))
            return inside if len(inside) <= MAX_ALTERNATIVES else (tree,)
        case And(operands):
            choices = [_alternatives(operand) for operand in operands]
            if prod(map(len, choices)) > MAX_ALTERNATIVES:
                return (tree,)
            return tuple(And(flat(And, parts)) if len(parts) > 1 else parts[0] for parts in product(*choices))
    return (tree,)
