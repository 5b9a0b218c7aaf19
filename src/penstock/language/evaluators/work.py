"""The cost of one evaluation of a condition, in steps, and its bound.

What can take long pays before it is done, by the sizes of the values that it is about. So all evaluators count the
same, and a condition that failed for its cost has not taken long either.
"""

from typing import Any

from penstock.language.errors import FailureKind, failed
from penstock.language.limits import MAX_WORK
from penstock.language.tree import Tree, walk

Work = list[Any]
"""The steps of one evaluation so far, as the first entry of a list, which may have others."""

CHARACTERS = 64
"""Characters or bytes that are gone through in one step."""


def charge(work: Work, steps: int) -> None:
    """Count steps that are about to be taken; raises `EvaluationError` if they are too many."""
    work[0] += steps
    if work[0] > MAX_WORK:
        raise failed(FailureKind.TOO_COSTLY, f"on this content the condition would take more than {MAX_WORK} steps")


def parts(*trees: Tree | None) -> int:
    """Return the steps that a macro takes for each element: the number of parts of its body and guard."""
    return sum(sum(1 for _ in walk(tree)) for tree in trees if tree is not None)
