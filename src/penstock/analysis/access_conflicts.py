"""Access policies beside each other: which can never apply, say nothing new, or take away what another grants.

All policies that apply count together, and exceptions win (sparkplug Definitions 3 and 5). So nothing here is an error:
but a policy that changes nothing, or one whose grant is always cut by another, is often not what was meant.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec

from penstock.domain import Domain
from penstock.domain.checks.access import KnownSubjects, oddities
from penstock.language.ranges.ranges import covers as ranges_cover
from penstock.language.ranges.ranges import intersects
from penstock.model.topic import covers, overlaps
from penstock.policy.sparkplug.edge_nodes import Plant
from penstock.policy.sparkplug.name_patterns import Names, is_pattern
from penstock.policy.sparkplug.policies import EVERYBODY, AccessPolicy, Privilege
from penstock.policy.sparkplug.reasons import names

MOST_TRIED = 10
"""Policies beside one that are looked at, of each sort: what is found must not cost the square of their number."""


class Finding(msgspec.Struct, frozen=True):
    """Something that may not be what was meant."""

    kind: str
    policy: str
    """Its id."""
    other: str
    """The id of the policy that it is so because of, if there is one."""
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


def conflicts(domain: Domain, policies: Sequence[AccessPolicy], plant: Plant | None = None) -> Iterator[Finding]:
    """All findings; with the births in `plant` also exceptions that name no metric."""
    people = KnownSubjects(domain)
    live: list[AccessPolicy] = []
    for policy in policies:
        idle = next((odd for odd in oddities(policy, people) if odd.is_idle), None)
        if idle is None:
            live.append(policy)
        else:
            yield Finding("never", policy.id, "", idle.what)
    yield from _Beside(domain, live).findings()
    if plant is not None:
        yield from _unmatched(live, plant)


@dataclass(frozen=True, slots=True, eq=False)
class _One:
    """A policy, and where it stands among all."""

    place: int
    policy: AccessPolicy
    exceptions: Names

    def excepts(self, written: str) -> bool:
        """Whether it takes out all that this exception of another policy does."""
        return written in self.policy.exceptions or (not is_pattern(written) and written in self.exceptions)


class _Filters:
    """Policies by their topic filters: those that cover another filter, or overlap with it."""

    def __init__(self) -> None:
        self._below: dict[str, _Filters] = {}
        self._here: deque[_One] = deque()
        """Those without a condition first: they tell most, and not all are looked at."""

    def add(self, one: _One) -> None:
        node = self
        for level in one.policy.filter.split("/"):
            node = node._below.setdefault(level, _Filters())
        if one.policy.condition is None:
            node._here.appendleft(one)
        else:
            node._here.append(one)

    def covering(self, levels: Sequence[str]) -> Iterator[_One]:
        if "#" in self._below:
            yield from self._below["#"]._here
        if not levels:
            yield from self._here
            return
        for level in dict.fromkeys((levels[0], "+" if levels[0] != "#" else "#")):
            if level != "#" and level in self._below:
                yield from self._below[level].covering(levels[1:])

    def overlapping(self, levels: Sequence[str]) -> Iterator[_One]:
        """Some of them: it gives up after so many places."""
        waiting = deque([(self, 0)])
        for _ in range(MOST_TRIED):
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
            below = (node._below.get(one) for one in chosen if one != "#")
            waiting.extend((one, following) for one in islice(filter(None, below), MOST_TRIED))


class _Beside:
    """Policies that can apply, and for each those that apply to the same subject."""

    def __init__(self, domain: Domain, policies: Iterable[AccessPolicy]) -> None:
        self._filters: dict[tuple[str, Privilege], _Filters] = {}
        self._all = [_One(place, policy, Names(policy.exceptions)) for place, policy in enumerate(policies)]
        self._also = _also(domain)
        self._first: dict[AccessPolicy, _One] = {}
        self._twice: set[int] = set()
        for one in self._all:
            if self._first.setdefault(_meaning(one.policy), one) is not one:
                self._twice.add(one.place)
                continue
            key = one.policy.subject, one.policy.privilege
            self._filters.setdefault(key, _Filters()).add(one)

    def findings(self) -> Iterator[Finding]:
        for one in self._all:
            policy = one.policy
            if one.place in self._twice:
                first = self._first[_meaning(policy)].policy.id
                yield Finding("duplicate", policy.id, first, f"says what `{first}` says")
                continue
            if "*" in policy.exceptions:
                yield Finding("empty", policy.id, "", "grants messages without any metric")
            wider = list(self._wider(one))
            redundant = next((other.policy for other in wider if _says_as_much(other, one)), None)
            # One with exceptions is there for these; one without for what it grants.
            if policy.exceptions and redundant is None:
                told = self._narrowing(one) or _overruled(one, wider)
            else:
                told = None if policy.exceptions else _overruled(one, wider)
            if told is not None:
                yield told
            elif redundant is not None:
                what = f"changes nothing beside `{redundant.id}`{_about(redundant)}"
                yield Finding("redundant", policy.id, redundant.id, what)

    def _wider(self, one: _One) -> Iterator[_One]:
        """Others that are about all that it is about."""
        levels = one.policy.filter.split("/")
        for filters in self._filters_of(one):
            found = (other for other in filters.covering(levels) if covers(other.policy.filter, one.policy.filter))
            yield from (other for other in islice(found, MOST_TRIED) if other is not one)

    def _narrowing(self, one: _One) -> Finding | None:
        """The first other whose grant it cuts in part."""
        levels = one.policy.filter.split("/")
        for filters in self._filters_of(one):
            for other in islice(filters.overlapping(levels), MOST_TRIED):
                if other is one or _is_told(one.policy, other.policy):
                    continue
                missing = [name for name in one.policy.exceptions if not other.excepts(name)]
                if missing and _meet(one.policy, other.policy):
                    what = f"takes {names(missing)} out of what `{other.policy.id}` grants{_when(one.policy)}"
                    return Finding("conflict", one.policy.id, other.policy.id, what)
        return None

    def _filters_of(self, one: _One) -> Iterator[_Filters]:
        policy = one.policy
        for subject in dict.fromkeys((policy.subject, *self._also.get(policy.subject, ()), EVERYBODY)):
            filters = self._filters.get((subject, policy.privilege))
            if filters is not None:
                yield filters


def _also(domain: Domain) -> dict[str, tuple[str, ...]]:
    """For clients and edge nodes of the domain, what else policies may call them."""
    found: dict[str, tuple[str, ...]] = {}
    for name, client in domain.clients.items():
        edge = (f"edge:{client.edge}",) if client.edge is not None else ()
        own = tuple(dict.fromkeys((f"client:{name}", f"client:{client.client_id(name) or name}", *edge)))
        also = (*own, *(f"group:{group}" for group in client.groups))
        if client.user is not None:
            also = (*also, f"user:{client.user}")
        found |= dict.fromkeys(own, also)
    return found


def _meaning(policy: AccessPolicy) -> AccessPolicy:
    """The policy with its exceptions in one order, to be compared."""
    return AccessPolicy(
        policy.subject, policy.filter, tuple(sorted(set(policy.exceptions))), policy.privilege, policy.condition
    )


def _holds_with(wide: AccessPolicy, narrow: AccessPolicy) -> bool:
    """Whether the first is known to apply wherever the second does."""
    if wide.condition is None or wide.condition == narrow.condition:
        return True
    return narrow.condition is not None and bool(ranges_cover(wide.condition.ranges, narrow.condition.ranges))


def _says_as_much(wide: _One, narrow: _One) -> bool:
    """Whether the first grants all that the second does, and takes out all that it takes out."""
    if not _holds_with(wide.policy, narrow.policy) or not all(map(wide.excepts, narrow.policy.exceptions)):
        return False
    # The exceptions of a condition that fails count: those of another condition may then not.
    is_same = wide.policy.condition in (None, narrow.policy.condition)
    if narrow.policy.exceptions and not is_same:
        return False
    return not _is_equal(wide, narrow) or wide.place < narrow.place


def _is_equal(left: _One, right: _One) -> bool:
    return (
        (left.policy.subject, left.policy.filter, left.policy.condition)
        == (right.policy.subject, right.policy.filter, right.policy.condition)
        and all(map(left.excepts, right.policy.exceptions))
        and all(map(right.excepts, left.policy.exceptions))
    )


def _overruled(one: _One, wider: Iterable[_One]) -> Finding | None:
    for other in wider:
        missing = [name for name in other.policy.exceptions if not one.excepts(name)]
        if missing and _holds_with(other.policy, one.policy):
            what = (
                f"what it grants always lacks {names(missing)}, which `{other.policy.id}`{_about(other.policy)} excepts"
            )
            return Finding("overruled", one.policy.id, other.policy.id, what)
    return None


def _is_told(one: AccessPolicy, other: AccessPolicy) -> bool:
    """Whether the other is said to be overruled by this one."""
    return one.subject == other.subject and covers(one.filter, other.filter) and _holds_with(one, other)


def _meet(left: AccessPolicy, right: AccessPolicy) -> bool:
    """Whether both may apply to one message."""
    if not overlaps(left.filter, right.filter):
        return False
    if left.condition is None or right.condition is None:
        return True
    return intersects(left.condition.ranges, right.condition.ranges) is not False


def _about(policy: AccessPolicy) -> str:
    return f" on `{policy.filter}`"


def _when(policy: AccessPolicy) -> str:
    return "" if policy.condition is None else f", when `{policy.condition.text}`"


def _unmatched(policies: Iterable[AccessPolicy], plant: Plant) -> Iterator[Finding]:
    """Exceptions that name no metric of the births which a policy is about."""
    seen: dict[str, frozenset[str]] = {}
    for policy in policies:
        if not policy.exceptions:
            continue
        if policy.filter not in seen:
            seen[policy.filter] = _metrics(policy.filter, plant)
        known = seen[policy.filter]
        missing = [name for name in policy.exceptions if known and not any(one in Names((name,)) for one in known)]
        if missing:
            yield Finding("unmatched", policy.id, "", f"no birth on `{policy.filter}` has {names(missing)}")


def _metrics(filter: str, plant: Plant) -> frozenset[str]:
    found: set[str] = set()
    for source in plant.sources():
        if overlaps(filter, f"spBv1.0/{source.group}/+/{'/'.join(source[1:] if source.device else source[1:2])}"):
            found.update(plant.known(source).births)
    return frozenset(found)
