"""What contracts hold back, and what has been released and waits: it goes out only as they are when it does."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.store.store import Store
from penstock.domain import Domain, LimitSettings
from penstock.domain.compile.ensemble import Ensemble, ensemble
from penstock.engine.contracts.delayed import MAX_WINDOWS
from penstock.engine.ledger import Changes
from penstock.wire.packet import Publish, WillMessage
from penstock.wire.properties import Properties
from tests.support.memory.node import START, Client, MemoryNode

TOPIC = "bob/location"
PRECISE = {"purpose": "health", "situation": "hazard"}
COARSE = {"purpose": "health", "degrade": [{"step": {"attribute": "lat", "size": 10}}]}
LAT = b'{"lat":48.9}'


def whole(rules: dict[str, Any] | None = None, purpose: str = "health", **more: Any) -> Ensemble:
    """One node; a contract of bob's with these rules, and one of the doctor's."""
    producers = {} if rules is None else {"bob": {"producer": "bob", "filter": "bob/#", "rules": rules}}
    wants = {"all": {"filter": "bob/#", **more.pop("want", {})}}
    consumer = {"consumer": "doctor", "purpose": purpose, "retention": "1h", "wants": wants}
    hazard = {"sources": ["capsule"], "opens": "open", "closes": "close", "lasts": "1h"}
    situations = more.pop("situations", {"hazard": hazard})
    consumer |= {"situation": list(situations)}
    clients = ("bob", "doctor", "capsule", "other")
    domain = Domain.model_validate(
        {
            "nodes": {"test": {"listen": "127.0.0.1:0"}},
            "clients": {name: {"node": "test"} for name in clients},
            "contracts": {
                "bring": "*",
                "producers": producers,
                "consumers": {"doctor": consumer},
                "situations": situations,
            },
            **more,
        }
    )
    return ensemble(domain)


def start(made: Ensemble, joined: MemoryNode | None = None, **more: Any) -> tuple[MemoryNode, Client, Client]:
    """The node, bob, and the doctor who subscribes to everything of his and whose session stays."""
    joined = joined or MemoryNode(whole=made, **more)
    doctor = joined.connect("doctor", session_expiry=100_000)
    doctor.subscribe("bob/#", 1, 7)
    doctor.take()
    return joined, joined.connect("bob"), doctor


def back(joined: MemoryNode, who: str = "doctor") -> Client:
    return joined.connect(who, session_expiry=100_000, clean_start=False)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "node.db", "full")
    yield opened
    opened.close()


class Stored(MemoryNode):
    """A node whose changes go to a store."""

    store: Store | None = None

    def commit(self) -> Changes:
        changes = super().commit()
        assert self.store is not None
        self.store.write(changes)
        self.store.commit()
        return changes


def restarted(store: Store, made: Ensemble, now: float = START) -> MemoryNode:
    """A process that begins with what the store has."""
    joined = Stored(whole=made, durable=True)
    joined.now, joined.store = now, store
    store.load(joined.node, now)
    return joined


# --- later


def test_a_delayed_event_comes_later_with_the_identifier_of_its_subscription() -> None:
    joined, bob, doctor = start(whole({"late": {"purpose": "health", "degrade": [{"delay": 60}]}}))
    bob.publish(TOPIC, LAT, 1)
    joined.wait(59)
    assert doctor.messages() == []
    joined.wait(2)
    (got,) = doctor.messages()
    assert (got.payload, got.qos, got.properties.subscription_ids) == (LAT, 1, (7,))
    joined.wait(120)
    assert doctor.messages() == []


def test_what_is_delayed_survives_a_restart(store: Store) -> None:
    made = whole({"late": {"purpose": "health", "degrade": [{"delay": 60}]}})
    joined, bob, _ = start(made, restarted(store, made))
    bob.publish(TOPIC, LAT, 1)
    again = restarted(store, made, joined.now)
    doctor = back(again)
    again.wait(61)
    assert [one.payload for one in doctor.acknowledge()] == [LAT]
    twice = restarted(store, made, again.now)
    doctor = back(twice)
    twice.wait(200)
    assert doctor.messages() == []


def test_what_is_delayed_ends_with_its_session_and_its_subscription() -> None:
    joined, bob, doctor = start(whole({"late": {"purpose": "health", "degrade": [{"delay": 60}]}}))
    bob.publish(TOPIC, LAT, 1)
    doctor.unsubscribe("bob/#")
    doctor.subscribe("other")
    doctor.take()
    joined.wait(61)
    assert doctor.messages() == []
    doctor.subscribe("bob/#", 1)
    bob.publish(TOPIC, LAT, 1)
    assert len(joined.node.later) == 1
    doctor.leave(session_expiry=0)
    assert len(joined.node.later) == 0


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize(
    ("title", "options", "live", "late"),
    [
        ("by default", {}, [False, False, False], [True]),
        ("as published", {"retain_as_published": True}, [True, False, True], [True]),
    ],
)
def test_what_is_delayed_is_told_as_retained_as_it_would_be_at_once(
    title: str, options: dict[str, Any], live: list[bool], late: list[bool], qos: int
) -> None:
    """[MQTT-3.3.1-8] [MQTT-3.3.1-12] [MQTT-3.3.1-13]; what forgets a retained event too."""
    joined = MemoryNode(whole=whole({"late": {"purpose": "health", "degrade": [{"delay": 60}]}}))
    bob, doctor = joined.connect("bob"), joined.connect("doctor").subscribe(TOPIC, qos, **options)
    bob.publish(TOPIC, LAT, 1, retain=True)
    bob.publish(TOPIC, LAT, 1)
    joined.wait(1)
    doctor.subscribe("bob/+", qos, **options)
    bob.publish(TOPIC, b"", 1, retain=True)
    joined.wait(59)
    got = [(one.payload, one.retain) for one in doctor.acknowledge()]
    assert got == list(zip([LAT, LAT], live[:2], strict=True)), title
    joined.wait(2)
    got = [(one.payload, one.retain) for one in doctor.acknowledge()]
    assert got == [(LAT, *late), (b"", live[2])], title


def test_that_what_is_delayed_is_retained_survives_a_restart(store: Store) -> None:
    made = whole({"late": {"purpose": "health", "degrade": [{"delay": 60}]}})
    joined = restarted(store, made)
    joined.connect("bob").publish(TOPIC, LAT, 1, retain=True)
    joined.connect("doctor", session_expiry=100_000).subscribe(TOPIC, 1)
    again = restarted(store, made, joined.now)
    doctor = back(again)
    again.connect("bob").publish(TOPIC, LAT, 1)
    again.wait(61)
    assert [one.retain for one in doctor.acknowledge()] == [True, False]


def test_what_is_delayed_is_bounded() -> None:
    limits = LimitSettings(queued_messages=10)
    joined, bob, doctor = start(whole({"late": {"purpose": "health", "degrade": [{"delay": 60}]}}), limits=limits)
    for _ in range(20):
        bob.publish(TOPIC, LAT, 1)
    assert len(joined.node.later) == 10
    joined.wait(61)
    assert len(doctor.acknowledge()) == 10


MEAN = {
    "purpose": "health",
    "degrade": [{"aggregate": {"seconds": 60, "attributes": ["lat"], "least": 1, "events": 2}}],
}


def test_means_survive_a_restart(store: Store) -> None:
    made = whole({"mean": MEAN})
    joined, bob, _ = start(made, restarted(store, made))
    joined.now = START - START % 60 + 60
    bob.publish(TOPIC, b'{"lat": 10}', 1)
    again = restarted(store, made, joined.now)
    doctor = back(again)
    again.connect("bob").publish(TOPIC, b'{"lat": 20}', 1)
    assert doctor.messages() == []
    again.wait(61)
    (got,) = doctor.acknowledge()
    assert (json.loads(got.payload), got.properties.subscription_ids) == ({"lat": 15.0}, (7,))
    twice = restarted(store, made, again.now)
    assert not twice.node.later.windows


def test_a_mean_of_too_few_is_of_nobody() -> None:
    joined, bob, doctor = start(whole({"mean": MEAN}))
    bob.publish(TOPIC, b'{"lat": 10}', 1)
    joined.wait(61)
    assert doctor.messages() == []


def test_a_mean_must_have_the_quality_that_is_needed() -> None:
    joined, bob, doctor = start(whole({"mean": MEAN}, want={"needs": ["accuracy >= high"]}))
    for value, shown in ((50, 0), (90, 1)):
        claim = {"indicator": "accuracy", "criterion": "accuracy", "definition": "accuracy", "value": value}
        for lat in (10, 20):
            bob.publish(TOPIC, json.dumps({"lat": lat, "qoc": [claim]}).encode(), 1)
        joined.wait(61)
        assert len(doctor.acknowledge()) == shown


def test_windows_are_bounded() -> None:
    joined, bob, doctor = start(whole({"mean": MEAN}))
    joined.wait(60 - joined.now % 60)
    for number in range(MAX_WINDOWS + 10):
        bob.publish(f"bob/{number}", b'{"lat": 10}')
    assert len(joined.node.later.windows) == MAX_WINDOWS
    joined.node.later.close(next(iter(joined.node.later.windows)))
    for _ in range(3):
        bob.publish(f"bob/{MAX_WINDOWS}", b'{"lat": 10}')
    joined.wait(60)
    assert doctor.messages() == [], "nor of what there was no room for at first"


def _first(joined: MemoryNode, bob: Client) -> None:
    """A new time begins, and one event comes in it."""
    joined.wait(60 - joined.now % 60)
    bob.publish(TOPIC, b'{"lat": 10}', 1)


def _rest(joined: MemoryNode, bob: Client) -> None:
    for lat in (20, 30):
        bob.publish(TOPIC, json.dumps({"lat": lat}).encode(), 1)
    joined.wait(60)


def test_who_subscribes_in_the_middle_of_a_time_gets_no_mean_of_it() -> None:
    """Otherwise what one event said could be told from two means."""
    clients = {"bob": {"node": "test"}, "capsule": {"node": "test"}, "doctor": {"node": "test", "user": "doctor"}}
    joined = MemoryNode(whole=whole({"mean": MEAN}, clients=clients))
    bob, early = joined.connect("bob"), joined.connect("early", user="doctor").subscribe(TOPIC, 1)
    _first(joined, bob)
    early.subscribe("bob/+", 1)
    late = joined.connect("late", user="doctor").subscribe(TOPIC, 1)
    _rest(joined, bob)
    assert early.payloads() == ['{"lat":20.0}']
    assert late.payloads() == []
    _first(joined, bob)
    _rest(joined, bob)
    assert late.payloads() == ['{"lat":20.0}']


@pytest.mark.parametrize(
    "change",
    ["unsubscribes and subscribes", "another condition", "brings a contract", "reload", "retained is sent again"],
)
def test_no_mean_is_made_of_a_part_of_its_time(change: str) -> None:
    joined, bob, doctor = start(whole({"mean": MEAN}))
    _first(joined, bob)
    if change == "unsubscribes and subscribes":
        doctor.unsubscribe("bob/#")
        bob.publish(TOPIC, b'{"lat": 15}', 1)
        doctor.subscribe("bob/#", 1)
    elif change == "another condition":
        doctor.subscribe("bob/#", 1, user_properties=(("where", "!has(x)"),))
    elif change == "brings a contract":
        told = {"name": "more", "consumes": {"purpose": "health", "wants": {"all": {"filter": "bob/#"}}}}
        doctor.publish("$penstock/contract", json.dumps(told).encode(), 1)
    elif change == "reload":
        joined.node.runtime.clock = lambda: joined.now
        joined.govern(None, whole({"mean": {**MEAN, "purpose": ["health", "law"]}}))
    else:
        bob.publish(TOPIC, b'{"lat": 15}', 1, retain=True)
        doctor.subscribe("bob/#", 1)
    _rest(joined, bob)
    assert doctor.messages() == []
    _first(joined, bob)
    _rest(joined, bob)
    assert len(doctor.messages()) == 1, "but of the next"


def test_the_same_subscription_again_changes_nothing() -> None:
    joined, bob, doctor = start(whole({"mean": MEAN}))
    _first(joined, bob)
    doctor.subscribe("bob/#", 1, 7)
    _rest(joined, bob)
    assert [json.loads(one.payload) for one in doctor.messages()] == [{"lat": 20.0}]


def test_those_who_share_a_subscription_get_no_means() -> None:
    joined = MemoryNode(whole=whole({"mean": MEAN}))
    doctor, bob = joined.connect("doctor").subscribe("$share/group/bob/#", 1), joined.connect("bob")
    _first(joined, bob)
    _rest(joined, bob)
    assert doctor.messages() == []


def test_what_is_retained_counts_in_its_own_time_only() -> None:
    joined, bob, doctor = start(whole({"mean": MEAN}))
    joined.wait(60 - joined.now % 60)
    bob.publish(TOPIC, b'{"lat": 90}', 1, retain=True)
    joined.wait(59)
    doctor.goes_deaf()
    doctor.subscribe("bob/#", 1)
    _first(joined, bob)
    doctor.reads_on()
    _rest(joined, bob)
    assert [json.loads(one.payload) for one in doctor.messages()] == [{"lat": 20.0}]


def test_a_window_ends_when_its_rule_is_another() -> None:
    joined, bob, doctor = start(whole({"mean": MEAN}))
    for lat in (10, 20):
        bob.publish(TOPIC, json.dumps({"lat": lat}).encode(), 1)
    joined.govern(None, whole({"mean": {**MEAN, "purpose": "research"}}))
    joined.wait(61)
    assert doctor.messages() == []


@pytest.mark.parametrize("how", ["at once", "retained", "from its queue", "later", "in a mean", "after a restart"])
def test_what_is_for_a_situation_that_a_reload_has_taken_away_is_for_nobody(how: str, store: Store) -> None:
    """Whether it is such a situation is not known; only what clients have brought can come to that."""
    before, after = whole(), whole(situations={})
    joined = restarted(store, before)
    bob = joined.connect("bob", session_expiry=100_000)
    degrade = {"later": [{"delay": 60}], "in a mean": MEAN["degrade"]}.get(how, [])
    rule = {"purpose": "health", "situation": {"not": "hazard"}, "degrade": degrade}
    told = {"name": "mine", "produces": {"filter": "bob/#", "rules": {"calm": rule}}}
    bob.publish("$penstock/contract", json.dumps(told).encode(), 1)
    mine = (("contract", '{"purpose": "health"}'),)
    other = joined.connect("other", session_expiry=100_000).subscribe(TOPIC, 1, user_properties=mine)
    joined.wait(60 - joined.now % 60)
    for _ in range(2):
        bob.publish(TOPIC, LAT, 1, retain=how == "retained")
    joined.wait(60)
    assert other.acknowledge(), "as long as it is there"
    joined.wait(60 - joined.now % 60)
    if how == "from its queue":
        other.lose()
    if how in ("from its queue", "later", "in a mean"):
        bob.publish(TOPIC, LAT, 1)
        bob.publish(TOPIC, LAT, 1)
    if how == "after a restart":
        joined = restarted(store, after, joined.now)
        bob = joined.connect("bob", session_expiry=100_000, clean_start=False)
    else:
        joined.govern(None, after)
    other = back(joined, "other") if how in ("from its queue", "after a restart") else other
    if how == "retained":
        other.subscribe("bob/+", 1, user_properties=mine)
    elif how in ("at once", "after a restart"):
        bob.publish(TOPIC, LAT, 1)
    for _ in range(3):
        joined.wait(60)
    assert other.acknowledge() == []
    joined.govern(None, before)
    bob.publish(TOPIC, LAT, 1)
    bob.publish(TOPIC, LAT, 1)
    for _ in range(3):
        joined.wait(60)
    assert other.acknowledge(), "and when it is there again"


# --- what expires while it waits

LATE = {"purpose": "health", "degrade": [{"delay": 60}]}
LATE_MEAN = {"purpose": "health", "degrade": [*MEAN["degrade"], {"delay": 30}]}


@pytest.mark.parametrize(
    ("title", "rule", "expiries", "dropped", "lat", "left"),
    [
        ("before its time", LATE, [59], 1, None, None),
        ("just then", LATE, [60], 1, None, None),
        ("after it", LATE, [100], 0, 10, 40),
        ("one of a mean, before that is made", MEAN, [59, 600, 700], 1, 25, 540),
        ("too many of a mean", MEAN, [30, 600, 60], 2, None, None),
        ("a mean with the first of its events", MEAN, [90, 600, None], 0, 20, 30),
        ("before a mean that comes later", LATE_MEAN, [90, 600, 700], 1, 25, 510),
        ("none of a mean", MEAN, [None, None], 0, 15, None),
    ],
)
def test_what_has_expired_does_not_go_out(
    title: str, rule: dict[str, Any], expiries: list[int | None], dropped: int, lat: float | None, left: int | None
) -> None:
    joined, bob, doctor = start(whole({"rule": rule}))
    joined.wait(60 - joined.now % 60)
    for at, expiry in enumerate(expiries, 1):
        said = json.dumps({"lat": 10 * at}).encode()
        bob.publish(TOPIC, said, 1, properties=Properties(message_expiry=expiry))
    for _ in range(10):
        joined.wait(10)
    got = [(json.loads(one.payload)["lat"], one.properties.message_expiry) for one in doctor.messages()]
    assert got == ([] if lat is None else [(lat, left)]), title
    assert joined.node.stats.expired == dropped
    assert not joined.node.later.held


def test_a_delayed_event_that_a_slow_node_takes_too_late_is_dropped() -> None:
    joined, bob, doctor = start(whole({"late": LATE}))
    bob.publish(TOPIC, LAT, 1, properties=Properties(message_expiry=61))
    joined.wait(62)
    assert (doctor.messages(), joined.node.stats.expired) == ([], 1)


def test_when_a_mean_expires_survives_a_restart(store: Store) -> None:
    made = whole({"mean": MEAN})
    joined, bob, _ = start(made, restarted(store, made))
    joined.now = START - START % 60 + 60
    bob.publish(TOPIC, b'{"lat": 10}', 1, properties=Properties(message_expiry=70))
    again = restarted(store, made, joined.now)
    doctor = back(again)
    again.connect("bob").publish(TOPIC, b'{"lat": 20}', 1)
    again.wait(65)
    (got,) = doctor.acknowledge()
    assert (json.loads(got.payload), got.properties.message_expiry) == ({"lat": 15.0}, 5)


# --- situations


def open_hazard(joined: MemoryNode) -> Client:
    capsule = joined.connect("capsule")
    capsule.publish("open", b"{}", 1)
    return capsule


@pytest.mark.parametrize("ends", ["closes", "is over", "lasts"])
def test_what_waits_goes_out_only_while_its_situation_is_open(ends: str) -> None:
    joined, bob, doctor = start(whole({"precise": PRECISE}))
    capsule = open_hazard(joined)
    doctor.lose()
    bob.publish(TOPIC, LAT, 1)
    if ends == "closes":
        capsule.publish("close", b"{}", 1)
    joined.now += 3601 if ends == "is over" else 60  # nobody has looked at the clock
    got = back(joined).acknowledge()
    assert [one.payload for one in got] == ([LAT] if ends == "lasts" else [])
    assert all(not name.startswith("penstock-released") for one in got for name, _ in one.properties.user_properties)


def test_a_situation_survives_a_restart(store: Store) -> None:
    made = whole({"precise": PRECISE})
    joined, _, _ = start(made, restarted(store, made))
    open_hazard(joined)
    again = restarted(store, made, joined.now)
    doctor = back(again)
    again.connect("bob").publish(TOPIC, LAT)
    assert doctor.payloads() == [LAT.decode()]
    again.now += 3601
    later = restarted(store, made, again.now)
    doctor = back(later)
    later.connect("bob").publish(TOPIC, LAT)
    assert doctor.payloads() == []


def test_what_is_retained_is_released_as_things_are_now() -> None:
    joined, bob, doctor = start(whole({"precise": PRECISE, "coarse": {**COARSE, "situation": []}}))
    capsule = open_hazard(joined)
    bob.publish(TOPIC, LAT, retain=True)
    assert doctor.payloads() == [LAT.decode()]
    capsule.publish("close", b"{}", 1)
    doctor.subscribe(TOPIC)
    assert doctor.payloads() == ['{"lat":45.0}']


# --- reload


def test_what_waits_is_held_against_contracts_that_are_other_now() -> None:
    for after, expected in (
        (whole({"coarse": COARSE}), ['{"lat":45.0}']),
        (whole({"coarse": {**COARSE, "purpose": "research"}}), []),
        (whole({"coarse": COARSE}, purpose="research"), []),
        (whole({"other": COARSE}), []),
        (whole(), []),
    ):
        joined, bob, doctor = start(whole({"coarse": COARSE}))
        doctor.lose()
        bob.publish(TOPIC, LAT, 1)
        joined.govern(None, after)
        assert [one.payload.decode() for one in back(joined).acknowledge()] == expected


def test_a_new_contract_binds_what_waits_and_what_is_retained() -> None:
    joined, bob, doctor = start(whole())
    doctor.lose()
    bob.publish(TOPIC, LAT, 1, retain=True)
    joined.govern(None, whole({"coarse": COARSE}))
    doctor = back(joined)
    assert [one.payload for one in doctor.acknowledge()] == [b'{"lat":45.0}']
    doctor.subscribe(TOPIC)
    assert doctor.payloads() == ['{"lat":45.0}']
    other = joined.connect("other").subscribe(TOPIC)
    assert other.payloads() == []


def test_what_a_producer_has_brought_stays_if_the_domain_forgets_contracts() -> None:
    joined, bob, _ = start(whole())
    said = {"name": "mine", "produces": {"filter": "bob/#", "rules": {"none": {"purpose": "nothing"}}}}
    bob.publish("$penstock/contract", json.dumps(said).encode(), 1)
    plain = Domain.model_validate({"nodes": {"test": {"listen": "127.0.0.1:0"}}})
    joined.govern(None, ensemble(plain))
    other = joined.connect("other").subscribe("bob/#")
    bob.publish(TOPIC, LAT)
    assert other.payloads() == []


def test_what_a_consumer_has_brought_counts_no_longer_if_it_may_not_say_so() -> None:
    made = whole({"coarse": COARSE})
    joined, bob, _ = start(made)
    other = joined.connect("other").subscribe("bob/#", user_properties=(("contract", '{"purpose": "health"}'),))
    bob.publish(TOPIC, LAT)
    assert other.payloads() == ['{"lat":45.0}']
    domain = whole({"coarse": COARSE})
    assert domain.contracts is not None
    object.__setattr__(domain.contracts, "bring", frozenset())
    joined.govern(None, domain)
    bob.publish(TOPIC, LAT)
    assert other.payloads() == []


# --- who gets it


def test_a_member_of_a_group_that_may_not_have_it_is_not_chosen() -> None:
    joined = MemoryNode(whole=whole({"coarse": COARSE}))
    doctor, other = (joined.connect(name).subscribe("$share/g/bob/#") for name in ("doctor", "other"))
    bob = joined.connect("bob")
    for _ in range(4):
        bob.publish(TOPIC, LAT)
    assert (len(doctor.messages()), len(other.messages())) == (4, 0)


def test_a_will_is_under_its_clients_contract() -> None:
    joined, bob, doctor = start(whole({"coarse": COARSE}))
    bob.leave()
    bob = joined.connect("bob", will=WillMessage(TOPIC, LAT))
    other = joined.connect("other").subscribe("bob/#")
    bob.lose()
    assert (doctor.payloads(), other.payloads()) == (['{"lat":45.0}'], [])


def test_all_contracts_of_an_event_must_release_it() -> None:
    joined, bob, doctor = start(whole({"mean": MEAN}))
    said = {"name": "mine", "produces": {"filter": "bob/#", "rules": {"none": {"purpose": "nothing"}}}}
    bob.publish("$penstock/contract", json.dumps(said).encode(), 1)
    for lat in (10, 20):
        bob.publish(TOPIC, json.dumps({"lat": lat}).encode(), 1)
    joined.wait(61)
    assert doctor.messages() == []


def pairs(message: Publish) -> dict[str, str]:
    return dict(message.properties.user_properties)


def test_a_consumer_is_told_when_to_delete() -> None:
    joined, bob, doctor = start(whole({"coarse": {**COARSE, "retention": "1d"}}))
    bob.publish(TOPIC, LAT, properties=Properties(user_properties=(("penstock-retain-until", "never"),)))
    (got,) = doctor.messages()
    assert pairs(got)["penstock-retain-until"] == "1970-01-12T14:46:40Z"
    doctor.lose()
    bob.publish(TOPIC, LAT, 1)
    assert "penstock-retain-until" in pairs(back(joined).acknowledge()[0])


CLAIM = {"indicator": "accuracy", "criterion": "accuracy", "definition": "accuracy", "value": 90}


def test_mqtt_3_consumers_get_quality_in_content_that_can_carry_it() -> None:
    joined = MemoryNode(whole=whole({"coarse": {"purpose": "health"}}))
    doctor = joined.connect("doctor", version=4).subscribe("bob/#")
    bob = joined.connect("bob")
    told = Properties(user_properties=(("qoc", json.dumps(CLAIM)),))
    bob.publish(TOPIC, LAT, properties=told)
    (got,) = doctor.messages()
    assert json.loads(got.payload)["qoc"][0]["value"] == 90
    bob.publish(TOPIC, b"<a><b>1</b></a>", properties=told)
    (got,) = doctor.messages()
    assert b'<qocmetricvalue value="90.0"' in got.payload
    bob.publish(TOPIC, b"\x00\x01", properties=told)
    assert [one.payload for one in doctor.messages()] == [b"\x00\x01"]


def test_listing_3_of_events_in_xml() -> None:
    criterion = "qocriterion[@id='10.1']/qocmetricdefinition[@id='10.1']"
    xpath = f"//qocindicator[@id='10' and {criterion} and qocmetricvalue[@value>='40']]"
    indicators = {"10": {"criterion": "10.1", "definitions": {"10.1": {}}}}
    made = whole({"any": {"purpose": "health"}}, want={"needs": [xpath]}, quality={"indicators": indicators})
    _, bob, doctor = start(made)
    event = (
        '<o><qocindicator id="10"><qocriterion id="10.1"><qocmetricdefinition id="10.1"/></qocriterion>'
        '<qocmetricvalue value="{}"/></qocindicator></o>'
    )
    for value, shown in ((39, 0), (40, 1), (47.5, 1)):
        bob.publish(TOPIC, event.format(value).encode())
        assert len(doctor.messages()) == shown, value


def test_what_nobody_measures_is_needed_all_the_same() -> None:
    """A consumer's needs hold of events without a producer's contract, by what these say of themselves."""
    _, bob, doctor = start(whole(want={"needs": ["accuracy >= high"]}))
    bob.publish(TOPIC, LAT)
    assert doctor.messages() == []
    for value, shown in ((90, 1), (10, 0), (1e9, 0)):
        bob.publish(
            TOPIC, LAT, properties=Properties(user_properties=(("qoc", json.dumps({**CLAIM, "value": value})),))
        )
        assert len(doctor.messages()) == shown


def test_what_only_nodes_may_say_is_taken_from_what_clients_send() -> None:
    _, bob, doctor = start(whole({"coarse": COARSE}, want={"needs": ["accuracy >= high"]}))
    forged = (
        ("penstock-quality", json.dumps(CLAIM)),
        ("penstock-contract", "none"),
        ("penstock-ace", "{}"),
        ("penstock-released", "[]"),
    )
    bob.publish(TOPIC, LAT, properties=Properties(user_properties=forged))
    assert doctor.messages() == []


HOSTILE = [
    ("many indicators", json.dumps({"lat": 1, "qoc": [{**CLAIM, "indicator": f"i{n}"} for n in range(1000)]}).encode()),
    ("deep", b'{"lat": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ("an XML bomb", b'<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;&x;&x;&x;&x;&x;">]><a>&y;&y;</a>'),
    ("an entity from outside", b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'),
    ("a huge number", b'{"lat": 1e999999}'),
    ("a number that is none", b'{"lat": NaN}'),
]


@pytest.mark.parametrize(("title", "payload"), HOSTILE)
def test_hostile_content_is_released_to_nobody(title: str, payload: bytes) -> None:
    joined, bob, doctor = start(whole({"coarse": COARSE}))
    bob.publish(TOPIC, payload, 1)
    assert doctor.messages() == [], title
    bob.publish(TOPIC, LAT, 1)
    assert len(doctor.messages()) == 1
    assert joined.node.sessions["bob"].outlet is not None
