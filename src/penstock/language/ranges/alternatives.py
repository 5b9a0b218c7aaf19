"""A condition as the alternatives between its `||`, each with a normal form: what an index files one by one."""

from itertools import product
from math import prod

from penstock.language.ranges.ranges import ranges
from penstock.language.tree import And, Or, Tree

MOST_ALTERNATIVES = 8
"""A condition with more is decided as it is."""


def alternatives(tree: Tree) -> tuple[Tree, ...]:
    """Conditions of which one is true exactly where this one is; none if some would have no normal form.

    `||` is true where an operand is, and `&&` where all are, whatever fails beside; so `a && (b || c)` may be taken as
    `a && b || a && c`. Of what is false and what fails, this says nothing.
    """
    found = _alternatives(tree)
    if len(found) < 2 or any(ranges(each) is None for each in found):
        return ()
    return found


def _alternatives(tree: Tree) -> tuple[Tree, ...]:
    match tree:
        case Or(operands) if ranges(tree) is None:
            found = tuple(each for operand in operands for each in _alternatives(operand))
            return found if len(found) <= MOST_ALTERNATIVES else (tree,)
        case And(operands):
            each = [_alternatives(operand) for operand in operands]
            if prod(map(len, each)) > MOST_ALTERNATIVES:
                return (tree,)
            return tuple(And(_flat(one)) if len(one) > 1 else one[0] for one in product(*each))
    return (tree,)


def _flat(operands: tuple[Tree, ...]) -> tuple[Tree, ...]:
    return tuple(each for one in operands for each in (one.operands if isinstance(one, And) else (one,)))
