"""Regular expressions: RE2, which needs time that grows with the text only (docs/decisions/0016)."""

from collections.abc import Callable, Sized
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

from penstock.language.errors import Kind, failed
from penstock.language.limits import MOST_MATCHED, MOST_PATTERN, MOST_PATTERN_MEMORY, MOST_PATTERN_PROGRAM

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
    """The compiled pattern; raises `EvaluationError` if it is none, or too large."""
    if len(pattern) > MOST_PATTERN:
        raise failed(Kind.INVALID_ARGUMENT, f"a regular expression has at most {MOST_PATTERN} characters")
    try:
        re2.compile(pattern, _options(MOST_PATTERN_PROGRAM))  # large ones are given up early
        return re2.compile(pattern, _options(MOST_PATTERN_MEMORY))
    except re2.error as error:
        said = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise failed(Kind.INVALID_ARGUMENT, f"`{pattern}` is not a regular expression: {said}") from None
    except UnicodeEncodeError:
        raise failed(Kind.INVALID_ARGUMENT, "a regular expression with half a surrogate pair") from None


def match_cost(text: Sized, pattern: str) -> int:
    """The steps that looking for a pattern takes.

    RE2 builds its automaton while it runs; where that does not fit into memory, it goes through its program for each
    character, at up to 30 ns for an instruction. So both count, whether it comes to that or not.
    """
    instructions: int = compiled(pattern).programsize
    if len(text) > MOST_MATCHED:
        raise failed(Kind.TOO_COSTLY, f"`matches` takes strings of at most {MOST_MATCHED} characters")
    return (len(text) // _CHARACTERS + 1) * instructions


def matcher(pattern: str) -> Callable[[str], bool]:
    """The test whether a pattern is found anywhere in a text; raises `EvaluationError` as `compiled` does."""
    search = compiled(pattern).search

    def found(text: str) -> bool:
        try:
            return search(text) is not None
        except UnicodeEncodeError:
            raise failed(Kind.INVALID_ARGUMENT, "a string with half a surrogate pair") from None

    return found


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern is found anywhere in the text."""
    return matcher(pattern)(text)
