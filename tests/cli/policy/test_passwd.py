import getpass
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.policy.passwd import main
from penstock.policy.access.passwords import Passwords
from tests.support.processes.mosquitto import program


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "passwords"


def admitted(file: Path, *pairs: tuple[str, bytes]) -> list[bool]:
    passwords = Passwords.read(file)
    return [passwords.check(*pair) for pair in pairs]


def type_in(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    typed: Iterator[str] = iter(answers)
    monkeypatch.setattr(getpass, "getpass", lambda prompt: next(typed))


def test_creates_updates_and_deletes(file: Path) -> None:
    assert main(["-c", "-b", str(file), "ann", "one"]) == 0
    assert main(["-b", str(file), "bob", "two"]) == 0
    assert main(["-b", str(file), "ann", "three"]) == 0
    assert admitted(file, ("ann", b"one"), ("ann", b"three"), ("bob", b"two")) == [False, True, True]
    assert main(["-D", str(file), "ann"]) == 0
    assert admitted(file, ("ann", b"three"), ("bob", b"two")) == [False, True]
    assert main(["-c", "-b", str(file), "cem", "x"]) == 0
    assert admitted(file, ("bob", b"two"), ("cem", b"x")) == [False, True]


def test_changes_a_file_that_mosquitto_passwd_made_and_it_changes_ours(file: Path) -> None:
    theirs = program("mosquitto_passwd")
    subprocess.run([theirs, "-c", "-b", file, "ann", "one"], check=True)
    assert main(["-b", str(file), "bob", "two"]) == 0
    subprocess.run([theirs, "-b", file, "cem", "three"], check=True)
    assert admitted(file, ("ann", b"one"), ("bob", b"two"), ("cem", b"three")) == [True] * 3


def test_hashes_a_plain_text_file(file: Path) -> None:
    file.write_text("ann:one\nbob:two\n")
    assert main(["-U", str(file)]) == 0
    assert admitted(file, ("ann", b"one"), ("bob", b"two")) == [True, True]


@pytest.mark.parametrize(
    ("arguments", "start"),
    [([], "ann:$7$101$"), (["-I", "5000"], "ann:$7$5000$"), (["-H", "sha512"], "ann:$6$")],
)
def test_hashes_as_told(file: Path, arguments: list[str], start: str) -> None:
    assert main([*arguments, "-c", "-b", str(file), "ann", "one"]) == 0
    assert file.read_text().startswith(start)
    assert admitted(file, ("ann", b"one")) == [True]


def test_asks_for_the_password_twice(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(monkeypatch, "one", "one")
    assert main(["-c", str(file), "ann"]) == 0
    assert admitted(file, ("ann", b"one")) == [True]


@pytest.mark.parametrize(
    ("answers", "message"),
    [(["one", "two"], "the passwords do not match"), ([""], "the password is empty")],
)
def test_a_typing_error_changes_nothing(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: list[str],
    message: str,
) -> None:
    type_in(monkeypatch, *answers)
    assert main(["-c", str(file), "ann"]) == 1
    assert capsys.readouterr().err == f"Error: {message}\n"
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-b", "FILE", "ann", "x"], "Error: cannot read `FILE`: No such file or directory\n"),
        (["-c", "-b", "FILE", "a:b", "x"], "Error: user name `a:b` cannot be empty, begin with `#` or contain `:`"),
        (["-c", "-b", "FILE/x", "ann", "x"], "Error: cannot write `FILE/x`: No such file or directory\n"),
    ],
)
def test_failures_are_one_line_and_exit_code_1(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main([word.replace("FILE", str(file)) for word in arguments]) == 1
    assert capsys.readouterr().err.replace(str(file), "FILE").startswith(message)


def test_deleting_nobody_is_exit_code_1_as_with_mosquitto_passwd(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["-c", "-b", str(file), "ann", "x"])
    theirs = subprocess.run([program("mosquitto_passwd"), "-D", file, "bob"], capture_output=True)
    assert main(["-D", str(file), "bob"]) == theirs.returncode == 1
    assert capsys.readouterr().err == f"Warning: user `bob` is not in `{file}`\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["f"],
        ["-b", "f", "ann"],
        ["f", "ann", "x"],
        ["-c", "-D", "f", "ann"],
        ["-U", "f", "ann"],
        ["-D", "-b", "f", "ann", "x"],
        ["-I", "0", "f", "ann"],
        ["-H", "md5", "f", "ann"],
    ],
)
def test_bad_command_lines_are_exit_code_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
