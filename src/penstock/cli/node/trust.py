"""`penstock trust`: how far nodes trust each other, as they say themselves."""

import argparse
import json
import sys

import msgspec

from penstock.cli.exit_codes import EXIT_ERROR
from penstock.cli.parsers import command_parser
from penstock.cli.table import print_table
from penstock.client.admin import AdminClient
from penstock.engine.trust.trust_status import Standing, TrustStanding
from penstock.model.errors import PenstockError

_EPILOG = """\
URL is the admin address of a node, as http://127.0.0.1:8080.
Exit code: 0, 1 if a node cannot be asked or has no trust, 2 for bad arguments.
"""


def main(argv: list[str]) -> int:
    if argv and argv[0] == "apply":
        return _apply(argv[1:])
    options = _parser().parse_args(argv)
    return int(options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("trust", "Show how far nodes trust each other, and set it.", _EPILOG)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    show = commands.add_parser(
        "show",
        help="print what nodes hold of their neighbours, and the least trustworthy paths to them",
        description="Print what nodes hold of their neighbours, and the least trustworthy paths to them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    show.add_argument("--admin", metavar="URL", nargs="+", action="extend", required=True, help="of which nodes")
    show.add_argument("--json", action="store_true", help="print what each node says as a line of JSON")
    show.set_defaults(run=_show)
    commands.add_parser("apply", help="set what a node holds of its neighbours to what `penstock pipeline trust` found")
    return parser


def _apply(argv: list[str]) -> int:
    """It has the options of MQTT clients."""
    from penstock.cli.node import trust_apply

    return trust_apply.main(argv)


def ask(address: str) -> Standing:
    """What a node says of itself; raises `PenstockError`."""
    try:
        return msgspec.json.decode(AdminClient(address).ask("GET", "/api/trust"), type=Standing)
    except msgspec.MsgspecError as error:
        raise PenstockError(f"node at `{address}` cannot be asked: {error}") from None


def _show(options: argparse.Namespace) -> int:
    found = [ask(address) for address in options.admin]
    if options.json:
        for one in found:
            print(json.dumps(msgspec.to_builtins(one)))
        return 0
    without = [one.node for one in found if one.trust is None]
    told = [(one.node, one.trust) for one in found if one.trust is not None]
    if told:
        print_table(
            ("node", "of", "link", "good", "bad", "belief", "disbelief", "uncertainty", "rating", "signs"),
            [row for node, trust in told for row in _neighbours(node, trust)],
        )
        print()
        rows = [row for node, trust in told for row in _paths(node, trust)]
        print_table(("node", "rule", "from", "least rating", "edges", "enough"), rows)
    for name in without:
        print(f"penstock trust: node `{name}` has no trust: its domain says nothing of it", file=sys.stderr)
    return EXIT_ERROR if without else 0


def _neighbours(node: str, trust: TrustStanding) -> list[tuple[str, ...]]:
    return [
        (
            node,
            name,
            "up" if one.connected else "down",
            f"{one.good:.6g}",
            f"{one.bad:.6g}",
            f"{one.belief:.3f}",
            f"{one.disbelief:.3f}",
            f"{one.uncertainty:.3f}",
            f"{one.rating:.3f}",
            _reached(one.signs, trust.sign),
        )
        for name, one in trust.neighbours.items()
    ]


def _paths(node: str, trust: TrustStanding) -> list[tuple[str, ...]]:
    """By the rule `strict` paths decide nothing, but are known all the same."""
    return [
        (node, trust.rule, origin, f"{path.rating:.3f}", str(path.edges), _reached(path.accepts, trust.accept))
        for origin, path in trust.paths.items()
    ]


def _reached(is_so: bool, threshold: float) -> str:
    return f"yes, at least {threshold:g}" if is_so else f"no, below {threshold:g}"
