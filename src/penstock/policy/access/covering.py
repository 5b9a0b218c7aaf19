"""Sets of topic filters: which of them are needed, and what they cover together."""

from collections.abc import Iterable

from penstock.model.topic import covers, is_wild, matches

_ANY = "\0"
"""A level that no filter names: no topic has it, and just the wildcards match it."""


def widest(filters: Iterable[str]) -> tuple[str, ...]:
    """Return the filters that no other one covers, sorted."""
    distinct = sorted(set(filters))
    wild: list[str] = []
    for candidate in filter(is_wild, distinct):
        if not any(covers(other, candidate) for other in wild):
            wild = [other for other in wild if not covers(candidate, other)] + [candidate]
    exact = [topic for topic in distinct if not is_wild(topic) and not any(matches(other, topic) for other in wild)]
    return tuple(sorted(exact + wild))


def is_covered(filter: str, others: list[str]) -> bool:
    """Return whether every topic that the filter matches is matched by one of the others.

    A topic with names that nobody mentions in place of the filter's wildcards is matched only by what matches there
    whatever stands; so one such topic of each length says it for all, up to the length after which nothing changes.
    """
    levels = filter.split("/")
    if levels[-1] != "#":
        return _matched([_ANY if level == "+" else level for level in levels], others)
    stem = [_ANY if level == "+" else level for level in levels[:-1]]
    shortest = len(stem) + 1 if stem in ([], [""]) else len(stem)
    longest = max([shortest, *(other.count("/") + 2 for other in others)])
    return all(_matched(stem + [_ANY] * (length - len(stem)), others) for length in range(shortest, longest + 1))


def _matched(levels: list[str], filters: list[str]) -> bool:
    topic = "/".join(levels)
    return any(matches(filter, topic) for filter in filters)
