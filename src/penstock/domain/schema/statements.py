"""Policy statements in the domain file: the policies, what they apply to, and grants to set others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from penstock.domain.schema.base import NAME, Name, OneOrMany, Settings, TopicFilter
from penstock.domain.schema.contents import ConditionText
from penstock.domain.units import Written, mistake
from penstock.domain.yaml.files import FileRole
from penstock.language.errors import ConditionError, StatementError
from penstock.language.statements.plain import from_plain
from penstock.language.statements.printer import show_head, show_statement
from penstock.language.statements.statement import Attach, Message, Point, Statement
from penstock.language.statements.xml import from_xml
from penstock.language.types import ANYTHING
from penstock.model.errors import PolicyError
from penstock.policy.statements.assignments import AssignedPolicy, SettingGrant, Statements
from penstock.policy.statements.statement import compile_statement, make_policy, policy_on

EVERYBODY = "*"
Carrier = Literal["publication", "subscription", "advertisement", "unsubscription", "unadvertisement"]


def _parse_policy(value: object) -> Statement:
    if isinstance(value, Statement):
        return value
    try:
        return _known(value if isinstance(value, str) else from_plain(value))
    except (StatementError, PolicyError) as error:
        raise PydanticCustomError("statement", "{what}", {"what": str(error)}) from None


def _known(written: str | Statement) -> Statement:
    """Return a statement whose elements are known and called correctly; raise if it is invalid."""
    return (make_policy(written) if isinstance(written, str) else compile_statement(written)).statement


_POLICY_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}, {"type": "object"}]}
PolicyForm = Annotated[Statement, Written(_parse_policy, show_statement, _POLICY_SCHEMA)]


def _parse_choice(value: object) -> str | Statement:
    return value if isinstance(value, str) and re.match(NAME, value) else _parse_policy(value)


def _show_choice(value: str | Statement) -> object:
    return value if isinstance(value, str) else show_statement(value)


PolicyChoice = Annotated[str | Statement, Written(_parse_choice, _show_choice, _POLICY_SCHEMA)]
"""The name of a policy of `statements`, or a policy itself."""


class PolicyFile(Settings):
    """A policy in a file of its own."""

    name: Name = Field(description="name of the policy")
    file: Annotated[Path, FileRole.READ] = Field(
        description="file with a policy statement: as text, or as XML (`.xml`)"
    )

    def read(self) -> Statement:
        """Read the file; raise `PolicyError`."""
        try:
            data = self.file.read_bytes()
            return _known(from_xml(data) if self.file.suffix == ".xml" else data.decode())
        except (OSError, UnicodeDecodeError, StatementError, PolicyError) as error:
            raise PolicyError(f"`{self.file}`: {error}") from None


class ApplySettings(Settings):
    """The messages that a policy applies to."""

    policy: Name = Field(description="name of the policy")
    to: Literal["publication", "subscription", "advertisement"] = Field(
        description="what it applies to: `publication` attaches it to each, `subscription` and `advertisement`"
        " associate it with these"
    )
    of: Annotated[tuple[str, ...], OneOrMany("a client or a list of clients")] = Field(
        (), description="the clients that send these messages, or `*` for any"
    )
    at: Annotated[tuple[Name, ...], OneOrMany("a node or a list of nodes")] = Field(
        (), description="in place of `of`: nodes that make the advertisement themselves"
    )
    filter: TopicFilter = Field("#", description="topic filter of the publications that it covers")
    where: ConditionText | None = Field(
        None, description="condition on the content of these publications; unset: any content"
    )

    @model_validator(mode="after")
    def _somebody(self) -> ApplySettings:
        if bool(self.of) is bool(self.at):
            raise mistake("either `of`, clients, or `at`, nodes", "at" if self.of else "of")
        if self.at and self.to != "advertisement":
            raise mistake("`of`: only advertisements can be a node's own", "at")
        return self


class PolicyGrantSettings(Settings):
    """A grant to set policies, with some elements."""

    to: Annotated[tuple[str, ...], OneOrMany("a client or a list of clients")] = Field(
        description="the clients that may, or `*` for any"
    )
    set: Annotated[tuple[Carrier, ...], OneOrMany("a kind of message, or a list")] = Field(
        description="the messages on which they may set policies: `publication`, `subscription`, `advertisement`,"
        " `unsubscription`, `unadvertisement`"
    )
    elements: Annotated[tuple[str, ...], OneOrMany("a rule element or a list")] = Field(
        description="the rule elements that these policies may use, or `*` for all"
    )
    others: Annotated[tuple[TopicFilter, ...], OneOrMany("a topic filter or a list")] = Field(
        (),
        description="topic filters: policies of advertisements within one of these concern what all clients publish and"
        " subscribe to; unset: policies of an advertisement concern only what its own client publishes",
    )


class StatementSettings(Settings):
    """Policy statements: what is done with messages where and when they match."""

    policies: dict[Name, PolicyForm] = Field(
        {}, description="policies by name: text of the statement language, or its form as YAML"
    )
    files: tuple[PolicyFile, ...] = Field((), description="policies in files of their own")
    apply: tuple[ApplySettings, ...] = Field((), description="messages that policies apply to, in this order")
    grants: tuple[PolicyGrantSettings, ...] = Field(
        (), description="grants to clients to set policies themselves; unset: none"
    )

    def statements(self) -> Iterator[tuple[str, tuple[str | int, ...], Statement | PolicyError]]:
        """Yield each policy: its name, its location, and the statement."""
        for name, statement in self.policies.items():
            yield name, ("policies", name), statement
        for index, file in enumerate(self.files):
            try:
                yield file.name, ("files", index), file.read()
            except PolicyError as error:
                yield file.name, ("files", index), error

    def compiled(self) -> Statements:
        """Compile all of it; raise `PolicyError`, `StatementError` or `ConditionError`."""
        by_name: dict[str, Statement] = {}
        for name, _, statement in self.statements():
            if isinstance(statement, PolicyError):
                raise statement
            by_name[name] = statement
        grants = (
            SettingGrant(_named(grant.to), frozenset(map(_carrier, grant.set)), _named(grant.elements), grant.others)
            for grant in self.grants
        )
        return Statements(tuple(_given(applied, by_name) for applied in self.apply), tuple(grants))


def _named(names: tuple[str, ...]) -> frozenset[str] | None:
    return None if EVERYBODY in names else frozenset(names)


def _carrier(name: str) -> Message:
    return Message(name.capitalize())


def _given(applied: ApplySettings, by_name: dict[str, Statement]) -> AssignedPolicy:
    carrier = _carrier(applied.to)
    policy = policy_on(compile_statement(by_name[applied.policy]), carrier)
    for rule in policy.statement.rules:
        is_routed = applied.to == "subscription" and rule.message is Message.PUBLICATION
        if is_routed and rule.attach is Attach.NEVER and rule.points == (Point.ROUTING,):
            raise StatementError(_AT_ITS_CLIENT, f"in `{show_head(rule)}`", rule.at)
    if applied.at and not any(map(policy.concerns, (Message.SUBSCRIPTION, Message.PUBLICATION))):
        raise PolicyError("an advertisement that a node makes itself goes nowhere, and is not taken back")
    condition = None if applied.where is None else applied.where.compiled(ANYTHING)
    where = _named(applied.of), frozenset(applied.at), applied.filter
    return AssignedPolicy(applied.policy, policy, carrier, *where, condition)


_AT_ITS_CLIENT = (
    "what the domain gives to a subscription is applied where its client is, and does not go on to another node from "
    "there; give it to the publication or the advertisement"
)


def problem_of(applied: ApplySettings, statement: Statement) -> str:
    """Return why a policy cannot be applied to this; empty if it can."""
    try:
        _given(applied, {applied.policy: statement})
    except (PolicyError, StatementError, ConditionError) as error:
        return str(error)
    return ""
