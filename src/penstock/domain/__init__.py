"""The domain file: YAML to a validated, cross-checked `Domain`."""

from penstock.domain.schema import (
    MEMORY,
    Domain,
    Limits,
    Listener,
    Log,
    NodeSettings,
    Tls,
    default_domain,
)
from penstock.domain.units import Address

__all__ = [
    "MEMORY",
    "Address",
    "Domain",
    "Limits",
    "Listener",
    "Log",
    "NodeSettings",
    "Tls",
    "default_domain",
]
