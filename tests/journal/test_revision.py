"""Revisions: whatever decides is part of them, the code of Python monitors too."""

from pathlib import Path

import pytest

from penstock.domain import Domain, ensemble, load
from penstock.journal.revision import FOLDER, INSTALLED, Revision

DOMAIN = """\
domain: d
nodes: {{n: {{listen: "127.0.0.1:0", store: memory}}}}
clients: {{c: {{node: n, type: t}}}}
brokering: {{types: [t]}}
monitors: {{m: {{link: c -> n, python: "{where}"}}}}
"""
CODE = "class Monitor:\n    def start(self):\n        return 0\n    def step(self, state, event, now):\n        {}\n"
PASSES, SUPPRESSES = CODE.format("return state, [event]"), CODE.format("return state, []")


def _domain(folder: Path, where: str) -> Domain:
    (folder / "domain.yaml").write_text(DOMAIN.format(where=where))
    return load(folder / "domain.yaml")


@pytest.mark.parametrize(
    ("where", "file"),
    [("watching:Monitor", "watching.py"), ("parts.watching:Monitor", "parts/watching.py")],
    ids=["beside the domain file", "in a folder there"],
)
def test_the_code_of_a_python_monitor_is_kept(tmp_path: Path, where: str, file: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(PASSES)
    domain = _domain(tmp_path, where)
    before = Revision.of(domain, tmp_path)
    before.keep(tmp_path / "j")
    (tmp_path / file).write_text(SUPPRESSES)
    after = Revision.of(domain, tmp_path)
    after.keep(tmp_path / "j")
    assert before.digest != after.digest
    folder = tmp_path / "j" / FOLDER
    assert (folder / before.digest / "monitors" / file).read_text() == PASSES
    assert (folder / after.digest / "monitors" / file).read_text() == SUPPRESSES


def test_an_installed_monitor_is_known_by_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site")
    module = tmp_path / "site" / "penstock_test_installed.py"
    module.write_text(PASSES)
    domain = _domain(tmp_path, "penstock_test_installed:Monitor")
    before = Revision.of(domain, tmp_path)
    assert INSTALLED in dict(before.files)
    assert Revision.of(domain, tmp_path) == before
    module.write_text(SUPPRESSES)
    assert Revision.of(domain, tmp_path).digest != before.digest


def test_files_with_policies_are_kept_and_read_from_there(tmp_path: Path) -> None:
    text = "PolicyStatement { On(Forward, Publication) { If {} Then {%s()} } }"
    file = tmp_path / "one.policy"
    domain = Domain.model_validate(
        {
            "nodes": {"n": {"listen": "127.0.0.1:0"}},
            "statements": {
                "files": [{"name": "one", "file": str(file)}],
                "apply": [{"policy": "one", "to": "publication", "of": "*"}],
            },
        }
    )
    file.write_text(text % "Log")
    revision = Revision.of(domain)
    revision.keep(tmp_path)
    file.write_text(text % "BlockMessage")
    assert Revision.of(domain).digest != revision.digest
    stored = load(tmp_path / FOLDER / revision.digest / "domain.yaml", {})
    (applied,) = ensemble(stored).statements.given
    assert applied.policy.uses() == {"Log"}


def test_files_of_privacy_policies_are_beside_the_domain_file_and_kept(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("policy: p\nrules:\n  - permit: {}\n")
    (tmp_path / "domain.yaml").write_text(
        "nodes: {n: {listen: '127.0.0.1:1'}}\nprivacy: [{name: p, topics: a, policies: p.yaml}]\n"
    )
    domain = load(tmp_path / "domain.yaml")
    assert domain.privacy[0].policies == (tmp_path / "p.yaml",)
    revision = Revision.of(domain, tmp_path)
    assert dict(revision.files)["privacy/0-policy-0.yaml"] == (tmp_path / "p.yaml").read_bytes()
    (tmp_path / "p.yaml").write_text("policy: p\nrules:\n  - deny: {}\n")
    assert Revision.of(domain, tmp_path).digest != revision.digest
