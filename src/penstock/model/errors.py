"""The one error root.

A message is lower case, has no final stop, and shows the offending input in backticks.
"""

from dataclasses import dataclass

import msgspec

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors that msgspec raises for bytes that are not the expected JSON, or are nested too deeply."""


class PenstockError(Exception):
    """Root of every error that Penstock raises on purpose."""


class TopicError(PenstockError):
    """A topic name or topic filter that MQTT does not allow."""


class PolicyError(PenstockError):
    """A policy file (passwords, access lists) that cannot be read."""


class ContentError(PenstockError):
    """A payload that is not what its format asks for, or in which a question has no answer."""


class BoundError(ContentError):
    """A payload beyond a bound, so that what it says is not known."""


class AmbiguityError(ContentError):
    """A payload that says one thing to some readers and another to others."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a domain: where it stands (a file and line), the path of its key, and what is wrong.

    Line 0 is the file as a whole, or a variable of the environment; an empty path is all that the file says. The
    name is empty if the text is in no file.
    """

    file: str
    line: int
    path: str
    what: str

    def __str__(self) -> str:
        where = place_text(self.file, self.line)
        return ": ".join(part for part in (where, self.path, self.what) if part)


def place_text(file: str, line: int) -> str:
    """Return how messages write a file and a line."""
    if not line:
        return file
    return f"{file}:{line}" if file else f"line {line}"


class DomainError(PenstockError):
    """A domain file that does not check; its text has a line for each problem."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems
