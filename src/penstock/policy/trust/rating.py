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
"""What an opinion is spread over when there is no evidence: the weight of the base rate."""
_MOST_NAMES = 5


def in_millionths(rating: float) -> int:
    """A rating or threshold as it is compared; raises `PolicyError` if it is not between 0 and 1."""
    if not 0 <= rating <= 1:
        raise PolicyError(f"a rating is between 0 and 1, not `{rating}`")
    return round(rating * UNIT)


@dataclass(frozen=True, slots=True)
class Weights:
    """How evidence becomes a rating."""

    penalty: int = 3
    """μ: so much bad evidence is one bad message. More than 1, so that trust is lost faster than it is gained."""
    base_rate: float = 0.5
    """How much of the uncertainty counts as trust: the rating of a neighbour that nothing is known about."""
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
        """The expected trust."""
        return min(1.0, self.belief + base_rate * self.uncertainty)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a node has seen of one neighbour: r and s, as they stood at a time."""

    good: float = 0.0
    bad: float = 0.0
    """Already weighed: the penalty for each bad message."""
    at: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.good < math.inf and 0 <= self.bad < math.inf and math.isfinite(self.at)):
            raise PolicyError(f"evidence is of numbers from 0 on, not `{self.good}` and `{self.bad}` at `{self.at}`")

    def seen(self, is_good: bool, weights: Weights, now: float) -> "Evidence":
        """With one more message."""
        aged = self.aged(weights, now)
        if is_good:
            return Evidence(aged.good + 1, aged.bad, aged.at)
        return Evidence(aged.good, aged.bad + weights.penalty, aged.at)

    def aged(self, weights: Weights, now: float) -> "Evidence":
        """As it counts now. A clock that was set back ages nothing."""
        if now <= self.at:
            return self
        if weights.half_life is None:
            return Evidence(self.good, self.bad, now)
        left = 0.5 ** ((now - self.at) / weights.half_life)
        return Evidence(self.good * left, self.bad * left, now)

    @property
    def opinion(self) -> Opinion:
        """What this evidence says (subjective logic)."""
        whole = self.good + self.bad + PRIOR
        return Opinion(self.good / whole, self.bad / whole, PRIOR / whole)

    def rating(self, weights: Weights, now: float) -> float:
        """How far the neighbour is trusted now, between 0 and 1."""
        return self.aged(weights, now).opinion.rating(weights.base_rate)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Average:
    """The rating of a path: the sum of its edges' ratings in millionths, and how many edges it has."""

    total: int
    edges: int

    def __post_init__(self) -> None:
        if self.edges < 1 or not 0 <= self.total <= self.edges * UNIT:
            raise PolicyError(f"a path of `{self.edges}` edges does not have the sum `{self.total}`")

    @property
    def rating(self) -> float:
        """To show it; to compare it, there is the order, which is exact."""
        return self.total / (self.edges * UNIT)

    def reaches(self, threshold: float) -> bool:
        """Whether it is at least so high."""
        return self.total >= in_millionths(threshold) * self.edges

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Average) and self.total * other.edges == other.total * self.edges

    def __lt__(self, other: "Average") -> bool:
        return self.total * other.edges < other.total * self.edges

    def __hash__(self) -> int:
        return hash(self.rating)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What a node asks for."""

    sign: float = 0.6
    """π: from this rating of the neighbour that sent it on, a token is signed."""
    accept: float | None = None
    """θ: from this rating of a path, a token is accepted; the same as `sign` unless set."""
    signers: int = 1
    """k: how many signers must have such paths."""

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
class Ruling:
    """Whether a token is accepted, and why."""

    accepts: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Came:
    """A token as it came: who has signed it, and which neighbour sent it, who need not be one of them."""

    signers: Collection[str]
    sender: str
    through: Collection[str]
    """The nodes from which a path is known whose last step is the sender; the sender is one of them."""


Rule = Callable[[Came, Mapping[str, float], Mapping[str, Average], Thresholds], Ruling]
"""From how a token came, the node's own ratings of its neighbours, and the least-trustworthy paths to it."""


def may_sign(sender: str, ratings: Mapping[str, float], thresholds: Thresholds) -> bool:
    """Whether the node signs a token that this neighbour sent on, and so introduces it (§II-B, 3)."""
    return _reaches(ratings.get(sender), thresholds.sign)


def strict(came: Came, ratings: Mapping[str, float], _least: Mapping[str, Average], thresholds: Thresholds) -> Ruling:
    """Accept what a trusted neighbour has signed, from a trusted neighbour: a signature is no word for its sender."""
    refusals = []
    for signer in sorted(came.signers):
        rating = ratings.get(signer)
        if _reaches(rating, thresholds.sign):
            signed = f"the neighbour `{signer}` has signed, rated {rating:.3g}, at least {thresholds.sign}"
            if may_sign(came.sender, ratings, thresholds):
                return Ruling(True, signed)
            sent = ratings.get(came.sender)
            rated = "is no neighbour" if sent is None else f"is rated {sent:.3g}, below {thresholds.sign}"
            return Ruling(False, f"`{came.sender}`, which sends it, {rated}, though {signed}")
        refusals.append(
            f"`{signer}` is no neighbour"
            if rating is None
            else f"`{signer}` is rated {rating:.3g}, below {thresholds.sign}"
        )
    return Ruling(False, f"no trusted neighbour has signed: {_some(refusals, 'nobody has signed')}")


def by_path(came: Came, _ratings: Mapping[str, float], least: Mapping[str, Average], thresholds: Thresholds) -> Ruling:
    """Accept if from enough signers every path is trusted: the least trustworthy reaches θ.

    One of them leads through the sender. A signer from which none is known does not count, or else a sender that tells
    of no paths would be rated by those around it.
    """
    theta = thresholds.theta
    good, refusals = [], []
    for signer in sorted(came.signers):
        path = least.get(signer)
        if path is None:
            refusals.append(f"no path from `{signer}` is known")
        elif signer not in came.through:
            refusals.append(f"no path from `{signer}` through `{came.sender}`, which sends it, is known")
        elif path.reaches(theta):
            good.append(f"`{signer}` ({path.rating:.3g})")
        else:
            refusals.append(f"the least trustworthy path from `{signer}` is rated {path.rating:.3g}, below {theta}")
    if len(good) >= thresholds.signers:
        return Ruling(True, f"every path is rated at least {theta} from {_some(good, '')}")
    why = _some(refusals, "nobody has signed" if not came.signers else "there are no more signers")
    if thresholds.signers == 1:
        return Ruling(False, f"no signer has trusted paths only: {why}")
    return Ruling(False, f"{len(good)} of {thresholds.signers} signers have trusted paths only: {why}")


RULES: Mapping[str, Rule] = {"strict": strict, "path": by_path}


def _reaches(rating: float | None, threshold: float) -> bool:
    """What is not a rating (none, out of range, not a number) reaches nothing."""
    return rating is not None and 0 <= rating <= 1 and in_millionths(rating) >= in_millionths(threshold)


def _some(reasons: Iterable[str], otherwise: str) -> str:
    """A token can have many signers, and a sentence only so many."""
    told = list(reasons)
    if not told:
        return otherwise
    more = len(told) - _MOST_NAMES
    return "; ".join(told if more <= 0 else [*told[:_MOST_NAMES], f"and {more} more"])
