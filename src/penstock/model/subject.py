"""The subject of a policy: an authenticated client, or a neighbour node."""

from typing import NamedTuple


class Subject(NamedTuple):
    """A client as the node knows it once authenticated."""

    client_id: str
    user: str | None = None
    address: str = ""
    listener: str = ""
    certificate: str | None = None
    """The identity that its certificate gives it."""

    def __str__(self) -> str:
        return f"{self.client_id} ({self.user})" if self.user is not None else self.client_id
