"""One simulated network over time: nodes that rate, accept and sign by the code that nodes run, and nodes that do not.

An honest node has the `Ratings` of a live node, with its table of paths, and the `FeedbackLimits` of a live node; what
is simulated is who is honest, what is published, and who rates it how. Each round every publisher sends a message, good
or false. It goes along all links; a node asks for each copy whether to accept it, and passes on the first good and the
first false one that it accepts. Subscribers of honest nodes rate what they got, as the bounds of feedback allow.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import numpy as np
from pydantic import ValidationError

from penstock.domain.schema.trust import FeedbackSettings, TrustSettings
from penstock.engine.trust.state import Ratings
from penstock.model.errors import PolicyError
from penstock.pipeline.errors import ArgumentError
from penstock.pipeline.trust.networks import make_links, neighbours
from penstock.policy.trust.feedback import FeedbackLimits
from penstock.policy.trust.rating import RULES as TOKEN_RULES
from penstock.policy.trust.rating import UNIT, Evidence, hops_beyond, in_millionths
from penstock.policy.trust.vectors import TrustTable, Update

RULES = tuple(TOKEN_RULES)
ATTACKS = (
    "none",
    "malicious",
    "tampering",
    "stripping",
    "stuffing",
    "mouthing",
    "on-off",
    "whitewashing",
    "collusion",
)
"""What bad nodes do beside publishing falsehoods: see `docs/trust.md`."""
HONEST, CARELESS, BAD = 0, 1, 2
FALSE = (0.02, 0.25, 0.8)
"""The part of a client's messages that are false, by the profile of its node."""
_CLIENTS = 10
_VOTING = 0.2
"""How likely a subscriber rates a message."""
_MISTAKEN = 0.05
_BOUGHT = 0.1
"""The part of an honest node's subscribers that collude, where nodes do."""
_PERIOD = 10
"""Rounds of one turn of on-off: good in the first half, bad in the second."""
_REJOIN = 5
"""Rounds until one that whitewashes may change its name again."""


@dataclass(frozen=True, slots=True)
class Ground:
    """One random network and its publishers; with the same numbers it is always the same."""

    topology: str = "tree"
    size: int = 40
    replicate: int = 0
    publishers: int = 10
    reach: int = 4
    """Edges of the longest path that a node looks at: `trust.longest`."""
    rounds: int = 30

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
    careless: float = 0.0
    least: int = 2
    """Clients that must have called something of a neighbour bad within a period; `most`: how often one is heard."""
    most: int = 10
    period: float = 10.0
    """In rounds."""

    def __post_init__(self) -> None:
        if self.rule not in RULES or self.attack not in ATTACKS:
            raise ArgumentError(f"`{self.rule}` against `{self.attack}`: expected one of {RULES} and one of {ATTACKS}")
        if not (self.bad >= 0 and self.careless >= 0 and self.bad + self.careless <= 0.9):
            raise ArgumentError(f"{self.bad} bad and {self.careless} careless nodes leave too few others")
        try:
            for rating in (self.sign, self.accept, self.base_rate):
                in_millionths(rating)
            self.trust(None)
        except PolicyError as error:
            raise ArgumentError(str(error)) from None
        except ValidationError as error:
            (problem, *_) = error.errors()
            raise ArgumentError(f"no such setting of trust: {problem['loc'][-1]}: {problem['msg']}") from None

    def trust(self, longest: int | None) -> TrustSettings:
        """Return the settings as a domain file has them; a round is a second."""
        bounds = {"from": "*", "least": self.least, "most": self.most, "period": self.period}
        return TrustSettings(
            rule=self.rule,  # type: ignore[arg-type]
            sign=self.sign,
            accept=self.accept,
            penalty=self.penalty,
            signers=self.signers,
            base_rate=self.base_rate,
            half_life=self.half_life or None,
            longest=longest,
            feedback=FeedbackSettings.model_validate(bounds),
        )


class Round(NamedTuple):
    """What reached honest nodes in one round: of all the messages that could have."""

    round: int
    false: int
    """Of messages that bad nodes have published or made false."""
    false_accepted: int
    good: int
    """Of publishers at honest nodes, at those that a way without bad nodes leads to."""
    good_refused: int


class MessageCopy(NamedTuple):
    """One copy of a message on its way to a node."""

    sender: str
    node: str
    is_false: bool
    signers: frozenset[str]
    path: tuple[str, ...]


class Flow(NamedTuple):
    """What became of one message: who has accepted it, good or false, and from whom."""

    accepted: dict[tuple[str, bool], str]
    is_altered: bool
    """Whether a bad node has made a good message false."""


@dataclass(frozen=True, slots=True)
class Network:
    """The nodes with their neighbours, and where publishers are."""

    joined: dict[str, tuple[str, ...]]
    origins: tuple[str, ...]
    beyond: dict[tuple[str, str], dict[str, int]]
    """By node and neighbour, which nodes are how far beyond it."""


def lay_out(ground: Ground, seed: int) -> Network:
    """Return the network of a ground."""
    draw = np.random.default_rng([seed, ground.size, ground.replicate])
    joined = neighbours(make_links(ground.topology, ground.size, draw))
    origins = tuple(map(str, draw.choice(ground.size, ground.publishers, replace=False).tolist()))
    beyond = {(node, other): hops_beyond(joined, node, other) for node, others in joined.items() for other in others}
    return Network(joined, origins, beyond)


class Play:
    """A network with its nodes' profiles and what they know of each other."""

    def __init__(self, ground: Ground, setting: Setting, network: Network, seed: int) -> None:
        self.ground, self.setting, self.network = ground, setting, network
        self._seed = f"{seed}/{ground.size}/{ground.replicate}"
        self.profile = self._profiles(Random(f"{self._seed}/profiles"))
        trust = setting.trust(ground.reach)
        self.ratings = {
            node: Ratings(node, ground.size, trust, trust.thresholds(None)) for node in sorted(network.joined)
        }
        self.limits = {node: FeedbackLimits() for node in self.ratings}
        draw = Random(f"{self._seed}/bought")
        self.bought = {node: sum(draw.random() < _BOUGHT for _ in range(_CLIENTS)) for node in self.ratings}
        self.component = self._components()

    def rounds(self) -> Iterator[Round]:
        """Play all rounds."""
        for _ in range(self.ground.reach):
            self.exchange(0)
        for number in range(self.ground.rounds):
            draw = Random(f"{self._seed}/messages/{number}")
            drawn = [draw.random() for _ in self.network.origins]
            is_false = [chance < part for chance, part in zip(drawn, self.falsehood(number), strict=True)]
            flows = [
                self.flow(origin, false, number) for origin, false in zip(self.network.origins, is_false, strict=True)
            ]
            yield self._round(number, is_false, flows)
            for publisher, (false, flow) in enumerate(zip(is_false, flows, strict=True)):
                self._rate(number, publisher, false, flow)
            if self.setting.attack == "whitewashing" and (number + 1) % _REJOIN == 0:
                self._whitewash()
            self.exchange(number + 1)

    def is_on(self, number: int) -> bool:
        """Return whether bad nodes behave badly in this round."""
        return self.setting.attack not in ("on-off", "collusion") or number % _PERIOD >= _PERIOD // 2

    def falsehood(self, number: int) -> list[float]:
        """Return how likely the message of each publisher is false in this round."""
        profiles = (self.profile[origin] for origin in self.network.origins)
        return [FALSE[HONEST if profile == BAD and not self.is_on(number) else profile] for profile in profiles]

    # --- what nodes tell each other

    def exchange(self, now: float) -> None:
        """Let all nodes work out ratings and tell their neighbours what has changed in the paths that end there."""
        updates = []
        for node, ratings in self.ratings.items():
            others = list(self.network.joined[node])
            ratings.refresh(others, set(others), now)
            if ratings.table is not None:
                for other in others:
                    update = ratings.table.update_for(other)
                    if update is not None:
                        updates.append((node, other, self._told(node, update)))
        for node, other, update in updates:
            table = self.ratings[other].table
            assert table is not None
            beyond = self.network.beyond[other, node]
            believed = {walk: total for walk, total in update.sums.items() if walk.origin in beyond}
            TrustTable.check(node, update)
            assert self.ratings[other].heard(table, node, Update(update.number, update.is_whole, believed))
        for node in {other for _, other, _ in updates}:
            self.ratings[node].refresh(list(self.network.joined[node]), set(self.network.joined[node]), now)

    def _told(self, node: str, update: Update) -> Update:
        """Return what a node tells in place of what it knows: the most that its neighbours believe."""
        attack = self.setting.attack
        if self.profile[node] != BAD or attack not in ("stuffing", "mouthing", "collusion"):
            return update
        sums = dict(update.sums)
        for walk, total in sums.items():
            if total is not None and walk.edges:
                if attack == "stuffing" or (attack == "collusion" and self.profile[walk.origin] == BAD):
                    sums[walk] = walk.edges * UNIT
                elif self.profile[walk.origin] != BAD:
                    sums[walk] = 0
        return Update(update.number, update.is_whole, sums)

    # --- messages

    def flow(self, origin: str, is_false: bool, number: int) -> Flow:
        """Let a message go its way."""
        accepted = {(origin, is_false): ""}
        is_altered = False
        waiting = deque(self._sent(origin, is_false, frozenset({origin}), (origin,)))
        while waiting:
            copy = waiting.popleft()
            if (copy.node, copy.is_false) in accepted:
                continue
            signs = self._accepts(origin, copy)
            if signs is None:
                continue
            accepted[copy.node, copy.is_false] = copy.sender
            signers = copy.signers | {copy.node} if signs else copy.signers
            false = copy.is_false
            if self.profile[copy.node] == BAD and self.is_on(number):
                if self.setting.attack in ("stripping", "collusion") and self.profile[origin] != BAD:
                    signers = frozenset({origin})
                if self.setting.attack in ("tampering", "collusion") and not false:
                    false = is_altered = True
            waiting.extend(self._sent(copy.node, false, signers, (*copy.path, copy.node)))
        return Flow(accepted, is_altered)

    def _sent(self, node: str, is_false: bool, signers: frozenset[str], path: tuple[str, ...]) -> Iterator[MessageCopy]:
        for other in self.network.joined[node]:
            if other not in path:
                yield MessageCopy(node, other, is_false, signers, path)

    def _accepts(self, issuer: str, copy: MessageCopy) -> bool | None:
        """Return whether a node signs a copy that it accepts; None if it refuses it, as `token_exchange.weigh` does."""
        if self.profile[copy.node] != HONEST:
            return True
        beyond = self.network.beyond[copy.node, copy.sender]
        if issuer not in beyond:
            return None
        ruled = self.ratings[copy.node].rule(copy.sender, copy.signers.intersection(beyond), beyond[issuer])
        return ruled.signs if ruled.ruling.accepts else None

    def _round(self, number: int, is_false: list[bool], flows: list[Flow]) -> Round:
        false = false_accepted = good = good_refused = 0
        honest = [node for node, profile in self.profile.items() if profile == HONEST]
        for origin, is_wrong, flow in zip(self.network.origins, is_false, flows, strict=True):
            if flow.is_altered or (is_wrong and self.profile[origin] == BAD):
                others = [node for node in honest if node != origin]
                false += len(others)
                false_accepted += sum((node, True) in flow.accepted for node in others)
            if self.profile[origin] == HONEST and not is_wrong:
                there = self.component[origin]
                reached = [node for node in honest if node != origin and self.component[node] == there]
                good += len(reached)
                good_refused += sum((node, False) not in flow.accepted for node in reached)
        return Round(number, false, false_accepted, good, good_refused)

    # --- evidence

    def _rate(self, number: int, publisher: int, is_false: bool, flow: Flow) -> None:
        """Let subscribers of honest nodes rate what came from a neighbour."""
        is_friend = self.profile[self.network.origins[publisher]] == BAD
        for (node, is_wrong), sender in flow.accepted.items():
            if not sender or self.profile[node] != HONEST:
                continue
            draw = Random(f"{self._seed}/ratings/{number}/{publisher}/{node}/{is_wrong}")
            bought = self.bought[node] if self.setting.attack in ("stuffing", "mouthing", "collusion") else 0
            helps = is_friend or is_wrong is not is_false  # it is of a bad node, or a bad node has changed it
            message = (str(publisher), f"{number}/{is_wrong}")
            for client in range(_CLIENTS):
                chance, mistake = draw.random(), draw.random() < _MISTAKEN
                if client >= bought:
                    if chance < _VOTING:
                        self._hear(node, sender, number, message, client, is_wrong is mistake)
                elif helps and self.setting.attack in ("stuffing", "collusion"):
                    self._hear(node, sender, number, message, client, True)
                elif not helps and self.setting.attack in ("mouthing", "collusion"):
                    self._hear(node, sender, number, message, client, False)

    def _hear(self, node: str, sender: str, now: int, message: tuple[str, str], client: int, is_good: bool) -> None:
        ratings = self.ratings[node]
        assert ratings.settings.feedback is not None
        bounds = ratings.settings.feedback
        if self.limits[node].judge(bounds, f"c{client}", sender, message, is_good, now) is None:
            weights = ratings.settings.weights
            ratings.evidence[sender] = ratings.of(sender, now).with_message(is_good, weights, now)

    def _whitewash(self) -> None:
        """Give new names to bad nodes that their honest neighbours do not trust on the average."""
        for node, profile in self.profile.items():
            raters = [other for other in self.network.joined[node] if self.profile[other] == HONEST]
            held = [self.ratings[other].held(node) or 0.0 for other in raters]
            if profile == BAD and held and sum(held) < self.setting.sign * len(held):
                for other in raters:
                    self.ratings[other].evidence[node] = Evidence()

    # --- who is what

    def _profiles(self, draw: Random) -> dict[str, int]:
        """Draw as many bad and careless nodes as asked for, among publishers' nodes as among the others."""
        names = sorted(self.network.joined)
        profile = dict.fromkeys(names, HONEST)
        for group in (list(self.network.origins), [name for name in names if name not in self.network.origins]):
            draw.shuffle(group)
            bad, careless = round(self.setting.bad * len(group)), round(self.setting.careless * len(group))
            profile |= dict.fromkeys(group[bad : bad + careless], CARELESS)
            if self.setting.attack != "none":
                profile |= dict.fromkeys(group[:bad], BAD)
        return profile

    def _components(self) -> dict[str, str]:
        """Return for each node that is not bad one for all that it can reach without bad ones."""
        found: dict[str, str] = {}
        for begin in self.network.joined:
            waiting = [begin] if self.profile[begin] != BAD and begin not in found else []
            while waiting:
                node = waiting.pop()
                found[node] = begin
                waiting += [
                    other for other in self.network.joined[node] if other not in found and self.profile[other] != BAD
                ]
        return found
