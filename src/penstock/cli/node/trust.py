"""`penstock trust`: show how far nodes trust each other."""

import argparse
import json
import sys

import msgspec

from penstock.cli.exit_codes import EXIT_ERROR
from penstock.cli.parsers import add_command, command_parser
from penstock.cli.table import print_table
from penstock.client.admin import AdminClient
from penstock.engine.trust.trust_status import Standing, TrustStanding
from penstock.model.errors import PenstockError

_EPILOG = """\
URL is the admin address of a node, as http://127.0.0.1:8080.
Exit code: 0, 1 if a node cannot be reached or has no trust, 2 for bad arguments.
"""


def main(argv: list[str]) -> int:
    if argv and argv[0] == "apply":  # it has the options of MQTT clients
        from penstock.cli.node import trust_apply

        return trust_apply.main(argv[1:])
    options = _parser().parse_args(argv)
    return int(options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("trust", "Show how far nodes trust each other, and set it.", _EPILOG)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    text = "print nodes' ratings of their neighbours, and the least trustworthy paths to them"
    show = add_command(commands, "show", text, _EPILOG)
    show.add_argument("--admin", metavar="URL", nargs="+", action="extend", required=True, help="of which nodes")
    show.add_argument("--json", action="store_true", help="print what each node says as a line of JSON")
    show.set_defaults(run=_show)
    text = "set a node's evidence about its neighbours to the result of `penstock pipeline trust`"
    commands.add_parser("apply", help=text)
    return parser


def ask(address: str) -> Standing:
    """Return a node's trust status; raise `PenstockError`."""
    try:
        return msgspec.json.decode(AdminClient(address).ask("GET", "/api/trust"), type=Standing)
    except msgspec.MsgspecError as error:
        raise PenstockError(f"node at `{address}` cannot be reached: {error}") from None


def _show(options: argparse.Namespace) -> int:
    statuses = [ask(address) for address in options.admin]
    if options.json:
        for status in statuses:
            print(json.dumps(msgspec.to_builtins(status)))
        return 0
    without = [status.node for status in statuses if status.trust is None]
    with_trust = [(status.node, status.trust) for status in statuses if status.trust is not None]
    if with_trust:
        print_table(
            ("node", "of", "link", "good", "bad", "belief", "disbelief", "uncertainty", "rating", "signs"),
            [row for node, trust in with_trust for row in _neighbours(node, trust)],
        )
        print()
        rows = [row for node, trust in with_trust for row in _paths(node, trust)]
        print_table(("node", "rule", "from", "least rating", "edges", "enough"), rows)
    for name in without:
        print(f"penstock trust: node `{name}` has no trust: its domain does not configure it", file=sys.stderr)
    return EXIT_ERROR if without else 0


def _neighbours(node: str, trust: TrustStanding) -> list[tuple[str, ...]]:
    rows = []
    for name, rating in trust.neighbours.items():
        head = (node, name, "up" if rating.connected else "down", f"{rating.good:.6g}", f"{rating.bad:.6g}")
        shares = (rating.belief, rating.disbelief, rating.uncertainty, rating.rating)
        rows.append((*head, *(f"{share:.3f}" for share in shares), _reached(rating.signs, trust.sign)))
    return rows


def _paths(node: str, trust: TrustStanding) -> list[tuple[str, ...]]:
    """Return the paths; only the rule `path` looks at any."""
    return [
        (node, trust.rule, origin, f"{path.rating:.3f}", str(path.edges), _reached(path.accepts, trust.accept))
        for origin, path in trust.paths.items()
    ]


def _reached(is_so: bool, threshold: float) -> str:
    return f"yes, at least {threshold:g}" if is_so else f"no, below {threshold:g}"
