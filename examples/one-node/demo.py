"""One node and its clients: a real `penstock run`, real paho-mqtt clients, and an account of what happened.

Run by `make demo`. Exit code 1 if anything did not happen as told.
"""

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what the examples share

from examples.clients import AN_HOUR, Client
from examples.narration import Account, wait_for
from examples.nodes import NodeProcess, copy

HERE = Path(__file__).parent
WEBSOCKET, ADMIN = 8083, 8080
"""Ports of the domain file, besides that for MQTT."""
TEMPERATURE = "plant/pump-7/temperature"
STATUS = "plant/pump-7/status"
LOAD = 2000
"""Messages in the scene where the node is killed."""
WINDOW = 20
"""How many of them may be on their way at a time: the node's receive maximum."""


def the_node_starts(account: Account, node: NodeProcess) -> None:
    account.scene("A node starts, and asks who is there")
    account.quote(f"$ penstock {' '.join(node.command)}")
    account.quote(node.start())
    with Client("pump-7", "sensor").connect(node.port()) as sensor:
        account.check("the sensor connects with its password", str(sensor.greeting), "Success")
    with Client("burglar", "sensor", password="guessed").connect(node.port()) as burglar:
        account.check("a wrong password is refused", str(burglar.greeting), "Not authorized")


def readings_arrive(account: Account, node: NodeProcess) -> None:
    account.scene("A reading reaches the dashboard at each quality of service")
    with (
        Client("pump-7", "sensor").connect(node.port()) as sensor,
        Client("wall", "dashboard").connect(node.port()) as wall,
    ):
        wall.subscribe("plant/#", qos=2)
        for qos in (0, 1, 2):
            sensor.publish(TEMPERATURE, f"71.{qos}", qos, retain=True)
            wait_for(lambda: len(wall.received) > qos)  # noqa: B023
        told = [(message.qos, str(message.payload, "utf-8")) for message in wall.received]
        account.check("QoS 0, 1 and 2 each arrive, once", told, [(0, "71.0"), (1, "71.1"), (2, "71.2")])
    with Client("page", "dashboard", transport="websockets").connect(node.port(WEBSOCKET)) as wall:
        wall.subscribe("plant/#", qos=1)
        wait_for(lambda: bool(wall.received))
        kept = [(str(message.payload, "utf-8"), message.retain) for message in wall.received]
        account.check(
            "a page that opens later, over WebSocket, gets the last one: it was retained", kept, [("71.2", True)]
        )


def the_acl_is_kept(account: Account, node: NodeProcess) -> None:
    account.scene("Who may not, is told so, and the log says why")
    with (
        Client("guest", "visitor").connect(node.port()) as guest,
        Client("wall", "dashboard").connect(node.port()) as wall,
        Client("tablet", "technician").connect(node.port()) as tablet,
    ):
        wall.subscribe("plant/#")
        tablet.subscribe("plant/#")
        code = guest.publish("plant/pump-7/setpoint", "9000", qos=1)
        account.check("a visitor's setpoint for the pump is denied", str(code), "Not authorized")
        account.check("the log names client, topic and rule", node.logs("guest", "setpoint", "deny plant/#"))
        account.quote(node.logged("guest", "setpoint"))
        code = guest.subscribe("plant/+/temperature")
        account.check("the visitor's subscription to the readings is denied", str(code), "Not authorized")
        account.check("the log names client, filter and rule", node.logs("guest", "temperature", "deny plant/#"))
        account.quote(node.logged("guest", "temperature"))
        tablet.publish("plant/pump-7/service/code", "4711", qos=1)
        tablet.publish("plant/pump-7/note", "oiled", qos=1)
        wait_for(lambda: "oiled" in wall.payloads() and "oiled" in tablet.payloads())
        service = (tablet.payloads("plant/+/service/#"), wall.payloads("plant/+/service/#"))
        account.check("the service code reaches the technician, not the dashboard", service, (["4711"], []))
        account.check("the forged setpoint reached nobody", tablet.payloads("plant/+/setpoint"), [])


def a_device_vanishes(account: Account, node: NodeProcess) -> None:
    account.scene("A device loses power, and its will is carried out")
    sensor = Client("pump-7", "sensor")
    sensor.paho.will_set(STATUS, "offline", qos=1)
    with sensor.connect(node.port()), Client("wall", "dashboard").connect(node.port()) as wall:
        wall.subscribe(STATUS, qos=1)
        sensor.publish(STATUS, "online", qos=1)
        wait_for(lambda: wall.payloads() == ["online"])
        sensor.vanish()
        wait_for(lambda: len(wall.received) > 1)
        account.check("the dashboard hears that the pump is offline", wall.payloads(), ["online", "offline"])


def a_session_waits(account: Account, node: NodeProcess) -> None:
    account.scene("A technician's tablet is switched off for a while")
    with Client("tablet", "technician", session=AN_HOUR).connect(node.port()) as tablet:
        tablet.subscribe("plant/+/alarm", qos=1)
    with Client("pump-7", "sensor").connect(node.port()) as sensor:
        alarms = [f"alarm {number}" for number in range(1, 6)]
        for alarm in alarms:
            sensor.publish("plant/pump-7/alarm", alarm, qos=1)
    with Client("tablet", "technician", session=AN_HOUR).connect(node.port()) as tablet:
        wait_for(lambda: len(tablet.received) >= len(alarms))
        account.check("its session was kept", tablet.resumed)
        account.check("it gets the five alarms raised meanwhile, in order", tablet.payloads(), alarms)


def work_is_shared(account: Account, node: NodeProcess) -> None:
    account.scene("Three workers share one subscription")
    jobs = [f"job {number}" for number in range(1, 31)]
    with (
        Client("worker-1", "technician").connect(node.port()) as first,
        Client("worker-2", "technician").connect(node.port()) as second,
        Client("worker-3", "technician").connect(node.port()) as third,
        Client("tablet", "technician").connect(node.port()) as tablet,
    ):
        workers = (first, second, third)
        for worker in workers:
            worker.subscribe("$share/crew/plant/jobs", qos=1)
        for job in jobs:
            tablet.publish("plant/jobs", job, qos=1)
        wait_for(lambda: sum(len(worker.received) for worker in workers) >= len(jobs))
        done = Counter(job for worker in workers for job in worker.payloads())
        account.check("each of 30 jobs is done once", done, Counter(jobs))
        account.check("each worker had some", all(worker.received for worker in workers))
        account.quote("jobs by worker: " + ", ".join(str(len(worker.received)) for worker in workers))


def the_node_is_killed(account: Account, node: NodeProcess) -> None:
    account.scene("The node is killed under load (kill -9) and started again")
    with Client("archive", "technician", session=AN_HOUR).connect(node.port()) as archive:
        archive.subscribe("plant/pump-7/log/#", qos=2)
    with Client("pump-7", "sensor", session=AN_HOUR, returns=True).connect(node.port()) as sensor:
        readings = [(f"plant/pump-7/log/qos{1 + number % 2}", str(number)) for number in range(LOAD)]
        for number, (topic, reading) in enumerate(readings):
            if number == LOAD // 4:
                node.kill()
                account.quote(f"killed with {number} of {LOAD} messages sent, {len(sensor.answers)} acknowledged")
                account.quote(node.start())
            wait_for(lambda: number - len(sensor.answers) < WINDOW)  # noqa: B023
            sensor.paho.publish(topic, reading, qos=int(topic[-1]))
        wait_for(lambda: len(sensor.answers) >= LOAD)
        account.check("the sensor reconnects and sends the rest", len(sensor.answers), LOAD)
        account.check("the node knew its session", sensor.resumed)
    with Client("archive", "technician", session=AN_HOUR).connect(node.port()) as archive:
        wait_for(lambda: len(set(archive.payloads())) >= LOAD)
        arrived = set(archive.payloads())
        missing = [reading for _, reading in readings if reading not in arrived]
        account.check(f"the archive, away all the while, gets all {LOAD}", missing, [])
        exactly = archive.payloads("plant/pump-7/log/qos2")
        account.check("none of QoS 2 twice", len(exactly), len(set(exactly)))
    with Client("wall", "dashboard").connect(node.port()) as wall:
        wall.subscribe(TEMPERATURE)
        wait_for(lambda: bool(wall.received))
        account.check("the retained reading is still there", wall.payloads(), ["71.2"])


def the_node_reports_and_stops(account: Account, node: NodeProcess) -> None:
    account.scene("What the node says of itself")
    account.quote(f"GET /health: {node.page(ADMIN, '/health').strip()}")
    pattern = r"^penstock_(?:publications|sessions|retained|denied)\w*(?<!_created)\{.*$"
    figures = re.findall(pattern, node.page(ADMIN, "/metrics"), re.MULTILINE)
    for figure in figures:
        account.quote(figure)
    account.check("Prometheus can read its metrics", bool(figures))
    account.check("it ends with exit code 0 on SIGTERM", node.stop(), 0)


SCENES = (
    the_node_starts,
    readings_arrive,
    the_acl_is_kept,
    a_device_vanishes,
    a_session_waits,
    work_is_shared,
    the_node_is_killed,
    the_node_reports_and_stops,
)


def main() -> int:
    account = Account("One node: examples/one-node")
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        ports = copy(HERE, Path(folder), "domain.yaml", "acl", "passwords")
        node = NodeProcess(Path(folder), ports, "main")
        try:
            for scene in SCENES:
                scene(account, node)
        finally:
            node.kill()
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
