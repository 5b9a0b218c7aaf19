import stat
import subprocess
from pathlib import Path

import pytest

from penstock.model.errors import PolicyError
from penstock.policy.access.passwords import (
    PasswordHash,
    Passwords,
    create_file,
    delete_user,
    hash_password,
    hash_password_sha512,
    set_user,
    upgrade_file,
)
from tests.support.processes.mosquitto import mosquitto, program

SALT = "zZYw+TPbNnyO9nYQ"
DIGEST = "zhVFVM5j01BuTUHXuUdLH2z2Ps5U6zj0oFN4qv6oOW1iDdHIasWtYNWBQ0S6yM3ObhxxvGxiyBeIL9B6yMyXzw=="


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "passwords"


def mosquitto_passwd(*arguments: str | Path) -> None:
    subprocess.run([program("mosquitto_passwd"), *map(str, arguments)], check=True, capture_output=True)


@pytest.mark.parametrize("algorithm", ["sha512", "sha512-pbkdf2"])
@pytest.mark.parametrize("password", ["secret", "", "zwölf %$: 🔑"])
def test_reads_what_mosquitto_passwd_writes(file: Path, algorithm: str, password: str) -> None:
    mosquitto_passwd("-H", algorithm, "-c", "-b", file, "ann", password)
    passwords = Passwords.read(file)
    assert passwords.check("ann", password.encode()) == (password != ""), "an empty password never opens anything"
    assert not passwords.check("ann", password.encode() + b"x")
    assert not passwords.check("bob", password.encode())


def test_takes_salt_and_hash_as_long_as_mosquitto_passwd_does(file: Path) -> None:
    mosquitto_passwd("-c", "-b", file, "ann", "secret")
    theirs = Passwords.read(file).hashes["ann"]
    ours = PasswordHash.parse(hash_password(b"secret"))
    assert (ours.iterations, len(ours.salt), len(ours.digest)) == (
        theirs.iterations,
        len(theirs.salt),
        len(theirs.digest),
    )


def test_mosquitto_admits_those_whose_passwords_we_wrote(file: Path) -> None:
    create_file(file, "ann", hash_password(b"one"))
    set_user(file, "bob", hash_password_sha512(b"two"))
    set_user(file, "cem", hash_password(b"three", 7))
    with mosquitto(f"password_file {file}") as broker:

        def publish(user: str, password: str) -> int:
            command = [program("mosquitto_pub"), "-h", "127.0.0.1", "-p", str(broker.port), "-t", "a", "-n"]
            return subprocess.run([*command, "-u", user, "-P", password], capture_output=True).returncode

        good = {"ann": "one", "bob": "two", "cem": "three"}
        assert {user: publish(user, password) for user, password in good.items()} == dict.fromkeys(good, 0)
        assert publish("ann", "two") != 0


def test_hashes_of_one_password_differ() -> None:
    assert hash_password(b"x") != hash_password(b"x")


@pytest.mark.parametrize("hashed", [hash_password(b"x"), hash_password_sha512(b"x"), hash_password(b"x", 1000)])
def test_prints_a_hash_as_it_read_it(hashed: str) -> None:
    assert str(PasswordHash.parse(hashed)) == hashed


def test_an_empty_file_admits_nobody(file: Path) -> None:
    file.touch()
    assert not Passwords.read(file).check("ann", b"")


def test_comments_and_blank_lines_are_not_users(file: Path) -> None:
    file.write_text(f"# bob:{hash_password(b'x')}\r\n\r\nann:{hash_password(b'x')}\r\n")
    passwords = Passwords.read(file)
    assert set(passwords.hashes) == {"ann"}
    assert passwords.check("ann", b"x")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ann", "expected `user:hash`, found `ann`"),
        (":hash", "expected `user:hash`, found ``"),
        ("ann:", "expected `user:hash`, found `ann`"),
        ("ann:secret", "expected a password hash `$7$iterations$salt$hash` or `$6$salt$hash`"),
        (f"ann:$5${SALT}${DIGEST}", "expected a password hash `$7$iterations$salt$hash` or `$6$salt$hash`"),
        (f"ann:$7$x${SALT}${DIGEST}", "expected a password hash `$7$iterations$salt$hash` or `$6$salt$hash`"),
        (f"ann:$7$0${SALT}${DIGEST}", "`0` iterations: expected 1 or more"),
        (
            f"ann:$7${'9' * 5000}${SALT}${DIGEST}",
            "`2147483648` iterations: expected 1 to 2147483647",
        ),
        (f"ann:$7$101${SALT}$AAAA", "expected a salt and a hash of 64 bytes"),
        (f"ann:$7$101$${DIGEST}", "expected a salt and a hash of 64 bytes"),
        (f"ann:$6$?${DIGEST}", "the salt or the hash is not in base64"),
        (f"bob:$6${SALT}${DIGEST}", "user `bob` is already in the file"),
    ],
)
def test_a_bad_line_is_named(file: Path, line: str, message: str) -> None:
    file.write_text(f"bob:{hash_password(b'x')}\n{line}\n")
    with pytest.raises(PolicyError) as caught:
        Passwords.read(file)
    assert str(caught.value) == f"{file}:2: {message}"


def test_a_file_that_cannot_be_read_is_named(file: Path) -> None:
    with pytest.raises(PolicyError, match=r"cannot read `.*passwords`: No such file or directory"):
        Passwords.read(file)
    file.write_bytes(b"\xff:x")
    with pytest.raises(PolicyError, match=r"`.*passwords` is not UTF-8 text"):
        Passwords.read(file)


def test_a_password_is_replaced_where_it_stands(file: Path) -> None:
    create_file(file, "ann", hash_password(b"old"))
    file.write_text("# ours\n" + file.read_text())
    assert set_user(file, "bob", hash_password(b"b"))
    assert not set_user(file, "ann", hash_password(b"new"))
    assert [line.partition(":")[0] for line in file.read_text().splitlines()] == ["# ours", "ann", "bob"]
    assert Passwords.read(file).check("ann", b"new")
    assert not Passwords.read(file).check("ann", b"old")


def test_a_user_is_deleted(file: Path) -> None:
    create_file(file, "ann", hash_password(b"a"))
    set_user(file, "bob", hash_password(b"b"))
    assert delete_user(file, "ann")
    assert not delete_user(file, "ann")
    assert set(Passwords.read(file).hashes) == {"bob"}


def test_a_plain_text_file_is_upgraded(file: Path) -> None:
    file.write_text("ann:secret\n# note\nbob:with:colon\n")
    assert upgrade_file(file) == 2
    passwords = Passwords.read(file)
    assert passwords.check("ann", b"secret")
    assert passwords.check("bob", b"with:colon")
    assert "# note" in file.read_text().splitlines()


def test_a_hash_is_not_hashed_again(file: Path) -> None:
    create_file(file, "ann", hash_password(b"a"))
    before = file.read_bytes()
    with pytest.raises(PolicyError, match=":1: the password of user `ann` is hashed already"):
        upgrade_file(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize("user", ["", "a:b", "a\nb", "#a"])
def test_a_name_that_the_file_cannot_hold_is_refused(file: Path, user: str) -> None:
    with pytest.raises(PolicyError, match="user name"):
        create_file(file, user, hash_password(b"x"))
    assert not file.exists()


def test_only_the_owner_may_read_the_file(file: Path) -> None:
    file.touch(mode=0o644)
    create_file(file, "ann", hash_password(b"a"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_nothing_else_is_left_beside_the_file(file: Path) -> None:
    create_file(file, "ann", hash_password(b"a"))
    set_user(file, "ann", hash_password(b"b"))
    assert [path.name for path in file.parent.iterdir()] == ["passwords"]


def test_a_symbolic_link_stays_one(file: Path) -> None:
    target = file.with_name("real")
    file.symlink_to(target)
    create_file(file, "ann", hash_password(b"a"))
    assert file.is_symlink()
    assert Passwords.read(target).check("ann", b"a")


def test_a_file_that_is_no_password_file_is_not_changed(file: Path) -> None:
    file.write_text("listener 1883\n")
    with pytest.raises(PolicyError, match=":1: expected `user:hash`"):
        set_user(file, "ann", hash_password(b"a"))
    assert file.read_text() == "listener 1883\n"
