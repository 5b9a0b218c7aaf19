"""Policy statements of a draft, and of then, over recorded traffic: what they give and take, and which rule does it."""

from typing import Any

import pytest

from penstock.domain import Domain, ensemble
from penstock.domain.yaml.write import domain_text
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.pipeline.jobs.replay import ReplayChange, ReplayReport
from tests.support.memory.recording import Written, record
from tests.support.spark.replays import Replaying

RULE = "PolicyStatement {{ On(Forward, Publication) {{ {} }} }}"
THEN = [(RULE.format("@broker: Egress If {} Then {BlockMessage()}"), {"to": "publication", "of": "q"})]
DRAFT = [
    (RULE.format("If {} Then {RemoveAttributes(secret)}"), {"to": "subscription", "of": "s", "filter": "t"}),
    (
        RULE.format("@broker: Egress If {!AuthenticateReceiver(G)} Then {BlockMessage()}"),
        {"to": "advertisement", "of": "p", "filter": "ad/#"},
    ),
    (RULE.format("If {BrokerLoadIndex() > 0.5} Then {BlockMessage()}"), {"to": "subscription", "of": "r"}),
]
CLIENTS = {"p": "n0", "q": "n0", "r": "n0", "s": "n1", "t": "n1"}
WHOLE = b'{"a":1,"secret":2}'


def _domain(statements: list[tuple[str, dict[str, Any]]]) -> Domain:
    return Domain.model_validate(
        {
            "domain": "then" if statements is THEN else "draft",
            "nodes": {name: {"listen": "127.0.0.1:0", "store": "memory"} for name in ("n0", "n1")},
            "links": [{"between": ["n0", "n1"]}],
            "clients": {name: {"node": node} for name, node in CLIENTS.items()},
            "trust_groups": {"G": {"secret": {"env": "NONE"}, "nodes": ["n0", "n1"], "clients": ["t", "r"]}},
            "statements": {
                "policies": {f"m{at}": text for at, (text, _) in enumerate(statements)},
                "apply": [{"policy": f"m{at}", **to} for at, (_, to) in enumerate(statements)],
            },
        }
    )


@pytest.fixture(scope="module")
def replayed(replaying: Replaying, tmp_path_factory: pytest.TempPathFactory) -> ReplayReport:
    folder = tmp_path_factory.mktemp("statements")
    then = _domain(THEN)
    rehearsal = Rehearsal(then, ensemble(then))
    record(rehearsal)
    for name in CLIENTS:
        rehearsal.connect(name)
    for client, topic in (("p", "t"), ("p", "ad/1"), ("q", "t")):
        rehearsal.publish(client, topic, WHOLE)
        rehearsal.run()
    journal = Written(folder / "journal")
    journal.add_all(rehearsal.nodes.values(), journal.keep(then))
    draft = folder / "draft.yaml"
    draft.write_text(domain_text(_domain(DRAFT)))
    return replaying(journal.folder, draft, subjects=("r", "s", "t"))


def _about(replayed: ReplayReport, subject: str, publisher: str, topic: str) -> ReplayChange | None:
    found = [one for one in replayed.changes if (one.subject, one.publisher, one.topic) == (subject, publisher, topic)]
    return found[0] if found else None


def test_what_a_policy_of_the_draft_takes_out_is_a_change_with_its_rule(replayed: ReplayReport) -> None:
    found = _about(replayed, "s", "p", "t")
    assert found is not None
    assert (found.changed, found.lost, found.gained) == (1, 0, 0)
    assert found.rule == "n1: judge m0#1.1"
    assert found.reason == "RemoveAttributes(secret)"


def test_a_policy_of_an_advertisement_counts_at_the_node_beyond(replayed: ReplayReport) -> None:
    found = _about(replayed, "s", "p", "ad/1")
    assert found is not None
    assert (found.changed, found.lost, found.gained) == (0, 1, 0)
    assert found.rule.startswith("n1: judge ")
    assert _about(replayed, "t", "p", "ad/1") is None, "it is in the group"


@pytest.mark.parametrize("subject", ["s", "t"])
def test_what_an_attached_policy_of_then_held_back_is_gained(replayed: ReplayReport, subject: str) -> None:
    found = _about(replayed, subject, "q", "t")
    assert found is not None
    assert (found.changed, found.lost, found.gained) == (0, 0, 1)
    assert found.rule.startswith("n1: judge ")


def test_where_it_is_not_known_how_busy_a_node_was_it_is_taken_to_be_at_rest(replayed: ReplayReport) -> None:
    assert [(one.topic, one.publisher, one.gained, one.lost) for one in replayed.changes if one.subject == "r"] == [
        ("t", "q", 1, 0)
    ]
