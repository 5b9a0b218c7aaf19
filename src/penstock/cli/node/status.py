"""`penstock status`: how nodes are, for a terminal."""

import argparse
import json
import sys
import time
from pathlib import Path

import msgspec

from penstock.cli.exit_codes import EXIT_ERROR
from penstock.cli.node.overview import LinkLine, NodeLine, Overview, Seen, overview
from penstock.cli.parsers import command_parser
from penstock.cli.table import aligned
from penstock.client.admin import AdminClient, AdminError
from penstock.domain import check, read
from penstock.domain.schema.domain import Domain

DEFAULT_FILE = Path("domain.yaml")
SECONDS = 1.0
"""Between the two looks that rates are made of."""
_EPILOG = """\
A node has an admin address (`admin: 127.0.0.1:8080`), and lets in the user that runs it; who is another user sets
PENSTOCK_ADMIN_TOKEN, and PENSTOCK_ADMIN_CA for a certificate of one's own; if nodes ask for certificates,
PENSTOCK_ADMIN_CERT is a PEM file with that of who asks and its key. With a domain file, all its nodes that have an
admin address are asked.
Exit code: 0 if all is well, 1 if something is wrong or cannot be asked, 2 for bad arguments, 3 if the domain does not
check.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("status", "Show how nodes are: clients, links, rates, denials, journal, trouble.", _EPILOG)
    parser.add_argument(
        "where",
        nargs="?",
        metavar="URL|FILE",
        help="admin address of a node, as http://127.0.0.1:8080, or a domain file; default: domain.yaml in this folder",
    )
    parser.add_argument(
        "-w",
        "--watch",
        nargs="?",
        type=_seconds,
        const=2.0,
        metavar="SECONDS",
        help="look again and again, every 2 seconds unless told, until Ctrl-C",
    )
    parser.add_argument("--node", action="append", metavar="NAME", help="only this node of the file (may be repeated)")
    parser.add_argument(
        "--alive",
        action="store_true",
        help="for a watchdog: no more than whether the nodes themselves are well; a link that is down is no failure",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each look")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    places = _places(parser, options.where, options.node)
    try:
        before = look(places)
        while True:
            if options.watch is not None or (before.nodes and not options.alive):
                time.sleep(options.watch or SECONDS)
            now = look(places)
            found = overview(now, before)
            _print(found, options.json, options.watch is not None)
            if options.watch is None:
                return EXIT_ERROR if (found.ill if options.alive else found.trouble) else 0
            before = now
    except KeyboardInterrupt:
        return 0


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 1 <= found <= 86400:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of seconds from 1 on")
    return found


def _places(parser: argparse.ArgumentParser, where: str | None, only: list[str] | None) -> dict[str, str | None]:
    """Whom to ask: by what it is called, the admin address, None if it has none."""
    file = DEFAULT_FILE if where is None else Path(where)
    if not file.is_file():
        if where is None:
            parser.error(f"there is no `{DEFAULT_FILE}` here: name a domain file, or the admin address of a node")
        if ":" not in where:
            parser.error(f"there is no file `{file}`, and an admin address is such as http://127.0.0.1:8080")
        if only:
            parser.error("--node goes with a domain file")
        return {where: where}
    domain = check(read(file), []).domain
    if all(node.admin is None for node in domain.nodes.values()):
        parser.error(f"no node of `{file}` has an admin address: give it one, as `admin: 127.0.0.1:8080`")
    if unknown := set(only or ()) - domain.nodes.keys():
        parser.error(f"no node `{min(unknown)}` in `{file}`, it has {', '.join(domain.nodes)}")
    return {name: _admin(domain, name) for name in only or domain.nodes}


def _admin(domain: Domain, name: str) -> str | None:
    node = domain.nodes[name]
    if node.admin is None:
        return None
    return f"http{'s' if node.admin_tls is not None else ''}://{node.admin}"


def look(places: dict[str, str | None]) -> Seen:
    """Ask all, once each: nodes of one process tell of each other."""
    from penstock.broker.http.answers.status import Nodes

    seen = Seen()
    for name, address in places.items():
        if name in seen.nodes:
            continue
        if address is None:
            seen.silent[name] = "it has no admin address"
            continue
        try:
            told = msgspec.json.decode(AdminClient(address).ask("GET", "/api/nodes"), type=Nodes)
        except (AdminError, msgspec.MsgspecError) as error:
            seen.silent[name] = str(error)
            continue
        for node, state in told.nodes.items():
            if name != address and node not in places:
                continue  # of another domain
            seen.nodes[node] = state
            seen.times[node] = told.at
            seen.revisions[node] = told.revision
        if name != address and name not in told.nodes:
            seen.silent[name] = f"`{address}`, where it should be, is that of {', '.join(told.nodes)}"
    for name in seen.nodes:
        seen.silent.pop(name, None)
    return seen


def _print(found: Overview, as_json: bool, is_watched: bool) -> None:
    if as_json:
        print(json.dumps(msgspec.to_builtins(found)), flush=True)
        return
    is_terminal = sys.stdout.isatty()
    if is_watched and is_terminal:
        print("\033[H\033[2J", end="")
    parts = [aligned(_NODE_TITLES, [_node_row(one) for one in found.nodes])]
    if found.links:
        parts.append(aligned(_LINK_TITLES, [_link_row(one) for one in found.links]))
    parts.append([f"trouble: {one}" for one in found.trouble] or ["all is well"])
    lines = "\n\n".join("\n".join(part) for part in parts).splitlines()
    ill = {one.node for one in found.nodes if one.state != "up"}
    down = {f"{one.node} - {one.neighbour}" for one in found.links if not one.is_up}
    for line in lines:
        is_wrong = line.startswith("trouble: ") or line.split("  ")[0] in ill | down
        print(f"\033[31m{line}\033[0m" if is_wrong and is_terminal else line)
    sys.stdout.flush()


_NODE_TITLES = ("node", "state", "since", "clients", "in/s", "out/s", "denied", "dropped", "waiting", "journal")
_LINK_TITLES = ("link", "state", "type", "in/s", "out/s", "denied", "waiting")


def _node_row(one: NodeLine) -> tuple[str, ...]:
    if not one.is_up:
        return (one.node, one.state, *("-" * (len(_NODE_TITLES) - 2)))
    return (
        one.node,
        one.state,
        _age(one.seconds),
        f"{one.connected} of {one.clients}",
        f"{one.received:.1f}",
        f"{one.sent:.1f}",
        str(one.denied),
        str(one.dropped),
        str(one.waiting),
        one.journal or "-",
    )


def _link_row(one: LinkLine) -> tuple[str, ...]:
    return (
        f"{one.node} - {one.neighbour}",
        "up" if one.is_up else "down",
        one.type or "-",
        f"{one.received:.1f}",
        f"{one.sent:.1f}",
        str(one.denied),
        str(one.waiting),
    )


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
