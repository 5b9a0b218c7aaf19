"""The domain file: YAML to a validated, cross-checked `Domain`."""

from penstock.domain.check import Source, check
from penstock.domain.load import load, read
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
    "Source",
    "Tls",
    "check",
    "default_domain",
    "load",
    "read",
]
