"""`penstock status`: show the state of nodes in a terminal."""

import argparse
import json
import sys
import time
from pathlib import Path

import msgspec

from penstock.cli.exit_codes import EXIT_ERROR
from penstock.cli.node.overview import LinkLine, NodeLine, Overview, Snapshot, overview
from penstock.cli.parsers import command_parser
from penstock.cli.table import align_rows
from penstock.client.admin import AdminClient, AdminError
from penstock.domain import check, read
from penstock.domain.schema.domain import Domain

DEFAULT_FILE = Path("domain.yaml")
SECONDS = 1.0
"""Seconds between the two snapshots that rates are computed from."""
_EPILOG = """\
A node has an admin address (`admin: 127.0.0.1:8080`) and admits the user that runs it. If you run the command as a
different user, set PENSTOCK_ADMIN_TOKEN; set PENSTOCK_ADMIN_CA if the node's certificate is signed by your own
authority. If nodes ask for client certificates, PENSTOCK_ADMIN_CERT is a PEM file with yours and its key. With a domain
file, all its nodes that have an admin address are asked.
Exit code: 0 if all is well, 1 if there is a problem or a node cannot be reached, 2 for bad arguments, 3 if the domain
does not check.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "status", "Show the state of nodes: clients, links, rates, denials, journal, problems.", _EPILOG
    )
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
        help="repeat until Ctrl-C, every 2 seconds by default",
    )
    parser.add_argument("--node", action="append", metavar="NAME", help="only this node of the file (may be repeated)")
    parser.add_argument(
        "--alive",
        action="store_true",
        help="for a watchdog: only whether the nodes themselves are well; a link that is down is not a failure",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each snapshot")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    places = _places(parser, options.where, options.node)
    try:
        before = take_snapshot(places)
        while True:
            if options.watch is not None or (before.nodes and not options.alive):
                time.sleep(options.watch or SECONDS)
            now = take_snapshot(places)
            shown = overview(now, before)
            _print(shown, options.json, options.watch is not None)
            if options.watch is None:
                return EXIT_ERROR if (shown.ill if options.alive else shown.trouble) else 0
            before = now
    except KeyboardInterrupt:
        return 0


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of seconds from 1 on")
    return seconds


def _places(parser: argparse.ArgumentParser, where: str | None, only: list[str] | None) -> dict[str, str | None]:
    """Return the nodes to ask: by name, the admin address, None if it has none."""
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


def take_snapshot(places: dict[str, str | None]) -> Snapshot:
    """Ask each process once: nodes of one process report each other."""
    from penstock.broker.http.answers.status import NodeStates

    snapshot = Snapshot()
    for name, address in places.items():
        if name in snapshot.nodes:
            continue
        if address is None:
            snapshot.silent[name] = "it has no admin address"
            continue
        try:
            nodes = msgspec.json.decode(AdminClient(address).ask("GET", "/api/nodes"), type=NodeStates)
        except (AdminError, msgspec.MsgspecError) as error:
            snapshot.silent[name] = str(error)
            continue
        for node, state in nodes.nodes.items():
            if name != address and node not in places:
                continue  # of another domain
            snapshot.nodes[node] = state
            snapshot.times[node] = nodes.at
            snapshot.revisions[node] = nodes.revision
        if name != address and name not in nodes.nodes:
            snapshot.silent[name] = f"`{address}`, where it should be, is that of {', '.join(nodes.nodes)}"
    for name in snapshot.nodes:
        snapshot.silent.pop(name, None)
    return snapshot


def _print(shown: Overview, as_json: bool, is_watched: bool) -> None:
    if as_json:
        print(json.dumps(msgspec.to_builtins(shown)), flush=True)
        return
    is_terminal = sys.stdout.isatty()
    if is_watched and is_terminal:
        print("\033[H\033[2J", end="")
    parts = [align_rows(_NODE_TITLES, [_node_row(node) for node in shown.nodes])]
    if shown.links:
        parts.append(align_rows(_LINK_TITLES, [_link_row(link) for link in shown.links]))
    parts.append([f"trouble: {problem}" for problem in shown.trouble] or ["all is well"])
    lines = "\n\n".join("\n".join(part) for part in parts).splitlines()
    ill = {node.node for node in shown.nodes if node.state != "up"}
    down = {f"{link.node} - {link.neighbour}" for link in shown.links if not link.is_up}
    for line in lines:
        is_wrong = line.startswith("trouble: ") or line.split("  ")[0] in ill | down
        print(f"\033[31m{line}\033[0m" if is_wrong and is_terminal else line)
    sys.stdout.flush()


_NODE_TITLES = ("node", "state", "since", "clients", "in/s", "out/s", "denied", "dropped", "waiting", "journal")
_LINK_TITLES = ("link", "state", "type", "in/s", "out/s", "denied", "waiting")


def _node_row(node: NodeLine) -> tuple[str, ...]:
    if not node.is_up:
        return (node.node, node.state, *("-" * (len(_NODE_TITLES) - 2)))
    rates = (f"{node.received:.1f}", f"{node.sent:.1f}")
    counts = (str(node.denied), str(node.dropped), str(node.waiting))
    clients = f"{node.connected} of {node.clients}"
    return (node.node, node.state, _age(node.seconds), clients, *rates, *counts, node.journal or "-")


def _link_row(link: LinkLine) -> tuple[str, ...]:
    head = (f"{link.node} - {link.neighbour}", "up" if link.is_up else "down", link.type or "-")
    return (*head, f"{link.received:.1f}", f"{link.sent:.1f}", str(link.denied), str(link.waiting))


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
