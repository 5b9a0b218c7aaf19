"""The smart home of brokering §4.3, as the example's domain file has it: four policies, real nodes, real clients."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.clients.paho import Paho
from tests.support.models.automata import M2, automaton, topics
from tests.support.processes.commands import penstock, run, until
from tests.support.processes.federation import Nodes, federated

FILE = Path(__file__).parent.parent.parent / "examples" / "smart-home" / "domain.yaml"
AT = {"phone": "cloud", "motion": "gateway", "camera": "gateway", "bell": "gateway", "lock": "locks"}
PROTOCOL = ("AC_request", "AC_grant", "AC_deny", "DL_unlock")
TOPICS = ("MD_motion", "MD_no_motion", "SC_request", "SC_send", *PROTOCOL)


def smart_home() -> dict[str, Any]:
    """The example's domain, for nodes on ports that are free."""
    domain: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    del domain["assertions"], domain["tests"]  # not needed to run; PyYAML by itself takes the key `on` for true
    for settings in domain["nodes"].values():
        del settings["listen"]
    return domain


class Devices:
    """Clients that hear everything that reaches them but what they say themselves."""

    def __init__(self, nodes: Nodes, stack: ExitStack, *names: str) -> None:
        self.clients = {name: stack.enter_context(Paho(name).connects(nodes.ports[AT[name]])) for name in names}
        for client in self.clients.values():
            client.subscribe("#", 2, noLocal=True)
        for name in names:
            for other in names:
                if name != other and (other, name) != ("motion", "phone"):  # where nothing can be awaited
                    self._settle(name, other)
        self.fences = 0

    def _settle(self, name: str, publisher: str) -> None:
        """Interest takes a moment to travel: wait until one hears the other."""
        topic = f"settle/{publisher}/{name}"

        def is_heard() -> bool:
            self[publisher].publish(topic, b"", 1)
            found = [self[name].receive().topic for _ in range(self[name].messages.qsize())]
            return topic in found

        until(is_heard, f"{name} hears {publisher}")

    def __getitem__(self, name: str) -> Paho:
        return self.clients[name]

    def heard(self, name: str, publisher: str) -> list[str]:
        """The paper's topics that have come to one since it was last asked, up to what another says now."""
        self.fences += 1
        fence = f"fence/{self.fences}"
        self[publisher].publish(fence, b"", 2)  # QoS 2: paho hands over no message of another QoS later than this one
        found: list[str] = []
        while (topic := self[name].receive().topic) != fence:
            found.append(topic)
        return [topic for topic in found if topic in TOPICS]


@pytest.fixture(scope="module")
def home() -> Iterator[Nodes]:
    with federated(smart_home()) as nodes:
        yield nodes


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


def test_the_example_checks_and_its_assertions_are_proved() -> None:
    code, printed, _ = run(penstock("check", "--strict", str(FILE)))
    assert code == 0
    assert "assertions proved" in printed


@pytest.mark.parametrize(
    ("written", "instead", "broken"),
    [
        ("deny: [{from: sensitive, to: internet}]", "deny: []", "never: motion to phone"),
        ('q0: {DL_unlock: suppress, "*": pass}}', 'q0: {"*": pass}}', "never: phone to lock"),
        ("bell: {node: gateway, type: door}", "bell: {node: gateway, type: sensitive}", "can: bell to phone"),
    ],
    ids=["policy 2", "policy 3", "the normal flow"],
)
def test_the_assertions_notice_when_something_is_missing(
    written: str, instead: str, broken: str, tmp_path: Path
) -> None:
    text = FILE.read_text(encoding="utf-8")
    assert text.count(written) == 1
    (tmp_path / "domain.yaml").write_text(text.replace(written, instead))
    code, _, errors = run(penstock("check", str(tmp_path / "domain.yaml")))
    assert code == 3
    assert broken in errors


def test_the_example_is_in_canonical_form() -> None:
    code, _, errors = run(penstock("fmt", "--check", str(FILE)))
    assert code == 0, errors


def test_its_policy_tests_pass() -> None:
    code, printed, _ = run(penstock("test", str(FILE)))
    assert code == 0, printed


def test_the_play_goes_as_told() -> None:
    done = subprocess.run([sys.executable, str(FILE.parent / "play.py")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.recorded
def test_looking_back_goes_as_told() -> None:
    script = FILE.parent / "looking_back.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_policy_1_the_home_goes_on_without_the_cloud(stack: ExitStack) -> None:
    nodes = stack.enter_context(federated(smart_home()))
    devices = Devices(nodes, stack, "motion", "bell", "camera", "lock")
    phone = stack.enter_context(Paho("phone", clean=False))
    phone.connects(nodes.ports["cloud"], SessionExpiryInterval=600).subscribe("AC_request", 1)
    nodes.kill("cloud")
    nodes.until_logged("gateway", "the link is down", "neighbour=cloud")
    for topic in ("MD_motion", "MD_no_motion"):
        devices["motion"].publish(topic, b"", 1)
    assert devices.heard("bell", "motion") == ["MD_motion", "MD_no_motion"]
    devices["bell"].publish("SC_request", b"", 1)
    assert "SC_request" in devices.heard("camera", "bell")
    devices["bell"].publish("DL_unlock", b"", 1)
    assert "DL_unlock" not in devices.heard("lock", "bell"), "the door is guarded without the cloud too"
    nodes.start("cloud")
    nodes.until_logged("gateway", "linked", "neighbour=cloud", times=2)
    phone.connections.get(timeout=20)
    devices["bell"].publish("AC_request", b"picture", 1)
    assert phone.receive().payload == b"picture", "the cloud is back"


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_policy_2_motion_does_not_leave_the_home(home: Nodes, stack: ExitStack, qos: int, retain: bool) -> None:
    devices = Devices(home, stack, "motion", "bell", "phone")
    for topic in ("MD_motion", "MD_no_motion"):
        devices["motion"].publish(topic, b"at home", qos, retain)
    assert devices.heard("bell", "motion") == ["MD_motion", "MD_no_motion"]
    assert devices.heard("phone", "bell") == [], "the fence comes on the same link, behind what came before it"
    devices["phone"].subscribe("MD_motion", 1)
    devices["phone"].subscribe("MD_no_motion", 1)
    assert devices.heard("phone", "bell") == [], "nor what is retained"
    for topic in ("MD_motion", "MD_no_motion"):
        devices["motion"].publish(topic, b"", 1, retain=True)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_policy_3_an_unlock_from_the_internet_is_discarded(home: Nodes, stack: ExitStack, qos: int) -> None:
    devices = Devices(home, stack, "phone", "bell", "lock")
    devices["bell"].publish("AC_request", b"", 1)
    assert devices.heard("lock", "bell") == ["AC_request"]
    devices["phone"].publish("AC_grant", b"", 1)
    devices["phone"].publish("DL_unlock", b"", qos)
    assert devices.heard("bell", "phone") == ["AC_grant"]
    assert devices.heard("lock", "phone") == ["AC_grant"], "though an unlock would now be in order"
    devices["bell"].publish("DL_unlock", b"", qos)
    assert devices.heard("lock", "bell") == ["DL_unlock"], "from within the home it is taken"


def _play(devices: Devices, words: list[str], qos: int) -> list[str]:
    """What the lock hears when the phone grants and denies, and a bell out of its mind says the rest."""
    heard: list[str] = []
    for word in words:
        sender = "phone" if word in ("AC_grant", "AC_deny") else "bell"
        devices[sender].publish(word, b"", qos)
        heard += devices.heard("lock", sender)
    return heard


@pytest.mark.parametrize(
    ("said", "unlocks"),
    [
        ("AC_request AC_grant DL_unlock", 1),
        ("AC_request AC_deny", 0),
        ("DL_unlock", 0),
        ("AC_request DL_unlock AC_grant DL_unlock", 1),
        ("AC_request AC_deny DL_unlock", 0),
        ("AC_grant DL_unlock", 0),
        ("AC_request AC_grant DL_unlock DL_unlock", 1),
        ("AC_request AC_grant DL_unlock AC_grant DL_unlock", 1),
    ],
)
def test_policy_4_an_unlock_only_as_the_last_of_the_protocol(
    home: Nodes, stack: ExitStack, said: str, unlocks: int
) -> None:
    devices = Devices(home, stack, "phone", "bell", "lock")
    try:
        heard = _play(devices, said.split(), 1)
        assert heard.count("DL_unlock") == unlocks
        assert " ".join(heard) == topics(automaton(M2), said), "and all else as Fig. 4 says"
    finally:
        _play(devices, ["AC_deny", "AC_request", "AC_grant", "DL_unlock"], 1)  # from any state to the first


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_policy_4_random_histories_are_edited_as_by_figure_4(home: Nodes, stack: ExitStack, qos: int) -> None:
    words = random.Random(qos).choices(PROTOCOL, k=40)
    words += ["AC_deny", "AC_request", "AC_grant", "DL_unlock"]
    devices = Devices(home, stack, "phone", "bell", "lock")
    assert " ".join(_play(devices, words, qos)) == topics(automaton(M2), " ".join(words))
