"""Mosquitto's access control file, read as it is.

    topic read weather/#              clients without a user name
    user ann
    topic readwrite home/ann/#        the user `ann`
    topic deny home/ann/diary
    pattern write sensor/%c/data      every client, with its client id (%c) or user name (%u) put in

What is not granted is denied. A client's `topic` rules speak first, then the patterns; among each, `deny`
speaks before what grants. So a `topic` that grants stands against a `pattern deny`, as in Mosquitto 2.

Mosquitto 2 grants every subscription and judges reading when a message is delivered. So it is here, but for a
subscription of which a `deny` leaves nothing to read: it is refused.

One more thing is stricter than in Mosquitto 2.0: a client id or user name with a `/` in it is never put into
a pattern that grants, because a client that chooses its own id would choose its place in the topic tree.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Literal, get_args

from penstock.model.errors import PolicyError, TopicError
from penstock.model.topic import covers, matches, overlaps, parse_filter
from penstock.model.topic_tree import FilterIndex, place_index
from penstock.policy.access.textfile import located, read_lines

Access = Literal["read", "write", "readwrite", "deny"]

_PLACEHOLDER = re.compile("%[cu]")
_FEW = 32
"""Rules that are tried one after the other; among more, a tree finds those that may match."""


@dataclass(frozen=True)
class AclRule:
    """One line of the file, with the placeholders of a pattern filled in.

    Where it stands does not take part in equality: two rules are equal if they do the same.
    """

    access: Access
    filter: str
    source: str = field(compare=False)

    def grants(self, access: Access) -> bool:
        """Return whether this rule grants `access`, to the topics its filter matches."""
        return self.access in (access, "readwrite")


@dataclass(frozen=True)
class Rights:
    """The rights of one client. Clients with the same rights have equal Rights, whatever lines gave them.

    An explanation cites the lines of the client that these Rights were made for: keep them with the client.
    """

    topics: tuple[AclRule, ...]
    patterns: tuple[AclRule, ...]
    otherwise: str = field(compare=False)
    """The reason why a topic without a matching rule is denied."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "topics", _ordered(self.topics))
        object.__setattr__(self, "patterns", _ordered(self.patterns))
        object.__setattr__(self, "_hash", hash((self.topics, self.patterns)))

    def __hash__(self) -> int:
        return self._hash

    def may_write(self, topic: str) -> bool:
        """Return whether the client may publish to `topic`."""
        return _permits(self.deciding(topic, "write"))

    def may_read(self, topic: str) -> bool:
        """Return whether a message of `topic` may be delivered to the client."""
        return _permits(self.deciding(topic, "read"))

    def may_subscribe(self, filter: str) -> bool:
        """Return whether the client may subscribe: always, unless a `deny` leaves nothing of it to read."""
        return self._closing_deny(filter) is None

    def why_write(self, topic: str) -> str:
        """Return the line and the reason of what `may_write` answers."""
        return self._explain(self.deciding(topic, "write"), f"write to `{topic}`")

    def why_read(self, topic: str) -> str:
        """Return the line and the reason of what `may_read` answers."""
        return self._explain(self.deciding(topic, "read"), f"read `{topic}`")

    def why_subscribe(self, filter: str) -> str:
        """Return the line and the reason of what `may_subscribe` answers."""
        rule = self._closing_deny(filter)
        if rule is None:
            return f"may subscribe to `{filter}`: what may be read is decided for each message"
        return f"may not subscribe to `{filter}`: nothing of it may be read, by {rule.source}"

    def deciding(self, topic: str, access: Access) -> AclRule | None:
        """Return the rule that decides; None if no rule matches, so that it is denied."""
        for rules, tree in ((self.topics, self._trees[0]), (self.patterns, self._trees[1])):
            for rule in rules if tree is None else (rules[place] for place in sorted(tree.match(topic))):
                if (rule.access == "deny" or rule.grants(access)) and matches(rule.filter, topic):
                    return rule
        return None

    @cached_property
    def _trees(self) -> tuple[FilterIndex[int] | None, FilterIndex[int] | None]:
        """Trees that find the rules for a topic; None where there are few rules."""
        topics, patterns = (
            place_index(rule.filter for rule in rules) if len(rules) > _FEW else None
            for rules in (self.topics, self.patterns)
        )
        return topics, patterns

    def _closing_deny(self, filter: str) -> AclRule | None:
        """Return the `deny` that leaves nothing to read of a subscription to `filter`, if there is one."""
        subscribed = parse_filter(filter).filter
        for rules in (self.topics, self.patterns):
            for rule in rules:
                if rule.access == "deny" and covers(rule.filter, subscribed):
                    return rule
                if rule.grants("read") and overlaps(rule.filter, subscribed):
                    return None
        return None

    def _explain(self, rule: AclRule | None, deed: str) -> str:
        if rule is None:
            return f"may not {deed}: {self.otherwise}"
        return f"{'may' if _permits(rule) else 'may not'} {deed}: by {rule.source}"


@dataclass(frozen=True)
class Acl:
    """A whole access control file."""

    path: str
    anonymous: tuple[AclRule, ...]
    users: Mapping[str, tuple[AclRule, ...]]
    patterns: tuple[AclRule, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", MappingProxyType(dict(self.users)))

    @property
    def counts_on_users(self) -> bool:
        """True if it grants something to some user names."""
        return bool(self.users) or any("%u" in rule.filter for rule in self.patterns)

    @classmethod
    def read(cls, path: str | os.PathLike[str], called: str | None = None) -> "Acl":
        """Read an access control file; raises PolicyError naming the file and the line.

        `called`: what explanations call the file, if not by its name; clients are told them, so not by its path.
        """
        name = os.path.basename(path) if called is None else called
        return cls._parsed(read_lines(path), name, path)

    @classmethod
    def parse(cls, text: str, name: str) -> "Acl":
        """Read the text of an access control file; raises PolicyError."""
        return cls._parsed(text.split("\n"), name, name)

    @classmethod
    def _parsed(cls, lines: list[str], name: str, path: str | os.PathLike[str]) -> "Acl":
        sections: dict[str | None, list[AclRule]] = {None: []}
        patterns: list[AclRule] = []
        user: str | None = None
        for number, line in enumerate(lines, start=1):
            with located(path, number):
                match _words(line):
                    case ["user", user_name]:
                        user = user_name
                        sections.setdefault(user, [])
                    case ["topic" | "pattern" as kind, right]:
                        rule = _rule(right, f"{name}:{number} `{line.strip()}`")
                        (sections[user] if kind == "topic" else patterns).append(rule)
                    case [keyword, *_]:
                        raise PolicyError(_expected(keyword))
        anonymous = tuple(sections.pop(None))
        users = {name: tuple(rules) for name, rules in sections.items() if name is not None}
        return cls(name, anonymous, users, tuple(patterns))

    def write_lines(self) -> str:
        """Return the text of an access control file that grants and denies the same to those who publish."""
        lines = [*_lines("topic", self.anonymous)]
        for user, rules in self.users.items():
            lines += [f"user {user}", *_lines("topic", rules)]
        return "\n".join((*lines, *_lines("pattern", self.patterns)))

    def rights(self, client_id: str, user: str | None) -> Rights:
        """Return the rights of a client; `user` is None, or empty as Mosquitto has it, if it gave no user name."""
        user = user or None
        topics = self.anonymous if user is None else self.users.get(user, ())
        who = "a client without a user name" if user is None else f"user `{user}`"
        otherwise = f"`{self.path}` grants it neither to {who} nor to client id `{client_id}` by a pattern"
        # A wildcard in a name would make a pattern match what belongs to others (CVE-2017-7650).
        if self.patterns and any(c in name for name in (client_id, user or "") for c in "+#"):
            return Rights(topics, (), f"{otherwise}; a name with `+` or `#` in it has no right by pattern")
        patterns = [filled for rule in self.patterns if (filled := _fill(rule, client_id, user))]
        return Rights(topics, tuple(patterns), otherwise)


def _ordered(rules: Iterable[AclRule]) -> tuple[AclRule, ...]:
    """Return the rules with `deny` first, then in an order that makes equal sets of rules equal."""
    return tuple(sorted(dict.fromkeys(rules), key=lambda rule: (rule.access != "deny", rule.filter, rule.access)))


def _lines(kind: str, rules: Iterable[AclRule]) -> list[str]:
    accesses = {"write": "write", "readwrite": "write", "deny": "deny"}
    return [f"{kind} {accesses[rule.access]} {rule.filter}" for rule in rules if rule.access in accesses]


def _permits(rule: AclRule | None) -> bool:
    return rule is not None and rule.access != "deny"


def _words(line: str) -> list[str]:
    """Return the keyword and the rest of a line, if it has them. Only spaces divide them, as in Mosquitto."""
    if line.startswith("#"):
        return []
    keyword, _, rest = line.rstrip().lstrip(" ").partition(" ")
    return [word for word in (keyword, rest.strip()) if word]


def _rule(right: str, source: str) -> AclRule:
    """Return the rule of `[read|write|readwrite|deny] FILTER`; a filter with a space in it needs the first word."""
    access, space, filter = right.partition(" ")
    if not space:
        access, filter = "readwrite", right
    if access not in get_args(Access):
        raise PolicyError(f"unknown access `{access}`: expected read, write, readwrite or deny")
    filter = filter.strip()
    try:
        parse_filter(filter)
    except TopicError as error:
        raise PolicyError(str(error)) from error
    return AclRule(access, filter, source)  # type: ignore[arg-type]  # checked above


def _expected(keyword: str) -> str:
    if keyword == "user":
        return "expected a user name after `user`"
    if keyword in ("topic", "pattern"):
        return f"expected a topic filter after `{keyword}`"
    return f"unknown keyword `{keyword}`: expected user, topic or pattern"


def _fill(rule: AclRule, client_id: str, user: str | None) -> AclRule | None:
    """Return the rule with the client's names filled in; None if it does not apply to the client."""
    names = {"%c": client_id, "%u": user}
    used = [names[placeholder] for placeholder in _PLACEHOLDER.findall(rule.filter)]
    if None in used or (rule.access != "deny" and any("/" in (name or "") for name in used)):
        return None
    filled = _PLACEHOLDER.sub(lambda placeholder: names[placeholder[0]] or "", rule.filter)
    try:
        parse_filter(filled)
    except TopicError:  # an empty name, where it is all of the filter
        return None
    return AclRule(rule.access, filled, rule.source)
