"""The smart home of the brokering paper (§4.3): three nodes, five devices, four policies, and a cloud that goes away.

Each node is a real `penstock run` in a process of its own, each device a real paho-mqtt client. Run by `make demo`.
Exit code 1 if anything did not happen as told.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what the examples share

from devices import Bell, Camera, Device, Lock, Motion, Phone

from examples.clients import Client
from examples.narration import Account, wait_for
from examples.nodes import NodeProcess, copy, penstock

HERE = Path(__file__).parent
SENDERS = """
# Beyond the paper: who may say what.
protocols:
  unlock:
    protocol: AC_request (AC_grant DL_unlock? | AC_deny)
    senders: {AC_request: bell, AC_grant: phone, AC_deny: phone, DL_unlock: bell}
    protects: lock
    guard: DL_unlock
"""


class Home:
    """The nodes and the devices."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "domain.yaml"
        ports = copy(HERE, folder, "domain.yaml")
        self.cloud = NodeProcess(folder, ports, "cloud")
        self.gateway = NodeProcess(folder, ports, "gateway")
        self.locks = NodeProcess(folder, ports, "locks")
        self.nodes = (self.cloud, self.gateway, self.locks)
        self.phone, self.motion, self.camera, self.bell, self.lock = Phone(), Motion(), Camera(), Bell(), Lock()
        self.devices: tuple[Device, ...] = (self.phone, self.motion, self.camera, self.bell, self.lock)

    def start(self, node: NodeProcess, account: Account) -> None:
        account.quote(f"$ penstock {' '.join(node.command)}")
        account.quote(node.start())

    def opens(self, times: int) -> bool:
        """Whether the door has been opened so many times by now; some may still be on their way."""
        return wait_for(lambda: self.lock.opened >= times) and self.lock.opened == times

    def motion_is(self, somebody: bool) -> bool:
        """The motion detector says so; whether the bell knows it."""
        self.motion.see(somebody)
        return wait_for(lambda: self.bell.somebody_home is somebody)

    def close(self) -> None:
        for device in self.devices:
            device.leave()
        for node in self.nodes:
            node.kill()


def the_policies_are_proved(account: Account, home: Home) -> None:
    account.scene("Before anything runs: what the domain file says can and cannot happen")
    account.quote("$ penstock check domain.yaml")
    code, lines = penstock(home.folder, "check", "domain.yaml")
    account.quote(lines[-1])
    account.check("the assertions are proved", code, 0)
    account.quote("$ penstock test domain.yaml")
    code, lines = penstock(home.folder, "test", "domain.yaml")
    for line in lines:
        account.quote(line)
    account.check("the policy tests pass", code, 0)
    rule = "deny: [{from: sensitive, to: internet}]"
    text = home.file.read_text(encoding="utf-8")
    assert rule in text
    (home.folder / "leaky.yaml").write_text(text.replace(rule, "deny: []"), "utf-8")
    account.quote("$ penstock check leaky.yaml     # the same without the rule of Policy 2")
    code, lines = penstock(home.folder, "check", "leaky.yaml")
    account.quote(lines[0])
    account.check("without that rule, it says which way motion would leak", (code, "phone" in lines[0]), (3, True))


def the_home_comes_up(account: Account, home: Home) -> None:
    account.scene("The three nodes start, each in a process of its own, and the devices come")
    for node in home.nodes:
        home.start(node, account)
    for device in home.devices:
        device.arrive(home.cloud.port(device.usual_port))
    account.check("the phone, in the cloud, finds the bell", home.phone.knows_of(home.bell))
    account.check("the bell, at home, finds the phone", home.bell.knows_of(home.phone))
    account.check("the lock, behind the door, finds the bell", home.lock.knows_of(home.bell))
    with Client("burglar").connect(home.gateway.port(1884)) as burglar:
        account.check("who is not listed in the domain is refused", str(burglar.greeting), "Not authorized")


def the_normal_flow(account: Account, home: Home) -> None:
    account.scene("The normal flow, in the seven steps of the paper")
    account.check("1, 2. nobody moves, and the bell knows that nobody is at home", home.motion_is(False))
    home.bell.press("aunt")
    account.check("3, 4. somebody rings, and the camera takes a picture", home.bell.hears_of("SC_send"))
    account.check("5, 6. the phone shows it to the owner, who lets her in", home.phone.shows("picture of aunt"))
    home.phone.decide(let_in=True)
    account.check("7. the bell asks for the door to be unlocked, and it opens", home.opens(1))
    home.bell.press("salesman")
    account.check("another rings, and the owner says no", home.phone.shows("picture of salesman"))
    home.phone.decide(let_in=False)
    account.check("the bell hears it", wait_for(lambda: home.bell.denied == 1))
    account.check("and the door stays shut", home.opens(1))
    account.check("somebody comes home", home.motion_is(True))
    home.bell.press("neighbour")
    account.check("now the bell asks nobody", len(home.camera.payloads("SC_request")), 2)


def motion_stays_at_home(account: Account, home: Home) -> None:
    account.scene("Policy 2: the phone asks for everything, and does not hear of motion")
    home.bell.publish("DB_battery", "87 %", qos=1, retain=True)
    home.phone.subscribe("#", qos=1)
    account.check("it hears of the bell's battery", home.phone.hears_of("DB_battery"))
    account.check("nobody is at home again, as the bell knows", home.motion_is(False))
    home.bell.press("postman")
    account.check("the phone hears of what comes after that", home.phone.shows("picture of postman"))
    home.phone.decide(let_in=False)
    wait_for(lambda: home.bell.denied == 2)
    heard = set(home.phone.topics())
    account.check("even of what is not meant for it", "SC_send" in heard)
    account.check("but nothing of motion", [topic for topic in heard if topic.startswith("MD_")], [])
    account.check("and nothing of the detector at all", "online/motion" in heard, False)


def nobody_unlocks_from_outside(account: Account, home: Home) -> None:
    account.scene("Policy 3: an unlock from the internet is discarded, even while a request is under way")
    home.bell.press("friend")
    home.phone.shows("picture of friend")
    home.phone.say("DL_unlock")
    account.check("the cloud suppresses it, before it leaves", home.cloud.logs("suppressed", "DL_unlock"))
    account.quote(home.cloud.logged("suppressed", "DL_unlock"))
    home.phone.decide(let_in=True)
    account.check("the door opens once: for the bell, after the grant", home.opens(2))


def the_bell_is_compromised(account: Account, home: Home) -> None:
    account.scene("Policy 4: a compromised bell wants the door open")
    for _ in range(3):
        home.bell.publish("DL_unlock", "please", qos=1)
    account.check("the gateway suppresses what is out of order", home.gateway.logs("suppressed", "DL_unlock"))
    account.quote(home.gateway.logged("suppressed", "DL_unlock"))
    home.bell.publish("AC_request", "picture of nobody", qos=1)
    home.bell.publish("DL_unlock", "please", qos=1)
    account.check("asking and not waiting for the answer does not help", home.phone.shows("picture of nobody"))
    home.phone.decide(let_in=False)
    wait_for(lambda: home.bell.denied == 3)
    home.bell.publish("DL_unlock", "please", qos=1)
    account.check("nor does it after a no", wait_for(lambda: _suppressed(home.gateway) == 5))
    account.check("the door has stayed shut", home.opens(2))


def _suppressed(node: NodeProcess) -> int:
    lines = node.log.read_text(encoding="utf-8").splitlines()
    return sum("suppressed" in line and "DL_unlock" in line for line in lines)


def the_cloud_is_cut_off(account: Account, home: Home) -> None:
    account.scene("Policy 1: the cloud is cut off in the middle (kill -9)")
    home.bell.press("plumber")
    account.check("the phone has been asked", home.phone.shows("picture of plumber"))
    home.cloud.kill()
    account.check("the cloud is gone", home.gateway.logs("the link is down"))
    account.check("motion still updates the bell", home.motion_is(True))
    account.check("both ways", home.motion_is(False))
    home.bell.publish("DL_unlock", "please", qos=1)
    account.check("the door is still guarded", wait_for(lambda: _suppressed(home.gateway) == 6))
    home.bell.publish("DB_battery", "86 %", qos=1)
    home.locks.kill()
    account.quote("and the power fails at the door (kill -9), with the plumber's request under way")
    home.start(home.locks, account)
    home.start(home.cloud, account)
    account.check("what the bell said meanwhile reaches the phone", home.phone.hears_of("DB_battery", "86 %"))
    home.phone.decide(let_in=True)
    account.check("both ends of the link still know that somebody asked: the door opens", home.opens(3))


def the_whole_protocol_is_forged(account: Account, home: Home) -> None:
    account.scene("Beyond the paper: a bell that grants its own request")
    home.bell.publish("AC_request", "picture of nobody", qos=1)
    home.bell.publish("AC_grant", "says the bell", qos=1)  # which it hears itself, and acts on
    account.check("M2 knows the order, not who speaks: the door opens", home.opens(4))
    with home.file.open("a", encoding="utf-8") as file:
        file.write(SENDERS)
    account.quote("to the domain file is added:")
    for line in SENDERS.strip().splitlines():
        account.quote(f"    {line}")
    account.quote("$ kill -HUP ...")
    connections = [device.connections for device in home.devices]
    account.check("the nodes take it over", [node.reload() for node in home.nodes], [True, True, True])
    home.bell.publish("AC_request", "picture of nobody", qos=1)
    code = home.bell.publish("AC_grant", "says the bell", qos=1)
    account.check("the same again: no grant is taken from the bell", str(code), "Not authorized")
    account.quote(home.gateway.logged("suppressed", "AC_grant"))
    home.phone.decide(let_in=False)
    wait_for(lambda: home.bell.denied == 4)
    home.bell.press("grandmother")
    account.check("grandmother rings", home.phone.shows("picture of grandmother"))
    home.phone.decide(let_in=True)
    account.check("the owner's grant is good", home.opens(5))
    account.check("no device had to reconnect", [device.connections for device in home.devices], connections)


def everybody_goes(account: Account, home: Home) -> None:
    account.scene("The end")
    account.check("the door was opened five times, all told above", home.lock.opened, 5)
    for device in home.devices:
        device.leave()
    account.check("the nodes end with exit code 0 on SIGTERM", [node.stop() for node in home.nodes], [0, 0, 0])


SCENES = (
    the_policies_are_proved,
    the_home_comes_up,
    the_normal_flow,
    motion_stays_at_home,
    nobody_unlocks_from_outside,
    the_bell_is_compromised,
    the_cloud_is_cut_off,
    the_whole_protocol_is_forged,
    everybody_goes,
)


def main() -> int:
    account = Account("A smart home: examples/smart-home")
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        home = Home(Path(folder))
        try:
            for scene in SCENES:
                scene(account, home)
        finally:
            home.close()
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
