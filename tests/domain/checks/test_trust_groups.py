"""Trust groups of a domain: what a check says of their secrets, what a reload sees, and that no secret gets out."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.main import main
from penstock.domain import Domain, check, diff, ensemble, read
from penstock.domain.diff import ChangeKind
from penstock.domain.schema.trust import GroupSecret, SecretError, TrustGroup
from penstock.domain.yaml.write import domain_text
from penstock.journal.revision import Revision
from tests.support.scenes.domains import as_written, loaded, nodes, write_domain

PAGE = (Path(__file__).parents[3] / "docs" / "trust-groups.md").read_text("utf-8")
SECRET = "a-secret-of-more-than-16-bytes"


def plain(folder: Path, secret: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    (folder / "inner").write_text(SECRET)
    group = {"secret": secret or {"file": "inner"}, "nodes": ["a"], "clients": ["ann"], "expiry": "1m"}
    return {"nodes": nodes("a", "b"), "clients": {"ann": {"node": "a"}}, "trust_groups": {"inner": {**group, **more}}}


def warned(folder: Path, keys: dict[str, Any], at: list[str] | None = None) -> list[str]:
    checked = check(read(write_domain(folder, keys), {}), at)
    return [str(warning) for warning in checked.warnings if "trust" in str(warning)]


def test_an_engine_knows_members_and_expiry_and_no_secret(tmp_path: Path) -> None:
    group = ensemble(loaded(tmp_path, **plain(tmp_path))).trust_groups["inner"]
    assert group == TrustGroup("inner", frozenset({"a"}), frozenset({"ann"}), 60.0)


def test_nodes_and_clients_may_be_one(tmp_path: Path) -> None:
    group = loaded(tmp_path, **plain(tmp_path, nodes="a", clients="ann")).trust_groups["inner"]
    assert (group.nodes, group.clients) == (("a",), ("ann",))


@pytest.mark.parametrize("text", [SECRET, f"  {SECRET}\n", f"{SECRET}\r\n"])
def test_blanks_around_a_secret_do_not_count(tmp_path: Path, text: str) -> None:
    file = tmp_path / "secret"
    file.write_bytes(text.encode())
    assert GroupSecret(file=file).read() == GroupSecret(env="S").read({"S": text}) == SECRET.encode()


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "environment variable `S` has no secret in it"),
        ({"S": " "}, "environment variable `S` has no secret in it"),
        ({"S": "short-secret"}, "environment variable `S` has a secret that is shorter than 16 bytes"),
    ],
)
def test_a_secret_that_is_none_is_an_error_that_does_not_show_it(variables: dict[str, str], words: str) -> None:
    with pytest.raises(SecretError) as caught:
        GroupSecret(env="S").read(variables)
    assert str(caught.value) == words


def test_a_check_warns_of_secrets_with_which_a_node_would_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = plain(tmp_path, {"env": "TEST_GROUP"})
    (warning,) = warned(tmp_path, keys)
    assert warning.endswith("its nodes cannot start here: environment variable `TEST_GROUP` has no secret in it")
    assert warned(tmp_path, keys, ["b"]) == [], "which is not in it"
    monkeypatch.setenv("TEST_GROUP", SECRET)
    assert warned(tmp_path, keys) == []


def test_a_check_warns_of_a_group_without_nodes(tmp_path: Path) -> None:
    (warning,) = warned(tmp_path, plain(tmp_path, nodes=[]))
    assert warning.endswith("trust group `inner` has no nodes: nobody can ask for a proof of it")


def test_a_file_that_another_machine_has_is_not_missed_here(tmp_path: Path) -> None:
    keys = plain(tmp_path)
    (tmp_path / "inner").unlink()
    assert warned(tmp_path, keys, ["b"]) == []


def test_changes_are_seen(tmp_path: Path) -> None:
    before = loaded(tmp_path, **plain(tmp_path))
    after = loaded(tmp_path, **plain(tmp_path, expiry=10, nodes=["a", "b"]))
    assert list(map(str, diff(before, after).changes)) == ["trust group `inner` changed: `nodes`, `expiry`"]
    without = loaded(tmp_path, nodes=nodes("a", "b"), clients={"ann": {"node": "a"}})
    assert [change.effect for change in diff(before, without).of(ChangeKind.TRUST_GROUP)] == ["removed"]
    assert not diff(before, after).needs_restart


def test_no_secret_gets_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_domain(tmp_path, plain(tmp_path))
    domain = as_written(tmp_path, **plain(tmp_path))
    stored = b"".join(data for _, data in Revision.of(domain, tmp_path).files).decode()
    for command in (["fmt"], ["check"], ["check", "--expand"], ["check", "--json"]):
        assert main([*command, str(file)]) == 0
    out = "".join(capsys.readouterr())
    assert "inner" in stored
    assert "inner" in out
    assert SECRET not in f"{out}{stored}{domain!r}{domain_text(domain)}{ensemble(domain)!r}"


def test_a_secret_in_the_file_itself_is_refused_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_domain(tmp_path, {**plain(tmp_path), "trust_groups": {"inner": {"secret": SECRET}}})
    assert main(["check", str(file)]) == 3
    printed = "".join(capsys.readouterr())
    assert "a secret does not stand in this file" in printed
    assert SECRET not in printed


def test_the_domain_of_the_page_is_one_with_each_of_its_changes() -> None:
    whole, *changes = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    assert Domain.model_validate(whole).trust_groups.keys() == {"inner", "auditors"}
    assert [list(change) for change in changes] == [["statements"], ["trust_groups"]]
    for change in changes:
        Domain.model_validate({**whole, **change})
