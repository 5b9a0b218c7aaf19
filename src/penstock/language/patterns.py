"""Regular expressions: RE2, which needs time that grows with the text only (docs/decisions/0016)."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

from penstock.language.errors import Kind, failed
from penstock.language.limits import MOST_PATTERN, MOST_PATTERN_MEMORY


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MOST_PATTERN_MEMORY
    return options


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """The compiled pattern; raises `EvaluationError` if it is none, or too large."""
    if len(pattern) > MOST_PATTERN:
        raise failed(Kind.INVALID_ARGUMENT, f"a regular expression has at most {MOST_PATTERN} characters")
    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        said = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise failed(Kind.INVALID_ARGUMENT, f"`{pattern}` is not a regular expression: {said}") from None
    except UnicodeEncodeError:
        raise failed(Kind.INVALID_ARGUMENT, "a regular expression with half a surrogate pair") from None


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
