"""`penstock journal` on journals that tests have written."""

import io
import json
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.main import main
from penstock.journal.write.segment import Segment
from penstock.model.verdict import Effect, Verdict
from tests.support.memory.journals import DENIED, NOON, PASSES, PHONE, rows, write_segments
from tests.support.processes.commands import penstock


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    write_segments(
        tmp_path,
        [rows(("door/1", b"open"), ("temp/1", b"\xff\x00"))],
        [rows(("door/2", b"shut"), note=DENIED, time=NOON + 60)],
    )
    return tmp_path


def _run(*arguments: str) -> tuple[int, str, str]:
    """The command in this process, which is quicker."""
    out, error = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(error):
        try:
            code = main(["journal", *arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, out.getvalue(), error.getvalue()


def _lines(*arguments: str) -> list[dict[str, Any]]:
    code, out, error = _run(*arguments, "--json")
    assert (code, error) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


SHOWN = {
    "all": ((), ["door/1", "temp/1", "door/2"]),
    "by topic": (("--topic", "door/#"), ["door/1", "door/2"]),
    "by its sender": (("--client", "sensor"), ["door/1", "temp/1", "door/2"]),
    "by the client id of whom it reached": (("--client", "phone-7"), ["door/1", "temp/1"]),
    "by a client that has no part in it": (("--client", "other"), []),
    "by effect": (("--effect", "suppress"), ["door/2"]),
    "from a time on": (("--from", "2023-11-15T12:00:30"), ["door/2"]),
    "up to a time": (("--to", "2023-11-15T13:00:30+01:00"), ["door/1", "temp/1"]),
    "no more than": (("--limit", "2"), ["door/1", "temp/1"]),
}


@pytest.mark.parametrize("command", ["show", "stats", "compact"])
def test_a_node_that_recorded_nothing_is_named_with_those_that_did(journal: Path, command: str) -> None:
    code, out, error = _run(command, str(journal), "--node", "m")
    assert (code, out) == (2, "")
    assert error == f"penstock: journal `{journal}` has no rows of node `m`; it has `n`\n"


def test_times_of_which_none_is_are_refused(journal: Path) -> None:
    code, _, error = _run("show", str(journal), "--from", "2026-02-02", "--to", "2026-02-01")
    assert code == 2
    assert "--from 2026-02-02T00:00:00+00:00 is after --to 2026-02-01T00:00:00+00:00" in error


@pytest.mark.parametrize("title", SHOWN)
def test_show_filters(journal: Path, title: str) -> None:
    arguments, topics = SHOWN[title]
    assert [row["topic"] for row in _lines("show", str(journal), *arguments)] == topics


def test_show_gives_an_account(journal: Path) -> None:
    code, out, _ = _run("show", str(journal))
    assert code == 0
    assert out.splitlines()[:4] == [
        "2023-11-15T12:00:00.000000Z n #3 door/1 from `sensor` (sensor-1) by lan, QoS 0",
        "    open",
        "    admit: pass",
        "    reached phone (QoS 0)",
    ]
    assert "    2 bytes: ff 00" in out
    assert out.splitlines()[-1] == "    admit: suppress by acl line 3: `sue` may not write `x`"


def test_show_says_in_which_form_it_was_sent_and_what_was_not(tmp_path: Path) -> None:
    said = rows(("door/1", b"open"), ("door/1", b"o"), ("door/1", b"shut"), note=PASSES._replace(reached=()))
    said.views.append(1)
    said.withdrawn.append(2)
    said.chosen.update({1: (PHONE,), 2: (PHONE,)})
    said.verdicts[2] = Verdict("emit", Effect.SUPPRESS, "", "it expired while it waited")
    write_segments(tmp_path, [said])
    assert [line.strip() for line in _run("show", str(tmp_path))[1].splitlines()[4:]] == [
        "2023-11-15T12:00:00.000000Z n #4 door/1 made from #3 of `sensor` (sensor-1) by lan, QoS 0",
        "o",
        "admit: pass",
        "reached phone (QoS 0)",
        "2023-11-15T12:00:00.000000Z n #5 door/1 from `sensor` (sensor-1) by lan, QoS 0",
        "shut",
        "emit: suppress: it expired while it waited",
        "queued, and not sent to phone (QoS 0)",
    ]


def test_stats(journal: Path) -> None:
    segment = Segment(journal, "n", "test", 100, NOON)
    segment.gap(100, NOON, 5)
    segment.seal()
    (stats,) = _lines("stats", str(journal))
    assert {name: stats[name] for name in ("node", "rows", "arrivals", "files", "topics", "events_per_second")} == {
        "node": "n",
        "rows": 3,
        "arrivals": 3,
        "files": 3,
        "topics": 3,
        "events_per_second": 0.05,
    }
    assert stats["denials"] == [{"stage": "admit", "rule": "acl line 3", "count": 1}]
    assert list(stats["problems"].values()) == [1]
    assert "acl line 3" in _run("stats", str(journal))[1]


def test_compact_says_what_it_did(journal: Path) -> None:
    before = _lines("show", str(journal))
    (compacted,) = _lines("compact", str(journal))
    assert (compacted["rows"], compacted["files"]) == (3, 2)
    assert _lines("show", str(journal)) == before
    assert _run("compact", str(journal))[1] == "nothing to compact\n"


def test_tail_begins_with_the_last_and_goes_on(journal: Path) -> None:
    command = penstock("journal", "tail", str(journal), "--json", "-n", "2")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        earlier = [json.loads(tail.stdout.readline())["topic"] for _ in range(2)]
        segment = Segment(journal, "n", "test", 100, NOON + 120)
        later = []
        seq = 100
        for topic in ("a", "b"):
            seq = segment.write(seq, rows((topic, b"")))
            later.append(json.loads(tail.stdout.readline())["topic"])
        segment.seal()
        tail.kill()
    assert (earlier, later) == (["temp/1", "door/2"], ["a", "b"])


def test_tail_says_that_it_waits_for_a_node(journal: Path) -> None:
    command = penstock("journal", "tail", str(journal), "--node", "m")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as tail:
        assert tail.stderr is not None
        line = tail.stderr.readline()
        tail.kill()
    assert line == f"penstock: journal `{journal}` has no rows of node `m`; it has `n`: waiting for it\n"


def test_tail_does_not_wait_for_a_node_that_the_domain_has_not(journal: Path) -> None:
    domain = journal / "domain.yaml"
    domain.write_text("nodes: {n: {listen: 127.0.0.1:1883}}\njournal: {folder: .}\n")
    code, _, error = _run("tail", str(domain), "--node", "nope")
    assert (code, error) == (2, f"penstock: domain `{domain}` has no node `nope`; it has `n`\n")


MISTAKES = {
    "no such folder": (("show", "nowhere"), 1, "there is no journal `nowhere`"),
    "not a filter": (("show", ".", "--topic", "a/#/b"), 2, "--topic"),
    "not a time": (("show", ".", "--from", "noon"), 2, "`noon` is not a time"),
    "not a number": (("show", ".", "--limit", "-1"), 2, "--limit"),
}


@pytest.mark.parametrize("title", MISTAKES)
def test_mistakes(title: str) -> None:
    arguments, code, text = MISTAKES[title]
    ended, _, error = _run(*arguments)
    assert ended == code
    assert text in error


def test_a_domain_file_leads_to_its_journal(journal: Path) -> None:
    domain = journal.parent / "domain.yaml"
    domain.write_text(f"domain: test\nnodes: {{n: {{listen: '127.0.0.1:0'}}}}\njournal: {{folder: {journal.name}}}\n")
    assert len(_lines("show", str(domain))) == 3
    domain.write_text("domain: test\nnodes: {n: {listen: '127.0.0.1:0'}}\n")
    assert "keeps no journal" in _run("show", str(domain))[2]
