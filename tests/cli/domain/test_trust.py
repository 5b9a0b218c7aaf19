"""`check`, `flows`, `explain` and `test` on domains with tokens and trust."""

from pathlib import Path

import pytest

from penstock.cli.main import main

DOMAIN = """
nodes:
  b1: {listen: "127.0.0.1:1883", signing_key: b1.pem}
  b2: {listen: "127.0.0.1:1884", signing_key: b2.pem}
  b3: {listen: "127.0.0.1:1885", signing_key: b3.pem}
links: [{between: [b1, b2]}, {between: [b2, b3]}]
clients: {ann: {node: b1}, bob: {node: b3}, eve: {node: b3}}
tokens:
  keys: keys.json
  grants:
    - {clients: ann, publish: home/#}
    - {clients: bob, subscribe: home/#}
trust:
  sign: 0.6
  feedback: {from: bob, least: 1}
  begin: [{of: b1, by: b2, good: 8}, {of: b2, by: b3, good: 8}]
"""
TESTS = """
tests:
  what is false stops spreading:
    - publish: {ann: {topic: home/door, payload: open}}
      expect: {bob: home/door}
      ratings: {of: b2, by: b3, at_least: 0.9}
    - rate: {bob: home/door}
      ratings: [{of: b2, by: b3, at_least: 0.69, at_most: 0.7}, {of: b1, by: b2, at_least: 0.9}]
    - {publish: {ann: {topic: home/door, payload: shut}}, expect: {bob: home/door}}
    - rate: {bob: [{topic: home/door, payload: shut, good: false}]}
    - publish: {ann: home/door}
      expect: {bob: []}
      verdicts: {at: b3, from: b2, stage: admit, effect: suppress, rule: trust}
  a client shows another token:
    - {publish: {ann: garden}, verdicts: {at: b1, stage: admit, effect: suppress, rule: token}}
    - show: {ann: {publish: [garden, home/#]}}
    - {publish: {ann: garden}, verdicts: {at: b1, to: b2, stage: admit, effect: pass}, expect: {bob: []}}
    - show: {bob: {subscribe: garden}}
    - subscribe: {bob: garden}
    - {publish: {ann: [garden, home/door]}, expect: {bob: garden}}
  who is granted nothing stays out:
    - refused: eve
"""


def write(folder: Path, text: str) -> str:
    (folder / "keys.json").write_text('{"keys": []}', "utf-8")
    (folder / "domain.yaml").write_text(text, "utf-8")
    return str(folder / "domain.yaml")


def test_a_domain_with_tokens_and_trust_checks_and_its_flows_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, keys = write(tmp_path, DOMAIN), str(tmp_path / "keys.json")
    for node in ("b1", "b2", "b3"):
        assert main(["token", "key", "--out", str(tmp_path / f"{node}.pem"), "--node", node, "--keys", keys]) == 0
    assert main(["check", file]) == 0
    assert main(["flows", file]) == 0
    assert "ann" in capsys.readouterr().out


def test_policy_tests_show_tokens_and_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["test", write(tmp_path, DOMAIN + TESTS)])
    assert (code, capsys.readouterr().out.splitlines()[-1]) == (0, "3 tests, all passed")


def test_a_rating_that_is_not_as_expected_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = "tests: {it is trusted: [{ratings: {of: b2, by: b3, at_least: 0.99}}]}"
    assert main(["test", write(tmp_path, DOMAIN + wrong)]) == 4
    printed = capsys.readouterr().out
    assert "b2 as b3 rates it" in printed
    assert "rated at least 0.99" in printed
    assert "rated 0.9" in printed


@pytest.mark.parametrize(
    ("title", "step", "expected"),
    [
        ("nothing came", "{rate: {bob: home/door}}", "`bob` has got nothing on `home/door`, and cannot rate it"),
        ("it may not", "{rate: {ann: {topic: home/door, payload: x}}}", "`ann` is not one of those who may rate"),
    ],
    ids=["nothing came", "it may not"],
)
def test_what_cannot_be_rated_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], title: str, step: str, expected: str
) -> None:
    assert main(["test", write(tmp_path, DOMAIN + f"tests: {{{title}: [{step}]}}")]) == 4
    assert expected in capsys.readouterr().out


def test_steps_about_tokens_need_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without = DOMAIN[: DOMAIN.index("tokens:")]
    for step, where in (
        ("show: {ann: {publish: a}}", "show: found nothing, expected `tokens` in the domain"),
        ("rate: {bob: a}", "rate: found nothing, expected `trust` in the domain"),
    ):
        assert main(["test", write(tmp_path, f"{without}tests: {{t: [{{{step}}}]}}")]) == 3
        assert where in capsys.readouterr().err
    far = "tests: {t: [{ratings: {of: b1, by: b3, at_least: 0.1}}]}"
    assert main(["test", write(tmp_path, DOMAIN + far)]) == 3
    assert "found `b1`, expected a neighbour of `b3`" in capsys.readouterr().err


def test_explain_plays_with_the_tokens_that_are_granted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, DOMAIN)
    assert main(["explain", file, "--from", "ann", "--topic", "home/door"]) == 0
    printed = capsys.readouterr().out
    assert "every client is connected, with the token that it is granted" in printed
    assert "signed by `b1`, `b2`; `b2` is rated 0.9; `b3` signs it" in printed
    assert "bob gets `home/door`" in printed
    assert "eve gets nothing\n  b3 -> eve: match: suppress by token: `eve` has no token" in printed
    assert main(["explain", file, "--from", "eve", "--topic", "home/door", "--to", "bob"]) == 0
    assert "`tokens.grants` gives it none" in capsys.readouterr().out
