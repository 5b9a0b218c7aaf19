"""Regular expressions: RE2, which needs time that grows with the text only (docs/decisions/0016)."""

from collections.abc import Callable, Sized
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

from penstock.language.errors import FailureKind, failed
from penstock.language.limits import MAX_MATCHED, MAX_PATTERN, MAX_PATTERN_MEMORY, MAX_PATTERN_PROGRAM

_CHARACTERS = 8
"""Characters for which RE2 takes at most about as many steps as its program has instructions."""


def _options(memory: int) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = memory
    return options


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """Compile a pattern; raises `EvaluationError` if it is invalid or too large."""
    if len(pattern) > MAX_PATTERN:
        raise failed(FailureKind.INVALID_ARGUMENT, f"a regular expression has at most {MAX_PATTERN} characters")
    try:
        re2.compile(pattern, _options(MAX_PATTERN_PROGRAM))  # large ones are given up early
        return re2.compile(pattern, _options(MAX_PATTERN_MEMORY))
    except re2.error as error:
        problem = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise failed(FailureKind.INVALID_ARGUMENT, f"`{pattern}` is not a regular expression: {problem}") from None
    except UnicodeEncodeError:
        raise failed(FailureKind.INVALID_ARGUMENT, "a regular expression with half a surrogate pair") from None


def match_cost(text: Sized, pattern: str) -> int:
    """Return the steps that looking for a pattern takes.

    RE2 builds its automaton while it runs; where that does not fit into memory, it goes through its program for each
    character, at up to 30 ns for an instruction. So both count, whether it comes to that or not.
    """
    instructions: int = compiled(pattern).programsize
    if len(text) > MAX_MATCHED:
        raise failed(FailureKind.TOO_COSTLY, f"`matches` takes strings of at most {MAX_MATCHED} characters")
    return (len(text) // _CHARACTERS + 1) * instructions


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return the test whether a pattern is found anywhere in a text; raises `EvaluationError` as `compiled` does."""
    search = compiled(pattern).search

    def is_found(text: str) -> bool:
        try:
            return search(text) is not None
        except UnicodeEncodeError:
            raise failed(FailureKind.INVALID_ARGUMENT, "a string with half a surrogate pair") from None

    return is_found


def matches(text: str, pattern: str) -> bool:
    """Return whether the pattern is found anywhere in the text."""
    return matcher(pattern)(text)
