"""`penstock contracts match` on Table 1 of the contracts paper."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.main import main
from penstock.policy.contracts.text_form import read_indicator, read_producer
from penstock.policy.contracts.xacml_form import to_xacml
from penstock.policy.quality.criteria import make_catalogue
from penstock.policy.xacml import read_policy

PARIS = yaml.safe_load((Path(__file__).parents[2] / "cases" / "contracts" / "paris.yaml").read_text("utf-8"))


@pytest.fixture
def file(tmp_path: Path) -> str:
    file = tmp_path / "paris.yaml"
    domain = {
        "nodes": {"a": {"listen": "127.0.0.1:0", "store": "memory"}},
        "quality": {"indicators": PARIS["indicators"]},
        "contracts": {name: PARIS[name] for name in ("producers", "consumers", "situations")},
    }
    file.write_text(yaml.safe_dump(domain, sort_keys=False), "utf-8")
    return str(file)


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["contracts", "match", *arguments, "--json"]) == 0
    result: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return result


RANK = ["unrelated", "fails", "depends", "fits"]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["title"]) for case in PARIS["fits"]])
def test_every_pair_of_table_1(case: dict[str, Any], file: str, capsys: pytest.CaptureFixture[str]) -> None:
    about = (file, "--producer", case["producer"], "--consumer", case["consumer"])
    matching = [row for row in rows(capsys, *about) if row["want"] == case["want"]]
    assert max((row["comes_to"] for row in matching), key=RANK.index) == case["comes_to"]
    if "because" in case:
        assert any(case["because"] in why for row in matching for why in row["why"])
    for situation, comes_to in case["open"].items():
        while_open = [row for row in rows(capsys, *about, "--situation", situation) if row["want"] == case["want"]]
        assert max((row["comes_to"] for row in while_open), key=RANK.index) == comes_to, situation


def test_all_pairs_are_shown_as_a_table(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contracts", "match", file]) == 0
    lines = capsys.readouterr().out.splitlines()
    wants = sum(len(consumer["wants"]) for consumer in PARIS["consumers"].values())
    assert len(lines) >= 1 + len(PARIS["producers"]) * wants
    assert any(
        "rule-2" in line and "during life-hazard" in line and "emergency (city-emergency)" in line for line in lines
    )


def test_what_is_not_there_is_said(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["contracts", "match", file, "--producer", "bob-locatoin"])
    assert ended.value.code == 2
    assert "did you mean `bob-location`?" in capsys.readouterr().err
    empty = tmp_path / "empty.yaml"
    empty.write_text("nodes: {a: {listen: 127.0.0.1:0, store: memory}}", "utf-8")
    with pytest.raises(SystemExit):
        main(["contracts", "match", str(empty)])
    assert "has no `contracts`" in capsys.readouterr().err
    empty.write_text("nodes: {}", "utf-8")
    assert main(["contracts", "match", str(empty)]) == 3


def test_what_a_node_may_release_is_not_said_never_to_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("policy: p\nrules: [{permit: {subject.purpose: health}}]\n")
    file = tmp_path / "domain.yaml"
    domain = {
        "nodes": {"a": {"listen": "127.0.0.1:0", "store": "memory"}},
        "clients": {"phone": {"node": "a"}, "doc": {"node": "a"}},
        "privacy": [{"name": "place", "topics": "bob/#", "policies": "policy.yaml"}],
        "contracts": {
            "producers": {
                "user": {"producer": "phone", "filter": "user", "rules": {"r": {"visible_to": {"user": ["bob"]}}}},
                "open": {"producer": "phone", "filter": "bob/place"},
                "group": {"producer": "phone", "filter": "group", "rules": {"r": {"visible_to": {"group": ["x"]}}}},
            },
            "consumers": {
                "doc": {
                    "consumer": "doc",
                    "purpose": "health",
                    "wants": {"all": {"filter": "#"}, "some": {"filter": "user"}},
                }
            },
        },
    }
    file.write_text(yaml.safe_dump(domain, sort_keys=False), "utf-8")
    by_want = {(row["producer"], row["want"]): row for row in rows(capsys, str(file))}
    assert {about: row["comes_to"] for about, row in by_want.items()} == {
        ("user", "all"): "depends",
        ("user", "some"): "depends",
        ("open", "all"): "depends",
        ("open", "some"): "unrelated",
        ("group", "all"): "fails",
        ("group", "some"): "unrelated",
        ("privacy:place", "all"): "depends",
        ("privacy:place", "some"): "unrelated",
    }
    assert any("`user`" in why for why in by_want["user", "all"]["why"])
    assert any("`place` is asked too" in why for why in by_want["open", "all"]["why"])
    assert len(rows(capsys, str(file), "--producer", "privacy:place")) == 2
    assert main(["check", str(file)]) == 0
    printed = capsys.readouterr()
    assert "contracts.producers.group: nobody" in printed.out + printed.err
    assert "contracts.producers.user: nobody" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("obligation", "wrong"),
    [
        ("{id: unheard-of, set: {a: 1}}", "`unheard-of`: it is not known"),
        ("{id: retain, set: {for: 1h}}", "`retain`: `seconds` is missing"),
        ("{id: grid, set: {metres: 5, metre: 5}}", "`grid`: `metre` is not a parameter"),
        ("{id: grid, set: {metres: far}}", "`metres` is not a number"),
        ("{id: grid, set: {metres: -1}}", "`metres` is from 1"),
        ("{id: grid, set: {metres: {attribute: subject.metres}}}", ""),
        ("{id: retain, set: {seconds: 5}}", ""),
        ("{id: keep, set: {attribute: lat}}", ""),
    ],
)
def test_check_warns_of_obligations_that_nodes_cannot_do(
    obligation: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(f"policy: p\nrules: [{{permit: {{}}, obligations: [{obligation}]}}]\n")
    file = tmp_path / "domain.yaml"
    file.write_text(
        "nodes: {a: {listen: 127.0.0.1:0, store: memory}}\nprivacy: [{name: p, topics: '#', policies: policy.yaml}]\n"
    )
    assert main(["check", "--strict", str(file)]) == (3 if wrong else 0)
    printed = capsys.readouterr()
    assert wrong in printed.out + printed.err


@pytest.mark.parametrize(
    ("type", "rule", "is_good"),
    [
        ("dateTime", "{permit: {}, when: subject.born < timestamp('2008-01-01T00:00:00Z')}", False),
        ("date", "{permit: {subject.born: {'<': '2008-01-01'}}}", False),
        ("integer", "{permit: {subject.born: {'<': 2008}}}", True),
        ("dateTime", "{permit: {}, when: environment.now.getHours() < 20}", True),
    ],
)
def test_check_warns_of_attributes_of_a_type_that_nodes_do_not_give(
    type: str, rule: str, is_good: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attributes = f"attributes: {{subject.born: {{type: {type}}}}}"
    (tmp_path / "policy.yaml").write_text(f"policy: p\n{attributes}\nrules: [{rule}]\n")
    file = tmp_path / "domain.yaml"
    file.write_text(
        "nodes: {a: {listen: 127.0.0.1:0, store: memory}}\nprivacy: [{name: p, topics: '#', policies: policy.yaml}]\n"
    )
    assert main(["check", "--strict", str(file)]) == (0 if is_good else 3)
    printed = capsys.readouterr()
    assert (
        f"attribute `born` is asked for as {type}, which nodes do not give" in printed.out + printed.err
    ) is not is_good


def test_a_contract_is_printed_as_policies_in_xacml(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contracts", "xacml", file, "--producer", "bob-location"]) == 0
    printed = read_policy(capsys.readouterr().out.encode())
    catalogue = make_catalogue(read_indicator(id, written) for id, written in PARIS["indicators"].items())
    assert printed == to_xacml(read_producer("bob-location", PARIS["producers"]["bob-location"], catalogue))
    with pytest.raises(SystemExit, match="2"):
        main(["contracts", "xacml", file, "--producer", "pollution"])
    assert "no privacy requirement" in capsys.readouterr().err
