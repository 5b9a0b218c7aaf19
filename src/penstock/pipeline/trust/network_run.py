"""One simulated network over time: nodes that rate, accept and sign as `policy.trust` says, and nodes that do not.

Each round every publisher sends a message, good or false. It goes its way as long as nodes accept it. Subscribers of
honest nodes vote on what they got, and the majority is evidence about the neighbour that the message came from.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.pipeline.errors import ArgumentError
from penstock.pipeline.trust.networks import Ints, Level, Routes, make_links, make_routes
from penstock.policy.trust.rating import Thresholds, Weights

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
RULES = ("strict", "path")
ATTACKS = ("none", "malicious", "stuffing", "mouthing", "on-off", "whitewashing", "collusion")
"""What bad nodes do beside publishing falsehoods: see `docs/trust.md`."""
HONEST, CARELESS, BAD = 0, 1, 2
FALSE = (0.02, 0.25, 0.8)
"""The part of a client's messages that are false, by the profile of its node."""
_CLIENTS = 10
_VOTING = 0.2
"""How likely a subscriber votes on a message."""
_MISTAKEN = 0.05
_BOUGHT = 0.1
"""The part of an honest node's subscribers that collude, where nodes do."""
_PERIOD = 10
"""Rounds of one turn of on-off: good in the first half, bad in the second."""
_REJOIN = 5
"""Rounds until one that whitewashes may change its name again."""
_NEARLY = 1e-9
"""Sums of floats are not exact."""
_NOBODY = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Ground:
    """One random network and its publishers; with the same numbers it is always the same."""

    topology: str = "tree"
    size: int = 300
    replicate: int = 0
    publishers: int = 32
    reach: int = 4
    """A node looks for signers that are at most so many edges away."""
    rounds: int = 60

    def __post_init__(self) -> None:
        if not 1 <= self.publishers <= self.size or self.reach < 1 or self.rounds < 1:
            raise ArgumentError(f"a network of {self.size} nodes cannot be played with {self.publishers} publishers")


@dataclass(frozen=True, slots=True)
class Setting:
    """What nodes do: the honest ones, by rule and parameters; the bad ones, by their attack."""

    rule: str = "strict"
    sign: float = 0.6
    accept: float = 0.5
    penalty: int = 3
    signers: int = 1
    base_rate: float = 0.7
    half_life: float = 0.0
    """In rounds; 0: evidence does not age."""
    attack: str = "malicious"
    bad: float = 0.2
    careless: float = 0.1

    def __post_init__(self) -> None:
        if self.rule not in RULES or self.attack not in ATTACKS:
            raise ArgumentError(f"`{self.rule}` against `{self.attack}`: expected one of {RULES} and one of {ATTACKS}")
        Thresholds(self.sign, self.accept, self.signers)
        Weights(self.penalty, self.base_rate, self.half_life or None)
        if not (self.bad >= 0 and self.careless >= 0 and self.bad + self.careless <= 0.9):
            raise ArgumentError(f"{self.bad} bad and {self.careless} careless nodes leave too few others")


class Round(NamedTuple):
    """What reached honest nodes in one round: of all the messages that could have."""

    round: int
    false: int
    false_accepted: int
    good: int
    """Of publishers at honest nodes."""
    good_refused: int


class RoundFlow(NamedTuple):
    """What became of one round's messages."""

    has: Bools
    """Of each place, whether the message was accepted there."""
    signed: Bools
    """Of each place, whether the token was signed there."""
    chosen: Ints
    """Of each place, the copy that was accepted."""


def lay_out(ground: Ground, seed: int) -> Routes:
    """Return the network of a ground."""
    draw = np.random.default_rng([seed, ground.size, ground.replicate])
    links = make_links(ground.topology, ground.size, draw)
    origins = draw.choice(ground.size, ground.publishers, replace=False)
    return make_routes(links, origins, ground.reach)


class Play:
    """A network with its nodes' profiles and what they know of each other."""

    def __init__(self, ground: Ground, setting: Setting, routes: Routes, seed: int) -> None:
        self.ground, self.setting, self.routes, self.seed = ground, setting, routes, seed
        draw = np.random.default_rng([seed, ground.size, ground.replicate, 1])
        self.profile = _profiles(setting, routes, draw)
        self.is_lax = self.profile != HONEST
        colludes = setting.attack in ("stuffing", "mouthing", "collusion")
        self.bought = draw.binomial(_CLIENTS, _BOUGHT if colludes else 0.0, ground.size)
        self.good = np.zeros(len(routes.links.rated))
        self.bad = np.zeros(len(routes.links.rated))

    def rounds(self) -> Iterator[Round]:
        """Play all rounds."""
        for number in range(self.ground.rounds):
            draw = np.random.default_rng([self.seed, self.ground.size, self.ground.replicate, 2, number])
            is_false = draw.random(self.ground.publishers) < self.falsehood(number)
            flow = self.flow()
            yield self._round(number, is_false, flow)
            self._learn(is_false, flow, draw)
            if self.setting.attack in ("whitewashing", "collusion") and (number + 1) % _REJOIN == 0:
                self._whitewash()

    def falsehood(self, number: int) -> Floats:
        """Return how likely the message of each publisher is false in this round."""
        profile = self.profile[self.routes.origins]
        likelihood = np.array(FALSE)[profile]
        if self.setting.attack in ("on-off", "collusion") and number % _PERIOD < _PERIOD // 2:
            likelihood[profile == BAD] = FALSE[HONEST]
        return likelihood

    def ratings(self) -> Floats:
        """Return for each edge the rating that the node which rates it has (`Evidence.rating`)."""
        return (self.good + 2 * self.setting.base_rate) / (self.good + self.bad + 2)

    def announced(self) -> Floats:
        """Return for each edge the rating that the node which rates it announces."""
        ratings, links = self.ratings(), self.routes.links
        is_liar, is_friend = self.profile[links.rater] == BAD, self.profile[links.rated] == BAD
        match self.setting.attack:
            case "stuffing":
                ratings[is_liar] = 1
            case "mouthing":
                ratings[is_liar & ~is_friend] = 0
            case "collusion":
                ratings[is_liar] = is_friend[is_liar]
        return ratings

    def flow(self) -> RoundFlow:
        """Let every publisher's message go its way."""
        setting, routes = self.setting, self.routes
        is_trusted = self.ratings()[routes.edge] >= setting.sign - _NEARLY
        rater_is_lax = self.is_lax[routes.links.rater[routes.edge]]
        places = len(routes.node)
        flow = RoundFlow(np.ones(places, np.bool_), np.ones(places, np.bool_), np.full(places, _NOBODY))
        paths = _Paths(routes, self.announced(), setting) if setting.rule == "path" else None
        for layer in range(1, len(routes.bounds) - 1):
            here = slice(*routes.bounds[layer : layer + 2])
            copies = slice(*routes.copy_bounds[layer : layer + 2])
            source = routes.source[copies]
            if paths is None:
                is_accepted = is_trusted[copies] & flow.signed[source]
            else:
                is_accepted = paths.enough(layer, copies, flow.signed[source])
            is_accepted = flow.has[source] & (is_accepted | rater_is_lax[copies])
            numbers = np.where(is_accepted, np.arange(copies.start, copies.stop), _NOBODY)
            first = routes.starts[here.start - routes.bounds[1] : here.stop - routes.bounds[1]] - copies.start
            chosen = np.minimum.reduceat(numbers, first)
            has = chosen != _NOBODY
            flow.chosen[here], flow.has[here] = chosen, has
            known = np.where(has, chosen, 0)
            flow.signed[here] = has & (is_trusted[known] | rater_is_lax[known])
            if paths is not None:
                paths.keep(layer, copies, flow)
        return flow

    def _round(self, number: int, is_false: Bools, flow: RoundFlow) -> Round:
        routes = self.routes
        counts = ~self.is_lax[routes.node]
        counts[: routes.bounds[1]] = False
        false = counts & is_false[routes.publisher]
        good = counts & ~is_false[routes.publisher] & (self.profile[routes.origins] == HONEST)[routes.publisher]
        return Round(
            number, int(false.sum()), int((false & flow.has).sum()), int(good.sum()), int((good & ~flow.has).sum())
        )

    def _learn(self, is_false: Bools, flow: RoundFlow, draw: np.random.Generator) -> None:
        routes, setting = self.routes, self.setting
        if setting.half_life:
            left = 0.5 ** (1 / setting.half_life)
            self.good *= left
            self.bad *= left
        got = np.flatnonzero(flow.has & ~self.is_lax[routes.node] & (flow.chosen != _NOBODY))
        false = is_false[routes.publisher[got]]
        bought = self.bought[routes.node[got]]
        against = draw.binomial(_CLIENTS - bought, _VOTING * np.where(false, 1 - _MISTAKEN, _MISTAKEN))
        favour = draw.binomial(_CLIENTS - bought - against, _VOTING * np.where(false, _MISTAKEN, 1 - _MISTAKEN))
        is_friend = self.profile[routes.origins[routes.publisher[got]]] == BAD
        if setting.attack in ("stuffing", "collusion"):
            favour = favour + np.where(is_friend, bought, 0)
        if setting.attack in ("mouthing", "collusion"):
            against = against + np.where(is_friend, 0, bought)
        edge = routes.edge[flow.chosen[got]]
        edges = len(self.good)
        self.good += np.bincount(edge[favour > against], minlength=edges)
        self.bad += setting.penalty * np.bincount(edge[against > favour], minlength=edges)

    def _whitewash(self) -> None:
        """Bad nodes that their honest neighbours do not trust on the average take new names."""
        links, ratings = self.routes.links, self.ratings()
        theirs = (self.profile[links.rated] == BAD) & ~self.is_lax[links.rater]
        number = np.bincount(links.rated[theirs], minlength=links.size)
        total = np.bincount(links.rated[theirs], ratings[theirs], links.size)
        is_done = (total < self.setting.sign * number)[links.rated] & (self.profile[links.rated] == BAD)
        self.good[is_done] = 0
        self.bad[is_done] = 0


class _Paths:
    """Which signatures are on the tokens that nodes have, and from which of them every path is trusted."""

    def __init__(self, routes: Routes, announced: Floats, setting: Setting) -> None:
        self._routes, self._least = routes, setting.signers
        sums = announced[routes.edge]
        self.sums = [sums]
        for level in routes.levels:
            sums = np.minimum.reduceat(self.sums[0][level.copy] + sums[level.before], level.starts)
            self.sums.append(sums)
        self._is_good = [total >= setting.accept * edges - _NEARLY for edges, total in enumerate(self.sums, 1)]
        self._is_on = [np.zeros(len(total), np.bool_) for total in self.sums]

    def enough(self, layer: int, copies: slice, source_signed: Bools) -> Bools:
        """Return of the copies to a layer whether enough of those who signed have trusted paths only."""
        count = (self._is_good[0][copies] & source_signed).astype(np.int64)
        for at, level in enumerate(self._routes.levels):
            terms = _slice(level.term_bounds, layer)
            counts = self._is_on[at][level.before[terms]] & self._is_good[at + 1][level.pair[terms]]
            count += np.bincount(level.copy[terms][counts] - copies.start, minlength=len(count))
        return count >= self._least

    def keep(self, layer: int, copies: slice, flow: RoundFlow) -> None:
        """Keep the signatures on the tokens that this layer has accepted."""
        routes = self._routes
        is_chosen = np.zeros(copies.stop - copies.start, np.bool_)
        chosen = flow.chosen[slice(*routes.bounds[layer : layer + 2])]
        is_chosen[chosen[chosen != _NOBODY] - copies.start] = True
        self._is_on[0][copies] = is_chosen & flow.signed[routes.source[copies]]
        for at, level in enumerate(routes.levels):
            self._keep_level(level, layer, at, is_chosen, copies.start)

    def _keep_level(self, level: Level, layer: int, at: int, is_chosen: Bools, first: int) -> None:
        terms, pairs = _slice(level.term_bounds, layer), _slice(level.pair_bounds, layer)
        if pairs.start == pairs.stop:
            return
        is_on = is_chosen[level.copy[terms] - first] & self._is_on[at][level.before[terms]]
        self._is_on[at + 1][pairs] = np.logical_or.reduceat(is_on, level.starts[pairs] - terms.start)


def _slice(bounds: Ints, layer: int) -> slice:
    return slice(*bounds[layer : layer + 2])


def _profiles(setting: Setting, routes: Routes, draw: np.random.Generator) -> Ints:
    """Draw as many bad and careless nodes as asked for, among publishers' nodes as among the others."""
    size, origins = routes.links.size, routes.origins
    others = np.setdiff1d(np.arange(size), origins)
    profile = np.full(size, HONEST, np.int64)
    for group in (draw.permutation(origins), draw.permutation(others)):
        bad, careless = round(setting.bad * len(group)), round(setting.careless * len(group))
        profile[group[bad : bad + careless]] = CARELESS
        if setting.attack != "none":
            profile[group[:bad]] = BAD
    return profile
