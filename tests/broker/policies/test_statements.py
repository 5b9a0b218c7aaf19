"""The policies of the statements paper on live nodes, through `penstock.client` and through paho as a plain client."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.broker.federation import Federation
from penstock.cli.main import main
from penstock.client import Client, Refused, policies
from penstock.domain import Domain
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from tests.support.clients.library import client, take
from tests.support.clients.paho import Paho
from tests.support.processes.commands import PATIENCE
from tests.support.processes.commands import until as wait_until
from tests.support.processes.federation import TOGETHER, Nodes, chain, together
from tests.support.processes.mosquitto import free_port
from tests.support.scenes.domains import nodes

CASES = yaml.safe_load((Path(__file__).parents[2] / "cases" / "statements" / "paper.yaml").read_text())
GRANTED = {"to": "*", "set": ["publication", "subscription", "advertisement"], "elements": "*", "others": "#"}


def policy(start: str) -> str:
    """The text of a figure, or of a section's inline policy."""
    return str(next(case["text"] for case in CASES if case["title"].startswith(start)))


# --- nodes in this process, with the client library


class Live:
    """Nodes in a line, `n0 - n1 - ...`, linked."""

    def __init__(self, federation: Federation) -> None:
        self._federation = federation

    def node(self, name: str) -> Node:
        return self._federation.servers[name].node

    def busy(self, name: str, load: float, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let a node be as busy as this."""
        server = self._federation.servers[name]
        monkeypatch.setattr(server._load, "tick", lambda: load)
        server.node.runtime.load = load

    def client(self, at: str, client_id: str, **settings: Any) -> Client:
        return client(self._federation.servers[at].listeners.bound[0].port, client_id, **settings)

    def wants(self, at: str, of: str, filter: str) -> set[str]:
        """The conditions with which a neighbour wants this."""
        subscriptions = self.node(at).federation.neighbours[of].subscriptions.values()
        return {subscription.asked for subscription in subscriptions if subscription.filter == filter}

    def offers(self, at: str, of: str) -> dict[str, str]:
        """Return the offers of a neighbour: conditions by filter."""
        return {
            offer.offer.filter: offer.offer.where
            for offer in self.node(at).federation.neighbours[of].federation.offers.values()
        }


async def until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.01)


def _are_up(ends: Iterable[Session]) -> bool:
    return all(end.outlet is not None for end in ends)


@contextlib.asynccontextmanager
async def line(
    count: int, mode: str = "subscribed", groups: dict[str, list[str]] | None = None, **more: Any
) -> AsyncIterator[Live]:
    names = [f"n{number}" for number in range(count)]
    domain = {
        "nodes": nodes(*names),
        "links": [{"between": pair, "forward": mode} for pair in pairwise(names)],
        "trust_groups": {name: {"secret": {"env": name}, "nodes": members} for name, members in (groups or {}).items()},
        "statements": {"grants": [GRANTED], **more},
    }
    federation = Federation(Domain.model_validate(domain), tuple(names), None)
    await federation.start()
    try:
        live = Live(federation)
        for first, second in pairwise(names):
            ends = (live.node(first).federation.neighbours[second], live.node(second).federation.neighbours[first])
            await until(partial(_are_up, ends), "links are up")
        yield live
    finally:
        await federation.stop()


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TrustGroup1", "TrustGroup2", "Restricted", "Controlled", "AuthorizedSubscribers"):
        monkeypatch.setenv(name, f"a secret of {name} that is long enough")


def secret(name: str) -> dict[str, bytes]:
    return {name: f"a secret of {name} that is long enough".encode()}


@pytest.mark.parametrize(
    ("d1", "expected"),
    [
        (95, {"class": "report", "d1": 95, "d2": 2, "d3": 3, "PrevHop": "p"}),
        (5, {"class": "report", "d1": 5}),
        (30, {"class": "report", "d1": 30, "PrevHop": "p"}),
    ],
    ids=["T1 alone", "T2 alone", "T1 and T2 composed"],
)
async def test_section_3_3_the_supply_chain_s_policies_compose(d1: int, expected: dict[str, Any]) -> None:
    async with line(1) as live, live.client("n0", "p") as p, live.client("n0", "management") as management:
        first = await management.subscribe("t", "class == 'report' && d1 > 20", policy=policy("§3.3, T1"))
        second = await management.subscribe("t", "class == 'report' && d1 < 40", policy=policy("§3.3, T2"))
        await p.publish("t", {"class": "report", "d1": d1, "d2": 2, "d3": 3})
        for subscription, is_met in ((first, d1 > 20), (second, d1 < 40)):
            if is_met:
                (event,) = await take(subscription)
                assert event.attributes == expected


@pytest.mark.parametrize("load", [0.9, 0.1], ids=["busy", "idle"])
async def test_figure_7_large_subscriptions_are_dropped_by_a_busy_node(
    load: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = "x == '" + 9000 * "a" + "'"
    async with line(2) as live, live.client("n0", "p") as p, live.client("n0", "s") as s, live.client("n1", "w") as w:
        meta = await w.subscribe("$penstock/meta/DropMessage")
        await until(lambda: live.wants("n0", "n1", "$penstock/meta/DropMessage"), "meta-events are wanted")
        await p.advertise("t", "class == 'CustomerOrder'", policy=policy("Fig. 7"))
        live.busy("n0", load, monkeypatch)
        with pytest.raises(Refused, match="a policy does not let it in") if load > 0.75 else contextlib.nullcontext():
            await s.subscribe("t", large)
        small = await s.subscribe("t", "x == 'b'")
        await until(lambda: live.wants("n1", "n0", "t"), "subscriptions are told")
        if load > 0.75:
            (event,) = await take(meta)
            assert event.attributes == {"class": "DropMessage", "cause": "Broker load", "message": f"t where {large}"}
            assert live.wants("n1", "n0", "t") == {"x == 'b'"}
        else:
            await until(lambda: live.wants("n1", "n0", "t") == {large, "x == 'b'"}, "both are told")
            assert meta.waiting == 0
        await p.publish("t", {"class": "CustomerOrder", "x": 9000 * "a"})
        await p.publish("t", {"class": "CustomerOrder", "x": "b"})
        assert (await take(small))[0].attributes == {"class": "CustomerOrder", "x": "b"}


async def test_figure_8_subscriptions_are_flooded_in_place_of_advertisements() -> None:
    everywhere = {"policy": "flooding", "to": "advertisement", "at": ["n0", "n1", "n2"], "filter": "moving/#"}
    statements: dict[str, Any] = {"policies": {"flooding": policy("Fig. 8")}, "apply": [everywhere]}
    async with line(3, "routed", **statements) as live, live.client("n0", "p") as p, live.client("n2", "s") as s:
        moving, other = await s.subscribe("moving/#"), await s.subscribe("other/#")
        await until(lambda: live.wants("n0", "n1", "moving/#"), "the subscription has gone everywhere")
        assert not live.wants("n0", "n1", "other/#")
        await p.advertise("moving/#", policy=policies.flood())
        await p.advertise("other/#")
        await until(lambda: live.offers("n2", "n1"), "what is not flooded is advertised")
        assert live.offers("n2", "n1").keys() == {"other/#"}
        await until(lambda: live.wants("n0", "n1", "other/#"), "the subscription goes to what is advertised")
        await p.publish("moving/1", {"a": 1})
        await p.publish("other/1", {"a": 2})
        assert [(await take(subscription))[0].attributes for subscription in (moving, other)] == [{"a": 1}, {"a": 2}]


WITHIN = {"TrustGroup1": ["n0", "n1", "n2"], "TrustGroup2": ["n0", "n1", "n3"]}


@pytest.mark.parametrize(("start", "seen"), [("Fig. 13", {"n1", "n2"}), ("§5.2, both", {"n1"})], ids=["Elseif", "&&"])
async def test_figure_13_advertisements_are_told_only_within_trust_groups(start: str, seen: set[str]) -> None:
    """The authenticated event scope: of one of the groups is enough, or of both."""
    async with line(4, "routed", WITHIN) as live, live.client("n0", "p") as p:
        await p.advertise("t", policy=policy(start))
        await p.advertise("u")
        await until(lambda: "u" in live.offers("n3", "n2"), "advertisements have gone everywhere")
        ways = (("n1", "n0"), ("n2", "n1"), ("n3", "n2"))
        await until(lambda: all("u" in live.offers(*way) for way in ways), "at every node")
        assert {at for at, of in ways if "t" in live.offers(at, of)} == seen


ZONES = {"Restricted": ["n0", "n1"], "Controlled": ["n0", "n1", "n2"], "AuthorizedSubscribers": ["n0", "n1", "n2"]}


async def test_figure_16_attributes_and_events_stay_in_their_zones() -> None:
    authorised = {"groups": secret("AuthorizedSubscribers")}
    async with (
        line(4, "routed", ZONES) as live,
        live.client("n0", "p") as p,
        live.client("n1", "restricted", **authorised) as restricted,
        live.client("n2", "controlled", **authorised) as controlled,
        live.client("n3", "outside") as outside,
        live.client("n1", "officer") as officer,
    ):
        meta = await officer.subscribe("$penstock/meta/UnauthorizedSubscribe")
        await p.advertise("t", "a > 0 && c > 0", policy=policy("Fig. 16"))
        await p.advertise("u")
        await until(lambda: live.offers("n2", "n1").keys() == {"t", "u"}, "it is told within the zones")
        await until(lambda: "u" in live.offers("n3", "n2"), "what has no policy is told beyond")
        seen = [live.offers(*way).get("t") for way in (("n1", "n0"), ("n2", "n1"), ("n3", "n2"))]
        assert seen == ["a > 0 && c > 0", "c > 0", None]
        events = [await client.subscribe("#") for client in (restricted, controlled, outside)]
        await until(lambda: live.wants("n0", "n1", "#"), "the subscriptions have come to the publisher's node")
        await until(lambda: live.wants("n1", "n2", "#"), "from both zones")
        await p.publish("t", {"a": 1, "b": 2, "c": 3, "n": 4})
        assert (await take(events[0]))[0].attributes == {"a": 1, "b": 2, "c": 3, "n": 4}
        assert (await take(events[1]))[0].attributes == {"c": 3}
        await p.publish("u", {"last": 1})
        assert (await take(events[2]))[0].attributes == {"last": 1}
        assert meta.waiting == 0


async def test_figure_16_an_unauthorised_subscription_is_told() -> None:
    async with (
        line(3, "routed", ZONES) as live,
        live.client("n0", "p") as p,
        live.client("n0", "officer") as officer,
        live.client("n2", "stranger") as stranger,
        live.client("n2", "friend", groups=secret("AuthorizedSubscribers")) as friend,
    ):
        meta = await officer.subscribe("$penstock/meta/UnauthorizedSubscribe")
        await p.advertise("t", policy=policy("Fig. 16"))
        await until(lambda: "t" in live.offers("n2", "n1"), "it is told within the zones")
        await friend.subscribe("t", "c > 1")
        await stranger.subscribe("t", "c > 0")
        (event,) = await take(meta)
        assert event.attributes == {"class": "UnauthorizedSubscribe", "message": "t where c > 0"}


async def test_section_5_2_the_firewall_blocks_a_subscription_that_matches_strictly() -> None:
    blocking = policy("§5.2, firewall for subscriptions")
    async with line(2) as live, live.client("n0", "guard") as guard, live.client("n1", "s") as s:
        wall = await guard.advertise("t", "a < 10", policy=blocking)
        await until(lambda: live.node("n1").federation.neighbours["n0"].federation.offers, "the firewall is known")
        await s.subscribe("t", "a < 10")
        await s.subscribe("t", "a < 9")
        await until(lambda: live.wants("n0", "n1", "t") == {"a < 9"}, "just one is told")
        await guard.set_policy(wall, None)
        await until(lambda: live.wants("n0", "n1", "t") == {"a < 9", "a < 10"}, "without the policy both are")


# --- nodes of their own process, with paho


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Nodes, str]]:
    """Two nodes, and the admin address of the first."""
    domain = chain("n0", "n1")
    admin = f"127.0.0.1:{free_port()}"
    domain["nodes"]["n0"]["admin"] = admin
    allowed = ["TrimAttributes", "BlockMessage", "StrictMatch", "RemoveAttributes"]
    tracing = ["AugmentBrokerHostInfo", "AugmentBrokerLoadIndex", "AugmentProcessingTime"]
    domain["statements"] = {"grants": [{**GRANTED, "elements": [*allowed, *tracing]}]}
    with together(domain, links=1) as live:
        yield live, f"http://{admin}"
        assert "Traceback" not in live.log(TOGETHER)


def subscribe(paho: Paho, filter: str, **properties_: str) -> int:
    """SUBSCRIBE with these user properties; the reason code."""
    return paho.subscribe(filter, 1, said=properties_)


def settle(subscriber: Paho, publisher: Paho, topic: str) -> None:
    """Go on once an event on a topic that nobody else wants has come through, and all of its kind are taken out. What
    was subscribed to before is known by then, too.
    """
    assert subscribe(subscriber, topic) == 1

    def arrives() -> bool:
        publisher.publish(topic, b"", 1)
        return not subscriber.messages.empty()

    wait_until(arrives, "an event has come through")
    publisher.publish(topic, b"settled", 1)
    while subscriber.receive().payload != b"settled":
        pass


def contents(paho: Paho, count: int) -> list[Any]:
    return [json.loads(payload) for payload in paho.payloads(count)]


def test_figure_4_notifications_are_trimmed_to_what_the_subscription_names(both: tuple[Nodes, str]) -> None:
    ports = both[0].ports
    with (
        Paho("p4").connects(ports["n0"]) as p,
        Paho("s4").connects(ports["n1"]) as s,
        Paho("whole4").connects(ports["n0"]) as whole,
    ):
        where = "class == 'event' && a1 > 1"
        assert subscribe(s, "t4", where=where, name="trimmed", policy=policy("Fig. 4")) == 1
        whole.subscribe("t4", 1)
        settle(s, p, "settle/4")
        event = {"class": "event", "a1": 2, "a2": 3, "a3": 4}
        p.publish("t4", json.dumps(event).encode(), 1)
        assert contents(s, 1) == [{"class": "event", "a1": 2}]
        assert contents(whole, 1) == [event]
        # set_policy on the control topic, by a client that knows nothing but MQTT 5
        about = {"subscription": {"filter": "t4", "name": "trimmed"}}
        assert s.publish("$penstock/policy", json.dumps({**about, "policy": None}).encode(), 1) == 0
        p.publish("t4", json.dumps(event).encode(), 1)
        assert contents(s, 1) == [event]


def test_figure_6_every_node_on_the_way_tells_of_itself(both: tuple[Nodes, str]) -> None:
    ports = both[0].ports
    with Paho("p6").connects(ports["n0"]) as p, Paho("s6").connects(ports["n1"]) as s:
        s.subscribe("t6", 1)
        settle(s, p, "settle/6")
        p.publish("t6", b'{"a": 1}', 1, UserProperty=[("penstock-policy", policy("Fig. 6")), ("mine", "too")])
        p.publish("t6", b'{"a": 2}', 1)
        traced, plain = s.receive(), s.receive()
        meta = getattr(traced.properties, "UserProperty")  # noqa: B009
        assert [(name, value.split("=")[0]) for name, value in meta] == [
            ("mine", "too"),
            *((f"penstock-trace-{kind}", node) for node in ("n0", "n1") for kind in ("host", "load", "time")),
        ]
        assert getattr(plain.properties, "UserProperty", []) == []


def test_figure_22_and_the_strict_match_example_the_firewall_blocks_just_what_matches(
    both: tuple[Nodes, str], capsys: pytest.CaptureFixture[str]
) -> None:
    live, admin = both
    with (
        Paho("p22").connects(live.ports["n0"]) as p,
        Paho("application").connects(live.ports["n1"]) as application,
        Paho("guard").connects(live.ports["n1"]) as guard,
    ):
        assert subscribe(guard, "t22", where="class == 'C' && a < 10", policy=policy("Fig. 22")) == 1
        assert subscribe(application, "t22", where="class == 'C'") == 1
        settle(application, p, "settle/22")
        for content in ({"class": "C", "a": 9}, {"class": "C", "a": 9, "b": 5}, {"class": "C", "a": 11}):
            p.publish("t22", json.dumps(content).encode(), 1)
        assert contents(application, 2) == [{"class": "C", "a": 9, "b": 5}, {"class": "C", "a": 11}]
        arguments = ("explain", "--node", admin, "--from", "p22", "--topic", "t22", "--payload")
        code, out = main([*arguments, '{"class": "C", "a": 9}']), capsys.readouterr().out
        assert (code, "n1: t22#1.1" in out, "`StrictMatch()` holds: BlockMessage()" in out) == (0, True, True)
        attached = "PolicyStatement { On(Forward, Publication) { If {} Then {RemoveAttributes(b)} } }"
        code, out = main([*arguments, '{"class": "C", "a": 11, "b": 1}', "--policy", attached]), capsys.readouterr().out
        assert (code, """application gets `t22 {"class":"C","a":11}`""" in out) == (0, True)


DEEP = 3_000
ON = "PolicyStatement {{ On(Forward, Publication) {{ If {{{}}} Then {{{}}} }} }}"
HOSTILE = {
    "deep nesting of brackets": (ON.format("(" * DEEP + "a" + ")" * DEEP, ""), "inside each other"),
    "deep nesting of nots": (ON.format("!" * DEEP + "a", ""), "inside each other"),
    "deep nesting of braces": ("PolicyStatement " + "{" * DEEP, "expected `On`"),
    "huge": (ON.format("", f"BlockMessage() // {'x' * 60_000}\n"), "at most 20000 characters"),
    "many rules": (f"PolicyStatement {{ {'On(Forward,Publication){If{}Then{}} ' * 500} }}", "at most 50 rules"),
    "an unknown element": (ON.format("", "FormatDisk()"), "there is no element `FormatDisk`"),
    "an element that is not granted": (ON.format("", "Persist()"), "may not use `Persist`"),
    "binary": ("PolicyStatement \x01\x7f{", "character"),
    "not a policy": ("'; DROP TABLE sessions; --", "expected `PolicyStatement`"),
    "where Table 1 has nothing": (ON.format("", "Log()").replace("Forward", "Insert"), "never inserted"),
}


@pytest.mark.parametrize("title", HOSTILE)
def test_a_hostile_policy_is_refused_and_the_session_goes_on(both: tuple[Nodes, str], title: str) -> None:
    text, message = HOSTILE[title]
    words: list[str] = []
    with Paho("hostile").connects(both[0].ports["n0"], RequestProblemInformation=1) as client:
        answered = client.client.on_publish

        def hear(client: Any, data: Any, mid: int, reason: Any, properties_: Any) -> None:
            words.append(getattr(properties_, "ReasonString", ""))
            answered(client, data, mid, reason, properties_)  # type: ignore[misc,call-arg]

        client.client.on_publish = hear
        topic = "hostile"
        assert client.publish(topic, b"{}", 1, UserProperty=[("penstock-policy", text)]) == 0x87
        assert subscribe(client, topic, policy=text) == 0x87
        for control in ({"name": "h", "filter": "h", "policy": text}, {"advertisement": "h", "policy": text}):
            where = "$penstock/advertise" if "filter" in control else "$penstock/policy"
            assert client.publish(where, json.dumps(control).encode(), 1) == 0x87
        assert [message in text_ for text_ in words] == [True, True, True], words
        assert client.subscribe(topic, 1) == 1
        assert client.publish(topic, b"still here", 1) == 0
        assert client.payloads(1) == [b"still here"]


def test_bytes_that_are_no_text_are_refused_and_the_session_goes_on(both: tuple[Nodes, str]) -> None:
    with Paho("bytes").connects(both[0].ports["n0"]) as client:
        for topic in ("$penstock/policy", "$penstock/advertise"):
            for payload in (b"\xff\xfe\x00", b'{"policy": "\xff"}', b"[" * 100_000, b""):
                assert client.publish(topic, payload, 1) == 0x99
        client.subscribe("bytes", 1)
        client.publish("bytes", b"still here", 1)
        assert client.payloads(1) == [b"still here"]
