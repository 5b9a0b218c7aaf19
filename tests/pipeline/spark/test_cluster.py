"""On a real standalone cluster: jobs give the same tables as on one machine, also if a worker is lost on the way."""

import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from penstock.domain import load
from penstock.engine.journal_rows import Source
from penstock.journal.revision import Revision
from tests.support.memory.journals import rows, write_segments
from tests.support.processes.commands import penstock
from tests.support.scenes.counting_plant import plant
from tests.support.spark.cluster import ENVIRONMENT, Cluster, cluster

pytestmark = pytest.mark.cluster

PATIENCE = 900.0
ORDER = [(name, "ascending") for name in ("subject", "node", "seq", "place", "part")]
SENSOR = Source("sensor", None, "sensor", "field", None, 4, 4)
SEGMENTS, ROWS = 12, 4_000
DOMAIN = """\
domain: plant
nodes: {main: {listen: "127.0.0.1:0", store: memory}}
clients:
  sensor: {node: main, type: field}
  office: {node: main, type: office, where: {"t/#": "value % 3 == 0"}}
  desk: {node: main, type: office}
brokering: {types: [field, office], allow: [{from: field, to: office}]}
monitors: {every: {link: main -> desk, states: {q0: {"t/1": {suppress: true, next: q1}, "*": pass}, q1: {"*": pass}}}}
"""


def _run(job: str, master: str, domain: Path, journal: Path, folder: Path) -> subprocess.Popen[str]:
    options = ["--domain", str(domain), "--all-subjects", "--from", str(journal), "--to", str(folder)]
    if job == "stream":
        options += ["--checkpoint", str(folder) + "-checkpoint", "--once"]
    command = penstock("pipeline", job, *options, "--master", master)
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def _finished(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors[-2000:]


def _table(folder: Path) -> pa.Table:
    """What is in the table; whether a column could be null is not, for the jobs do not say the same of it."""
    table = ds.dataset(folder / "view", partitioning="hive").to_table().sort_by(ORDER).combine_chunks()
    schema = pa.schema([field.with_nullable(True) for field in table.schema if field.name != "batch"])
    return table.select(schema.names).cast(schema)


@pytest.mark.parametrize("job", ["govern", "stream"])
def test_the_same_tables_as_on_one_machine(job: str, tmp_path: Path) -> None:
    made = plant(tmp_path, segments=6, events=50)
    with cluster(tmp_path) as spark:
        _finished(_run(job, spark.url, made.domain, made.journal, tmp_path / "there"))
    _finished(_run("govern", "local[2]", made.domain, made.journal, tmp_path / "here"))
    here, there = _table(tmp_path / "here"), _table(tmp_path / "there")
    assert here.num_rows == sum(map(len, made.delivered.values())) > 0
    assert there.select(here.column_names) == here


def test_a_job_survives_the_loss_of_a_worker(tmp_path: Path) -> None:
    domain = tmp_path / "domain.yaml"
    domain.write_text(DOMAIN)
    journal = tmp_path / "journal"
    revision = Revision.of(load(domain))
    revision.keep(journal)
    segments = [
        [rows(*((f"t/{at % 5}", b'{"value": %d}' % at) for at in range(ROWS)), source=SENSOR)] for _ in range(SEGMENTS)
    ]
    write_segments(journal, *segments, node="main", revision=revision.digest)
    with cluster(tmp_path) as spark:
        process = _run("govern", spark.url, domain, journal, tmp_path / "there")
        _lose_one(spark, process, tmp_path / "there" / "view" / "_temporary")
        _finished(process)
    _finished(_run("govern", "local[2]", domain, journal, tmp_path / "here"))
    here, there = _table(tmp_path / "here"), _table(tmp_path / "there")
    assert here.num_rows > SEGMENTS * ROWS
    assert there.select(here.column_names) == here


def _lose_one(spark: Cluster, process: subprocess.Popen[str], under_way: Path) -> None:
    """Kill a worker, with the executor that it has, while the table is being written."""
    end = time.monotonic() + PATIENCE
    while not under_way.exists():
        assert process.poll() is None, "the job ended before it could be disturbed"
        assert time.monotonic() < end, "the job does not begin to write"
        time.sleep(0.01)
    spark.workers[0].kill()
    assert process.poll() is None, "the job ended before it could be disturbed"
