"""What one evaluation of a condition has cost, in steps, and the one bound on it.

What can take long pays before it is done, by the sizes of the values that it is about. So all evaluators count the
same, and a condition that failed for its cost has not taken long either.
"""

from typing import Any

from penstock.language.errors import Kind, failed
from penstock.language.limits import MOST_WORK
from penstock.language.tree import Tree, walk

Work = list[Any]
"""The steps of one evaluation so far, as the first entry of a list, which may have others."""

CHARACTERS = 64
"""Characters or bytes that are gone through in one step."""


def charge(work: Work, steps: int) -> None:
    """Count steps that are about to be taken; raises `EvaluationError` if they are too many."""
    work[0] += steps
    if work[0] > MOST_WORK:
        raise failed(Kind.TOO_COSTLY, f"on this content the condition would take more than {MOST_WORK} steps")


def parts(*trees: Tree | None) -> int:
    """Steps that a macro takes for each element: the parts of what it evaluates."""
    return sum(sum(1 for _ in walk(tree)) for tree in trees if tree is not None)
