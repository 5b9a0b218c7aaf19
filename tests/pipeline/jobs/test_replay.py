"""A draft of the smart home over what was recorded there: what it would change, and what it breaks."""

import json
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.cli.pipeline.replay import main, parser, run
from penstock.cli.pipeline.shared import plain
from penstock.domain import ensemble, load
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.pipeline.jobs.replay import replay_few
from tests.support.scenes.smart_home import BARRIER, FILE, SAID, recorded_home

DRAFT = "deny: [{from: door, to: internet}]"
"""Lets motion out of the house, and nothing of what the bell and the camera say."""

Got = Counter[tuple[str, str, bytes]]
"""Who gets what: subject, topic, payload."""


def _everything(file: Path) -> Got:
    """What devices get that subscribe to everything, played without Spark."""
    domain = load(file)
    play = Rehearsal(domain, ensemble(domain))
    for device in domain.clients:
        play.connect(device)
        play.subscribe(device, "#", no_local=False)
    for device, topic, payload in SAID:
        play.publish(device, topic, payload, 1)
        play.run()
        play.wait(1.0)
    return Counter((device, one.topic, one.payload) for device in domain.clients for one in play.deliveries(device))


@dataclass(frozen=True)
class Replayed:
    draft: Path
    journal: Path
    code: int
    told: dict[str, Any]
    page: str
    tables: Path
    received: Counter[tuple[str, str]]


@pytest.fixture(scope="module", params=["few", pytest.param("Spark", marks=pytest.mark.recorded)])
def replayed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """Without Spark, and on it."""
    folder = tmp_path_factory.mktemp("home")
    received = Counter((device, topic) for device, _, topic in recorded_home(folder / "journal"))
    draft = folder / "draft.yaml"
    text = FILE.read_text(encoding="utf-8")
    assert text.count(BARRIER) == 1
    draft.write_text(text.replace(BARRIER, DRAFT), "utf-8")
    page, tables = folder / "report.html", folder / "tables"
    options = ["--from", str(folder / "journal"), "--domain", str(draft), "--html", str(page), "--json"]
    with redirect_stdout(StringIO()) as printed:
        if request.param == "few":
            code = main([*options, "--last", "1000"])
        else:
            spark = request.getfixturevalue("interpreted")
            code = run(spark, parser().parse_args([*options, "--to", str(tables)]))
    told, journal = json.loads(printed.getvalue()), folder / "journal"
    return Replayed(draft, journal, code, told, page.read_text("utf-8"), tables, received)


on_spark = pytest.mark.parametrize("replayed", ["Spark"], indirect=True)


def test_what_is_gained_and_lost_is_what_the_two_domains_make_of_it(replayed: Replayed) -> None:
    then, now = _everything(FILE), _everything(replayed.draft)
    gained, lost = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for (subject, topic, _), count in (now - then).items():
        gained[subject, topic] += count
    for (subject, topic, _), count in (then - now).items():
        lost[subject, topic] += count
    found: dict[str, Counter[tuple[str, str]]] = {"gained": Counter(), "lost": Counter()}
    for change in replayed.told["changes"]:
        for key, counts in found.items():
            counts[change["subject"], change["topic"]] += change[key]
    assert gained
    assert lost
    assert +found["gained"] == gained
    assert +found["lost"] == lost


@pytest.mark.recorded
@on_spark
def test_the_same_is_told_of_few_events_without_spark(replayed: Replayed) -> None:
    few = json.loads(json.dumps(plain(replay_few(replayed.journal, replayed.draft))))
    told = {key: replayed.told[key] for key in few}
    told["claims"] = [{name: value for name, value in one.items() if name != "holds"} for one in told["claims"]]
    assert few == told


def test_what_live_nodes_sent_is_beside_it(replayed: Replayed) -> None:
    told = {(one["subject"], one["topic"]): one["received"] for one in replayed.told["changes"]}
    assert told == {key: replayed.received[key] for key in told}
    assert any(told.values())


@pytest.mark.parametrize(
    ("topic", "rule"),
    [("MD_no_motion", "gateway: route brokering"), ("AC_request", "gateway: route brokering")],
    ids=["gained: that of then", "lost: that of the draft"],
)
def test_the_rule_is_named(replayed: Replayed, topic: str, rule: str) -> None:
    (change,) = [one for one in replayed.told["changes"] if (one["subject"], one["topic"]) == ("phone", topic)]
    assert change["rule"] == rule
    assert change["reason"].startswith("denied by `deny` from")


def test_an_assertion_that_fails_on_real_traffic_is_exit_code_1_and_names_events(replayed: Replayed) -> None:
    assert replayed.code == 1
    failing = {one["text"]: one for one in replayed.told["claims"] if not one["holds"]}
    assert set(failing) == {"never: motion to phone by routes", "never: motion to cloud by routes"}
    breach = failing["never: motion to phone by routes"]
    assert breach["events"] == 2, "the cat is suppressed by a monitor"
    assert [one["said"] for one in breach["first"]] == ["MD_no_motion", "MD_motion"]
    assert {(one["publisher"], one["node"], one["subject"]) for one in breach["first"]} == {
        ("motion", "gateway", "phone")
    }


@pytest.mark.recorded
@on_spark
def test_each_change_is_a_row_of_the_table(replayed: Replayed, spark: SparkSession) -> None:
    rows = spark.read.parquet(str(replayed.tables / "changes")).collect()
    for key in ("gained", "lost"):
        assert sum(row[key] for row in rows) == sum(one[key] for one in replayed.told["totals"]) > 0


def test_the_report_stands_by_itself(replayed: Replayed) -> None:
    assert replayed.page.count("<svg") == 3
    assert "never: motion to phone by routes" in replayed.page
    for word in ("src=", "href=", "url(", "@import"):
        assert word not in replayed.page, "it needs nothing else"
