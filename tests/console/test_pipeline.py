"""The part Pipeline in a browser: jobs, tables and reports; what a report says runs nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from penstock.journal.jobs import FOLDER, JobRecord, JobTable
from tests.support.processes.commands import PATIENCE
from tests.support.processes.console import Looking, looking

expect.set_options(timeout=PATIENCE * 1000)
HOSTILE = "<img src=x onerror=alert(1)>"
REPORT = (
    "<!doctype html><title>r</title><h1>Who saw what</h1><p id=p>as it was</p>"
    "<script>document.getElementById('p').textContent = 'changed'; top.location = '/login'</script>"
    "<img src=x onerror=\"top.document.title='hacked'\"><form action=/logout method=post><input type=submit></form>"
    "<script>document.forms[0].submit()</script>"
)


@pytest.fixture(scope="module")
def plant() -> Iterator[Looking]:
    with looking({"domain": "plant", "nodes": {"hall": {}}, "journal": {"folder": "journal"}}) as plant:
        yield plant


def journal(plant: Looking) -> Path:
    return plant.nodes.folder / "journal"


def test_jobs_appear_with_what_they_wrote_and_their_reports_are_opened_in_place(plant: Looking) -> None:
    with plant.page("/pipeline") as page:
        expect(page.get_by_text("No job has been run yet")).to_be_visible()
        audit = JobRecord(journal(plant), "audit", {"journal": Path("j"), "to": HOSTILE})
        audit.add({"events": 1234}, [JobTable("/tables/seen", 77)], REPORT)
        audit.end(0)
        jobs = page.get_by_role("region", name="Jobs")
        expect(jobs.get_by_role("row").filter(has_text="audit")).to_contain_text("1,234 events")
        expect(jobs).to_contain_text(HOSTILE)
        expect(page.get_by_role("region", name="Tables")).to_contain_text("/tables/seen")
        failed = JobRecord(journal(plant), "replay", {})
        failed.end(3, "it does not check")
        expect(jobs.get_by_role("row").filter(has_text="replay")).to_contain_text("it does not check")
        plant.picture(page, "pipeline-jobs")
        page.get_by_role("link", name="Last audit").click()
        frame = page.frame_locator("iframe[title=Report]")
        expect(frame.get_by_role("heading", name="Who saw what")).to_be_visible()
        expect(frame.locator("#p")).to_have_text("as it was")
        assert page.locator("iframe").get_attribute("sandbox") == ""
        assert "hacked" not in page.title()
        assert "/pipeline?report=" in page.url
        assert page.locator("img[src=x]").count() == 0
        page.get_by_role("link", name="Close").click()
        expect(page.locator("iframe")).to_have_count(0)


def test_payloads_may_be_in_a_report_so_who_may_not_see_them_does_not_see_it(plant: Looking) -> None:
    record = JobRecord(journal(plant), "audit", {})
    record.add(report=REPORT)
    (newest, *_) = sorted(journal(plant).joinpath(FOLDER).glob("*.html"), key=lambda path: path.stat().st_mtime)[::-1]
    with plant.page(f"/pipeline?report={newest.stem}", user="eve", width=390) as page:
        expect(page.get_by_role("alert").filter(has_text="needs content")).to_be_visible()
        assert page.locator("iframe").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_report_is_found_by_its_id_and_by_nothing_else(plant: Looking) -> None:
    with plant.page("/pipeline?report=../../people") as page:
        expect(page.get_by_role("alert").filter(has_text="no such report")).to_be_visible()


def test_pictures(plant: Looking) -> None:
    plant.pictures("/pipeline", "pipeline", ".pk-heading")
