"""`penstock statement`, and the option `--policy` of `penstock pub` and `penstock sub`."""

import subprocess
from pathlib import Path

import pytest
import yaml

from penstock.cli.client.pub import PubOptions
from penstock.cli.client.pub import main as pub
from penstock.cli.client.sub import SubOptions
from penstock.cli.client.sub import main as sub
from penstock.cli.options import parse
from penstock.cli.policy.policy_files import FORMS, read_form
from penstock.cli.policy.statement import main
from penstock.language.statements.parser import parse_statement
from penstock.policy.statements.elements.table import elements
from tests.support.processes.commands import PATIENCE, penstock, run
from tests.support.processes.node import running

PAPER = {
    case["title"]: case
    for case in yaml.safe_load((Path(__file__).parents[2] / "cases" / "statements" / "paper.yaml").read_text())
}
FORMATS = "§5.1, formats of proxy brokers"  # it has elements that a package would bring
TRIM = "PolicyStatement {On(Forward, Publication) {@broker: Egress If {} Then {TrimAttributes()}}}"


def written(folder: Path, text: str, name: str = "policy.txt") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


@pytest.mark.parametrize("title", [title for title in PAPER if title != FORMATS])
def test_each_policy_of_the_paper_in_each_form(title: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = PAPER[title]
    file = written(tmp_path, case["text"])
    on = case["may_be_set_on"][0].lower()
    assert main([file]) == 0
    assert capsys.readouterr().out == case["canonical"]
    for form in (*FORMS, "compact"):
        assert main([file, "--to", form, "--on", on]) == 0
        printed = capsys.readouterr().out
        again = "text" if form == "compact" else form
        assert read_form(printed.encode(), again) == parse_statement(case["text"])
        # ... and by the name of the file, back to where it began
        assert main([written(tmp_path, printed, f"policy.{again}"), "--to", "text"]) == 0
        assert capsys.readouterr().out == case["canonical"]


WRONG = {
    "syntax": (["p.txt"], "PolicyStatement {", 3, "expected `On`"),
    "an element that nobody knows": (["p.txt"], PAPER[FORMATS]["text"], 3, "there is no element `ToFormat1`"),
    "arguments": (["p.txt"], TRIM.replace("TrimAttributes()", "RemoveAttributes()"), 3, "at least 1 argument"),
    "a condition": (["p.txt"], TRIM.replace("{}", "{size(1) > 2}"), 3, "`size` does not take an int"),
    "Table 1": (["p.txt", "--on", "unsubscription"], TRIM, 3, "a policy of an unsubscription is about"),
    "a filter that there is not": (["p.txt", "--on", "publication"], TRIM, 3, "this is set on none"),
    "YAML": (["p.yaml"], "[", 3, "this is not YAML"),
    "JSON": (["p.txt", "--from", "json"], "[{", 3, "this is not JSON"),
    "XML": (["p.xml"], "<PolicyStatement>", 3, "XML"),
    "another form than its name says": (["p.xml"], TRIM, 3, "XML"),
    "no file": (["other"], TRIM, 1, "cannot read"),
    "no arguments": ([], TRIM, 2, "expected a file, or --elements"),
    "both": (["p.txt", "--elements"], TRIM, 2, "expected a file, or --elements"),
    "no such form": (["p.txt", "--to", "html"], TRIM, 2, "invalid choice"),
}


@pytest.mark.parametrize("title", WRONG)
def test_mistakes(
    title: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, text, code, message = WRONG[title]
    monkeypatch.chdir(tmp_path)
    for name in ("p.txt", "p.yaml", "p.xml"):
        written(tmp_path, text, name)
    try:
        actual = main(arguments)
    except SystemExit as end:
        actual = int(end.code or 0)
    shown = capsys.readouterr()
    assert (actual, shown.out) == (code, "")
    assert message in shown.err


def test_what_is_not_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p").write_bytes(b"PolicyStatement \xff")
    assert main([str(tmp_path / "p")]) == 3
    assert "not UTF-8" in capsys.readouterr().err


def test_from_standard_input() -> None:
    command = penstock("statement", "-", "--to", "compact")
    done = subprocess.run(command, input=TRIM, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (f"{TRIM}\n", "", 0)


def test_every_element_is_listed_with_what_it_takes_and_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--elements"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split("(")[0] for line in lines] == list(elements())
    assert all(element.about for element in elements().values())
    remove = next(line for line in lines if line.startswith("RemoveAttributes"))
    assert remove.split("  ")[0] == "RemoveAttributes(name, ...)"
    assert remove.endswith("Remove these attributes.")
    assert any(line.startswith("Publish(text[, topic])") for line in lines)


# --- pub and sub


@pytest.mark.parametrize("form", FORMS)
def test_a_policy_from_a_file(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([written(tmp_path, TRIM), "--to", form]) == 0
    file = written(tmp_path, capsys.readouterr().out, f"trim.{form}")
    parsed = parse(SubOptions, ["-t", "t", "--policy", f"@{file}"])
    assert (parsed.policy, parsed.version) == (TRIM, 5)
    publishing = parse(PubOptions, ["-t", "t", "-m", "x", "--policy", f"@{file}"])
    assert publishing.packet_properties is not None
    assert getattr(publishing.packet_properties, "UserProperty") == [("penstock-policy", TRIM)]  # noqa: B009


@pytest.mark.parametrize(
    ("word", "said"), [("PolicyStatement {", "expected `On`"), ("@nowhere", "cannot read `nowhere`"), ("", "expected")]
)
def test_what_is_no_policy(word: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert (pub(["-t", "t", "-m", "x", "--policy", word]), sub(["-t", "t", "--policy", word])) == (2, 2)
    assert capfd.readouterr().err.count(said) == 2


def test_with_a_node() -> None:
    grant = {"to": "*", "set": ["publication", "subscription"], "elements": ["TrimAttributes", "RemoveAttributes"]}
    remove = TRIM.replace("TrimAttributes()", "RemoveAttributes(c)").replace("@broker: Egress ", "")
    with running(statements={"grants": [grant]}) as node:
        to = ("-h", "127.0.0.1", "-p", str(node.port))
        message = ("-q", "1", "-r", "-t", "t", "-m", '{"a":2,"b":3,"c":4}')
        assert run(penstock("pub", *to, *message, "--policy", remove))[:2] == (0, "")
        reading = penstock("sub", *to, "-t", "t", "-C", "1", "-W", "10")
        assert run(reading) == (0, '{"a":2,"b":3}\n', "")
        assert run([*reading, "--where", "a > 1", "--policy", TRIM]) == (0, '{"a":2}\n', "")
        code, _, error = run([*reading, "--policy", TRIM.replace("TrimAttributes", "ToXML")])
        assert (code, "may not use `ToXML`" in error) == (0x87, True)
