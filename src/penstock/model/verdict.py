"""The verdict of a stage on an event: its effect, the rule that caused it, and the reason."""

from enum import StrEnum
from typing import NamedTuple


class Effect(StrEnum):
    PASS = "pass"
    SUPPRESS = "suppress"
    REPLACE = "replace"
    INJECT = "inject"


class Verdict(NamedTuple):
    """The verdict of one stage on one event."""

    stage: str
    effect: Effect
    rule: str = ""
    reason: str = ""

    def __str__(self) -> str:
        rule = f" by {self.rule}" if self.rule else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.stage}: {self.effect}{rule}{reason}"
