"""`penstock explain`, as its own process, for a file and for live nodes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.clients.paho import Paho
from tests.support.models.ensembles import SMART_HOME_FILE as SMART_HOME
from tests.support.processes.admin import ask
from tests.support.processes.commands import penstock, run, until
from tests.support.processes.federation import Nodes, together
from tests.support.processes.mosquitto import free_port


@pytest.fixture
def home(tmp_path: Path) -> str:
    file = tmp_path / "home.yaml"
    file.write_text(SMART_HOME, encoding="utf-8")
    return str(file)


def explain(*arguments: str) -> str:
    code, out, err = run(penstock("explain", *arguments))
    assert (code, err) == (0, "")
    return out


def test_every_stage_and_the_rule_that_spoke(home: str) -> None:
    out = explain(home, "--from", "motion", "--topic", "MD_motion")
    lines = [line.split() for line in out.splitlines()]
    assert ["gateway", "motion", "cloud", "admit", "pass", "-", "-"] in lines
    assert ["route", "suppress", "brokering", "denied", "by", "`deny`"] in [line[:6] for line in lines]
    assert "bell gets `MD_motion`" in out
    expected = "phone gets nothing\n  gateway -> cloud: route: suppress by brokering: denied by `deny` from `sensitive`"
    assert expected in out


def test_only_what_leads_to_one(home: str) -> None:
    out = explain(home, "--from", "bell", "--topic", "DL_unlock", "--to", "lock")
    assert "gateway -> locks: shape: suppress by unlock-after-grant: in state `q0`" in out
    assert "phone" not in out
    assert "cloud" not in out


@pytest.mark.parametrize("state", ["unlock-after-grant=granted", "unlock-after-grant@gateway -> locks=granted"])
def test_a_state_can_be_said(home: str, state: str) -> None:
    out = explain(home, "--from", "bell", "--topic", "DL_unlock", "--to", "lock", "--state", state)
    assert "lock gets `DL_unlock`" in out


def test_subscriptions_can_be_said(home: str) -> None:
    arguments = [home, "--from", "bell", "--topic", "a/b", "--subscribed", "lock=a/+", "--subscribed", "phone=x"]
    out = explain(*arguments)
    assert "lock gets `a/b`" in out
    assert "gateway -> cloud: match: suppress: nobody beyond `cloud` subscribes to `a/b`" in out


def test_clients_that_are_not_listed(tmp_path: Path) -> None:
    file = tmp_path / "open.yaml"
    file.write_text("nodes: {a: {listen: '127.0.0.1:1'}, b: {listen: '127.0.0.1:2'}}\nlinks: [{between: [a, b]}]")
    out = explain(str(file), "--from", "ann", "--at", "a", "--topic", "x", "--subscribed", "bob@b=#")
    assert "bob gets `x`" in out


def test_as_json(home: str) -> None:
    explained = json.loads(explain(home, "--from", "bell", "--topic", "x", "--payload", "hi", "--qos", "1", "--json"))
    assert explained["event"] == {"topic": "x", "payload": "hi", "encoding": "utf-8", "qos": 1, "retain": False}
    (towards_lock,) = (decision for decision in explained["decisions"] if decision["node"] == "locks")
    assert [verdict["stage"] for verdict in towards_lock["verdicts"]] == ["admit", "edit", "match", "route", "emit"]
    assert towards_lock["outputs"][0]["qos"] == 1
    assert set(explained["receivers"]) == {"phone", "motion", "lock"}


def test_topics_that_wildcards_do_not_match(home: str) -> None:
    assert "lock gets `$own/x`" in explain(home, "--from", "bell", "--topic", "$own/x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topic", "x", "--from", "nobody", "--at", "cloud"], "`nobody` has no place at node `cloud`"),
        (["--topic", "x", "--from", "nobody"], "say which with --at"),
        (["--topic", "x", "--from", "bell", "--at", "moon"], "no node `moon`"),
        (["--topic", "x/#", "--from", "bell"], "wildcard `#`"),
        (["--topic", "x", "--from", "bell", "--to", "nobody"], "no client or foreign broker `nobody`"),
        (["--topic", "x", "--from", "bell", "--state", "x"], "expected MONITOR=STATE"),
        (["--topic", "x", "--from", "bell", "--state", "none=q0"], "no monitor `none`"),
        (["--topic", "x", "--from", "bell", "--state", "unlock-after-grant=q7"], "has no state `q7`"),
        (["--topic", "x", "--from", "bell", "--subscribed", "nobody=#"], "`nobody` is not listed: say which node"),
        (["--topic", "x", "--from", "bell", "--subscribed", "nobody@cloud=#"], "`nobody` is not connected"),
        (["--topic", "x", "--from", "bell", "--subscribed", "lock"], "expected CLIENT=FILTER"),
        (["--topic", "x", "--from", "bell", "--subscribed", "lock=a#"], "wildcard `#`"),
        (["--topic", "x", "--from", "bell", "--node", "http://127.0.0.1:1"], "either FILE or --node"),
        (["--topic", "x"], "--from"),
    ],
)
def test_bad_arguments(home: str, arguments: list[str], message: str) -> None:
    code, out, err = run(penstock("explain", home, *arguments))
    assert (code, out) == (2, "")
    assert message in err


PLANT = """
nodes: {here: {listen: "127.0.0.1:1883"}}
content: [{topics: t/#, format: json, schema: {v: int}}]
clients: {sensor: {node: here}, fan: {node: here}, pump: {node: here}}
"""


@pytest.fixture
def plant(tmp_path: Path) -> str:
    (tmp_path / "plant.yaml").write_text(PLANT, encoding="utf-8")
    return str(tmp_path / "plant.yaml")


def test_what_is_assumed_is_said(plant: str) -> None:
    arguments = [plant, "--from", "sensor", "--topic"]
    assert "assumed: every client is connected and subscribes to `#`; " in explain(*arguments, "t")
    assert "subscribes to `#` and `$x/#`; " in explain(*arguments, "$x/t")
    assert "there are only the subscriptions of --subscribed" in explain(*arguments, "t", "--subscribed", "fan=t")


def test_subscriptions_may_have_conditions(plant: str) -> None:
    arguments = [plant, "--from", "sensor", "--topic", "t/1", "--payload", '{"v": 3}']
    out = explain(*arguments, "--subscribed", "fan=t/+ where v > 2", "--subscribed", "pump=$share/g/t/# where v > 3")
    assert "fan gets `t/1" in out
    assert "subscription of `pump` to `$share/g/t/#`: `v > 3` is false" in out


def test_the_content_type_and_any_bytes_can_be_said(plant: str, tmp_path: Path) -> None:
    (tmp_path / "payload").write_bytes(b'\xef\xbb\xbf{"v": 3}')
    arguments = [plant, "--from", "sensor", "--topic", "t/1", "--subscribed", "fan=t/+ where v > 2"]
    assert "fan gets" in explain(*arguments, "--payload-file", str(tmp_path / "payload"))
    (tmp_path / "payload").write_bytes(b"\xff")
    assert "not JSON" in explain(*arguments, "--payload-file", str(tmp_path / "payload"))
    out = explain(*arguments, "--payload", '{"v": 3}', "--content-type", "text/plain")
    assert "its content type says text, and on this topic it is json" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--subscribed", "fan=t/+ where v >"], "expected"),
        (["--subscribed", "fan=t/+ where v > 'x'"], "does not take an int and a string"),
        (["--payload-file", "nothing-here"], "`nothing-here` cannot be read"),
        (["--payload", "x", "--payload-file", "y"], "not allowed with argument"),
    ],
)
def test_bad_content(plant: str, arguments: list[str], message: str) -> None:
    code, out, err = run(penstock("explain", plant, "--from", "sensor", "--topic", "t/1", *arguments))
    assert (code, out) == (2, "")
    assert message in err


def test_a_domain_that_does_not_check(tmp_path: Path) -> None:
    file = tmp_path / "domain.yaml"
    file.write_text("nodes: {n: {listen: nowhere}}")
    code, out, err = run(penstock("explain", str(file), "--from", "x", "--topic", "y"))
    assert (code, out) == (3, "")
    assert "domain.yaml:1: nodes.n.listen" in err


# --- live nodes


@pytest.fixture
def live() -> Iterator[tuple[Nodes, str]]:
    """All nodes of the smart home in one process, and the admin address of the gateway."""
    domain: dict[str, Any] = yaml.safe_load(SMART_HOME)
    admin = f"127.0.0.1:{free_port()}"
    for settings in domain["nodes"].values():
        del settings["listen"]
        settings["store"] = "memory"
    domain["nodes"]["gateway"]["admin"] = admin
    with together(domain, links=2) as nodes:
        yield nodes, f"http://{admin}"


def test_a_live_node_says_why_as_things_are_now(live: tuple[Nodes, str]) -> None:
    nodes, admin = live
    arguments = ["--node", admin, "--from", "bell", "--topic", "DL_unlock", "--to", "lock"]
    with Paho("lock").connects(nodes.ports["locks"]) as lock, Paho("bell").connects(nodes.ports["gateway"]) as bell:
        lock.subscribe("#", 1)
        until(lambda: "unlock-after-grant" in explain(*arguments), "the lock's interest is known at the gateway")
        assert "gateway -> locks: shape: suppress by unlock-after-grant: in state `q0`" in explain(*arguments)
        bell.publish("AC_request", b"", 1)
        assert lock.receive().topic == "AC_request"
        bell.publish("AC_grant", b"", 1)
        assert lock.receive().topic == "AC_grant"
        for _ in range(2):  # asking changes nothing
            assert "lock gets `DL_unlock`" in explain(*arguments)


def test_a_live_node_is_told_content_type_and_bytes(live: tuple[Nodes, str], tmp_path: Path) -> None:
    nodes, admin = live
    (tmp_path / "payload").write_bytes(b"\xff" + bytes(100_000))
    arguments = [
        "--node",
        admin,
        "--from",
        "bell",
        "--topic",
        "x",
        "--payload-file",
        str(tmp_path / "payload"),
        "--json",
    ]
    with Paho("motion").connects(nodes.ports["gateway"]) as motion:
        motion.subscribe("x", 1)
        explained = json.loads(explain(*arguments, "--content-type", "application/json"))
    assert explained["event"]["encoding"] == "base64"
    assert len(explained["receivers"]["motion"]["gets"]) == 1


def test_a_client_that_is_not_there_is_told_about(live: tuple[Nodes, str]) -> None:
    out = explain("--node", live[1], "--from", "bell", "--topic", "x", "--to", "motion")
    assert "`motion` has no session here" in out


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("topic=x", "`from` is missing"),
        ("from=bell", "`topic` is missing"),
        ("from=bell&topic=a/%23", "wildcard"),
        ("from=bell&topic=x&qos=3", "`qos` is 0, 1 or 2"),
        ("from=mallory&topic=x", "`mallory` has no place at node `gateway`"),
    ],
)
def test_bad_questions_are_answered_with_what_is_wrong(live: tuple[Nodes, str], query: str, message: str) -> None:
    status, _, body = ask(f"{live[1]}/api/explain?{query}")
    assert status == 400
    assert message in json.loads(body)["error"]


def test_a_node_that_cannot_be_asked(live: tuple[Nodes, str]) -> None:
    code, _, err = run(penstock("explain", "--node", "http://127.0.0.1:1", "--from", "x", "--topic", "y"))
    assert (code, "cannot be reached" in err) == (1, True)
    code, _, err = run(penstock("explain", "--node", live[1], "--from", "mallory", "--topic", "y"))
    assert (code, "has no place" in err) == (1, True)


# --- policy statements

RULE = "PolicyStatement {{ On(Forward, Publication) {{ {} }} }}"
POLICIES: dict[str, Any] = {
    "nodes": {"a": {"listen": "127.0.0.1:1"}, "b": {"listen": "127.0.0.1:2"}},
    "links": [{"between": ["a", "b"]}],
    "clients": {"p": {"node": "a"}, "q": {"node": "a"}, "s": {"node": "b"}},
    "trust_groups": {"inner": {"secret": {"env": "INNER"}, "clients": ["p"]}},
    "statements": {
        "policies": {
            "hot": RULE.format("@matching: Before If {x > 100} Then {BlockMessage(), Log()}"),
            "names": RULE.format("@broker: Egress If {Receiver() == 's'} Then {RemoveAttributes(name), Log(seen)}"),
            "members": RULE.format("@broker: Ingress If {!AuthenticateSender(inner)} Then {BlockMessage()}"),
        },
        "apply": [
            {"policy": "hot", "to": "publication", "of": ["p", "q"]},
            {"policy": "members", "to": "publication", "of": ["p", "q"], "filter": "inner/#"},
            {"policy": "names", "to": "subscription", "of": ["s"]},
        ],
        "grants": [{"to": ["p"], "set": ["publication"], "elements": ["BlockMessage", "Broker"]}],
    },
}


@pytest.fixture
def judged(tmp_path: Path) -> str:
    file = tmp_path / "judged.yaml"
    file.write_text(yaml.safe_dump(POLICIES))
    return str(file)


def rows(out: str) -> list[str]:
    """Return the verdicts of the stage judge, and where."""
    at = ""
    outputs = []
    for line in out.splitlines():
        at = line.split()[0] if line[:1].strip() else at
        if " judge " in line:
            outputs.append(f"{at}: {' '.join(line.split('judge')[1].split())}")
    return outputs


def test_what_policies_say_at_each_node(judged: str) -> None:
    out = explain(judged, "--from", "p", "--topic", "t", "--payload", '{"x": 1, "name": "n"}', "--to", "s")
    assert rows(out) == [
        "b: replace names#1.1 `Receiver() == 's'` holds: RemoveAttributes(name), Log(seen)",
    ]
    assert 's gets `t {"x":1}`' in out
    out = explain(judged, "--from", "p", "--topic", "t", "--payload", '{"x": 101}', "--to", "s")
    assert rows(out) == ["a: suppress hot#1.1 `x > 100` holds: BlockMessage(), Log()"]
    assert "s gets nothing\n  a: judge: suppress by hot#1.1" in out


def test_a_policy_that_is_attached_goes_on_to_the_next_node(judged: str) -> None:
    arguments = (judged, "--topic", "t", "--payload", '{"x": 1}', "--to", "s", "--policy")
    policy = RULE.format("If {Broker() == 'b'} Then {BlockMessage()}")
    out = explain(*arguments, policy, "--from", "p")
    assert rows(out) == ["b: suppress attached policy#1.1 `Broker() == 'b'` holds: BlockMessage()"]
    out = explain(*arguments, policy, "--from", "q")
    assert "s gets nothing\n  a: admit: suppress by policy: policy: `q` may not set policies on publications" in out
    code, _, err = run(penstock("explain", *arguments, "PolicyStatement {", "--from", "p"))
    assert (code, "--policy: expected `On`" in err) == (2, True)


def test_who_publishes_is_asked_about_though_not_connected(judged: str) -> None:
    arguments = (judged, "--topic", "inner/t", "--to", "s", "--payload", '{"x": 1}')
    assert "s gets `inner/t" in explain(*arguments, "--from", "p")
    out = explain(*arguments, "--from", "q")
    assert rows(out) == ["a: suppress members#1.1 `!AuthenticateSender(inner)` holds: BlockMessage()"]
