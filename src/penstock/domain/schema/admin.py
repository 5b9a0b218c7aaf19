"""Who may look at nodes, and change them, over their admin HTTP."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from penstock.domain.schema.base import Name, OptionalMadeFile, OptionalReadFile, Settings

Right = Literal["read", "content", "change"]
RIGHTS: tuple[Right, ...] = ("read", "content", "change")
"""Each has all that is before it: to look, to look at payloads too, to change."""


class AdminSettings(Settings):
    """Who may ask nodes about themselves, besides the system's user that runs them."""

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
    """Whether who has one right may do what asks for another."""
    return has in RIGHTS and RIGHTS.index(has) >= RIGHTS.index(right)
