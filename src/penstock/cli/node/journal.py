"""`penstock journal`: show the events that nodes have recorded."""

import argparse
import base64
import json
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.exit_codes import EXIT_ERROR, EXIT_USAGE
from penstock.cli.parsers import command_parser, time_argument
from penstock.cli.table import payload_text, print_table, printable
from penstock.domain import read
from penstock.model.errors import PenstockError, TopicError
from penstock.model.topic import parse_filter

if TYPE_CHECKING:
    from penstock.journal.read.select import EventQuery
    from penstock.journal.read.stats import JournalStats

_EPILOG = """\
JOURNAL is the journal's folder, or the domain file that names it. Nothing is started or connected; a journal that is
being written can be read.
Exit code: 0, 1 if the journal cannot be read, 2 for bad arguments, 3 if the domain file cannot be read.
"""
_POLL_SECONDS = 0.3
_MAX_TOPICS = 10


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "journal", "Look at what nodes have recorded of events and decisions, and compact it.", _EPILOG
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="tail|show|stats|compact")
    tail = _command(commands, "tail", "show events as they are recorded, until interrupted")
    tail.add_argument("-n", "--lines", type=_count, default=10, metavar="N", help="begin with the last N (default 10)")
    show = _command(commands, "show", "show events, each with what was decided about it and whom it reached")
    for command in (tail, show):
        command.add_argument("--topic", metavar="FILTER", help="only events on these topics")
        command.add_argument("--client", metavar="NAME", help="only what this client sent or got, by client id or name")
        command.add_argument("--effect", choices=["pass", "suppress"], help="only events that passed, or did not")
    add = show.add_argument
    add("--from", dest="since", type=time_argument, metavar="TIME", help="only events from this time on (UTC)")
    add("--to", dest="until", type=time_argument, metavar="TIME", help="only events before this time (UTC)")
    show.add_argument("--limit", type=_count, metavar="N", help="no more than N events")
    _command(commands, "stats", "figures of each node: rows, bytes, files, events per second, topics, denials, gaps")
    compact = _command(commands, "compact", "make Parquet files of sealed segments")
    compact.add_argument(
        "--target", type=_count, default=256, metavar="MIB", help="segments for one file (default 256 MiB)"
    )
    return parser


def _command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    command.add_argument("journal", type=Path, metavar="JOURNAL", help="the journal's folder, or a domain file")
    add = command.add_argument
    add("--node", action="append", metavar="NAME", help="only of this node; may be given several times")
    command.add_argument("--json", action="store_true", help="print JSON, one object on a line")
    return command


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"`{text}` is not a number")
    return int(text)


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        if getattr(options, "topic", None) is not None:
            parse_filter(options.topic)
    except TopicError as error:
        parser.error(f"--topic: {error}")
    since, until = getattr(options, "since", None), getattr(options, "until", None)
    if since is not None and until is not None and since > until:
        parser.error(f"--from {since.isoformat()} is after --to {until.isoformat()}")
    try:
        return _run(options, *_folder(options.journal))
    except ModuleNotFoundError as error:
        print(f"penstock: journals need `{error.name}`: install `penstock[journal]`", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        return 0


def _folder(path: Path) -> tuple[Path, frozenset[str] | None]:
    """Return the folder of the journal, and the nodes that can have written it; None if they are not known."""
    if not path.exists():
        raise PenstockError(f"there is no journal `{path}`")
    if path.is_dir():
        return path, None
    domain = read(path).domain
    if domain.journal is None:
        raise PenstockError(f"domain `{path}` keeps no journal")
    return Path(domain.journal.folder), frozenset(domain.nodes)


def _run(options: argparse.Namespace, folder: Path, nodes_of_domain: frozenset[str] | None) -> int:
    from penstock.journal.listing import unknown_nodes

    nodes = frozenset(options.node) if options.node else None
    nothing = unknown_nodes(folder, nodes)
    stray = sorted(nodes - nodes_of_domain) if nothing and nodes is not None and nodes_of_domain is not None else []
    if stray:
        listed = ", ".join(f"`{node}`" for node in sorted(nodes_of_domain or ()))
        nothing = f"domain `{options.journal}` has no node `{stray[0]}`; it has {listed}"
    if nothing and (stray or options.command != "tail"):
        print(f"penstock: {nothing}", file=sys.stderr)
        return EXIT_USAGE
    if nothing:  # a command that follows a journal may wait for a node
        print(f"penstock: {nothing}: waiting for it", file=sys.stderr, flush=True)
    match options.command:
        case "stats":
            _stats(folder, nodes, options.json)
        case "compact":
            _compact(folder, nodes, options.target * 2**20, options.json)
        case "show":
            _show(folder, nodes, _query(options), options.limit, options.json)
        case _:
            _tail(folder, nodes, _query(options), options.lines, options.json)
    return 0


def _query(options: argparse.Namespace) -> "EventQuery":
    from penstock.journal.read.select import EventQuery

    since, until = getattr(options, "since", None), getattr(options, "until", None)
    return EventQuery(options.topic, options.client, since, until, options.effect)


# --- events


def _show(folder: Path, nodes: frozenset[str] | None, query: "EventQuery", limit: int | None, as_json: bool) -> None:
    from penstock.journal.read.select import select
    from penstock.journal.read.tables import read as read_journal

    remaining = limit if limit is not None else sys.maxsize
    for events, _ in read_journal(folder, nodes, query.days):
        selected = select(events, query).slice(0, remaining)
        _print(selected.to_pylist(), as_json)
        remaining -= selected.num_rows
        if not remaining:
            return


def _tail(folder: Path, nodes: frozenset[str] | None, query: "EventQuery", lines: int, as_json: bool) -> None:
    from penstock.journal.read.follow import Follower
    from penstock.journal.read.select import select

    follower = Follower(folder, nodes)
    earlier: list[dict[str, Any]] = []
    for events in follower.more():
        selected = select(events, query)
        earlier += selected.slice(max(0, selected.num_rows - lines)).to_pylist()
        earlier = sorted(earlier, key=_when)[-lines:] if lines else []
    _print(earlier, as_json)
    while True:
        fresh = [row for events in follower.more() for row in select(events, query).to_pylist()]
        _print(sorted(fresh, key=_when), as_json)
        time.sleep(_POLL_SECONDS)


def _when(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["time"], row["node"], row["seq"]


def _print(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    for row in rows:
        print(json.dumps(_plain(row)) if as_json else "\n".join(map(printable, _in_words(row))))
    sys.stdout.flush()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return an event as JSON values: a payload that is not text is in base64."""
    payload = row.pop("payload")
    try:
        encoded = {"payload": payload.decode()}
    except UnicodeDecodeError:
        encoded = {"payload_base64": base64.b64encode(payload).decode()}
    return row | encoded | {"time": _stamp(row["time"]), "properties": row["properties"].hex()}


def _in_words(row: dict[str, Any]) -> Iterator[str]:
    publisher = f"`{row['entity']}`" if row["entity"] == row["client_id"] else f"`{row['entity']}` ({row['client_id']})"
    made = f"made from #{row['arrival']} of {publisher}"
    origins = {"output": made, "view": made, "retained": f"kept from {publisher}"}
    whence = origins.get(row["kind"], f"from {publisher}")
    flags = f"QoS {row['qos']}" + (", retained" if row["retain"] else "")
    yield f"{_stamp(row['time'])} {row['node']} #{row['seq']} {row['topic']} {whence} by {row['link_type']}, {flags}"
    yield f"    {payload_text(row['payload'])}"
    rule = f" by {row['rule']}" if row["rule"] else ""
    reason = f": {row['reason']}" if row["reason"] else ""
    yield f"    {row['stage']}: {row['effect']}{rule}{reason}"
    names = ", ".join(f"{receiver['entity']} (QoS {min(receiver['qos'], row['qos'])})" for receiver in row["reached"])
    if row["kind"] == "withdrawn":
        yield f"    queued, and not sent to {names}"
    elif row["effect"] == "pass" and (names or not row["open"]):
        yield f"    reached {names or 'nobody'}"
    for kept in row["withheld"] or ():
        more = kept["count"] - len(kept["receivers"])
        whom = ", ".join(kept["receivers"]) + (f" and {more} more" if more else "")
        what = "withheld from" if kept["effect"] == "suppress" else "other for"
        rule = f" by {kept['rule']}" if kept["rule"] else ""
        yield f"    {what} {whom}: {kept['stage']}{rule}: {kept['reason']}"


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# --- figures


def _stats(folder: Path, nodes: frozenset[str] | None, as_json: bool) -> None:
    from penstock.journal.read.stats import stats

    by_node = stats(folder, nodes)
    if as_json:
        for node_stats in by_node:
            print(json.dumps(_figures(node_stats)))
        return
    titles = ("node", "rows", "arrivals", "a second", "files", "bytes", "topics", "from", "to")
    print_table(titles, [_row(node_stats) for node_stats in by_node])
    for node_stats in by_node:
        _print_counts(f"{node_stats.node}: arrivals by topic", dict(node_stats.topics.most_common(_MAX_TOPICS)))
        denied = {f"{stage} {rule}".strip(): count for (stage, rule), count in node_stats.denials.items()}
        _print_counts(f"{node_stats.node}: denied", denied)
        _print_counts(f"{node_stats.node}: missing or unreadable", dict(node_stats.problems))


def _row(node_stats: "JournalStats") -> tuple[str, ...]:
    files = f"{node_stats.files} ({node_stats.compacted_files} compacted, {node_stats.open_files} open)"
    times = [_stamp(moment) if moment else "" for moment in (node_stats.first, node_stats.last)]
    counts = (node_stats.node, str(node_stats.events), str(node_stats.arrivals), f"{node_stats.rate:.1f}")
    return (*counts, files, str(node_stats.bytes), str(len(node_stats.topics)), *times)


def _print_counts(title: str, counts: dict[str, int]) -> None:
    if counts:
        print(f"\n{title}")
        for name, count in sorted(counts.items(), key=lambda item: -item[1]):
            print(f"  {count:>10}  {printable(name)}")


def _figures(node_stats: "JournalStats") -> dict[str, Any]:
    return {
        "node": node_stats.node,
        "rows": node_stats.events,
        "arrivals": node_stats.arrivals,
        "events_per_second": round(node_stats.rate, 3),
        "files": node_stats.files,
        "open_files": node_stats.open_files,
        "compacted_files": node_stats.compacted_files,
        "bytes": node_stats.bytes,
        "from": _stamp(node_stats.first) if node_stats.first else None,
        "to": _stamp(node_stats.last) if node_stats.last else None,
        "topics": len(node_stats.topics),
        "most_topics": dict(node_stats.topics.most_common(_MAX_TOPICS)),
        "denials": [
            {"stage": stage, "rule": rule, "count": n} for (stage, rule), n in node_stats.denials.most_common()
        ],
        "problems": dict(node_stats.problems),
    }


def _compact(folder: Path, nodes: frozenset[str] | None, target: int, as_json: bool) -> None:
    from penstock.journal.write.compact import compact

    done = 0
    for compacted in compact(folder, nodes, target):
        done += 1
        path, files, rows, before, after = compacted
        if as_json:
            print(json.dumps({"file": str(path), "files": files, "rows": rows, "before": before, "after": after}))
        else:
            print(f"{path}: {rows} rows of {files} files, {before} bytes, now {after}")
    if not done and not as_json:
        print("nothing to compact")
