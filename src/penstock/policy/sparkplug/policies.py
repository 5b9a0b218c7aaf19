"""Access policies on Sparkplug messages: who may read or write which messages, and which metrics are excepted.

sparkplug Definition 1: a policy is ⟨subject, topic filter, exceptions, privilege, condition⟩. A policy applies if its
condition is true (Definition 2); without one that applies there is no access, and the exceptions of all that apply are
taken out (Definitions 3 and 5). A condition that fails never widens access: its policy grants nothing, and its
exceptions are taken out all the same. A policy that is not valid at the time does not apply.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from penstock.language.condition import Condition
from penstock.language.tree import Attribute, Has, walk
from penstock.language.values import Value
from penstock.model.errors import PolicyError
from penstock.model.topic_tree import FilterIndex, place_index
from penstock.model.values import Timestamp
from penstock.policy.sparkplug.name_patterns import NamePatterns
from penstock.policy.sparkplug.validity import Validity

Privilege = Literal["read", "write"]

EVERYBODY = "*"
"""The subject that stands for all."""

METRICS, MESSAGE, SUBJECT, NOW = "metrics", "message", "subject", "now"
RESERVED = frozenset({METRICS, MESSAGE, SUBJECT, NOW})
"""Attributes of conditions beside metrics by name; a metric of such a name is found in `metrics`."""


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """One policy. `subject` is `client:ID`, `user:NAME`, `group:NAME`, `edge:GROUP/EDGE` or `*`."""

    subject: str
    filter: str
    exceptions: tuple[str, ...]
    """Names of metrics, or patterns with `*` (anything) and `?` (one character); a backslash removes that meaning."""
    privilege: Privilege
    condition: Condition | None = None
    """None: always."""
    id: str = field(default="", compare=False)
    """The name of the policy in explanations: its name, or its position in a file."""
    valid: Validity | None = None
    """The times at which it is valid; None: at all times."""

    @property
    def is_unconditional(self) -> bool:
        """True if it applies to every message, at any time."""
        return self.condition is None and self.valid is None

    @property
    def is_timed(self) -> bool:
        """True if the time has a say."""
        return self.valid is not None or _reads_now(self)


def _reads_now(policy: AccessPolicy) -> bool:
    return policy.condition is not None and NOW in attributes_of(policy.condition)


_KINDS = ("client", "user", "group", "edge")


def parse_subject(written: str) -> str:
    """Parse the subject of a policy: `a1` is a client id, `G1/E1` an edge node; raises `PolicyError`."""
    if written == EVERYBODY:
        return written
    kind, colon, name = written.partition(":")
    if not colon or kind not in _KINDS:
        kind, name = ("edge" if written.count("/") == 1 else "client"), written
    if not name or (kind == "edge" and (name.count("/") != 1 or not all(name.split("/")))):
        raise PolicyError(
            f"`{written}` is no subject: expected a client id, `GROUP/EDGE`, `client:ID`, `user:NAME`, `group:NAME`, "
            "`edge:GROUP/EDGE` or `*`"
        )
    return f"{kind}:{name}"


class Granted(NamedTuple):
    """The result of the policies that apply to one message."""

    policies: tuple[str, ...]
    """The ids of the policies that grant."""
    exceptions: NamePatterns
    failures: tuple[tuple[str, str], ...]
    """The ids of policies whose condition could not be evaluated, and why: only their exceptions count."""


Context = Mapping[str, Value]
ASKED_AGAIN = 1.0
"""Seconds after which a condition that reads the time is asked again for what it withheld."""


class Grants:
    """The candidate policies for one kind of access by one subject to one topic (sparkplug Listing 1, line 12)."""

    __slots__ = ("_always", "_conditional", "_fixed", "_valid", "owes", "reads", "reads_now", "reads_subject")

    def __init__(self, policies: Sequence[AccessPolicy]) -> None:
        fixed = [policy for policy in policies if policy.is_unconditional]
        self._always = tuple(name for policy in fixed for name in policy.exceptions)
        self._fixed = Granted(tuple(policy.id for policy in fixed), NamePatterns(self._always), ())
        self._conditional = tuple(policy for policy in policies if not policy.is_unconditional)
        conditions = (policy.condition for policy in self._conditional if policy.condition is not None)
        read = frozenset(name for condition in conditions for name in attributes_of(condition))
        self._valid = tuple(policy.valid for policy in self._conditional if policy.valid is not None)
        self.reads = read | {NOW} if self._valid else read
        """The attributes that conditions read; the time is one where it decides."""
        self.reads_subject = SUBJECT in self.reads
        self.reads_now = NOW in self.reads
        self.owes = self.reads_now
        """A reader is owed also what messages said that were denied as a whole: another time may grant it."""

    def next_change(self, now: float, is_exact: bool = False) -> float | None:
        """Return the next time at which another result is possible for what was decided now; None: never.

        Of conditions that read the time it is not known, so these are asked again soon, unless it is to be exact.
        """
        if not self.reads_now:
            return None
        changes = [at for at in (valid.next_change(now) for valid in self._valid) if at is not None]
        if not is_exact and any(_reads_now(policy) for policy in self._conditional):
            changes.append(now + ASKED_AGAIN)
        return min(changes, default=None)

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self._fixed.policies or self._conditional)

    def decide(self, contexts: Sequence[Context], doubt: str = "") -> Granted | None:
        """Return what is granted; None: no policy applies.

        Of several contexts, for the several values that a message may have of one metric, a policy grants if it does so
        in all, and its exceptions count if they do in one. `doubt` says why conditions on metrics cannot be evaluated,
        if they cannot.
        """
        if not self._conditional:
            return self._fixed if self._fixed.policies else None
        granting = list(self._fixed.policies)
        excluding: list[str] = []
        failures: list[tuple[str, str]] = []
        for policy in self._conditional:
            grants, excludes, failure = judged(policy, contexts, doubt)
            if grants:
                granting.append(policy.id)
            if failure:
                failures.append((policy.id, failure))
            if excludes:
                excluding += policy.exceptions
        if not granting:
            return None
        if not excluding:
            return self._fixed._replace(policies=tuple(granting), failures=tuple(failures))
        return Granted(tuple(granting), names_of((*self._always, *excluding)), tuple(failures))


names_of = lru_cache(maxsize=10_000)(NamePatterns)
_BESIDE_METRICS = RESERVED - {METRICS}


def judged(policy: AccessPolicy, contexts: Sequence[Context], doubt: str = "") -> tuple[bool, bool, str]:
    """Return whether a policy grants, whether its exceptions count, and why its condition failed."""
    condition = policy.condition
    is_valid = is_valid_in(policy, contexts[0])
    if is_valid is None:
        return False, True, "the time is not known"
    if not is_valid:
        return False, False, ""
    if condition is None:
        return True, True, ""
    if doubt and not attributes_of(condition) <= _BESIDE_METRICS:
        return False, True, doubt
    outcomes = [condition.decide(context) for context in contexts]
    failure = next((str(outcome) for outcome in outcomes if not isinstance(outcome, bool)), "")
    return all(outcome is True for outcome in outcomes), bool(failure) or True in outcomes, failure


def is_valid_in(policy: AccessPolicy, context: Context) -> bool | None:
    """Return whether a policy is valid at the time of a context; None if the time is not known."""
    if policy.valid is None:
        return True
    now = context.get(NOW)
    return policy.valid.holds(now.nanos / SECOND) if isinstance(now, Timestamp) else None


SECOND = 1_000_000_000
"""Nanoseconds."""


@lru_cache(maxsize=100_000)
def attributes_of(condition: Condition) -> frozenset[str]:
    """Return the attributes that a condition reads."""
    names = [node.name for node, _ in walk(condition.tree) if isinstance(node, Attribute)]
    names += [node.name for node, _ in walk(condition.tree) if isinstance(node, Has) and node.operand is None]
    return frozenset(names)


class Access:
    """All policies of a domain, found by subject, topic and privilege."""

    def __init__(self, policies: Iterable[AccessPolicy]) -> None:
        self.policies = tuple(policies)
        self._of: dict[tuple[str, Privilege], list[AccessPolicy]] = {}
        for policy in self.policies:
            self._of.setdefault((policy.subject, policy.privilege), []).append(policy)
        self._trees: dict[tuple[str, Privilege], FilterIndex[int]] = {}
        self._alike: dict[frozenset[tuple[tuple[str, ...], str, Validity | None]], Grants] = {}
        self.is_timed = any(policy.is_timed for policy in self.policies)
        """The time has a say in some policy."""
        self._about: dict[Privilege, tuple[list[AccessPolicy], FilterIndex[int]]] = {}

    def subjects(self) -> frozenset[str]:
        """Return the subjects of all policies."""
        return frozenset(policy.subject for policy in self.policies)

    def about(self, topic: str, privilege: Privilege) -> list[AccessPolicy]:
        """Return the policies about this topic and privilege, of whatever subject."""
        if privilege not in self._about:
            policies = [policy for policy in self.policies if policy.privilege == privilege]
            self._about[privilege] = policies, place_index(policy.filter for policy in policies)
        policies, tree = self._about[privilege]
        return [policies[place] for place in sorted(tree.match(topic))]

    def candidates(self, subjects: Iterable[str], topic: str, privilege: Privilege) -> list[AccessPolicy]:
        """Return the policies for one of these subjects that are about this topic and privilege."""
        candidates: list[AccessPolicy] = []
        for subject in dict.fromkeys((*subjects, EVERYBODY)):
            policies = self._of.get((subject, privilege))
            if policies:
                candidates += [policies[place] for place in sorted(self._tree(subject, privilege).match(topic))]
        return candidates

    def grants(self, subjects: Iterable[str], topic: str, privilege: Privilege) -> Grants:
        """Return the compiled candidates: one object for all subjects with the same grants, so that they share views.
        The ids in it may be those of another subject's policies; explanations use `candidates`.
        """
        candidates = self.candidates(subjects, topic, privilege)
        key = frozenset(
            (policy.exceptions, policy.condition.text if policy.condition else "", policy.valid)
            for policy in candidates
        )
        grants = self._alike.get(key)
        if grants is None:
            grants = self._alike[key] = Grants(candidates)
        return grants

    def _tree(self, subject: str, privilege: Privilege) -> FilterIndex[int]:
        key = subject, privilege
        if key not in self._trees:
            self._trees[key] = place_index(policy.filter for policy in self._of[key])
        return self._trees[key]
