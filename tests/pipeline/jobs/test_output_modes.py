"""Issue 17, item 11: what jobs and commands write of payloads is for the owner and its group, as the journal is.
Quarantine, which has packets that no policy has judged, is for the owner alone.
"""

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from penstock.cli.pipeline import JOBS
from penstock.domain import Domain, ensemble
from penstock.engine.journal_rows import Rows
from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.support.memory.recording import Written, record
from tests.support.processes.commands import PATIENCE, penstock
from tests.support.processes.token_node import write_keys
from tests.support.scenes.air_capsules import NOON, NOTE, SOURCE, City, readings

pytestmark = pytest.mark.recorded

DAMAGED = b"\x30\x05\x00\x09t"
"""A PUBLISH whose topic is longer than the packet."""
APART = {"quarantine", "lost"}
QUARANTINED = {"govern", "stream", "capsules", "compact", "forget"}
"""Commands that put aside what cannot be read, or write it again."""


def _city(folder: Path) -> City:
    city = City(folder)
    city.record_all(readings(1, 60), 2)
    rows = Rows.new()
    rows.notes.append(NOTE)
    rows.run(SOURCE, NOON + 1000.0, DAMAGED)
    city.add(rows)
    return city


def _on_city(job: str, *options: str, is_judged: bool = False) -> Callable[[Path], list[str]]:
    def words(folder: Path) -> list[str]:
        city, to = _city(folder), folder / "out"
        judged = ["--domain", str(city.domain)] if is_judged else []
        named = [option.replace("OUT", str(to)) for option in options]
        return ["pipeline", job, *judged, "--from", str(city.journal), *named]

    return words


def _forget(folder: Path) -> list[str]:
    until = pa.array([datetime(2026, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC"))
    for place, modes in (("air/results", (0o750, 0o640)), ("air/quarantine", (0o700, 0o600))):
        file = folder / "out" / place / "batch=000000000" / "a.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"retain_until": until}), file)
        file.chmod(modes[1])
        file.parent.chmod(modes[0])
        file.parent.parent.chmod(modes[0])
    (folder / "out" / "air" / "_states").mkdir()
    for made in (folder / "out", folder / "out/air", folder / "out/air/_states"):
        made.chmod(0o750)
    return ["pipeline", "forget", "--tables", str(folder / "out"), "--at", "2026-01-02T00:00:00Z"]


def _trust(folder: Path) -> list[str]:
    plain = {
        "domain": "fleet",
        "nodes": {name: {"listen": "127.0.0.1:0", "signing_key": f"{name}.pem"} for name in ("b1", "b2")},
        "links": [{"between": ["b1", "b2"], "type": "default"}],
        "brokering": {"default": "default", "types": ["default"]},
        "tokens": {"keys": "keys.json", "grants": [{"clients": "*", "publish": "#", "subscribe": "#"}]},
        "trust": {"sign": 0.0},
    }
    write_keys(folder, "b1", "b2")
    (folder / "fleet.yaml").write_text(yaml.safe_dump(plain))
    domain = Domain.model_validate(plain)
    rehearsal, journal = Rehearsal(domain, ensemble(domain)), Written(folder / "journal")
    record(rehearsal)
    rehearsal.connect("ann", "b1")
    rehearsal.connect("bob", "b2")
    rehearsal.subscribe("bob", "#")
    rehearsal.publish("ann", "home/door", b"open")
    rehearsal.run()
    journal.add_all(rehearsal.nodes.values(), journal.keep(domain))
    where = ["--domain", str(folder / "fleet.yaml"), "--from", str(folder / "journal"), "--to", str(folder / "out")]
    return ["pipeline", "trust", *where, "--paths"]


WORDS: dict[str, Callable[[Path], list[str]]] = {
    "govern": _on_city("govern", "--all-subjects", "--to", "OUT"),
    "replay": _on_city("replay", "--to", "OUT/tables", "--html", "OUT/report.html", is_judged=True),
    "audit": _on_city("audit", "--to", "OUT/tables", "--html", "OUT/report.html"),
    "stream": _on_city(
        "stream", "--all-subjects", "--to", "OUT/tables", "--checkpoint", "OUT/checkpoint", "--once", is_judged=True
    ),
    "forget": _forget,
    "trust": _trust,
    "capsules": _on_city("capsules", "--to", "OUT", "--capsule", "air", "--once", is_judged=True),
    "simulate": lambda folder: [
        *("pipeline", "simulate", "--nodes", "12", "--publishers", "2", "--rounds", "2", "--replicates", "1"),
        *("--rule", "path", "--to", str(folder / "out")),
    ],
}


@pytest.fixture
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def _ran(words: list[str]) -> None:
    command = penstock(*words, *(["--master", "local[1]"] if words[0] == "pipeline" else []))
    quick = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE, env={**os.environ, **quick})
    assert done.returncode == 0, done.stderr


def _wrong(home: Path, is_quarantined: bool) -> list[str]:
    """What others can read, or the group in quarantine; and what the group cannot read elsewhere, but drafts."""
    paths = [home, *home.rglob("*")]
    assert any(path.is_file() for path in paths)
    assert any(not APART.isdisjoint(path.parts) and path.is_file() for path in paths) is is_quarantined
    found = []
    for path in paths:
        is_apart = not APART.isdisjoint(path.parts)
        folder, file = (0o700, 0o600) if is_apart else (0o750, 0o640)
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode != (folder if path.is_dir() else file) and not (path.name == "_drafts" and mode == 0o700):
            found.append(f"{path.relative_to(home.parent)} {mode:o}")
    return found


@pytest.mark.usefixtures("usual_mask")
@pytest.mark.parametrize("job", JOBS)
def test_what_a_job_writes_is_not_for_others(job: str, tmp_path: Path) -> None:
    _ran(WORDS[job](tmp_path))
    assert _wrong(tmp_path / "out", job in QUARANTINED) == []


@pytest.mark.usefixtures("usual_mask")
def test_what_compaction_writes_is_not_for_others(tmp_path: Path) -> None:
    city = _city(tmp_path)
    _ran(["journal", "compact", str(city.journal)])
    assert _wrong(city.journal, "compact" in QUARANTINED) == []


@pytest.mark.usefixtures("usual_mask")
def test_what_a_replay_of_a_few_events_writes_is_not_for_others(tmp_path: Path) -> None:
    words = WORDS["replay"](tmp_path)
    (tmp_path / "out").mkdir(0o750)
    command = penstock(*words[: words.index("--to")], "--last", "5", "--html", str(tmp_path / "out" / "report.html"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert _wrong(tmp_path / "out", is_quarantined=False) == []
