"""Stage by stage: each keeps something from a subject, in a view as in a node."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.stages import runner
from penstock.pipeline.spark.policies import Asker, as_it_stood, judged_by
from penstock.pipeline.stages.govern import SPARK_SIDES, view
from penstock.pipeline.tables import tables
from penstock.policy.access.acl import Acl
from tests.support.memory.recording import Got, Views, Written, delivered, record, viewed
from tests.support.memory.sparkplug import encode

pytestmark = pytest.mark.recorded

NDATA, NCMD = "spBv1.0/G/NDATA/{}", "spBv1.0/G/NCMD/E"


def metrics(*names: str) -> bytes:
    """A report of these, all with the value 1."""
    return encode({"metrics": [{"name": name, "int_value": 1} for name in names]})


THREE = metrics("a", "b", "c")
NAMES = [*runner.names()]

ACL = """\
topic read #
user p-admit
topic write a
pattern readwrite none/%c
"""
CLIENTS: dict[str, dict[str, Any]] = {
    "p-admit": {"node": "admit", "user": "p-admit"},
    "p-conform": {"node": "conform", "advertises": [{"name": "one", "filter": "#", "where": "x < 5"}]},
    "q-conform": {"node": "conform", "advertises": [{"name": "one", "filter": "#", "where": "x < 5"}]},
    "p-prune": {"node": "prune"},
    "p-edit": {"node": "edit"},
    "p-match": {"node": "match"},
    "p-route": {"node": "route", "type": {"publish": "closed", "notify": "open"}},
    "q-route": {"node": "route", "type": "open"},
    "p-judge": {"node": "judge"},
    "p-shape": {"node": "shape"},
    "p-release": {"node": "release"},
    "p-project": {"node": "project"},
    "p-emit": {"node": "emit"},
    **{f"s-{name}": {"node": name} for name in NAMES},
    "s-match": {"node": "match", "where": {"a": "x > 3"}},
}
MONITORS = {
    "once": {"link": "p-edit -> edit", "states": {"q0": {"a": {"pass": True, "next": "q1"}}, "q1": {"*": "suppress"}}},
    "masks": {"link": "shape -> s-shape", "states": {"q0": {"a": {"rename": "masked"}, "b": "suppress", "*": "pass"}}},
}
OF_Q = [("q-conform", "a", b'{"x": 2}'), ("q-conform", "a", b'{"x": 3.5}'), ("q-conform", "a", b'{"x": 6}')]
"""Of a client that advertises `x > 3` by itself."""
PUBLISHED = {
    "admit": [("p-admit", "a", b"yes"), ("p-admit", "b", b"no"), ("p-admit", "none/p-admit", b"by a pattern")],
    "prune": [("p-prune", NDATA.format("prune"), THREE), ("p-prune", NCMD, THREE)],
    "conform": [("p-conform", "a", b'{"x": 4}'), ("p-conform", "a", b'{"x": 5}'), ("p-conform", "b", b"none"), *OF_Q],
    "edit": [("p-edit", "a", b"1"), ("p-edit", "a", b"2")],
    "match": [("p-match", "a", b'{"x": 3}'), ("p-match", "a", b'{"x": 4}'), ("p-match", "b", b'{"x": 3}')],
    "route": [("p-route", "a", b"closed"), ("q-route", "a", b"open")],
    "judge": [("p-judge", "a", b'{"x":1,"secret":2}'), ("p-judge", "a", b'{"x":9}'), ("p-judge", "b", b'{"secret":3}')],
    "release": [("p-release", "a", b'{"v":17,"w":1}'), ("p-release", "a", b"unreadable"), ("p-release", "b", b"plain")],
    "project": [("p-project", NDATA.format("project"), THREE), ("p-project", NCMD, THREE)],
    "shape": [("p-shape", "a", b"1"), ("p-shape", "b", b"2"), ("p-shape", "none/p-admit", b"3")],
    "emit": [("p-emit", "a", b"1"), ("p-emit", "b", b"2")],
}
SEEN: dict[str, list[Got]] = {
    "admit": [("a", b"yes", 1), ("none/p-admit", b"by a pattern", 1)],
    "prune": [(NDATA.format("prune"), metrics("a", "c"), 1)],
    "conform": [("a", b'{"x": 4}', 1), ("a", b'{"x": 3.5}', 1)],
    "edit": [("a", b"1", 1)],
    "match": [("a", b'{"x": 4}', 1), ("b", b'{"x": 3}', 1)],
    "route": [("a", b"open", 1)],
    "judge": [("a", b'{"x":1}', 1), ("b", b'{"secret":3}', 1)],
    "release": [("a", b'{"v":15.0}', 1), ("b", b"plain", 1)],
    "project": [(NDATA.format("project"), metrics("a", "b"), 1)],
    "shape": [("masked", b"1", 1), ("none/p-admit", b"3", 1)],
    "emit": [("a", b"1", 1), ("b", b"2", 1)],
}
TOPICS = ("a", "b", "masked", "none/p-admit", NCMD, NDATA.format("prune"), NDATA.format("project"))
ACCESS = [
    {"subject": "p-prune", "topics": "spBv1.0/G/NDATA/prune", "may": "write", "except": "b"},
    {"subject": ["s-prune", "p-project"], "topics": "spBv1.0/#", "may": ["read", "write"]},
    {"subject": "s-project", "topics": "spBv1.0/G/NDATA/#", "may": "read", "except": "c", "when": "a.value == 1"},
]

STATEMENTS = {
    "policies": {
        "secrets": "PolicyStatement { On(Forward, Publication) {"
        " If {x > 5} Then {BlockMessage()} Elseif {} Then {RemoveAttributes(secret)} } }"
    },
    "apply": [{"policy": "secrets", "to": "subscription", "of": "s-judge", "filter": "a"}],
}

CONTRACTS = {
    "producers": {
        "release": {
            "producer": "p-release",
            "filter": "a",
            "rules": {
                "some": {"purpose": "test", "degrade": [{"keep": ["v"]}, {"step": {"attribute": "v", "size": 10}}]}
            },
        },
        "others": {"producer": "p-release", "filter": "b"},
    },
    "consumers": {"all": {"consumer": "s-release", "purpose": "test", "wants": {}}},
}


def _domain(folder: Path, **more: Any) -> Domain:
    nodes = {name: {"listen": "127.0.0.1:0", "store": "memory"} for name in NAMES}
    (folder / "acl").write_text(ACL)
    nodes["admit"]["acl"] = str(folder / "acl")
    return Domain.model_validate(
        {
            "nodes": nodes,
            "clients": {name: {"type": "open", **client} for name, client in CLIENTS.items()},
            "brokering": {"types": ["open", "closed"], "deny": [{"from": "closed", "to": "open"}]},
            "monitors": MONITORS,
            "access": ACCESS,
            "statements": STATEMENTS,
            "contracts": CONTRACTS,
            **more,
        }
    )


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> tuple[Written, Views]:
    folder = tmp_path_factory.mktemp("stages")
    domain = _domain(folder)
    rehearsal = Rehearsal(domain, ensemble(domain), {"admit": Acl.read(folder / "acl")})
    record(rehearsal)
    for name in CLIENTS:
        rehearsal.connect(name)
    rehearsal.advertise("q-conform", "own", "#", "x > 3")
    for name in NAMES:
        for topic in TOPICS:
            rehearsal.subscribe(f"s-{name}", topic, no_local=False)
        for client, topic, payload in PUBLISHED[name]:
            rehearsal.publish(client, topic, payload, 1)
        rehearsal.run()
    journal = Written(folder / "journal")
    journal.add_all(rehearsal.nodes.values(), journal.keep(domain))
    return journal, delivered(rehearsal, [f"s-{name}" for name in NAMES])


@pytest.fixture(scope="module")
def views(spark: SparkSession, live: tuple[Written, Views]) -> Views:
    events = tables.events(spark, live[0].folder)
    return viewed(view(events, as_it_stood(live[0].folder), tuple(Asker(f"s-{name}") for name in NAMES)))


@pytest.mark.parametrize("name", NAMES)
def test_a_stage_does_in_a_view_what_it_does_in_a_node(name: str, views: Views, live: tuple[Written, Views]) -> None:
    assert views[f"s-{name}", name] == live[1][f"s-{name}", name] == SEEN[name]


def test_the_view_of_one_subject_is_the_same_without_others(
    spark: SparkSession, live: tuple[Written, Views], views: Views
) -> None:
    found = viewed(view(tables.events(spark, live[0].folder), as_it_stood(live[0].folder), (Asker("s-match"),)))
    assert found == {("s-match", "match"): views["s-match", "match"]}


def test_a_domain_that_stands_is_asked_at_each_stage(
    spark: SparkSession, live: tuple[Written, Views], tmp_path: Path
) -> None:
    """Without its rules, everything comes; also what was stopped then, if it was not by a client's own word."""
    clients = {name: {"node": client["node"], "user": client.get("user")} for name, client in CLIENTS.items()}
    open_domain = _domain(
        tmp_path, clients=clients, monitors={}, brokering=None, access=None, statements={}, contracts=None
    )
    (tmp_path / "acl").write_text("pattern readwrite #\n")
    events = tables.events(spark, live[0].folder)
    askers = tuple(Asker(f"s-{name}") for name in NAMES)
    found = viewed(view(events, judged_by(open_domain, tmp_path, live[0].folder), askers))
    for name in NAMES:
        expected = [(topic, payload, 1) for _, topic, payload in PUBLISHED[name] if payload != b'{"x": 2}']
        if name == "prune":  # what was taken out was not recorded
            expected[0] = SEEN["prune"][0]
        assert found[f"s-{name}", name] == expected, name


def test_other_advertisements_of_the_domain_do_not_undo_a_client_s_own(
    spark: SparkSession, live: tuple[Written, Views], tmp_path: Path
) -> None:
    wider = [{"name": "wide", "filter": "a", "where": "x < 6"}]
    clients = {name: {"type": "open", **client} for name, client in CLIENTS.items()}
    clients |= {name: {**clients[name], "advertises": wider} for name in ("p-conform", "q-conform")}
    events = tables.events(spark, live[0].folder)
    domain = judged_by(_domain(tmp_path, clients=clients), tmp_path, live[0].folder)
    assert viewed(view(events, domain, (Asker("s-conform"),)))["s-conform", "conform"] == [
        ("a", b'{"x": 4}', 1),
        ("a", b'{"x": 5}', 1),
        ("a", b'{"x": 3.5}', 1),
    ]


def test_every_stage_of_the_engine_has_its_side() -> None:
    assert list(SPARK_SIDES) == NAMES
    for name, side in SPARK_SIDES.items():
        assert isinstance(side, ModuleType)
        assert side.__name__ == f"penstock.pipeline.stages.{name}"
