"""`penstock console`: serve the page for operators, for a running node."""

import argparse
import sys
from pathlib import Path

from penstock.cli.exit_codes import EXIT_ERROR
from penstock.cli.parsers import command_parser
from penstock.domain import Tls
from penstock.domain.units import Address, parse_address

_EPILOG = """\
URL is the admin address of a node, as http://127.0.0.1:8080. `penstock run` starts the console by itself for a node
that has `console` in its settings. Users of the page log in at the node: the console itself has no rights.
If the node asks for certificates, PENSTOCK_ADMIN_CERT is a PEM file with the console's own and its key.
Exit code: 0, 1 if it cannot be served, 2 for bad arguments.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("console", "Serve the console, a page for operators, of a node that runs.", _EPILOG)
    parser.add_argument("node", metavar="URL", help="the admin address of a node")
    parser.add_argument("--at", metavar="HOST:PORT", default="127.0.0.1:18083", help="where (default 127.0.0.1:18083)")
    parser.add_argument("--cert", type=Path, metavar="FILE", help="PEM certificate of the page, for HTTPS")
    parser.add_argument("--key", type=Path, metavar="FILE", help="its private key")
    parser.add_argument("--min-tls", choices=("1.2", "1.3"), default="1.2", help="lowest version of TLS (default 1.2)")
    parser.add_argument("--client-ca", type=Path, metavar="FILE", help="authorities of browsers' own certificates")
    parser.add_argument("--require-certificate", action="store_true", help="browsers must show one of `--client-ca`")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="authorities by which nodes' certificates are checked")
    parser.add_argument("--host", action="append", default=[], metavar="NAME", help="another host name of the console")
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="URL",
        help="admin address of another process of the domain, to log in there too",
    )
    parser.add_argument(
        "--behind-proxy", action="store_true", help="a proxy in front of it encrypts: no certificate is needed"
    )
    parser.add_argument("--pin", type=Path, metavar="FILE", help="the exact certificate that the node must have")
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
    if options.cert is None and (options.client_ca or options.require_certificate):
        parser.error("--client-ca and --require-certificate go with --cert and --key")
    if options.require_certificate and options.client_ca is None:
        parser.error("--require-certificate needs --client-ca")
    try:
        from penstock.console.app import ConsoleSettings, serve
    except ModuleNotFoundError as error:
        print(f"penstock: the console needs `{error.name}`: install `penstock[console]`", file=sys.stderr)
        return EXIT_ERROR
    ca, pin = (str(path) if path is not None else None for path in (options.ca, options.pin))
    served = ConsoleSettings(node, at, _tls(options), ca, pin, tuple(options.also), tuple(options.host))
    serve(served, lambda address: print(f"penstock console ready: {address}", flush=True), options.until_eof)
    return 0


def _tls(options: argparse.Namespace) -> Tls | None:
    if options.cert is None:
        return None
    return Tls(
        cert=options.cert,
        key=options.key,
        ca=options.client_ca,
        require_certificate=options.require_certificate,
        min_version=options.min_tls,
    )
