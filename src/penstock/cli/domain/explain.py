"""`penstock explain`: why an event is delivered, changed or withheld."""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from penstock.cli.domain.staging import Stage, everything
from penstock.cli.options import UsageError as BadOption
from penstock.cli.parsers import command_parser
from penstock.cli.policy.policy_files import policy_given
from penstock.cli.table import print_table
from penstock.client.admin import AdminClient
from penstock.domain import check, read
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
With FILE: for a hypothetical event. Every client that the file lists is taken to be connected, and to subscribe to `#`,
or with --subscribed only to what that says; monitors are in their first states, or in those of --state.
With --node: for an event at a live node, as things are there now. Nothing is published.
Exit code: 0, 1 if the node cannot be asked, 2 for bad arguments, 3 if the domain does not check.
"""


class UsageError(PenstockError):
    """Arguments that do not go together."""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "explain",
        "Say why an event is delivered, changed or withheld: every stage, the rule that spoke, and what it"
        " did, towards each receiver.",
        _EPILOG,
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the domain file")
    parser.add_argument("--node", metavar="URL", help="admin address of a live node, as http://127.0.0.1:8080")
    parser.add_argument("--from", dest="source", required=True, metavar="X", help="the client that publishes")
    parser.add_argument("--topic", required=True, metavar="T", help="what it publishes to")
    said = parser.add_mutually_exclusive_group()
    said.add_argument("--payload", default="", metavar="P", help="what it says (default: nothing)")
    said.add_argument("--payload-file", type=Path, metavar="PATH", help="what it says, byte for byte")
    said.add_argument("--metrics", metavar="JSON", help="""a Sparkplug message, as '{"temperature": 20}'""")
    parser.add_argument("--seq", type=int, metavar="N", help="the `seq` of a Sparkplug message of --metrics")
    parser.add_argument(
        "--births", type=Path, metavar="PATH", help="births that nodes know of: JSON lines, or a folder of payloads"
    )
    parser.add_argument("--content-type", default="", metavar="TYPE", help="MQTT 5 content type, as application/json")
    parser.add_argument(
        "--policy", default="", metavar="TEXT|@FILE", help="policy statement that is attached to it; @FILE: in a file"
    )
    parser.add_argument("--qos", type=int, choices=(0, 1, 2), default=0, help="(default 0)")
    parser.add_argument("--retain", action="store_true", help="as a retained message")
    parser.add_argument("--to", action="append", default=[], metavar="Y", help="only what leads to Y (may be repeated)")
    parser.add_argument("--at", metavar="NODE", help="the node it publishes at, if it is listed at several")
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="MONITOR=STATE",
        help="let a monitor be in a state; MONITOR@SOURCE->TARGET: only on that link",
    )
    parser.add_argument(
        "--subscribed",
        action="append",
        default=[],
        metavar="CLIENT=FILTER[ where CONDITION]",
        help="only these subscriptions are there; CLIENT@NODE: of a client that the file does not list",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    if (options.file is None) is (options.node is None):
        parser.error("either FILE or --node")
    if options.node is not None and (options.at or options.state or options.subscribed or options.births):
        parser.error("--at, --state, --subscribed and --births go with FILE: a live node is as it is")
    try:
        check_topic(options.topic)
        told = _of_file(options) if options.file is not None else _of_node(options)
    except (UsageError, TopicError, RehearsalError, ExplainError) as error:
        parser.error(str(error))
    if options.json:
        print(json.dumps(msgspec.to_builtins(told), indent=2))
    else:
        _show(told)
    return 0


# --- a hypothetical event


def _of_file(options: argparse.Namespace) -> Account:
    source = read(options.file)
    stage = Stage.of(source, check(source, nodes=()).domain)
    rehearsal = stage.play()
    for client in stage.whole.devices:
        rehearsal.connect(client)
    at = _place(rehearsal, options.source, options.at)
    _subscribe(rehearsal, options)
    known = tuple(dict.fromkeys((*stage.whole.devices, *stage.whole.foreign, *rehearsal.entities)))
    for name in options.to:
        if name not in known:
            raise UsageError(f"no client or foreign broker `{name}` in `{options.file}`")
    for text in options.state:
        _put_state(rehearsal, text)
    if options.births is not None:
        _tell_births(rehearsal, options.births)
    said = (options.topic, _payload(options), options.qos, options.retain, options.content_type)
    event = hypothetical(*said, policy=_policy(options))
    start = arrival(rehearsal.nodes[at], options.source, event)
    decisions = explain(rehearsal.nodes, start, rehearsal.now, known)
    told = account(decisions, stage.whole, known, options.to)
    return msgspec.structs.replace(told, assumed=_assumed(options, stage.whole.tokens is not None))


def _policy(options: argparse.Namespace) -> str:
    """The policy that is attached; empty: none."""
    try:
        return policy_given(options.policy) if options.policy else ""
    except BadOption as error:
        raise UsageError(f"--policy: {error}") from None


def _assumed(options: argparse.Namespace, has_tokens: bool) -> str:
    with_tokens = ", with the token that it is granted" if has_tokens else ""
    if options.subscribed:
        return f"every client is connected{with_tokens}, and there are only the subscriptions of --subscribed"
    filters = " and ".join(f"`{filter}`" for filter in everything(options.topic))
    wanted = f"{filters}, or to what its token lets it" if has_tokens else filters
    return f"every client is connected{with_tokens} and subscribes to {wanted}; --subscribed says otherwise"


def _tell_births(rehearsal: Rehearsal, path: Path) -> None:
    """Let all nodes have seen these births."""
    from penstock.cli.policy.births import of_path

    for topic, payload in of_path(path):
        for node in rehearsal.nodes.values():
            wrong = births.take_in(node, Event(topic, payload))
            if wrong:
                raise UsageError(f"--births: `{topic}`: {wrong}")


def _payload(options: argparse.Namespace) -> bytes:
    """What the event says."""
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
    """Metrics as an option says them; raises `UsageError`."""
    try:
        said = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--metrics: expected JSON: {error}") from None
    if not isinstance(said, dict):
        raise UsageError(f"--metrics: expected a JSON object of metrics by name, found `{text}`")
    return said


def _place(rehearsal: Rehearsal, entity: str, node: str | None) -> str:
    """The node that an entity publishes at."""
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
            found = _SUBSCRIBED.fullmatch(text)
            if found is None:
                expected = "CLIENT=FILTER or CLIENT@NODE=FILTER, and ` where CONDITION` if there is one"
                raise UsageError(f"--subscribed: expected {expected}, found `{text}`")
            if not rehearsal.is_connected(found["client"]):
                rehearsal.connect(found["client"], found["node"])
            wanted, before = parse_filter(found["filter"]), len(rehearsal.notices)
            no_local = wanted.group is None  # [MQTT-3.8.3-4]
            rehearsal.subscribe(found["client"], wanted.text, 2, no_local, found["node"], found["where"] or "")
            refused = [one.reason for one in rehearsal.notices[before:] if one.kind == "subscribe denied"]
            if refused:
                raise UsageError(f"--subscribed: `{text}`: {refused[0]}")
        return
    for client in rehearsal.ensemble.devices:
        for filter in rehearsal.widest(client, everything(options.topic)):
            rehearsal.subscribe(client, filter)


_STATE = re.compile(r"(?P<monitor>[\w-]+)(@(?P<source>[\w-]+)\s*->\s*(?P<target>[\w-]+))?=(?P<state>.*)", re.DOTALL)


def _put_state(rehearsal: Rehearsal, text: str) -> None:
    found = _STATE.fullmatch(text)
    if found is None:
        raise UsageError(f"--state: expected MONITOR=STATE or MONITOR@SOURCE->TARGET=STATE, found `{text}`")
    state: object = found["state"]
    if any(not isinstance(one, str) for one in rehearsal.states(found["monitor"]).values()):
        try:
            state = json.loads(found["state"])  # of a Python monitor
        except ValueError as error:
            raise UsageError(f"--state: the state of `{found['monitor']}` is JSON: {error}") from None
    link = (found["source"], found["target"]) if found["source"] else None
    rehearsal.put_state(found["monitor"], state, link)


# --- an event at a live node


def _of_node(options: argparse.Namespace) -> Account:
    asked = [("from", options.source), ("topic", options.topic), ("qos", options.qos)]
    asked += [("retain", "1")] if options.retain else []
    asked += [("content_type", options.content_type)] if options.content_type else []
    asked += [("policy", _policy(options))] if options.policy else []
    asked += [("to", name) for name in options.to]
    try:
        found = AdminClient(options.node).ask(
            "POST", "/api/explain", _payload(options), asked, "application/octet-stream"
        )
        return msgspec.json.decode(found, type=Account)
    except msgspec.MsgspecError as error:
        raise PenstockError(f"node at `{options.node}` cannot be asked: {error}") from None


# --- for people


def _show(told: Account) -> None:
    print(f"{told.source} publishes `{told.event}` with QoS {told.event.qos} at {told.node}")
    if told.assumed:
        print(f"assumed: {told.assumed}")
    print()
    rows = [row for decision in told.decisions for row in _rows(decision)]
    print_table(("at", "from", "to", "stage", "does", "rule", "because"), rows)
    print()
    for name, receiver in told.receivers.items():
        if receiver.gets:
            print(f"{name} gets {', '.join(f'`{event}`' for event in receiver.gets)}")
        else:
            print(f"{name} gets nothing")
            for reason in receiver.why_not:
                print(f"  {reason}")


def _rows(decision: DecisionAccount) -> Iterator[tuple[str, ...]]:
    """A row for each stage; where it is about the same as in the row above, it is not said again."""
    target = decision.goes_by.target if decision.goes_by is not None else "-"
    head = (decision.node, decision.came_by.source, target)
    for verdict in decision.verdicts:
        yield (*head, verdict.stage, verdict.effect, verdict.rule or "-", verdict.reason or "-")
        head = ("", "", "")
