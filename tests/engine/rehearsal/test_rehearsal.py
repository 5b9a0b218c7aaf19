"""Domains played in memory: who gets what, cuts, restarts, foreign brokers, orders of delivery."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.broker.store.store import Store
from penstock.domain import ensemble
from penstock.engine import governing
from penstock.engine.rehearsal.assembly import RehearsalError
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.rehearsal.wires import Wire
from penstock.policy.access.acl import Acl
from tests.support.memory.rehearsed import domain, play, stage, topics
from tests.support.models.ensembles import SMART_HOME_FILE as SMART_HOME


def test_the_smart_home_does_what_the_paper_says() -> None:
    home = stage(SMART_HOME)
    assert play(home, "motion", "MD_motion") == {"bell": ["MD_motion"], "lock": ["MD_motion"]}  # Policy 2
    assert play(home, "phone", "DL_unlock") == {}  # Policy 3
    assert "lock" not in play(home, "bell", "DL_unlock")  # Policy 4: nobody has asked
    play(home, "bell", "AC_request")
    play(home, "phone", "AC_grant")
    assert home.states("unlock-after-grant") == {("gateway", "locks"): "granted"}
    assert "lock" in play(home, "bell", "DL_unlock")
    assert home.states("unlock-after-grant") == {("gateway", "locks"): "q0"}


def test_what_nodes_tell_their_operators_is_kept() -> None:
    home = stage(SMART_HOME)
    play(home, "phone", "DL_unlock")
    assert [(one.kind, one.topic) for one in home.notices] == [("suppressed", "DL_unlock")]


def test_without_the_cloud_the_home_goes_on_and_what_was_acknowledged_comes_later() -> None:
    home = stage(SMART_HOME)
    home.cut("cloud", "gateway")
    assert play(home, "bell", "SC_request", qos=1) == {"motion": ["SC_request"], "lock": ["SC_request"]}
    assert play(home, "phone", "AC_deny", qos=0) == {}
    home.restore("gateway", "cloud")
    assert topics(home, "phone") == ["SC_request"]
    assert play(home, "phone", "AC_deny") == {name: ["AC_deny"] for name in ("motion", "bell", "lock")}


def test_a_monitor_s_state_outlives_a_restart_if_there_is_a_store(tmp_path: Path) -> None:
    stores = {name: Store(tmp_path / name, "full") for name in ("cloud", "gateway", "locks")}
    home = stage(SMART_HOME, stores=stores)
    play(home, "bell", "AC_request")
    home.restart("locks")
    assert home.states("unlock-after-grant") == {("gateway", "locks"): "asked"}
    assert "lock" in play(home, "phone", "AC_grant")


def test_without_a_store_a_node_starts_anew_and_its_clients_subscribe_again() -> None:
    home = stage(SMART_HOME)
    play(home, "bell", "AC_request")
    home.restart("locks")
    assert home.states("unlock-after-grant") == {("gateway", "locks"): "q0"}
    assert "lock" in play(home, "phone", "AC_grant")


def test_a_session_waits_for_a_client_that_is_away() -> None:
    home = stage(SMART_HOME)
    home.disconnect("lock")
    play(home, "bell", "AC_request", qos=1)
    assert topics(home, "lock") == []
    home.connect("lock")
    assert topics(home, "lock") == ["AC_request"]


def test_a_state_can_be_given() -> None:
    home = stage(SMART_HOME)
    home.put_state("unlock-after-grant", "granted")
    assert "lock" in play(home, "bell", "DL_unlock")


def test_the_order_between_links_can_be_chosen() -> None:
    # Fig. 4: a request by one client, a grant by another; which of them the lock sees first is up to the network.
    def last(wires: Sequence[Wire]) -> Wire:
        return wires[-1]

    for choose, expected in ((None, ["AC_request", "AC_grant"]), (last, ["AC_grant", "AC_request"])):
        home = stage(SMART_HOME)
        home.publish("bell", "AC_request")
        home.publish("motion", "AC_grant")
        home.assembly.choose = choose or home.assembly.choose
        home.run()
        assert topics(home, "lock") == expected


LISTED = """
nodes: {n: {listen: "127.0.0.1:1883"}}
clients:
  ann: {node: n, user: bob}
  cert: {node: n, certificate: device-7}
  inside: {node: n, id: other-id, listener: "127.0.0.1:1883"}
"""


def test_clients_show_what_the_domain_knows_them_by() -> None:
    here = stage(LISTED)
    entities = {session.place.entity: session.subject for session in here.nodes["n"].sessions.values()}
    assert {name: (one.client_id, one.user, one.certificate) for name, one in entities.items()} == {
        "ann": ("ann", "bob", None),
        "cert": ("cert", "device-7", "device-7"),
        "inside": ("other-id", None, None),
    }


def test_a_client_that_is_not_let_in_says_why_it_can_do_nothing() -> None:
    here = stage(LISTED)
    here.connect("stranger")
    assert not here.is_connected("stranger")
    assert "not one that the domain lists" in here.refusal("stranger", "n")
    with pytest.raises(RehearsalError, match="`stranger` is not connected: client `stranger` is not one"):
        here.publish("stranger", "a")


@pytest.mark.parametrize(
    ("deed", "message"),
    [
        (lambda home: home.cut("cloud", "locks"), "no link between `cloud` and `locks`"),
        (lambda home: home.restart("moon"), "no node `moon`"),
        (lambda home: home.connect("phone", "moon"), "no node `moon`"),
        (lambda home: home.connect("somebody"), "`somebody` is not listed: say which node"),
        (lambda home: home.connect("cloud"), "`cloud` is not a client"),
        (lambda home: home.put_state("nothing", "q0"), "no monitor `nothing`"),
    ],
)
def test_what_cannot_be_played_is_said(deed: object, message: str) -> None:
    home = stage(SMART_HOME)
    assert callable(deed)
    with pytest.raises(RehearsalError, match=message):
        deed(home)


FOREIGN = """
nodes: {n: {listen: "127.0.0.1:1883"}}
links: [{between: [n, legacy]}]
foreign: {legacy: {address: "127.0.0.1:1999", version: 4, out: [x, y], in: [x, z]}}
clients: {c: {node: n}, p: {node: n}}
monitors:
  m:
    link: [n -> legacy, n -> c]
    states: {q0: {x: {pass: true, next: q1}, "*": pass}, q1: {"*": pass}}
"""


def test_a_foreign_broker_gets_and_gives_what_the_domain_says() -> None:
    here = stage(FOREIGN)
    assert play(here, "p", "x") == {"legacy": ["x"], "c": ["x"]}
    assert play(here, "p", "z") == {"c": ["z"]}
    assert play(here, "legacy", "z", qos=2) == {"c": ["z"], "p": ["z"]}
    assert play(here, "legacy", "y") == {}


def test_a_monitor_that_looks_on_sends_nothing_back_to_where_it_came_from() -> None:
    here = stage(FOREIGN)
    assert play(here, "legacy", "x") == {"c": ["x"], "p": ["x"]}
    assert here.states("m")["n", "legacy"] == "q0"


def test_a_monitor_that_looks_on_opens_nothing_that_rights_close(tmp_path: Path) -> None:
    rights = tmp_path / "acl"
    rights.write_text("topic write x\ntopic readwrite y\n")
    here = stage(FOREIGN, acls={"n": Acl.read(rights)})
    assert "c" not in play(here, "p", "x")
    assert here.states("m")["n", "c"] == "q1"
    assert "c" in play(here, "p", "y")


def test_rings_end() -> None:
    ring = """
    nodes: {a: {listen: "127.0.0.1:1"}, b: {listen: "127.0.0.1:2"}, c: {listen: "127.0.0.1:3"}}
    links: [{between: [a, b]}, {between: [b, c]}, {between: [c, a]}]
    clients: {at-a: {node: a}, at-b: {node: b}}
    """
    assert play(stage(ring), "at-a", "t", qos=1)["at-b"][0] == "t"


def test_a_monitor_that_fails_at_a_reload_does_not_stop_it_half_way(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "class Bad:\n"
        "    def start(self): return 0\n"
        "    def step(self, state, event, now): return state + 1, (event,)\n"
        "    def resume(self, stored): raise RuntimeError('at resuming')\n"
        "    def close(self, state): raise RuntimeError('at closing')\n"
    )
    plain = 'nodes: {n: {listen: "127.0.0.1:1"}}\nclients: {c: {node: n}, p: {node: n}}\n'
    watched = plain + 'monitors: {m: {link: [p -> n, n -> c], python: "bad:Bad"}}\n'
    monitored = domain(watched)
    here = Rehearsal(monitored, ensemble(monitored, tmp_path))
    for client in ("c", "p"):
        here.connect(client)
        here.subscribe(client, "#")
    assert play(here, "p", "x") == {"c": ["x"]}
    node = here.nodes["n"]
    for text, said in ((watched, "RuntimeError: at resuming; it begins anew"), (plain, "RuntimeError: at closing")):
        governing.govern(node, node.limits, None, None, ensemble(domain(text), tmp_path))
        here.run()
        assert [one.reason for one in here.notices[-2:]] == [
            f"link {at}: monitor `m`: {said}" for at in ("n -> c", "p -> n")
        ]
    assert play(here, "p", "x") == {"c": ["x"]}


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_retained_does_not_go_back_to_where_it_came_from(restarted: bool, tmp_path: Path) -> None:
    two = """
    nodes: {a: {listen: "127.0.0.1:1"}, b: {listen: "127.0.0.1:2", brokering: {deny: []}}}
    links: [{between: [b, a], type: plain, back: secret}]
    clients: {safe: {node: a, type: secret}, out: {node: a, type: plain}, at-b: {node: b, type: secret}}
    brokering: {types: [plain, secret], deny: [{from: secret, to: plain}]}
    """
    here = stage(two, subscribe=None, stores={name: Store(tmp_path / name, "full") for name in "ab"})
    here.subscribe("at-b", "t")
    here.run()
    assert play(here, "safe", "t", b"old", retain=True) == {"at-b": ["t"]}
    here.unsubscribe("at-b", "t")
    here.run()
    play(here, "safe", "t", b"new", retain=True)  # nobody beyond wants it: b still has the old one
    if restarted:
        here.restart("b")
    here.subscribe("out", "t")  # now a wants it of b
    here.subscribe("safe", "t", no_local=False)
    here.run()
    assert topics(here, "out") == []
    assert [one.payload for one in here.deliveries("safe")] == [b"new"]


def test_patterns_are_played_as_they_expand() -> None:
    written = domain(
        """
        nodes: {A: {listen: "127.0.0.1:1"}, B: {listen: "127.0.0.1:2"}, C: {listen: "127.0.0.1:3"}}
        clients: {one: {node: B}, two: {node: C}}
        patterns: [{pattern: hierarchy, parents: {B: A, one: B, two: C}}]
        """
    )
    rehearsal = Rehearsal(written, ensemble(written))
    for client in ("one", "two"):
        rehearsal.connect(client)
        rehearsal.subscribe(client, "#")
    assert play(rehearsal, "one", "a") == {}


BEHIND = """
nodes: {n1: {listen: "127.0.0.1:1"}, n2: {listen: "127.0.0.1:2"}, n3: {listen: "127.0.0.1:3"}}
links: [{between: [n1, old]}, {between: [n1, n2]}, {between: [n2, n3]}, {between: [n1, n3]}]
foreign: {old: {address: "127.0.0.1:1999", in: ["#"]}}
clients: {near: {node: n1}, far: {node: n2}}
"""


@pytest.mark.parametrize(
    "told",
    [("penstock-path", "n2"), ("penstock-path", "n1"), ("penstock-id", "x"), ("penstock-replay", "1"), ("mine", "x")],
)
def test_what_only_nodes_say_is_not_believed_of_a_foreign_broker(told: tuple[str, str]) -> None:
    here = stage(BEHIND)
    for _ in range(2):
        assert play(here, "old", "t", b"1", properties=(told,)) == {"near": ["t"], "far": ["t"]}, told
    (last,) = here.deliveries("far")[-1:]
    assert last.properties == (() if told[0].startswith("penstock-") else (told,))


def test_a_foreign_broker_that_has_contracts_publishes_nothing_else() -> None:
    here = stage(f"""{BEHIND}
contracts:
  producers:
    loc: {{producer: old, filter: old/loc, where: "x == 1"}}
""")
    for topic, payload, gets in (("old/loc", b'{"x": 1}', True), ("old/loc", b'{"x": 2}', False), ("t", b"1", False)):
        assert bool(play(here, "old", topic, payload)) is gets, topic
