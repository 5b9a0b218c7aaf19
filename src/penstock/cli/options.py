"""Command lines in the habits of Mosquitto's clients, from a frozen dataclass whose fields are the options.

Each field is made by `flag` or `option`; `parse` reads a command line into the dataclass, `usage` prints its help.
As in Mosquitto's clients a word after an option is its value whatever it looks like (`-m -5`), options are not
joined (`-vd`), and an option may take several words (`-D publish user-property name value`).
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from penstock.model.errors import PenstockError

Take = Callable[[Callable[[], str]], object]
"""Makes an option's value from the words that follow it: the argument gives the next of them."""

T = TypeVar("T")

_WIDTH = 100


class UsageError(PenstockError):
    """A command line that makes no sense."""


class HelpWanted(Exception):
    """The command line has `--help`."""


@dataclass(frozen=True)
class Option:
    """How one field is given on the command line."""

    names: tuple[str, ...]
    help: str
    values: str
    """What follows, as the help shows it; empty for a flag."""
    take: Take
    is_many: bool


def flag(*names: str, help: str) -> Any:
    """A field that is True if one of `names` is given."""
    option = Option(names, help, "", lambda following: True, is_many=False)
    return field(default=False, metadata={"option": option})


def option(
    *names: str,
    help: str,
    values: str,
    convert: Callable[[str], object] = str,
    default: object = None,
) -> Any:
    """A field that is what follows one of `names`; the last one given counts."""
    made = Option(names, help, values, lambda following: convert(following()), is_many=False)
    return field(default=default, metadata={"option": made})


def options(
    *names: str,
    help: str,
    values: str,
    convert: Callable[[str], object] = str,
    take: Take | None = None,
) -> Any:
    """A field that is a tuple of all that follows any of `names`."""
    made = Option(names, help, values, take or (lambda following: convert(following())), is_many=True)
    return field(default=(), metadata={"option": made})


def number(low: float, high: float, kind: Callable[[str], float] = int) -> Callable[[str], float]:
    """A converter to a number from `low` to `high`."""

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
    """A converter to what stands under one of the keys of `values`."""

    def convert(text: str) -> T:
        try:
            return values[text]
        except KeyError:
            raise UsageError(f"`{text}` is none of {', '.join(values)}") from None

    return convert


def utf8(text: str) -> str:
    """A converter that takes only what MQTT can send as text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"`{text!a}` is not UTF-8 text") from None
    return text


def parse(kind: type[T], argv: Sequence[str]) -> T:
    """Read a command line; raises UsageError, or HelpWanted."""
    known = {name: (dest, option) for dest, option in _fields(kind) for name in option.names}
    given: dict[str, Any] = {}
    words = iter(argv)
    for word in words:
        if word == "--help":
            raise HelpWanted
        if word not in known:
            raise UsageError(f"unknown option `{word}`")
        dest, option = known[word]
        value = _take(word, option, lambda: next(words, None))
        given[dest] = (*given.get(dest, ()), value) if option.is_many else value
    return kind(**given)


def usage(kind: type[Any], synopsis: str) -> str:
    """The help text: the synopsis, then every option."""
    lines = [synopsis, ""]
    for option in options_of(kind):
        name = ", ".join(option.names)
        lines.append(f"  {name} {option.values}".rstrip())
        lines += textwrap.wrap(option.help, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines)


def options_of(kind: type[Any]) -> tuple[Option, ...]:
    """The options of a command line, in the order of its help."""
    return tuple(option for _, option in _fields(kind))


def _fields(kind: type[Any]) -> list[tuple[str, Option]]:
    return [(each.name, each.metadata["option"]) for each in fields(kind) if "option" in each.metadata]


def _take(word: str, option: Option, next_word: Callable[[], str | None]) -> object:
    def following() -> str:
        found = next_word()
        if found is None:
            raise UsageError(f"expected {option.values}")
        return found

    try:
        return option.take(following)
    except UsageError as error:
        raise UsageError(f"{word}: {error}") from None
