"""Trust between nodes: evidence, opinion and rating of a neighbour, and the rules that accept or refuse a token.

(trust §II-C and §II-D; DESIGN §9 for what the paper leaves open.) Ratings are compared in millionths, as whole
numbers: then sums along paths are exact, whichever node adds them up, and `0.5` reaches a threshold of `0.5`.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import total_ordering

from penstock.model.errors import PolicyError

UNIT = 1_000_000
"""The rating 1, in millionths."""
PRIOR = 2.0
"""The weight of the base rate in an opinion without evidence."""
_MAX_NAMES = 5


def in_millionths(rating: float) -> int:
    """Return a rating or threshold as it is compared; raises `PolicyError` if it is not between 0 and 1."""
    if not 0 <= rating <= 1:
        raise PolicyError(f"a rating is between 0 and 1, not `{rating}`")
    return round(rating * UNIT)


@dataclass(frozen=True, slots=True)
class Weights:
    """The parameters of the rating of evidence."""

    penalty: int = 3
    """μ: the bad evidence of one bad message. More than 1, so that trust is lost faster than it is gained."""
    base_rate: float = 0.5
    """The part of the uncertainty that counts as trust: the rating of an unknown neighbour."""
    half_life: float | None = None
    """Seconds after which evidence counts half; without, it never ages."""

    def __post_init__(self) -> None:
        if self.penalty != int(self.penalty) or self.penalty <= 1:
            raise PolicyError(f"the penalty for a bad message is a whole number above 1, not `{self.penalty}`")
        if not 0 <= self.base_rate <= 1:
            raise PolicyError(f"a base rate is between 0 and 1, not `{self.base_rate}`")
        if self.half_life is not None and not (0 < self.half_life < math.inf):
            raise PolicyError(f"a half-life is a number of seconds above 0, not `{self.half_life}`")


@dataclass(frozen=True, slots=True)
class Opinion:
    """Belief, disbelief and uncertainty about one neighbour; together 1."""

    belief: float
    disbelief: float
    uncertainty: float

    def rating(self, base_rate: float) -> float:
        """Return the expected trust."""
        return min(1.0, self.belief + base_rate * self.uncertainty)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of a node on one neighbour at a time: r and s."""

    good: float = 0.0
    bad: float = 0.0
    """Already weighed: the penalty for each bad message."""
    at: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.good < math.inf and 0 <= self.bad < math.inf and math.isfinite(self.at)):
            raise PolicyError(f"evidence is of numbers from 0 on, not `{self.good}` and `{self.bad}` at `{self.at}`")

    def with_message(self, is_good: bool, weights: Weights, now: float) -> "Evidence":
        """Return the evidence with one more message."""
        aged = self.aged(weights, now)
        if is_good:
            return Evidence(aged.good + 1, aged.bad, aged.at)
        return Evidence(aged.good, aged.bad + weights.penalty, aged.at)

    def aged(self, weights: Weights, now: float) -> "Evidence":
        """Return the evidence as it counts now. A clock that was set back ages nothing."""
        if now <= self.at:
            return self
        if weights.half_life is None:
            return Evidence(self.good, self.bad, now)
        left = 0.5 ** ((now - self.at) / weights.half_life)
        return Evidence(self.good * left, self.bad * left, now)

    @property
    def opinion(self) -> Opinion:
        """The opinion by subjective logic."""
        whole = self.good + self.bad + PRIOR
        return Opinion(self.good / whole, self.bad / whole, PRIOR / whole)

    def rating(self, weights: Weights, now: float) -> float:
        """Return the present trust in the neighbour, between 0 and 1."""
        return self.aged(weights, now).opinion.rating(weights.base_rate)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Average:
    """The rating of a path: the sum of its edges' ratings in millionths, and the number of edges."""

    total: int
    edges: int

    def __post_init__(self) -> None:
        if self.edges < 1 or not 0 <= self.total <= self.edges * UNIT:
            raise PolicyError(f"a path of `{self.edges}` edges does not have the sum `{self.total}`")

    @property
    def rating(self) -> float:
        """The rating as a number, for display; the order of averages is exact."""
        return self.total / (self.edges * UNIT)

    def reaches(self, threshold: float) -> bool:
        """Return whether it is at least the threshold."""
        return self.total >= in_millionths(threshold) * self.edges

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Average) and self.total * other.edges == other.total * self.edges

    def __lt__(self, other: "Average") -> bool:
        return self.total * other.edges < other.total * self.edges

    def __hash__(self) -> int:
        return hash(self.rating)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of a node for tokens."""

    sign: float = 0.6
    """π: from this rating of the neighbour that sent it on, a token is signed."""
    accept: float | None = None
    """θ: from this rating of a path, a token is accepted; the same as `sign` unless set."""
    signers: int = 1
    """k: how many signers must have such paths, or all on the way, if there are fewer."""

    def __post_init__(self) -> None:
        in_millionths(self.sign)
        if in_millionths(self.theta) > in_millionths(self.sign):
            raise PolicyError(f"`accept` is at most `sign`: `{self.accept}` is above `{self.sign}`")
        if self.signers < 1:
            raise PolicyError(f"at least 1 signer is needed, not `{self.signers}`")

    @property
    def theta(self) -> float:
        return self.sign if self.accept is None else self.accept


@dataclass(frozen=True, slots=True)
class TokenRuling:
    """A decision on a token, and the reason."""

    accepts: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ReceivedToken:
    """A received token: its signers, and the neighbour that sent it, which need not be one of them."""

    signers: Collection[str]
    sender: str
    through: Collection[str]
    """The nodes from which a path is known whose last step is the sender; the sender is one of them."""
    hops: int
    """Links of the shortest way from the issuer through the sender: so many nodes can have signed, if not more."""


def hops_beyond(joined: Mapping[str, Collection[str]], node: str, neighbour: str) -> dict[str, int]:
    """Return the nodes from which a node can be reached through a neighbour, and how many links each is away."""
    hops: dict[str, int] = {}
    nearest, distance = {neighbour}, 1
    while nearest:
        hops.update(dict.fromkeys(nearest, distance))
        reached = set[str]().union(*(joined.get(name, ()) for name in nearest))
        nearest, distance = reached - hops.keys() - {node}, distance + 1
    return hops


TokenRule = Callable[[ReceivedToken, Mapping[str, float], Mapping[str, Average], Thresholds], TokenRuling]
"""A rule that decides on a received token by the node's own ratings and by the least-trustworthy paths to it."""


def may_sign(sender: str, ratings: Mapping[str, float], thresholds: Thresholds) -> bool:
    """Return whether the node signs a token that this neighbour sent, and so introduces it (§II-B, 3)."""
    return _reaches(ratings.get(sender), thresholds.sign)


def by_introducer(
    received: ReceivedToken, ratings: Mapping[str, float], _least: Mapping[str, Average], thresholds: Thresholds
) -> TokenRuling:
    """Accept a token that a trusted neighbour signed, whoever sends it: the strict rule as in §II-D."""
    refusals = []
    for signer in sorted(received.signers):
        rating = ratings.get(signer)
        if _reaches(rating, thresholds.sign):
            return TokenRuling(
                True, f"the neighbour `{signer}` has signed, rated {rating:.3g}, at least {thresholds.sign}"
            )
        refusals.append(f"`{signer}` {_below(rating, thresholds.sign)}")
    return TokenRuling(False, f"no trusted neighbour has signed: {_some(refusals, 'nobody has signed')}")


def strict(
    received: ReceivedToken, ratings: Mapping[str, float], least: Mapping[str, Average], thresholds: Thresholds
) -> TokenRuling:
    """Accept a token that trusted neighbours signed and sent: a signature does not vouch for the sender."""
    ruling = by_introducer(received, ratings, least, thresholds)
    if not ruling.accepts or may_sign(received.sender, ratings, thresholds):
        return ruling
    below = _below(ratings.get(received.sender), thresholds.sign)
    return TokenRuling(False, f"`{received.sender}`, which sends it, {below}, though {ruling.reason}")


def by_path(
    received: ReceivedToken, _ratings: Mapping[str, float], least: Mapping[str, Average], thresholds: Thresholds
) -> TokenRuling:
    """Accept a token if every path from enough signers is trusted: the least trustworthy reaches θ.

    Enough are k, or as many nodes as the shortest way from the issuer has: next to it, only the issuer can have signed.

    One of the paths leads through the sender. A signer without such a path does not count: else a sender that announces
    no paths would be rated by those around it.
    """
    theta, needed = thresholds.theta, min(thresholds.signers, received.hops)
    good, refusals = [], []
    for signer in sorted(received.signers):
        path = least.get(signer)
        if path is None:
            refusals.append(f"no path from `{signer}` is known")
        elif signer not in received.through:
            refusals.append(f"no path from `{signer}` through `{received.sender}`, which sends it, is known")
        elif path.reaches(theta):
            good.append(f"`{signer}` ({path.rating:.3g})")
        else:
            refusals.append(f"the least trustworthy path from `{signer}` is rated {path.rating:.3g}, below {theta}")
    if len(good) >= needed:
        return TokenRuling(True, f"every path is rated at least {theta} from {_some(good, '')}")
    why = _some(refusals, "nobody has signed" if not received.signers else "there are no more signers")
    if needed == 1:
        return TokenRuling(False, f"no signer has trusted paths only: {why}")
    return TokenRuling(False, f"{len(good)} of {needed} signers have trusted paths only: {why}")


RULES: Mapping[str, TokenRule] = {"strict": strict, "introducer": by_introducer, "path": by_path}
BY_PATHS = frozenset({"path"})
"""The rules that look at least-trustworthy paths; with the others, none are computed."""


def _reaches(rating: float | None, threshold: float) -> bool:
    """Return whether a rating is valid and reaches the threshold."""
    return rating is not None and 0 <= rating <= 1 and in_millionths(rating) >= in_millionths(threshold)


def _below(rating: float | None, threshold: float) -> str:
    return "is no neighbour" if rating is None else f"is rated {rating:.3g}, below {threshold}"


def _some(reasons: Iterable[str], otherwise: str) -> str:
    """Join the first few reasons: a token can have many signers."""
    listed = list(reasons)
    if not listed:
        return otherwise
    more = len(listed) - _MAX_NAMES
    return "; ".join(listed if more <= 0 else [*listed[:_MAX_NAMES], f"and {more} more"])
