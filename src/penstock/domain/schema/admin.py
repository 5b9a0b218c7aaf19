"""Rights to read and change nodes over their admin HTTP."""

from typing import Literal

from pydantic import Field

from penstock.domain.schema.base import Name, OptionalMadeFile, OptionalReadFile, Settings

Right = Literal["read", "content", "change"]
RIGHTS: tuple[Right, ...] = ("read", "content", "change")
"""In rising order: to read, to read payloads too, to change."""


class AdminSettings(Settings):
    """Users and clients of the admin HTTP, besides the system user that runs the nodes."""

    passwords: OptionalReadFile = Field(
        None, description="password file of people, as `penstock passwd` writes it; unset: no log-in"
    )
    users: dict[str, Right] = Field(
        {},
        description="users of `passwords` and their rights: `read` (all but payloads),"
        " `content` (payloads too), or `change`",
    )
    clients: dict[Name, Right] = Field(
        {}, description="clients that may use it, with an authorisation token issued by the same node"
    )
    open: tuple[Literal["metrics"], ...] = Field((), description="endpoints that need no token: `metrics`")
    hosts: tuple[str, ...] = Field(
        (), description="names of the nodes besides their addresses, such as that of a proxy"
    )
    behind_proxy: bool = Field(
        False, description="whether a proxy in front of the nodes encrypts: then TLS is not required"
    )
    audit: OptionalMadeFile = Field(
        None, description="file to which log-ins, changes and situations are appended; unset: they are only logged"
    )


def includes_right(has: str, right: Right) -> bool:
    """Return whether a right includes another."""
    return has in RIGHTS and RIGHTS.index(has) >= RIGHTS.index(right)
