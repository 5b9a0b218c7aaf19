"""Tokens and keys that do not count any more, as a file of lines: `token ID`, `key ID`.

Blank lines and those that begin with `#` are comments, and stay when the file is changed. A line that is not understood
makes the whole file unreadable: what somebody meant to revoke must not go on by a slip.
"""

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from penstock.model.errors import PolicyError
from penstock.policy.access.textfile import located, read_lines, replace_file
from penstock.policy.tokens.errors import show
from penstock.policy.tokens.keys import KeySet

_LINE = re.compile(r"(token|key)[ \t]+([A-Za-z0-9_-]{1,64})[ \t]*", re.ASCII)
_MODE = 0o644
_MAX_LETTERS = 64
CARRIED = "carried-"
"""The prefix of the id of a token that travels with events: made of one that a client has shown, it admits nobody."""


def carried_id(id: str) -> str:
    """Return the id of the token that travels with the events of a client that has shown the token of this id."""
    return f"{CARRIED}{id}"[:_MAX_LETTERS]


@dataclass(frozen=True)
class Revoked:
    """The ids of revoked tokens, and of revoked keys with all that they have signed."""

    tokens: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()

    def has(self, id: str) -> bool:
        """Return whether the token of an id is revoked, or the token that a carried token was made of."""
        if id in self.tokens:
            return True
        return id.startswith(CARRIED) and id in self._carried

    @cached_property
    def _carried(self) -> frozenset[str]:
        return frozenset(map(carried_id, self.tokens))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Revoked":
        """Read the file; raises `PolicyError` naming the file and the line."""
        ids: dict[str, set[str]] = {"token": set(), "key": set()}
        for number, line in enumerate(read_lines(path), start=1):
            with located(path, number):
                if line.strip() and not line.startswith("#"):
                    kind, id = _entry(line)
                    ids[kind].add(id)
        return cls(frozenset(ids["token"]), frozenset(ids["key"]))


NOTHING = Revoked()


def why_unused(node: str, key_id: str, keys: KeySet, revoked: Revoked, now: float) -> str:
    """Return why tokens that a node signs with its key count nowhere; empty if they do."""
    key = keys.find(node, key_id)
    if key_id in revoked.keys:
        why = "is revoked"
    elif key is None:
        why = "is not in the key set"
    elif key.is_in_use(now):
        return ""
    else:
        why = "is retired" if now >= key.not_before else "is not in use yet"
    return f"the key `{key_id}` that node `{node}` signs with {why}: no node accepts the tokens that it makes"


def revoke(path: str | os.PathLike[str], kind: str, id: str) -> bool:
    """Add `token ID` or `key ID` to the file, which is made if there is none; False if it is there already."""
    entry = f"{kind} {id}"
    _entry(entry)
    lines: list[str] = []
    if Path(path).exists():
        revoked = Revoked.read(path)  # never edit a file that is something else
        if id in (revoked.tokens if kind == "token" else revoked.keys):
            return False
        lines = read_lines(path)
    replace_file(path, "".join(f"{line}\n" for line in [*lines, entry]), _MODE)
    return True


def _entry(line: str) -> tuple[str, str]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise PolicyError(f"expected `token ID` or `key ID`, found `{show(line)}`")
    return match[1], match[2]
