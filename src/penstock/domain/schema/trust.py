"""Trust: ratings of neighbours by evidence, groups that share a secret, and steps of policy tests about both."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from penstock.domain.schema.base import Count, Name, OneOrMany, OptionalReadFile, Settings, TopicName, matching
from penstock.domain.schema.tokens import Filters
from penstock.domain.units import Seconds, mistake
from penstock.model.errors import PenstockError
from penstock.model.group_proof import MIN_SECONDS
from penstock.policy.trust import key_wrap
from penstock.policy.trust.rating import BY_PATHS, Evidence, Thresholds, Weights
from penstock.policy.trust.vectors import MAX_EDGES

Share = Annotated[float, Field(ge=0, le=1)]
_FUNCTION = r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"


class BeginSettings(Settings):
    """The evidence a node holds about a neighbour at the beginning."""

    of: Name = Field(description="the neighbour")
    by: Name = Field(description="the node that rates it")
    good: float = Field(0.0, ge=0, le=1e9, description="good evidence, r")
    bad: float = Field(0.0, ge=0, le=1e9, description="bad evidence, s: already weighed by `penalty`")


class EvidenceSettings(Settings):
    """The kinds of evidence that a node collects itself."""

    tokens: bool = Field(True, description="whether a token that is forged or malformed is bad evidence")
    monitors: bool = Field(
        True,
        description="whether monitors on the link give evidence: a suppressed event is bad, an unchanged one is good",
    )
    conform: bool = Field(
        True,
        description="whether events give evidence by conforming to the advertisements that the neighbour has forwarded",
    )
    contracts: bool = Field(
        True,
        description="whether events give evidence by keeping the quality that a contract guarantees on their topic",
    )
    evaluate: Annotated[str, matching(_FUNCTION, "`module:function`")] | None = Field(
        None,
        description="`module:function`, a function E of an interaction that returns true for good, false for bad, None"
        " for no evidence; the module is looked for beside the domain file, then as Python imports it",
    )


class FeedbackSettings(Settings):
    """Clients that may rate events, and how often."""

    from_: Annotated[tuple[Name | Literal["*"], ...], OneOrMany("the clients that may rate, or `*`")] = Field(
        alias="from", description="clients that may rate what they have received; `*`: any"
    )
    most: Count = Field(10, ge=1, description="ratings of one client about one neighbour in a `period`")
    least: Count = Field(
        2,
        ge=1,
        description="clients that must have called something of a neighbour bad within a `period` for it to count: one"
        " alone cannot bring it down",
    )
    period: Seconds = Field(60.0, ge=1, le=86400 * 366, description="seconds of that period")
    history: Count = Field(1000, ge=1, le=1_000_000, description="latest events of each neighbour that can be rated")


class NodeTrust(Settings):
    """A node's own thresholds in place of the domain's."""

    accept: Share | None = Field(
        None,
        description="rating of a path from which a token is accepted here, θ; at most `trust.sign`; unset: as"
        " elsewhere",
    )
    signers: Count | None = Field(
        None, ge=1, le=64, description="signers whose paths must be trusted here, k; unset: as elsewhere"
    )

    @model_validator(mode="after")
    def _says_something(self) -> NodeTrust:
        if self.accept is None and self.signers is None:
            raise mistake("one of `accept` and `signers`, or both")
        return self


class TrustSettings(Settings):
    """Ratings of neighbours, and thresholds to accept tokens by them."""

    rule: Literal["strict", "introducer", "path"] = Field(
        "strict",
        description="`introducer`: a neighbour rated at least `sign` has signed the token, whoever sends it; `strict`:"
        " that, and the neighbour that sends it is rated at least `sign`; `path`: from as many signers as `signers`"
        " says, the least trustworthy path is rated at least `accept`",
    )
    sign: Share = Field(0.5, description="rating of a neighbour from which a node signs what it sends, π")
    accept: Share | None = Field(
        None, description="rating of a path from which a token is accepted, θ; unset: as `sign`"
    )
    signers: Count = Field(
        1,
        ge=1,
        le=64,
        description="signers whose paths must be trusted, k; all nodes on the shortest way, where that has fewer",
    )
    penalty: Count = Field(3, ge=2, le=1000, description="weight of one bad event, μ")
    base_rate: Share = Field(0.5, description="rating of a neighbour without evidence")
    half_life: Seconds | None = Field(
        None, gt=0, le=86400 * 3660, description="seconds after which evidence counts half; unset: it never ages"
    )
    begin: tuple[BeginSettings, ...] = Field(
        (), description="evidence that nodes begin with; unset: none, so that ratings begin with `base_rate`"
    )
    evidence: EvidenceSettings = Field(EvidenceSettings(), description="evidence that nodes collect themselves")
    feedback: FeedbackSettings | None = Field(None, description="clients that may rate what they receive; unset: none")
    operators: Annotated[tuple[Name, ...], OneOrMany()] = Field(
        (), description="clients that may set the evidence that a node holds, with `penstock trust apply`"
    )
    interval: Seconds = Field(1.0, ge=0.05, le=3600, description="seconds between two vectors to a neighbour at least")
    longest: Count | None = Field(
        None,
        ge=1,
        le=1000,
        description="edges of the longest path looked at; unset: 6. Signers further away do not count",
    )

    @model_validator(mode="after")
    def _accepts_no_more_than_it_signs(self) -> TrustSettings:
        if self.accept is not None and self.accept > self.sign:
            raise mistake(f"at most `sign`, which is {self.sign}", "accept")
        if self.signers > self.most_signers:
            raise mistake(self.too_many_signers, "signers")
        return self

    @property
    def most_signers(self) -> int:
        """The most signers that the rule counts: those from which it looks at paths."""
        return (self.longest or MAX_EDGES) if self.rule in BY_PATHS else 1

    @property
    def too_many_signers(self) -> str:
        """What is expected where more are asked for."""
        if self.rule not in BY_PATHS:
            return f"1: the rule `{self.rule}` does not count signers"
        return f"at most {self.most_signers}: paths of more edges are not looked at (`trust.longest`)"

    @property
    def weights(self) -> Weights:
        return Weights(self.penalty, self.base_rate, self.half_life)

    def thresholds(self, own: NodeTrust | None) -> Thresholds:
        """Return the thresholds of a node, given its own settings."""
        accept, signers = (None, None) if own is None else (own.accept, own.signers)
        return Thresholds(self.sign, self.accept if accept is None else accept, signers or self.signers)

    def begins(self, by: str, of: str, now: float = 0.0) -> Evidence:
        """Return the evidence a node holds about a neighbour at the beginning."""
        settings = [begin for begin in self.begin if (begin.by, begin.of) == (by, of)]
        return Evidence(sum(begin.good for begin in settings), sum(begin.bad for begin in settings), now)


# ---------------------------------------------------------------- trust groups

MIN_BYTES = 16
"""Anybody who has seen one proof could guess a shorter secret."""

_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_AN_OVERRIDE = re.compile(r"PENSTOCK_.*__", re.ASCII)


class SecretError(PenstockError):
    """The secret cannot be read. The message says where it should be, and never contains the secret."""


def _not_an_override(value: str) -> str:
    if _AN_OVERRIDE.match(value):
        raise mistake("a variable without `PENSTOCK_` and `__` in its name: those set values of this file")
    return value


Variable = Annotated[
    str,
    matching(_VARIABLE, "the name of an environment variable: letters, digits and `_`"),
    AfterValidator(_not_an_override),
    WithJsonSchema({"type": "string", "pattern": _VARIABLE}),
]


class GroupSecret(Settings):
    """The place from which the nodes of a group read its secret; the secret itself never stands in a domain file."""

    file: OptionalReadFile = Field(None, description="file with the secret; blanks around it do not count")
    env: Variable | None = Field(None, description="environment variable with the secret")
    private_key: str | None = Field(
        None,
        description="file with the private key of a node, for which the secret is encrypted; `{node}` is its name",
    )

    @model_validator(mode="after")
    def _one_place(self) -> GroupSecret:
        if (self.file is None) == (self.env is None):
            raise mistake("either `file` or `env`")
        return self

    def read(self, environ: Mapping[str, str] = os.environ, node: str = "") -> bytes:
        """Read the secret, as a node; raise `SecretError`."""
        if self.env is not None:
            where, content = f"environment variable `{self.env}`", os.fsencode(environ.get(self.env, ""))
        else:
            assert self.file is not None
            where = f"file `{self.file}`"
            try:
                content = self.file.read_bytes()
            except OSError as error:
                raise SecretError(f"{where} cannot be read: {error.strerror}") from None
        secret = content.strip() if self.private_key is None else self._opened(content, where, node)
        if not secret:
            raise SecretError(f"{where} has no secret in it")
        if len(secret) < MIN_BYTES:
            raise SecretError(f"{where} has a secret that is shorter than {MIN_BYTES} bytes")
        return secret

    def _opened(self, content: bytes, where: str, node: str) -> bytes:
        assert self.private_key is not None
        base = self.file.parent if self.file is not None else Path()
        key = base / self.private_key.replace("{node}", node)
        try:
            return key_wrap.open_secret(content, key_wrap.read_private_key(key.read_bytes()))
        except OSError as error:
            raise SecretError(f"private key `{key}` cannot be read: {error.strerror}") from None
        except key_wrap.KeyWrapError as error:
            raise SecretError(f"{where}: {error}") from None


def _not_itself(value: object) -> object:
    if not isinstance(value, dict | GroupSecret):
        raise mistake("a mapping with `file` or `env`: a secret does not stand in this file")
    return value


def _not_too_short(value: float) -> float:
    if 0 < value < MIN_SECONDS:
        raise mistake(f"0 or at least {MIN_SECONDS:g}")
    return value


class TrustGroupSettings(Settings):
    """Nodes and clients that trust each other."""

    secret: Annotated[GroupSecret, BeforeValidator(_not_itself)] = Field(
        description="where its nodes read the secret that they share with its clients"
    )
    earlier: Annotated[tuple[GroupSecret, ...], OneOrMany()] = Field(
        (), description="secrets of before: what was encrypted with them can still be decrypted; nothing else counts"
    )
    nodes: Annotated[tuple[Name, ...], OneOrMany()] = Field(
        (), description="nodes that are members: they hold the secret, prove it and ask for proofs of it"
    )
    clients: Annotated[tuple[Name, ...], OneOrMany()] = Field(
        (), description="clients that count as members without a proof: the domain vouches for them"
    )
    expiry: Annotated[Seconds, AfterValidator(_not_too_short)] = Field(
        600.0,
        le=86400 * 365,
        description="seconds for which a proof counts, renewed before, at least 4; `0`: each publication proves itself",
    )


class TrustGroup(NamedTuple):
    """A trust group as an engine knows it; without its secret."""

    name: str
    nodes: frozenset[str]
    clients: frozenset[str]
    """Names of clients for whom the domain vouches."""
    expiry: float
    """Seconds; 0: each publication carries a proof of its own."""


# ---------------------------------------------------------------- steps of policy tests


class ShownToken(Settings):
    """A token of the client's node that the client shows in place of the granted one."""

    publish: Filters = Field((), description="filters of the topics that it lets the client publish to")
    subscribe: Filters = Field((), description="filters that cover what it lets the client subscribe to")


class RateStep(Settings):
    """A client's rating of a message that it got."""

    topic: TopicName = Field(description="topic of the message")
    payload: str | None = Field(None, description="its payload; unset: that of the last message on the topic")
    good: bool = Field(False, description="whether it is good")


class ExpectedRating(Settings):
    """An expected rating of a neighbour."""

    of: Name = Field(description="the neighbour")
    by: Name = Field(description="the node that rates it")
    at_least: Share | None = Field(None, description="lower bound of the rating; unset: none")
    at_most: Share | None = Field(None, description="upper bound of the rating; unset: none")

    @model_validator(mode="after")
    def _says_something(self) -> ExpectedRating:
        if self.at_least is None and self.at_most is None:
            raise mistake("one of `at_least` and `at_most`, or both")
        return self

    def is_met(self, rating: float) -> bool:
        return (self.at_least or 0.0) <= round(rating, 6) <= (1.0 if self.at_most is None else self.at_most)

    def __str__(self) -> str:
        bounds = (("at least", self.at_least), ("at most", self.at_most))
        return f"rated {' and '.join(f'{word} {limit:g}' for word, limit in bounds if limit is not None)}"
