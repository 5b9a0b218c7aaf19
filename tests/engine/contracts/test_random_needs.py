"""Random needs of quality: a public event crosses a link if and only if somebody beyond it asks for its quality, and
everybody gets what it would get beside the producer.
"""

import json
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.explain.arrival import arrival, hypothetical
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.rehearsal.wires import Wire
from tests.support.generators.examples import some

CLIENTS = {"sensor": "b1", "near": "b1", "mid": "b2", "far": "b3", "away": "b3"}
CONSUMERS = ("near", "mid", "far", "away")
BEYOND = {("b1", "b2"): ("mid", "far", "away"), ("b2", "b3"): ("far", "away")}
TOPICS = ("air/1", "air/2")
Want = dict[str, Any]


@st.composite
def wants(draw: st.DrawFn) -> dict[str, Want]:
    """Wants of one contract; none: everything, whatever its quality."""
    made: dict[str, Want] = {}
    for number in range(draw(st.integers(0, 2))):
        want: Want = {"filter": draw(st.sampled_from((*TOPICS, "air/+", "elsewhere")))}
        if draw(st.booleans()):
            want["needs"] = [f"precision {draw(st.sampled_from(('>=', '<')))} {draw(st.sampled_from((30, 60)))}"]
        if draw(st.booleans()):
            want["where"] = f"x > {draw(st.sampled_from((1, 3)))}"
        made[f"w{number}"] = want
    return made


def is_asked(wants: dict[str, Want] | None, topic: str, x: int, precision: int | None) -> bool:
    """Read directly from the page whether a consumer with a subscription to the topic gets a public event."""
    about = [want for want in (wants or {}).values() if want["filter"] in (topic, "air/+")]
    return not about or any(_is_met(want, x, precision) for want in about)


def _is_met(want: Want, x: int, precision: int | None) -> bool:
    if "where" in want and not x > int(want["where"].split()[-1]):
        return False
    if "needs" not in want:
        return True
    _, relation, bound = want["needs"][0].split()
    return precision is not None and (precision >= int(bound) if relation == ">=" else precision < int(bound))


def made(contracts: dict[str, dict[str, Want]], is_measured: bool) -> Rehearsal:
    """Three nodes in a line, the producer at the first; its quality is measured there, or its own word."""
    collect = [{"indicator": "precision", "formula": "value", "value": "p"}]
    consumers = {name: {"consumer": name, "wants": wants} for name, wants in contracts.items()}
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("b1", "b2", "b3")},
            "links": [{"between": list(ends)} for ends in BEYOND],
            "clients": {name: {"node": node} for name, node in CLIENTS.items()},
            "quality": {"collectors": [{"topics": "air/#", "collect": collect}]} if is_measured else {},
            "contracts": {"consumers": consumers, "bring": "*"},
        }
    )
    play = Rehearsal(domain, ensemble(domain))
    for client in CLIENTS:
        play.connect(client)
    return play


STEPS = st.one_of(
    st.tuples(st.just("subscribe"), st.sampled_from(CONSUMERS), st.sampled_from((*TOPICS, "air/#"))),
    st.tuples(st.just("bring"), st.sampled_from(CONSUMERS), wants()),
    st.tuples(st.just("publish"), st.sampled_from(TOPICS), st.integers(0, 5), st.sampled_from((None, 10, 40, 80))),
)


@given(
    contracts=st.dictionaries(st.sampled_from(CONSUMERS), wants(), max_size=4),
    is_measured=st.booleans(),
    steps=st.lists(STEPS, min_size=1, max_size=10),
)
@settings(max_examples=some(100), deadline=None)
def test_a_public_event_crosses_a_link_if_and_only_if_somebody_beyond_asks_for_its_quality(
    contracts: dict[str, dict[str, Want]], is_measured: bool, steps: list[tuple[Any, ...]]
) -> None:
    written: dict[tuple[str, str], bytearray] = {}
    write = Wire.write

    def record(wire: Wire, data: bytes) -> None:
        written.setdefault((wire.source, wire.target), bytearray()).extend(data)
        write(wire, data)

    with patch.object(Wire, "write", record):
        play = made(contracts, is_measured)
        brought: dict[str, dict[str, Want]] = {}
        subscribed: set[tuple[str, str]] = set()
        for number, step in enumerate(steps):
            if step[0] == "subscribe":
                _, client, filter = step
                (play.unsubscribe if (client, filter) in subscribed else play.subscribe)(client, filter)
                subscribed ^= {(client, filter)}
            elif step[0] == "bring":
                _, client, wants = step
                play.bring(client, "mine", {"consumes": {"wants": wants}})
                brought[client] = wants
            else:
                _, topic, x, precision = step
                content: dict[str, Any] = {"x": x, "id": f"m{number}"}
                if precision is not None and is_measured:
                    content["p"] = precision
                elif precision is not None:
                    ids = dict.fromkeys(("indicator", "criterion", "definition"), "precision")
                    content["qoc"] = [{**ids, "value": precision}]
                before = {client: len(play.deliveries(client)) for client in CONSUMERS}
                lengths = {link: len(found) for link, found in written.items()}
                payload = json.dumps(content).encode()
                told = explain(play.nodes, arrival(play.nodes["b1"], "sensor", hypothetical(topic, payload)), play.now)
                explained = {one.goes_by.target for one in told if one.goes_by is not None and one.outputs}
                play.publish("sensor", topic, payload)
                play.run()
                getting = set()
                for client in CONSUMERS:
                    together = _together(contracts.get(client), brought.get(client))
                    is_there = not subscribed.isdisjoint({(client, topic), (client, "air/#")})
                    if is_there and is_asked(together, topic, x, precision):
                        getting.add(client)
                    assert len(play.deliveries(client)) - before[client] == (client in getting), client
                assert explained.intersection(CONSUMERS) == getting
                for link, there in BEYOND.items():
                    assert (link[1] in explained) is bool(getting.intersection(there)), (link, getting)
                    crossed = written.get(link, bytearray())[lengths.get(link, 0) :]
                    assert (f"m{number}".encode() in crossed) is bool(getting.intersection(there)), (link, getting)
            play.run()


def _together(given: dict[str, Want] | None, brought: dict[str, Want] | None) -> dict[str, Want] | None:
    """All wants of a client; without any, a contract is for everything if the domain has it, else for nothing."""
    if given == {}:
        return {"anything": {"filter": "air/+"}, **{f"b{name}": want for name, want in (brought or {}).items()}}
    return {**(given or {}), **{f"b{name}": want for name, want in (brought or {}).items()}}
