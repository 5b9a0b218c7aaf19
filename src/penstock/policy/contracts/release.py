"""What one consumer gets of one producer's event, and why: the core of the release stage, without an engine around it.

`Releaser` is made once for a producer's contract and a want of a consumer's: all that their contracts decide is decided
then. For each event, the rules that are left are tried in order, and the first counts whose situation it is and whose
degraded event has the quality that the rule, its guarantees and the consumer ask for.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from penstock.language.errors import EvaluationError
from penstock.language.evaluators.times import timestamp_from_string, timestamp_to_string
from penstock.model.content.content import Content, Format
from penstock.model.errors import ContentError
from penstock.model.quality import NO_QUALITY, Catalogue, Quality, moment
from penstock.model.values import SECOND
from penstock.policy.contracts.aggregate import Mean
from penstock.policy.contracts.contract import (
    ConsumerContract,
    ContextWant,
    PrivacyRule,
    ProducerContract,
    commitments,
    request_attributes,
)
from penstock.policy.contracts.degrade import Aggregate, degraded_once, leaves_only
from penstock.policy.contracts.plain_form import plain_rule
from penstock.policy.contracts.privacy import Permitted
from penstock.policy.quality.needs import why_not
from penstock.policy.quality.propagation import aged

RETAIN_UNTIL = "penstock-retain-until"
"""The user property of a released event that is to be deleted by then."""


RELEASED = "penstock-released"
"""The user property of a released event while it waits: by which rules."""


PRIVACY = "privacy:"
"""In place of a contract: that it is a policy in XACML."""
NO_MARKS = "[]"


class Release(NamedTuple):
    """What a consumer gets of an event."""

    is_released: bool
    rule: str = ""
    """The one that releases it; empty where nothing is private."""
    payload: bytes = b""
    quality: Quality = NO_QUALITY
    not_before: float = 0.0
    """When it may go out, in seconds since the epoch."""
    retain_until: float | None = None
    """When it is to be deleted; None: never."""
    is_bare: bool = False
    """True if nothing but the content goes out: no properties of the producer's."""
    aggregate: Aggregate | None = None
    """If there is one, the event does not go out, but into the window of the rule and the consumer."""
    reasons: tuple[str, ...] = ()
    """Why it is not released, or why not by rules before this one."""


class Releaser:
    """Decides on events of one producer's contract for one want of a consumer."""

    __slots__ = ("_candidates", "_catalogue", "_refused", "_want", "retention")

    def __init__(
        self,
        producer: ProducerContract,
        consumer: ConsumerContract,
        want: ContextWant,
        catalogue: Catalogue,
        situations: Collection[str],
    ) -> None:
        """`situations`: all that there are. Whether it is another that a rule names is never known, so it permits
        nothing.
        """
        self._want = want
        self._catalogue = catalogue
        self.retention = consumer.retention
        asked = request_attributes(consumer)
        self._candidates: list[PrivacyRule | None] = [] if producer.rules else [None]
        self._refused: list[str] = []
        for rule in producer.rules:
            wrong = [reason for reason in (one.why_not(asked) for one in commitments(rule)) if reason]
            unknown = sorted((rule.during | rule.outside).difference(situations))
            wrong += [f"there is no situation `{name}`" for name in unknown]
            self._refused += [f"rule `{rule.id}`: {reason}" for reason in wrong]
            if not wrong:
                self._candidates.append(rule)

    def permits(self, rule: str) -> bool:
        """Return whether contracts let this rule release anything to the consumer."""
        return any(one is not None and one.id == rule for one in self._candidates)

    def decide(
        self,
        content: Content,
        quality: Quality,
        open_situations: Collection[str],
        now: float,
        since: float | None = None,
    ) -> Release:
        """What the consumer gets of an event of this content and quality, in these situations. `since`: when it was
        published, if that was not now; retentions count from then.
        """
        reasons = list(self._refused)
        for rule in self._candidates:
            if rule is None:
                made, wrong = self._plain(content, quality, now)
            else:
                made, wrong = self._by_rule(rule, content, quality, open_situations, now, since)
            if not wrong:
                return made._replace(reasons=tuple(reasons))
            reasons += wrong if rule is None else [f"rule `{rule.id}`: {reason}" for reason in wrong]
        return Release(False, reasons=tuple(reasons))

    def apply(
        self,
        rule: str,
        content: Content,
        quality: Quality,
        open_situations: Collection[str],
        now: float,
        since: float | None = None,
    ) -> Release:
        """What the consumer gets by a rule that another node has found to be the one. It must be one for this consumer
        and these situations too: what was kept since then is not released when they are over.
        """
        for one in self._candidates:
            if one is not None and one.id == rule:
                made, wrong = self._by_rule(one, content, quality, open_situations, now, since)
                return made if not wrong else Release(False, reasons=tuple(f"rule `{rule}`: {why}" for why in wrong))
        return Release(False, reasons=(f"rule `{rule}` does not permit it",))

    def why_not(self, rule: str, mean: Mean) -> tuple[str, ...]:
        """Return why the mean of several events that a rule has aggregated does not go out; nothing if it does."""
        guarantees = next((one.guarantees for one in self._candidates if one is not None and one.id == rule), None)
        if guarantees is None:
            return (f"rule `{rule}` does not permit it",)
        return why_not((*guarantees, *self._want.needs), mean.quality, Content(mean.payload, Format.JSON))

    def _plain(self, content: Content, quality: Quality, now: float) -> tuple[Release, list[str]]:
        current = aged(quality, self._catalogue, now)
        made = Release(True, "", content.payload, quality, now)
        return made, list(why_not(self._want.needs, current, content))

    def _by_rule(
        self,
        rule: PrivacyRule,
        content: Content,
        quality: Quality,
        open_situations: Collection[str],
        now: float,
        since: float | None,
    ) -> tuple[Release, list[str]]:
        wrong = [f"the situation is not `{name}`" for name in sorted(rule.during - set(open_situations))]
        wrong += [f"the situation is `{name}`" for name in sorted(rule.outside & set(open_situations))]
        if wrong:
            return Release(False), wrong
        try:
            payload, lowered, not_before = degraded_once(
                rule.degrade, content, aged(quality, self._catalogue, now), self._catalogue, now
            )
        except ContentError as error:
            return Release(False), [f"it cannot be degraded: {error}"]
        aggregate = next((one for one in rule.degrade if isinstance(one, Aggregate)), None)
        # A rule with a retention is for consumers that promise one, which is not longer.
        retain = None
        if rule.retention is not None and self.retention is not None:
            retain = keep_until(self.retention, not_before, now, since)
            if retain <= now:
                return Release(False), [OVER]
        made = Release(True, rule.id, payload, lowered, not_before, retain, leaves_only(rule.degrade), aggregate)
        left = content.changed(payload)
        wrong = list(why_not(rule.quality, lowered, left))
        if aggregate is None:  # else what is made of several is judged by these
            wrong += why_not((*rule.guarantees, *self._want.needs), lowered, left)
        return made, wrong


OVER = "the time is over for which it may be kept"


def keep_until(retention: float, not_before: float, now: float, since: float | None) -> float:
    """When what is released is to be deleted: its time begins when it was published, or so much later as it is held
    back.
    """
    return not_before + retention - (now - min(now, since) if since is not None else 0.0)


class ReleaseMark(msgspec.Struct, frozen=True, array_like=True):
    """By which rule an event was released that waits for its consumer, and in which situations it may go out."""

    contract: str
    rule: str
    digest: str
    """Of all that the rule says."""
    during: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    topic: str = ""
    """Of a policy in XACML, the topic that it was asked about."""

    @property
    def named(self) -> str:
        return self.rule if self.contract == PRIVACY else f"{self.contract}.{self.rule}"

    def is_on(self, open_situations: Collection[str]) -> bool:
        return all(one in open_situations for one in self.during) and not any(
            one in open_situations for one in self.outside
        )


@lru_cache(maxsize=4096)
def mark_of(producer: ProducerContract, rule: str) -> ReleaseMark:
    """Return the mark of what a rule of a contract releases."""
    found = next(one for one in producer.rules if one.id == rule)
    said = blake2b(msgspec.json.encode(plain_rule(found)), digest_size=8).hexdigest()
    return ReleaseMark(producer.name, rule, said, tuple(sorted(found.during)), tuple(sorted(found.outside)))


def mark_of_policy(name: str, topic: str, permitted: Permitted) -> ReleaseMark:
    """Return the mark of what a policy in XACML releases on these conditions."""
    return ReleaseMark(PRIVACY, name, blake2b(repr(permitted).encode(), digest_size=8).hexdigest(), topic=topic)


def write_marks(marks: Iterable[ReleaseMark]) -> str:
    return msgspec.json.encode(tuple(marks)).decode()


def read_marks(text: str) -> list[ReleaseMark]:
    """Return the marks of a text; raises `ContentError`."""
    try:
        return msgspec.json.decode(text, type=list[ReleaseMark])
    except msgspec.MsgspecError as error:
        raise ContentError(str(error)) from None


def retain_property(until: float) -> tuple[str, str]:
    """Return the user property that says when a released event is to be deleted."""
    return RETAIN_UNTIL, timestamp_to_string(moment(until))


def read_retain(text: str) -> float:
    """When an event with such a property is to be deleted, in seconds since the epoch; raises `ContentError`."""
    try:
        return timestamp_from_string(text[:100]).nanos / SECOND
    except EvaluationError as error:
        raise ContentError(str(error)) from None
