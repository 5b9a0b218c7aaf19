"""Random policies in a line of nodes do what the small model of them says."""

import json
from itertools import product
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.language.parser import parse
from penstock.language.printer import show
from penstock.language.statements.printer import show_compact
from penstock.language.statements.statement import (
    ANYWHERE,
    Attach,
    ElementUse,
    Matching,
    Message,
    Point,
    Statement,
    StatementClause,
    StatementRule,
    Verb,
)
from tests.support.models.statements import NODES, Filter, Reader, deliveries

GROUPS = {"G1": {"n0", "n1", "p"}, "G2": {"n1", "n2", "s0"}}
NAMES = ("x", "y", "z")

conditions = st.sampled_from((None, "x > 2", "y < 5", "x > 2 && y < 5", "has(z)"))
asked = st.sampled_from(
    (
        "x > 3",
        "z == 1",
        "has(z) || x > 4",
        "AuthenticateReceiver(G1)",
        "AuthenticateReceiver(G2) && x > 1",
        "AuthenticateSender(G1)",
        "Broker() == 'n1'",
        "Sender() == 'p' || y > 2",
        "z > 0 && AuthenticateSender(G2)",
    )
)
of_filters = st.sampled_from(("StrictMatch()", "StrictMatch() || x > 4"))


def uses(is_filter: bool, may_flood: bool) -> st.SearchStrategy[ElementUse]:
    names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True).map(tuple)
    plain = [
        st.just(ElementUse("BlockMessage")),
        st.just(ElementUse("AppendPrevHop")),
        st.just(ElementUse("AugmentBrokerHostInfo", ("Attributes",))),
        names.map(lambda some: ElementUse("RemoveAttributes", some)),
        names.map(lambda some: ElementUse("KeepOnlyAttributes", some)),
    ]
    plain += [st.just(ElementUse("FloodMessage"))] if may_flood else []
    return st.one_of(*plain, *([st.just(ElementUse("TrimAttributes"))] if is_filter else []))


def clauses(is_filter: bool, may_flood: bool, least: int = 1) -> st.SearchStrategy[tuple[StatementClause, ...]]:
    texts = st.one_of(st.none(), asked, of_filters) if is_filter else st.one_of(st.none(), asked)
    one = st.builds(
        lambda text, actions: StatementClause(None if text is None else parse(text), tuple(actions)),
        texts,
        st.lists(uses(is_filter, may_flood), max_size=2),
    )
    return st.lists(one, min_size=least, max_size=3).map(tuple)


def statements(is_filter: bool, may_flood: bool = True) -> st.SearchStrategy[Statement]:
    points = st.lists(st.sampled_from(ANYWHERE), min_size=1, unique=True).map(
        lambda some: tuple(one for one in ANYWHERE if one in some)
    )
    rule = st.builds(
        _rule,
        st.sampled_from(Matching),
        points,
        st.sampled_from(Attach) if is_filter else st.just(Attach.NEVER),
        st.booleans(),
        clauses(is_filter, may_flood),
        clauses(is_filter, may_flood, 0),
    )
    return st.lists(rule, min_size=1, max_size=2).map(lambda rules: Statement(tuple(rules)))


def _rule(
    matching: Matching,
    points: tuple[Point, ...],
    attach: Attach,
    yields: bool,
    chain: tuple[StatementClause, ...],
    on_exception: tuple[StatementClause, ...],
) -> StatementRule:
    if attach is not Attach.NEVER:  # what is attached has no filter any more
        chain = tuple(clause for clause in chain if not _refers(clause)) or (StatementClause(),)
        on_exception = tuple(clause for clause in on_exception if not _refers(clause))
    if matching is Matching.BEFORE:  # there is nobody to ask about who gets it
        chain = tuple(clause for clause in chain if not _refers(clause, "AuthenticateReceiver")) or (StatementClause(),)
        on_exception = tuple(clause for clause in on_exception if not _refers(clause, "AuthenticateReceiver"))
    return StatementRule(Verb.FORWARD, Message.PUBLICATION, chain, matching, points, attach, yields, on_exception)


def _refers(clause: StatementClause, *names: str) -> bool:
    said = show_compact(Statement((StatementRule(Verb.FORWARD, Message.PUBLICATION, (clause,)),)))
    return any(name in said for name in names or ("StrictMatch", "TrimAttributes"))


def _filter(where: str | None, policy: Statement | None) -> Filter:
    if where is None and "TrimAttributes" in text(policy):  # there is nothing to trim to, and it is refused
        policy = None
    return Filter(None if where is None else parse(where), policy)


def filters(most: int, may_flood: bool) -> st.SearchStrategy[tuple[Filter, ...]]:
    one = st.builds(_filter, conditions, st.one_of(st.none(), statements(True, may_flood)))
    return st.lists(one, max_size=most, unique_by=lambda made: repr(made.where)).map(tuple)


events = st.lists(
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 6), min_size=1).map(lambda some: dict(sorted(some.items()))),
    min_size=1,
    max_size=3,
)
readers = st.lists(st.tuples(st.integers(0, NODES - 1), filters(2, False)), min_size=1, max_size=3)


def play() -> Rehearsal:
    names = [f"n{number}" for number in range(NODES)]
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in names},
            "links": [{"between": [f"n{number}", f"n{number + 1}"]} for number in range(NODES - 1)],
            "clients": {name: {"node": names} for name in ("p", "q", "s0", "s1", "s2")},
            "statements": {
                "grants": [{"to": "*", "set": ["publication", "subscription", "advertisement"], "elements": "*"}]
            },
            "trust_groups": {
                group: {
                    "secret": {"env": group},
                    "nodes": sorted(members & set(names)),
                    "clients": sorted(members - set(names)),
                }
                for group, members in GROUPS.items()
            },
        }
    )
    return Rehearsal(domain, ensemble(domain))


def text(policy: Statement | None) -> str:
    return "" if policy is None else show_compact(policy)


def where(one: Filter) -> str:
    return "" if one.where is None else show(one.where)


@given(events, st.one_of(st.none(), statements(False)), st.integers(0, NODES - 1), filters(2, True), readers)
@settings(suppress_health_check=list(HealthCheck), deadline=None)
def test_policies_of_publications_do_what_the_model_says(
    contents: list[dict[str, Any]],
    attached: Statement | None,
    start: int,
    advertised: tuple[Filter, ...],
    wanted: list[tuple[int, tuple[Filter, ...]]],
) -> None:
    rehearsal = play()
    audience = [Reader(f"s{number}", node, some) for number, (node, some) in enumerate(wanted)]
    rehearsal.connect("p", f"n{start}")
    rehearsal.connect("q", f"n{start}")
    for number, one in enumerate(advertised):
        rehearsal.advertise("p", f"A{number}", "t", where(one), policy=text(one.policy))
    for reader in audience:
        rehearsal.connect(reader.name, f"n{reader.node}")
        for number, one in enumerate(reader.subscriptions):
            rehearsal.subscribe(reader.name, "t", where=where(one), name=str(number), policy=text(one.policy))
    statements_ = (attached,) if attached is not None else ()
    for content, publisher in product(contents, "pq"):
        before = {reader.name: len(rehearsal.deliveries(reader.name)) for reader in audience}
        rehearsal.publish(publisher, "t", json.dumps(content).encode(), policy=text(attached))
        rehearsal.run()
        got = {
            reader.name: [json.loads(one.payload) for one in rehearsal.deliveries(reader.name)[before[reader.name] :]]
            for reader in audience
        }
        own = advertised if publisher == "p" else ()  # q comes by the same links, and policies of p do not concern it
        expected: dict[str, dict[str, Any]] = {}
        if not own or any(one.takes(content) for one in own):
            expected = deliveries(content, statements_, publisher, start, own, audience, GROUPS)
        assert got == {reader.name: [expected[reader.name]] if reader.name in expected else [] for reader in audience}
