"""An asthma traveller walks through Paris (contracts, section 3): who learns what of him, and when.

The nodes are those of a real `penstock run`, the clients of `penstock.client`; the contracts are in the domain file.
Run by `make demo`. Exit code 1 if anything did not happen as told. With `--picture FILE` it also draws a map of what
each consumer saw; that needs matplotlib.
"""

import argparse
import asyncio
import json
import sys
import time
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what the examples share

import pyarrow.dataset as ds
from app import figures
from city_map import CONSUMERS, NEAR, draw, maps, metres, strips
from on_spark import SPARK_PATIENCE, TABLES, SparkCapsule
from traveller import (
    ADMIN,
    ALERT,
    CLOSED,
    HEALTH,
    LOCATION,
    OPENED,
    PASSWORDS,
    PORTS,
    SENSORS,
    City,
    now,
    temperature,
    until,
)

from examples.narration import PATIENCE, Account
from examples.nodes import penstock
from examples.scenes import play
from penstock.cli.main import main as command
from penstock.client import Event, Refused
from penstock.engine.events.user_properties import carried
from penstock.journal.read.tables import read_all
from penstock.policy.contracts.release import RETAIN_UNTIL
from penstock.policy.contracts.release_place import ACE, read_ace

HERE = Path(__file__).parent
WELL = (72.0, 36.8, 0.02)
ATTACK = (171.0, 37.9, 0.4)


def names(got: dict[str, Event]) -> list[str]:
    return sorted(got)


async def the_domain_is_tested(account: Account, city: City) -> None:
    account.scene("Before anything runs: the contracts of Table 1 in the domain file, and its tests")
    passwords = city.folder / "secrets" / "passwords"
    passwords.parent.mkdir()
    passwords.touch(0o600)
    passwords.write_text("".join(f"{name}:{word}\n" for name, word in PASSWORDS.items()), "utf-8")
    assert command(["passwd", "-U", str(passwords)]) == 0
    account.quote("$ penstock test domain.yaml")
    code, lines = await asyncio.to_thread(penstock, city.folder, "test", "domain.yaml")
    for line in lines:
        account.quote(line)
    account.check("the policy tests pass", code, 0)


async def the_contracts_are_matched(account: Account, city: City) -> None:
    account.scene("Which contracts fit, and when, is known before there is any event")
    account.quote(
        "$ penstock contracts match domain.yaml --producer bob-location     # but for what has no topic in common"
    )
    command = ("contracts", "match", "domain.yaml", "--producer", "bob-location", "--json")
    code, lines = await asyncio.to_thread(penstock, city.folder, *command)
    account.check("the command says it", code, 0)
    pairs = [one for one in json.loads("".join(lines)) if one["comes_to"] != "unrelated"]
    for one in pairs:
        because = one["why"][0]
        account.quote(f"{one['client']:>14}  {one['rule']}  {one['when']:<19}  {one['comes_to']:<5}  {because}")
    fits = [(one["client"], one["rule"]) for one in pairs if one["comes_to"] == "fits"]
    account.check("two fit", fits, [("free-air", "rule-1"), ("city-emergency", "rule-2")])


async def the_nodes_start(account: Account, city: City) -> None:
    account.scene("Four nodes start in one process: Bob's phone, his mobile network, the city, the emergency services")
    account.quote(await asyncio.to_thread(city.process.start))
    await city.opens()
    account.quote("FreeAir, the emergency services and an advertiser subscribe to everything")
    linked = [("phone", "mobile"), ("mobile", "city"), ("city", "rescue")]
    found = [await until(lambda pair=pair: _linked(city, *pair)) for pair in linked]  # type: ignore[misc]
    account.check("they are linked in a line", found, [True] * 3)


def _linked(city: City, one: str, other: str) -> bool:
    return bool(city.process.logged("linked", f"node={one}", f"neighbour={other}"))


async def the_air_is_measured(account: Account, city: City) -> None:
    account.scene("The city measures its air; a collector says how precisely")
    got = {sensor: await city.measures(sensor) for sensor in SENSORS}
    everybody = [names(one) == sorted(CONSUMERS) for one in got.values()]
    account.check(
        "nothing of it is private: FreeAir, the emergency services and the advertiser have all", all(everybody)
    )
    account.quote(f"avenue Henri-Martin, to FreeAir: {got['45']['free-air'].payload.decode()}")
    account.quote(f"of quality {figures(got['45']['free-air'])}")
    try:
        await city.measures("45", spread=40.0)
        refusal = ""
    except Refused as refused:
        refusal = str(refused)
    account.quote(refusal)
    account.check(
        "what a worn-out sensor says is not as guaranteed, and goes nowhere", "not as its producer" in refusal
    )


async def bob_walks(account: Account, city: City) -> None:
    account.scene("Bob walks: his location is for health only, and approximate")
    places = await walks(city, 9)
    account.check(
        "9 places: FreeAir has each of them, nobody else any", [names(got) for got in places], [["free-air"]] * 9
    )
    lat, lon = city.stops[-1].at
    account.quote(f"his phone says he is at {lat} {lon}, within 8 m")
    account.quote(f"FreeAir has {places[-1]['free-air'].payload.decode()}")
    account.quote(f"of quality {figures(places[-1]['free-air'])}: medium, and never high")
    away = [metres(stop.at, stop.seen["free-air"]) for stop in city.stops]
    cells = {stop.seen["free-air"] for stop in city.stops}
    account.quote(f"which is {min(away):.0f} to {max(away):.0f} m away from where he is")
    account.check(f"9 places are {len(cells)} squares of 500 m to FreeAir", len(cells) < 9 and min(away) > NEAR)


async def walks(city: City, count: int) -> list[dict[str, Event]]:
    """Bob goes on to so many places; who got what of each."""
    return [await city.goes_on() for _ in range(count)]


async def free_air_alerts_him(account: Account, city: City) -> None:
    account.scene("That is enough for FreeAir to alert him")
    said = [city.app.advises(event) for event in city.readers["free-air"].read if event.topic == LOCATION]
    alerts = list(filter(None, said))
    account.check("there is polluted air on his way, but not everywhere", 0 < len(alerts) < len(said))
    heard = await city.says("free-air", ALERT, alerts[0])
    account.quote(heard["bob-phone"].payload.decode())
    account.check(
        "the alert comes to Bob's phone, back along the line, and to nobody else", names(heard), ["bob-phone"]
    )


async def bob_is_well(account: Account, city: City) -> None:
    account.scene("His wrist device measures all the time, for the health capsule on his own phone only")
    account.quote(f"his temperature, in XML: {temperature(WELL[1], 0.25).decode()[:100]}…")
    got = [await city.feels(*WELL) for _ in range(3)]
    account.check("three times: nobody but the capsule, which the node runs", [names(one) for one in got], [[]] * 3)
    await city.feels(*ATTACK, noise=60.0)
    account.check("what is too noisy is not good enough for the capsule either: no alarm", city.audited(OPENED), "")


async def nobody_else_opens_it(account: Account, city: City) -> None:
    account.scene("Nobody else can break the glass")
    try:
        await city.says("ads", HEALTH, {"danger": True})
        refusal = ""
    except Refused as refused:
        refusal = str(refused)
    account.quote(refusal)
    account.check("the advertiser may not speak of Bob's health at all", refusal != "")
    await city.says("city-emergency", HEALTH, {"danger": True})
    account.quote(city.audited("refused"))
    account.check("the emergency services may, but it opens nothing", "may not say" in city.audited("city-emergency"))
    account.check("as before: FreeAir only", names(await city.goes_on()), ["free-air"])


async def bob_is_in_danger(account: Account, city: City) -> None:
    account.scene("An asthma attack: the capsule infers that his life is in danger")
    await city.feels_until(True, ATTACK)
    account.quote(city.audited(OPENED))
    account.check(
        "the situation is open, by the capsule: that is in the log", "by `bob-health-" in city.audited(OPENED)
    )
    told = [event for event in city.readers["city-emergency"].read if event.topic == HEALTH]
    account.quote(f"to the emergency services: {told[0].payload.decode():.40}… of quality {figures(told[0])}")
    account.check(
        "the emergency services are told, and until when they may keep it", RETAIN_UNTIL in dict(told[0].properties)
    )
    places = await walks(city, 4)
    account.check(
        "4 places: the emergency services have each of them, nobody else any",
        [names(got) for got in places],
        [["city-emergency"]] * 4,
    )
    account.quote(f"{places[-1]['city-emergency'].payload.decode()}")
    account.quote(f"of quality {figures(places[-1]['city-emergency'])}")
    account.check(
        "precisely where he is", [stop.seen["city-emergency"] == stop.at for stop in city.stops[-4:]], [True] * 4
    )
    got = await city.feels(*ATTACK)
    account.check("they have his vital signs too", names(got), ["city-emergency"])
    got = await city.goes_on(radius=250.0)
    account.check("what a bad signal says of where he is, within 250 m, is too bad to go by", names(got), [])
    account.check("the next has high quality again", names(await city.goes_on()), ["city-emergency"])


async def why(account: Account, city: City) -> None:
    account.scene("Why does FreeAir not get this?")
    address = f"http://127.0.0.1:{city.process.port(ADMIN['phone'])}"
    lat, lon = city.stops[-1].at
    said = json.dumps({"lat": lat, "lon": lon, "radius": 8.0, "at": now()})
    asked = ["--from", "bob-phone", "--topic", LOCATION, "--payload", said]
    asked += [word for name in CONSUMERS for word in ("--to", name)]
    account.quote(
        f"$ penstock explain --node {address} --from bob-phone --topic {LOCATION} ...     # of it, what is released"
    )
    code, lines = await asyncio.to_thread(penstock, city.folder, "explain", "--node", address, *asked, "--json")
    told = json.loads("".join(lines))
    for one in told["decisions"]:
        for verdict in one["verdicts"]:
            if verdict["stage"] == "release":
                account.quote(f"{one['node']} -> {one['goes_by']['target']}: {verdict['effect']}: {verdict['reason']}")
    gets = [name for name, one in told["receivers"].items() if one["gets"]]
    account.check("the node explains it, in this situation", (code, gets), (0, ["city-emergency"]))
    account.check(
        "by rule 2, and why not by rule 1", all(rule in "".join(lines) for rule in ("location.rule-2", "`rule-1`"))
    )


async def it_is_over(account: Account, city: City) -> None:
    account.scene("He has got his spray: the danger is over, and so is what it opened")
    await city.feels_until(False, WELL)
    account.quote(city.audited(CLOSED))
    account.check("the situation is closed, by the capsule", "bob-health-capsule" in city.audited(CLOSED))
    account.check("vital signs: nobody but the capsule", names(await city.feels(*WELL)), [])
    left = len(city.walk) - len(city.stops)
    places = await walks(city, left)
    account.check(f"{left} places: FreeAir only, as before", [names(got) for got in places], [["free-air"]] * left)
    away = [metres(stop.at, stop.seen["free-air"]) for stop in city.stops[-left:]]
    account.check(f"approximately, as before: {min(away):.0f} to {max(away):.0f} m away", min(away) > NEAR)


async def who_saw_what(account: Account, city: City) -> None:
    account.scene("What each consumer saw of the walk")
    for line in (*maps(city.stops), "", *strips(city.stops)):
        account.quote(line)
    read = city.readers["ads"].read
    account.check("the advertiser has read all along", len(read) >= len(SENSORS))
    account.check("and has nothing of Bob", [event.topic for event in read if "bob" in event.topic], [])


async def everybody_goes(account: Account, city: City) -> None:
    account.scene("How the nodes between knew: the journal has what Bob's node told them")
    await city.stack.aclose()
    account.check("the nodes end with exit code 0 on SIGTERM", await asyncio.to_thread(city.process.stop), 0)
    ways = enabled(city)
    for node, told in ways.items():
        account.quote(f"{node:>20}  {told}   1 access enabled by rule 1   2 by rule 2")
    expected = "".join("2" if stop.is_hazard else "1" for stop in city.stops if stop.seen)
    account.check("Bob's contract is local to his node: all others go by its ACE set", ways["mobile"], expected)
    account.check("which goes with each event along the line, as far as somebody may have it", ways["city"], expected)
    precise = "".join(rule for rule in expected if rule == "2")
    account.check("and no further: what is for FreeAir at the city does not go on", ways["rescue"], precise)
    inferred = said_by_the_capsule(city)
    account.quote(f"and what the capsule has inferred: {inferred}   ! danger   . none")
    account.check("no danger, danger, none", [kind for kind, _ in groupby(inferred)], [".", "!", "."])


def enabled(city: City) -> dict[str, str]:
    """By node, for each location of Bob that came there, by which rule access was enabled."""
    found = {"mobile": "", "city": "", "rescue": ""}
    events, _ = read_all(city.folder / "journal")
    for row in events.select(["node", "kind", "topic", "properties"]).to_pylist():
        if row["topic"] == LOCATION and row["kind"] == "arrival" and row["node"] in found:
            told = dict(carried(row["properties"]).user_properties)[ACE]
            rules = sorted(set(read_ace(told).values()))
            found[row["node"]] += "".join(rule.removeprefix("rule-") for rule in rules) or "."
    return found


def said_by_the_capsule(city: City) -> str:
    """What Bob's node has recorded of his health, as the capsule's publication."""
    events, _ = read_all(city.folder / "journal")
    rows = events.select(["node", "kind", "topic", "client_id", "payload"]).to_pylist()
    said = [
        json.loads(row["payload"])["danger"]
        for row in rows
        if (row["node"], row["kind"], row["topic"]) == ("phone", "arrival", HEALTH)
    ]
    return "".join("!" if is_danger else "." for is_danger in said)


SCENES = (
    the_domain_is_tested,
    the_contracts_are_matched,
    the_nodes_start,
    the_air_is_measured,
    bob_walks,
    free_air_alerts_him,
    bob_is_well,
    nobody_else_opens_it,
    bob_is_in_danger,
    why,
    it_is_over,
    who_saw_what,
    everybody_goes,
)


# --- the same, with the capsule on Spark


async def the_capsule_is_moved(account: Account, city: City) -> None:
    account.scene("The capsule is to run on Spark, and not in Bob's node")
    file = city.folder / "domain.yaml"
    file.write_text(file.read_text("utf-8").replace("runs: node", "runs: spark"), "utf-8")
    account.check("the domain file says so", "runs: spark" in file.read_text("utf-8"))


async def the_capsule_is_started(account: Account, city: City) -> None:
    account.scene("The health capsule is started on Spark: a client of Bob's node that takes and publishes")
    city.capsule = capsule = SparkCapsule(city.folder)
    ((user, password),) = PASSWORDS.items()
    url = f"mqtt://{user}:{{}}@127.0.0.1:{city.process.port(PORTS['phone'])}"
    account.quote(f"$ penstock pipeline capsules --domain domain.yaml --from {url.format('...')} --to tables --publish")
    capsule.start(url.format(password))
    city.stack.callback(capsule.stop)


async def the_capsule_has_come(account: Account, city: City) -> None:
    account.scene("Spark takes its time; then the capsule is a client of Bob's node")
    client = ("connected", "client=bob-health-capsule-health ")
    joined = await until(lambda: bool(city.process.logged(*client)), SPARK_PATIENCE)
    account.check("it has connected, as one that Bob's node knows by its password", joined)


async def the_capsule_finds_him_well(account: Account, city: City) -> None:
    account.scene("Its first results: Bob is well")
    end = time.monotonic() + SPARK_PATIENCE
    while not city.process.logged("connected", "client=bob-health-capsule-health-out") and time.monotonic() < end:
        await city.feels(*WELL)
    published = city.process.logged("connected", "client=bob-health-capsule-health-out")
    account.check("it publishes what it has inferred", published != "")
    account.check("which opens nothing", city.audited(OPENED), "")


async def the_capsule_ends(account: Account, city: City) -> None:
    account.scene("What the capsule has made, one by one")
    assert isinstance(city.capsule, SparkCapsule)
    account.check("it ends with exit code 0 on SIGTERM", await asyncio.to_thread(city.capsule.stop), 0)
    results = ds.dataset(city.folder / TABLES / "health" / "results").to_table().sort_by("start").to_pylist()
    changes = []
    for is_danger, windows in groupby(results, lambda row: json.loads(row["payload"])["danger"]):
        rows = list(windows)
        changes.append(is_danger)
        account.quote(f"from {rows[0]['start']:%H:%M:%S} on, {len(rows)} times: {'danger' if is_danger else 'none'}")
    account.check("no danger, danger, none", changes, [False, True, False])


def main() -> int:
    parser = argparse.ArgumentParser(description="Play the walk of examples/free-air.")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw what each consumer saw (.svg or .png)")
    parser.add_argument("--spark", action="store_true", help="run the capsule on Spark, and not in Bob's node")
    options = parser.parse_args()
    scenes = list(SCENES)
    if options.spark:
        scenes.insert(scenes.index(the_nodes_start), the_capsule_is_moved)
        scenes.insert(scenes.index(the_nodes_start) + 1, the_capsule_is_started)
        at = scenes.index(bob_is_in_danger)
        scenes[at:at] = [the_capsule_has_come, the_capsule_finds_him_well]
        scenes.insert(scenes.index(everybody_goes), the_capsule_ends)
    if options.picture is not None:

        async def it_is_drawn(account: Account, city: City) -> None:
            draw(city.stops, options.picture)
            account.quote(f"drawn in {options.picture}")

        scenes.append(it_is_drawn)
    patience = 2 * (SPARK_PATIENCE if options.spark else 2 * PATIENCE)
    title = "An asthma traveller in Paris: examples/free-air"
    return play(title, HERE, ("free-air",), City, scenes, ("alerts.yaml",), patience)


if __name__ == "__main__":
    sys.exit(main())
