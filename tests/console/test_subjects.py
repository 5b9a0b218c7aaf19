"""The part Subjects in a browser: who may do what and why, what was used of it, and whether contracts are met."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from penstock.broker.http.answers.decisions import DecisionRow
from penstock.broker.http.answers.subjects import AccessClause
from penstock.console.subjects.contracts import shortened
from penstock.console.subjects.use import refused_elsewhere, used, uses
from penstock.console.tables import TableCell
from penstock.journal.jobs import JobRecord
from tests.support.clients.paho import Paho
from tests.support.processes.commands import PATIENCE
from tests.support.processes.console import Looking, looking
from tests.support.processes.node import passwords

expect.set_options(timeout=PATIENCE * 1000)
HOSTILE = "<img src=x onerror=alert(1)>"
ACL = "topic read secret/x\nuser sue\ntopic write air/#\nuser pia\ntopic read air/#\ntopic deny air/private\n"
DEVICES = {f"device-{number:04}": {"node": "hall", "type": "outside"} for number in range(396)}
PLANT = {
    "domain": "plant",
    "journal": {"folder": "journal"},
    "nodes": {"hall": {"acl": "acl", "passwords": "passwords", "anonymous": True}, "yard": {}},
    "clients": {
        "sensor": {"node": "hall", "type": "inside", "user": "sue", "advertises": [{"name": "air", "filter": "air/#"}]},
        "phone": {"node": "hall", "type": "inside", "user": "pia", "where": {"air/#": "topic != 'air/secret'"}},
        "guest": {"node": "yard", "type": "inside"},
        **DEVICES,
    },
    "brokering": {
        "types": ["inside", "outside"],
        "deny": [{"from": "inside", "to": "outside"}],
        "default": "outside",
    },
    "contracts": {
        "producers": {"air": {"producer": "sensor", "filter": "air/#", "guarantees": ["precision >= medium"]}},
        "consumers": {
            "modest": {"consumer": "phone", "wants": {"any": {"filter": "air/#"}}},
            "greedy": {"consumer": "phone", "wants": {"exact": {"filter": "air/#", "needs": ["precision >= high"]}}},
        },
    },
}


@pytest.fixture(scope="module")
def plant() -> Iterator[Looking]:
    with ExitStack() as stack:
        plant = stack.enter_context(looking(PLANT, {"acl": ACL, "passwords": passwords(pia="secret", sue="secret")}))
        port = plant.nodes.port
        stack.enter_context(Paho("phone").is_user("pia", "secret")).connects(port).subscribe("air/#", 1)
        stack.enter_context(Paho(HOSTILE)).connects(port)
        sensor = stack.enter_context(Paho("sensor").is_user("sue", "secret")).connects(port)
        sensor.publish("elsewhere", b"{}", 1)
        yield plant


def decided(id: int, at: float, target: str, effect: str = "pass", **more: str) -> DecisionRow:
    job = {
        "node": "cloud",
        "source": "phone",
        "topic": "unlock",
        "stage": "route",
        "rule": "r",
        "reason": "why",
        **more,
    }
    of = job["node"], job["source"], target, job["topic"], effect, job["stage"], job["rule"], job["reason"]
    return DecisionRow(id, at, *of, 2)


def told(rows: list[tuple[object, ...]]) -> list[tuple[str, ...]]:
    """Return direction, result and count of each row."""
    return [(str(row[0]), row[2].text if isinstance(row[2], TableCell) else "", str(row[5])) for row in rows]


def test_an_event_to_many_counts_once_for_who_published_it() -> None:
    rows = [decided(1, 1.0, "a"), decided(2, 1.0, "b"), decided(3, 2.0, "a"), decided(4, 2.0, "b")]
    rows += [decided(5, 3.0, "a"), decided(6, 3.0, "b", "suppress")]
    rows += [decided(7, 4.0, "", "suppress"), decided(8, 4.0, "", "suppress")]  # of one packet, but two events
    assert told(used("phone", rows)) == [
        ("published", "pass", "2"),
        ("published", "suppress", "2"),
        ("published", "in part", "1"),
    ]
    assert uses(AccessClause("cloud", "acl", "grants", "write", "unlock", ""), "write", "phone", rows) == 3


def test_what_other_nodes_refuse_of_its_topics_is_told() -> None:
    rows = [decided(1, 1.0, "gateway")]
    refusals = [
        decided(2, 1.1, "", "suppress", node="gateway", source="cloud"),
        decided(3, 1.2, "", "suppress", node="gateway", source="cloud", topic="other"),
        decided(4, 1.3, "", "suppress", node="gateway", source="bell"),  # a client's own
    ]
    refused = refused_elsewhere("phone", rows, refusals, {"cloud", "gateway"})
    assert told(used("phone", rows, refused)) == [
        ("published", "pass", "1"),
        ("at another node, gateway", "suppress", "1"),
    ]
    assert refused_elsewhere("phone", [decided(1, 1.0, "", "suppress")], refusals, {"cloud", "gateway"}) == []


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        ("`quality/quality/quality >= 80` is needed", "`quality >= 80` is needed"),
        ("at best `a-b/a-b/a-b <= 79.58758547`", "at best `a-b <= 79.59`"),
        ("`10/10.1/10.1 >= 5`", "`10/10.1/10.1 >= 5`"),
        ("topic `air/air/airs`", "topic `air/air/airs`"),
    ],
)
def test_reasons_are_short(reason: str, short: str) -> None:
    assert shortened(reason) == short


def box(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def row(page: Page, of: str, text: str) -> Locator:
    return box(page, of).get_by_role("row").filter(has_text=text)


def test_what_a_client_may_write_and_what_was_refused(plant: Looking) -> None:
    with plant.page("/subjects") as page:
        expect(page.get_by_text("No subject is open")).to_be_visible()
        page.get_by_label("Search subjects").fill("SENS")
        expect(page.get_by_text("1 of 400")).to_be_visible()
        page.get_by_role("link", name="sensor").click()
        page.wait_for_url("**/subjects?name=sensor&q=SENS")
        expect(row(page, "May write", "acl:3")).to_contain_text("air/#")
        expect(row(page, "May write", "acl:3")).to_contain_text("grants")
        expect(row(page, "May write", "advertisement")).to_contain_text("limits")
        expect(row(page, "May write", "brokering")).to_contain_text("denied by deny from inside to outside")
        expect(row(page, "Recently used", "elsewhere")).to_contain_text("suppress")
        assert all(page.locator(".pk-table th").all_inner_texts()), "each column has a head"
        expect(row(page, "Sessions", "sensor")).to_contain_text("connected")


def test_what_a_client_may_read_and_whether_its_contracts_are_met(plant: Looking) -> None:
    with plant.page("/subjects?name=phone") as page:
        expect(row(page, "May read", "acl:5")).to_contain_text("air/#")
        expect(row(page, "May read", "air/private")).to_contain_text("denies")
        expect(row(page, "May read", "where")).to_contain_text("topic != 'air/secret'")
        expect(row(page, "Subscriptions", "air/#")).to_contain_text("hall")
        fits = box(page, "Contracts, and whether they are met").get_by_role("row")
        expect(fits.filter(has_text="modest").get_by_role("cell").first).to_have_text("met")
        expect(fits.filter(has_text="greedy")).to_contain_text("depends")
        why = row(page, "By each rule, and why", "greedy").get_by_role("cell").last
        expect(why).to_contain_text("each event is judged by itself")
        assert page.evaluate("one => one.getBoundingClientRect().right", why.element_handle()) <= 1280
        limits = box(page, "What limits it")
        expect(limits).to_contain_text("access control files: 2 on what it may write, 3 on what it may read")
        expect(limits).to_contain_text("conditions on its subscriptions: 1 on what it may read")


def test_a_missing_access_control_file_is_not_told_as_a_right(plant: Looking) -> None:
    with plant.page("/subjects?name=guest") as page:
        line = row(page, "May write", "no ACL file is set, so the ACL denies nothing; other policies are listed below")
        expect(line.get_by_role("cell").first).to_have_text("open")
        expect(line.locator(".pk-gain")).to_have_count(0)
        expect(box(page, "What limits it")).to_contain_text("the brokering table: 1 on what it may write")
        expect(box(page, "What limits it")).not_to_contain_text("access control files")


def test_what_is_not_there_is_said_in_words(plant: Looking) -> None:
    with plant.page("/subjects?name=device-0001") as page:
        expect(box(page, "Sessions")).to_have_text("It has no session at any node.")
        expect(box(page, "Subscriptions")).to_have_text("It has no subscriptions now.")


def test_on_a_telephone_every_cell_is_within_reach(plant: Looking) -> None:
    with plant.page("/subjects?name=sensor", width=390) as page:
        expect(page.get_by_role("banner").get_by_text("plant")).to_be_visible()
        expect(row(page, "Recently used", "elsewhere").get_by_role("cell").last).to_be_visible()
        cells = page.locator(".pk-answer td:visible").all()
        ends = [cell.bounding_box() for cell in cells]
        assert cells
        assert all(end is not None and end["x"] + end["width"] <= 390 for end in ends)


def test_what_the_last_audit_found_that_it_used(plant: Looking) -> None:
    with plant.page("/subjects?name=phone") as page:
        expect(box(page, "Last audit")).to_contain_text("penstock pipeline audit")
    seen = {"subject": "phone", "topic": "air/x", "publisher": "sensor", "events": 41, "first": "a", "last": "b"}
    right = {"subject": "phone", "node": "hall", "rule": "acl:5", "access": "read", "filter": "air/#"}
    kept = {"subject": "phone", "topic": "air/y", "publisher": "sensor", "node": "hall", "effect": "suppress"}
    by = {"stage": "shape", "rule": "calm", "events": 7, "first": "a", "last": "b", "reason": "in state `loud-99`"}
    other = {**kept, "subject": "sensor", "topic": "air/z", **by}
    details = {
        "seen": [seen],
        "rights": [{**right, "reads": 41, "writes": 0, "suggestion": "topic read air/x"}],
        "withheld": [{**kept, **by}, {**kept, **by, "topic": "air/w", "effect": "replace"}, other],
    }
    audit = JobRecord(plant.nodes.folder / "journal", "audit", {})
    audit.add_details(json.dumps(details).encode())
    audit.end(0)
    with plant.page("/subjects?name=phone") as page:
        expect(row(page, "Events sent to it, in the whole journal", "air/x")).to_contain_text("41")
        expect(row(page, "Rights that it has not used, or not all of them", "acl:5")).to_contain_text(
            "topic read air/x"
        )
        title = "Withheld from it, in the whole journal"
        for part in ("sensor", "all of it", "hall", "shape", "calm", "in state loud-99", "7"):
            expect(row(page, title, "air/y")).to_contain_text(part)
        expect(row(page, title, "air/w")).to_contain_text("got other")
        expect(row(page, title, "air/z")).to_have_count(0)
        box(page, "Last audit").scroll_into_view_if_needed()
        plant.picture(page, "subject-withheld")
    with plant.page("/subjects?name=phone", user="eve") as page:  # she may not read content
        expect(row(page, title, "air/y")).to_contain_text("needs the right content")
        expect(row(page, title, "air/y")).not_to_contain_text("loud-99")


def test_names_from_outside_are_text(plant: Looking) -> None:
    with plant.page(f"/subjects?name={quote(HOSTILE)}", width=390) as page:
        expect(box(page, "Who")).to_contain_text(HOSTILE)
        expect(box(page, "Who")).to_contain_text("not listed in the domain")
        expect(row(page, "May read", "secret/x")).to_contain_text("grants")
        assert page.locator("img[src=x]").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_who_is_not_there_is_told_so(plant: Looking) -> None:
    with plant.page("/subjects?name=nobody", user="eve") as page:
        expect(page.get_by_role("alert").filter(has_text="nobody is called nobody")).to_be_visible()


def test_without_trust_it_is_said_how_to_get_it(plant: Looking) -> None:
    with plant.page("/trust") as page:
        expect(page.get_by_role("status").filter(has_text="No node rates another")).to_be_visible()


def test_pictures(plant: Looking) -> None:
    plant.pictures("/subjects?name=sensor", "subjects", "text=Recently used")
