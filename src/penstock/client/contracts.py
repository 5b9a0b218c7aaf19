"""Contracts as a program brings them: mappings, as the domain file has them, or their JSON (docs/contracts.md)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Contract = Mapping[str, Any] | str
"""What a producer or a consumer guarantees and asks for."""


@dataclass(frozen=True, slots=True)
class Brought:
    """A contract that a client has brought by a name."""

    name: str
    produces: str | None = None
    consumes: str | None = None

    @property
    def payload(self) -> bytes:
        """As the node is told."""
        parts = {"produces": self.produces, "consumes": self.consumes}
        said = {name: json.loads(text) for name, text in parts.items() if text is not None}
        return json.dumps({"name": self.name, **said}).encode()


def text_of(contract: Contract | None) -> str | None:
    """A contract as it is sent; raises `ValueError` for what is no JSON object."""
    if contract is None:
        return None
    text = contract if isinstance(contract, str) else json.dumps(dict(contract), allow_nan=False)
    if not isinstance(json.loads(text), dict):
        raise ValueError(f"expected a contract, a mapping or the JSON of one, not {text!r:.80}")
    return text
