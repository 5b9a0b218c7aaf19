"""`penstock console`: the page for operators, of a node that runs."""

import argparse
import sys
from pathlib import Path

from penstock.cli.exits import EXIT_ERROR
from penstock.domain.units import Address, parse_address
from penstock.model.errors import PenstockError

_EPILOG = """\
URL is the admin address of a node, as http://127.0.0.1:8080. `penstock run` starts the console by itself for a node
that has `console` in its settings. Whoever looks at the page logs in at the node: the console itself may do nothing.
Exit code: 0, 1 if it cannot be served, 2 for bad arguments.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock console",
        description="Serve the console, a page for operators, of a node that runs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("node", metavar="URL", help="the admin address of a node")
    parser.add_argument("--at", metavar="HOST:PORT", default="127.0.0.1:18083", help="where (default 127.0.0.1:18083)")
    parser.add_argument("--cert", type=Path, metavar="FILE", help="PEM certificate of the page, for HTTPS")
    parser.add_argument("--key", type=Path, metavar="FILE", help="its private key")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="authorities by which nodes' certificates are checked")
    parser.add_argument("--host", action="append", default=[], metavar="NAME", help="another name that it is known by")
    parser.add_argument(
        "--also", action="append", default=[], metavar="URL", help="another process of the domain, to log in at too"
    )
    parser.add_argument("--behind-proxy", action="store_true", help="something before it encrypts: no certificate")
    parser.add_argument("--pin", type=Path, metavar="FILE", help="the very certificate that the node must have")
    parser.add_argument("--until-eof", action="store_true", help="end when standard input does")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    node = options.node if "://" in options.node else f"http://{options.node}"
    if not node.startswith(("http://", "https://")):
        parser.error(f"expected the admin address of a node, found `{options.node}`")
    try:
        at: Address = parse_address(options.at)
    except ValueError as error:
        parser.error(f"--at: {error}")
    if not at.loopback and options.cert is None and not options.behind_proxy:
        parser.error("--cert and --key are needed unless the page is on loopback, or --behind-proxy")
    if (options.cert is None) != (options.key is None):
        parser.error("--cert and --key go together")
    try:
        from penstock.console.app import Served, serve
    except ModuleNotFoundError as error:
        print(f"penstock: the console needs `{error.name}`: install `penstock[console]`", file=sys.stderr)
        return EXIT_ERROR
    given = (options.cert, options.key, options.ca, options.pin)
    cert, key, ca, pin = (str(path) if path is not None else None for path in given)
    try:
        serve(Served(node, at, cert, key, ca, pin, tuple(options.also), tuple(options.host)), _ready, options.until_eof)
    except (PenstockError, OSError) as error:
        print(f"penstock: {error}", file=sys.stderr)
        return EXIT_ERROR
    return 0


def _ready(address: str) -> None:
    print(f"penstock console ready: {address}", flush=True)
