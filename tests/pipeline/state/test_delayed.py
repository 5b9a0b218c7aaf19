"""Rules that give events later, and means over a time, on Spark: views and streams have what nodes sent, and no mean of
a part of its events.
"""

import json
import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.domain import Domain
from penstock.domain.yaml.write import domain_text
from penstock.engine.events import user_properties
from penstock.pipeline.jobs.govern import read_view
from penstock.pipeline.jobs.stream import Stream, StreamBatch, start
from penstock.pipeline.spark.policies import Asker, as_it_stood, judged_by
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables import tables
from tests.support.scenes.air_capsules import NOON
from tests.support.scenes.contracts import ContractsPlayed, Gets, Left, Said, played

pytestmark = pytest.mark.recorded

MEAN = {"aggregate": {"seconds": 10, "attributes": ["v"]}}
NEWS: Said = ("curious", "news", {})
SUBJECTS = ("own", "p1", "far", "late", "both", "good", "open", "asks")


def _consumer(name: str, purpose: str, *needs: str) -> dict[str, Any]:
    return {"consumer": name, "purpose": purpose, "wants": {"all": {"filter": "r/+", "needs": list(needs)}}}


def hall(**more: Any) -> Domain:
    """Of the pulse of many: means for some, later for others, means that come later; all at once in an alarm."""
    rules = {
        "mean": {"purpose": "science", "degrade": [MEAN]},
        "late": {"purpose": "art", "situation": {"not": "alarm"}, "degrade": [{"delay": "7s"}]},
        "late-mean": {"purpose": "law", "degrade": [{"step": {"attribute": "v", "size": 10.0}}, MEAN, {"delay": "4s"}]},
        "open": {"purpose": "help", "situation": "alarm"},
    }
    consumers = {
        "own": _consumer("own", "science"),
        "far": _consumer("far", "science"),
        "late": _consumer("late", "art"),
        "both": _consumer("both", "law"),
        "good": _consumer("good", "science", "precision >= 90"),
        "open": {**_consumer("open", "help"), "situation": "alarm"},
        "asks": _consumer("asks", "science"),
        "p1": _consumer("p1", "science"),  # its own events do not count
    }
    signal = {"filter": "alarm"}
    alarm = {
        "sources": ["guard"],
        "opens": {**signal, "where": "on == true"},
        "closes": {**signal, "where": "on == false"},
        "lasts": "1h",
    }
    places = {"p0": "b1", "p1": "b1", "p2": "b2", "guard": "b1", "curious": "b1", "own": "b1"}
    places |= dict.fromkeys(SUBJECTS[2:], "b2")
    precision = {"indicator": "precision", "formula": "value", "value": "q"}
    return Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("b1", "b2")},
            "links": [{"between": ["b1", "b2"]}],
            "clients": {name: {"node": node} for name, node in places.items()}
            | {"asks": {"node": "b2", "where": {"r/+": "v > 50.0 && !has(who)"}}},
            "quality": {"collectors": [{"topics": "r/+", "collect": [precision]}]},
            "contracts": {
                "producers": {"pulse": {"producer": ["p0", "p1", "p2"], "filter": "r/+", "rules": rules}},
                "consumers": consumers,
                "situations": {"alarm": alarm},
            },
            **more,
        }
    )


def story(seed: int, count: int) -> list[Said | float]:
    pick, said = random.Random(seed), list[Said | float]([NEWS, 12.0])
    for _ in range(count):
        content = {"v": pick.randint(0, 99), "q": pick.randint(50, 100), "who": "bob"}
        said.append((pick.choice(("p0", "p1", "p2")), f"r/{pick.choice('ab')}", content))
        if pick.random() < 0.2:
            said.append(pick.choice((0.7, 3.3, 11.0)))
        if pick.random() < 0.1:
            said.append(("guard", "alarm", {"on": pick.random() < 0.5}))
    return [*said, 30.0, NEWS, 1.0]


def _given(rows: DataFrame) -> Gets:
    """What a view gives; not the order, as what waits is sent between others."""
    found: Gets = {}
    for row in rows.collect():
        told = user_properties.carried(bytes(row.properties)).user_properties if row.properties else ()
        message = (row.topic, bytes(row.payload), row.qos, tuple(told))
        found.setdefault((row.subject, row.node), []).append(message)
    return found


def _is_left(rows: DataFrame, live: Left) -> bool:
    """Whether messages are good for as long as those that nodes sent were, but for the time between two ticks."""
    found: Left = {}
    for row in rows.collect():
        found.setdefault((row.subject, row.topic, bytes(row.payload)), []).append(row.expiry)
    assert len({one for several in found.values() for one in several}) > 4
    return all(
        abs(one - other) <= 1
        for key, several in found.items()
        for one, other in zip(_sorted(several), _sorted(live[key]), strict=True)
    )


def _sorted(expiries: list[int | None]) -> list[int]:
    return sorted(-100 if one is None else one for one in expiries)


def _wrong(found: Gets, live: Gets) -> list[str]:
    """What only one of them has, in words."""
    words = []
    for ends in sorted(found.keys() | live.keys()):
        here, there = Counter(found.get(ends, [])), Counter(live.get(ends, []))
        words += [f"{ends}: only Spark has {one}" for one in here - there]
        words += [f"{ends}: only nodes have sent {one}" for one in there - here]
    return words


def _expiry(number: int) -> int | None:
    """Some messages are good for less time than rules hold them back, some for as long as that, some for longer."""
    return (None, 3, 9, 600)[number % 4]


def _retain(number: int) -> bool:
    return number % 5 == 0


def _retained(rows: DataFrame) -> set[tuple[str, bool]]:
    """Who is given what is retained, and what is not."""
    return {(row.subject, row.retain) for row in rows.filter("topic like 'r/%'").collect()}


RETAINED = {*((name, False) for name in SUBJECTS), ("late", True), ("open", True)}
"""What comes later is retained as it was; no mean is."""


def _scene(folder: Path, seed: int, **more: Any) -> ContractsPlayed:
    when: dict[str, Any] = {"start": float(NOON), "every": 25, "ticks": 0.1, "expiry": _expiry, "retain": _retain}
    made = played(hall(**more), folder, story(seed, 60), SUBJECTS, **when)
    got = {
        name: [payload for topic, payload, *_ in several if topic.startswith("r/")]
        for (name, _), several in made.got.items()
    }
    means = [json.loads(payload) for payload in got["far"]]
    assert len(means) > 4
    assert all(one.keys() == {"v"} for one in means)
    assert got["far"] == got["own"]
    assert 0 < len(got["good"]) < len(means), "only where the mean is good enough"
    assert [json.loads(one) for one in got["asks"]] == [one for one in means if one["v"] > 50]
    assert 0 < len(got["asks"]) < len(means), "only where the mean is as it asks"
    assert 0 < len(got["late"]) < 60, "what was to come when there was an alarm never came"
    assert got["both"]
    assert got["open"]
    return made


def test_a_view_has_what_nodes_sent(spark: SparkSession, tmp_path: Path) -> None:
    made = _scene(tmp_path, 1)
    events = tables.events(spark, made.journal).cache()
    found = view(events, as_it_stood(made.journal), tuple(map(Asker, SUBJECTS))).cache()
    assert not _wrong(_given(found), made.got)
    assert _is_left(found, made.left)
    assert _retained(found) == RETAINED
    same = judged_by(hall(assertions=[{"can": "p0 to open"}]), tmp_path, made.journal)
    assert not _wrong(_given(view(events, same, tuple(map(Asker, SUBJECTS)))), made.got), "worked out again"
    whole = found.filter("subject = 'far' and topic like 'r/%'").orderBy("not_before", "topic").collect()
    assert {row.not_before.timestamp() % 10 for row in whole} == {0.0}
    cut = whole[5].not_before - timedelta(seconds=4)
    after = view(events.filter(F.col("time") >= F.lit(cut)), as_it_stood(made.journal), (Asker("far"),))
    some = after.filter("topic like 'r/%'").orderBy("not_before", "topic").collect()
    assert [(row.topic, row.payload) for row in some] == [
        (row.topic, row.payload) for row in whole if row.not_before - timedelta(seconds=10) > cut
    ], "no mean of a part of its events: from two of them one could be told"


def test_a_stream_has_what_nodes_sent(spark: SparkSession, tmp_path: Path) -> None:
    made = _scene(tmp_path, 2)
    (tmp_path / "domain.yaml").write_text(domain_text(hall()))
    places = made.journal, tmp_path / "domain.yaml", tmp_path / "views", tmp_path / "checkpoint"
    size = max(path.stat().st_size for path in made.journal.glob("node=*/*/*.arrow"))
    batches: list[StreamBatch] = []
    stream = Stream(*places, tuple(map(Asker, SUBJECTS)), max_bytes=size, partitions=1)
    start(spark, stream, once=True, on_batch=batches.append).awaitTermination()
    assert len(batches) > 2
    assert not _wrong(_given(read_view(spark, stream.folder)), made.got)
    assert _is_left(read_view(spark, stream.folder), made.left)
    assert _retained(read_view(spark, stream.folder)) == RETAINED
