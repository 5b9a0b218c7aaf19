"""Trust groups in the domain file: members that share a secret, and clients the domain vouches for."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from penstock.domain.schema.base import Name, OneOrMany, OptionalReadFile, Settings, matching
from penstock.domain.units import Seconds, mistake
from penstock.model.errors import PenstockError

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

    file: OptionalReadFile = Field(default=None, description="file with the secret; blanks around it do not count")
    env: Variable | None = Field(default=None, description="environment variable with the secret")

    @model_validator(mode="after")
    def _one_place(self) -> GroupSecret:
        if (self.file is None) == (self.env is None):
            raise mistake("either `file` or `env`")
        return self

    def read(self, environ: Mapping[str, str] = os.environ) -> bytes:
        """Read the secret; raise `SecretError`."""
        if self.env is not None:
            where, content = f"environment variable `{self.env}`", os.fsencode(environ.get(self.env, ""))
        else:
            assert self.file is not None
            where = f"file `{self.file}`"
            try:
                content = self.file.read_bytes()
            except OSError as error:
                raise SecretError(f"{where} cannot be read: {error.strerror}") from None
        secret = content.strip()
        if not secret:
            raise SecretError(f"{where} has no secret in it")
        if len(secret) < MIN_BYTES:
            raise SecretError(f"{where} has a secret that is shorter than {MIN_BYTES} bytes")
        return secret


def _not_itself(value: object) -> object:
    if not isinstance(value, dict | GroupSecret):
        raise mistake("a mapping with `file` or `env`: a secret does not stand in this file")
    return value


class TrustGroupSettings(Settings):
    """Nodes and clients that trust each other."""

    secret: Annotated[GroupSecret, BeforeValidator(_not_itself)] = Field(
        description="where its nodes read the secret that they share with its clients"
    )
    nodes: Annotated[tuple[Name, ...], OneOrMany()] = Field(
        default=(), description="nodes that are members: they hold the secret, prove it and ask for proofs of it"
    )
    clients: Annotated[tuple[Name, ...], OneOrMany()] = Field(
        default=(), description="clients that count as members without a proof: the domain vouches for them"
    )
    expiry: Seconds = Field(
        default=600.0, ge=4, le=86400 * 365, description="seconds for which a proof counts; it is renewed before"
    )


class TrustGroup(NamedTuple):
    """A trust group as an engine knows it; without its secret."""

    name: str
    nodes: frozenset[str]
    clients: frozenset[str]
    """Names of clients for whom the domain vouches."""
    expiry: float
