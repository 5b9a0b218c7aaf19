"""The domain file: YAML to a validated, cross-checked `Domain`."""

from penstock.domain.check import DomainSource, check
from penstock.domain.compile.ensemble import Assertion, Ensemble, ensemble
from penstock.domain.compile.entries import ClientEntry
from penstock.domain.compile.expand import expand
from penstock.domain.diff import diff
from penstock.domain.load import load, read
from penstock.domain.schema.base import MEMORY
from penstock.domain.schema.domain import Domain, default_domain
from penstock.domain.schema.federation import ClientSettings, ForeignSettings, LinkSettings, LinkTls
from penstock.domain.schema.node_settings import LimitSettings, Listener, Log, NodeSettings, Tls
from penstock.domain.units import Address

__all__ = [
    "MEMORY",
    "Address",
    "Assertion",
    "ClientEntry",
    "ClientSettings",
    "Domain",
    "DomainSource",
    "Ensemble",
    "ForeignSettings",
    "LimitSettings",
    "LinkSettings",
    "LinkTls",
    "Listener",
    "Log",
    "NodeSettings",
    "Tls",
    "check",
    "default_domain",
    "diff",
    "ensemble",
    "expand",
    "load",
    "read",
]
