"""`penstock group`: keys, and secrets for them."""

import stat
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.domain.schema.trust import GroupSecret, SecretError


def test_a_secret_is_for_the_members_whose_keys_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    publics = {}
    for name in ("press", "office", "other"):
        assert main(["group", "key", str(tmp_path / f"{name}.key")]) == 0
        publics[name] = capsys.readouterr().out.strip()
        assert main(["group", "key", str(tmp_path / f"{name}.key")]) == 0  # the same again
        assert capsys.readouterr().out.strip() == publics[name]
    assert stat.S_IMODE((tmp_path / "press.key").stat().st_mode) == 0o600
    file = tmp_path / "inner.secret"
    assert main(["group", "secret", str(file), "--for", publics["press"], "--for", publics["office"]]) == 0
    secret = GroupSecret.model_validate({"file": str(file), "private_key": "{node}.key"})
    first = secret.read(node="press")
    assert secret.read(node="office") == first
    with pytest.raises(SecretError, match="is no member, or no longer"):
        secret.read(node="other")
    with pytest.raises(SecretError, match="cannot be read"):
        secret.read(node="nobody")
    assert main(["group", "secret", str(file), "--for", publics["press"]]) == 0
    assert secret.read(node="press") != first
    with pytest.raises(SecretError):
        secret.read(node="office")


def test_what_is_no_public_key_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["group", "secret", str(tmp_path / "s"), "--for", "nonsense"]) == 1
    assert "not a public key" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()
