"""Jobs that were run over the journal, the tables they wrote, and their reports."""

import asyncio
from pathlib import Path

import msgspec

from penstock.broker.http.endpoint import ApiError, ApiRequest, Endpoints, Query
from penstock.journal import jobs
from penstock.journal.jobs import Job

ENDPOINTS = Endpoints()


class Jobs(msgspec.Struct, frozen=True):
    """The records of jobs, the newest first."""

    journal: str
    """The journal's folder; empty if the domain has none."""
    jobs: tuple[Job, ...]


class JobReport(msgspec.Struct, frozen=True):
    """A report as an HTML page of its own; show it isolated, its contents are not trusted."""

    id: str
    html: str


def journal_of(request: ApiRequest) -> Path | None:
    journal = request.api.domain.journal
    return None if journal is None else Path(journal.folder)


@ENDPOINTS.add("GET /api/pipeline", "read", "jobs that were run over the journal, and the tables they wrote")
async def _jobs(request: ApiRequest) -> Jobs:
    journal = journal_of(request)
    if journal is None:
        return Jobs("", ())
    return Jobs(str(journal), tuple(await asyncio.to_thread(jobs.list_jobs, journal)))


@ENDPOINTS.add("GET /api/pipeline/report", "content", "the report of a job", Query("id", "that of the job"))
async def _report(request: ApiRequest) -> JobReport:
    journal, id = journal_of(request), request.query.get("id", "")
    html = await asyncio.to_thread(jobs.read_report, journal, id) if journal is not None else None
    if html is None:
        raise ApiError("no such report", 404)
    return JobReport(id, html)
