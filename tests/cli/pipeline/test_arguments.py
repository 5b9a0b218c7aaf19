"""`penstock pipeline`: what cannot be is refused as bad arguments, before anything is started."""

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.cli.table import shorten
from tests.support.memory.journals import rows, write_segments
from tests.support.scenes.smart_home import leaky, recorded_home

STREAM = ("stream", "--domain", "d.yaml", "--from", "j", "--to", "t", "--checkpoint", "c", "--subject", "a")
GOVERN = ("govern", "--from", "j", "--to", "t", "--subject", "a")
TRUST = ("trust", "--domain", "d.yaml", "--from", "j")
REFUSED = {
    "an address that is none of MQTT": (
        (*STREAM, "--publish", "http://x"),
        "`http://x` is not an address such as mqtt://host:1883",
    ),
    "several subjects and one prefix": (
        (*STREAM, "--subject", "b", "--publish", "mqtt://x", "--topic-prefix", "all"),
        "with several subjects the prefix must have `{subject}` in it",
    ),
    "a prefix that cannot begin topics": (
        (*STREAM, "--publish", "mqtt://x", "--topic-prefix", "a/#"),
        "`a/#` is not a valid topic prefix",
    ),
    "a place where Spark cannot run": (
        (*GOVERN, "--master", "local[zzz]"),
        "`local[zzz]` is not where Spark can run",
    ),
    "days of which none is": (
        (*GOVERN, "--since", "2026-02-02", "--until", "2026-02-01"),
        "--since 2026-02-02 is after --until 2026-02-01",
    ),
    "days of which none is, for audit": (
        ("audit", "--from", "j", "--since", "2026-02-02", "--until", "2026-02-01"),
        "--since 2026-02-02 is after --until 2026-02-01",
    ),
    "days of which none is, for replay": (
        ("replay", "--from", "j", "--domain", "d", "--since", "2026-02-02", "--until", "2026-02-01"),
        "--since 2026-02-02 is after --until 2026-02-01",
    ),
    "a threshold that no rating has": (("simulate", "--sign", "2"), "a rating is between 0 and 1, not `2.0`"),
    "more publishers than nodes": (("simulate", "--nodes", "5"), "a network of 5 nodes cannot be played"),
    "only combinations that cannot be": (("simulate", "--sign", "0.1"), "at least one setting"),
    "a penalty that is none": ((*TRUST, "--penalty", "1"), "a whole number above 1, not `1`"),
    "a half-life that is none": ((*TRUST, "--half-life", "soon"), "`soon`: expected a duration"),
    "a function without a module": ((*TRUST, "--evaluate", "good"), "--evaluate is `module:function`, not `good`"),
    "a node that recorded nothing": (
        (*GOVERN, "--node", "nope", "--node", "n"),
        "journal `j` has no rows of node `nope`; it has `n`",
    ),
}


@pytest.mark.parametrize("title", REFUSED)
def test_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str) -> None:
    write_segments(tmp_path / "j", [rows(("t", b"1"))])
    monkeypatch.chdir(tmp_path)
    arguments, problem = REFUSED[title]
    error = io.StringIO()
    with redirect_stderr(error):
        try:
            code = main(["pipeline", *arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
    assert problem in error.getvalue()
    assert code == 2


@pytest.mark.parametrize(
    ("cell", "shown"),
    [("t" * 60, "t" * 60), ("a" * 100 + "b" * 100, "a" * 29 + "…" + "b" * 29)],
    ids=["what fits is whole", "of what does not, the ends are shown"],
)
def test_cells_of_tables(cell: str, shown: str) -> None:
    assert shorten(cell) == shown


def test_a_replay_of_few_events_needs_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(recorded_home(tmp_path / "journal"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    replay = ("pipeline", "replay", "--from", str(tmp_path / "journal"), "--domain", str(leaky(tmp_path)))
    with redirect_stdout(io.StringIO()) as printed:
        assert main([*replay, "--last", "5"]) == 1, "an assertion of the draft fails"
    assert "`never: motion to phone by routes` fails: 1 events show it" in printed.getvalue()
    with redirect_stderr(io.StringIO()) as wrong:
        assert main([*replay, "--last", "5", "--master", "local[1]"]) == 1
    assert "there is no Java in it" in wrong.getvalue()
