"""Context contracts as data (contracts §2.3, Table 1), and what they compile to.

| of a producer | becomes |
| --- | --- |
| filter, condition | the advertisement: `advertisement` |
| quality guarantees | a check of each event at conform, and of what a rule releases: `quality_need.why_not` |
| privacy rules | conditions on attributes of requests: `commitments`; the rest is asked at release |

| of a consumer | becomes |
| --- | --- |
| filter, condition of a want | the subscription; the condition is asked of what is released: `ContextWant.unmet` |
| quality needs of a want | a check of each event at release: `quality_need.why_not` |
| privacy guarantees (purpose, retention, situations, attributes) | attributes of requests: `request_attributes` |
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from penstock.language.condition import Condition
from penstock.model.content.content import Content
from penstock.model.errors import PolicyError, TopicError
from penstock.model.quality import check_id
from penstock.model.topic import parse_filter
from penstock.policy.contracts.abac import AttributeCategory, AttributeName, Attributes, Compare, Relation, Texts
from penstock.policy.contracts.degrade import Degradation
from penstock.policy.quality.needs import Constraint, Need
from penstock.policy.statements.advertisement import ProducerAdvertisement, Scope

MAX_RULES = 64
"""Rules of a producer's contract, and wants of a consumer's."""

_subject = partial(AttributeName, AttributeCategory.SUBJECT)
PURPOSE = _subject("purpose")
PROMISED = _subject("situation")
"""The situations that a consumer commits itself to act in."""
RETENTION = _subject("retention")
"""Seconds that a consumer keeps what it gets."""
ACTION = AttributeName(AttributeCategory.ACTION, "action")
ACCESS = "access"
RETAIN = "retain"
"""The obligation to delete after a number of seconds."""

SHOWN = frozenset({"user", "certificate", "token-issuer"})
"""Attributes that a client may show when it connects: then its node knows them, whatever the domain says."""
RESERVED = frozenset(name.attribute for name in (PURPOSE, PROMISED, RETENTION))
"""Attributes that contracts set, and that a client cannot be given."""

Subject = tuple[tuple[str, Texts], ...]
"""Attributes of a subject, by name."""


@dataclass(frozen=True, slots=True)
class PrivacyRule:
    """One way to get a producer's context. All of its conditions must hold."""

    id: str
    purposes: Texts | None = None
    """The purposes that it may be used for; None: any."""
    visibility: Subject = ()
    """The subjects with access: of each attribute named, one of these values."""
    retention: float | None = None
    """Seconds that it may be kept at most; None: for ever."""
    during: Texts = frozenset()
    """Situations that must be open, and that the consumer commits itself to."""
    outside: Texts = frozenset()
    """Situations that must not be open."""
    quality: tuple[Need, ...] = ()
    """The quality that the released event must have, so that the best is for some purposes only."""
    degrade: tuple[Degradation, ...] = ()
    guarantees: tuple[Constraint, ...] = ()
    """The quality that is guaranteed of what is released by this rule."""

    def __post_init__(self) -> None:
        check_id(self.id)
        if self.purposes is not None and not self.purposes:
            raise PolicyError(f"rule `{self.id}` allows no purpose")
        if conflicting := self.during & self.outside:
            raise PolicyError(f"rule `{self.id}` is both during and outside of `{min(conflicting)}`")
        if any(not values for _, values in self.visibility):
            raise PolicyError(f"rule `{self.id}` is visible to nobody")
        _check_retention(f"rule `{self.id}`", self.retention)

    def commitments(self) -> Iterator[Compare]:
        """Yield the conditions on the consumer's contract alone, whatever the event and the time."""
        yield Compare(ACTION, Relation.ONLY, frozenset({ACCESS}))
        if self.purposes is not None:
            yield Compare(PURPOSE, Relation.ONLY, self.purposes)
        for name, values in self.visibility:
            yield Compare(_subject(name), Relation.ANY_OF, values)
        if self.retention is not None:
            yield Compare(RETENTION, Relation.AT_MOST, number=self.retention)
        if self.during:
            yield Compare(PROMISED, Relation.ALL_OF, self.during)
        if self.outside:
            yield Compare(PROMISED, Relation.NONE_OF, self.outside)


@dataclass(frozen=True, slots=True)
class ProducerContract:
    """The guarantees of a producer, and the consumers of its context."""

    name: str
    producers: Texts
    """The clients that it binds."""
    filter: str
    condition: Condition | None = None
    rules: tuple[PrivacyRule, ...] = ()
    """None: there is no privacy requirement."""
    guarantees: tuple[Constraint, ...] = ()
    scope: Scope | None = None
    xacml: str = ""
    """The text of a policy in XACML that must permit it too (`privacy.policy_in`); empty: none."""

    def __post_init__(self) -> None:
        check_id(self.name)
        _check_bound(self.name, self.producers)
        _check_filter(self.filter)
        ids = [rule.id for rule in self.rules]
        if len(ids) > MAX_RULES or len(set(ids)) < len(ids):
            raise PolicyError(f"contract `{self.name}` has more than {MAX_RULES} rules, or two of one id")

    @property
    def is_private(self) -> bool:
        """p of contracts §2.2."""
        return bool(self.rules or self.xacml)


@dataclass(frozen=True, slots=True)
class ContextWant:
    """A want of a consumer: context, and the quality that it needs."""

    name: str
    filter: str
    condition: Condition | None = None
    needs: tuple[Constraint, ...] = ()
    scope: Scope | None = None

    def __post_init__(self) -> None:
        check_id(self.name)
        _check_filter(self.filter)

    @property
    def asks(self) -> bool:
        """True if it asks more of events than their topic."""
        return self.condition is not None or bool(self.needs)

    def unmet(self, content: Content) -> str:
        """Return the condition that content does not meet; empty if it does. A condition that fails is not met."""
        outcome = True if self.condition is None else self.condition.holds(content)
        if self.condition is None or outcome is True:
            return ""
        return f"want `{self.name}`: `{self.condition.text}` {'is false' if outcome is False else f'fails: {outcome}'}"


@dataclass(frozen=True, slots=True)
class ConsumerContract:
    """The needs of a consumer, and its guarantees for privacy."""

    name: str
    consumers: Texts
    wants: tuple[ContextWant, ...]
    purposes: Texts = frozenset()
    """All purposes that it uses context for; without any it gets nothing private."""
    situations: Texts = frozenset()
    """The situations that it commits itself to act in."""
    retention: float | None = None
    """Seconds that it keeps what it gets at most; None: it promises nothing."""
    attributes: Subject = ()
    """Known attributes, such as groups. A client's own statement does not count here."""

    def __post_init__(self) -> None:
        check_id(self.name)
        _check_bound(self.name, self.consumers)
        names = [want.name for want in self.wants]
        if len(names) > MAX_RULES or len(set(names)) < len(names):
            raise PolicyError(f"contract `{self.name}` has more than {MAX_RULES} wants, or two of one name")
        _check_retention(f"contract `{self.name}`", self.retention)
        if reserved := RESERVED & {name for name, _ in self.attributes}:
            raise PolicyError(f"contract `{self.name}`: `{min(reserved)}` is a reserved attribute")

    def request_attributes(self) -> Attributes:
        """Return its attributes in a request for events, whatever the event and the time."""
        attributes: dict[AttributeName, Texts | float] = {_subject(name): values for name, values in self.attributes}
        attributes |= {PURPOSE: self.purposes, PROMISED: self.situations, ACTION: frozenset({ACCESS})}
        return attributes if self.retention is None else {**attributes, RETENTION: self.retention}


# --- what they compile to


def advertisement(contract: ProducerContract) -> ProducerAdvertisement:
    """Return the advertisement that a producer's contract makes for it."""
    return ProducerAdvertisement(f"contract {contract.name}", contract.filter, contract.condition, contract.scope)


def _check_bound(name: str, clients: Texts) -> None:
    if not clients:
        raise PolicyError(f"contract `{name}` is nobody's")


def _check_retention(of: str, retention: float | None) -> None:
    if retention is not None and not 0 <= retention < math.inf:
        raise PolicyError(f"{of}: a retention is a number of seconds, not `{retention}`")


def _check_filter(filter: str) -> None:
    try:
        if parse_filter(filter).group is not None:
            raise PolicyError(f"a shared subscription is not a topic filter here: `{filter}`")
    except TopicError as error:
        raise PolicyError(str(error)) from None
