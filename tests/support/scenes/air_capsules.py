"""A city with air sensors and capsules: journals of readings, and what capsules must make of them, by a slow reading.

The reading here takes all events at once and in order, and quality by `propagate` over lists: it shares nothing with
Spark's sums but what takes an event and what concludes a result.
"""

import json
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import yaml

from penstock.domain import load
from penstock.domain.compile.capsules import compiled
from penstock.engine.journal_rows import Note, Rows, Source
from penstock.model.content.content import Content
from penstock.model.quality import NO_QUALITY, MetricValue, Quality, moment
from penstock.model.verdict import Effect, Verdict
from penstock.policy.capsules.capsule import MICROSECONDS, AggregateFunction, AggregateReduction, Capsule
from penstock.policy.capsules.steps import CapsuleResult, ReducedGroup, TakenEvent, conclude, fused, take
from penstock.policy.quality.carriage import CLAIMED, write_properties
from penstock.policy.quality.criteria import LIBRARY
from penstock.policy.quality.propagation import propagate
from penstock.wire.codec import encode
from penstock.wire.packet import Publish
from penstock.wire.properties import Properties
from tests.support.memory.recording import Written

NOON = 1_767_268_800
NOTE = Note(1, Verdict("admit", Effect.PASS), False, (), ())
SOURCE = Source("sensor", None, "sensor", "field", None, 5, 5)

AIR: dict[str, Any] = {
    "client": "air",
    "input": {"topics": ["city/+/air"], "where": "pm10 >= 0.0"},
    "window": {"length": "60s", "time": "at", "lateness": "20s", "late": "quarantine", "expected": 8},
    "operations": [
        {"keep": "precision >= 20"},
        {"set": {"trustworthiness": 80}},
        {
            "aggregate": {
                "by": {"zone": 2, "kind": "kind"},
                "values": {"pm10": "mean(pm10)", "peak": "max(pm10)", "least": "min(pm10)", "n": "count()"},
            }
        },
        {
            "infer": [
                {"when": "pm10 > 60.0 && quality.precision > 20.0", "set": {"situation": "danger"}},
                {"set": {"situation": "fine"}},
            ]
        },
        {"remove": "up-to-dateness"},
    ],
    "output": {"topic": "zones/{zone}/air"},
}
FUSED: dict[str, Any] = {
    "client": "fused",
    "input": {"topics": "city/#"},
    "window": {"length": "60s", "slide": "20s", "time": "at", "lateness": "20s"},
    "operations": [
        {"fuse": {"by": {"zone": 2}, "values": {"pm10": "pm10"}, "weight": "precision", "source": "sensor"}}
    ],
    "output": {"topic": "zones/{zone}/fused", "payload": {"value": "pm10", "of": "inputs"}, "quality": "content"},
}


@dataclass(frozen=True)
class Reading:
    """An event: when it came, and what it says."""

    came: float
    topic: str
    said: dict[str, Any]
    quality: Quality = NO_QUALITY

    @property
    def packet(self) -> bytes:
        carried = Properties(user_properties=write_properties(self.quality, CLAIMED))
        return encode(Publish(self.topic, json.dumps(self.said).encode(), properties=carried), 5)


def quality(at: float, **values: float) -> Quality:
    """Values of the library's metrics."""
    return Quality(
        MetricValue(LIBRARY.key(name.replace("_", "-")), value, moment(at)) for name, value in values.items()
    )


def readings(seed: int, count: int, step: float = 2.0) -> list[Reading]:
    """Readings of a day: some late, some without quality, some that are no readings."""
    chance, found = random.Random(seed), list[Reading]()
    for number in range(count):
        came = NOON + number * step + chance.uniform(0, step)
        at = came - chance.choice((0.5, 3.0, 15.0, 15.0, 100.0 if chance.random() < 0.3 else 1.0))
        said: dict[str, Any] = {
            "pm10": chance.choice((chance.uniform(0, 120), chance.randrange(100))),
            "kind": chance.choice(("street", "park")),
            "sensor": chance.randrange(3),
            "at": at,
        }
        if chance.random() < 0.03:
            said["pm10"] = chance.choice((None, "much", -1.0))
        has = {"precision": chance.uniform(10, 100), "freshness": chance.uniform(0, 5)}
        if chance.random() < 0.8:
            has |= {"accuracy": chance.uniform(50, 100), "completeness": 100.0, "up_to_dateness": 50.0}
        found.append(Reading(came, f"city/{chance.choice('abc')}/air", said, quality(at, **has)))
    return found


@dataclass
class City:
    """A domain with capsules, and the journal of its node."""

    folder: Path
    capsules: dict[str, dict[str, Any]] = field(default_factory=lambda: {"air": AIR, "fused": FUSED})
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.domain = self.folder / "city.yaml"
        self.domain.write_text(yaml.safe_dump(self.said()))
        self._journal = Written(self.folder / "journal")
        self.revision = self._journal.keep(load(self.domain))

    def said(self) -> dict[str, Any]:
        clients = ("sensor", "reader", *(one["client"] for one in self.capsules.values()))
        return {
            "domain": "city",
            "nodes": {"main": {"listen": "127.0.0.1:0", "store": "memory"}},
            "clients": {name: {"node": "main"} for name in clients},
            "capsules": self.capsules,
            **self.more,
        }

    @property
    def journal(self) -> Path:
        return self._journal.folder

    def record(self, some: Iterable[Reading]) -> None:
        """One more segment."""
        rows = Rows.new()
        for one in some:
            rows.notes.append(NOTE)
            rows.run(SOURCE, one.came, one.packet)
        self.add(rows)

    def add(self, rows: Rows) -> None:
        """One more segment, of these rows."""
        self._journal.add("main", rows, self.revision)

    def record_all(self, some: Sequence[Reading], segments: int) -> None:
        size = -(-len(some) // segments)
        for first in range(0, len(some), size):
            self.record(some[first : first + size])

    def capsule(self, name: str) -> Capsule:
        return compiled(load(self.domain), name)


@dataclass
class Expected:
    """What a capsule must make of readings: results by window and group, and the events that are put aside."""

    results: dict[tuple[int, str], CapsuleResult] = field(default_factory=dict)
    aside: list[tuple[str, float]] = field(default_factory=list)
    """Why, and when it came."""


def expected(capsule: Capsule, some: Iterable[Reading]) -> Expected:
    """By a slow reading: all at once, in the order in which they came."""
    found, groups, last = Expected(), dict[tuple[int, tuple[str, ...]], list[TakenEvent]](), 0
    window = capsule.window
    assert window is not None
    for one in some:
        came = math.floor(one.came * MICROSECONDS + 0.5)
        last = max(last, came)
        try:
            content = Content(json.dumps(one.said).encode())
            taken = take(capsule, one.topic, content, one.quality, came)
        except Exception as error:
            found.aside.append((str(error), one.came))
            continue
        for start in window.starts(taken.at) if taken is not None else ():
            assert taken is not None
            if start + window.length + window.lateness > came:
                groups.setdefault((start, taken.group), []).append(taken)
            elif not found.aside or found.aside[-1] != ("late", one.came):
                found.aside.append(("late", one.came))
    for (start, group), inputs in groups.items():
        if start + window.length + window.lateness <= last:
            made = conclude(capsule, _reduced(capsule, start, group, inputs))
            if made is not None:
                names = [name for name, _ in capsule.reduction.by]
                key = json.dumps(dict(zip(names, group, strict=True)), separators=(",", ":"))
                found.results[start, key] = made
    return found


_FUNCTIONS: dict[AggregateFunction, Callable[[list[float]], float]] = {
    AggregateFunction.MEAN: lambda them: math.fsum(them) / len(them),
    AggregateFunction.SUM: math.fsum,
    AggregateFunction.MIN: min,
    AggregateFunction.MAX: max,
}


def _reduced(capsule: Capsule, start: int, group: tuple[str, ...], inputs: list[TakenEvent]) -> ReducedGroup:
    reduction = capsule.reduction
    assert capsule.window is not None
    if not isinstance(reduction, AggregateReduction):
        return fused(capsule, start, group, inputs)
    values = dict[str, float | int]()
    for one in reduction.values:
        column = [each.numbers[reduction.paths.index(one.of)] for each in inputs] if one.of else []
        numbers = [number for number in column if number is not None]
        values[one.name] = len(inputs) if one.function is AggregateFunction.COUNT else _FUNCTIONS[one.function](numbers)
    now, qualities = (start + capsule.window.length) / MICROSECONDS, [one.quality for one in inputs]
    several = [
        propagate(operation, qualities, capsule.catalogue, now, expected=capsule.window.expected)
        for operation in reduction.operations()
    ]
    worst = [
        min(each, key=lambda one: one.value)
        if capsule.catalogue.definition(each[0].key).is_better(2, 1)
        else max(each, key=lambda one: one.value)
        for each in zip(*several, strict=True)
    ]
    return ReducedGroup(start, group, len(inputs), values, Quality(worst))


def table(folder: Path, name: str = "results") -> list[dict[str, Any]]:
    """What a table has, as any program reads it."""
    if not (folder / name).is_dir():
        return []
    rows: list[dict[str, Any]] = ds.dataset(folder / name, partitioning="hive").to_table().to_pylist()
    return rows


def differences(rows: Iterable[dict[str, Any]], wanted: Expected) -> list[str]:
    """What is not as it must be, in words. Quality may differ in the last digits of a double."""
    found = dict[tuple[int, str], dict[str, Any]]()
    wrong = []
    for row in rows:
        key = (round(row["start"].timestamp() * MICROSECONDS), row["group"])
        if key in found:
            wrong.append(f"{key} is there twice")
        found[key] = row
    wrong += [f"{key} is missing" for key in wanted.results.keys() - found.keys()]
    wrong += [f"{key} should not be there" for key in found.keys() - wanted.results.keys()]
    for key, made in wanted.results.items():
        if key in found:
            wrong += [f"{key}: {what}" for what in _other(found[key], made)]
    return sorted(wrong)


def _other(row: dict[str, Any], made: CapsuleResult) -> Iterator[str]:
    if row["problem"] is not None or row["topic"] != made.topic:
        yield f"{row['topic']} {row['problem']}, not {made.topic}"
        return
    payload, wanted = ({**json.loads(one), "qoc": None} for one in (row["payload"], made.payload))
    if payload != wanted:
        yield f"{payload}, not {wanted}"
    quality = {f"{q['indicator']}": (q["value"], q["created"], q["modified"]) for q in json.loads(row["quality"])}
    named = {one.key.indicator: one for one in made.quality}
    if quality.keys() != named.keys():
        yield f"quality {sorted(quality)}, not {sorted(named)}"
        return
    for name, (value, _created, _modified) in quality.items():
        if not math.isclose(value, named[name].value, rel_tol=1e-9, abs_tol=1e-6):
            yield f"{name} {value}, not {named[name].value}"
