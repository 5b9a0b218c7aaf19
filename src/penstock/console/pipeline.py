"""The part `pipeline` of the page: jobs run, tables, and reports, which are opened in place.

A report is a page that was made elsewhere, of data from outside. It is shown in a frame that may run nothing, load
nothing and lead nowhere.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from nicegui import ui

from penstock.broker.http.answers.pipeline import Jobs, Report
from penstock.console import widgets
from penstock.console.admin_client import AskError
from penstock.console.person import Person
from penstock.console.tables import Cell, Prose, table
from penstock.journal.jobs import Job

BEAT = 3.0
MOST_SHOWN = 100
_ABOUT = "Jobs on Spark over what nodes recorded: what was run, what it wrote, and the reports."
_LOOKS = {"done": "pk-gain", "failed": "pk-loss", "killed": "pk-loss", "running": "pk-limit"}
_COMMAND = "penstock pipeline audit --from {journal}"


class Told(NamedTuple):
    """What the processes with nodes say; each may have a journal of its own."""

    journals: tuple[str, ...]
    jobs: tuple[Job, ...]


async def told(person: Person) -> Told:
    """Ask; raises `AskError` if the first does not answer."""
    found: dict[str, Job] = {}
    journals: list[str] = []
    for one in person.asked:
        try:
            said = await one.get("/api/pipeline", Jobs)
        except AskError:
            if one is person.first:
                raise
            continue
        journals += [said.journal] if said.journal else []
        found |= {job.id: job for job in said.jobs}
    jobs = sorted(found.values(), key=lambda job: -job.began)
    return Told(tuple(dict.fromkeys(journals)), tuple(jobs))


async def show(person: Person) -> None:
    """Show it to a person."""
    widgets.heading("Pipeline", _ABOUT)
    waiting = widgets.loading()
    try:
        found = await told(person)
    except AskError as error:
        waiting.delete()
        widgets.wrong("The nodes do not tell", str(error))
        return
    waiting.delete()
    if not found.journals:
        widgets.empty(
            "The domain keeps no journal",
            "Give it `journal: {folder: journal}`: nodes then record what comes, and jobs have something to work on.",
        )
        return
    id = ui.context.client.request.query_params.get("report", "")
    if id:
        await _report(person, id)
    page = _Page(person)
    page.fill(found)
    ui.timer(BEAT, page.beat)


class _Page:
    def __init__(self, person: Person) -> None:
        self._person = person
        self._shown = b""
        self._box = ui.element("div").classes("pk-answer")

    async def beat(self) -> None:
        try:
            self.fill(await told(self._person))
        except AskError:  # the banner says so
            return

    def fill(self, found: Told) -> None:
        shown = msgspec.json.encode(found)
        if shown == self._shown:
            return
        self._shown = shown
        self._box.clear()
        with self._box:
            if not found.jobs:
                widgets.empty("No job has been run yet", "Run one where the journal is, and it appears here:")
                ui.label(_COMMAND.format(journal=found.journals[0])).classes("pk-command pk-mono")
                return
            _last(found.jobs)
            heads = ("job", "state", "began, UTC", "took", "came to", "report", "arguments")
            table("Jobs", heads, map(_row, found.jobs), MOST_SHOWN)
            tables = list(_tables(found.jobs))
            if tables:
                table("Tables", ("folder", "rows", "written by", "at, UTC"), tables, MOST_SHOWN)


def _last(jobs: tuple[Job, ...]) -> None:
    """The newest reports of each kind, at hand."""
    newest: dict[str, Job] = {}
    for job in jobs:
        if job.has_report:
            newest.setdefault(job.job, job)
    if newest:
        with ui.element("div").classes("pk-bar"):
            for name, job in newest.items():
                ui.link(f"Last {name}: {_time(job.began)}", f"/pipeline?report={job.id}").classes("pk-out")


def _row(job: Job) -> tuple[object, ...]:
    counts = ", ".join(f"{count:,} {name}" for name, count in job.counts.items())
    took = f"{job.ended - job.began:.1f} s" if job.ended is not None else ""
    report = Cell("open", "", f"/pipeline?report={job.id}") if job.has_report else ""
    what = job.why or counts
    return (
        job.job,
        Cell(job.state, _LOOKS[job.state]),
        _time(job.began),
        took,
        Prose(what),
        report,
        " ".join(job.arguments),
    )


def _tables(jobs: tuple[Job, ...]) -> Iterator[tuple[object, ...]]:
    """Each folder once, as it was written last."""
    seen = set[str]()
    for job in jobs:
        for one in job.tables:
            if one.folder not in seen:
                seen.add(one.folder)
                yield Cell(one.folder, "pk-mono"), one.rows, job.job, _time(job.ended or job.began)


async def _report(person: Person, id: str) -> None:
    found, wrong = None, ""
    for one in person.asked:
        try:
            found = await one.get("/api/pipeline/report", Report, id=id)
            break
        except AskError as error:
            wrong = wrong or str(error)
    with widgets.card("Report"):
        with ui.element("div").classes("pk-bar"):
            widgets.subheading("Report")
            ui.space()
            ui.link("Close", "/pipeline").classes("pk-out")
        if found is None:
            widgets.wrong("The report cannot be shown", wrong)
            return
        frame = ui.element("iframe").classes("pk-frame").props('title="Report" referrerpolicy=no-referrer')
        frame.props["sandbox"] = ""  # no scripts, no forms, an origin of its own
        frame.props["srcdoc"] = found.html


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
