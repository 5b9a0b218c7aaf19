"""The figures of the statements paper, made small: each runs, and what it writes is whole."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.reproduce.statements import authentication, tracing
from benchmarks.reproduce.statements.policies import NOTHING, TRACING
from penstock.engine.trust.publication_proofs import UNPROVEN
from penstock.wire.codec import encode
from penstock.wire.packet import Publish

pytest.importorskip("matplotlib", reason="it is drawn with the tools for benchmarks")
FIGURES = ("5", "10-12", "14", "18-21", "23-24", "25-26", "idle")
ROOT = Path(__file__).parents[2]


def test_every_figure_is_run_here() -> None:
    from benchmarks.reproduce.statements.__main__ import FIGURES as all_figures

    assert tuple(all_figures) == FIGURES


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_measured_drawn_and_written(figure: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.reproduce.statements", figure, "--quick", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / f"{figure}.md").read_text()
    assert page.startswith("# ")
    assert page.count("\n| ") > 2
    assert all(path.stat().st_size > 1_000 for path in tmp_path.glob("*.svg"))
    assert list(tmp_path.glob("*.svg"))


def test_denied_attempts_are_made_and_fail() -> None:
    """Fig. 14: a node with other secrets tries to prove each publication, and nothing arrives; of a member all do."""
    link = authentication._Link(3, is_member=False)
    link.run(5)
    assert (link.proofs, link.got()) == (5, 0)
    reasons = {notice.reason for notice in link.played.notices if notice.kind == UNPROVEN}
    assert len(reasons) == 3
    assert all("another secret" in reason for reason in reasons)
    member = authentication._Link(3, is_member=True)
    member.run(5)
    assert (member.proofs, member.got()) == (5, 5)
    cached = authentication._Link(3, is_member=True, is_cached=True)
    cached.run(5)
    assert (cached.proofs, cached.got()) == (0, 5)


def test_the_framework_is_measured_by_a_policy_that_changes_nothing_and_the_action_by_one_that_does() -> None:
    """Fig. 23: what readers get is the same without policies and with the idle one; the action is in each copy."""
    payloads = tracing.WORKLOAD.publications(40)

    def received(share: int, policy: str) -> list[bytes]:
        filled = tracing.Filled(share, policy, 500)
        for payload in payloads:
            filled.publisher.receive(encode(Publish(tracing.TOPIC, payload), 5))
        return [b"".join(session.buffer) for session in filled.node.sessions.values()]

    plain, idle, acting = received(0, TRACING), received(100, NOTHING), received(100, TRACING)
    assert any(plain)
    assert idle == plain
    assert [bool(data) for data in acting] == [b"penstock_trace_load" in data for data in acting]
    assert [bool(data) for data in acting] == [bool(data) for data in plain]
