"""The part Try in a browser: a draft is checked in place, held against the recent journal, and put into force."""

import contextlib
import json
import time
from collections.abc import Iterator
from urllib.request import Request, urlopen

import psutil
import pytest
from playwright.sync_api import Page, expect

from tests.support.clients.paho import Paho
from tests.support.processes.commands import PATIENCE
from tests.support.processes.console import Looking, looking

expect.set_options(timeout=PATIENCE * 1000)
HOME = {
    "domain": "smart-home",
    "nodes": {"gateway": {}, "cloud": {}},
    "links": [{"between": ["gateway", "cloud"], "type": "internet"}],
    "clients": {
        "phone": {"node": "cloud", "type": "internet"},
        "motion": {"node": "gateway", "type": "sensitive"},
        "camera": {"node": "gateway", "type": "door"},
    },
    "brokering": {"types": ["internet", "door", "sensitive"], "deny": [{"from": "sensitive", "to": "internet"}]},
    "assertions": [{"never": "motion to phone", "routes": True}, {"can": "camera to phone", "routes": True}],
    "journal": {"folder": "journal"},
}
HOSTILE = "<img src=x onerror=alert(1)>"
DENY = "  - from: sensitive\n    to: internet\n"


@pytest.fixture(scope="module")
def home() -> Iterator[Looking]:
    with looking(HOME) as home:
        gateway, cloud = home.nodes.ports("mqtt")
        with Paho("phone") as phone, Paho("motion") as motion:
            phone.connects(cloud)
            motion.connects(gateway)
            for topic in ("MD_motion", "MD_no_motion", "MD_motion"):
                motion.client.publish(topic, b"{}", 1).wait_for_publish(10)
        yield home


def text_of(page: Page) -> str:
    """Return the whole text of the editor: lines out of sight are not in the page."""
    return str(
        page.evaluate("getElement(document.querySelector('.pk-editor').id.slice(1)).editor.state.doc.toString()")
    )


def write(page: Page, text: str) -> None:
    """Put a whole draft into the editor, as a paste does."""
    page.wait_for_selector(".cm-content")
    page.click(".cm-content")
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def ask(home: Looking, path: str) -> object:
    question = Request(f"{home.admin}{path}", headers={"Authorization": f"Bearer {home.token}"})
    with urlopen(question, timeout=20) as answer:
        return json.load(answer)


def present(home: Looking) -> str:
    return (home.nodes.folder / "domain.yaml").read_text()


def test_one_can_type(home: Looking) -> None:
    """Key by key, at the pace of a person: what is typed stays where it is typed."""
    with home.page("/try") as page:
        page.wait_for_selector(".cm-content")
        page.wait_for_timeout(1_500)
        page.locator(".cm-line", has_text="domain: smart-home").first.click()
        page.keyboard.press("End")
        page.keyboard.type(" # one two", delay=120)
        page.wait_for_timeout(1_000)
        assert text_of(page).startswith("domain: smart-home # one two\n")


def test_a_mistake_is_shown_at_its_line(home: Looking) -> None:
    draft = present(home).replace("type: sensitive", f'type: "{HOSTILE}"')
    line = next(n for n, line_ in enumerate(draft.splitlines(), 1) if HOSTILE in line_)
    with home.page("/try") as page:
        write(page, draft)
        results = page.get_by_role("region", name="Check")
        expect(results).not_to_contain_text("This is the present domain")
        place = results.get_by_role("button", name=f"line {line}").first
        expect(place).to_be_visible()
        expect(results).to_contain_text(HOSTILE)
        mistakes = int(results.locator(".pk-effect").inner_text().split()[0])
        assert results.locator(".pk-problem", has_text="mistake").count() == mistakes
        place.click()
        expect(page.locator(".pk-line-wrong")).to_contain_text(HOSTILE)
        expect(page.get_by_role("button", name="Put into force")).to_be_disabled()
        home.picture(page, "try-mistake")
        assert page.locator("img[src=x]").count() == 0


def test_an_assertion_that_does_not_hold_is_told(home: Looking) -> None:
    draft = present(home)
    assert draft.count(DENY) == 1
    with home.page("/try") as page:
        write(page, draft.replace(f"deny:\n{DENY}", "deny: []\n"))
        results = page.get_by_role("region", name="Check")
        expect(results.get_by_text("fails").first).to_be_visible()
        expect(results).to_contain_text("never: motion to phone by routes")
        expect(results).to_contain_text("there is a way")
        page.reload()
        expect(page.get_by_text("Your draft from before.")).to_be_visible()
        page.wait_for_selector(".cm-content")
        assert "deny: []" in text_of(page), "what was written is not lost with the page"
        expect(results).to_contain_text("there is a way")
        page.get_by_role("button", name="Start again").click()
        expect(page.get_by_text("Your draft from before.")).to_have_count(0)
        home.picture(page, "try-assertion")


def test_a_draft_is_put_into_force_by_who_may_and_it_is_noted(home: Looking) -> None:
    draft = present(home).replace("domain: smart-home\n", "domain: smart-home\n# by ada\n")
    draft = draft.replace("  camera:\n", "  robot:\n    node: gateway\n    type: door\n  camera:\n")
    with home.page("/try") as page, home.page("/try") as late:
        write(page, draft)
        expect(page.locator("#pk-changes")).to_contain_text("client robot added")
        page.get_by_role("button", name="Put into force").click()
        expect(page.get_by_role("dialog")).to_contain_text("client robot added")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert "robot" not in present(home), "nothing is done before it is confirmed"
        page.get_by_role("button", name="Put into force").click()
        page.get_by_role("dialog").get_by_role("button", name="Put into force").click()
        expect(page.get_by_text("In force, revision")).to_be_visible()
        now = page.get_by_text("In force, revision").inner_text().split()[-1]
        expect(page.get_by_role("region", name="Draft", exact=True)).to_contain_text(f"revision {now}")
        assert "# by ada" in present(home)
        (last,) = [entry for entry in ask(home, "/api/audit") if entry["what"] == "draft"]  # type: ignore[attr-defined]
        assert (last["who"], last["done"]) == ("ada", True)
        assert "robot" in last["detail"]
        done = page.get_by_role("region", name="Last changes").get_by_role("row").filter(has_text="robot")
        expect(done.first).to_contain_text("ada")
        # Whoever began with the revision before is told so, and changes nothing.
        write(late, draft.replace("robot", "toaster"))
        expect(late.get_by_role("region", name="Check")).to_contain_text("The domain has changed meanwhile")
        expect(late.get_by_role("button", name="Put into force")).to_be_disabled()
        assert "toaster" not in present(home)


def test_who_may_only_read_sees_the_domain_and_can_do_nothing_with_it(home: Looking) -> None:
    with home.page("/try", user="eve", width=390) as page:
        page.wait_for_selector(".cm-content")
        assert "smart-home" in text_of(page)
        for name in ("Check", "Put into force…", "Compare"):
            expect(page.get_by_role("button", name=name)).to_be_disabled()
        expect(page.get_by_text("Read only")).to_be_visible()
        expect(page.get_by_text("Edit the domain")).to_have_count(0)
        expect(page.locator("code", has_text="change").first).to_be_visible()
        home.picture(page, "try-read-narrow")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def held(home: Looking) -> psutil.Process:
    """The process that compares, which does not come to an end by itself from now on."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for child in psutil.Process(home.nodes.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if "replay" in child.cmdline():
                    child.suspend()
                    return child
        time.sleep(0.01)
    raise AssertionError("nothing compares")


def test_a_comparison_that_one_has_left_is_shown_on_a_new_page_and_can_be_stopped(home: Looking) -> None:
    with home.page("/try") as page:
        page.wait_for_selector(".cm-content")
        page.get_by_role("button", name="Compare").click()
        process = held(home)
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
    with home.page("/try") as page:
        box = page.get_by_role("region", name="Difference on the recent journal", exact=True)
        expect(box).to_contain_text("Replaying the newest events, ")
        box.get_by_role("button", name="Stop").click()
        expect(box).to_contain_text("it was stopped")
        expect(page.get_by_role("button", name="Compare")).to_be_enabled()
    assert not process.is_running(), "it does not go on where nobody sees it"


def test_a_draft_that_leaks_motion_is_a_gain_for_the_phone(home: Looking) -> None:
    with home.page("/try") as page:
        write(page, present(home).replace(f"deny:\n{DENY}", "deny: []\n"))
        page.get_by_role("button", name="Compare").click()
        box = page.get_by_role("region", name="Difference on the recent journal", exact=True)
        topics = box.get_by_role("region", name="By topic")
        row = topics.get_by_role("row").filter(has_text="phone").filter(has_text="MD_no_motion")
        expect(row).to_contain_text("+1")
        why = row.locator("xpath=following-sibling::tr[1]")
        expect(why).to_contain_text("gateway: route brokering: denied by deny from sensitive to internet")
        expect(box).to_contain_text("as if every client had subscribed to everything")
        expect(box.get_by_role("columnheader", name="changed")).to_have_count(0)
        assert topics.evaluate("one => one.scrollWidth <= one.clientWidth"), "nothing is out of sight to the right"
        expect(box).to_contain_text("penstock pipeline replay --from")
        home.picture(page, "try-compared")


def test_pictures(home: Looking) -> None:
    home.pictures("/try", "try", ".cm-content")
