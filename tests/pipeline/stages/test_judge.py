"""The stage judge on recorded rows, without Spark: what it makes of them is what nodes delivered."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.domain import Domain, ensemble
from penstock.engine.events import user_properties
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.statements.facts import Facts
from penstock.journal.read.tables import read_all
from penstock.model.verdict import Effect
from penstock.pipeline.spark.policies import Asker, Policies, as_it_stood, judged_by
from penstock.pipeline.stages.govern import spark_sides
from penstock.pipeline.stages.judge import JudgeSteps, Then
from penstock.pipeline.stages.keys import KEYS, Planner
from penstock.pipeline.stages.stage import EventKey
from penstock.pipeline.state.rows import event_of, rows_of
from penstock.pipeline.state.scope import Scope
from penstock.policy.statements.elements.element import ElementError
from tests.support.generators.judging import StatementPlays, Views
from tests.support.memory.recording import Written, differences, record


def governed(folder: Path, policies: Policies, askers: tuple[Asker, ...], at_rest: bool = False) -> Views:
    """What subjects are given of a journal without monitors and access policies."""
    scope = replace(Scope.of(policies, askers), at_rest=at_rest)
    planner, steps = Planner(spark_sides(), scope), JudgeSteps(scope)
    views: Views = {}
    for batch in read_all(folder)[0].to_batches():
        for row in rows_of(batch):
            if row["kind"] not in ("arrival", "output") or (row["effect"] == "suppress" and row["stage"] != "judge"):
                continue
            draft = planner.plan(EventKey(*(row[name] for name in KEYS)))
            about = {"policy": draft.policy.digest, "link_type_now": draft.link_type}
            for _, receiver in draft.receivers if draft.verdict.effect is not Effect.SUPPRESS else ():
                made = steps.judged({**row, **about, **receiver._asdict(), "asks": receiver.where})
                if not (receiver.judged or row["facts"] or user_properties.RESERVED_BYTES in row["properties"]):
                    # Spark does not ask the stage about it.
                    assert made is None or made.event == event_of(row, draft.link_type)
                if made is not None:
                    told = user_properties.carried(made.event.properties).user_properties
                    got = (made.event.topic, made.event.payload, made.event.qos, told)
                    views.setdefault((receiver.subject, row["node"]), []).append(got)
    return views


def test_random_policies_do_with_recorded_events_what_they_did_on_nodes(tmp_path: Path) -> None:
    joined = StatementPlays(60, Random())
    journal, delivered = joined.played(tmp_path)
    found = governed(journal.folder, as_it_stood(journal.folder), tuple(map(Asker, joined.subjects)))
    wrong = differences(found, delivered)
    assert not wrong, f"{wrong[0]}\n{joined.told(wrong[0].split()[0])}"


RULE = "PolicyStatement {{ On(Forward, Publication) {{ If {} }} }}"
CUT = RULE.format("{} Then {RemoveAttributes(secret)}")
BUSY = RULE.format("{BrokerLoadIndex() > 0.5} Then {BlockMessage()}")
FRIENDS = RULE.format("{!AuthenticateReceiver(G)} Then {RemoveAttributes(secret)}")
BOTH, LEFT = b'{"a":1,"secret":2}', b'{"a":1}'


def _domain(apply: list[tuple[str, str, str]] = [], **more: Any) -> Domain:  # noqa: B006
    policies = {f"m{at}": text for at, (text, _, _) in enumerate(apply)}
    given = [{"policy": f"m{at}", "to": to, "of": who} for at, (_, to, who) in enumerate(apply)]
    groups = {"G": {"secret": {"env": "NONE"}, "nodes": ["n"], "clients": more.pop("vouched", [])}}
    grants = [{"to": "p", "set": ["advertisement", "publication"], "elements": "*"}]
    return Domain.model_validate(
        {
            "nodes": {"n": {"listen": "127.0.0.1:0", "store": "memory"}},
            "clients": {name: {"node": "n"} for name in "ps"},
            "trust_groups": groups,
            "statements": {"policies": policies, "apply": given, "grants": more.pop("grants", grants)},
        }
    )


def _recorded(folder: Path, domain: Domain, own: str = "", attached: str = "", proves: bool = False) -> None:
    rehearsal = Rehearsal(domain, ensemble(domain))
    record(rehearsal)
    for name in "ps":
        rehearsal.connect(name)
    rehearsal.subscribe("s", "t")
    if own:
        rehearsal.advertise("p", "own", "#", policy=own)
    if proves:
        rehearsal.prove("s", ["G"])
    rehearsal.publish("p", "t", BOTH, policy=attached)
    rehearsal.run()
    journal = Written(folder)
    journal.add_all(rehearsal.nodes.values(), journal.keep(domain))


CASES: list[tuple[str, dict[str, Any], dict[str, Any], bytes | None]] = [
    ("a draft that adds a policy for the subject", {}, {"apply": [(CUT, "subscription", "s")]}, LEFT),
    ("a draft that adds a policy for the publisher", {}, {"apply": [(CUT, "publication", "p")]}, LEFT),
    ("a draft without the policy of then", {"apply": [(CUT, "publication", "p")]}, {}, BOTH),
    ("a client's own policy stays", {"own": CUT}, {}, LEFT),
    ("a client's own policy that it may not set any more", {"own": CUT}, {"grants": []}, BOTH),
    ("an attached policy stays", {"attached": CUT}, {}, LEFT),
    ("an event with a policy that may not be attached any more", {"attached": CUT}, {"grants": []}, None),
    ("a load that nobody asked for then", {}, {"apply": [(BUSY, "subscription", "s")]}, None),
    (
        "a load that was asked for then",
        {"apply": [(BUSY, "publication", "p")]},
        {"apply": [(BUSY, "subscription", "s")]},
        BOTH,
    ),
    ("who was not asked about is no member", {"proves": True}, {"apply": [(FRIENDS, "subscription", "s")]}, LEFT),
    (
        "who was found to be a member is one",
        {"proves": True, "apply": [(FRIENDS, "publication", "p")]},
        {"apply": [(FRIENDS, "subscription", "s")]},
        BOTH,
    ),
    (
        "whom the domain vouches for is a member",
        {},
        {"apply": [(FRIENDS, "subscription", "s")], "vouched": ["s"]},
        BOTH,
    ),
]


@pytest.mark.parametrize(("title", "then", "draft", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_draft_over_what_was_recorded(
    title: str, then: dict[str, Any], draft: dict[str, Any], expected: bytes | None, tmp_path: Path
) -> None:
    said = {name: then[name] for name in ("own", "attached", "proves") if name in then}
    _recorded(tmp_path / "journal", _domain(**{name: then[name] for name in then if name not in said}), **said)
    policies = judged_by(_domain(**draft), tmp_path, tmp_path / "journal")
    views = governed(tmp_path / "journal", policies, (Asker("s"),))
    assert [one[1] for one in views.get(("s", "n"), [])] == ([] if expected is None else [expected])


def test_what_was_not_recorded_is_not_made_up() -> None:
    here = Then("n")
    here.facts = Facts()
    for ask in (lambda: here.load, lambda: here.host, here.elapsed):
        with pytest.raises(ElementError, match="the journal does not say"):
            ask()
