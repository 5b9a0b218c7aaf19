"""Policies that a journal keeps: Python monitors do what they did then, or nothing is judged by them."""

from pathlib import Path

import pytest

from penstock.domain import Domain, load
from penstock.journal.revision import Revision
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.policies import Asker, CompiledDomain, as_it_stands, as_it_stood, judged_by
from tests.journal.test_revision import DOMAIN, PASSES, SUPPRESSES


def _kept(folder: Path, where: str) -> str:
    (folder / "domain.yaml").write_text(DOMAIN.format(where=where))
    revision = Revision.of(load(folder / "domain.yaml"), folder)
    revision.keep(folder / "j")
    return revision.digest


def _makes(policy: CompiledDomain) -> int:
    """How many events the monitor makes of one."""
    (monitor,) = policy.ensemble.monitors(Link("c", "n", "t"))
    return len(monitor.step(monitor.start(), Event("t", b""), 0.0)[1])


def test_a_monitor_does_what_it_did_then(tmp_path: Path) -> None:
    (tmp_path / "watching.py").write_text(PASSES)
    then = _kept(tmp_path, "watching:Monitor")
    (tmp_path / "watching.py").write_text(SUPPRESSES)
    assert _makes(as_it_stood(tmp_path / "j", tmp_path).of(then)) == 1
    now = as_it_stands(tmp_path / "domain.yaml", tmp_path / "j")
    assert _makes(now.of(then)) == 0
    before = now.known(then)
    assert before is not None
    assert before.monitors("c", "n") != now.of(then).monitors("c", "n"), "they are run again"


def test_a_monitor_that_is_the_same_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "watching.py").write_text(PASSES)
    then = _kept(tmp_path, "watching:Monitor")
    stood, stands = as_it_stood(tmp_path / "j"), as_it_stands(tmp_path / "domain.yaml", tmp_path / "j")
    assert stood.of(then).monitors("c", "n") == stands.of(then).monitors("c", "n")


def test_another_installed_monitor_than_then_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")
    module = tmp_path / "site" / "penstock_test_changed.py"
    module.write_text(PASSES)
    then = _kept(tmp_path, "penstock_test_changed:Monitor")
    module.write_text(SUPPRESSES)
    with pytest.raises(PipelineError, match="module `penstock_test_changed` of a Python monitor has changed since"):
        as_it_stood(tmp_path / "j").of(then)
    assert as_it_stands(tmp_path / "domain.yaml", tmp_path / "j").known(then) is None


def test_a_client_that_may_have_any_id_has_no_right_by_client_id(tmp_path: Path) -> None:
    (tmp_path / "acl").write_text("user tech\ntopic read open/#\npattern read dev/%c/#\npattern read usr/%u/#\n")
    plain = {
        "nodes": {"n": {"listen": "127.0.0.1:0", "store": "memory", "acl": str(tmp_path / "acl")}},
        "clients": {"tech": {"node": "n", "user": "tech"}},
    }
    (policy,) = judged_by(Domain.model_validate(plain), tmp_path).judging
    session = policy.session(policy.new_node("n"), Asker("tech"))
    assert session is not None
    assert session.rights is not None
    readable = [topic for topic in ("open/a", "dev/tech/x", "usr/tech/x") if session.rights.may_read(topic)]
    assert readable == ["open/a", "usr/tech/x"]
    assert session.rights.why_read("open/a") == "may read `open/a`: by n.acl:2 `topic read open/#`"
