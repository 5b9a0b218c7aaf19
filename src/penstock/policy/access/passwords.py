"""Password files in Mosquitto's format, read as they are and written alike.

A line is `user:hash`. Two hashes are known: `$7$iterations$salt$hash` is PBKDF2 over SHA-512, which Mosquitto
2 writes; `$6$salt$hash` is one round of SHA-512 over password and salt, which Mosquitto 1.6 wrote. Salt and
hash are in base64; Mosquitto 2.0 takes 12 bytes of salt and 64 of hash. Blank lines and those that begin with
`#` are comments, and stay when the file is changed.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from penstock.model.errors import PolicyError
from penstock.policy.access.textfile import located, read_lines, replace_file

DEFAULT_ITERATIONS = 101
"""The default of `mosquitto_passwd`."""

_SALT_BYTES = 12
_HASH_BYTES = hashlib.sha512().digest_size
_MAX_ITERATIONS = 2**31 - 1  # OpenSSL counts in a C int
_MAX_NAME_BYTES = 65535  # an MQTT string cannot be longer


@dataclass(frozen=True)
class PasswordHash:
    """A salted hash of one password; `iterations` is 0 for the old single round (`$6$`)."""

    iterations: int
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.iterations <= _MAX_ITERATIONS:
            raise PolicyError(f"`{self.iterations}` iterations: expected 1 to {_MAX_ITERATIONS}")
        if not self.salt or len(self.digest) != _HASH_BYTES:
            raise PolicyError(f"expected a salt and a hash of {_HASH_BYTES} bytes")

    @classmethod
    def of(cls, password: bytes, iterations: int) -> "PasswordHash":
        """Hash `password` with a fresh salt."""
        salt = secrets.token_bytes(_SALT_BYTES)
        return cls(iterations, salt, _digest(password, salt, iterations))

    @classmethod
    def parse(cls, text: str) -> "PasswordHash":
        """Read `$7$...` or `$6$...`; raises PolicyError, whose message does not repeat the hash."""
        match text.split("$"):
            case ["", "7", iterations, salt, digest] if iterations.isascii() and iterations.isdigit():
                count = int(iterations) if len(iterations) < 12 else _MAX_ITERATIONS + 1
                if count == 0:
                    raise PolicyError("`0` iterations: expected 1 or more")
                return cls(count, _unbase64(salt), _unbase64(digest))
            case ["", "6", salt, digest]:
                return cls(0, _unbase64(salt), _unbase64(digest))
        raise PolicyError("expected a password hash `$7$iterations$salt$hash` or `$6$salt$hash`")

    def __str__(self) -> str:
        salt, digest = (base64.b64encode(part).decode("ascii") for part in (self.salt, self.digest))
        return f"$7${self.iterations}${salt}${digest}" if self.iterations else f"$6${salt}${digest}"

    def matches(self, password: bytes) -> bool:
        """Return whether this is the hash of `password`, compared in constant time."""
        return hmac.compare_digest(_digest(password, self.salt, self.iterations), self.digest)


@dataclass(frozen=True)
class Passwords:
    """The password hashes of the users who may connect."""

    hashes: Mapping[str, PasswordHash]
    _decoy: PasswordHash = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hashes", MappingProxyType(dict(self.hashes)))
        # An unknown user must take as long as a known one, so that the time does not tell which names exist.
        iterations = max((known.iterations for known in self.hashes.values()), default=DEFAULT_ITERATIONS)
        object.__setattr__(self, "_decoy", PasswordHash.of(secrets.token_bytes(16), iterations))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Passwords":
        """Read a password file; raises PolicyError naming the file and the line."""
        hashes: dict[str, PasswordHash] = {}
        for number, line in enumerate(read_lines(path), start=1):
            with located(path, number):
                if entry := _split(line):
                    user, text = entry
                    if user in hashes:
                        raise PolicyError(f"user `{user}` is already in the file")
                    hashes[user] = PasswordHash.parse(text)
        return cls(hashes)

    def check(self, user: str, password: bytes) -> bool:
        """Return whether `password` is `user`'s; an unknown user costs a hash too."""
        known = self.hashes.get(user)
        matched = (known or self._decoy).matches(password)
        return matched and known is not None and password != b""  # a user without a password cannot log in


def hash_password(password: bytes, iterations: int = DEFAULT_ITERATIONS) -> str:
    """Hash a password as Mosquitto 2 writes it: `$7$iterations$salt$hash`."""
    if iterations < 1:
        raise PolicyError(f"`{iterations}` iterations: expected 1 or more")
    return str(PasswordHash.of(password, iterations))


def hash_password_sha512(password: bytes) -> str:
    """Hash a password as Mosquitto 1.6 wrote it: `$6$salt$hash`. Weaker; only for brokers that old."""
    return str(PasswordHash.of(password, 0))


def create_file(path: str | os.PathLike[str], user: str, hashed: str) -> None:
    """Write a file with this one user, replacing the file if there is one."""
    _replace(path, [_entry(user, hashed)])


def set_user(path: str | os.PathLike[str], user: str, hashed: str) -> bool:
    """Give `user` a new password hash in an existing file; True if the user is new there."""
    entry = _entry(user, hashed)
    lines = _checked_lines(path)
    places = [index for index, line in enumerate(lines) if _is_entry_of(line, user)]
    if places:
        lines[places[0]] = entry
    else:
        lines.append(entry)
    _replace(path, lines)
    return not places


def delete_user(path: str | os.PathLike[str], user: str) -> bool:
    """Take `user` out of an existing file; False, and the file untouched, if the user is not in it."""
    lines = _checked_lines(path)
    kept = [line for line in lines if not _is_entry_of(line, user)]
    if len(kept) == len(lines):
        return False
    _replace(path, kept)
    return True


def upgrade_file(path: str | os.PathLike[str], hasher: Callable[[bytes], str] = hash_password) -> int:
    """Hash every password of a plain-text file; returns how many.

    What is already a hash is refused: it would be hashed again, and nobody could connect with it.
    """
    lines = read_lines(path)
    upgraded = 0
    for index, line in enumerate(lines):
        with located(path, index + 1):
            if entry := _split(line):
                user, password = entry
                if password.startswith(("$6$", "$7$")):
                    raise PolicyError(f"the password of user `{user}` is hashed already")
                lines[index] = _entry(user, hasher(password.encode()))
                upgraded += 1
    _replace(path, lines)
    return upgraded


def _digest(password: bytes, salt: bytes, iterations: int) -> bytes:
    if iterations:
        return hashlib.pbkdf2_hmac("sha512", password, salt, iterations, _HASH_BYTES)
    return hashlib.sha512(password + salt).digest()


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise PolicyError("the salt or the hash is not in base64") from None


def _entry(user: str, hashed: str) -> str:
    if not user or any(c in user for c in ":\r\n\0") or user.startswith("#"):
        raise PolicyError(f"user name `{user}` cannot be empty, begin with `#` or contain `:` or a line end")
    if len(user.encode()) > _MAX_NAME_BYTES:
        raise PolicyError(f"a user name cannot be longer than {_MAX_NAME_BYTES} bytes")
    return f"{user}:{hashed}"


def _split(line: str) -> tuple[str, str] | None:
    """Return the user and the rest of one line; None for a comment or a blank line."""
    if not line.strip() or line.startswith("#"):
        return None
    user, colon, rest = line.partition(":")
    if not user or not colon or not rest:
        raise PolicyError(f"expected `user:hash`, found `{user}`")
    return user, rest


def _is_entry_of(line: str, user: str) -> bool:
    return not line.startswith("#") and line.partition(":")[0] == user


def _checked_lines(path: str | os.PathLike[str]) -> list[str]:
    Passwords.read(path)  # never edit a file that is something else
    return read_lines(path)


def _replace(path: str | os.PathLike[str], lines: list[str]) -> None:
    """Write the file whole or not at all, readable by its owner only."""
    replace_file(path, "".join(f"{line}\n" for line in lines), stat.S_IRUSR | stat.S_IWUSR)
