"""The examples on the pages about brokering and monitors are domains that check and a monitor that works."""

import re
from pathlib import Path

import pytest
import yaml

from penstock.domain import ensemble, load
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.policy.monitors.automaton import Automaton
from penstock.policy.monitors.monitor import Monitor, python_monitor
from tests.support.models.automata import M1, M2, automaton

DOCS = Path(__file__).parent.parent.parent / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)


EXAMPLES = [(page, text) for page in ("brokering.md", "monitors.md") for text in blocks(page, "yaml")]


@pytest.fixture
def limit(tmp_path: Path) -> Path:
    """The Python monitor of the page, as a file in the folder."""
    (source,) = blocks("monitors.md", "python")
    (tmp_path / "limit.py").write_text(source)
    return tmp_path


@pytest.mark.parametrize(("page", "text"), EXAMPLES, ids=[f"{page}-{at}" for at, (page, _) in enumerate(EXAMPLES)])
def test_every_example_checks(page: str, text: str, limit: Path) -> None:
    (limit / "domain.yaml").write_text(text)
    ensemble(load(limit / "domain.yaml", {}), limit)


def test_the_states_on_the_page_are_the_paper_s() -> None:
    monitors = yaml.safe_load(blocks("monitors.md", "yaml")[0])["monitors"]
    assert automaton(monitors["no-remote-unlock"]["states"]) == automaton(M1)
    assert automaton(monitors["unlock-after-grant"]["states"]) == automaton(M2)


def test_the_gateway_with_its_own_table_takes_nothing_from_outside(tmp_path: Path) -> None:
    (tmp_path / "domain.yaml").write_text(blocks("brokering.md", "yaml")[1])
    compiled = ensemble(load(tmp_path / "domain.yaml", {}), tmp_path)
    assert compiled.table("gateway").allows("inside", "outside")
    assert not compiled.table("gateway").allows("outside", "inside")
    assert compiled.table("cloud").allows("outside", "inside")


def test_the_protocol_on_the_page_is_on_the_link_to_the_locks(tmp_path: Path) -> None:
    text = next(text for _, text in EXAMPLES if "protocols:" in text)
    (tmp_path / "domain.yaml").write_text(text)
    compiled = ensemble(load(tmp_path / "domain.yaml", {}), tmp_path)
    (order,) = compiled.monitors(Link("gateway", "locks"))
    assert isinstance(order, Automaton)
    assert len(order.states) == len(M2)


def test_the_python_monitor_on_the_page_limits(limit: Path) -> None:
    monitor: Monitor = python_monitor("limit", "limit:Limit", {"most": 2, "seconds": 10}, limit)
    state = monitor.start()
    out = []
    for now in (0, 1, 2, 3, 20):
        state, events = monitor.step(state, Event("alarm/x", b"1", 1), float(now))
        out.append([(event.topic, event.payload, event.qos) for event in events])
    passed = [("alarm/x", b"1", 1)]
    assert out == [passed, passed, [("limited", b"alarm/x", 1)], [], passed]
