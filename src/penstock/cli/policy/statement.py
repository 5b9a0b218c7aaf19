"""`penstock statement`: check a policy statement, print it in another form, and list rule elements."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from penstock.cli.exit_codes import EXIT_DOMAIN, EXIT_ERROR
from penstock.cli.parsers import command_parser
from penstock.cli.policy.policy_files import FORMS, form_of, read_form
from penstock.cli.table import print_table
from penstock.domain.yaml.write import yaml_of
from penstock.language.errors import StatementError
from penstock.language.statements.plain import to_plain
from penstock.language.statements.printer import show_compact, show_statement
from penstock.language.statements.statement import Message, Statement
from penstock.language.statements.xml import to_xml
from penstock.model.errors import PolicyError
from penstock.policy.statements.elements.table import elements
from penstock.policy.statements.statement import compile_statement, policy_on

_CARRIERS = {message.lower(): message for message in Message}
_SHOW: dict[str, Callable[[Statement], str]] = {
    "text": show_statement,
    "compact": show_compact,
    "yaml": lambda statement: yaml_of(to_plain(statement)),
    "json": lambda statement: json.dumps(to_plain(statement), indent=2, ensure_ascii=False),
    "xml": lambda statement: to_xml(statement).decode(),
}
_EPILOG = """\
Checked are syntax, that the elements are known here and take such arguments, the conditions, and with --on what may be
said there. What a domain grants to a client is for `penstock check` and for the node.
Exit code: 0 if all is well, 2 for bad arguments, 3 if the statement does not check, 1 if it cannot be read.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("statement", "Check a policy statement, and print it in a form.", _EPILOG)
    parser.add_argument("file", nargs="?", metavar="FILE", help="file with the statement; `-` for standard input")
    parser.add_argument("--from", dest="form", choices=FORMS, help="its form; if not given, by the name of the file")
    parser.add_argument("--to", choices=tuple(_SHOW), default="text", help="the form to print it in; text if not given")
    parser.add_argument("--on", choices=tuple(_CARRIERS), help="whether it may be set on such a message")
    parser.add_argument("--elements", action="store_true", help="list all rule elements, and end")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    if bool(options.file) is options.elements:
        parser.error("expected a file, or --elements")
    try:
        if options.elements:
            _list_elements()
            return 0
        statement = _checked(options.file, options.form or form_of(options.file), options.on)
    except OSError as error:
        print(f"penstock: cannot read `{options.file}`: {error.strerror}", file=sys.stderr)
        return EXIT_ERROR
    except (StatementError, PolicyError) as error:
        print(f"penstock: {f'`{options.file}`: ' if options.file else ''}{error}", file=sys.stderr)
        return EXIT_DOMAIN
    print(_SHOW[options.to](statement).removesuffix("\n"))
    return 0


def _checked(file: str, form: str, carrier: str | None) -> Statement:
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    statement = read_form(data, form)
    policy = compile_statement(statement)
    if carrier is not None:
        policy_on(policy, _CARRIERS[carrier])
    return statement


def _list_elements() -> None:
    rows = []
    for element in elements().values():
        about = ", ".join(message.lower() for message in Message if message in element.messages)
        rows.append((element.usage, "action" if element.gives is None else str(element.gives), about, element.about))
    print_table(("element", "gives", "of", "what for"), rows)
