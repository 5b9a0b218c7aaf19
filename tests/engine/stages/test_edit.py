"""The stage edit: what does the monitor of the incoming link make of an event?

Here: conditions of monitors, and what is told of them.
"""

import pytest

from penstock.engine.explain.arrival import arrival
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.event import Event
from tests.support.cases.playing import case_tests
from tests.support.memory.rehearsed import play, stage

test_cases = case_tests("edit")

FURNACE = """
nodes: {plant: {listen: "127.0.0.1:1883"}, office: {listen: "127.0.0.1:1884"}}
links: [{between: [plant, office]}]
clients: {sensor: {node: plant}, boss: {node: office}, engineer: {node: plant}}
content: [{topics: "f/#", format: json}]
monitors:
  calm:
    link: plant -> office
    states:
      q0:
        "f/+":
          - {when: "celsius > 900.0", emit: ["alarm/{1}", "{topic}"], next: hot}
          - {when: "draft", suppress: true}
          - pass
        "*": pass
      hot: {"f/+": [{when: "celsius < 800.0", pass: true, next: q0}, suppress], "*": pass}
  seen-by-engineers: {link: plant -> engineer, states: {q0: {"f/+": {when: "has(celsius)", pass: true}}}}
"""


@pytest.fixture
def plant() -> Rehearsal:
    return stage(FURNACE)


def sent(here: Rehearsal, payload: bytes, topic: str = "f/1", qos: int = 1) -> dict[str, list[str]]:
    got = play(here, "sensor", topic, payload, qos=qos)
    got.pop("sensor", None)
    return got


def told(here: Rehearsal, payload: bytes, entity: str) -> list[str]:
    """What monitors say towards somebody."""
    event = Event("f/1", payload, 1)
    found = explain(here.nodes, arrival(here.nodes["plant"], "sensor", event), here.now, here.ensemble.devices)
    node = "office" if entity == "boss" else "plant"
    verdicts = [
        verdict
        for one in found
        for verdict in one.verdicts
        if one.node == node and (one.goes_by is None or one.goes_by.target == entity)
    ]
    return [str(one) for one in verdicts if one.rule in ("calm", "seen-by-engineers")]


def test_one_topic_with_one_content_after_the_other(plant: Rehearsal) -> None:
    assert sent(plant, b'{"celsius": 700.5, "draft": false}') == {"boss": ["f/1"], "engineer": ["f/1"]}
    assert sent(plant, b'{"celsius": 700.5, "draft": true}') == {"engineer": ["f/1"]}
    assert sent(plant, b'{"celsius": 950.0}') == {"boss": ["alarm/1", "f/1"], "engineer": ["f/1"]}
    assert sent(plant, b'{"celsius": 850.0, "draft": false}') == {"engineer": ["f/1"]}
    assert sent(plant, b'{"celsius": 750.0, "draft": false}') == {"boss": ["f/1"], "engineer": ["f/1"]}
    assert plant.states("calm") == {("plant", "office"): "q0"}


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_where_conditions_fail_nothing_gets_out(plant: Rehearsal, qos: int) -> None:
    assert sent(plant, b"{}", qos=qos) == {}
    assert sent(plant, b'{"celsius": ', qos=qos) == {}
    assert sent(plant, b"{}", "other", qos) == {"boss": ["other"]}


def test_who_published_is_told_what_the_conditions_came_to() -> None:
    here = stage(
        """
        nodes: {n: {listen: "127.0.0.1:1883"}}
        clients: {p: {node: n}}
        monitors: {m: {link: p -> n, states: {q0: {t: [{when: "x > 1", suppress: true}, pass], u: suppress}}}}
        """
    )
    for payload in (b'{"x": 2}', b"{}"):
        play(here, "p", "t", payload, qos=1)
    play(here, "p", "u", qos=1)
    assert [one.reason for one in here.notices] == [
        "monitor `m` suppresses `t` in state `q0`: `x > 1` holds",
        "monitor `m` suppresses `t` in state `q0`: `x > 1` fails: there is no `x`",
        "monitor `m` suppresses `u` in state `q0`",
    ]


def test_an_explanation_shows_conditions_and_what_they_came_to(plant: Rehearsal) -> None:
    assert told(plant, b'{"celsius": 1.5, "draft": false}', "boss") == [
        "edit: pass by calm: in state `q0`, `celsius > 900.0` is false, `draft` is false"
    ]
    assert told(plant, b'{"celsius": 950.0}', "boss")[:1] == [
        "edit: inject by calm: from state `q0` to `hot`, `celsius > 900.0` holds, `f/1` becomes `alarm/1`, `f/1`"
    ]
    assert told(plant, b'{"celsius": 1.5}', "boss") == [
        "edit: suppress by calm: in state `q0`, `celsius > 900.0` is false, `draft` fails: there is no `draft`"
    ]
    assert told(plant, b'{"celsius": 1.5}', "engineer") == [
        "shape: pass by seen-by-engineers: in state `q0`, `has(celsius)` holds"
    ]
    (damaged,) = told(plant, b'{"celsius"', "engineer")
    assert damaged.startswith("shape: suppress by seen-by-engineers: in state `q0`, `has(celsius)` fails: not JSON: ")
    assert plant.states("calm") == {("plant", "office"): "q0"}, "to explain changes nothing"
