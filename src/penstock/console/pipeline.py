"""The part `pipeline` of the page: jobs, tables, and reports, which are opened in place.

A report is a page that was made elsewhere, of data from outside. It is shown in a frame that may run nothing, load
nothing and lead nowhere.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from nicegui import ui

from penstock.broker.http.answers.pipeline import JobReport, Jobs
from penstock.console import widgets
from penstock.console.admin_client import ApiClientError
from penstock.console.person import Person
from penstock.console.tables import Prose, TableCell, table
from penstock.journal.jobs import Job

BEAT = 3.0
MAX_SHOWN = 100
_ABOUT = "Spark jobs over the journal: what was run, the tables it wrote, and the reports."
_LOOKS = {"done": "pk-gain", "failed": "pk-loss", "killed": "pk-loss", "running": "pk-limit"}
_COMMAND = "penstock pipeline audit --from {journal}"


class PipelineState(NamedTuple):
    """The jobs of the processes with nodes; each may have a journal of its own."""

    journals: tuple[str, ...]
    jobs: tuple[Job, ...]


async def ask_jobs(person: Person) -> PipelineState:
    """Ask for the jobs; raise `ApiClientError` if the first process does not answer."""
    by_id: dict[str, Job] = {}
    journals: list[str] = []
    for client in person.clients:
        try:
            answer = await client.get("/api/pipeline", Jobs)
        except ApiClientError:
            if client is person.first:
                raise
            continue
        journals += [answer.journal] if answer.journal else []
        by_id |= {job.id: job for job in answer.jobs}
    jobs = sorted(by_id.values(), key=lambda job: -job.began)
    return PipelineState(tuple(dict.fromkeys(journals)), tuple(jobs))


async def show(person: Person) -> None:
    """Show the part to a person."""
    widgets.heading("Pipeline", _ABOUT)
    waiting = widgets.loading()
    try:
        state = await ask_jobs(person)
    except ApiClientError as error:
        widgets.problem("The nodes do not answer", str(error))
        return
    finally:
        waiting.delete()
    if not state.journals:
        widgets.empty(
            "The domain has no journal",
            "Add `journal: {folder: journal}`: nodes then record events for jobs to work on.",
        )
        return
    id = ui.context.client.request.query_params.get("report", "")
    if id:
        await _report(person, id)
    page = _PipelinePage(person)
    page.fill(state)
    ui.timer(BEAT, page.beat)


class _PipelinePage:
    def __init__(self, person: Person) -> None:
        self._person = person
        self._shown = b""
        self._box = ui.element("div").classes("pk-answer")

    async def beat(self) -> None:
        try:
            self.fill(await ask_jobs(self._person))
        except ApiClientError:  # the banner reports it
            return

    def fill(self, state: PipelineState) -> None:
        shown = msgspec.json.encode(state)
        if shown == self._shown:
            return
        self._shown = shown
        with widgets.emptied(self._box):
            if not state.jobs:
                widgets.empty("No job has been run yet", "Run one where the journal is, and it appears here:")
                ui.label(_COMMAND.format(journal=state.journals[0])).classes("pk-command pk-mono")
                return
            _last(state.jobs)
            heads = ("job", "state", "began, UTC", "took", "came to", "report", "arguments")
            table("Jobs", heads, map(_row, state.jobs), MAX_SHOWN)
            tables = list(_tables(state.jobs))
            if tables:
                table("Tables", ("folder", "rows", "written by", "at, UTC"), tables, MAX_SHOWN)


def _last(jobs: tuple[Job, ...]) -> None:
    """Show the newest report of each kind."""
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
    report = TableCell("open", "", f"/pipeline?report={job.id}") if job.has_report else ""
    head = (job.job, TableCell(job.state, _LOOKS[job.state]), _time(job.began), took)
    return (*head, Prose(job.why or counts), report, " ".join(job.arguments))


def _tables(jobs: tuple[Job, ...]) -> Iterator[tuple[object, ...]]:
    """Return each folder once, as it was written last."""
    folders = set[str]()
    for job in jobs:
        for table_ in job.tables:
            if table_.folder not in folders:
                folders.add(table_.folder)
                yield TableCell(table_.folder, "pk-mono"), table_.rows, job.job, _time(job.ended or job.began)


async def _report(person: Person, id: str) -> None:
    report, wrong = None, ""
    for client in person.clients:
        try:
            report = await client.get("/api/pipeline/report", JobReport, id=id)
            break
        except ApiClientError as error:
            wrong = wrong or str(error)
    with widgets.card("Report"):
        with ui.element("div").classes("pk-bar"):
            widgets.subheading("Report")
            ui.space()
            ui.link("Close", "/pipeline").classes("pk-out")
        if report is None:
            widgets.problem("The report cannot be shown", wrong)
            return
        frame = ui.element("iframe").classes("pk-frame").props('title="Report" referrerpolicy=no-referrer')
        frame.props["sandbox"] = ""  # no scripts, no forms, an origin of its own
        frame.props["srcdoc"] = report.html


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
