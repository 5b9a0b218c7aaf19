"""Flows of the policies in force, worked out apart from the node and kept."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from penstock.broker.http.answers.flows import FlowAnswers, FlowClosure, Flows
from penstock.broker.http.endpoint import ApiError
from penstock.domain import load
from penstock.journal.revision import Revision

MONITOR = """
class Nothing:
    def start(self):
        return 0

    def outputs(self, topic_filter):
        return []

    def step(self, state, event, now):
        return state, ()
"""
DOMAIN = """
domain: two
nodes: {a: {listen: "127.0.0.1:1", store: memory}, b: {listen: "127.0.0.1:2", store: memory}}
links: [{between: [a, b]}]
clients: {x: {node: a}, y: {node: b}}
monitors: {nothing: {link: a -> b, python: "nothing:Nothing"}}
"""


@pytest.fixture
def revision(tmp_path: Path) -> Revision:
    (tmp_path / "nothing.py").write_text(MONITOR)
    file = tmp_path / "domain.yaml"
    file.write_text(DOMAIN)
    revision = Revision.of(load(file), tmp_path)
    file.unlink()  # what is in force is told, whatever has become of the file
    return revision


def test_a_question_is_worked_out_once(revision: Revision) -> None:
    async def asked() -> list[bytes]:
        analyses = FlowAnswers()
        both = await asyncio.gather(*(analyses.of(revision, "--from=x", "--to=y") for _ in range(2)))
        return [*both, await analyses.of(revision, "--from=x", "--to=y")]

    first, second, third = asyncio.run(asked())
    assert first is second is third
    flow = msgspec.json.decode(first, type=Flows).flows[0]
    assert not flow.flows
    assert [(step.source, step.target) for step in flow.way] == [("x", "a"), ("a", "b"), ("b", "y")]
    assert flow.closed == (FlowClosure("a -> b", "`nothing` suppresses `#`"),)


def test_what_makes_no_sense_is_said_without_where_it_was_worked_out(revision: Revision) -> None:
    with pytest.raises(ApiError, match=r"^no entity `z` in `domain\.yaml`, ") as refused:
        asyncio.run(FlowAnswers().of(revision, "--from=z"))
    assert refused.value.status == 400
