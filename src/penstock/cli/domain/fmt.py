"""`penstock fmt`: print a domain file in its canonical form."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from penstock.cli.exit_codes import EXIT_DOMAIN, EXIT_ERROR
from penstock.cli.parsers import command_parser
from penstock.domain.yaml.format import formatted
from penstock.model.errors import DomainError

_EPILOG = """\
Keys come in a fixed order, short values go on one line, quotes stand only where they are needed. Comments are kept:
a comment on a line of its own stays with the next key, a trailing comment with its line. Anchors, aliases and merge
keys are written out. The file may be one that others include, and it need not check. The command verifies that the
canonical form means the same.
Exit code: 0 if all is well, 1 if --check finds something to change, 2 for bad arguments, 3 if the file cannot be read.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("fmt", "Print a domain file in its canonical form.", _EPILOG)
    parser.add_argument("file", type=Path, metavar="FILE", help="the domain file")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="print nothing; say whether the file is in canonical form")
    how.add_argument("--write", action="store_true", help="write the file instead of printing")
    return parser


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    try:
        text, canonical = formatted(options.file)
    except DomainError as error:
        print(error, file=sys.stderr)
        return EXIT_DOMAIN
    if options.check:
        if text != canonical:
            print(f"{options.file}: not in canonical form", file=sys.stderr)
        return EXIT_ERROR if text != canonical else 0
    if not options.write:
        print(canonical, end="")
    elif text != canonical:
        _replace(options.file, canonical)
    return 0


def _replace(file: Path, text: str) -> None:
    """Write the file atomically: the new one replaces the old one."""
    target = Path(os.path.realpath(file))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, delete=False) as stream:
        stream.write(text)
    os.chmod(stream.name, target.stat().st_mode & 0o7777)
    os.replace(stream.name, target)
