"""What a domain says about policy statements: the policies, what they are given to, and who may set others."""

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
from penstock.language.statements.printer import show_statement
from penstock.language.statements.statement import Message, Statement
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


def _known(said: str | Statement) -> Statement:
    """A statement whose elements are known here, and are called as they can be; raises if it is not one."""
    return (make_policy(said) if isinstance(said, str) else compile_statement(said)).statement


_POLICY_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}, {"type": "object"}]}
PolicyForm = Annotated[Statement, Written(_parse_policy, show_statement, _POLICY_SCHEMA)]


def _parse_choice(value: object) -> str | Statement:
    return value if isinstance(value, str) and re.match(NAME, value) else _parse_policy(value)


def _show_choice(value: str | Statement) -> object:
    return value if isinstance(value, str) else show_statement(value)


PolicyChoice = Annotated[str | Statement, Written(_parse_choice, _show_choice, _POLICY_SCHEMA)]
"""The name of a policy of `statements`, or a policy itself."""


class PolicyFile(Settings):
    """A policy that stands in a file of its own."""

    name: Name = Field(description="name of the policy")
    file: Annotated[Path, FileRole.READ] = Field(
        description="file with a policy statement: as text, or as XML (`.xml`)"
    )

    def read(self) -> Statement:
        """What the file says; raises `PolicyError`."""
        try:
            data = self.file.read_bytes()
            return _known(from_xml(data) if self.file.suffix == ".xml" else data.decode())
        except (OSError, UnicodeDecodeError, StatementError, PolicyError) as error:
            raise PolicyError(f"`{self.file}`: {error}") from None


class ApplySettings(Settings):
    """What a policy is given to."""

    policy: Name = Field(description="name of the policy")
    to: Literal["publication", "subscription", "advertisement"] = Field(
        description="what it is given to: `publication` attaches it to each, `subscription` and `advertisement`"
        " associate it with these"
    )
    of: Annotated[tuple[str, ...], OneOrMany("a client or a list of clients")] = Field(
        default=(), description="the clients whose messages these are, or `*` for any"
    )
    at: Annotated[tuple[Name, ...], OneOrMany("a node or a list of nodes")] = Field(
        default=(), description="in place of `of`: nodes that advertise this themselves"
    )
    filter: TopicFilter = Field(default="#", description="topic filter of the publications that it is about")
    where: ConditionText | None = Field(
        default=None, description="condition on the content of these publications; unset: any content"
    )

    @model_validator(mode="after")
    def _somebody(self) -> ApplySettings:
        if bool(self.of) is bool(self.at):
            raise mistake("either `of`, clients, or `at`, nodes", "at" if self.of else "of")
        if self.at and self.to != "advertisement":
            raise mistake("`of`: only advertisements can be a node's own", "at")
        return self


class GrantSettings(Settings):
    """Who may set policies, and with which elements."""

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


class StatementSettings(Settings):
    """Policy statements: what is done with messages where and when they match."""

    policies: dict[Name, PolicyForm] = Field(
        default={}, description="policies by name: text of the statement language, or its form as YAML"
    )
    files: tuple[PolicyFile, ...] = Field(default=(), description="policies that stand in files of their own")
    apply: tuple[ApplySettings, ...] = Field(default=(), description="what policies are given to, in this order")
    grants: tuple[GrantSettings, ...] = Field(
        default=(), description="what policies clients may set themselves; unset: none"
    )

    def statements(self) -> Iterator[tuple[str, tuple[str | int, ...], Statement | PolicyError]]:
        """Each policy: its name, where it stands, and what it says."""
        for name, statement in self.policies.items():
            yield name, ("policies", name), statement
        for index, one in enumerate(self.files):
            try:
                yield one.name, ("files", index), one.read()
            except PolicyError as error:
                yield one.name, ("files", index), error

    def compiled(self) -> Statements:
        """All that is said here, ready to be used; raises `PolicyError`, `StatementError` or `ConditionError`."""
        known: dict[str, Statement] = {}
        for name, _, said in self.statements():
            if isinstance(said, PolicyError):
                raise said
            known[name] = said
        return Statements(
            tuple(_given(one, known) for one in self.apply),
            tuple(
                SettingGrant(
                    None if EVERYBODY in one.to else frozenset(one.to),
                    frozenset(Message(carrier.capitalize()) for carrier in one.set),
                    None if EVERYBODY in one.elements else frozenset(one.elements),
                )
                for one in self.grants
            ),
        )


def _given(one: ApplySettings, known: dict[str, Statement]) -> AssignedPolicy:
    carrier = Message(one.to.capitalize())
    policy = policy_on(compile_statement(known[one.policy]), carrier)
    clients = None if EVERYBODY in one.of else frozenset(one.of)
    condition = None if one.where is None else one.where.compiled(ANYTHING)
    return AssignedPolicy(one.policy, policy, carrier, clients, frozenset(one.at), one.filter, condition)


def problem_of(one: ApplySettings, statement: Statement) -> str:
    """Why a policy cannot be given to this; empty if it can."""
    try:
        _given(one, {one.policy: statement})
    except (PolicyError, StatementError, ConditionError) as error:
        return str(error)
    return ""
