"""`penstock flows`, as its own process."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.models.ensembles import SMART_HOME_FILE
from tests.support.processes.commands import penstock, run


@pytest.fixture
def home(tmp_path: Path) -> str:
    file = tmp_path / "home.yaml"
    file.write_text(SMART_HOME_FILE, encoding="utf-8")
    return str(file)


def flows(*arguments: str) -> str:
    code, out, err = run(penstock("flows", *arguments))
    assert (code, err) == (0, "")
    return out


def test_who_reaches_whom(home: str) -> None:
    lines = [line.split("  ") for line in flows(home, "--routes").splitlines()]
    rows = {cells[0]: [cell.strip() for cell in cells[1:] if cell] for cells in lines}
    assert rows["from"] == ["reaches", "does not reach"]
    assert rows["motion"] == ["bell, lock", "phone"]
    assert rows["bell"] == ["phone, motion, lock", "-"]


def test_from_one_with_its_ways(home: str) -> None:
    out = flows(home, "--from", "motion", "--routes")
    assert "motion -[sensitive]-> gateway -[door]-> bell" in out
    assert "denied by `deny` from `sensitive` to `internet` at `gateway`" in out


def test_to_one(home: str) -> None:
    rows = [line.split() for line in flows(home, "--to", "lock", "--on", "DL_unlock", "--routes").splitlines()[1:]]
    assert {row[0]: row[2] for row in rows} == {"phone": "no", "motion": "yes", "bell": "yes"}


def test_one_flow_step_by_step(home: str) -> None:
    out = flows(home, "--from", "phone", "--to", "lock", "--on", "AC_grant")
    assert out.splitlines() == [
        "phone can reach lock",
        "  phone -> cloud  type internet, topics AC_grant",
        "  cloud -> gateway  type internet, topics AC_grant",
        "  gateway -> locks  type door, topics AC_grant",
        "  locks -> lock  type door, topics AC_grant",
    ]


def test_one_flow_that_is_closed(home: str) -> None:
    out = flows(home, "--from", "phone", "--to", "lock", "--on", "DL_unlock")
    assert out.splitlines()[0] == "phone cannot reach lock; the nearest way:"
    assert out.splitlines()[-1] == "  closed: `no-remote-unlock` suppresses `DL_unlock` at `cloud -> gateway`"


def test_json_of_the_whole(home: str) -> None:
    result = json.loads(flows(home, "--json"))
    assert (result["domain"], result["on"], result["routes"]) == ("smart-home", "#", False)
    entities = {entity["name"]: entity for entity in result["entities"]}
    assert entities["gateway"]["kind"] == "node"
    assert "phone" in entities["motion"]["reaches"]
    assert {"from": "cloud", "to": "gateway", "type": "internet", "monitors": ["no-remote-unlock"]} in result["links"]


def test_json_of_one_flow(home: str) -> None:
    (flow,) = json.loads(flows(home, "--from", "motion", "--to", "phone", "--routes", "--json"))["flows"]
    assert flow["flows"] is False
    assert [step["to"] for step in flow["way"]] == ["gateway", "cloud", "phone"]
    assert flow["closed"] == [{"at": "gateway", "what": "denied by `deny` from `sensitive` to `internet`"}]


def test_json_of_a_flow_on_any_topic_tells_topics_apart(home: str) -> None:
    (flow,) = json.loads(flows(home, "--from", "phone", "--to", "lock", "--routes", "--json"))["flows"]
    assert flow["flows"] is True
    assert (set(flow["open_on"]), flow["closed_on"]) == ({"AC_request", "AC_grant", "AC_deny"}, ["DL_unlock"])
    (flow,) = json.loads(flows(home, "--from", "phone", "--to", "lock", "--on", "AC_grant", "--json"))["flows"]
    assert "open_on" not in flow


def test_a_picture_beside_the_table(home: str, tmp_path: Path) -> None:
    out = tmp_path / "home.svg"
    assert "motion" in flows(home, "--svg", str(out))
    assert ElementTree.parse(out).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_picture_alone(home: str) -> None:
    root = ElementTree.fromstring(flows(home, "--svg", "-", "--from", "bell", "--to", "phone"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


MISTAKES = {
    "an entity that is not there": (["--from", "mobile"], "no entity `mobile`"),
    "an entity that is nearly there": (["--to", "phon"], "did you mean `phone`?"),
    "a bad filter": (["--on", "a#"], "wildcard `#` does not fill level 1"),
    "two things on standard output": (["--svg", "-", "--json"], "--svg - goes without --json"),
}


@pytest.mark.parametrize("title", MISTAKES)
def test_bad_arguments(title: str, home: str) -> None:
    arguments, message = MISTAKES[title]
    code, out, err = run(penstock("flows", home, *arguments))
    assert (code, out) == (2, "")
    assert message in err


def test_a_domain_that_does_not_check(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("domain: x\nnodes: {a: {listen: 127.0.0.1:1}}\nlinks: [{between: [a, b]}]\n", encoding="utf-8")
    code, _, err = run(penstock("flows", str(file)))
    assert code == 3
    assert "links[0].between" in err


def test_a_picture_that_cannot_be_written(home: str, tmp_path: Path) -> None:
    code, _, err = run(penstock("flows", home, "--svg", str(tmp_path / "nowhere" / "out.svg")))
    assert code == 1
    assert "nowhere" in err


def test_of_very_many_pairs_no_ways_are_shown(tmp_path: Path) -> None:
    clients = "".join(f"  c{at}: {{node: n}}\n" for at in range(203))
    file = tmp_path / "many.yaml"
    file.write_text(f"domain: many\nnodes: {{n: {{listen: 127.0.0.1:1}}}}\nclients:\n{clients}", encoding="utf-8")
    lines = flows(str(file), "--from", "c0").splitlines()
    assert len(lines) == 203
    assert lines[1].split() == ["c0", "c1", "yes"]


def test_assertions_and_whether_they_hold(home: str, tmp_path: Path) -> None:
    file = Path(home)
    claims = "assertions:\n  - {never: motion to phone, routes: true}\n  - {never: bell to phone, on: AC_request}\n"
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: text.index("assertions:")] + claims if "assertions:" in text else text + claims, "utf-8")
    assert [line.split("  ")[0] for line in flows(home, "--assertions").splitlines()] == [
        "assertion",
        "never: motion to phone by routes",
        "never: bell to phone on AC_request",
    ]
    first, second = json.loads(flows(home, "--assertions", "--json"))["assertions"]
    assert (first["holds"], first["why"], first["routes"], first["on"]) == (True, "", True, "#")
    assert (second["kind"], second["from"], second["to"], second["on"]) == ("never", "bell", "phone", "AC_request")
    assert not second["holds"]
    assert "bell -[door]-> gateway -[internet]-> cloud" in second["why"]
