"""What is explained is what happens, and explaining changes nothing."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain import ensemble
from penstock.engine.explain.arrival import ExplainError, arrival
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.decision import Decision
from penstock.model.event import Event
from penstock.model.verdict import Effect
from penstock.policy.access.acl import Acl
from tests.engine.test_semantics import publish, rehearse
from tests.support.generators import networks
from tests.support.generators.domains import Scene, parts, scenes
from tests.support.memory.rehearsed import domain, play, stage
from tests.support.models.ensembles import SMART_HOME_FILE as SMART_HOME


def decisions(
    rehearsal: Rehearsal, node: str, entity: str, topic: str, payload: str = "", qos: int = 0
) -> tuple[Decision, ...]:
    event = Event(topic, payload.encode(), qos)
    return explain(
        rehearsal.nodes, arrival(rehearsal.nodes[node], entity, event), rehearsal.now, rehearsal.ensemble.devices
    )


def said(found: tuple[Decision, ...], node: str, target: str | None) -> list[str]:
    """The verdicts at a node towards a target, as text."""
    (decision,) = (one for one in found if one.node == node and (one.goes_by.target if one.goes_by else None) == target)
    return [str(verdict) for verdict in decision.verdicts]


def delivered(found: tuple[Decision, ...], entities: tuple[str, ...]) -> Counter[tuple[str, str, str, int]]:
    return Counter(
        (one.node, one.goes_by.target, output.topic, output.qos)
        for one in found
        if one.goes_by is not None and one.goes_by.target in entities
        for output in one.outputs
    )


def everything(rehearsal: Rehearsal) -> object:
    """What an explanation must leave as it is."""
    return [
        (
            {ends: list(watch.states) for ends, watch in node.monitors.watches.items()},
            {
                name: (len(session.buffer), session.outbox.quota, session.outbox.waiting())
                for name, session in node.sessions.items()
            },
            [group.turn for group in node.subscriptions.groups.values()],
            len(node.notices),
            vars(node.ledger),
            {name: getattr(node.stats, name) for name in node.stats.__slots__},
        )
        for node in rehearsal.nodes.values()
    ]


def check(scene: Scene, qos: int) -> None:
    rehearsal = rehearse(scene)
    devices = scene.whole.devices
    for publication in scene.publications:
        before = everything(rehearsal)
        found = decisions(rehearsal, publication.broker, publication.device, *parts(publication.topic), qos)
        assert everything(rehearsal) == before
        expected = Counter(got(rehearsal))
        publish(rehearsal, [publication], qos)
        rehearsal.run()
        assert Counter(got(rehearsal)) - expected == delivered(found, devices)


def got(rehearsal: Rehearsal) -> list[tuple[str, str, str, int]]:
    devices = rehearsal.ensemble.devices
    return [(one.node, name, one.topic, one.qos) for name in devices for one in rehearsal.deliveries(name)]


@given(scenes(most_nodes=4, most_devices=4), st.sampled_from([0, 2]))
def test_what_is_explained_is_what_happens(scene: Scene, qos: int) -> None:
    check(scene, qos)


@given(scenes(most_nodes=4, most_publications=2, cyclic=True))
def test_what_is_explained_is_what_happens_in_graphs_with_cycles(scene: Scene) -> None:
    check(scene, 1)


@given(networks.scenes(cyclic=False))
def test_what_is_explained_about_content_is_what_happens(scene: networks.NetworkScene) -> None:
    rehearsal = networks.begin(scene)
    for at, topic, payload in scene.published:
        found = decisions(rehearsal, f"n{at}", f"p{at}", topic, payload.decode(), 1)
        before = Counter(got(rehearsal))
        rehearsal.publish(f"p{at}", topic, payload, qos=1)
        rehearsal.run()
        assert Counter(got(rehearsal)) - before == delivered(found, rehearsal.ensemble.devices)


CONTENT = """
nodes: {here: {listen: "127.0.0.1:0", store: memory}}
clients:
  sensor: {node: here, advertises: [{name: cold, filter: t, where: "value < 50"}]}
  fan: {node: here}
  hatch: {node: here}
  blind: {node: here, where: {t: value > 40}}
"""


def test_conditions_are_named_with_what_they_came_to() -> None:
    room = stage(CONTENT, subscribe=None)
    room.subscribe("fan", "t", where="value > 20")

    def about_fan(payload: str) -> list[str]:
        return said(decisions(room, "here", "sensor", "t", payload=payload), "here", "fan")

    assert about_fan("25")[1:3] == ["conform: pass by value < 50", "match: pass by t: `value > 20` holds"]
    assert about_fan("15")[-1] == "match: suppress by condition: subscription of `fan` to `t`: `value > 20` is false"


def test_what_is_not_as_advertised_goes_no_further() -> None:
    room = stage(CONTENT, subscribe="#")
    assert said(decisions(room, "here", "sensor", "t", payload="70"), "here", None) == [
        "admit: pass",
        "conform: suppress by advertisement: not as the domain advertises for its publisher: `value < 50` is false",
    ]
    assert said(decisions(room, "here", "sensor", "t", payload="on"), "here", None)[-1] == (
        "conform: suppress by advertisement: not as the domain advertises for its publisher: "
        "`value < 50`: there is no `value`"
    )
    assert said(decisions(room, "here", "sensor", "u", payload="1"), "here", None)[-1] == (
        "conform: suppress by advertisement: the domain advertises nothing on `u` for its publisher"
    )


def test_a_condition_that_fails_says_why() -> None:
    room = stage(CONTENT, subscribe=None)
    room.subscribe("fan", "#", where="level == 'high'")
    assert said(decisions(room, "here", "sensor", "t", payload="1"), "here", "fan")[-1] == (
        "match: suppress by condition: subscription of `fan` to `#`: `level == 'high'` fails: there is no `level`"
    )


def asked_by_nobody(room: Rehearsal, payload: str) -> dict[str, str]:
    """The last verdict towards each link, where nobody is asked about."""
    event = Event("t", payload.encode())
    found = explain(room.nodes, arrival(room.nodes["here"], "sensor", event), room.now)
    return {one.goes_by.target if one.goes_by else "": str(one.verdicts[-1]) for one in found}


def test_each_subscription_whose_condition_does_not_hold_is_named_though_nobody_asked() -> None:
    room = stage(CONTENT, subscribe=None)
    assert asked_by_nobody(room, "1") == {"": "match: suppress: nobody here subscribes to `t`"}
    room.subscribe("fan", "t", where="value > 20")
    room.subscribe("fan", "+", where="level == 'high'", name="levels")
    assert asked_by_nobody(room, "1") == {
        "fan": "match: suppress by condition: "
        "subscription of `fan` to `+` named `levels`: `level == 'high'` fails: there is no `level`; "
        "subscription of `fan` to `t`: `value > 20` is false"
    }
    assert asked_by_nobody(room, "25")["fan"] == "emit: pass: delivered with QoS 0"


def test_a_client_s_own_event_behind_a_monitor_comes_by_the_subscriptions_that_want_it() -> None:
    room = stage(
        """
nodes: {here: {listen: "127.0.0.1:0", store: memory}}
clients: {ann: {node: here}}
monitors: {m: {link: here -> ann, states: {q0: {b: {rename: c}, "*": pass}}}}
""",
        subscribe=None,
    )
    room.subscribe("ann", "#", 1)
    room.subscribe("ann", "+", 0, no_local=False)
    for topic, got in (("a", "a"), ("b", "c")):
        explained = delivered(decisions(room, "here", "ann", topic, qos=1), ("ann",))
        assert explained == Counter({("here", "ann", got, 0): 1})
        assert play(room, "ann", topic, qos=1) == {"ann": [got]}
    assert not delivered(decisions(room, "here", "ann", "x/y", qos=1), ("ann",))
    assert play(room, "ann", "x/y", qos=1) == {}


def test_members_of_a_group_whose_conditions_do_not_hold_are_named() -> None:
    room = stage(CONTENT, subscribe=None)
    room.subscribe("fan", "$share/g/t", where="value > 20", no_local=False)
    room.subscribe("hatch", "$share/g/t", where="value > 30", no_local=False)
    assert asked_by_nobody(room, "25") == {
        "fan": "emit: pass: delivered with QoS 0",
        "hatch": "match: suppress by condition: subscription of `hatch` to `$share/g/t`: `value > 30` is false",
    }
    assert asked_by_nobody(room, "1").keys() == {"fan", "hatch"}
    assert said(decisions(room, "here", "sensor", "t", payload="1"), "here", "fan")[-1] == (
        "match: suppress by condition: subscription of `fan` to `$share/g/t`: `value > 20` is false"
    )


def test_what_the_domain_says_for_a_client_is_named_for_a_wider_subscription() -> None:
    room = stage(CONTENT, subscribe=None)
    room.subscribe("blind", "#")
    assert asked_by_nobody(room, "1")["blind"] == (
        "match: suppress by condition: subscription of `blind` to `#`: `value > 40` is false"
    )
    assert said(decisions(room, "here", "sensor", "t", payload="45"), "here", "blind")[2] == (
        "match: pass by #: `value > 40` holds"
    )


def test_who_may_not_advertise_is_told_why(tmp_path: Path) -> None:
    (tmp_path / "acl").write_text("topic readwrite #\ntopic deny $penstock/#\n")
    room = stage(CONTENT, subscribe=None, acls={"here": Acl.read(tmp_path / "acl")})
    assert said(decisions(room, "here", "fan", "$penstock/advertise"), "here", None) == [
        "admit: suppress by acl: may not write to `$penstock/advertise`: by acl:2 `topic deny $penstock/#`"
    ]
    assert said(decisions(stage(CONTENT), "here", "fan", "$penstock/advertise"), "here", None) == [
        "admit: suppress by reserved: `$penstock/advertise` is for the node itself: "
        "what is advertised goes to no subscriber"
    ]


def test_a_table_that_denies_is_named() -> None:
    found = decisions(stage(SMART_HOME), "gateway", "motion", "MD_motion")
    assert said(found, "gateway", "cloud")[-1] == (
        "route: suppress by brokering: denied by `deny` from `sensitive` to `internet`"
    )
    assert said(found, "locks", "lock")[-1] == "emit: pass: delivered with QoS 0"


def test_a_monitor_and_its_state_are_named() -> None:
    home = stage(SMART_HOME)
    assert said(decisions(home, "cloud", "phone", "DL_unlock"), "cloud", "gateway")[-1] == (
        "shape: suppress by no-remote-unlock: in state `q0`"
    )
    play(home, "bell", "AC_request")
    assert "edit: pass by unlock-after-grant: from state `asked` to `granted`" in said(
        decisions(home, "cloud", "phone", "AC_grant"), "locks", "lock"
    )


def test_from_a_neighbour_only_what_is_beyond_it_is_explained() -> None:
    found = decisions(stage(SMART_HOME), "gateway", "cloud", "AC_grant")
    assert {one.node for one in found} == {"gateway", "locks"}


def test_a_link_that_is_down_ends_the_way() -> None:
    home = stage(SMART_HOME)
    home.cut("gateway", "locks")
    now = decisions(home, "gateway", "bell", "x", qos=0)
    assert said(now, "gateway", "locks")[-1] == "emit: suppress: QoS 0 does not wait, and the link to `locks` is down"
    later = decisions(home, "gateway", "bell", "x", qos=1)
    assert said(later, "gateway", "locks")[-1] == "emit: pass: waits, as the link to `locks` is down"
    assert not [one for one in later if one.node == "locks"]


def test_somebody_who_is_not_connected_can_be_asked_about() -> None:
    home = stage(SMART_HOME)
    home.disconnect("motion")
    home.disconnect("phone")
    found = decisions(home, "gateway", "bell", "x", qos=1)
    assert said(found, "cloud", "phone")[-1] == "emit: pass: waits, as `phone` is away"
    assert decisions(home, "gateway", "motion", "MD_motion")


def test_nobody_has_to_subscribe() -> None:
    home = stage(SMART_HOME, subscribe=None)
    found = decisions(home, "gateway", "bell", "x")
    assert said(found, "gateway", "cloud")[-1] == "match: suppress: nobody beyond `cloud` subscribes to `x`"
    assert said(found, "gateway", "motion")[-1] == "match: suppress: `motion` has no subscription that matches `x`"


def test_strangers_have_no_place() -> None:
    with pytest.raises(ExplainError, match="`mallory` has no place at node `cloud`"):
        decisions(stage(SMART_HOME), "cloud", "mallory", "x")


OPEN = """
nodes: {n: {listen: "127.0.0.1:1883"}}
monitors:
  rename: {link: n -> c, mapper: {"a/+": "b/{1}"}}
  twice: {link: p -> n, states: {q0: {two: {emit: [one, {topic: one, payload: again}]}, "*": pass}}}
clients: {c: {node: n}, p: {node: n}}
"""


def test_what_is_renamed_and_injected_is_told() -> None:
    here = stage(OPEN)
    found = decisions(here, "n", "p", "a/x")
    assert "shape: replace by rename: in state `q0`, `a/x` becomes `b/x`" in said(found, "n", "c")
    first, second = (one for one in decisions(here, "n", "p", "two") if one.goes_by and one.goes_by.target == "c")
    assert str(first.verdicts[1]) == "edit: inject by twice: in state `q0`, `two` becomes `one`, `one`"
    assert [one.outputs[0].payload for one in (first, second)] == [b"", b"again"]
    assert first.effect is Effect.REPLACE


def test_rights_are_cited(tmp_path: Path) -> None:
    rights = tmp_path / "acl"
    rights.write_text("topic write up/#\ntopic read down/#\n")
    here = stage(OPEN, acls={"n": Acl.read(rights)})
    assert "by acl:1" in said(decisions(here, "n", "p", "up/a"), "n", "c")[0]
    assert said(decisions(here, "n", "p", "up/a"), "n", "c")[-1].startswith("match: suppress by acl: may not read")
    assert said(decisions(here, "n", "p", "down/a"), "n", None)[-1].startswith("admit: suppress by acl: may not write")


def test_of_a_group_one_has_its_turn_and_keeps_it() -> None:
    here = stage("nodes: {n: {listen: '127.0.0.1:1883'}}\nclients: {c: {node: n}, d: {node: n}, p: {node: n}}", None)
    for client in ("c", "d"):
        here.subscribe(client, "$share/g/t", no_local=False)
    for _ in range(2):
        found = decisions(here, "n", "p", "t")
        turns = [str(one.verdicts[1]) for one in found if one.outputs]
        assert turns == ["match: pass by $share/g/t: the turn of `c` among 2"]
    assert play(here, "p", "t") == {"c": ["t"]}
    assert play(here, "p", "t") == {"d": ["t"]}


def test_a_monitor_that_fails_says_so(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "class Bad:\n    def start(self): return 0\n    def step(self, state, event, now): raise ValueError('no')\n"
    )
    written = domain(
        """
        nodes: {n: {listen: "127.0.0.1:1883"}}
        clients: {p: {node: n}}
        monitors: {m: {link: p -> n, python: "bad:Bad"}}
        """
    )
    here = Rehearsal(written, ensemble(written, tmp_path))
    here.connect("p")
    (decision,) = decisions(here, "n", "p", "t")
    assert "ValueError: no" in decision.verdicts[-1].reason
    assert here.nodes["n"].stats.monitor_errors == 0


def test_a_topic_that_is_none_is_not_admitted() -> None:
    (decision,) = decisions(stage(SMART_HOME), "cloud", "phone", "a/#")
    assert decision.verdicts[0].rule == "topic"
