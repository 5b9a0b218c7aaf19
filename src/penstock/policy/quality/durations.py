"""Lengths of time as policies write them: seconds as a number, or `90s`, `10m`, `1h30m`, `30d`."""

import math
import re

from penstock.language.errors import EvaluationError
from penstock.language.evaluators.times import duration_from_string
from penstock.model.errors import PolicyError
from penstock.model.values import SECOND

_DAYS = re.compile(r"(\d{1,6})d", re.ASCII)
_SPAN = re.compile(r"[\d.]+[a-zµμ]+[\d.a-zµμ]*", re.ASCII)
_DAY = 86_400


def is_span(said: object) -> bool:
    """Whether it is written as a length of time with units, and not as an expression."""
    return isinstance(said, str) and bool(_SPAN.fullmatch(said))


def seconds(said: object) -> float:
    """A length of time in seconds, of 0 or more; raises `PolicyError`."""
    found = _read(said)
    if found is None or not 0 <= found < math.inf:
        raise PolicyError(f"`{str(said)[:80]}` is not a length of time such as `90s`, `10m`, `1h` or `30d`")
    return found


def _read(said: object) -> float | None:
    if isinstance(said, str):
        if days := _DAYS.fullmatch(said):
            return float(int(days[1]) * _DAY)
        try:
            return duration_from_string(said).nanos / SECOND
        except EvaluationError:
            return None
    return float(said) if isinstance(said, int | float) and not isinstance(said, bool) else None
