"""Conflicts between access policies: which can never apply, change nothing, or remove what another grants.

All policies that apply count together, and exceptions win (sparkplug Definitions 3 and 5). So nothing here is an error:
but a policy that changes nothing, or one whose grant is always cut by another, is often not what was meant.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import msgspec

from penstock.domain import Domain
from penstock.domain.checks.access import KnownSubjects, oddities
from penstock.language.ranges.ranges import covers as ranges_cover
from penstock.language.ranges.ranges import intersects
from penstock.model.topic import covers, overlaps
from penstock.policy.sparkplug.edge_nodes import Plant
from penstock.policy.sparkplug.name_patterns import NamePatterns, is_pattern
from penstock.policy.sparkplug.policies import EVERYBODY, AccessPolicy, Privilege
from penstock.policy.sparkplug.reasons import names

MAX_TRIED = 10
"""Policies that are compared with one, of each sort, so that the cost does not grow with the square of their number."""


class AccessFinding(msgspec.Struct, frozen=True):
    """A policy that may not do what was meant."""

    kind: str
    policy: str
    """The id of the policy."""
    other: str
    """The id of the other policy that causes it, if there is one."""
    what: str


KINDS = {
    "never": "can never apply",
    "duplicate": "said twice",
    "redundant": "changes nothing beside another",
    "overruled": "grants what another always takes out",
    "conflict": "takes out what another grants, in part",
    "empty": "grants messages without any metric",
    "unmatched": "excepts what no birth has",
}


def conflicts(
    domain: Domain, policies: Sequence[AccessPolicy], plant: Plant | None = None, now: float | None = None
) -> Iterator[AccessFinding]:
    """Yield all findings; with the births in `plant` also exceptions that name no metric, with a time also policies
    that are over by then.
    """
    people = KnownSubjects(domain)
    live: list[AccessPolicy] = []
    for policy in policies:
        idle = next((odd for odd in oddities(policy, people) if odd.is_idle), None)
        if policy.valid is not None and now is not None and policy.valid.is_over(now):
            yield AccessFinding("never", policy.id, "", f"it is over: it was valid {policy.valid.text}")
        elif idle is None:
            live.append(policy)
        else:
            yield AccessFinding("never", policy.id, "", idle.what)
    yield from _PolicyComparison(domain, live).findings()
    if plant is not None:
        yield from _unmatched(live, plant)


@dataclass(frozen=True, slots=True, eq=False)
class _RankedPolicy:
    """A policy, and its position among all."""

    place: int
    policy: AccessPolicy
    exceptions: NamePatterns

    def excepts(self, written: str) -> bool:
        """Return whether it removes all that this exception of another policy removes."""
        return written in self.policy.exceptions or (not is_pattern(written) and written in self.exceptions)


class _Filters:
    """Policies by their topic filters: those that cover another filter, or overlap with it."""

    def __init__(self) -> None:
        self._below: dict[str, _Filters] = {}
        self._here: deque[_RankedPolicy] = deque()
        """Policies without a condition come first: they say most, and not all are compared."""

    def add(self, ranked: _RankedPolicy) -> None:
        node = self
        for level in ranked.policy.filter.split("/"):
            node = node._below.setdefault(level, _Filters())
        if ranked.policy.is_unconditional:
            node._here.appendleft(ranked)
        else:
            node._here.append(ranked)

    def covering(self, levels: Sequence[str]) -> Iterator[_RankedPolicy]:
        if "#" in self._below:
            yield from self._below["#"]._here
        if not levels:
            yield from self._here
            return
        for level in dict.fromkeys((levels[0], "+" if levels[0] != "#" else "#")):
            if level != "#" and level in self._below:
                yield from self._below[level].covering(levels[1:])

    def overlapping(self, levels: Sequence[str]) -> Iterator[_RankedPolicy]:
        """Yield some policies whose filter overlaps; the search stops after a number of branches."""
        waiting = deque([(self, 0)])
        for _ in range(MAX_TRIED):
            if not waiting:
                return
            node, depth = waiting.popleft()
            if "#" in node._below:
                yield from node._below["#"]._here
            level = levels[depth] if depth < len(levels) else ""
            if depth == len(levels) or level == "#":
                yield from node._here
            if depth == len(levels):
                continue
            following = depth if level == "#" else depth + 1
            chosen = node._below if level in ("+", "#") else (level, "+")
            below = (node._below.get(name) for name in chosen if name != "#")
            waiting.extend((child, following) for child in islice(filter(None, below), MAX_TRIED))


class _PolicyComparison:
    """Policies that can apply, each compared with those for the same subject."""

    def __init__(self, domain: Domain, policies: Iterable[AccessPolicy]) -> None:
        self._filters: dict[tuple[str, Privilege], _Filters] = {}
        self._all = [
            _RankedPolicy(place, policy, NamePatterns(policy.exceptions)) for place, policy in enumerate(policies)
        ]
        self._also = _aliases(domain)
        self._first: dict[AccessPolicy, _RankedPolicy] = {}
        self._twice: set[int] = set()
        for ranked in self._all:
            if self._first.setdefault(_meaning(ranked.policy), ranked) is not ranked:
                self._twice.add(ranked.place)
                continue
            key = ranked.policy.subject, ranked.policy.privilege
            self._filters.setdefault(key, _Filters()).add(ranked)

    def findings(self) -> Iterator[AccessFinding]:
        for ranked in self._all:
            policy = ranked.policy
            if ranked.place in self._twice:
                first = self._first[_meaning(policy)].policy.id
                yield AccessFinding("duplicate", policy.id, first, f"says what `{first}` says")
                continue
            if "*" in policy.exceptions:
                yield AccessFinding("empty", policy.id, "", "grants messages without any metric")
            wider = list(self._wider(ranked))
            redundant = next((other.policy for other in wider if _says_as_much(other, ranked)), None)
            # A policy with exceptions exists for these, a policy without for what it grants.
            if policy.exceptions and redundant is None:
                finding = self._narrowing(ranked) or _overruled(ranked, wider)
            else:
                finding = None if policy.exceptions else _overruled(ranked, wider)
            if finding is not None:
                yield finding
            elif redundant is not None:
                what = f"changes nothing beside `{redundant.id}`{_about(redundant)}"
                yield AccessFinding("redundant", policy.id, redundant.id, what)

    def _wider(self, ranked: _RankedPolicy) -> Iterator[_RankedPolicy]:
        """Yield the other policies whose filter covers the filter of this one."""
        levels = ranked.policy.filter.split("/")
        for filters in self._filters_of(ranked):
            covering = (
                other for other in filters.covering(levels) if covers(other.policy.filter, ranked.policy.filter)
            )
            yield from (other for other in islice(covering, MAX_TRIED) if other is not ranked)

    def _narrowing(self, ranked: _RankedPolicy) -> AccessFinding | None:
        """Return a finding for the first other policy whose grant it cuts in part."""
        levels = ranked.policy.filter.split("/")
        for filters in self._filters_of(ranked):
            for other in islice(filters.overlapping(levels), MAX_TRIED):
                if other is ranked or _overrules(ranked.policy, other.policy):
                    continue
                missing = [name for name in ranked.policy.exceptions if not other.excepts(name)]
                if missing and _meet(ranked.policy, other.policy):
                    what = f"takes {names(missing)} out of what `{other.policy.id}` grants{_when(ranked.policy)}"
                    return AccessFinding("conflict", ranked.policy.id, other.policy.id, what)
        return None

    def _filters_of(self, ranked: _RankedPolicy) -> Iterator[_Filters]:
        policy = ranked.policy
        for subject in dict.fromkeys((policy.subject, *self._also.get(policy.subject, ()), EVERYBODY)):
            filters = self._filters.get((subject, policy.privilege))
            if filters is not None:
                yield filters


def _aliases(domain: Domain) -> dict[str, tuple[str, ...]]:
    """Return all names that policies may use for each client and edge node of the domain."""
    names_of: dict[str, tuple[str, ...]] = {}
    for name, client in domain.clients.items():
        edge = (f"edge:{client.edge}",) if client.edge is not None else ()
        own = tuple(dict.fromkeys((f"client:{name}", f"client:{client.client_id(name) or name}", *edge)))
        also = (*own, *(f"group:{group}" for group in client.groups))
        if client.user is not None:
            also = (*also, f"user:{client.user}")
        names_of |= dict.fromkeys(own, also)
    return names_of


def _meaning(policy: AccessPolicy) -> AccessPolicy:
    """Return the policy with its exceptions in one order, to be compared."""
    return replace(policy, exceptions=tuple(sorted(set(policy.exceptions))))


def _holds_with(wide: AccessPolicy, narrow: AccessPolicy) -> bool:
    """Return whether the first is known to apply wherever the second does."""
    if wide.valid is not None and not wide.valid.covers(narrow.valid):
        return False
    if wide.condition is None or wide.condition == narrow.condition:
        return True
    return narrow.condition is not None and bool(ranges_cover(wide.condition.ranges, narrow.condition.ranges))


def _says_as_much(wide: _RankedPolicy, narrow: _RankedPolicy) -> bool:
    """Return whether the first grants all that the second grants, and removes all that the second removes."""
    if not _holds_with(wide.policy, narrow.policy) or not all(map(wide.excepts, narrow.policy.exceptions)):
        return False
    # The exceptions of a condition that fails count: those of another condition may then not.
    is_same = wide.policy.condition in (None, narrow.policy.condition)
    if narrow.policy.exceptions and not is_same:
        return False
    return not _is_equal(wide, narrow) or wide.place < narrow.place


def _is_equal(left: _RankedPolicy, right: _RankedPolicy) -> bool:
    return (
        (left.policy.subject, left.policy.filter, left.policy.condition, left.policy.valid)
        == (right.policy.subject, right.policy.filter, right.policy.condition, right.policy.valid)
        and all(map(left.excepts, right.policy.exceptions))
        and all(map(right.excepts, left.policy.exceptions))
    )


def _overruled(ranked: _RankedPolicy, wider: Iterable[_RankedPolicy]) -> AccessFinding | None:
    for other in wider:
        missing = [name for name in other.policy.exceptions if not ranked.excepts(name)]
        if missing and _holds_with(other.policy, ranked.policy):
            what = (
                f"what it grants always lacks {names(missing)}, which `{other.policy.id}`{_about(other.policy)} excepts"
            )
            return AccessFinding("overruled", ranked.policy.id, other.policy.id, what)
    return None


def _overrules(policy: AccessPolicy, other: AccessPolicy) -> bool:
    """Return whether the other policy is reported as overruled by this one."""
    return policy.subject == other.subject and covers(policy.filter, other.filter) and _holds_with(policy, other)


def _meet(left: AccessPolicy, right: AccessPolicy) -> bool:
    """Return whether both may apply to one message."""
    if not overlaps(left.filter, right.filter):
        return False
    if left.valid is not None and not left.valid.meets(right.valid):
        return False
    if left.condition is None or right.condition is None:
        return True
    return intersects(left.condition.ranges, right.condition.ranges) is not False


def _about(policy: AccessPolicy) -> str:
    return f" on `{policy.filter}`"


def _when(policy: AccessPolicy) -> str:
    when = "" if policy.condition is None else f", when `{policy.condition.text}`"
    return when if policy.valid is None else f"{when}, valid {policy.valid.text}"


def _unmatched(policies: Iterable[AccessPolicy], plant: Plant) -> Iterator[AccessFinding]:
    """Yield findings for exceptions that match no metric of the births on the policy's topics."""
    seen: dict[str, frozenset[str]] = {}
    for policy in policies:
        if not policy.exceptions:
            continue
        if policy.filter not in seen:
            seen[policy.filter] = _metrics(policy.filter, plant)
        metrics = seen[policy.filter]
        missing = [
            name
            for name in policy.exceptions
            if metrics and not any(metric in NamePatterns((name,)) for metric in metrics)
        ]
        if missing:
            yield AccessFinding("unmatched", policy.id, "", f"no birth on `{policy.filter}` has {names(missing)}")


def _metrics(filter: str, plant: Plant) -> frozenset[str]:
    metrics: set[str] = set()
    for source in plant.sources():
        if overlaps(filter, f"spBv1.0/{source.group}/+/{'/'.join(source[1:] if source.device else source[1:2])}"):
            metrics.update(plant.known(source).births)
    return frozenset(metrics)
