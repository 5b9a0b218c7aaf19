"""The job `govern`: a journal in, tables of views out."""

import shutil
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from penstock.journal.private import leave_to_operators, make_folder, make_operators_folder
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.policies import Asker, Policies
from penstock.pipeline.stages.admit import check_subjects
from penstock.pipeline.stages.govern import view
from penstock.pipeline.tables import tables
from penstock.pipeline.tables.metrics import metrics
from penstock.pipeline.tables.view import current

VIEW, QUARANTINE, METRICS = "view", "quarantine", "metrics"
_DONE = "_SUCCESS"
"""Spark leaves it in a table that is complete; one without it is what is left of a job that failed."""


class WrittenViews(NamedTuple):
    """What was written."""

    view: Path
    quarantine: Path
    counts: dict[str, int]
    """Events by subject."""
    quarantined: int
    metrics: Path | None
    """The table of metrics, if there are access policies."""


def every_subject(policies: Policies) -> tuple[Asker, ...]:
    """Return all clients that the domains list; raises `PipelineError` if they list none."""
    names = dict.fromkeys(name for policy in policies.judging for name in policy.ensemble.devices)
    if not names:
        raise PipelineError("the domain lists no clients: name subjects by their client ids")
    return tuple(map(Asker, names))


def write_views(
    spark: SparkSession,
    journal: Path,
    folder: Path,
    policies: Policies,
    askers: tuple[Asker, ...],
    nodes: frozenset[str] | None = None,
    days: tables.Days | None = None,
) -> WrittenViews:
    """Write the views of subjects, and what of the journal cannot be read; raises `PipelineError`."""
    for name in (VIEW, QUARANTINE, METRICS):
        if (folder / name / _DONE).exists():
            raise PipelineError(f"`{folder / name}` exists already: choose another folder")
    check_places(policies, askers)
    try:
        make_folder(folder)
    except OSError as error:
        raise PipelineError(f"`{folder}` cannot be written to: {error.strerror}") from None
    given = view(tables.events(spark, journal, nodes, days), policies, askers)
    tables.write_view(current(given), folder / VIEW)
    has_access = any(policy.ensemble.access is not None for policy in policies.judging)
    if has_access:
        seen = read_view(spark, folder) if _is_written(folder / VIEW) else None
        if seen is not None:
            tables.write_view(metrics(seen), folder / METRICS)
    lost = tables.quarantine(spark, journal, nodes, days)
    quarantined = lost.count()
    if quarantined:
        shutil.rmtree(folder / QUARANTINE, ignore_errors=True)
        apart = make_operators_folder(folder / QUARANTINE)
        lost.write.mode("append").parquet(str(apart))
        leave_to_operators(apart)
    counts = _counts(spark, folder / VIEW, askers)
    return WrittenViews(
        folder / VIEW, folder / QUARANTINE, counts, quarantined, folder / METRICS if has_access else None
    )


def read_view(spark: SparkSession, folder: Path) -> DataFrame:
    """Return views that were written."""
    return spark.read.parquet(str(folder / VIEW))


def check_places(policies: Policies, askers: tuple[Asker, ...]) -> None:
    """Raise `PipelineError` if a subject has no place at any node, or what its token says is not known."""
    for asker in askers:
        _check_place(policies, asker)
    check_subjects(policies, askers)


def _check_place(policies: Policies, asker: Asker) -> None:
    listed = dict[str, None]()
    for policy in policies.judging:
        listed |= dict.fromkeys(policy.ensemble.devices)
        if any(policy.session(policy.new_node(name), asker) is not None for name in policy.ensemble.nodes):
            return
    known = ", ".join(f"`{name}`" for name in listed) or "no clients"
    raise PipelineError(f"no node accepts the subject `{asker.name}`; the domain lists {known}")


def _is_written(folder: Path) -> bool:
    """Return whether there is anything in a table."""
    return any(path.name.startswith("subject=") for path in folder.iterdir())


def _counts(spark: SparkSession, folder: Path, askers: tuple[Asker, ...]) -> dict[str, int]:
    rows = spark.read.parquet(str(folder)).groupBy("subject").count().collect() if _is_written(folder) else []
    counts = {row["subject"]: row["count"] for row in rows}
    return {asker.label: counts.get(asker.label, 0) for asker in askers}
