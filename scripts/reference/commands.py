"""The command line, from the parsers of the commands."""

import argparse
import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest.mock import patch

from penstock.cli.client import pub, sub
from penstock.cli.client.broker_options import ClientOptions
from penstock.cli.main import COMMANDS, module_of
from penstock.cli.node import trust_apply
from penstock.cli.options import options_of
from penstock.cli.pipeline import JOBS
from scripts.reference.markdown import code, heading, plain, table

# Commands in the habits of Mosquitto's clients: their options are the fields of a class.
CLIENTS: dict[str, tuple[str, type[ClientOptions]]] = {
    "pub": (pub.SYNOPSIS, pub.PubOptions),
    "sub": (sub.SYNOPSIS, sub.SubOptions),
    "trust apply": (trust_apply.SYNOPSIS, trust_apply.ApplyOptions),
}
_INTRODUCTION = """\
Every command with `--help` says what stands here. Exit codes: 0 good, 2 bad arguments, 3 the domain does not check, 4 a
policy test failed; where a command has others, its text says so.

"""


class _Parser(Exception):
    """Carries a command's parser out of it."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def page() -> str:
    names = table(("command", "does"), ((f"[`{name}`](#penstock-{name})", plain(COMMANDS[name])) for name in COMMANDS))
    sections = "".join(section for name in COMMANDS for section in _command(name))
    return heading("Commands", "the parsers in `penstock.cli`") + _INTRODUCTION + names + sections


def _command(name: str) -> Iterator[str]:
    if name in CLIENTS:
        yield _client(name, level=2)
    elif name == "pipeline":
        yield f"\n## penstock pipeline\n\n{table(('job', 'does'), ((code(job), plain(JOBS[job])) for job in JOBS))}"
        for job in JOBS:
            yield from _parsed(parser_of(f"penstock.cli.pipeline.{job}"), level=3)
    else:
        yield from _parsed(parser_of(module_of(name)), level=2)


def parser_of(module: str) -> argparse.ArgumentParser:
    """The parser that a command reads its arguments with."""

    def caught(parser: argparse.ArgumentParser, *arguments: Any) -> None:
        raise _Parser(parser)

    with patch.object(argparse.ArgumentParser, "parse_args", caught):
        try:
            importlib.import_module(module).main([])
        except _Parser as found:
            return found.parser
    raise TypeError(f"`{module}` reads its arguments without a parser")


class _Row(NamedTuple):
    names: str
    meaning: str


def _parsed(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    below = [action for action in actions if isinstance(action, argparse._SubParsersAction)]
    rows = [_row(parser, action) for action in actions if action not in below and action.dest != "help"]
    yield _section(parser.prog, parser.description or "", rows, parser.epilog or "", level)
    for action in below:
        for name, command in action.choices.items():
            whole = f"{parser.prog.removeprefix('penstock ')} {name}"
            if whole in CLIENTS:
                yield _client(whole, level + 1)
            else:
                yield from _parsed(command, level + 1)


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> _Row:
    shown = action.metavar if action.metavar is not None else "|".join(map(str, action.choices or ())) or None
    value = " ".join(shown) if isinstance(shown, tuple) else shown or action.dest.upper()
    if not action.option_strings:
        names = [code(f"[{value}]" if action.nargs in ("?", "*") else value)]
    else:
        names = [code(name if action.nargs == 0 else f"{name} {value}") for name in action.option_strings]
    values = {**vars(action), "prog": parser.prog}
    needed = "; required" if action.required and action.option_strings else ""
    return _Row(", ".join(names), plain((action.help or "") % values) + needed)


def _client(name: str, level: int) -> str:
    synopsis, kind = CLIENTS[name]
    usage, _, about = synopsis.partition("\n\n")
    rows = [
        _Row(", ".join(code(f"{name} {option.values}".strip()) for name in option.names), plain(option.help))
        for option in options_of(kind)
    ]
    return _section(f"penstock {name}", about, rows, usage, level)


def _section(title: str, about: str, rows: list[_Row], more: str, level: int) -> str:
    parts = [f"{'#' * level} {title}", plain(about)]
    if rows:
        parts.append(table(("argument", "meaning"), rows).rstrip())
    if more:
        parts.append(f"```text\n{more.strip()}\n```")
    return "".join(f"\n{part}\n" for part in parts if part)
