"""A shift in the factory of the sparkplug paper's Example 1: machines, a SCADA host, an analytics service from outside.

The nodes are real, and so are the Sparkplug clients: pysparkplug, each in a process of its own. Run by `make demo`.
Exit code 1 if anything did not happen as told.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what the examples share

from examples.narration import Account
from examples.nodes import NodeProcess, copy, penstock
from examples.sparkplug import Program, Said, edge, host

HERE = Path(__file__).parent
PORTS = {"floor": 1883, "office": 1884}
PRESS, OVEN = "Works/Press", "Works/Oven"
SEEN = {"Node Control/Rebirth": False, "Speed": 100, "Torque": 3.5, "bdSeq": 0}
MACHINE = {"Speed": 100, "Torque": 3.5, "Recipe/Alloy": "7075", "Recipe/Time": 40}
REPORTS = 300


class Factory:
    """The nodes, the machines, and who listens to them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        ports = copy(HERE, folder, "domain.yaml")
        self.folder = folder
        self.nodes = {name: NodeProcess(folder, ports, name) for name in PORTS}
        self.programs: dict[str, Program] = {}
        self._stack = stack
        for node in self.nodes.values():
            stack.callback(node.kill)

    def port(self, node: str) -> int:
        return self.nodes[node].port(PORTS[node])

    def add(self, name: str, program: Program) -> Program:
        self.programs[name] = self._stack.enter_context(program)
        return program

    def __getitem__(self, name: str) -> Program:
        return self.programs[name]


def values(said: list[Said]) -> list[dict[str, object]]:
    return [one["metrics"] for one in said]


def the_nodes_start(account: Account, factory: Factory) -> None:
    account.scene("The domain file is checked, and its two nodes start")
    code, lines = penstock(factory.folder, "check", "domain.yaml")
    for line in lines:
        account.quote(line)
    account.check("the domain checks", code, 0)
    for node in factory.nodes.values():
        account.quote(node.start())
    account.check("they are linked", factory.nodes["floor"].logs("linked", "neighbour=office"))


def everybody_comes(account: Account, factory: Factory) -> None:
    account.scene("SCADA listens on the floor, analytics in the office; then the press is born")
    filters = ("spBv1.0/Works/+/Press", "spBv1.0/Works/+/Oven")
    for name, node in (("scada", "floor"), ("analytics", "office")):
        listener = factory.add(name, host(factory.port(node), name, *filters))
        account.check(f"{name} has subscribed", listener.hears(ready=True))
    press = factory.add("press", edge(factory.port("floor"), PRESS, MACHINE, "press"))
    account.check("the press is born", press.hears(born=True))
    account.check("SCADA sees all of it", factory["scada"].hears(type="NBIRTH", metrics={**SEEN, **MACHINE}))
    if not factory["analytics"].hears(patience=2.0, type="NBIRTH"):  # interest takes a moment to travel between nodes
        factory["scada"].tell(order=PRESS, metrics={"Node Control/Rebirth": True})
    account.check("analytics does not see the recipe", factory["analytics"].hears(type="NBIRTH", metrics=SEEN))


def a_value_is_sensitive(account: Account, factory: Factory) -> None:
    account.scene("The press works; while its torque is more than 5, it is nobody's business outside")
    press, scada, analytics = factory["press"], factory["scada"], factory["analytics"]
    for report in ({"Torque": 4.5}, {"Torque": 8.5, "Speed": 120}, {"Speed": 130}, {"Torque": 5.0}):
        press.tell(report=report)
        account.quote(f"the press reports {report}")
    account.check("SCADA hears all four", scada.hears(4, type="NDATA"))
    account.check("so does analytics", analytics.hears(4, type="NDATA"))
    expected = [{"Torque": 4.5}, {"Speed": 120}, {"Speed": 130}, {"Torque": 5.0}]
    account.check("but not of the torque of 8.5", values(analytics.heard(type="NDATA")), expected)


def nobody_asks_again(account: Account, factory: Factory) -> None:
    account.scene(f"{REPORTS} reports, half of them about the recipe only")
    press, scada, analytics = factory["press"], factory["scada"], factory["analytics"]
    for number in range(REPORTS):
        press.tell(report={"Recipe/Time": number} if number % 2 else {"Speed": number, "Recipe/Alloy": str(number)})
    account.check("SCADA has all of them", scada.hears(4 + REPORTS, type="NDATA"))
    account.check("analytics has as many messages", analytics.hears(4 + REPORTS, type="NDATA"))
    numbers = [one["seq"] for one in analytics.heard(type="NDATA")]
    account.check("their `seq` has no gap", numbers, [(1 + place) % 256 for place in range(4 + REPORTS)])
    account.check("no recipe is in any of them", any("Recipe" in str(one) for one in analytics.said), False)
    account.check("its client could make sense of all", [one for one in analytics.said if "error" in one], [])


def orders_are_given(account: Account, factory: Factory) -> None:
    account.scene("Orders")
    press, scada, analytics = factory["press"], factory["scada"], factory["analytics"]
    analytics.tell(order=PRESS, metrics={"Speed": 0})
    account.check("analytics stops the press: it is refused", factory.nodes["office"].logs("publish denied", "NCMD"))
    account.quote(factory.nodes["office"].logged("publish denied", "NCMD"))
    births = len(analytics.heard(type="NBIRTH"))
    analytics.tell(order=PRESS, metrics={"Node Control/Rebirth": True})
    account.check("it asks for a rebirth: it is done", analytics.hears(births + 1, type="NBIRTH"))
    scada.tell(order=PRESS, metrics={"Speed": 80})
    account.check("SCADA orders another speed: it is done", press.hears(ordered={"Speed": 80}))
    account.check("the press never heard of the first order", press.heard(ordered={"Speed": 0}), [])


def a_machine_poses_as_another(account: Account, factory: Factory) -> None:
    account.scene("The oven's computer says that it is the press")
    floor = factory.nodes["floor"]
    births = len(factory["scada"].heard(type="NBIRTH", source=PRESS))
    with edge(factory.port("floor"), PRESS, {"Speed": 1}, "oven"):
        account.check("it is refused", floor.logs("publish denied", "client=oven", "nobody else speaks for it"))
        account.quote(floor.logged("publish denied", "client=oven"))
    factory.add("oven", edge(factory.port("floor"), OVEN, {"Heat": 900, "Recipe/Time": 3}, "oven"))
    account.check("as itself it is welcome", factory["scada"].hears(type="NBIRTH", source=OVEN))
    account.check("SCADA saw no false press", len(factory["scada"].heard(type="NBIRTH", source=PRESS)), births)


def the_press_dies(account: Account, factory: Factory) -> None:
    account.scene("The press loses power (kill -9)")
    factory["press"].kill()
    for name in ("scada", "analytics"):
        account.check(f"{name} hears of its death", factory[name].hears(type="NDEATH", source=PRESS))


def everybody_goes(account: Account, factory: Factory) -> None:
    account.scene("The end")
    for program in factory.programs.values():
        program.kill()
    account.check("the nodes end with exit code 0 on SIGTERM", [one.stop() for one in factory.nodes.values()], [0, 0])


SCENES = (
    the_nodes_start,
    everybody_comes,
    a_value_is_sensitive,
    nobody_asks_again,
    orders_are_given,
    a_machine_poses_as_another,
    the_press_dies,
    everybody_goes,
)


def main() -> int:
    account = Account("A factory: examples/factory")
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder, ExitStack() as stack:
        factory = Factory(Path(folder), stack)
        for scene in SCENES:
            scene(account, factory)
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
