"""`penstock run`: serve until SIGTERM."""

import argparse
import os
from pathlib import Path

from penstock.cli.options import UsageError
from penstock.cli.parsers import command_parser
from penstock.domain import Domain, default_domain, read
from penstock.model.errors import DomainError


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "run",
        "Run all nodes of a domain file. Without a file: one open node on loopback.",
        "SIGHUP reloads the file, SIGTERM drains and exits.",
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the domain file")
    parser.add_argument(
        "-p", "--port", type=int, help="port of the open node on loopback (default 1883; 0: any free one)"
    )
    parser.add_argument("--store", metavar="PATH|memory", help="where sessions and messages are kept (default memory)")
    parser.add_argument("--node", metavar="NAME", help="run only this node of the file")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    if options.file is not None and options.port is not None:
        parser.error("-p goes without FILE: a domain file says where its nodes listen")
    if options.port is not None and not 0 <= options.port <= 65535:
        parser.error(f"port `{options.port}` is not between 0 and 65535")
    try:
        domain = _domain(options)
    except UsageError as error:
        parser.error(str(error))
    # Imported here: a domain that does not check is reported without loading the broker's modules.
    from penstock.broker.run import run

    reread = (lambda: _domain(options)) if options.file is not None else None
    names = (options.node,) if options.node is not None else tuple(domain.nodes)
    run(domain, names, options.file, reread, _say_ready)
    return 0


def _domain(options: argparse.Namespace) -> Domain:
    if options.file is None:
        return default_domain(1883 if options.port is None else options.port, options.store or "memory")
    from penstock.cli.domain.check import check_domain

    report = check_domain(read(options.file), [options.node] if options.node is not None else None)
    if report.domain is None or report.problems:
        raise DomainError(*report.problems)
    domain = report.domain
    nodes = dict(domain.nodes)
    if options.node is not None and options.node not in nodes:
        raise UsageError(f"no node `{options.node}` in `{options.file}`, it has {', '.join(sorted(nodes))}")
    if options.store is not None:
        name = options.node or next(iter(nodes))
        if options.node is None and len(nodes) != 1:
            raise UsageError("--store goes with one node: name it with --node")
        nodes[name] = nodes[name].model_copy(update={"store": options.store})
    return domain.model_copy(update={"nodes": nodes})


def _say_ready(addresses: list[str]) -> None:
    print(f"penstock ready: {' '.join(addresses)} (pid {os.getpid()})", flush=True)
