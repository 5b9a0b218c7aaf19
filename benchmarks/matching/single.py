"""Single conditions over content: simple ones, and the filter of contracts Listing 1."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from benchmarks.matching.measure import of_call
from penstock.engine.matching.predicates import Predicates
from penstock.language.condition import Condition, make_condition
from penstock.model.content.content import Content, Format

PAPERS_SECONDS = 3.40e-3
"""contracts §4: the time of one more subscription, at a broker that only applies subscription filters."""
SUBSCRIPTIONS = 100

JSON = b'{"device": "pump-7", "room": "hall", "temperature": 31.5, "pressure": 1.2, "open": true}'

SENSOR = "paris://henri_martin_avenue./sensors/{}/"
XML = f"""<?xml version="1.0" encoding="UTF-8"?>
<context>
  <observable>
    <uri>#pollution</uri>
    <entity><uri>{SENSOR.format(45)}</uri><name>sensor 45</name></entity>
  </observable>
  <observation>
    <date>2013-11-05T09:30:00Z</date>
    <value unit="ug/m3">48.5</value>
  </observation>
</context>
""".encode()
"""A notification of the paper's kind: an observable of an entity, and an observation of it."""


@dataclass(frozen=True, slots=True)
class Single:
    """The time of one evaluation."""

    title: str
    seconds: float


def listing(sensor: int) -> Condition:
    """The filter of contracts Listing 1: some observable is the pollution, measured by this sensor."""
    query = f"//observable[uri='#pollution' and entity[uri='{SENSOR.format(sensor)}']]"
    return make_condition(f'size(xpath("{query}")) > 0')


def by_attributes(sensor: int) -> Condition:
    """The same wish on attributes, which can be sorted into an index."""
    entity = f"context.observable.entity.uri == '{SENSOR.format(sensor)}'"
    return make_condition(f"context.observable.uri == '#pollution' && {entity}")


def measure_simple() -> list[Single]:
    """Simple conditions over JSON that is decoded already."""
    content = Content(JSON, Format.JSON)
    texts = ("temperature > 30.0", "room == 'hall'", "temperature > 30.0 && room == 'hall' && pressure < 2.0 && open")
    results = []
    for text in texts:
        condition = make_condition(text)
        assert condition.holds(content) is True
        results.append(Single(f"`{text}`", of_call(partial(condition.decide, content.attributes))))
    results.append(Single("for comparison: decoding this JSON", of_call(lambda: Content(JSON, Format.JSON).attributes)))
    return results


def measure_listing() -> list[Single]:
    """The filter of the contracts paper, alone and for many subscriptions."""
    condition, content = listing(45), Content(XML, Format.XML)
    assert condition.holds(content) is True
    results = [
        Single("XPath, XML parsed already", of_call(lambda: condition.holds(content), 4_000)),
        Single("XPath, XML parsed each time", of_call(lambda: condition.holds(Content(XML, Format.XML)), 4_000)),
    ]
    for title, make in (("XPath", listing), ("attributes", by_attributes)):
        index: Predicates[int] = Predicates()
        for sensor in range(SUBSCRIPTIONS):
            index.add(sensor, make(sensor), sensor)
        assert index.match(content) == [45]
        seconds = of_call(partial(_match_fresh, index), 1_000) / SUBSCRIPTIONS
        results.append(Single(f"{title}, for each of {SUBSCRIPTIONS} subscriptions, XML parsed once", seconds))
    return results


def _match_fresh(index: Predicates[int]) -> None:
    index.match(Content(XML, Format.XML))
