"""A node's state about trust: groups' secrets, neighbours' ratings, limits of feedback, open proofs."""

from collections import deque
from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple

from penstock.domain.schema.trust import TrustSettings
from penstock.engine.events.link_class import LinkPlans
from penstock.engine.trust.tokens import Keys, TokenHandling, Tokens
from penstock.model.group_proof import Claimant, ProofExchange
from penstock.model.publication_proof import PublicationChecker, PublicationProver
from penstock.policy.tokens.errors import TokenError
from penstock.policy.tokens.token import Token
from penstock.policy.tokens.verification import Verified
from penstock.policy.trust import rating as rules
from penstock.policy.trust.feedback import FeedbackLimits
from penstock.policy.trust.rating import Average, Evidence, Thresholds, TokenRuling
from penstock.policy.trust.vectors import TrustTable, Update

MAX_RULINGS = 10_000
NOT_PROVEN = "group not proven"
"""The kind of a notice."""


class GroupSecrets:
    """The secrets of the groups that a node is in, by group. Only their names are ever shown."""

    __slots__ = ("earlier", "secrets")

    def __init__(
        self, secrets: Mapping[str, bytes] | None = None, earlier: Mapping[str, tuple[bytes, ...]] | None = None
    ) -> None:
        self.secrets = dict(secrets or {})
        self.earlier = dict(earlier or {})
        """Secrets of before: what was sealed with them can still be opened."""

    def __repr__(self) -> str:
        return f"GroupSecrets({', '.join(self.secrets)})"


class NeighbourRuling(NamedTuple):
    """The decision on tokens with some signers, from one neighbour."""

    ruling: TokenRuling
    signs: bool
    """True if this node introduces the neighbour to others."""


class Ratings:
    """One node's ratings of its neighbours (trust §II-C, §II-D).

    Evidence becomes ratings, ratings and the neighbours' vectors become least-trustworthy paths, and these say whose
    tokens are accepted. What was decided is kept until the decision would be another.
    """

    def __init__(self, node: str, nodes: int, settings: TrustSettings, thresholds: Thresholds) -> None:
        self.node = node
        self.settings = settings
        self.thresholds = thresholds
        self.evidence: dict[str, Evidence] = {}
        self.counts: dict[tuple[str, str, bool], int] = {}
        """By neighbour, where it came from and whether it was good: how much evidence there was since the start."""
        self.table = TrustTable(node, nodes, settings.longest) if settings.rule in rules.BY_PATHS else None
        """The least-trustworthy paths to this node; None if the rule does not ask for them."""
        self.is_stale = True
        """There is something new since all was worked out; and in `is_changed` something to tell neighbours, who may be
        told again when it is `due`.
        """
        self.is_changed = True
        self.due = 0.0
        self._ratings: dict[str, float] = {}
        self._rulings: dict[tuple[str, frozenset[str], int], NeighbourRuling] = {}

    def rating(self, neighbour: str, now: float) -> float:
        return self.of(neighbour, now).rating(self.settings.weights, now)

    def held(self, neighbour: str) -> float | None:
        """Return the rating by which the node decides now; None for a node that is no neighbour."""
        return self._ratings.get(neighbour)

    def of(self, neighbour: str, now: float) -> Evidence:
        """Return the evidence about a neighbour; before any is seen, the domain's, which then begins to age."""
        return self.evidence.get(neighbour) or self.settings.begins(self.node, neighbour, now)

    def rule(self, sender: str, signers: frozenset[str], hops: int) -> NeighbourRuling:
        """Return the decision on tokens of these signers from a neighbour, whose issuer is so many hops away."""
        key = (sender, signers, hops)
        ruling = self._rulings.get(key)
        if ruling is None:
            if len(self._rulings) >= MAX_RULINGS:
                self._rulings.clear()
            ruling = self._rulings[key] = self._rule(*key)
        return ruling

    def _rule(self, sender: str, signers: frozenset[str], hops: int) -> NeighbourRuling:
        through, least = (self.table.through(sender), self.table.least(signers)) if self.table is not None else ((), {})
        came = rules.ReceivedToken(signers, sender, through, hops)
        ruling = rules.RULES[self.settings.rule](came, self._ratings, least, self.thresholds)
        return NeighbourRuling(ruling, rules.may_sign(sender, self._ratings, self.thresholds))

    def refresh(self, neighbours: list[str], connected: set[str], now: float) -> bool:
        """Work out ratings and paths anew; whether a decision is another by them."""
        ratings = {name: self.rating(name, now) for name in neighbours}
        for name in connected if self.table is not None else ():
            assert self.table is not None
            self.is_changed |= self.table.set_rating(name, ratings[name])
        self._ratings = ratings
        self.is_stale = False
        rulings, self._rulings = self._rulings, {}
        is_other = False
        for key, ruled in rulings.items():
            ruling = self.rule(*key)
            is_other |= (ruling.ruling.accepts, ruling.signs) != (ruled.ruling.accepts, ruled.signs)
        return is_other

    def lost(self, neighbour: str) -> None:
        """Forget paths over a link that is down."""
        if self.table is not None:
            self.table.forget(neighbour)
        self.is_stale = self.is_changed = True

    @property
    def least(self) -> dict[str, Average]:
        """The least-trustworthy paths to this node, from each other; none if the rule does not ask for them."""
        return {} if self.table is None else self.table.least()

    def heard(self, table: TrustTable, neighbour: str, update: Update) -> bool:
        """Take a neighbour's paths; return False if it must begin anew. Raise `PolicyError`."""
        taken = table.receive(neighbour, update)
        if taken:
            self.is_stale = self.is_changed = True
        return taken


class Showing:
    """On a connection with that method, a client may show another token at any time."""

    __slots__ = ()


class Accepting:
    """The side that is connected to: asks, and judges the answer."""

    __slots__ = ("checker", "client_id", "exchange", "prover")

    def __init__(self, client_id: str) -> None:
        """Make the proof's state; `client_id` is the CONNECT's."""
        self.client_id = client_id
        self.exchange: ProofExchange | None = None
        """The one that is under way."""
        self.prover: PublicationProver | None = None
        """Of the latest exchange that is complete: the proofs of publications to the other side; `checker`: from it."""
        self.checker: PublicationChecker | None = None


class Claiming:
    """The side that connects, a node that has dialled."""

    __slots__ = ("checker", "claimant", "due", "prover")

    def __init__(self, claimant: Claimant) -> None:
        self.claimant: Claimant | None = claimant
        """Of the exchange that is under way."""
        self.due = inf
        """The time to prove again."""
        self.prover: PublicationProver | None = None
        """The proofs of publications to the other side, by the latest exchange; `checker`: from it."""
        self.checker: PublicationChecker | None = None


class TokenLink:
    """The tokens that two nodes have announced on the connection between them."""

    def __init__(self) -> None:
        self.history: deque[object] | None = None
        """The latest events that came by it, to be rated: as packets of MQTT 5 without properties, or as events. And
        subscriptions, where they began: what came before them was not for them.
        """
        self.begin(inf)

    def begin(self, registered: float) -> None:
        """Reset for a connection that begins or is gone: nothing has been told."""
        self.sent: set[str] = set()
        """Tokens that the neighbour has been told, by digest."""
        self.heard: dict[str, Verified | TokenError] = {}
        """Tokens that it has told, or why one of them does not count."""
        self.refused: dict[str, bytes] = {}
        """Of those that do not, some that may count later: when it is time, or by other keys."""
        self.bound_out: dict[str, str] = {}
        """By topic, the token that events have unless they say another: as we told; in `bound_in` as we were."""
        self.bound_in: dict[str, str] = {}
        self.registered = registered
        """Until when the neighbour has shown a token of ours, or has time to; before it has, nothing goes to it."""
        self.is_registered = False
        self.forget()

    def forget(self) -> None:
        """Forget the findings about tokens."""
        self.passings: dict[str, TokenHandling] = {}
        self.plans: dict[str, tuple[LinkPlans[Any], LinkPlans[Any]]] = {}
        self.until = inf
        """The end of the first finding."""


NO_GROUPS: frozenset[str] = frozenset()
"""One for all sessions: an empty set is as large as all the rest of a `SessionTrust`."""


class SessionTrust:
    """The evidence about the client behind a session: its token, and its trust groups."""

    __slots__ = ("bound", "proven", "proving", "token", "tokens")

    def __init__(self) -> None:
        self.token: Verified | None = None
        """The authorisation token that the client has shown."""
        self.tokens: TokenLink | None = None
        """Of a neighbour, what was told of tokens; None if it is no node, or there are none."""
        self.proven: dict[str, float] = {}
        """Trust groups that it has proven to be in, and until when that counts; ask `groups.is_member`."""
        self.bound = NO_GROUPS
        """Those that it had proven when messages came that may still wait: they are for nobody who proves less."""
        self.proving: Accepting | Claiming | Showing | None = None
        """The state of proofs on its connection; None if that has no authentication method."""


class NodeTrustState:
    """The keys, tokens and secrets of a node, and how far it trusts its neighbours."""

    __slots__ = ("feedback", "groups", "keys", "ratings", "stored_evidence", "stored_tokens", "tokens")

    def __init__(self) -> None:
        self.groups = GroupSecrets()
        self.keys: Keys | None = None
        """The key for signing tokens; set by `keys.hold`."""
        self.tokens: Tokens | None = None
        """Its authorisation tokens, if the domain has any; and in `ratings` how far it trusts its neighbours."""
        self.ratings: Ratings | None = None
        self.feedback = FeedbackLimits()
        self.stored_tokens: list[Token] = []
        """Tokens of events from before a restart or a reload, and in `stored_evidence` what was held of neighbours."""
        self.stored_evidence: dict[str, Evidence] = {}
