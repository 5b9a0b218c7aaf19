"""The errors of the language: a text is not a condition (`ConditionError`) or not a statement (`StatementError`), or a
condition has no value for some content (`Failure`).
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from penstock.model.errors import PenstockError
from penstock.model.width import columns

_SHOWN = 100


class ConditionError(PenstockError):
    """A text that is not a condition. Its message shows the place with a caret; `what` and `at` are its parts."""

    def __init__(self, what: str, text: str, at: int) -> None:
        self.what = what
        self.at = at
        super().__init__(f"{what}, at character {at + 1}\n{_shown(text, at)}")


def _shown(text: str, at: int) -> str:
    """Return the text around a place on one line, and a caret under the place on the next."""
    line = re.sub(r"\s", " ", text)
    start = max(0, min(at - _SHOWN // 2, len(line) - _SHOWN))
    before = "…" if start else ""
    after = "…" if start + _SHOWN < len(line) else ""
    caret = " " * (len(before) + columns(line[start:at])) + "^"
    return f"  {before}{line[start : start + _SHOWN]}{after}\n  {caret}"


def _printable(line: str) -> str:
    """Return a line with only printable characters: it may come from a client."""
    return "".join(
        character if character.isprintable() else " " if character.isspace() else "\ufffd" for character in line
    )


class StatementError(PenstockError):
    """A text that is not a policy statement, or may not be used here. Its message says what is wrong and where."""

    def __init__(self, what: str, where: str = "", at: int | None = None, shown: str = "") -> None:
        self.what = what
        self.at = at
        """The place in the text, if it was read from one."""
        message = what + (f", {where}" if where else "") + (f"\n{shown}" if shown else "")
        super().__init__("\n".join(map(_printable, message.split("\n"))))

    @classmethod
    def in_text(cls, what: str, text: str, at: int, of: str = "") -> "StatementError":
        """Return the error at a place of a text, which it shows with a caret; `of` says which text that is."""
        start = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at, at + 2 * _SHOWN)
        # The line may be very long, and not all of it is shown.
        near = max(start, at - 2 * _SHOWN)
        line = _printable(text[near : end if end >= 0 else at + 2 * _SHOWN])
        number = f"line {text.count(chr(10), 0, at) + 1}, " if "\n" in text else ""
        where = f"at {number}character {at - start + 1}" + (f" of {of}" if of else "")
        return cls(what, where, at, _shown(line, at - near))


class FailureKind(StrEnum):
    """The kind of a failure. Cases and metrics use these names; the reason says more."""

    NO_SUCH_ATTRIBUTE = "no_such_attribute"
    NO_MATCHING_OVERLOAD = "no_matching_overload"
    DIVIDE_BY_ZERO = "divide_by_zero"
    OUT_OF_RANGE = "out_of_range"
    INVALID_ARGUMENT = "invalid_argument"
    TOO_COSTLY = "too_costly"
    UNREADABLE_CONTENT = "unreadable_content"


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of an expression: neither true nor false, so testing its truth is an error."""

    kind: FailureKind
    reason: str

    def __bool__(self) -> NoReturn:
        raise TypeError(f"a condition that failed is neither true nor false: {self.reason}")

    def __str__(self) -> str:
        return self.reason


Outcome = bool | Failure
"""The outcome of a condition used as policy."""


class EvaluationError(PenstockError):
    """An exception that carries a `Failure` to the operator that absorbs it, or out of the evaluation."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def failed(kind: FailureKind, reason: str) -> EvaluationError:
    """Return the error to raise for a failure of this kind."""
    return EvaluationError(Failure(kind, reason))
