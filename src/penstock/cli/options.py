"""Command lines in the style of Mosquitto's clients, from a frozen dataclass whose fields are the options.

Each field is made by `flag` or `option`; `parse` reads a command line into the dataclass, `usage` returns its help.
As in Mosquitto's clients a word after an option is its value whatever it looks like (`-m -5`), options are not
joined (`-vd`), and an option may take several words (`-D publish user-property name value`).
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from penstock.model.errors import PenstockError

Take = Callable[[Callable[[], str]], object]
"""Returns an option's value from the words that follow it: the argument returns the next of them."""

T = TypeVar("T")

_WIDTH = 100


class UsageError(PenstockError):
    """The command line is invalid."""


class HelpWanted(Exception):
    """The command line has `--help`."""


@dataclass(frozen=True)
class Option:
    """One option of a command line."""

    names: tuple[str, ...]
    help: str
    values: str
    """The values, as the help shows them; empty for a flag."""
    take: Take
    is_many: bool


def flag(spec: str, help: str) -> Any:
    """Return a field that is True if the option is given. `spec`: its names, as `-d, --debug`."""
    return field(default=False, metadata={"option": _option(spec, help, lambda following: True, is_many=False)})


def option(spec: str, help: str, convert: Callable[[str], object] = str, default: object = None) -> Any:
    """Return a field for the value that follows; the last one given counts. `spec`: as `-p, --port PORT`."""
    option_ = _option(spec, help, lambda following: convert(following()), is_many=False)
    return field(default=default, metadata={"option": option_})


def options(spec: str, help: str, convert: Callable[[str], object] = str, take: Take | None = None) -> Any:
    """Return a field for a tuple of all values that follow any of the names."""
    option_ = _option(spec, help, take or (lambda following: convert(following())), is_many=True)
    return field(default=(), metadata={"option": option_})


def _option(spec: str, help: str, take: Take, is_many: bool) -> Option:
    words = spec.split()
    names = tuple(word.rstrip(",") for word in words if word.startswith("-"))
    return Option(names, help, " ".join(words[len(names) :]), take, is_many)


def number(low: float, high: float, kind: Callable[[str], float] = int) -> Callable[[str], float]:
    """Return a converter to a number from `low` to `high`."""

    def convert(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise UsageError(f"`{text}` is not a number") from None
        if not low <= value <= high:
            raise UsageError(f"`{text}` is not between {low} and {high}")
        return value

    return convert


def choice(values: Mapping[str, T]) -> Callable[[str], T]:
    """Return a converter to the value under one of the keys of `values`."""

    def convert(text: str) -> T:
        try:
            return values[text]
        except KeyError:
            raise UsageError(f"`{text}` is not one of {', '.join(values)}") from None

    return convert


def utf8(text: str) -> str:
    """Convert only what MQTT can send as text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"`{text!a}` is not UTF-8 text") from None
    return text


def parse(kind: type[T], argv: Sequence[str]) -> T:
    """Parse a command line; raise `UsageError` or `HelpWanted`."""
    by_name = {name: (dest, option) for dest, option in _fields(kind) for name in option.names}
    values: dict[str, Any] = {}
    words = iter(argv)
    for word in words:
        if word == "--help":
            raise HelpWanted
        if word not in by_name:
            raise UsageError(f"unknown option `{word}`")
        dest, option = by_name[word]
        value = _take(word, option, lambda: next(words, None))
        values[dest] = (*values.get(dest, ()), value) if option.is_many else value
    return kind(**values)


def usage(kind: type[Any], synopsis: str) -> str:
    """Return the help text: the synopsis, then every option."""
    lines = [synopsis, ""]
    for option in options_of(kind):
        name = ", ".join(option.names)
        lines.append(f"  {name} {option.values}".rstrip())
        lines += textwrap.wrap(option.help, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines)


def options_of(kind: type[Any]) -> tuple[Option, ...]:
    """Return the options of a command line, in the order of its help."""
    return tuple(option for _, option in _fields(kind))


def _fields(kind: type[Any]) -> list[tuple[str, Option]]:
    return [(field_.name, field_.metadata["option"]) for field_ in fields(kind) if "option" in field_.metadata]


def _take(word: str, option: Option, next_word: Callable[[], str | None]) -> object:
    def following() -> str:
        next_ = next_word()
        if next_ is None:
            raise UsageError(f"expected {option.values}")
        return next_

    try:
        return option.take(following)
    except UsageError as error:
        raise UsageError(f"{word}: {error}") from None
