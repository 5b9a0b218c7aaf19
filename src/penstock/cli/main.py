"""The `penstock` command: one module for each subcommand."""

import importlib
import os
import sys

from penstock import __version__
from penstock.cli.exit_codes import EXIT_DOMAIN, EXIT_ERROR, EXIT_INTERRUPTED
from penstock.model.errors import DomainError, PenstockError

COMMANDS = {
    "run": "run the nodes of a domain file, or one open node on loopback",
    "init": "write a commented domain file to begin with",
    "status": "show the state of nodes: clients, links, rates, denials, journal, problems",
    "check": "check a domain file, and show the expansion of its patterns",
    "fmt": "print a domain file in its canonical form",
    "schema": "print the JSON schema of the domain file, for editors",
    "test": "run the policy tests of a domain file",
    "explain": "explain why an event is delivered, changed or withheld",
    "access": "show which subjects may read and write which Sparkplug metrics, and why; find conflicts",
    "contracts": "show which contracts of producers and consumers fit, and why",
    "statement": "check a policy statement, print it in another form; list rule elements",
    "xacml": "check XACML policies, decide by them, print them; run conformance cases",
    "flows": "show which information can flow from where to where in a domain",
    "console": "serve the console, a web page for operators, for a running node",
    "pipeline": "run a job on Spark over what nodes recorded",
    "pub": "publish, with mosquitto_pub's flags",
    "sub": "subscribe, with mosquitto_sub's flags",
    "persisted": "show the messages that policies have persisted",
    "journal": "show the events that nodes have recorded, and compact them",
    "trust": "show how far nodes trust each other",
    "group": "make the keys and secrets of trust groups",
    "token": "make, sign, look at and verify authorisation tokens, and the keys of nodes",
    "completion": "print or install a completion script for a shell",
    "passwd": "manage a password file, as mosquitto_passwd does",
}

_ROOMS = {
    "domain": ("init", "check", "fmt", "schema", "test", "explain", "flows"),
    "policy": ("access", "contracts", "statement", "xacml", "token", "group", "passwd"),
    "node": ("run", "status", "console", "persisted", "journal", "trust"),
    "client": ("pub", "sub"),
}
"""The folder that each command's module is in; `pipeline` and `completion` stand beside these folders."""
_FOLDERS = {name: f"{folder}." for folder, names in _ROOMS.items() for name in names}

_LISTED = "".join(f"  {name:10} {text}\n" for name, text in COMMANDS.items())
_USAGE = f"usage: penstock COMMAND [OPTIONS]\n\ncommands:\n{_LISTED}"


def module_of(command: str) -> str:
    """Return the full name of the module that runs a command."""
    return f"penstock.cli.{_FOLDERS.get(command, '')}{command}"


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand and return its exit code; report an error in its input in one line."""
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # as with `| head`: the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except (PenstockError, OSError) as error:
        print(f"penstock: {error}", file=sys.stderr)
        return EXIT_DOMAIN if isinstance(error, DomainError) else EXIT_ERROR


def _run(arguments: list[str]) -> int:
    """Import only the module of the subcommand, so that it starts fast, and run it."""
    if arguments and arguments[0] in ("--version", "-V"):
        print(f"penstock {__version__}")
        return 0
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(_USAGE + "\n`penstock COMMAND --help` says more.")
        return 0 if arguments else 2
    name, *rest = arguments
    if name in ("--show-completion", "--install-completion"):  # as commands made with Typer have it
        name, rest = "completion", [*rest, *(["--install"] if name.startswith("--install") else [])]
    if name not in COMMANDS:
        print(f"penstock: no command `{name}`\n\n{_USAGE}", file=sys.stderr, end="")
        return 2
    return int(importlib.import_module(module_of(name)).main(rest))
