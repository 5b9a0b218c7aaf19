"""The metrics that some of several readers may ever read: at any time, whatever messages say.

A node does not know what the time, the values and the history of readers elsewhere will be. It can know of a metric
that no policy ever shows it to any of them: then nothing is lost if they are not sent it.
"""

from collections.abc import Collection, Iterable, Sequence

from penstock.policy.sparkplug.name_patterns import NamePatterns
from penstock.policy.sparkplug.policies import (
    METRICS,
    RESERVED,
    AccessPolicy,
    Context,
    Granted,
    Grants,
    attributes_of,
    names_of,
)

MAX_NAMES = 10_000
"""Names of metrics that an answer is kept for."""


class Unreachable(NamePatterns):
    """The metrics that no reader may ever read, and that no condition asks for.

    A metric of which nobody can say which one it is counts as one of them, unless a reader may read whatever there is,
    or conditions there ask for metrics: they cannot be evaluated beside such a metric, and must not be without it.
    """

    __slots__ = ("_asked", "_cached", "_readers", "has_unknown")

    def __init__(self, readers: Iterable[Sequence[AccessPolicy]], asked: frozenset[str]) -> None:
        super().__init__(())
        self._readers = tuple(readers)
        self._asked = asked
        self._cached: dict[str, bool] = {}
        self.has_unknown = not asked and not any(map(_may_show_all, self._readers))

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: str) -> bool:
        if name not in self._cached:
            if len(self._cached) >= MAX_NAMES:
                self._cached.clear()
            is_needed = name in self._asked or any(may_ever_show(policies, name) for policies in self._readers)
            self._cached[name] = not is_needed
        return self._cached[name]


def may_ever_show(policies: Sequence[AccessPolicy], name: str) -> bool:
    """Return whether these policies, all of one reader on one topic, may show it a metric in some message."""
    excluding = [policy for policy in policies if name in names_of(policy.exceptions)]
    granting = (policy for policy in policies if name not in names_of(policy.exceptions))
    return any(not any(_applies_with(other, policy) for other in excluding) for policy in granting)


def _may_show_all(policies: Sequence[AccessPolicy]) -> bool:
    """Return whether these policies may show a message to which no exception applies."""
    excluding = [policy for policy in policies if policy.exceptions]
    granting = (policy for policy in policies if not policy.exceptions)
    return any(not any(_applies_with(other, policy) for other in excluding) for policy in granting)


def _applies_with(other: AccessPolicy, policy: AccessPolicy) -> bool:
    """Return whether the exceptions of the other are known to count wherever the policy grants."""
    is_as_wide = other.condition is None or (
        policy.condition is not None and policy.condition.text == other.condition.text
    )
    return is_as_wide and (other.valid is None or other.valid.covers(policy.valid))


def asked_by(policies: Iterable[AccessPolicy]) -> frozenset[str]:
    """Return the metrics that conditions of policies ask for; with `metrics`, if they may ask for any."""
    conditions = (policy.condition for policy in policies if policy.condition is not None)
    asked = frozenset(name for condition in conditions for name in attributes_of(condition))
    return asked - (RESERVED - {METRICS})


class ReachGrants(Grants):
    """A grant to several readers at once, of all that some of them may ever read. They are owed the rest: other
    policies may let them read it.
    """

    __slots__ = ("_granted", "is_for_nobody")

    def __init__(self, readers: Collection[Sequence[AccessPolicy]], asked: frozenset[str]) -> None:
        super().__init__(())
        self.owes = True
        self.is_for_nobody = not readers
        """No policy is about any of them."""
        is_unknown = METRICS in asked
        self._granted = Granted(("beyond",), NamePatterns(()) if is_unknown else Unreachable(readers, asked), ())

    def decide(self, contexts: Sequence[Context], doubt: str = "") -> Granted | None:
        return self._granted


class NothingGranted(Grants):
    """Nothing is granted, and everything owed."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())
        self.owes = True


NOTHING_GRANTED = NothingGranted()
