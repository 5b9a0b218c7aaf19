"""`penstock check` on policy statements."""

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
import yaml

from penstock.domain import check, read
from penstock.model.errors import DomainError

CASES = yaml.safe_load((Path(__file__).parents[2] / "cases/domain/statement-mistakes.yaml").read_text("utf-8"))
HEAD = """\
nodes: {n: {listen: "127.0.0.1:0"}, m: {listen: "127.0.0.1:0"}}
links: [{between: [n, m]}]
clients: {a: {node: n}, b: {node: m, advertises: [{name: all, filter: b/+}]}}
content: [{topics: declared, format: json, schema: {x: int}}]
trust_groups: {zones: {secret: {file: zones.secret}, nodes: [n]}}
"""


def lines(case: dict[str, Any], folder: Path) -> list[str]:
    """All that is said, with lines counted from `statements:`."""
    (folder / "zones.secret").write_text("0123456789abcdef0123456789abcdef")
    (folder / "zones.secret").chmod(0o600)
    for name, text in case.get("files", {}).items():
        (folder / name).write_text(text)
    (folder / "domain.yaml").write_text(f"{HEAD}statements:\n{indent(case['text'], '  ')}", "utf-8")
    try:
        problems = check(read(Path("domain.yaml"), {})).warnings
    except DomainError as error:
        problems = error.problems
    before = HEAD.count("\n")
    texts = [
        f"{problem.line - before}:{str(problem).removeprefix(f'{problem.file}:{problem.line}:')}"
        for problem in problems
    ]
    return [line for text in texts for line in text.split("\n")]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["title"]) for case in CASES])
def test_cases(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert lines(case, tmp_path) == case.get("expect", case.get("warnings"))


def test_a_grant_to_a_client_id_that_anybody_can_take_is_told(tmp_path: Path) -> None:
    (tmp_path / "domain.yaml").write_text(
        'nodes: {n: {listen: "127.0.0.1:0"}}\nstatements: {grants: [{to: [x, "*"], set: publication, elements: Log}]}\n'
    )
    (warning,) = check(read(tmp_path / "domain.yaml", {})).warnings
    assert warning.path == "statements.grants[0].to[0]"
    assert warning.what == ("anyone may connect as `x`: it is not among `clients`, and node `n` asks for no password")


PERSISTING = """\
nodes: {{disk: {{listen: "127.0.0.1:0"}}, ram: {{listen: "127.0.0.1:0", store: memory{}}}}}
links: [{{between: [disk, ram]}}]
clients: {{d: {{node: disk}}, r: {{node: ram}}}}
statements:
  policies: {{keep: "PolicyStatement {{ On(Forward, {}) {{ {} If {{}} Then {{Persist()}} {} }} }}"}}
  apply: [{{policy: keep, to: {}}}]
"""
BLOCKED = "its messages are blocked"


@pytest.mark.parametrize(
    ("overlay", "message", "where", "otherwise", "to", "comes"),
    [
        ("", "Publication", "", "", "publication, of: d", BLOCKED),
        ("", "Publication", "", "OnException { If {} Then {} }", "publication, of: d", "`OnException` is run"),
        ("", "Publication", "@broker: Ingress", "", "publication, of: d", ""),
        ("", "Publication", "@broker: Ingress", "", "publication, of: [d, r]", BLOCKED),
        ("", "Publication", "@broker: Ingress", "", 'publication, of: "*"', BLOCKED),
        ("", "Publication", "@broker: Egress", "", "publication, of: d", BLOCKED),
        ("", "Publication", "@broker: Egress", "", "subscription, of: d", ""),
        ("", "Publication", "@broker: Ingress", "", "subscription, of: d", BLOCKED),
        ("", "Subscription", "@broker: Ingress", "", "subscription, of: d", ""),
        ("", "Subscription", "@broker: Ingress", "", "advertisement, of: d", BLOCKED),
        ("", "Advertisement", "@broker: Ingress", "", "advertisement, of: d", ""),
        ("", "Advertisement", "@broker: Ingress", "", "advertisement, of: r", BLOCKED),
        (", overlay: other", "Publication", "@broker: Ingress", "", "publication, of: d", BLOCKED),
    ],
)
def test_what_cannot_be_persisted_is_told(
    overlay: str, message: str, where: str, otherwise: str, to: str, comes: str, tmp_path: Path
) -> None:
    (tmp_path / "domain.yaml").write_text(PERSISTING.format(overlay, message, where, otherwise, to))
    expected = f"policy `keep`, rule 1: `Persist` fails at node `ram`, whose store is in memory, and {comes}"
    assert [warning.what for warning in check(read(tmp_path / "domain.yaml", {})).warnings] == (
        [expected] if comes else []
    )


def test_a_policy_on_the_advertisement_of_a_node_itself_is_refused_if_it_would_never_run(tmp_path: Path) -> None:
    text = PERSISTING.format("", "Advertisement", "@broker: Ingress", "", "advertisement, at: disk")
    (tmp_path / "domain.yaml").write_text(text)
    with pytest.raises(DomainError, match=r"an advertisement that a node makes itself goes nowhere"):
        check(read(tmp_path / "domain.yaml", {}))
