"""Rights to read and change nodes over their admin HTTP."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.domain.schema.base import Name, OptionalMadeFile, OptionalReadFile, Settings

Right = Literal["read", "content", "change"]
RIGHTS: tuple[Right, ...] = ("read", "content", "change")
"""In rising order: to read, to read payloads too, to change."""


class AdminSettings(Settings):
    """Users and clients of the admin HTTP, besides the system user that runs the nodes."""

    passwords: OptionalReadFile = Field(
        default=None, description="password file of people, as `penstock passwd` writes it; unset: no log-in"
    )
    users: dict[str, Right] = Field(
        default={},
        description="people of `passwords` and what they may do: `read` all but payloads,"
        " read `content` too, or `change`",
    )
    clients: dict[Name, Right] = Field(
        default={},
        description="clients that may ask too, with an authorisation token that the node which is asked has issued",
    )
    open: tuple[Literal["metrics"], ...] = Field(
        default=(), description="what is told to everybody, without a token: `metrics`"
    )
    hosts: tuple[str, ...] = Field(
        default=(), description="names by which nodes are reached besides their addresses, such as that of a proxy"
    )
    behind_proxy: bool = Field(
        default=False, description="whether something before the nodes encrypts: then no TLS is asked for"
    )
    audit: OptionalMadeFile = Field(
        default=None,
        description="file to which log-ins, changes and situations are appended; unset: they are only logged",
    )


def reaches(has: str, right: Right) -> bool:
    """Return whether a right includes another."""
    return has in RIGHTS and RIGHTS.index(has) >= RIGHTS.index(right)
