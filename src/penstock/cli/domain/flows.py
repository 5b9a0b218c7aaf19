"""`penstock flows`: which information can flow in a domain, by which way, and what blocks the other ways."""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.analysis.flows import Witness, all_pairs, check_assertions, nearest, reach, reach_all, split_by_filter
from penstock.analysis.graph import EntityKind, FlowGraph, flow_graph
from penstock.analysis.moves import ANY_TOPIC, Closure
from penstock.analysis.picture import picture
from penstock.cli.parsers import command_parser
from penstock.cli.table import print_table
from penstock.domain import Ensemble, check, ensemble, read
from penstock.domain.problems import known_names_hint
from penstock.model.errors import TopicError
from penstock.model.topic import parse_filter

_EPILOG = """\
A flow path goes from link to link as the brokering tables allow; a client on it may publish what it has read, under any
topic. With --routes it goes through brokers only. Flows that are not shown cannot happen; flows that are shown can
happen as far as tables and monitors decide it.
Exit code: 0, 2 for bad arguments, 3 if the domain does not check.
"""
_MAX_REASONS = 200
"""Largest number of pairs for which the way or the obstacle is shown; above it, only whether a flow exists."""
_STDOUT = Path("-")


@dataclass(frozen=True, slots=True)
class FlowQuery:
    """A query on a graph."""

    graph: FlowGraph
    on: str
    routes: bool


@dataclass(frozen=True, slots=True)
class FlowAnswer:
    """The answer whether information can flow from one entity to another, and why."""

    source: str
    target: str
    can: bool
    witness: Witness | None = None
    """The way if there is one; else the way that comes nearest, if links lead there."""
    closures: tuple[Closure, ...] = ()

    @property
    def why(self) -> str:
        if self.can:
            return str(self.witness) if self.witness is not None else ""
        return "; ".join(map(str, self.closures)) if self.witness is not None else "no links lead there"


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "flows", "Show from where to where information can flow in a domain. Nothing is started or connected.", _EPILOG
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="the domain file")
    add("--from", dest="source", metavar="X", help="only flows from this entity, each with its way")
    add("--to", dest="target", metavar="Y", help="only flows to this entity, each with its way")
    add("--on", metavar="FILTER", default=ANY_TOPIC, help="only events published on these topics (default: any)")
    add("--routes", action="store_true", help="through brokers only: flow routes, not flow paths")
    add("--assertions", action="store_true", help="show only whether the assertions hold, each with its reason")
    add("--json", action="store_true", help="print one JSON object")
    add("--svg", type=Path, metavar="OUT", help="write a picture to this file; `-`: to standard output")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    if options.svg == _STDOUT and options.json:
        parser.error("--svg - goes without --json: both would be written to standard output")
    try:
        on = parse_filter(options.on).filter
    except TopicError as error:
        parser.error(f"--on: {error}")
    source = read(options.file)
    # The files of nodes need not be on this machine: nothing is run.
    domain = check(source, nodes=()).domain
    entities = ensemble(domain, source.folder)
    question = FlowQuery(flow_graph(entities), on, options.routes)
    for name in (options.source, options.target):
        if name is not None and name not in question.graph.kinds:
            parser.error(f"no entity `{name}` in `{options.file}`, {known_names_hint(name, question.graph.kinds)}")
    if options.assertions:
        _show_assertions(entities, domain.domain, options.json)
    else:
        _show(question, options, entities, domain.domain)
    return 0


def _show(question: FlowQuery, options: argparse.Namespace, entities: Ensemble, name: str) -> None:
    is_whole = options.source is None and options.target is None
    answers = [] if is_whole else list(_answers(question, options.source, options.target))
    if options.svg is not None:
        _draw(question, options, entities, name, answers)
        if options.svg == _STDOUT:
            return
    if options.json:
        result: dict[str, object] = {"domain": name, "on": question.on, "routes": question.routes}
        result |= _whole_plain(question) if is_whole else {"flows": [_plain(answer) for answer in answers]}
        if len(answers) == 1 and answers[0].can and answers[0].witness is not None and question.on == ANY_TOPIC:
            can, cannot = split_by_filter(question.graph, answers[0].witness, question.routes)
            result["flows"] = [_plain(answers[0]) | {"open_on": can, "closed_on": cannot}]
        print(json.dumps(result, indent=2))
    elif is_whole:
        print_table(("from", "reaches", "does not reach"), _whole(question))
    elif options.source is not None and options.target is not None:
        print("\n".join(_in_words(answers[0])))
    else:
        rows = [(answer.source, answer.target, "yes" if answer.can else "no", answer.why) for answer in answers]
        print_table(("from", "to", "flows", "by which way, or what closes it"), rows)


def _show_assertions(entities: Ensemble, name: str, as_json: bool) -> None:
    failed = {failure.index: failure.reason for failure in check_assertions(entities)}
    if as_json:
        results = [
            {
                "assertion": str(assertion),
                "kind": assertion.kind,
                "from": assertion.source,
                "to": assertion.target,
                "on": assertion.topics or ANY_TOPIC,
                "routes": assertion.routes,
                "holds": at not in failed,
                "why": failed.get(at, ""),
            }
            for at, assertion in enumerate(entities.assertions)
        ]
        print(json.dumps({"domain": name, "assertions": results}, indent=2))
    else:
        numbered = enumerate(entities.assertions)
        rows = [(str(assertion), "no" if at in failed else "yes", failed.get(at, "")) for at, assertion in numbered]
        print_table(("assertion", "holds", "why not"), rows)


def _ends(graph: FlowGraph) -> list[str]:
    """Return the entities between which flows matter: clients and foreign brokers; nodes if there are no others."""
    return [name for name, kind in graph.kinds.items() if kind is not EntityKind.NODE] or list(graph.kinds)


def _answers(question: FlowQuery, source: str | None, target: str | None) -> Iterator[FlowAnswer]:
    graph, on, routes = question.graph, question.on, question.routes
    sources = _ends(graph) if source is None else [source]
    targets = _ends(graph) if target is None else [target]
    pairs = [(x, y) for x in sources for y in targets if x != y or (source, target) == (x, y)]
    if len(pairs) > _MAX_REASONS:
        can = all_pairs(graph, routes, on).can
        yield from (FlowAnswer(x, y, can(x, y)) for x, y in pairs)
        return
    ways = reach_all(graph, source, on, routes) if source is not None else None
    for x, y in pairs:
        witness = reach(graph, x, y, on, routes) if ways is None else ways.get(y)
        if witness is not None:
            yield FlowAnswer(x, y, True, witness)
        else:
            yield FlowAnswer(x, y, False, *(nearest(graph, x, y, on, routes) or ()))


def _whole(question: FlowQuery) -> list[tuple[str, ...]]:
    pairs, ends = all_pairs(question.graph, question.routes, question.on), _ends(question.graph)
    rows = list[tuple[str, ...]]()
    for x in ends:
        targets = [y for y in ends if y != x]
        reached = [y for y in targets if pairs.can(x, y)]
        rows.append((x, ", ".join(reached) or "-", ", ".join(y for y in targets if y not in set(reached)) or "-"))
    return rows


def _whole_plain(question: FlowQuery) -> dict[str, object]:
    graph, pairs = question.graph, all_pairs(question.graph, question.routes, question.on)
    return {
        "entities": [
            {"name": name, "kind": str(kind), "reaches": [other for other in pairs.entities(name) if other != name]}
            for name, kind in graph.kinds.items()
        ],
        "links": [
            {
                "from": link.source,
                "to": link.target,
                "type": link.type,
                "monitors": [monitor.name for monitor in graph.monitors.get((link.source, link.target), ())],
            }
            for link in graph.links
        ],
    }


def _plain(answer: FlowAnswer) -> dict[str, object]:
    witness = answer.witness
    way = [] if witness is None else list(zip(witness.links, witness.topics, strict=True))
    return {
        "from": answer.source,
        "to": answer.target,
        "flows": answer.can,
        "way": [
            {"from": link.source, "to": link.target, "type": link.type, "topics": topics or ANY_TOPIC}
            for link, topics in way
        ],
        "closed": [{"at": closure.at, "what": closure.what} for closure in answer.closures],
    }


def _in_words(answer: FlowAnswer) -> Iterator[str]:
    if answer.witness is None:
        yield f"nothing can flow from {answer.source} to {answer.target}: no links lead there"
        return
    verb = "can" if answer.can else "cannot"
    yield f"{answer.source} {verb} reach {answer.target}" + ("" if answer.can else "; the nearest way:")
    for link, topics in zip(answer.witness.links, answer.witness.topics, strict=True):
        yield f"  {link}  type {link.type}" + (f", topics {topics}" if topics not in (None, ANY_TOPIC) else "")
    yield from (f"  closed: {closure}" for closure in answer.closures)


def _draw(
    query: FlowQuery, options: argparse.Namespace, entities: Ensemble, name: str, answers: list[FlowAnswer]
) -> None:
    parents = {node: entities.parents(node) for node in entities.nodes}
    has_both = options.source is not None and options.target is not None
    shown = answers[0].witness.links if has_both and answers[0].can and answers[0].witness is not None else ()
    text = picture(query.graph, parents, name, shown)
    if options.svg == _STDOUT:
        print(text, end="")
    else:
        options.svg.write_text(text, encoding="utf-8")
