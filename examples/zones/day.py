"""A day in three security zones (statements §5.2): payslips that are not for everybody, and a firewall against fraud.

Each node is a real `penstock run` in a process of its own, each client one of `penstock.client`; the policies are those
of the domain file, and clients set them as text. Run by `make demo`. Exit code 1 if anything did not happen as told.
"""

import asyncio
import json
import secrets
import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what the examples share

from examples.narration import Account
from examples.nodes import penstock
from examples.scenes import play
from examples.zones.company import ADMIN, PORTS, Company, Reader, until
from penstock.client import Refused

HERE = Path(__file__).parent
GROUPS = ("Restricted", "Controlled", "AuthorizedSubscribers", "Firewall")
POLICIES = yaml.safe_load((HERE / "domain.yaml").read_text("utf-8"))["statements"]["policies"]
WHERE = "class == 'payslip' && name != '' && salary < 1000000"
PROBE = {"class": "payslip", "month": 1, "name": "nobody", "salary": 0}
SLIP = {"class": "payslip", "month": 10, "name": "Ada", "salary": 5200}
SHORT = {"class": "payslip", "month": 10}
STOLEN = [f"S-{number}" for number in range(100)]
"""Accounts with which somebody orders who is not their owner."""
FORGED = [{"class": "order", "account": account, "amount": 900} for account in STOLEN[:80]]
GENUINE = [{"class": "order", "account": f"A-{number}", "amount": 10} for number in range(19)]
SIGNED = {"class": "order", "account": STOLEN[0], "amount": 20, "signature": "the owner's"}
RIVAL = "company == 'Rival'"


# --- three zones


async def the_domain_is_tested(account: Account, company: Company) -> None:
    account.scene("Before anything runs: secrets for the trust groups, the domain file, and its tests")
    (company.folder / "secrets").mkdir()
    for group in GROUPS:
        file = company.folder / "secrets" / group
        file.touch(0o600)
        file.write_text(secrets.token_urlsafe(32), "utf-8")
    account.quote("$ penstock test domain.yaml")
    code, lines = penstock(company.folder, "test", "domain.yaml")
    for line in lines:
        account.quote(line)
    account.check("the policy tests pass", code, 0)


async def the_nodes_start(account: Account, company: Company) -> None:
    account.scene("Two nodes of the restricted zone start, one of the controlled, one of the uncontrolled")
    for ready in await asyncio.gather(*(asyncio.to_thread(node.start) for node in company.nodes.values())):
        account.quote(ready)
    for first, second in (("wages", "office"), ("office", "dmz"), ("dmz", "street")):
        linked = await asyncio.to_thread(company.nodes[first].logs, "linked", f"neighbour={second}")
        account.check(f"{first} and {second} are linked", linked)


async def the_ledger_advertises(account: Account, company: Company) -> None:
    account.scene("In the restricted zone the ledger advertises payslips, with the policy of Fig. 16")
    ledger = await company.connect("ledger", "wages")
    company.slips = await ledger.advertise("payroll/#", WHERE, policy=POLICIES["zones"])
    account.quote(f"payroll/# where {WHERE}")
    office, dmz = company.nodes["office"], company.nodes["dmz"]
    account.check("the office knows of it", await asyncio.to_thread(office.logs, "advertised here", WHERE))
    known = await asyncio.to_thread(dmz.logs, "advertised here", "payroll/# where class == 'payslip'")
    account.check("the controlled zone knows of it", known)
    account.quote(dmz.logged("advertised here", "payroll/#"))
    told = [word for word in ("name", "salary") if company.logged("dmz", "payroll/#", word)]
    account.check("but not that it speaks of names and salaries", told, [])
    account.check("the street has not heard of it", company.logged("street", "payroll"), [])


async def each_zone_sees_its_part(account: Account, company: Company) -> None:
    account.scene("What each zone sees of a payslip")
    auditor = await company.connect("auditor", "wages", "Restricted", "AuthorizedSubscribers")
    planner = await company.connect("planner", "office", "AuthorizedSubscribers")
    board = await company.connect("board", "dmz")
    account.check("the auditor proves two groups", auditor.groups, {"Restricted", "AuthorizedSubscribers"})
    account.check("the planner proves one", planner.groups, {"AuthorizedSubscribers"})
    account.check("the notice board proves none: the domain file vouches for it", board.groups, set())
    await company.connect("officer", "wages")
    await company.connect("passer-by", "street")
    officer = await company.read("officer", "$penstock/meta/#")
    for name in ("auditor", "planner", "board"):
        found = await company.reaches(await company.read(name, "payroll/#"), "ledger", "payroll/probe", PROBE)
        account.check(f"payslips find their way to the {name}", found)
    for name in ("auditor", "planner"):  # they get the last one that was for the board too
        reader = company.readers[name]
        await until(lambda reader=reader: bool(reader.read) and "last" in reader.read[-1])  # type: ignore[misc]
        reader.read.clear()
    account.check("nobody has given the security officer cause to worry", officer.read, [])
    await company.read("passer-by", "#")
    account.check("now somebody in the street subscribes to `#`: the officer hears of it", await noticed(officer, "#"))
    before = company.received("street")
    await company.say("ledger", "payroll/press", SLIP)
    account.quote(f"the ledger publishes {json.dumps(SLIP)}")
    account.check("restricted, the auditor: all of it", await company.readers["auditor"].has(SLIP))
    account.check("restricted, the planner: all of it", await company.readers["planner"].has(SLIP))
    account.check("controlled, the board: no name, no salary", await company.readers["board"].has(SHORT))
    account.check("uncontrolled, the passer-by: nothing", company.readers["passer-by"].read, [])
    account.check("not even the node in the street has got anything", company.received("street") - before, 0)


async def noticed(officer: Reader, message: str) -> bool:
    """Whether the officer hears of a subscription."""
    return await until(lambda: any(one["message"] == message for one in list(officer.read)))


async def a_visitor_is_noticed(account: Account, company: Company) -> None:
    account.scene("Nobody has authorised the visitor in the controlled zone")
    officer, visitor = company.readers["officer"], await company.connect("visitor", "dmz")
    reader = await company.read("visitor", "payroll/#", "month > 9")
    account.check("that it subscribes is a meta-event", await noticed(officer, "payroll/# where month > 9"))
    account.quote(f"$penstock/meta/UnauthorizedSubscribe {json.dumps(officer.read[-1])}")
    await company.say("ledger", "payroll/press", SLIP)
    account.check("Fig. 16 notices and does no more: it sees what its zone may see", await reader.has(SHORT))
    await visitor.unsubscribe(reader.subscription)


async def the_zones_are_closed(account: Account, company: Company) -> None:
    account.scene("The ledger sets a stricter policy on what it has advertised")
    assert company.slips is not None
    await company.clients["ledger"].set_policy(company.slips, POLICIES["closed"])
    account.check("the dmz has it", await asyncio.to_thread(company.nodes["dmz"].logs, "closed here", "payroll/#"))
    company.readers["officer"].read.clear()
    try:
        await company.clients["visitor"].subscribe("payroll/#")
        account.check("the visitor subscribes again: it is refused", False)
    except Refused as refused:
        account.quote(str(refused))
        account.check("the visitor subscribes again: it is refused", refused.code, 0x87)
    account.check("and noticed, by name", await noticed(company.readers["officer"], "payroll/#"))
    account.quote(json.dumps(company.readers["officer"].read[-1]))
    company.readers["board"].read.clear()
    await company.say("ledger", "payroll/press", SLIP)
    account.check("who was authorised notices nothing", await company.readers["board"].has(SHORT))


# --- the firewall


async def orders_come_in(account: Account, company: Company) -> None:
    account.scene("From the street come orders; in the office, the dispatcher has subscribed to all of them")
    await company.connect("shop", "street")
    await company.connect("dispatch", "office")
    dispatch = await company.read("dispatch", "orders/#", "class == 'order'")
    probe = {"class": "order", "account": "A-0", "amount": 0}
    account.check("orders find their way", await company.reaches(dispatch, "shop", "orders/probe", probe))
    account.quote("fraud: somebody orders with stolen accounts, and has no signatures")
    account.check("of 100 orders, all go inside", await a_busy_minute(company), 100)
    account.check("and to the dispatcher", await dispatch.has(*FORGED, *GENUINE, SIGNED))


async def a_busy_minute(company: Company) -> int:
    """The shop sends 80 forged orders and 20 others; how many of them go inside."""
    company.readers["dispatch"].read.clear()
    before = company.received("dmz")
    for number, order in enumerate((*FORGED, *GENUINE, SIGNED)):
        await company.say("shop", f"orders/{number}", order)
    await until(lambda: company.readers["dispatch"].read[-1:] == [SIGNED])
    return company.received("dmz") - before


async def the_guard_puts_up_a_firewall(account: Account, company: Company) -> None:
    account.scene("The guard in the dmz issues a subscription for each of 100 accounts, with the policy of Fig. 22")
    guard, dispatch = await company.connect("guard", "dmz"), company.readers["dispatch"]
    try:
        await company.clients["visitor"].subscribe("orders/#", "amount > 0", policy=POLICIES["firewall"])
        account.check("nobody else may", False)
    except Refused as refused:
        account.quote(str(refused))
        account.check("nobody else may", refused.code, 0x87)
    for stolen in STOLEN:
        where = f"class == 'order' && account == '{stolen}' && amount > 0"
        company.filters.append(await guard.subscribe("orders/#", where, policy=POLICIES["firewall"]))
    raised = await until(lambda: not any(company.crosses("orders/0", FORGED[at]) for at in (0, -1)))
    account.check("the node in the street has them", raised)
    account.check("of the same 100 orders, 20 go inside", await a_busy_minute(company), 20)
    account.check(
        "the dispatcher gets just these, one of a stolen account among them: it is signed",
        await dispatch.has(*GENUINE, SIGNED),
    )


async def why(account: Account, company: Company) -> None:
    account.scene("Why is this order not there?")
    url = f"http://127.0.0.1:{company.nodes['street'].port(ADMIN['street'])}"
    asked = ("--from", "shop", "--topic", "orders/1", "--payload", json.dumps(FORGED[0]), "--to", "dispatch")
    code, lines = penstock(company.folder, "explain", "--node", url, *asked)
    for line in lines:
        account.quote(line)
    account.check("`penstock explain` names the rule", (code, "BlockMessage()" in "".join(lines)), (0, True))


async def the_firewall_is_merged(account: Account, company: Company) -> None:
    account.scene("One subscription does the same, and the 100 are given up")
    guard, dispatch = company.clients["guard"], company.readers["dispatch"]
    where = f"class == 'order' && account in {json.dumps(STOLEN)} && amount > 0"
    merged = await guard.subscribe("orders/#", where, policy=POLICIES["firewall"])
    for one in company.filters:
        await guard.unsubscribe(one)
    company.filters = [merged]
    stands = await until(lambda: "account in" in (asked := company.asked(FORGED[0])) and "account ==" not in asked)
    account.check("only that one is left in the street", stands)
    account.check("of the same 100 orders, 20 go inside", await a_busy_minute(company), 20)
    account.check("and to the dispatcher", await dispatch.has(*GENUINE, SIGNED))


async def the_firewall_is_taken_down(account: Account, company: Company) -> None:
    account.scene("The fraud is over, and the guard unsubscribes")
    (merged,) = company.filters
    await company.clients["guard"].unsubscribe(merged)
    account.check("the street lets all through again", await until(lambda: company.crosses("orders/0", FORGED[0])))
    account.check("of the same 100 orders, all go inside", await a_busy_minute(company), 100)
    dispatch = company.readers["dispatch"]
    account.check("and to the dispatcher", await dispatch.has(*FORGED, *GENUINE, SIGNED))
    account.check("whose subscription nobody has touched", dispatch.subscription.where, "class == 'order'")


async def interest_is_kept_private(account: Account, company: Company) -> None:
    account.scene("The other way round: what is asked for inside must not be known in the street")
    planner = company.clients["planner"]
    guard = await company.connect("guard", "street")
    wall = await guard.advertise("tenders/#", RIVAL, policy=POLICIES["discretion"])
    account.quote(f"at the street, the guard advertises tenders/# where {RIVAL}, with Fig. 22 on subscriptions")
    dmz = company.nodes["dmz"]
    account.check("the dmz knows of it", await asyncio.to_thread(dmz.logs, "advertised here", RIVAL))
    rival, other = {"company": "Rival", "price": 10}, {"company": "Other", "price": 20}
    secret = Reader(await planner.subscribe("tenders/#", RIVAL, name="secret"))
    plain = Reader(await planner.subscribe("tenders/#", "company == 'Other'", name="plain"))
    account.quote("the planner subscribes to the tenders of the rival, then to those of another company")
    account.check("those of the other find their way", await company.reaches(plain, "shop", "tenders/0", other))
    before = company.received("dmz")
    await company.say("shop", "tenders/1", rival)
    await company.say("shop", "tenders/2", other)
    account.check("one of the other comes", await plain.has(other))
    account.check(
        "one of the rival does not: the street was not asked for it", company.crosses("tenders/1", rival), False
    )
    account.check("so of two tenders one has gone inside", company.received("dmz") - before, 1)
    await guard.unadvertise(wall)
    account.check(
        "the guard takes back what it advertised: they come", await company.reaches(secret, "shop", "tenders/3", rival)
    )


async def everybody_goes(account: Account, company: Company) -> None:
    account.scene("The end")
    await company.stack.aclose()
    codes = [await asyncio.to_thread(node.stop) for node in company.nodes.values()]
    account.check("the nodes end with exit code 0 on SIGTERM", codes, [0] * len(codes))


SCENES = (
    the_domain_is_tested,
    the_nodes_start,
    the_ledger_advertises,
    each_zone_sees_its_part,
    a_visitor_is_noticed,
    the_zones_are_closed,
    orders_come_in,
    the_guard_puts_up_a_firewall,
    why,
    the_firewall_is_merged,
    the_firewall_is_taken_down,
    interest_is_kept_private,
    everybody_goes,
)


if __name__ == "__main__":
    sys.exit(play("Security zones and a firewall: examples/zones", HERE, PORTS, Company, SCENES))
