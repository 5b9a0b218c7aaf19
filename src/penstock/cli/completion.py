"""`penstock completion`: completion scripts for shells, and the answers that these ask for.

A script hands over the words up to the cursor; the answer lists the possible words, from the parsers of the commands
themselves, so that it is always up to date: one per line, with a tab before its description.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.cli import options as mosquitto_options
from penstock.cli.exit_codes import EXIT_ERROR
from penstock.cli.parsers import command_parser
from penstock.cli.shells import INSTALLED, SCRIPTS
from penstock.model.errors import DomainError
from penstock.model.yaml.document import read_values

_EPILOG = """\
  eval "$(penstock completion bash)"       in ~/.bashrc, or
  penstock completion --install            for the shell that $SHELL names, into the folder where it looks
Exit code: 0, 1 if it cannot be installed, 2 for bad arguments.
"""
_MAX_FILE_BYTES = 2**20
"""Size of the largest domain file that is searched for names: an answer must come at once."""

Answer = tuple[str, str]
"""A possible word, and its meaning."""


def main(argv: list[str]) -> int:
    if argv[:1] == ["--words"]:
        for value, text in completions(argv[1:]):
            print(f"{value}\t{text}" if text else value)
        return 0
    parser = _parser()
    options = parser.parse_args(argv)
    shell = options.shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SCRIPTS:
        parser.error(f"name the shell, one of {', '.join(SCRIPTS)}: `{shell}` is none of them")
    if not options.install:
        print(SCRIPTS[shell], end="")
        return 0
    file = Path.home() / INSTALLED[shell]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(SCRIPTS[shell], encoding="utf-8")
    except OSError as error:
        print(f"penstock: `{file}` cannot be written: {error.strerror}", file=sys.stderr)
        return EXIT_ERROR
    print(f"written: {file}; new shells complete `penstock`")
    if shell == "zsh":
        print(f"zsh looks there if ~/.zshrc has, before compinit: fpath+=({file.parent})")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "completion", "Print the script with which a shell completes `penstock`, or install it.", _EPILOG
    )
    parser.add_argument("shell", nargs="?", choices=list(SCRIPTS), metavar="SHELL", help=f"{', '.join(SCRIPTS)}")
    parser.add_argument("--install", action="store_true", help="write it where the shell looks for it")
    return parser


def completions(words: Sequence[str]) -> list[Answer]:
    """Return the possible words in place of the last one, after those before it."""
    *before, begun = words or [""]
    return [answer for answer in _possible(before, begun) if answer[0].startswith(begun)]


def _possible(before: list[str], begun: str) -> Iterable[Answer]:
    from penstock.cli.main import COMMANDS, module_of

    if not before:
        return [*COMMANDS.items(), ("--help", "list the commands"), ("--version", "print the version")]
    name, *rest = before
    if name not in COMMANDS:
        return []
    if name == "pipeline":
        from penstock.cli.pipeline import JOBS

        if not rest:
            return JOBS.items()
        name, rest = (f"pipeline.{rest[0]}", rest[1:]) if rest[0] in JOBS else ("", [])
    try:
        module = importlib.import_module(module_of(name)) if name else None
    except ImportError:  # an extra that is not installed
        return []
    make = getattr(module, "_parser", None) or getattr(module, "parser", None)
    if make is not None:
        return _of_parser(make(), rest, begun)
    kind = getattr(module, "OPTIONS", None)
    return _of_clients(kind, rest, begun) if kind is not None else []


# --- Commands with argparse


def _of_parser(parser: argparse.ArgumentParser, before: list[str], begun: str) -> Iterator[Answer]:
    places, awaited = [action for action in parser._actions if not action.option_strings], None
    for at, word in enumerate(before):
        if awaited is not None:
            awaited = None
        elif (action := parser._option_string_actions.get(word)) is not None:
            awaited = action if action.nargs != 0 else None
        elif word.startswith("-"):
            continue
        elif places and isinstance(places[0], argparse._SubParsersAction):
            below = places[0].choices.get(word)
            if below is not None:
                yield from _of_parser(below, before[at + 1 :], begun)
            return
        elif places and places[0].nargs not in ("*", "+"):
            places.pop(0)
    if awaited is not None:
        yield from _values(awaited, before, begun)
    elif begun.startswith("-"):
        for action in parser._actions:
            yield from (
                (name, _help(action)) for name in action.option_strings if name.startswith("--") or begun == "-"
            )
    elif places:
        yield from _values(places[0], before, begun)


def _values(action: argparse.Action, before: list[str], begun: str) -> Iterable[Answer]:
    """Return the values of an option or a positional argument."""
    if isinstance(action, argparse._SubParsersAction):
        return [(choice.dest, choice.help or "") for choice in action._choices_actions]
    if action.choices is not None:
        return [(str(choice), "") for choice in action.choices]
    if action.type is Path or action.metavar in ("FILE", "TOKEN", "URL|FILE"):
        is_domain = action.dest == "domain" or action.metavar == "URL|FILE" or "domain file" in (action.help or "")
        return _files(begun, (".yaml", ".yml") if is_domain else ())
    if (action.dest, action.metavar) in _NODES:
        return _named(before, ("nodes",))
    if action.dest in _ENTITIES:
        return _named(before, ("clients", "nodes", "foreign"))
    return []


_NODES = {("node", "NAME"), ("at", "NODE")}
_ENTITIES = {"source", "target", "to", "subject", "client", "producer", "consumer", "user"}


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%(default)s", str(action.default)).replace("%(default)d", str(action.default))


def _named(before: list[str], sections: Sequence[str]) -> Iterator[Answer]:
    """Return the names in the first of these sections that is a mapping, in the domain file on the command line."""
    for word in before:
        path = Path(word)
        if path.suffix not in (".yaml", ".yml") or not path.is_file() or path.stat().st_size > _MAX_FILE_BYTES:
            continue
        try:
            read: Any = read_values(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, DomainError):
            continue
        for section in sections if isinstance(read, dict) else ():
            names = read.get(section)
            yield from ((str(name), section) for name in (names if isinstance(names, dict) else ()))


def _files(begun: str, endings: tuple[str, ...]) -> Iterator[Answer]:
    """Return files with one of these endings, or all; and folders. Hidden ones only after a dot."""
    folder, _, start = begun.rpartition("/")
    prefix = f"{folder}/" if "/" in begun else ""
    try:
        entries = sorted(os.scandir(os.path.expanduser(prefix) or "."), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(".") and not start.startswith("."):
            continue
        if entry.is_dir():
            yield f"{prefix}{entry.name}/", ""
        elif not endings or entry.name.endswith(endings):
            yield f"{prefix}{entry.name}", ""


# --- `pub` and `sub`, which have Mosquitto's options


def _of_clients(kind: type[Any], before: list[str], begun: str) -> Iterator[Answer]:
    by_name = {name: option for option in mosquitto_options.options_of(kind) for name in option.names}
    last = by_name.get(before[-1]) if before else None
    if last is not None and last.values:
        if "FILE" in last.values or "PATH" in last.values:
            yield from _files(begun, ())
        return
    yield from ((name, option.help) for name, option in by_name.items())
