"""`penstock explain`: explain why an event is delivered, changed or withheld."""

import argparse
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from penstock.cli.domain.staging import StagedDomain, all_filters
from penstock.cli.options import UsageError
from penstock.cli.parsers import command_parser, time_argument
from penstock.cli.policy.policy_files import policy_option
from penstock.cli.table import print_table, printable
from penstock.client.admin import AdminClient
from penstock.domain import check, read
from penstock.engine.events.user_properties import with_birth
from penstock.engine.explain.arrival import ExplainError, arrival, hypothetical
from penstock.engine.explain.report import Account, DecisionAccount, account
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.assembly import RehearsalError
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.sparkplug import births
from penstock.model.errors import ContentError, PenstockError, TopicError
from penstock.model.event import Event
from penstock.model.sparkplug.plain import write_plain
from penstock.model.topic import check_topic, parse_filter

_EPILOG = """\
With FILE: for a hypothetical event. Every listed client is assumed to be connected and subscribed to `#`, or with
--subscribed only to the given filters; monitors are in their initial states, or in those of --state.
With --node: for an event at a live node in its present state. Nothing is published.
Exit code: 0, 1 if the node cannot be reached, 2 for bad arguments, 3 if the domain does not check.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "explain",
        "Explain why an event is delivered, changed or withheld: every stage, its rule and its effect,"
        " towards each receiver.",
        _EPILOG,
    )
    add = parser.add_argument
    add("file", nargs="?", type=Path, metavar="FILE", help="the domain file")
    add("--node", metavar="URL", help="admin address of a live node, as http://127.0.0.1:8080")
    add("--from", dest="source", required=True, metavar="X", help="the client that publishes")
    add("--topic", required=True, metavar="T", help="the topic it publishes to")
    payload = parser.add_mutually_exclusive_group()
    payload.add_argument("--payload", default="", metavar="P", help="its payload (default: empty)")
    payload.add_argument("--payload-file", type=Path, metavar="PATH", help="file with its payload")
    payload.add_argument("--metrics", metavar="JSON", help="""a Sparkplug message, as '{"temperature": 20}'""")
    add("--seq", type=int, metavar="N", help="the `seq` of a Sparkplug message of --metrics")
    add("--births", type=Path, metavar="PATH", help="births that nodes know: JSON lines, or a folder of payloads")
    add("--content-type", default="", metavar="TYPE", help="MQTT 5 content type, as application/json")
    add("--policy", default="", metavar="TEXT|@FILE", help="policy statement that is attached; @FILE: in a file")
    add("--qos", type=int, choices=(0, 1, 2), default=0, help="(default 0)")
    add("--retain", action="store_true", help="as a retained message")
    add("--to", action="append", default=[], metavar="Y", help="only receiver Y (may be repeated)")
    add("--at", metavar="NODE", help="the node it publishes at, if it may publish at several")
    add("--time", type=time_argument, metavar="TIME", help="when it is published (default: now)")
    add(
        "--state",
        action="append",
        default=[],
        metavar="MONITOR=STATE",
        help="put a monitor into a state; MONITOR@SOURCE->TARGET: only on that link",
    )
    add(
        "--subscribed",
        action="append",
        default=[],
        metavar="CLIENT=FILTER[ where CONDITION]",
        help="assume only these subscriptions; CLIENT@NODE: of an unlisted client",
    )
    add("--json", action="store_true", help="print one JSON object")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    if (options.file is None) is (options.node is None):
        parser.error("either FILE or --node")
    changes = (options.at, options.time, options.state, options.subscribed, options.births)
    if options.node is not None and any(changes):
        parser.error("--at, --time, --state, --subscribed and --births need FILE: they cannot change a live node")
    try:
        check_topic(options.topic)
        explained = _of_file(options) if options.file is not None else _of_node(options)
    except (UsageError, TopicError, RehearsalError, ExplainError) as error:
        parser.error(str(error))
    if options.json:
        print(json.dumps(msgspec.to_builtins(explained), indent=2))
    else:
        _show(explained)
    return 0


# --- a hypothetical event


def _of_file(options: argparse.Namespace) -> Account:
    source = read(options.file)
    stage = StagedDomain.of(source, check(source, nodes=()).domain)
    rehearsal = stage.start(now=time.time() if options.time is None else options.time.timestamp())
    for client in stage.ensemble.devices:
        rehearsal.connect(client)
    at = _place(rehearsal, options.source, options.at)
    _subscribe(rehearsal, options)
    entities = tuple(dict.fromkeys((*stage.ensemble.devices, *stage.ensemble.foreign, *rehearsal.entities)))
    for name in options.to:
        if name not in entities:
            raise UsageError(f"no client or foreign broker `{name}` in `{options.file}`")
    for text in options.state:
        _put_state(rehearsal, text)
    message = (options.topic, _payload(options), options.qos, options.retain, options.content_type)
    event = hypothetical(*message, policy=_policy(options))
    start = arrival(rehearsal.nodes[at], options.source, event)
    if options.births is not None:
        _tell_births(rehearsal, options.births, start.event.origin)
    decisions = explain(rehearsal.nodes, start, rehearsal.now, entities)
    explained = account(decisions, stage.ensemble, entities, options.to)
    return msgspec.structs.replace(explained, assumed=_assumed(options, stage.ensemble.tokens is not None))


def _policy(options: argparse.Namespace) -> str:
    """Return the policy that is attached; empty: none."""
    try:
        return policy_option(options.policy) if options.policy else ""
    except UsageError as error:
        raise UsageError(f"--policy: {error}") from None


def _assumed(options: argparse.Namespace, has_tokens: bool) -> str:
    with_tokens = ", with the token that it is granted" if has_tokens else ""
    if options.subscribed:
        return f"every client is connected{with_tokens}, and there are only the subscriptions of --subscribed"
    filters = " and ".join(f"`{filter}`" for filter in all_filters(options.topic))
    subscribed = f"{filters}, or to what its token lets it" if has_tokens else filters
    return f"every client is connected{with_tokens} and subscribes to {subscribed}; --subscribed says otherwise"


def _tell_births(rehearsal: Rehearsal, path: Path, origin: str) -> None:
    """Make these births, published by this client, known to all nodes."""
    from penstock.cli.policy.births import read_births

    for number, (topic, payload) in enumerate(read_births(path), 1):
        birth = with_birth(Event(topic, payload, origin=origin), str(number))
        for node in rehearsal.nodes.values():
            wrong = births.take_in(node, birth)
            if wrong:
                raise UsageError(f"--births: `{topic}`: {wrong}")


def _payload(options: argparse.Namespace) -> bytes:
    """Return the payload of the event."""
    if options.payload_file is not None:
        try:
            return bytes(options.payload_file.read_bytes())
        except OSError as error:
            raise UsageError(f"--payload-file: `{options.payload_file}` cannot be read: {error.strerror}") from None
    if options.metrics is None:
        return str(options.payload).encode()
    try:
        return write_plain(metrics_in(options.metrics), options.seq)
    except ContentError as error:
        raise UsageError(f"--metrics: {error}") from None


def metrics_in(text: str) -> dict[str, Any]:
    """Parse the metrics of an option; raise `UsageError`."""
    try:
        metrics = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--metrics: expected JSON: {error}") from None
    if not isinstance(metrics, dict):
        raise UsageError(f"--metrics: expected a JSON object of metrics by name, found `{text}`")
    return metrics


def _place(rehearsal: Rehearsal, entity: str, node: str | None) -> str:
    """Return the node that an entity publishes at."""
    if node is not None:
        if node not in rehearsal.nodes:
            raise UsageError(f"no node `{node}`, there is {', '.join(rehearsal.nodes)}")
        return node
    places = [name for name in rehearsal.nodes if (entity, name) in rehearsal.ensemble.links] or list(rehearsal.nodes)
    if len(places) > 1:
        raise UsageError(f"`{entity}` may publish at {' and '.join(places)}: say which with --at")
    return places[0]


_SUBSCRIBED = re.compile(
    r"(?P<client>[^@=]+)(@(?P<node>[\w-]+))?=(?P<filter>.+?)(\s+where\s+(?P<where>.+))?", re.DOTALL
)


def _subscribe(rehearsal: Rehearsal, options: argparse.Namespace) -> None:
    if options.subscribed:
        for text in options.subscribed:
            match = _SUBSCRIBED.fullmatch(text)
            if match is None:
                expected = "CLIENT=FILTER or CLIENT@NODE=FILTER, and ` where CONDITION` if there is one"
                raise UsageError(f"--subscribed: expected {expected}, found `{text}`")
            if not rehearsal.is_connected(match["client"]):
                rehearsal.connect(match["client"], match["node"])
            parsed, before = parse_filter(match["filter"]), len(rehearsal.notices)
            no_local = parsed.group is None  # [MQTT-3.8.3-4]
            rehearsal.subscribe(match["client"], parsed.text, 2, no_local, match["node"], match["where"] or "")
            refused = [notice.reason for notice in rehearsal.notices[before:] if notice.kind == "subscribe denied"]
            if refused:
                raise UsageError(f"--subscribed: `{text}`: {refused[0]}")
        return
    for client in rehearsal.ensemble.devices:
        for filter in rehearsal.widest(client, all_filters(options.topic)):
            rehearsal.subscribe(client, filter)


_STATE = re.compile(r"(?P<monitor>[\w-]+)(@(?P<source>[\w-]+)\s*->\s*(?P<target>[\w-]+))?=(?P<state>.*)", re.DOTALL)


def _put_state(rehearsal: Rehearsal, text: str) -> None:
    match = _STATE.fullmatch(text)
    if match is None:
        raise UsageError(f"--state: expected MONITOR=STATE or MONITOR@SOURCE->TARGET=STATE, found `{text}`")
    state: object = match["state"]
    if any(not isinstance(state_, str) for state_ in rehearsal.states(match["monitor"]).values()):
        try:
            state = json.loads(match["state"])  # of a Python monitor
        except ValueError as error:
            raise UsageError(f"--state: the state of `{match['monitor']}` is JSON: {error}") from None
    link = (match["source"], match["target"]) if match["source"] else None
    rehearsal.put_state(match["monitor"], state, link)


# --- an event at a live node


def _of_node(options: argparse.Namespace) -> Account:
    query = [("from", options.source), ("topic", options.topic), ("qos", options.qos)]
    query += [("retain", "1")] if options.retain else []
    query += [("content_type", options.content_type)] if options.content_type else []
    query += [("policy", _policy(options))] if options.policy else []
    query += [("to", name) for name in options.to]
    try:
        client, payload = AdminClient(options.node), _payload(options)
        answer = client.ask("POST", "/api/explain", payload, query, "application/octet-stream")
        return msgspec.json.decode(answer, type=Account)
    except msgspec.MsgspecError as error:
        raise PenstockError(f"node at `{options.node}` cannot be reached: {error}") from None


# --- for people


def _show(explained: Account) -> None:
    what = printable(f"{explained.event}")
    print(f"{explained.source} publishes `{what}` with QoS {explained.event.qos} at {explained.node}")
    if explained.assumed:
        print(f"assumed: {explained.assumed}")
    print()
    rows = [row for decision in explained.decisions for row in _rows(decision)]
    print_table(("at", "from", "to", "stage", "does", "rule", "because"), rows)
    print()
    for name, receiver in explained.receivers.items():
        if receiver.gets:
            print(printable(f"{name} gets {', '.join(f'`{event}`' for event in receiver.gets)}"))
        else:
            print(f"{name} gets nothing")
            for reason in receiver.why_not:
                print(f"  {printable(reason)}")


def _rows(decision: DecisionAccount) -> Iterator[tuple[str, ...]]:
    """Return a row for each stage; values equal to those of the row above are left blank."""
    target = decision.goes_by.target if decision.goes_by is not None else "-"
    head = (decision.node, decision.came_by.source, target)
    for verdict in decision.verdicts:
        yield (*head, verdict.stage, verdict.effect, verdict.rule or "-", verdict.reason or "-")
        head = ("", "", "")
