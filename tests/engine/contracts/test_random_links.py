"""Random contracts and subscriptions: an event crosses a link if and only if somebody beyond it may have it, and as it
is only if not all of them get it degraded alike.
"""

import json
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.rehearsal.wires import Wire
from tests.engine.contracts.test_random_contracts import PURPOSES, TOPIC, read_directly, rules
from tests.support.generators.examples import some

CLIENTS = {"bob": "b1", "near": "b1", "mid": "b2", "far": "b3", "away": "b3", "capsule": "b1"}
CONSUMERS = ("near", "mid", "far", "away")
BEYOND = {("b1", "b2"): ("mid", "far", "away"), ("b2", "b3"): ("far", "away")}


@st.composite
def consumers(draw: st.DrawFn) -> dict[str, Any]:
    return {
        name: {
            "consumer": name,
            "purpose": draw(st.lists(st.sampled_from(PURPOSES), max_size=2, unique=True)),
            "situation": draw(st.sampled_from(([], ["hazard"]))),
            **({"retention": 50} if draw(st.booleans()) else {}),
            "attributes": {"group": draw(st.sampled_from(("staff", "guests")))},
            "wants": {"it": {"filter": draw(st.sampled_from((TOPIC, "bob/+", "elsewhere"))), "scope": "global"}},
        }
        for name in CONSUMERS
        if draw(st.integers(0, 3))
    }


def made(rules: dict[str, Any], consumers: dict[str, Any], scope: str | None, mode: str) -> Rehearsal:
    """Three nodes in a line; Bob at the first."""
    producer = {"producer": "bob", "filter": "bob/#", "rules": rules, **({} if scope is None else {"scope": scope})}
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("b1", "b2", "b3")},
            "links": [{"between": [first, second], "forward": mode} for first, second in BEYOND],
            "clients": {name: {"node": node} for name, node in CLIENTS.items()},
            "contracts": {
                "producers": {"p": producer},
                "consumers": consumers,
                "situations": {"hazard": {"sources": ["capsule"], "opens": "open", "closes": "shut", "lasts": "1h"}},
            },
        }
    )
    play = Rehearsal(domain, ensemble(domain))
    for client in CLIENTS:
        play.connect(client)
    return play


@given(
    rules=rules().filter(bool),
    consumers=consumers(),
    scope=st.sampled_from((None, "local")),
    mode=st.sampled_from(("subscribed", "all")),
    steps=st.lists(st.sampled_from((*CONSUMERS, "open", "shut", "publish", "retain")), min_size=1, max_size=8),
)
@settings(max_examples=some(60), deadline=None)
def test_an_event_crosses_a_link_if_and_only_if_somebody_beyond_may_have_it(
    rules: dict[str, Any], consumers: dict[str, Any], scope: str | None, mode: str, steps: list[str]
) -> None:
    written: dict[tuple[str, str], bytearray] = {}
    write = Wire.write

    def record(wire: Wire, data: bytes) -> None:
        written.setdefault((wire.source, wire.target), bytearray()).extend(data)
        write(wire, data)

    with patch.object(Wire, "write", record):
        play = made(rules, consumers, scope, mode)
        subscribed: set[str] = set()
        is_open = False
        for number, step in enumerate((*steps, "publish")):
            if step in CONSUMERS:
                (play.unsubscribe if step in subscribed else play.subscribe)(step, TOPIC)
                subscribed ^= {step}
            elif step in ("open", "shut"):
                play.publish("capsule", step, b"{}")
                is_open = step == "open"
            else:
                payload = json.dumps({"lat": 48.9, "id": f"m{number}"}).encode()
                before = {link: len(found) for link, found in written.items()}
                play.publish("bob", TOPIC, payload, retain=step == "retain")
                play.run()
                for link, there in BEYOND.items():
                    crossed = written.get(link, bytearray())[before.get(link, 0) :]
                    asking = [name for name in there if name in subscribed or (mode == "all" and scope is None)]
                    got = {read_directly(rules, consumers.get(name), scope or "", False, is_open) for name in asking}
                    got -= {None}
                    assert (f"m{number}".encode() in crossed) is bool(got), (link, sorted(asking), got)
                    assert (b"48.9" in crossed) is (48.9 in got or len(got) > 1), (link, sorted(asking), got)
                play.publish("bob", TOPIC, b"", retain=True)
            play.run()
