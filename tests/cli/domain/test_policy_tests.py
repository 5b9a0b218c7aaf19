"""`penstock test`, and what is wrong with tests that cannot be run."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.cli.main import main
from scripts.settings_table import TEST_PAGE, TEST_TABLES, with_tables
from tests.support.models.ensembles import SMART_HOME_FILE
from tests.support.processes.commands import penstock, run

CASES = yaml.safe_load((Path(__file__).parents[2] / "cases/domain/test-mistakes.yaml").read_text("utf-8"))
DOMAIN = Path("home.yaml")
FILE = Path("tests.yaml")
LAST = FILE.name


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the smart home in it, beside which tests are written."""
    monkeypatch.chdir(tmp_path)
    DOMAIN.write_text(SMART_HOME_FILE, "utf-8")


def write(tests: str) -> None:
    indented = "".join(f"  {line}\n" for line in tests.strip("\n").splitlines())
    FILE.write_text(f"include: {DOMAIN}\ntests:\n{indented}", "utf-8")


def test(tests: str, *arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The exit code and the lines that are printed."""
    write(tests)
    code = main(["test", str(FILE), *arguments])
    return code, capsys.readouterr().out.splitlines()


test.__test__ = False  # type: ignore[attr-defined]  # it is the command of this name


@pytest.mark.parametrize("case", [pytest.param(case, id=case["title"]) for case in CASES])
def test_mistakes_are_said_with_their_place(case: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    write(case["text"])
    assert main(["test", str(FILE)]) == 3
    out, err = capsys.readouterr()
    assert (out, err.rstrip("\n")) == ("", f"penstock: {FILE}:3: {case['expect']}")


def test_all_that_can_be_done_and_expected(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = test(
        """
        motion stays at home:
          - publish: {motion: {topic: MD_motion, payload: here}}
            expect: {bell: {topic: MD_motion, payload: here}, lock: MD_motion, "*": []}
            verdicts: {at: gateway, from: motion, to: cloud, stage: route, effect: suppress, rule: brokering}
        order matters or not:
          - {publish: {bell: [a, b, a]}, expect: {lock: [a, b, a], phone: {any_order: [a, a, b]}}}
          - {expect: {"*": []}}
        what is expected is what came since something was last expected:
          - {publish: {bell: a}, expect: {lock: a}}
          - publish: {bell: b}
          - {publish: {bell: c}, expect: {lock: [b, c], phone: [b, c]}}
        only some subscribe:
          subscribe: {lock: [a/+, {filter: b, qos: 1}], bell: {filter: a/b, no_local: false}}
          steps:
            - {publish: {bell: {topic: a/b, qos: 2}}, expect: {lock: {topic: a/b, qos: 2}, bell: a/b, "*": []}}
            - {publish: {motion: {topic: b, qos: 2}}, expect: {lock: {topic: b, qos: 1}, "*": []}}
            - subscribe: {phone: a/#}
            - unsubscribe: {lock: a/+}
            - {publish: {bell: a/b}, expect: {lock: [], phone: {topic: a/b, at: cloud}}}
        links break and come back:
          - cut: cloud -> gateway
          - {publish: {bell: {topic: a, qos: 1}}, expect: {lock: a, phone: []}}
          - {restore: gateway -> cloud, expect: {phone: a}}
        states last:
          states: {unlock-after-grant @ gateway -> locks: asked}
          steps:
            - {restart: [locks, gateway], states: {unlock-after-grant: asked}}
            - {publish: {phone: AC_grant}, expect: {lock: AC_grant}, states: {unlock-after-grant: granted}}
        clients come and go:
          - disconnect: lock
          - {publish: {bell: {topic: a, qos: 1}}, expect: {lock: [], motion: a}}
          - {connect: lock, expect: {lock: a}}
          - {connect: {mallory: cloud}, refused: mallory}
        retained:
          subscribe: {}
          steps:
            - {publish: {bell: {topic: a, payload: x, retain: true}}, expect: {"*": []}}
            - wait: 1h
            - {subscribe: {motion: a, phone: a}, expect: {motion: {topic: a, payload: x, retain: true}, phone: a}}
        """,
        capsys=capsys,
    )
    assert (code, lines[-1]) == (0, "8 tests, all passed"), lines
    assert lines[0] == "ok    motion stays at home"


def test_what_a_client_asks_for_is_beside_what_the_domain_says_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    DOMAIN.write_text(
        """
        nodes: {a: {listen: "127.0.0.1:1"}}
        content: [{topics: t/1, format: json, schema: {x: int}}]
        clients: {p: {node: a}, s: {node: a, where: {t/#: y < 10, t/+: "y > 0 || y == -5"}}}
        """,
        "utf-8",
    )
    code, lines = test(
        """
        with a comment, and about other attributes than are declared:
          subscribe: {s: {filter: t/1, where: "x > 1 || x == -1 // why"}}
          steps:
            - {publish: {p: {topic: t/1, content: {x: 2, y: 9}}}, expect: {s: t/1}}
            - {publish: {p: {topic: t/1, content: {x: -1, y: -5}}}, expect: {s: t/1}}
            - {publish: {p: {topic: t/1, content: {x: 2, y: 10}}}, expect: {s: []}}
            - {publish: {p: {topic: t/1, content: {x: 1, y: 9}}}, expect: {s: []}}
            - {publish: {p: {topic: t/1, content: {x: 2, y: -4}}}, expect: {s: []}}
        """,
        capsys=capsys,
    )
    assert (code, lines[-1]) == (0, "1 test, all passed"), lines


def test_steps_about_content(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = test(
        """
        conditions of subscriptions:
          subscribe: {lock: {filter: a, where: "x > 1"}, phone: {filter: a, where: "y == 'ö'"}}
          steps:
            - {publish: {bell: {topic: a, content: {x: 2, y: ö}}}, expect: {lock: a, phone: a}}
            - {publish: {bell: {topic: a, payload: '{"x": 1.5}'}}, expect: {lock: a, phone: []}}
            - publish: {bell: {topic: a, content: {x: 1}}}
              expect: {lock: [], phone: []}
        several with one filter, by name:
          subscribe: {lock: [{filter: a, where: x > 1, name: large}, {filter: a, where: x < 0, name: small}]}
          steps:
            - {publish: {bell: [{topic: a, content: {x: 2}}, {topic: a, content: {x: -1}}]}, expect: {lock: [a, a]}}
            - unsubscribe: {lock: {filter: a, name: large}}
            - {publish: {bell: [{topic: a, content: {x: 2}}, {topic: a, content: {x: -1}}]}, expect: {lock: a}}
            - unsubscribe: {lock: {filter: a, name: small}}
            - {publish: {bell: {topic: a, content: {x: -1}}}, expect: {lock: []}}
        subscriptions that other nodes are not told of:
          subscribe: {lock: {filter: a, scope: local}, phone: a}
          steps:
            - {publish: {bell: a}, expect: {lock: [], phone: a}}
        who advertises publishes nothing else:
          - advertise: {bell: [{name: n, filter: a, where: "x < 5"}, {name: m, filter: b/+}]}
          - {publish: {bell: [{topic: a, content: {x: 1}}, b/c]}, expect: {lock: [a, b/c]}}
          - publish: {bell: [{topic: a, content: {x: 6}}, c]}
            expect: {"*": []}
            verdicts: {at: gateway, from: bell, stage: conform, effect: suppress}
          - unadvertise: {bell: m}
          - {publish: {bell: b/c}, expect: {"*": []}}
          - unadvertise: {bell: [n]}
          - {publish: {bell: [b/c, c]}, expect: {lock: [b/c, c]}}
        """,
        capsys=capsys,
    )
    assert (code, lines[-1]) == (0, "4 tests, all passed"), lines


FAILURES = {
    "what does not come": (
        "[{publish: {motion: MD_motion}, expect: {phone: MD_motion}}]",
        [
            "tests.yaml:3: step 1, publish: phone",
            "expected  MD_motion",
            "got       nothing",
            "because   `MD_motion` from motion: gateway -> cloud: route: suppress by brokering: denied by `deny` from"
            " `sensitive` to `internet`",
        ],
    ),
    "what comes and should not": (
        "[{publish: {bell: AC_request}, expect: {lock: []}}]",
        [
            "tests.yaml:3: step 1, publish: lock",
            "expected  nothing",
            "got       AC_request",
            "because   `AC_request` from bell: locks -> lock: edit: pass by unlock-after-grant: from state `q0` to"
            " `asked`; route: pass by brokering: allowed: `deny` does not list from `door` to `door`",
        ],
    ),
    "another payload": (
        "[{publish: {bell: {topic: a, payload: x}}, expect: {phone: {topic: a, payload: y}}}]",
        ["tests.yaml:3: step 1, publish: phone", "expected  a y", "got       a x"],
    ),
    "another QoS, and not as retained": (
        "[{publish: {bell: a}, expect: {phone: {topic: a, qos: 1, retain: true}}}]",
        [
            "tests.yaml:3: step 1, publish: phone",
            "expected  a (qos 1, retain true)",
            "got       a (qos 0, retain false)",
        ],
    ),
    "another order": (
        "[{publish: {bell: [a, b]}, expect: {phone: [b, a]}}]",
        ["tests.yaml:3: step 1, publish: phone", "expected  b", "a", "got       a", "b"],
    ),
    "not these in any order": (
        "[{publish: {bell: [a, b]}, expect: {phone: {any_order: [a, a]}}}]",
        ["tests.yaml:3: step 1, publish: phone", "expected  a", "a", "(in any order)", "got       a", "b"],
    ),
    "another verdict": (
        "[{publish: {phone: DL_unlock}, verdicts: {at: cloud, to: gateway, stage: shape, effect: pass}}]",
        [
            "tests.yaml:3: step 1, publish: a verdict",
            "expected  cloud -> gateway: shape: pass",
            "got       phone -> cloud -> gateway: admit: pass",
        ],
    ),
    "another state": (
        "[{wait: 1}, {states: {unlock-after-grant: granted}}]",
        ["tests.yaml:3: step 2: monitor unlock-after-grant", "expected  granted", "got       q0 on gateway -> locks"],
    ),
    "let in": (
        "[{disconnect: phone}, {connect: phone, refused: phone}]",
        ["tests.yaml:3: step 2, connect: phone", "expected  that it is not let in", "got       it is connected"],
    ),
    "what cannot be done": (
        "[{disconnect: phone}, {publish: {phone: x}}]",
        [
            "tests.yaml:3: step 2, publish: the step",
            "expected  that it can be done",
            "got       `phone` is not connected",
        ],
    ),
    "a state that there is not": (
        "{states: {unlock-after-grant: q9}, steps: [{wait: 1}]}",
        [
            "tests.yaml:3: step 1, wait: the step",
            "expected  that it can be done",
            "got       monitor `unlock-after-grant` has no state `q9`",
        ],
    ),
}


@pytest.mark.parametrize("title", FAILURES)
def test_a_failure_says_what_was_expected_and_what_came_and_why(title: str, capsys: pytest.CaptureFixture[str]) -> None:
    steps, expected = FAILURES[title]
    code, lines = test(f"{title}: {steps}", capsys=capsys)
    assert code == 4
    assert lines[0] == f"FAIL  {title}"
    assert lines[-1] == "1 test, 1 failed"
    assert [line.strip() for line in lines[1:-1]][: len(expected)] == expected


def test_only_the_first_step_that_fails_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = test("t: [{publish: {bell: a}, expect: {phone: b}}, {expect: {phone: c}}]", capsys=capsys)
    assert [line for line in lines if "step 2" in line] == []


TWO = "the phone: [{publish: {phone: a}, expect: {bell: a}}]\nthe bell: [{publish: {bell: a}, expect: {phone: b}}]"


def test_one_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert test(TWO, "-k", "PHONE", capsys=capsys) == (0, ["ok    the phone", "1 test, all passed"])
    assert test(TWO, capsys=capsys)[0] == 4


def test_none_that_is_chosen_is_a_bad_argument() -> None:
    write(TWO)
    code, out, err = run(penstock("test", str(FILE), "-k", "window"))
    assert (code, out) == (2, "")
    assert "no test has `window` in its title; there is\n  the phone\n  the bell\n" in err


def test_a_file_without_tests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(DOMAIN)]) == 0
    assert capsys.readouterr().out == "no tests\n"


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = test(TWO, "--json", capsys=capsys)
    result = json.loads("\n".join(lines))
    assert (code, result["passed"], result["failed"]) == (4, 1, 1)
    good, bad = result["tests"]
    assert good == {"title": "the phone", "passed": True, "failures": []}
    (failure,) = bad["failures"]
    assert (failure["where"], failure["step"], failure["about"]) == ("tests.yaml:4", 1, "phone")
    assert (failure["expected"], failure["got"]) == (["b"], ["a"])


def test_a_domain_whose_assertions_do_not_hold_is_not_tested(capsys: pytest.CaptureFixture[str]) -> None:
    DOMAIN.write_text(SMART_HOME_FILE + "\nassertions: [{never: bell to phone}]\n", "utf-8")
    write(TWO)
    assert main(["test", str(FILE)]) == 3
    assert "assertions[0]" in capsys.readouterr().err


def test_access_rights_hold(capsys: pytest.CaptureFixture[str]) -> None:
    Path("acl").write_text("topic write up/#\ntopic read down/#\npattern readwrite %c/#\n")
    DOMAIN.write_text("nodes: {n: {listen: '127.0.0.1:1', acl: acl}}\nclients: {a: {node: n}, b: {node: n}}", "utf-8")
    steps = """
    rights: [{publish: {a: [b/x, a/x, up/x, down/x]}, expect: {b: []}, verdicts: [{at: n, stage: admit, rule: acl}]}]
    """
    assert test(steps, capsys=capsys)[0] == 0


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    DOMAIN.write_text("nodes: {n: {listen: '127.0.0.1:1', acl: nowhere}}", "utf-8")
    write("t: [{wait: 1}]")
    assert main(["test", str(FILE)]) == 3
    assert "nowhere" in capsys.readouterr().err


# --- docs/testing-policies.md

PAGE = TEST_PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_s_examples_pass(capsys: pytest.CaptureFixture[str]) -> None:
    DOMAIN.write_text(BLOCKS[0], "utf-8")
    assert main(["test", str(DOMAIN)]) == 0, capsys.readouterr().out
    DOMAIN.write_text(BLOCKS[0].partition("\ntests:")[0] + "\n" + BLOCKS[1], "utf-8")
    assert main(["test", str(DOMAIN)]) == 0, capsys.readouterr().out
    DOMAIN.write_text(BLOCKS[2], "utf-8")
    assert main(["test", str(DOMAIN)]) == 0, capsys.readouterr().out


def test_the_page_shows_a_failure_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = re.findall(r"^```\n(FAIL.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    before, _, _ = BLOCKS[0].partition("\ntests:")
    story = "motion goes to the phone:\n    - {publish: {motion: MD_motion}, expect: {phone: MD_motion}}"
    DOMAIN.write_text(f"{before}\ntests:\n  {story}\n", "utf-8")
    assert main(["test", str(DOMAIN)]) == 4
    printed = capsys.readouterr().out
    assert re.sub(r"home\.yaml:\d+", "home.yaml:", printed) == re.sub(r"home\.yaml:\d+", "home.yaml:", shown)


def test_the_tables_are_as_the_models_are() -> None:
    assert [path for path, _ in TEST_TABLES if f"<!-- settings of {path} -->" not in PAGE] == []
    assert with_tables(PAGE) == PAGE, "run `.venv/bin/python -m scripts.settings_table`"
