"""Assertions of a domain file, and what is said of one that does not hold."""

from pathlib import Path

import pytest

from penstock.analysis.flows import AssertionFailure, check_assertions, reach
from penstock.analysis.graph import EntityKind, FlowGraph, flow_graph
from penstock.domain import Ensemble, check, ensemble, read
from tests.support.models.ensembles import SMART_HOME_FILE as SMART_HOME


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "domain.yaml"


def made(file: Path, text: str) -> Ensemble:
    file.write_text(text, encoding="utf-8")
    source = read(file, {})
    return ensemble(check(source, nodes=()).domain, source.folder)


def failures(file: Path, assertions: str, domain: str = SMART_HOME) -> list[AssertionFailure]:
    return list(check_assertions(made(file, f"{domain}\nassertions: [{assertions}]")))


HOLDS = {
    "policy 2, motion takes no route to the phone": "{never: motion to phone, routes: true}",
    "policy 3, no unlock from the phone": "{never: phone to lock, on: DL_unlock}",
    "policy 3, a grant from the phone": "{can: phone to lock, on: AC_grant, routes: true}",
    "policy 4, an unlock from the bell, in some state": "{can: bell to lock, on: DL_unlock, routes: true}",
    "a request reaches the phone": "{can: bell to phone, on: AC_request}",
    "a node can be an end": "{can: motion to gateway}, {never: cloud to locks, on: DL_unlock, routes: true}",
}


@pytest.mark.parametrize("title", HOLDS)
def test_it_holds(title: str, file: Path) -> None:
    assert failures(file, HOLDS[title]) == []


FAILS = {
    "{never: motion to phone}": "`never: motion to phone` does not hold: there is a way, motion -[sensitive]-> gateway"
    " -[door]-> bell -[door]-> gateway -[internet]-> cloud -[internet]-> phone",
    "{can: motion to phone, routes: true}": "`can: motion to phone by routes` does not hold: the nearest way,"
    " motion -[sensitive]-> gateway -[internet]-> cloud -[internet]-> phone, is closed:"
    " denied by `deny` from `sensitive` to `internet` at `gateway`",
    "{can: phone to lock, on: DL_unlock}": "`can: phone to lock on DL_unlock` does not hold: the nearest way,"
    " phone -[internet]-> cloud -[internet]-> gateway -[door]-> locks -[door]-> lock, is closed:"
    " `no-remote-unlock` suppresses `DL_unlock` at `cloud -> gateway`",
}


@pytest.mark.parametrize("assertion", FAILS)
def test_it_says_why_it_does_not_hold(assertion: str, file: Path) -> None:
    (failure,) = failures(file, assertion)
    assert str(failure) == FAILS[assertion]


def test_a_failure_says_which_assertion_it_is(file: Path) -> None:
    found = failures(file, "{can: bell to phone}, {never: bell to phone, on: AC_request}, {never: bell to lock}")
    assert [failure.index for failure in found] == [1, 2]


def test_entities_that_nothing_joins(file: Path) -> None:
    domain = """
domain: two
nodes: {one: {listen: 127.0.0.1:1883}, two: {listen: 127.0.0.1:1884}}
clients: {a: {node: one}, b: {node: two}}
"""
    (failure,) = failures(file, "{can: a to b}", domain)
    assert failure.reason == "no links lead from `a` to `b`"


def test_without_a_topic_monitors_count_too(file: Path) -> None:
    domain = SMART_HOME + "  nothing: {link: bell -> gateway, filter: []}\n"
    assert failures(file, "{never: bell to phone}", domain) == []


OPEN_NODES = """
domain: open
nodes: {one: {listen: 127.0.0.1:1883}, two: {listen: 127.0.0.1:1884}}
clients: {a: {node: one, type: t}, b: {node: two, type: t}}
brokering: {types: [t], default: t}
"""


def test_clients_that_are_not_listed_may_join_what_is_apart(file: Path) -> None:
    graph = flow_graph(made(file, OPEN_NODES))
    assert graph.kinds["?"] is EntityKind.DEVICE
    witness = reach(graph, "a", "b")
    assert witness is not None
    assert witness.entities == ("a", "one", "?", "two", "b")
    assert reach(graph, "a", "b", routes=True) is None


def test_clients_that_are_not_listed_can_be_asserted_about(file: Path) -> None:
    (failure,) = failures(file, "{never: a to ?}, {can: '? to b'}", OPEN_NODES)
    assert failure.reason.startswith("there is a way, a -[t]-> one -[t]-> ?")
    (failure,) = failures(file, "{never: phone to ?}, {can: '? to lock'}", SMART_HOME)
    assert failure.reason == "no links lead from `?` to `lock`"


def test_clients_that_are_not_listed_are_no_entity_where_they_are_refused(file: Path) -> None:
    assert "?" not in flow_graph(made(file, SMART_HOME)).kinds


FOREIGN = """
domain: foreign
nodes: {hub: {listen: 127.0.0.1:1883}, edge: {listen: 127.0.0.1:1884}}
foreign: {legacy: {address: 127.0.0.1:1999, out: [weather/#], in: [weather/#]}}
links: [{between: [hub, legacy]}, {between: [edge, legacy]}]
clients: {a: {node: hub}, b: {node: edge}}
"""


def test_a_foreign_broker_gets_what_is_sent_to_it_and_may_send_anything(file: Path) -> None:
    graph = flow_graph(made(file, FOREIGN))
    assert graph.kinds["legacy"] is EntityKind.FOREIGN
    assert reach(graph, "a", "legacy", "news") is None
    assert reach(graph, "a", "legacy", "weather/rain") is not None
    witness = reach(graph, "a", "b", "#", routes=True)
    assert witness is not None
    assert witness.topics == ("#", "weather/#", "#", "#")


def test_what_is_not_sent_to_a_foreign_broker_is_said(file: Path) -> None:
    (failure,) = failures(file, "{can: a to legacy, on: news}", FOREIGN)
    assert "`foreign.legacy.out` suppresses `news` at `hub -> legacy`" in str(failure)


def test_a_node_with_a_table_of_its_own(file: Path) -> None:
    domain = SMART_HOME.replace(
        "gateway: {listen: 127.0.0.1:1884}",
        "gateway: {listen: 127.0.0.1:1884, brokering: {deny: [{from: door, to: [internet, sensitive]}]}}",
    )
    (failure,) = failures(file, "{can: bell to phone}", domain)
    assert "denied by `deny` from `door` to `internet` at `gateway`" in str(failure)
    graph: FlowGraph = flow_graph(made(file, domain))
    assert reach(graph, "motion", "phone", routes=True) is not None, "its table is in place of the domain's"


def test_patterns_and_protocols_count_as_what_they_expand_to(file: Path) -> None:
    domain = """
domain: scopes
nodes: {A: {listen: 127.0.0.1:1}, B: {listen: 127.0.0.1:2}, C: {listen: 127.0.0.1:3}, D: {listen: 127.0.0.1:4},
  E: {listen: 127.0.0.1:5}}
clients: {d1: {}, d2: {}, d3: {}, d4: {}}
patterns:
  - {pattern: hierarchy, parents: {C: [A], D: [A, B], E: [B], d1: C, d2: C, d3: D, d4: E}}
"""
    assert failures(file, "{can: d1 to d2}, {can: d1 to d3}, {never: d1 to d4, routes: true}", domain) == []
