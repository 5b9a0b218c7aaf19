"""What goes wrong: a text is not a condition (`ConditionError`) or not a statement (`StatementError`), or a condition
has no value here (`Failure`)."""

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
    """The text around a place on one line, and a caret under the place on the next."""
    line = re.sub(r"\s", " ", text)
    start = max(0, min(at - _SHOWN // 2, len(line) - _SHOWN))
    before = "…" if start else ""
    after = "…" if start + _SHOWN < len(line) else ""
    caret = " " * (len(before) + columns(line[start:at])) + "^"
    return f"  {before}{line[start : start + _SHOWN]}{after}\n  {caret}"


def _printable(line: str) -> str:
    """A line that can be shown anywhere: it may come from a stranger."""
    return "".join(each if each.isprintable() else " " if each.isspace() else "\ufffd" for each in line)


class StatementError(PenstockError):
    """What is not a policy statement, or may not be one here. Its message says what is wrong and where."""

    def __init__(self, what: str, where: str = "", at: int | None = None, shown: str = "") -> None:
        self.what = what
        self.at = at
        """The place in the text, if it was read from one."""
        message = what + (f", {where}" if where else "") + (f"\n{shown}" if shown else "")
        super().__init__("\n".join(map(_printable, message.split("\n"))))

    @classmethod
    def in_text(cls, what: str, text: str, at: int, of: str = "") -> "StatementError":
        """The error at a place of a text, which it shows with a caret; `of` says which text that is."""
        start = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at, at + 2 * _SHOWN)
        # The line may be very long, and not all of it is shown.
        near = max(start, at - 2 * _SHOWN)
        line = _printable(text[near : end if end >= 0 else at + 2 * _SHOWN])
        number = f"line {text.count(chr(10), 0, at) + 1}, " if "\n" in text else ""
        where = f"at {number}character {at - start + 1}" + (f" of {of}" if of else "")
        return cls(what, where, at, _shown(line, at - near))


class Kind(StrEnum):
    """Why an expression has no value. Cases and metrics name these; the reason says more."""

    NO_SUCH_ATTRIBUTE = "no_such_attribute"
    NO_MATCHING_OVERLOAD = "no_matching_overload"
    DIVIDE_BY_ZERO = "divide_by_zero"
    OUT_OF_RANGE = "out_of_range"
    INVALID_ARGUMENT = "invalid_argument"
    TOO_COSTLY = "too_costly"
    UNREADABLE_CONTENT = "unreadable_content"


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that an expression evaluates to: neither true nor false, so asking for its truth is a mistake."""

    kind: Kind
    reason: str

    def __bool__(self) -> NoReturn:
        raise TypeError(f"a condition that failed is neither true nor false: {self.reason}")

    def __str__(self) -> str:
        return self.reason


Outcome = bool | Failure
"""What a condition used as policy comes to."""


class EvaluationError(PenstockError):
    """Carries a `Failure` up to the operator that absorbs it, or out."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


def failed(kind: Kind, reason: str) -> EvaluationError:
    """The error to raise for a failure of this kind."""
    return EvaluationError(Failure(kind, reason))
