"""`penstock init`: write a folder with a domain file to begin with, and the files that it names."""

import argparse
import importlib.util
import ipaddress
import re
import secrets
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.cli.domain import starter as template
from penstock.cli.domain.certificate import Authority
from penstock.cli.domain.check import check_domain
from penstock.cli.domain.ports import PortRange, assign_ports
from penstock.cli.exit_codes import EXIT_DOMAIN, EXIT_ERROR
from penstock.cli.parsers import command_parser
from penstock.domain import read
from penstock.domain.schema.base import NAME
from penstock.domain.yaml.format import formatted
from penstock.model.errors import DomainError, PenstockError
from penstock.policy.access.passwords import DEFAULT_ITERATIONS, hash_password
from penstock.policy.access.textfile import replace_file

_EPILOG = """\
Asks for everything that is not given as an option; an empty answer takes the default in brackets. Separate names in
lists by commas. Passwords are generated and shown once; `penstock passwd` changes them. Existing files are not
overwritten without --force, and a domain that does not check is not written.
Exit code: 0, 1 if a file cannot be written or exists already or answers contradict each other, 2 for bad arguments,
3 if the domain would not check.
"""
_FOR_OWNER, _FOR_ALL = 0o600, 0o644
_ROUNDS = 100_000
"""Rounds of the hash of a person's password: people log in seldom, and choose weaker ones later."""
_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?"


_MORE_PORTS = (
    ("admin-port", template.ADMIN_PORT, "of its admin address"),
    ("tls-port", template.TLS_PORT, "of its TLS listener"),
    ("console-port", template.CONSOLE_PORT, "of the console"),
)


Files = dict[str, tuple[str, int]]
"""By name, the text and the file mode."""


class InitError(PenstockError):
    """Nothing was written."""


@dataclass(frozen=True)
class Prompt:
    """One question about the starter domain."""

    option: str
    asks: str
    default: str
    read: Callable[[str], object]


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        starter = _starter(options)
        people = (starter.admin,) if starter.admin is not None else ()
        passwords = {name: secrets.token_hex(8) for name in (*people, *starter.clients)}
        _write(options.folder, _checked(_files(starter, passwords)), options.force)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    except DomainError as error:
        print(f"penstock: nothing was written, because the domain would not check: {error}", file=sys.stderr)
        return EXIT_DOMAIN
    except (PenstockError, OSError) as error:
        print(f"penstock: {error}", file=sys.stderr)
        return EXIT_ERROR
    except (EOFError, KeyboardInterrupt):
        print("\npenstock: no answer, nothing was written", file=sys.stderr)
        return EXIT_ERROR
    print(template.next_steps(starter, str(options.folder), passwords), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "init", "Write a commented domain file to begin with, and the files that it names.", _EPILOG
    )
    add = parser.add_argument
    add("folder", nargs="?", type=Path, default=Path(), metavar="FOLDER", help="where to; default: this folder")
    add("--name", metavar="NAME", help="name of the domain; default: that of the folder")
    add("--nodes", metavar="NAMES", help="the brokers; the others dial the first (default main)")
    add("--devices", metavar="NAMES", help="clients that measure and take commands (default sensor)")
    add("--viewers", metavar="NAMES", help="clients that only read (default dashboard)")
    add("--operators", metavar="NAMES", help="clients that read and command (default operator)")
    add(
        "--hosts",
        metavar="HOSTS",
        help="host names and addresses of the nodes in the network; adds TLS listeners and generates certificates;"
        " `none`: this machine only (the default)",
    )
    add("--admin", metavar="NAME", help="user who may administer the nodes (default admin); `none`: nobody")
    add("--console", choices=["yes", "no"], help="whether to serve the console (default: yes, if it is installed)")
    add("--journal", choices=["yes", "no"], help="whether to keep a journal (default: yes, if it is installed)")
    add(
        "--port",
        metavar="PORT",
        help=f"where the first node listens, the others on those that follow (default {template.MQTT_PORT}); what is"
        " not given gives way to ports that are",
    )
    for option, usual, what in _MORE_PORTS:
        add(f"--{option}", type=_port, metavar="PORT", help=f"{what} (default {usual})")
    add("-y", "--yes", action="store_true", help="do not ask: take the defaults")
    add("--force", action="store_true", help="overwrite existing files")
    return parser


def _questions(folder: Path) -> tuple[Prompt, ...]:
    specs = map(importlib.util.find_spec, ("pyarrow", "nicegui"))
    journal, console = ("yes" if spec is not None else "no" for spec in specs)
    return (
        Prompt("name", "Name of the domain", _name_of(folder), _name),
        Prompt("nodes", "Nodes (brokers); one is enough to begin with", "main", _names),
        Prompt("devices", "Devices: clients that measure, and take commands", "sensor", _clients),
        Prompt("viewers", "Viewers: clients that only read", "dashboard", _clients),
        Prompt("operators", "Operators: clients that read and command", "operator", _clients),
        Prompt("hosts", "Names by which the network reaches it (none: this machine only)", "none", _hosts),
        Prompt("port", "Port of the first node on this machine", str(template.MQTT_PORT), _port),
        Prompt("admin", "Person who administers it", "admin", _person),
        Prompt("console", "Serve the console, a page to look at it", console, _yes),
        Prompt("journal", "Record what happens, for audit and replay", journal, _yes),
    )


def _starter(options: argparse.Namespace) -> template.Starter:
    """Return the answers: from options, else from the user, else the defaults."""
    answers: dict[str, Any] = {}
    for question in _questions(options.folder):
        value = getattr(options, question.option)
        if value is not None:
            answers[question.option] = _with_option(question, value)
        elif options.yes:
            answers[question.option] = question.read(question.default)
        else:
            answers[question.option] = _ask(question)
    port = answers.pop("port")
    is_wished = options.port is not None or not options.yes
    ports = _ports(options, port if is_wished else None, answers)
    starter = template.Starter(domain=answers.pop("name"), **ports, **answers)
    if not starter.clients:
        raise InitError("no clients: name at least one device, viewer or operator")
    names = (*starter.nodes, *starter.clients, *filter(None, [starter.admin]))
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InitError(f"`{twice[0]}` is used twice: nodes, clients and people need different names")
    if starter.hosts and template.AUTHORITY in starter.nodes:
        raise InitError(f"`{template.AUTHORITY}` cannot be a node: the files of the authority in `tls` are called so")
    return starter


def _ports(options: argparse.Namespace, port: int | None, answers: dict[str, Any]) -> dict[str, Any]:
    """Return the first port of each kind, by the name of the field in `Starter`."""
    nodes = len(answers["nodes"])
    ranges = (
        PortRange("port", port, template.MQTT_PORT, nodes),
        PortRange("admin-port", options.admin_port, template.ADMIN_PORT, nodes),
        *([PortRange("tls-port", options.tls_port, template.TLS_PORT, nodes)] if answers["hosts"] else []),
        *([PortRange("console-port", options.console_port, template.CONSOLE_PORT, 1)] if answers["console"] else []),
    )
    return {option.replace("-", "_"): first for option, first in assign_ports(ranges).items()}


def _with_option(question: Prompt, value: str) -> object:
    try:
        return question.read(value)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"argument --{question.option}: {error}") from None


def _ask(question: Prompt) -> object:
    while True:
        # To standard error: standard output has the passwords and the next steps.
        print(f"{question.asks} [{question.default}]: ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
        if not answer:
            raise EOFError
        try:
            return question.read(answer.strip() or question.default)
        except argparse.ArgumentTypeError as error:
            print(f"  {error}", file=sys.stderr)


def _name_of(folder: Path) -> str:
    """Return a name for the domain from that of its folder."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", folder.resolve().name).strip("-")[:64]
    return name if re.fullmatch(NAME, name) else "penstock"


def _name(text: str) -> str:
    if not re.fullmatch(NAME, text):
        raise argparse.ArgumentTypeError(f"`{text}` is not a name of at most 64 letters, digits, `-` and `_`")
    if text.startswith("-"):
        raise argparse.ArgumentTypeError(f"`{text}` begins with `-`: commands would take it for an option")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(_name(name) for name in _listed(text)) or (_name(text),)


def _clients(text: str) -> tuple[str, ...]:
    return () if text == "none" else _names(text)


def _person(text: str) -> str | None:
    return None if text == "none" else _name(text)


def _hosts(text: str) -> tuple[str, ...]:
    hosts = () if text == "none" else _listed(text)
    for host in hosts:
        if not _is_host(host):
            raise argparse.ArgumentTypeError(f"`{host}` is neither a host name nor an address")
    return hosts


def _is_host(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return re.fullmatch(_HOST, text) is not None


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part for part in map(str.strip, text.split(",")) if part)


def _yes(text: str) -> bool:
    if text.lower() not in ("y", "yes", "n", "no"):
        raise argparse.ArgumentTypeError(f"`{text}` is neither yes nor no")
    return text.lower().startswith("y")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65000:
        raise argparse.ArgumentTypeError(f"`{text}` is not a port between 1 and 65000")
    return int(text)


def _files(starter: template.Starter, passwords: dict[str, str]) -> Files:
    """Return the files to write: by name, the text and the file mode."""
    files = {
        template.DOMAIN_FILE: (template.domain_file(starter), _FOR_ALL),
        "acl": (template.acl_file(starter), _FOR_ALL),
        "passwords": (_hashed({name: passwords[name] for name in starter.clients}), _FOR_OWNER),
        ".gitignore": (_IGNORED, _FOR_ALL),
    }
    if starter.admin is not None:
        admin = {starter.admin: passwords[starter.admin]}
        files["admin-passwords"] = (_hashed(admin, _ROUNDS), _FOR_OWNER)
    if starter.hosts:
        authority = Authority(starter.domain)
        pairs = {
            template.AUTHORITY: authority.pair,
            **{name: authority.sign(name, starter.hosts) for name in starter.nodes},
        }
        for name, pair in pairs.items():
            files[f"tls/{name}.pem"] = (pair.certificate.decode(), _FOR_ALL)
            files[f"tls/{name}.key"] = (pair.key.decode(), _FOR_OWNER)
    return files


def _hashed(passwords: dict[str, str], rounds: int = DEFAULT_ITERATIONS) -> str:
    return "".join(f"{name}:{hash_password(word.encode(), rounds)}\n" for name, word in passwords.items())


_WRITTEN = ("passwords", "admin-passwords", "admin.jsonl", "*.key", ".*.secret", "*.db", "*.db-*", "journal/")
_IGNORED = "\n".join(["# Secrets, and what nodes write.", *_WRITTEN, ""])


def _checked(files: Files) -> Files:
    """Return the files with the domain file in its canonical form; raise `DomainError` if it does not check."""
    with tempfile.TemporaryDirectory(prefix="penstock-init-") as name:
        folder = Path(name)
        _put(folder, files)
        _, canonical = formatted(folder / template.DOMAIN_FILE)
        files = {**files, template.DOMAIN_FILE: (canonical, _FOR_ALL)}
        _put(folder, files)
        if problems := check_domain(read(folder / template.DOMAIN_FILE, {})).problems:
            raise DomainError(*problems)
    return files


def _write(folder: Path, files: Files, force: bool) -> None:
    existing = [name for name in files if (folder / name).exists()]
    if existing and not force:
        raise InitError(f"`{folder / existing[0]}` exists already: choose another folder, or overwrite it with --force")
    _put(folder, files)


def _put(folder: Path, files: Files) -> None:
    for name, (text, mode) in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text, mode)
