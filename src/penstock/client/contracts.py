"""Contracts that a program brings: mappings as in the domain file, or their JSON (docs/contracts.md)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Contract = Mapping[str, Any] | str
"""The guarantees and needs of a producer or consumer."""


@dataclass(frozen=True, slots=True)
class ClientContract:
    """A named contract that a client has brought."""

    name: str
    produces: str | None = None
    consumes: str | None = None

    @property
    def request(self) -> dict[str, Any]:
        """Return the contract as it is sent to the node."""
        parts = {"produces": self.produces, "consumes": self.consumes}
        return {"name": self.name} | {name: json.loads(text) for name, text in parts.items() if text is not None}


def text_of(contract: Contract | None) -> str | None:
    """Return a contract as it is sent; raise `ValueError` if it is not a JSON object."""
    if contract is None:
        return None
    text = contract if isinstance(contract, str) else json.dumps(dict(contract), allow_nan=False)
    if not isinstance(json.loads(text), dict):
        raise ValueError(f"expected a contract, a mapping or the JSON of one, not {text!r:.80}")
    return text
