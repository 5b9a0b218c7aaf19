"""Entities, observables and observations: in JSON and XML, in the domain, and held against what producers publish."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain import Domain, load
from penstock.language.condition import make_condition
from penstock.model.content.content import Content, Format
from penstock.model.errors import ContentError, DomainError
from penstock.model.quality import moment
from penstock.policy.quality.observation import (
    ContextEntity,
    ContextObservable,
    ContextObservation,
    read_observation,
    write_observation,
)
from tests.support.memory.rehearsed import stage

URI = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='"\\'), min_size=1, max_size=40)
TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x2FF, exclude_characters="\x7f"), min_size=1)
WORD = TEXT.map(str.strip).filter(bool)
NAMES = st.sampled_from(["pm25", "celsius", "a-b"])
VALUES = {
    Format.JSON: st.one_of(
        WORD, st.integers(-(2**53), 2**53), st.booleans(), st.dictionaries(NAMES, st.integers(0, 9))
    ),
    Format.XML: st.one_of(WORD, st.dictionaries(NAMES, WORD, min_size=1)),
}
LISTING_1 = "//observable[uri='#pollution' and entity[uri='paris://henri_martin_avenue./sensors/45/']]"


@pytest.mark.parametrize("format", [Format.JSON, Format.XML])
@given(data=st.data(), uri=URI, entity=URI, at=st.integers(0, 4_000_000_000))
def test_what_is_written_is_read_again(format: Format, data: st.DataObject, uri: str, entity: str, at: int) -> None:
    made = ContextObservation(uri, entity, moment(float(at)), data.draw(VALUES[format]))
    content = Content(write_observation(made, format), format)
    assert read_observation(content) == made
    observable = ContextObservable("it", uri, (ContextEntity("other", "x:"), ContextEntity("one", entity)))
    assert make_condition(observable.condition).holds(content) is True
    other = observable._replace(entities=observable.entities[:1])
    assert make_condition(other.condition).holds(content) is (entity == "x:")


def test_listing_1_finds_the_observation() -> None:
    entity = "paris://henri_martin_avenue./sensors/45/"
    made = ContextObservation("#pollution", entity, moment(0.0), {"pm25": 72.0})
    payload = write_observation(made, Format.XML)
    condition = make_condition(f'size(xpath("{LISTING_1}")) == 1')
    assert condition.holds(Content(payload, Format.XML)) is True
    assert condition.holds(Content(payload.replace(b"/45/", b"/46/"), Format.XML)) is False


@pytest.mark.parametrize(
    "payload",
    [
        b"{}",
        b'{"observation": {"observable": {"uri": "a"}, "date": "2026-01-01T00:00:00Z", "value": 1}}',
        b'{"observation": {"observable": {"uri": "", "entity": {"uri": "b"}}, "date": "2026-01-01T00:00:00Z"}}',
        b'{"observation": {"observable": {"uri": "a", "entity": {"uri": "b"}}, "date": "now", "value": 1}}',
        b'{"observation": {"observable": {"uri": "a", "entity": {"uri": "b"}}, "date": "2026-01-01T00:00:00Z"}}',
        b"<observation><observable/></observation>",
        b"\x00",
    ],
)
def test_what_is_no_observation(payload: bytes) -> None:
    with pytest.raises(ContentError):
        read_observation(Content(payload))


DOMAIN = """
nodes: {n: {listen: ["127.0.0.1:0"]}}
context:
  entities: {street: {uri: "paris://45/"}, park: {uri: "paris://park/"}}
  observables: {pollution: {uri: "#pollution", entities: [street, park]}}
clients:
  sensor: {node: n, advertises: [{name: air, filter: air/+, observable: pollution}]}
  reader: {node: n}
"""


@pytest.mark.parametrize("format", [Format.JSON, Format.XML])
def test_a_producer_keeps_to_the_observable_that_it_advertises(format: Format) -> None:
    rehearsal = stage(DOMAIN)
    for number, (uri, entity) in enumerate(
        [("#pollution", "paris://45/"), ("#noise", "paris://45/"), ("#pollution", "x"), ("#pollution", "paris://park/")]
    ):
        made = ContextObservation(uri, entity, moment(0.0), str(number))
        rehearsal.publish("sensor", "air/1", write_observation(made, format))
        rehearsal.run()
    got = [read_observation(Content(one.payload, format)).value for one in rehearsal.deliveries("reader")]
    assert got == ["0", "3"]


def test_a_capsule_makes_observations_of_observations() -> None:
    capsule: dict[str, Any] = {
        "client": "cap",
        "runs": "node",
        "input": {"topics": "air/+", "observable": "pollution"},
        "operations": [{"latest": {"values": {"pm25": "observation.value.pm25"}}}],
        "output": {"topic": "city/air", "observation": "city-air", "format": "xml"},
    }
    said = """
nodes: {n: {listen: ["127.0.0.1:0"]}}
context:
  entities: {street: {uri: "paris://45/"}, city: {uri: "paris:"}}
  observables: {pollution: {uri: "#pollution", entities: street}, city-air: {uri: "#air", entities: city}}
clients: {sensor: {node: n}, reader: {node: n}, cap: {node: n}}
capsules: {it: %s}
"""
    rehearsal = stage(said % json.dumps(capsule))
    for uri, pm25 in (("#pollution", 72.5), ("#noise", 1.0)):
        made = ContextObservation(uri, "paris://45/", moment(0.0), {"pm25": pm25})
        rehearsal.publish("sensor", "air/1", write_observation(made))
        rehearsal.run()
    (got,) = [one for one in rehearsal.deliveries("reader") if one.topic == "city/air"]
    found = read_observation(Content(got.payload, Format.XML))
    assert (found.observable, found.entity, found.value) == ("#air", "paris:", {"pm25": "72.5"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[street, park]", "[street, parc]"), "observables.pollution.entities[1]: found `parc`, expected an entity"),
        (("observable: pollution", "observable: noise"), "observable: found `noise`, expected an observable"),
        (('"#pollution"', '"with blank"'), "uri: found `with blank`, expected a URI"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    (tmp_path / "domain.yaml").write_text(DOMAIN.replace(*change))
    with pytest.raises(DomainError) as caught:
        load(tmp_path / "domain.yaml")
    assert message in str(caught.value)


def test_content_that_cannot_be_an_observation_is_told(tmp_path: Path) -> None:
    rules = "content: [{topics: air/+, format: json, schema: {pm25: double}}]\n"
    (tmp_path / "domain.yaml").write_text(DOMAIN + rules)
    with pytest.raises(DomainError, match="these events are no observations"):
        load(tmp_path / "domain.yaml")


def test_the_model_is_written_as_it_is_read() -> None:
    import yaml

    domain = Domain.model_validate(yaml.safe_load(DOMAIN))
    assert Domain.model_validate(domain.model_dump(mode="json", exclude_unset=True, by_alias=True)) == domain
