"""Jobs that were run over the journal, what they wrote, and their reports."""

import asyncio
from pathlib import Path

import msgspec

from penstock.broker.http.endpoint import Asked, Endpoint, Query, Refused
from penstock.journal import jobs
from penstock.journal.jobs import Job


class Jobs(msgspec.Struct, frozen=True):
    """What jobs left of themselves, the newest first."""

    journal: str
    """Its folder; empty if the domain keeps none."""
    jobs: tuple[Job, ...]


class Report(msgspec.Struct, frozen=True):
    """A report as a page of its own, for who does not trust what is in it to show."""

    id: str
    html: str


def journal_of(asked: Asked) -> Path | None:
    journal = asked.api.domain.journal
    return None if journal is None else Path(journal.folder)


async def _jobs(asked: Asked) -> Jobs:
    journal = journal_of(asked)
    if journal is None:
        return Jobs("", ())
    return Jobs(str(journal), tuple(await asyncio.to_thread(jobs.list_jobs, journal)))


async def _report(asked: Asked) -> Report:
    journal, id = journal_of(asked), asked.query.get("id", "")
    found = await asyncio.to_thread(jobs.read_report, journal, id) if journal is not None else None
    if found is None:
        raise Refused("there is no such report", 404)
    return Report(id, found)


ENDPOINTS = (
    Endpoint("GET", "/api/pipeline", "read", "jobs that were run over the journal, and what they wrote", Jobs, _jobs),
    Endpoint(
        "GET",
        "/api/pipeline/report",
        "content",
        "the report of a job",
        Report,
        _report,
        (Query("id", "that of the job"),),
    ),
)
