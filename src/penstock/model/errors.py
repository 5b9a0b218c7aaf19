"""The one error root.

A message is lower case, has no final stop, and shows the offending input in backticks.
"""

from dataclasses import dataclass


class PenstockError(Exception):
    """Root of every error that Penstock raises on purpose."""


class TopicError(PenstockError):
    """A topic name or topic filter that MQTT does not allow."""


class PolicyError(PenstockError):
    """A policy file (passwords, access lists) that cannot be read."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a domain file: where it stands (`FILE:LINE`), the path of its key, and what is wrong."""

    where: str
    path: str
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.path, self.what) if part)


class DomainError(PenstockError):
    """A domain file that does not check; its text has a line for each problem."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems
