"""The fenced blocks of a page: commands, what they print, and files, which are in the reader's folder."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"(?:# |// |<!-- )(?P<name>\w[\w./-]*\.\w+)(?: -->)?\n")
_ABOVE = re.compile(r"<!-- file: (?P<name>\S+) -->\n$")


@dataclass(frozen=True)
class Command:
    """One command of a page, or the lines of a block of commands."""

    text: str
    line: int
    """Where it begins in the page."""
    shown: str | None
    """What the page shows of what it prints; None: nothing."""
    block: int = 0
    """Where its block begins."""


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    """Of the first line inside."""
    file: str | None
    """The name of the file that it shows: a comment in its first line, or one above it that only the source has."""

    @property
    def commands(self) -> list[Command]:
        if self.language == "sh":
            return [Command(self.text, self.line, None)]
        return _session(self) if self.language == "console" else []


def blocks(page: str) -> list[Block]:
    found = []
    for fence in _FENCE.finditer(page):
        text = re.sub(rf"^{fence['indent']}", "", fence["text"], flags=re.MULTILINE)
        above, inside = _ABOVE.search(page[: fence.start()]), _NAMED.match(text)
        name = above["name"] if above else inside["name"] if inside else None
        is_file = name is not None and fence["language"] not in ("sh", "console")
        line = page.count("\n", 0, fence.start("text")) + 1
        found.append(Block(fence["language"], text, line, name if is_file else None))
    return found


def _session(block: Block) -> list[Command]:
    """Commands follow `$ `, are continued after a backslash, and what they print follows them."""
    commands: list[Command] = []
    typed, shown, began = "", "", 0
    for number, line in enumerate(block.text.splitlines(keepends=True), block.line):
        if typed.endswith("\\\n"):
            typed += line.removeprefix("> ")
        elif line.startswith("$ "):
            if typed:
                commands.append(Command(typed, began, shown, block.line))
            typed, shown, began = line[2:], "", number
        else:
            assert typed, f"line {number}: expected `$ ` and a command"
            shown += line
    return [*commands, Command(typed, began, shown, block.line)]
