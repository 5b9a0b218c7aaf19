"""`penstock explain` and `penstock test` on Sparkplug messages, said by their metrics."""

import json
import re
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.model.sparkplug.plain import write_plain
from tests.support.memory.sparkplug import encode

PAGE = Path(__file__).parents[3] / "docs/testing-policies.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
TEXT = next(text for text in BLOCKS if "access:" in text)
NBIRTH, NDATA = "spBv1.0/G1/NBIRTH/E1", "spBv1.0/G1/NDATA/E1"


@pytest.fixture
def file(tmp_path: Path) -> str:
    file = tmp_path / "plant.yaml"
    file.write_text(TEXT, "utf-8")
    return str(file)


def test_the_page_s_tests_pass(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", file]) == 0
    assert capsys.readouterr().out.endswith("2 tests, all passed\n")


@pytest.mark.parametrize(
    ("expected", "instead", "got"),
    [
        ("{speed: 6, recipe: 8}", "{speed: 6}", '{"speed": 6, "recipe": 8}'),
        ("{speed: 6, recipe: 8}", "{speed: 6, recipe: 9}", '{"speed": 6, "recipe": 8}'),
        ("without: recipe", "without: speed", '{"speed": 5}'),
        ("seq: 2", "seq: 3", '{"speed": 6, "recipe": 8} (seq 2)'),
    ],
)
def test_what_came_is_told_by_metrics(
    file: str, expected: str, instead: str, got: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(TEXT.replace(expected, instead), "utf-8")
    assert main(["test", file]) == 4
    out = capsys.readouterr().out
    assert f"got       {NDATA} {got}" in out
    assert "project: replace by access.policies[3]" in out


@pytest.mark.parametrize(
    ("metrics", "what"),
    [
        ("{speed: {worth: 1}}", "metric `speed`: unknown key `worth`"),
        ("{speed: 1}, payload: x", "either `payload`, `content` or `metrics`"),
        ("{speed: 1}, seq: 256", "at most 255"),
    ],
)
def test_what_cannot_be_published_is_a_mistake(
    file: str, metrics: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(TEXT.replace("{speed: 6}}", f"{metrics}}}"), "utf-8")
    assert main(["test", file]) == 3
    assert what in capsys.readouterr().err


def explained(file: str, *arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["explain", file, "--from", "e1", "--topic", NBIRTH, "--to", "a1", *arguments]) == 0
    return capsys.readouterr().out


def test_an_explanation_is_told_by_metrics(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = f'a1 gets `{NBIRTH} {{"speed": 1}}`'
    assert expected in explained(file, "--metrics", '{"speed": 1}', "--seq", "0", capsys=capsys)
    (tmp_path / "payload").write_bytes(write_plain({"speed": 1}, 0))
    assert expected in explained(file, "--payload-file", str(tmp_path / "payload"), capsys=capsys)
    account = json.loads(explained(file, "--metrics", '{"speed": 1}', "--json", capsys=capsys))
    assert account["receivers"]["a1"]["gets"][0]["metrics"] == {"speed": 1}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (["--metrics", "speed"], "--metrics: expected JSON"),
        (["--metrics", "[1]"], "expected a JSON object of metrics"),
        (["--metrics", '{"a": [1]}'], "metric `a`"),
        (["--payload-file", "/no/such/file"], "`/no/such/file` cannot be read"),
        (["--payload", "x", "--metrics", "{}"], "not allowed with"),
    ],
)
def test_bad_arguments(file: str, said: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["explain", file, "--from", "e1", "--topic", NBIRTH, *said])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_births_that_were_seen_tell_what_aliases_stand_for(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(TEXT.replace('when: "message.seq == 1"', "when: \"recipe.type == 'Int32'\""), "utf-8")
    births = tmp_path / "births.jsonl"
    metrics = {"speed": 0, "recipe": {"value": 0, "type": "Int32", "alias": 7}}
    births.write_text(json.dumps({"topic": NBIRTH, "metrics": metrics}), "utf-8")
    (tmp_path / "payload").write_bytes(encode({"metrics": [{"alias": 7, "int_value": 5}], "seq": 1}))
    arguments = [
        "explain",
        file,
        "--from",
        "e1",
        "--topic",
        NDATA,
        "--to",
        "a1",
        "--payload-file",
        f"{tmp_path}/payload",
    ]
    assert main([*arguments, "--births", str(births)]) == 0
    assert "without `recipe` (excepted by `secret`)" in capsys.readouterr().out
    births.write_text("{}", "utf-8")
    assert main([*arguments, "--births", str(births)]) == 1
    assert "births.jsonl:1: " in capsys.readouterr().err
