"""`penstock persisted`: show messages that policies have persisted in a node's store."""

import argparse
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from penstock.broker.store.persisted import Selection, plain
from penstock.broker.store.store import Store, StoreError
from penstock.cli.parsers import command_parser, time_argument
from penstock.cli.table import payload_text, print_table
from penstock.engine.ledger import Persisted

_EPILOG = """\
A running node locks its store: use its admin address then, at /api/persisted.
Exit code: 0, 1 if the store cannot be opened, 2 for bad arguments.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "persisted", "Show the messages that policies have persisted in the store of a node, or delete them.", _EPILOG
    )
    parser.add_argument("--store", type=Path, required=True, metavar="FILE", help="the store of a node")
    parser.add_argument("--collection", metavar="NAME", help="only of this collection")
    parser.add_argument(
        "--since", type=time_argument, metavar="TIME", help="only from this time on (UTC unless it says)"
    )
    parser.add_argument("--until", type=time_argument, metavar="TIME", help="only before this time")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print each as a line of JSON, with its whole payload")
    how.add_argument("--collections", action="store_true", help="print how many each collection has")
    how.add_argument("--delete", action="store_true", help="delete them")
    return parser


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    selection = Selection(options.collection, _seconds(options.since, "-inf"), _seconds(options.until, "inf"))
    if not options.store.is_file():
        raise StoreError(f"there is no store `{options.store}`")
    store = Store(options.store, "full")
    try:
        _show(store, selection, options)
    finally:
        store.close()
    return 0


def _seconds(when: datetime | None, otherwise: str) -> float:
    return float(otherwise) if when is None else when.timestamp()


def _show(store: Store, selection: Selection, options: argparse.Namespace) -> None:
    if options.delete:
        count = store.delete_persisted(selection)
        print(f"{count} {'message' if count == 1 else 'messages'} deleted")
    elif options.json:
        for row in store.persisted(selection):
            print(json.dumps(plain(row)))
    elif options.collections:
        counts = Counter(row.collection for row in store.persisted(selection))
        print_table(("collection", "messages"), [(name, str(count)) for name, count in sorted(counts.items())])
    else:
        print_table(("time", "collection", "policy", "topic", "payload"), list(map(_row, store.persisted(selection))))


def _row(row: Persisted) -> tuple[str, ...]:
    when = datetime.fromtimestamp(row.time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return when, row.collection, row.policy, row.topic, payload_text(row.payload)
