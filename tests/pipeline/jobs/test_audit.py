"""An audit against a plain count over the same journal, and against rules that are known to be of no use."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from penstock.broker.http.answers.subjects import last_audit
from penstock.cli.pipeline.audit import details
from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.journal.jobs import JobRecord
from penstock.journal.read.events import KINDS
from penstock.pipeline.jobs.audit import AuditReport, audit
from penstock.policy.access.acl import Acl
from tests.support.generators.governed import READERS, played
from tests.support.memory.journals import events
from tests.support.memory.recording import Written, record
from tests.support.scenes.smart_home import recorded_home

ACL = """\
user sue
topic write s/#
topic read cmd
user vic
topic readwrite s/#
topic deny s/secret
user bob
topic read #
pattern write log/%c
"""
DOMAIN = {
    "domain": "audited",
    "clients": {
        "sensor": {
            "node": "main",
            "type": "inside",
            "user": "sue",
            "advertises": [
                {"name": "all", "filter": "s/+"},
                {"name": "spare", "filter": "other"},
                {"name": "hot", "filter": "m/#", "where": "t > 1"},
            ],
        },
        "viewer": {
            "node": "main",
            "type": "outside",
            "user": "vic",
            "where": {"s/t": "true", "x/never": "t > 1"},
        },
        "boss": {"node": "main", "type": "inside", "user": "bob"},
    },
    "brokering": {
        "types": ["inside", "outside", "spare"],
        "deny": [{"from": "outside", "to": "inside"}, {"from": "spare", "to": "inside"}],
    },
    "monitors": {
        "careful": {
            "link": "sensor -> main",
            "states": {
                "q0": {"s/t": {"pass": True, "next": "q1"}, "s/never": "suppress", "*": "pass"},
                "q1": {"s/never": "suppress", "*": "pass"},
            },
        }
    },
    "statements": {
        "policies": {"told": "PolicyStatement { On(Forward, Publication) { If {} Then {Log()} } }"},
        "apply": [
            {"policy": "told", "to": "publication", "of": "sensor", "filter": "s/t"},
            {"policy": "told", "to": "publication", "of": "boss", "filter": "s/t"},
            {"policy": "told", "to": "subscription", "of": ["viewer", "boss"], "filter": "z/#", "where": "t > 1"},
            {"policy": "told", "to": "advertisement", "at": "main", "filter": "s/v"},
        ],
    },
}
SAID = (
    *(("sensor", "s/t"),) * 3,
    ("sensor", "s/secret"),
    ("sensor", "other"),
    ("viewer", "x"),
    ("viewer", "s/v"),
)


def _recorded(folder: Path) -> Path:
    """A node with rights, and clients that use some of them."""
    (folder / "acl").write_text(ACL)
    node = {"listen": "127.0.0.1:1883", "store": "memory", "acl": str(folder / "acl")}
    plain = {**DOMAIN, "nodes": {"main": node}}
    domain = Domain.model_validate(plain)
    play = Rehearsal(domain, ensemble(domain), {"main": Acl.read(folder / "acl")})
    record(play)
    for client in ("sensor", "viewer"):
        play.connect(client)
    play.subscribe("viewer", "s/#")
    for client, topic in SAID:
        play.publish(client, topic, b"", 1)
        play.run()
    journal = Written(folder / "journal")
    journal.add_all(play.nodes.values(), journal.keep(domain))
    return journal.folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _recorded(tmp_path_factory.mktemp("audited"))


@pytest.fixture(scope="module")
def audited(interpreted: SparkSession, folder: Path) -> AuditReport:
    return audit(interpreted, folder, folder / "tables")


def _sent(journal: Path) -> Iterator[tuple[str, str, str]]:
    """Who was sent what by whom, of what the journal says."""
    for row in events(journal):
        for one in row["reached"]:  # type: ignore[attr-defined]
            if one["neighbour"] is None:
                yield one["entity"], str(row["topic"]), _publisher(row)


def _denied(journal: Path) -> Iterator[tuple[object, ...]]:
    for row in events(journal):
        if row["effect"] == "suppress":
            yield row["node"], row["stage"], row["rule"], _publisher(row), row["topic"]


def _withheld(journal: Path) -> Iterator[tuple[str, str, str, str, str]]:
    for row in events(journal):
        for kept in row["withheld"] or ():  # type: ignore[attr-defined]
            for name in kept["receivers"]:
                yield name, str(row["topic"]), _publisher(row), kept["stage"], kept["rule"]


def _publisher(row: Mapping[str, object]) -> str:
    """Clients of the smart home have their names as ids."""
    return str(row["entity"] if row["neighbour"] is None else row["publisher"] or row["neighbour"])


def _check_counts(found: AuditReport, journal: Path) -> None:
    seen, denied, withheld = Counter(_sent(journal)), Counter(_denied(journal)), Counter(_withheld(journal))
    nodes = {row["node"] for row in events(journal)}
    kept = {key: count for key, count in withheld.items() if key[0] not in nodes}
    assert {(one[0], one[1], one[2], one.stage, one.rule): one.events for one in found.withheld} == kept
    assert {one[:3]: one.events for one in found.seen} == seen
    assert {one[:5]: one.events for one in found.denials} == denied
    assert seen
    assert denied


def test_who_saw_what_and_what_was_denied(audited: AuditReport, folder: Path) -> None:
    _check_counts(audited, folder)


def test_who_saw_what_is_who_got_it_whatever_policies_made_of_it(interpreted: SparkSession, tmp_path: Path) -> None:
    got, journal = Counter[tuple[str, str]](), Written(tmp_path)
    for seed in (0, 1, 2, 4, 7):
        domain, play = played(Random(seed))
        journal.add_all(play.nodes.values(), journal.keep(domain))
        got.update((name, message.topic) for name in READERS for message in play.deliveries(name))
    assert {row["kind"] for row in events(tmp_path)} == set(KINDS)
    seen = Counter[tuple[str, str]]()
    for row in audit(interpreted, tmp_path).seen:
        seen[row.subject, row.topic] += row.events if row.subject in READERS else 0
    assert +seen == got


def test_the_same_in_the_smart_home(interpreted: SparkSession, tmp_path: Path) -> None:
    list(recorded_home(tmp_path))
    found = audit(interpreted, tmp_path)
    _check_counts(found, tmp_path)
    assert ("lock", "DL_unlock", "bell") in {one[:3] for one in found.seen}, "not the node that it came by"
    unused = {one.rule for one in found.unused}
    assert "deny from sensitive to internet" not in unused, "it kept motion from the cloud"
    assert "no-remote-unlock: in q0, DL_unlock" not in unused
    assert "unlock-after-grant: in asked, AC_deny" in unused
    assert "unlock-after-grant: in granted, *" in unused


def test_rules_that_decided_nothing(audited: AuditReport) -> None:
    assert [tuple(one) for one in audited.unused] == [
        ("acl", "main", "main.acl:3 `topic read cmd`"),
        ("acl", "main", "main.acl:8 `topic read #`"),
        ("acl", "main", "main.acl:9 `pattern write log/%c`"),
        ("advertisement", "main", "sensor advertises other"),
        ("advertisement", "main", "sensor advertises m/# when t > 1"),
        ("where", "main", "viewer where x/never: t > 1"),
        ("statement", "", "told for publications of boss: s/t"),
        ("statement", "", "told for subscriptions of boss, viewer: z/# where t > 1"),
        ("brokering", "", "deny from spare to inside"),
        ("monitor", "", "careful: in q0, s/never"),
        ("monitor", "", "careful: in q0, *"),
        ("monitor", "", "careful: in q1, s/never"),
    ]


def test_how_many_of_each_kind(audited: AuditReport) -> None:
    assert {one.kind: (one.rules, one.unused) for one in audited.kinds} == {
        "acl": (6, 3),
        "advertisement": (3, 2),
        "where": (2, 1),
        "statement": (4, 2),
        "brokering": (2, 1),
        "monitor": (5, 3),
    }


def test_who_saw_how_much_when(audited: AuditReport) -> None:
    seen, when = Counter[str](), Counter[str]()
    for one in audited.seen:
        seen[one.subject] += one.events
    for part in audited.when:
        when[part.subject] += part.events
    assert when == seen


def test_rights_that_were_not_used(audited: AuditReport) -> None:
    assert {(one.subject, one.filter): one.suggestion for one in audited.rights} == {
        ("sensor", "s/#"): "enough: write s/secret, write s/t",
        ("sensor", "cmd"): "never used: remove",
        ("sensor", "log/sensor"): "never used: remove",
        ("viewer", "s/#"): "enough: read s/t, write s/v",
        ("viewer", "log/viewer"): "never used: remove",
        ("boss", "#"): "never used: remove",
        ("boss", "log/boss"): "never used: remove",
    }


def test_all_of_it_as_tables(audited: AuditReport, spark: SparkSession, folder: Path) -> None:
    for name in ("seen", "denials", "withheld", "unused", "rights"):
        assert spark.read.parquet(str(folder / "tables" / name)).count() == len(getattr(audited, name))


def test_the_console_is_told_what_was_withheld_from_a_subject(audited: AuditReport, tmp_path: Path) -> None:
    record = JobRecord(tmp_path, "audit", {})
    record.add_details(details(audited))
    record.end(0)
    name = audited.withheld[0].subject
    shown = last_audit(tmp_path, name, with_content=True)
    assert shown is not None
    assert [(kept.topic, kept.stage, kept.rule, kept.events, kept.reason) for kept in shown.withheld] == [
        (kept.topic, kept.stage, kept.rule, kept.events, kept.reason)
        for kept in audited.withheld
        if kept.subject == name
    ]
