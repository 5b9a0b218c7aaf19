"""Classes of links: those whose events are treated alike share their plans."""

from typing import Generic, NamedTuple, TypeVar

from penstock.engine.trust.tokens import TokenHandling
from penstock.policy.access.acl import Rights
from penstock.policy.access.brokering import DEFAULT_TYPE
from penstock.policy.monitors.monitor import Monitor
from penstock.policy.statements.advertisement import AdvertisementSet
from penstock.policy.statements.judging import Bound
from penstock.policy.tokens.rights import TokenRights


class LinkClass(NamedTuple):
    """All that a plan depends on besides the topic. Links that are equal in this share their plans."""

    rights: Rights | TokenRights | None = None
    link_type: str = DEFAULT_TYPE
    neighbour: str | None = None
    """The node or foreign broker it comes from: to where it came from, an event does not go back."""
    monitors: tuple[Monitor, ...] = ()
    states: tuple[str | None, ...] = ()
    """The monitors' states, where what they do can depend on it."""
    is_admitted: bool = False
    """Admission and monitors are behind it: an event of the node itself, or what a monitor made."""
    is_own: bool = False
    """An event of the node itself, which is told to everybody who may read it."""
    claims: tuple[AdvertisementSet, ...] = ()
    """The claims of its producer: each must be kept."""
    statements: tuple[Bound, ...] = ()
    """The policies of its advertisements, and those that the domain gives it."""
    token: TokenHandling | None = None
    """The authorisation token that its events have; None: none that neighbours must be told."""


P = TypeVar("P")
"""A plan. It names sessions, and sessions know their plans: so what holds plans does not say what they are."""


class LinkPlans(Generic[P]):
    """The plans of one class of links: those whose events are treated alike."""

    __slots__ = ("__weakref__", "key", "known", "routes")

    def __init__(self, key: LinkClass, routes: dict[str, P]) -> None:
        self.key = key
        self.routes = routes
        """By topic, what matching and routing found; shared by all classes that these cannot tell apart."""
        self.known: dict[bytes, P] = {}
