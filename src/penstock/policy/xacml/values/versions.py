"""Versions of policies, and patterns of them (5.12, 5.13)."""

import re

from penstock.policy.xacml.status import XacmlError

_VERSION = re.compile(r"\d{1,9}(\.\d{1,9}){0,20}", re.ASCII)
_PATTERN = re.compile(r"((\d{1,9}|\*)\.){0,20}(\d{1,9}|[*+])", re.ASCII)


def check_version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise XacmlError(f"`{text}` is not a version: numbers with points between them")
    return text


def check_pattern(text: str) -> str:
    if not _PATTERN.fullmatch(text):
        raise XacmlError(
            f"`{text}` is not a pattern of versions: numbers or `*`, and `+` at the end, with points between them"
        )
    return text


def version_key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def is_wanted(version: str, exact: str | None, earliest: str | None, latest: str | None) -> bool:
    """Return whether a version is one that a reference asks for."""
    numbers = version.split(".")
    return (
        (exact is None or _fits(numbers, exact.split(".")))
        and (earliest is None or _order(numbers, earliest.split(".")) >= 0)
        and (latest is None or _order(numbers, latest.split(".")) <= 0)
    )


def _fits(numbers: list[str], pattern: list[str]) -> bool:
    """Return whether a version fits a pattern: `*` is any one number; a final `+` is any number and all that follow."""
    *first, last = pattern
    if len(numbers) < len(pattern) or (last != "+" and len(numbers) > len(pattern)):
        return False
    return all(word in "*+" or int(word) == int(number) for word, number in zip((*first, last), numbers, strict=False))


def _order(numbers: list[str], pattern: list[str]) -> int:
    """Return whether a version is below, within or above a pattern: from a wildcard on, all are within."""
    for at, word in enumerate(pattern):
        if word in "*+":
            return 0
        if at >= len(numbers):
            return -1
        if int(word) != int(numbers[at]):
            return -1 if int(numbers[at]) < int(word) else 1
    return 1 if len(numbers) > len(pattern) else 0
