"""Lengths of time as they are written: seconds as a number, or text such as `90s`, `1.5 h`, `1h30m` or `30d`."""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from .errors import PolicyError
from .values import SECOND

GO_UNITS: Mapping[str, int] = MappingProxyType(
    {
        "ns": 1,
        "us": 1_000,
        "µs": 1_000,
        "μs": 1_000,
        "ms": 1_000_000,
        "s": SECOND,
        "m": 60 * SECOND,
        "h": 3_600 * SECOND,
    }
)
"""The units that Go and CEL know, in nanoseconds."""
_UNITS = MappingProxyType({**GO_UNITS, "d": 86_400 * SECOND, "w": 604_800 * SECOND})

DURATION_FORM = "a duration, such as 10 (seconds), `10s`, `5m`, `1h` or `2d`"

_MAX_LENGTH = 100
_SPACE = re.compile(r"(?<=[\d.]) (?=[a-zµμ])", re.ASCII)


def read_nanos(text: str, units: Mapping[str, int] = _UNITS) -> int | None:
    """Return the nanoseconds of a sign, and numbers with units (`90s`, `1h30m`, `-1.5ms`); None for other text."""
    whole, part = _patterns("|".join(units))
    match = whole.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        return None
    nanos: int = sum(
        int(number or 0) * units[unit] + int(fraction or 0) * units[unit] // 10 ** len(fraction)
        for number, fraction, unit in part.findall(match[2])
    )
    return -nanos if match[1] == "-" else nanos


def read_seconds(value: object) -> float | None:
    """Return the seconds of a number, or of text that is not negative; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    nanos = read_nanos(_SPACE.sub("", value.strip())) if isinstance(value, str) else None
    return nanos / SECOND if nanos is not None and nanos >= 0 else None


def check_seconds(value: object) -> float:
    """Return the seconds of text or a finite number that is not negative; raises `PolicyError` for anything else."""
    seconds = read_seconds(value)
    if seconds is None or not 0 <= seconds < math.inf:
        raise PolicyError(f"`{str(value)[:80]}` is not a length of time such as `90s`, `10m`, `1h` or `30d`")
    return float(seconds)


@lru_cache(maxsize=2)
def _patterns(units: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    whole = re.compile(rf"([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:{units}))+|0)", re.ASCII)
    return whole, re.compile(rf"(\d*)\.?(\d*)({units})", re.ASCII)
