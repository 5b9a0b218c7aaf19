"""`penstock check`, `fmt` and `schema`."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.main import main
from penstock.domain import expand, load, read
from tests.support.models.ensembles import SMART_HOME_FILE
from tests.support.scenes.domains import nodes, write_domain

HOME: dict[str, Any] = {
    "domain": "home",
    "nodes": nodes("cloud", "gateway"),
    "links": [{"between": ["gateway", "cloud"], "type": "internet"}],
    "clients": {
        "phone": {"node": "cloud", "type": "internet"},
        "motion": {"node": "gateway", "type": "sensitive"},
        "bell": {"node": "gateway", "type": "internet"},
    },
    "brokering": {"types": ["internet", "sensitive"], "deny": [{"from": "sensitive", "to": "internet"}]},
    "monitors": {"m": {"link": "gateway -> cloud", "filter": "#"}},
    "assertions": [{"never": "motion to phone"}, {"can": "bell to phone", "on": "ring"}],
}
ODD = {"types": ["internet", "sensitive", "unused"], "deny": HOME["brokering"]["deny"]}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that messages show the plain names of files."""
    monkeypatch.chdir(tmp_path)


def home(**changed: Any) -> str:
    return str(write_domain(Path(), {**HOME, **changed}))


def test_a_good_domain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", home()]) == 0
    assert capsys.readouterr().out == (
        "domain.yaml: good: 2 nodes, 1 link, 3 clients, 1 monitor, 2 assertions proved\n"
    )


def test_an_assertion_that_does_not_hold_is_shown_with_a_way(capsys: pytest.CaptureFixture[str]) -> None:
    file = home(brokering={"types": ["internet", "sensitive"]})
    assert main(["check", file]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "domain.yaml:33: assertions[0]: `never: motion to phone` does not hold: there is a way,"
        " motion -[sensitive]-> gateway -[internet]-> cloud -[internet]-> phone\n"
    )


def test_a_monitor_can_make_an_assertion_hold() -> None:
    keys = {
        "brokering": {"types": ["internet", "sensitive"]},
        "assertions": [{"never": "motion to phone", "on": "move", "routes": True}],
    }
    assert main(["check", home(**keys)]) == 3
    assert main(["check", home(**keys, monitors={"m": {"link": "gateway -> cloud", "filter": "ring"}})]) == 0


def test_warnings_fail_only_if_asked_to(capsys: pytest.CaptureFixture[str]) -> None:
    file = home(brokering=ODD)
    assert main(["check", file]) == 0
    assert capsys.readouterr().err == (
        "warning: domain.yaml:28: brokering.types[2]: link type `unused` is declared, and no link has it\n"
    )
    assert main(["check", "--strict", file]) == 3
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("changed", "warning"),
    [
        (
            {"monitors": {"m": {"link": "gateway -> cloud", "states": {"q0": {"#": "pass"}, "q1": {"#": "pass"}}}}},
            "monitors.m.states: state `q1` cannot be reached",
        ),
        (
            {"foreign": {"legacy": {"address": "localhost:1"}}},
            "foreign.legacy: foreign broker `legacy` is declared, and no node has a link with it",
        ),
        (
            {
                "clients": {"phone": HOME["clients"]["phone"], "motion": HOME["clients"]["motion"]},
                "assertions": [],
                "monitors": {"m": {"link": "gateway -> cloud", "filter": "#"}},
            },
            "monitors.m.link: monitor `m` can never see anything: the brokering table lets no event on to its links",
        ),
        ({"nodes": nodes("cloud", "gateway", "shed")}, "nodes.shed: node `shed` has no link with the others"),
        (
            {"nodes": {name: {"listen": "127.0.0.1:1883", "store": "memory"} for name in ("cloud", "gateway")}},
            "nodes.gateway.listen: node `cloud` listens on `127.0.0.1:1883` too: one machine cannot run both",
        ),
        (
            {
                "foreign": {"one": {"address": "localhost:1"}, "two": {"address": "127.0.0.1:1"}},
                "links": [
                    *HOME["links"],
                    {"between": ["cloud", "one"], "type": "internet"},
                    {"between": ["cloud", "two"], "type": "internet"},
                ],
            },
            "foreign.two.address: foreign broker `one` has this address too: what both take (`in`) comes twice",
        ),
        (
            {
                "foreign": {"one": {"address": "localhost:1"}},
                "links": [
                    *HOME["links"],
                    {"between": ["cloud", "one"], "type": "internet"},
                    {"between": ["gateway", "one"], "type": "internet"},
                ],
            },
            "foreign.one: foreign broker `one` has links with `cloud` and `gateway`: it may get an event from each",
        ),
    ],
)
def test_warnings(changed: dict[str, Any], warning: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", home(**changed)]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.partition(": ")[0] == "warning"
    assert line.endswith(warning)


@pytest.mark.parametrize("nested", [False, True])
def test_warnings_about_roles(nested: bool, capsys: pytest.CaptureFixture[str]) -> None:
    roles = {
        "a": {"subscribe": ["x/#", "y"], "members": ["ann", "bob"]},
        "b": {"subscribe": ["x/1", "z"], "members": ["bob"]},
        "c": {"subscribe": ["x/1"]},
        "d": {"members": ["eve"], "inherits": "c"},
        "e": {"subscribe": ["x/+"], "members": ["eve"]},
    }
    pattern = {"pattern": "roles", "listen": "127.0.0.1:0", "store": "memory", "roles": roles, "nested": nested}
    assert main(["check", str(write_domain(Path(), {"nodes": nodes("bus"), "patterns": [pattern]}))]) == 0
    assert [line.partition("patterns[0].")[2] for line in capsys.readouterr().err.splitlines()] == [
        "roles: `bob` may get events on `x/1` twice, as a member of `a` and `b`",
        "roles: `eve` may get events on `x/+` twice, as a member of `d` and `e`",
        "roles.c: role `c` has no members",
    ]


def test_json_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    file = home(brokering=ODD, assertions=[{"can": "motion to phone"}])
    assert main(["check", "--json", file]) == 3
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert (err, result["file"], result["good"]) == ("", "domain.yaml", False)
    (problem,) = result["problems"]
    assert (problem["file"], problem["line"], problem["path"]) == ("domain.yaml", 37, "assertions[0]")
    assert [item["path"] for item in result["warnings"]] == ["brokering.types[2]"]
    assert main(["check", "--json", home()]) == 0
    expected = {"file": "domain.yaml", "good": True, "problems": [], "warnings": []}
    result = json.loads(capsys.readouterr().out)
    assert {key: result[key] for key in expected} == expected
    assert all(item["holds"] for item in result["assertions"])


def test_what_is_other_than_in_another_file(capsys: pytest.CaptureFixture[str]) -> None:
    old = Path(home()).rename("old.yaml")
    assert main(["check", "--json", "--against", str(old), home(brokering={"types": ["internet", "sensitive"]})]) == 3
    result = json.loads(capsys.readouterr().out)
    assert [item["holds"] for item in result["assertions"]] == [False, True]
    assert "there is a way" in result["assertions"][0]["why"]
    assert any(item.startswith("table `") for item in result["changes"])
    assert main(["check", "--against", str(old), home()]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing changes"


def test_json_of_a_file_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", "nowhere.yaml"]) == 3
    reason = "cannot be read: no such file or directory"
    assert json.loads(capsys.readouterr().out)["problems"] == [
        {"file": "nowhere.yaml", "line": 0, "path": "", "what": reason}
    ]


def test_expand_prints_a_file_that_is_the_same_domain(capsys: pytest.CaptureFixture[str]) -> None:
    roles = {
        "viewer": {"subscribe": "state/#", "members": ["ann", "bob"]},
        "operator": {"publish": "cmd/#", "members": "bob"},
    }
    pattern = {"pattern": "roles", "listen": "127.0.0.1:2000", "roles": roles}
    file = write_domain(Path(), {"nodes": {"bus": {"listen": "127.0.0.1:1999"}}, "patterns": [pattern]})
    assert main(["check", "--expand", str(file)]) == 0
    text = capsys.readouterr().out
    again = Path("again.yaml")
    again.write_text(text)
    assert read(again, {}).domain == expand(read(file, {}).domain) == load(file, {})
    assert "patterns" not in text
    assert "  bob:\n    node: [viewer-pub, viewer-sub, operator-pub, operator-sub]\n" in text
    assert main(["fmt", "--check", str(again)]) == 0


def test_expand_names_files_as_they_are_from_where_the_file_is(capsys: pytest.CaptureFixture[str]) -> None:
    Path("etc").mkdir()
    Path("etc/users").touch()
    plain = {"nodes": {"a": {"listen": "127.0.0.1:0", "passwords": "users"}}}
    assert main(["check", "--expand", str(write_domain(Path("etc"), plain))]) == 0
    assert "a: {listen: 127.0.0.1:0, passwords: users}\n" in capsys.readouterr().out


def test_only_the_files_of_named_nodes_are_looked_for() -> None:
    plain = {"nodes": {**nodes("a"), "b": {"listen": "127.0.0.1:0", "acl": "elsewhere"}}}
    file = str(write_domain(Path(), plain))
    assert (main(["check", file]), main(["check", "--node", "a", file])) == (3, 0)


@pytest.mark.parametrize(
    "arguments", [[], ["--json", "--expand", "domain.yaml"], ["--node", "c", "domain.yaml"], ["-x"]]
)
def test_bad_arguments_of_check(arguments: list[str]) -> None:
    home()
    with pytest.raises(SystemExit) as caught:
        main(["check", *arguments])
    assert caught.value.code == 2


# --- fmt

UNTIDY = "nodes:\n   a:   {store: memory,  listen: '127.0.0.1:0'} # one\ndomain:  home\n"
TIDY = "domain: home\nnodes:\n  a: {listen: 127.0.0.1:0, store: memory}  # one\n"


def test_fmt_prints_the_canonical_form(capsys: pytest.CaptureFixture[str]) -> None:
    Path("d.yaml").write_text(UNTIDY)
    assert main(["fmt", "d.yaml"]) == 0
    assert (capsys.readouterr().out, Path("d.yaml").read_text()) == (TIDY, UNTIDY)


ONE_LINE = "PolicyStatement { On(Forward,Publication) { If {a>1} Then {Log( 'http://x' )} } }"
SHOWN = """PolicyStatement {
  On(Forward, Publication) {
    If {a > 1} Then {Log("http://x")}
  }
}
"""
PLAIN = [{"on": "Forward Publication", "if": "a>1", "then": "Log('http://x')"}]


def test_fmt_writes_policies_line_by_line_unless_they_have_comments(capsys: pytest.CaptureFixture[str]) -> None:
    commented = "// why\nPolicyStatement { On(Forward, Publication) { If {} Then {Log()} } }\n"
    wrong = "PolicyStatement { On(Forward, Publication) { If {} Then {"
    Path("one.yaml").write_text(
        yaml.safe_dump({"statements": {"policies": {"a": ONE_LINE, "b": commented, "c": wrong, "d": PLAIN}}})
    )
    assert main(["fmt", "one.yaml"]) == 0
    printed = capsys.readouterr().out
    policies = yaml.safe_load(printed)["statements"]["policies"]
    assert [policies[name] for name in "abc"] == [SHOWN, commented, wrong]
    assert [sorted(rule.values()) for rule in policies["d"]] == [sorted(rule.values()) for rule in PLAIN]
    assert "    a: |\n      PolicyStatement {\n" in printed
    Path("two.yaml").write_text(printed)
    assert main(["fmt", "--check", "two.yaml"]) == 0


def test_expand_prints_policies_that_mean_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    Path("three.policy").write_text(ONE_LINE)
    file = home(
        statements={
            "policies": {"one": ONE_LINE, "two": PLAIN},
            "files": [{"name": "three", "file": "three.policy"}],
            "apply": [{"policy": name, "to": "publication", "of": "bell"} for name in ("one", "two", "three")],
            "grants": [{"to": "phone", "set": ["subscription"], "elements": ["Log"]}],
        }
    )
    assert main(["check", "--expand", file]) == 0
    printed = capsys.readouterr().out
    assert "    two: |\n      PolicyStatement {\n        On(Forward, Publication) {\n" in printed
    Path("expanded.yaml").write_text(printed)
    before, after = (load(Path(name), {}) for name in (file, "expanded.yaml"))
    assert before.statements == after.statements


def test_fmt_check_says_whether_there_is_something_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    Path("d.yaml").write_text(UNTIDY)
    assert main(["fmt", "--check", "d.yaml"]) == 1
    assert capsys.readouterr() == ("", "d.yaml: not in canonical form\n")
    Path("d.yaml").write_text(TIDY)
    assert main(["fmt", "--check", "d.yaml"]) == 0
    assert capsys.readouterr() == ("", "")


def test_fmt_write_replaces_the_file_and_nothing_else() -> None:
    Path("real").mkdir()
    Path("real/d.yaml").write_text(UNTIDY)
    Path("real/d.yaml").chmod(0o640)
    Path("d.yaml").symlink_to("real/d.yaml")
    assert main(["fmt", "--write", "d.yaml"]) == 0
    assert Path("real/d.yaml").read_text() == TIDY
    assert Path("real/d.yaml").stat().st_mode & 0o777 == 0o640
    assert Path("d.yaml").is_symlink()
    assert [path.name for path in Path("real").iterdir()] == ["d.yaml"]


def test_fmt_formats_a_part_of_a_domain_too(capsys: pytest.CaptureFixture[str]) -> None:
    Path("part.yaml").write_text("clients: {x:   {node: a}}\n")
    assert main(["fmt", "part.yaml"]) == 0
    assert capsys.readouterr().out == "clients:\n  x: {node: a}\n"


def test_fmt_of_what_is_no_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    Path("d.yaml").write_text("nodes: [\n")
    assert main(["fmt", "d.yaml"]) == 3
    assert capsys.readouterr().err.startswith("d.yaml:2: not valid YAML")


# --- schema


def test_the_json_schema_knows_every_key_and_short_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert {"nodes", "links", "clients", "brokering", "monitors", "patterns", "include"} <= schema["properties"].keys()
    types = schema["$defs"]["ClientSettings"]["properties"]["type"]["anyOf"]
    assert [form.get("type", "LinkTypes") for form in types] == ["string", "LinkTypes", "null"]
    rule = schema["$defs"]["BrokeringRule"]
    assert (list(rule["properties"]), rule["required"]) == (["from", "to"], ["from", "to"])
    assert {"Hierarchy", "Levels", "Interface", "Roles"} <= schema["$defs"].keys()


def test_the_links_that_enforce_each_step_of_a_protocol_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    unlock = {
        "protocol": "AC_request (AC_grant DL_unlock? | AC_deny)",
        "senders": {"AC_request": "bell", "AC_grant": "phone", "AC_deny": "phone", "DL_unlock": "bell"},
        "protects": ["lock"],
        "guard": ["DL_unlock"],
    }
    Path("lock.yaml").write_text(SMART_HOME_FILE + f"protocols: {json.dumps({'unlock': unlock})}\n", "utf-8")
    assert main(["check", "lock.yaml"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("protocol ")]
    assert [line.partition(" from ")[0] for line in lines] == [
        f"protocol unlock: {event}" for event in ("AC_request", "AC_grant", "DL_unlock", "AC_deny")
    ]
    assert " from phone, refused on " in lines[1]
    assert "bell -> gateway" in lines[1], "the bell grants nothing"
    assert "bell -> gateway" not in lines[0], "it asks"
    assert lines[2].endswith("; suppressed out of order on gateway -> locks")
    assert lines[0].endswith("; seen on gateway -> locks")


def test_a_brokering_table_that_hides_a_protocol_s_event_from_its_monitor_is_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The smart home's table keeps what the motion sensor says from the phone."""
    protocol = {"protocol": "MD_motion AC_request", "senders": {"MD_motion": "motion", "AC_request": "bell"}}
    for protects, warned in (("phone", ["MD_motion"]), ("bell", [])):
        text = SMART_HOME_FILE + f"protocols: {json.dumps({'p': {**protocol, 'protects': protects}})}\n"
        Path("seen.yaml").write_text(text, "utf-8")
        assert main(["check", "seen.yaml"]) == 0
        told = [line for line in capsys.readouterr().err.splitlines() if "never sees" in line]
        assert [line.partition("never sees `")[2].partition("`")[0] for line in told] == warned


def test_a_sender_that_cannot_know_its_turn_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    senders = {"AC_request": "bell", "AC_grant": "phone"}
    for receivers, warned in (({"AC_request": "lock"}, 1), ({"AC_request": "phone", "AC_grant": "bell"}, 0)):
        protocol = {"protocol": "AC_request AC_grant", "senders": senders, "receivers": receivers}
        Path("turn.yaml").write_text(SMART_HOME_FILE + f"protocols: {json.dumps({'p': protocol})}\n", "utf-8")
        assert main(["check", "turn.yaml"]) == 0
        told = [line for line in capsys.readouterr().err.splitlines() if "cannot know its turn" in line]
        assert len(told) == warned
        assert all("protocols.p: `phone` sends `AC_grant` after `AC_request`" in line for line in told)
