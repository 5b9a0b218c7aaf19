"""`penstock token`: keys, tokens, signatures, revocations, each as a command."""

import io
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from penstock.cli.policy.token import main
from penstock.policy.tokens.keys import KeySet, SigningKey
from penstock.policy.tokens.revocation import Revoked
from penstock.policy.tokens.token import MAX_BYTES, Party, parse_token
from tests.support.memory.tokens import token as some_token
from tests.support.processes.commands import penstock, run

ISSUE = [
    *("issue", "--node", "b1", "--key", "b1.pem", "--subject", "client:pump", "--audience", "domain:plant"),
    *("--publish", "home/groundfloor/kitchen", "--subscribe", "home/firstfloor/#", "--for", "1h", "--id", "t-1"),
]
VERIFY = ["verify", "pump.token", "--keys", "keys.json", "--audience", "domain:plant"]


@pytest.fixture(autouse=True)
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with keys of b1 and b2 and the token of a client, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    for node in ("b1", "b2"):
        assert said("key", "--node", node, "--out", f"{node}.pem", "--keys", "keys.json") == 0
    assert said(*ISSUE, "--out", "pump.token") == 0
    capsys.readouterr()
    return tmp_path


def said(*arguments: str) -> int:
    """The exit code."""
    try:
        return main(list(arguments))
    except SystemExit as end:
        return int(end.code or 0)


def key_id(node: str) -> str:
    return SigningKey.read(f"{node}.pem").key_id


def test_keys_are_made_and_listed(plant: Path) -> None:
    assert stat.S_IMODE((plant / "b1.pem").stat().st_mode) == 0o600
    keys = KeySet.read("keys.json")
    assert [(key.node, key.key_id) for key in keys.keys.values()] == [("b1", key_id("b1")), ("b2", key_id("b2"))]


def test_the_public_half_of_a_key_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("key", "--node", "b1", "--of", "b1.pem") == 0
    jwk = json.loads(capsys.readouterr().out)
    assert (jwk["kid"], jwk["node"], jwk["kty"]) == (key_id("b1"), "b1", "OKP")
    assert "d" not in jwk


def test_no_command_prints_a_private_key(capsys: pytest.CaptureFixture[str], plant: Path) -> None:
    key = serialization.load_pem_private_key((plant / "b1.pem").read_bytes(), None)
    secret = (plant / "b1.pem").read_text().splitlines()[1]
    raw = key.private_bytes(serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption())
    said("key", "--node", "b1", "--of", "b1.pem")
    said(*ISSUE)
    said("sign", "pump.token", "--node", "b2", "--key", "b2.pem")
    said("inspect", "b1.pem")
    said("verify", "b1.pem", "--keys", "b1.pem", "--audience", "domain:plant")
    said("key", "--node", "b1", "--of", "b1.pem", "--keys", "b1.pem")
    shown = capsys.readouterr()
    for text in (shown.out, shown.err, (plant / "keys.json").read_text()):
        assert secret not in text
        assert raw.hex() not in text


def test_a_token_says_what_was_asked_for() -> None:
    claims = parse_token(Path("pump.token").read_bytes()).claims
    assert (claims.issuer, claims.subject, claims.id) == ("b1", Party("client", "pump"), "t-1")
    assert claims.audience == {Party("domain", "plant")}
    assert claims.publish == {"home/groundfloor/kitchen"}
    assert claims.subscribe == {"home/firstfloor/#"}
    assert claims.expiry - claims.not_before == 3_600
    assert claims.issued == claims.not_before


def test_a_token_is_for_its_owner_only() -> None:
    assert stat.S_IMODE(Path("pump.token").stat().st_mode) == 0o600


def test_a_token_to_standard_output_and_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(*ISSUE) == 0
    text = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert said("inspect", "-", "--json") == 0
    assert json.loads(capsys.readouterr().out)["id"] == "t-1"


def test_ids_are_random_unless_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(*ISSUE[:-2]) == said(*ISSUE[:-2]) == 0
    first, second = (parse_token(line).claims.id for line in capsys.readouterr().out.splitlines())
    assert first != second


def test_a_token_that_counts_later(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(*ISSUE, "--not-before", "2100-01-01") == 0
    claims = parse_token(capsys.readouterr().out.strip()).claims
    assert (claims.not_before, claims.expiry) == (4_102_444_800, 4_102_448_400)
    assert claims.issued < claims.not_before


def test_a_second_node_signs(capsys: pytest.CaptureFixture[str]) -> None:
    before = parse_token(Path("pump.token").read_bytes())
    assert said("sign", "pump.token", "--node", "b2", "--key", "b2.pem", "--out", "pump.token") == 0
    after = parse_token(Path("pump.token").read_bytes())
    assert after.claims == before.claims
    assert after.nodes == ("b1", "b2")
    assert said(*VERIFY) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["node", "key", "signature"],
        ["b1", key_id("b1"), "good"],
        ["b2", key_id("b2"), "good"],
    ]


def test_inspect_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("inspect", "pump.token") == 0
    out = capsys.readouterr().out
    rows = dict(line.split("  ", 1) for line in out.splitlines())
    rows = {name: value.strip() for name, value in rows.items()}
    token = parse_token(Path("pump.token").read_bytes())
    assert rows["subject"] == "client:pump"
    assert rows["may publish"] == "home/groundfloor/kitchen"
    assert rows["signature, not verified"] == f"b1, key {key_id('b1')}"
    assert rows["digest of the token"] == token.digest
    assert rows["expiry"].endswith("Z")


def test_inspect_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("inspect", "pump.token", "--json") == 0
    claims = json.loads(capsys.readouterr().out)
    token = parse_token(Path("pump.token").read_bytes())
    assert claims["publish"] == ["home/groundfloor/kitchen"]
    assert claims["signatures"] == [{"node": "b1", "key": key_id("b1")}]
    assert (claims["digest"], claims["claims_digest"]) == (token.digest, token.claims.digest)


def test_inspect_does_not_pass_orders_on_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.token").write_bytes(some_token(publish=frozenset({"a\x1b[2Jb"})).text)
    assert said("inspect", "odd.token") == 0
    assert r"a\x1b[2Jb" in capsys.readouterr().out


REFUSED: dict[str, tuple[list[str], str]] = {
    "another domain": (["--audience", "domain:city"], "wrong audience"),
    "another holder": (["--audience", "domain:plant", "--holder", "client:fan"], "wrong holder"),
    "expired": (["--audience", "domain:plant", "--at", "2100-01-01"], "expired"),
    "too early": (["--audience", "domain:plant", "--at", "2000-01-01T00:00+01:00"], "not yet valid"),
}


@pytest.mark.parametrize("title", REFUSED)
def test_refused(title: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, reason = REFUSED[title]
    assert said("verify", "pump.token", "--keys", "keys.json", *arguments) == 3
    assert f"refused: {reason}: " in capsys.readouterr().err


def test_each_signature_has_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("key", "--node", "b3", "--out", "b3.pem") == 0  # not into the key set
    for node in ("b2", "b3"):
        assert said("sign", "pump.token", "--node", node, "--key", f"{node}.pem", "--out", "pump.token") == 0
    assert said("key", f"--retire={key_id('b2')}", "--keys", "keys.json") == 0
    capsys.readouterr()
    assert said(*VERIFY, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["accepted"] is True
    assert [(signature["node"], signature["reason"]) for signature in result["signatures"]] == [
        ("b1", None),
        ("b2", "key not in use"),
        ("b3", "unknown key"),
    ]


def changed(file: str, **changes: Any) -> None:
    outer = json.loads(Path(file).read_bytes())
    Path(file).write_text(json.dumps({**outer, **changes}))


def test_a_forged_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(*ISSUE[:-1], "t-2", "--publish", "#", "--out", "other.token") == 0
    changed("pump.token", payload=json.loads(Path("other.token").read_bytes())["payload"])
    assert said(*VERIFY, "--json") == 3
    shown = capsys.readouterr()
    assert json.loads(shown.out)["reason"] == "bad signature"
    assert "refused: bad signature: of `b1`" in shown.err


@pytest.mark.parametrize("what", ["--token", "--id", "--key"])
def test_revoked(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    value = {"--token": "pump.token", "--id": "t-1", "--key": key_id("b1")}[what]
    assert said("revoke", "revoked", f"{what}={value}") == 0
    assert said(*VERIFY, "--revoked", "revoked") == 3
    assert "refused: revoked: " in capsys.readouterr().err
    assert said("revoke", "revoked", f"{what}={value}") == 0
    assert "already" in capsys.readouterr().err
    assert len(Revoked.read("revoked").tokens | Revoked.read("revoked").keys) == 1


def test_rotation(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("key", "--node", "b1", "--out", "b1-new.pem", "--keys", "keys.json") == 0
    new = [word if word != "b1.pem" else "b1-new.pem" for word in ISSUE]
    assert said(*new, "--out", "new.token") == 0
    assert said("key", f"--retire={key_id('b1')}", "--keys", "keys.json", "--at", "2100-01-01") == 0
    later = ["--keys", "keys.json", "--audience", "domain:plant"]
    assert said("verify", "pump.token", *later) == said("verify", "new.token", *later) == 0
    assert said("key", f"--retire={key_id('b1')}", "--keys", "keys.json") == 0
    assert said("verify", "pump.token", *later) == 3
    assert said("verify", "new.token", *later) == 0


WRONG: dict[str, tuple[list[str], int, str]] = {
    "no command": ([], 2, "key|issue"),
    "a command that there is not": (["mint"], 2, "invalid choice"),
    "no such token": (["inspect", "none"], 1, "cannot read `none`"),
    "a folder": (["inspect", "."], 1, "cannot read `.`"),
    "not a token": (["inspect", "keys.json"], 3, "refused: malformed"),
    "oversized": (["inspect", "big"], 3, "refused: oversized"),
    "no such key": ([*ISSUE[:4], "none.pem", *ISSUE[5:]], 1, "cannot read `none.pem`"),
    "no such key set": (["verify", "pump.token", "--keys", "none", "--audience", "domain:a"], 1, "cannot read `none`"),
    "no such list": ([*VERIFY, "--revoked", "none"], 1, "cannot read `none`"),
    "a key set that is none": (["verify", "pump.token", "--keys", "big", "--audience", "domain:a"], 1, "big: "),
    "a key is not written over": (["key", "--node", "b1", "--out", "b1.pem"], 1, "cannot write `b1.pem`"),
    "a key that is listed": (["key", "--node", "b1", "--of", "b1.pem", "--keys", "keys.json"], 2, "there twice"),
    "a key for nobody": (["key", "--out", "new.pem"], 2, "go with --node"),
    "a key for what is no node": (["key", "--node", "b/1", "--out", "new.pem"], 2, "node name"),
    "retired nowhere": (["key", "--retire", "x"], 2, "--retire goes with --keys"),
    "retired and not there": (["key", "--retire", "x", "--keys", "keys.json"], 2, "unknown key"),
    "signed twice": (["sign", "pump.token", "--node", "b1", "--key", "b1.pem"], 3, "two signatures of one node"),
    "a filter that is none": ([*ISSUE, "--publish", "a/#/b"], 2, "malformed"),
    "a node that publishes": ([*ISSUE, "--subject", "node:b2"], 2, "may not publish"),
    "a party of no kind": ([*ISSUE, "--subject", "pump"], 2, "expected `client:NAME`"),
    "a duration that is none": ([*ISSUE, "--for", "soon"], 2, "expected"),
    "no duration": ([*ISSUE, "--for", "0s"], 2, "a second or more"),
    "for too long": ([*ISSUE, "--for", "99999999d"], 2, "it would end after the year 9999"),
    "a time that is none": ([*VERIFY, "--at", "soon"], 2, "is not a time"),
    "a time before 1970": ([*VERIFY, "--at", "1960-01-01"], 2, "is not a time"),
    "an id that is none": (["revoke", "revoked", "--id", "a b"], 2, "token id"),
    "a key id that is none": (["revoke", "revoked", "--key", "zz"], 2, "key id `zz`: expected 43"),
    "two to revoke": (["revoke", "revoked", "--id", "a", "--key", "b" * 43], 2, "not allowed with"),
    "nowhere to write": ([*ISSUE, "--out", "none/pump.token"], 1, "cannot write"),
}


@pytest.mark.parametrize("title", WRONG)
def test_mistakes(title: str, plant: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, code, words = WRONG[title]
    (plant / "big").write_bytes(b" " * (MAX_BYTES + 1))
    before = sorted(os.listdir())
    assert said(*arguments) == code
    assert words in capsys.readouterr().err
    assert sorted(os.listdir()) == before


def test_as_a_command_of_penstock() -> None:
    code, out, err = run(penstock("token", *VERIFY))
    assert (code, err) == (0, "")
    assert "good" in out
