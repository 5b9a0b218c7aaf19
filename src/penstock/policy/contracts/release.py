"""The release of one producer's event to one consumer, with the reasons: the core of the release stage.

`Releaser` is made once for a producer's contract and a want of a consumer: all that depends only on their contracts is
decided then. For each event the remaining rules are tried in order. The first rule counts whose situations are open and
whose degraded event has the quality that the rule, its guarantees and the consumer ask for.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from penstock.language.errors import EvaluationError
from penstock.language.evaluators.times import timestamp_from_string, timestamp_to_string
from penstock.model.content.content import Content, Format
from penstock.model.errors import UNREADABLE, ContentError, PolicyError
from penstock.model.quality import NO_QUALITY, Catalogue, Quality, moment
from penstock.model.values import SECOND
from penstock.policy.contracts import xacml_form
from penstock.policy.contracts.aggregate import Mean
from penstock.policy.contracts.contract import ConsumerContract, ContextWant, PrivacyRule, ProducerContract
from penstock.policy.contracts.degrade import Aggregate, Degradation, degraded_once, leaves_only
from penstock.policy.contracts.plain_form import plain_degradation, plain_rule
from penstock.policy.contracts.privacy import Permitted
from penstock.policy.contracts.text_form import read_degradation
from penstock.policy.quality.needs import why_not
from penstock.policy.quality.propagation import aged

RETAIN_UNTIL = "penstock-retain-until"
"""The user property of a released event with the time by which it must be deleted."""


RELEASED = "penstock-released"
"""The user property of a released event that waits: the rules that released it."""


PRIVACY = "privacy:"
"""The prefix that marks a policy in XACML in place of a contract."""
NO_MARKS = "[]"


class Release(NamedTuple):
    """The release of an event to a consumer."""

    is_released: bool
    rule: str = ""
    """The rule that releases it; empty where nothing is private."""
    payload: bytes = b""
    quality: Quality = NO_QUALITY
    not_before: float = 0.0
    """The time from which it may be sent, in seconds since the epoch."""
    retain_until: float | None = None
    """The time by which it must be deleted; None: never."""
    is_bare: bool = False
    """True if only the content is sent, without properties of the producer."""
    aggregate: Aggregate | None = None
    """If set, the event is not sent, but goes into the window of the rule and the consumer."""
    reasons: tuple[str, ...] = ()
    """The reasons why it is not released, or why not by earlier rules."""


class Releaser:
    """A releaser of the events of one producer's contract for one want of a consumer."""

    __slots__ = ("_candidates", "_catalogue", "_refused", "_want", "retention")

    def __init__(
        self,
        producer: ProducerContract,
        consumer: ConsumerContract,
        want: ContextWant,
        catalogue: Catalogue,
        situations: Collection[str],
    ) -> None:
        """Decide what the contracts decide; a rule that names a situation not in `situations` permits nothing."""
        self._want = want
        self._catalogue = catalogue
        self.retention = consumer.retention
        attributes = consumer.request_attributes()
        self._candidates: list[PrivacyRule | None] = [] if producer.rules else [None]
        self._refused: list[str] = []
        for rule in producer.rules:
            wrong = [reason for condition in rule.commitments() if (reason := condition.why_not(attributes))]
            if not wrong and not xacml_form.permits(rule, consumer):
                wrong = ["its policy in XACML does not permit it"]
            unknown = sorted((rule.during | rule.outside).difference(situations))
            wrong += [f"there is no situation `{name}`" for name in unknown]
            self._refused += [f"rule `{rule.id}`: {reason}" for reason in wrong]
            if not wrong:
                self._candidates.append(rule)

    @property
    def permitting(self) -> tuple[str, ...]:
        """The rules that the contracts let release something to the consumer."""
        return tuple("" if rule is None else rule.id for rule in self._candidates)

    def permits(self, rule: str) -> bool:
        """Return whether the contracts let this rule release anything to the consumer."""
        return self._candidate(rule) is not None

    def _candidate(self, rule: str) -> PrivacyRule | None:
        return next((candidate for candidate in self._candidates if candidate and candidate.id == rule), None)

    def decide(
        self,
        content: Content,
        quality: Quality,
        open_situations: Collection[str],
        now: float,
        since: float | None = None,
        done: Sequence[object] = (),
    ) -> Release:
        """Return the release of an event now; retentions count from `since`, the time of its publication, if given.

        `done`: degradations, in their plain form, that were done before it left another node.
        """
        reasons = list(self._refused)
        for rule in self._candidates:
            if rule is None:
                release, wrong = self._plain(content, quality, now)
            else:
                release, wrong = self._by_rule(rule, content, quality, open_situations, now, since, done)
            if not wrong:
                return release._replace(reasons=tuple(reasons))
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
        done: Sequence[object] = (),
    ) -> Release:
        """Return the release by a rule that another node has chosen, if it permits it in these situations."""
        candidate = self._candidate(rule)
        if not rule and None in self._candidates:  # a policy in XACML is asked, and no rule
            release, wrong = self._plain(content, quality, now)
            return release if not wrong else Release(False, reasons=tuple(wrong))
        if candidate is None:
            return Release(False, reasons=(f"rule `{rule}` does not permit it",))
        release, wrong = self._by_rule(candidate, content, quality, open_situations, now, since, done)
        return release if not wrong else Release(False, reasons=tuple(f"rule `{rule}`: {why}" for why in wrong))

    def why_not(self, rule: str, mean: Mean) -> tuple[str, ...]:
        """Return why the mean that a rule has aggregated is not sent; empty if it is."""
        candidate = self._candidate(rule)
        if candidate is None:
            return (f"rule `{rule}` does not permit it",)
        return why_not((*candidate.guarantees, *self._want.needs), mean.quality, Content(mean.payload, Format.JSON))

    def _plain(self, content: Content, quality: Quality, now: float) -> tuple[Release, list[str]]:
        current = aged(quality, self._catalogue, now)
        release = Release(True, "", content.payload, quality, now)
        return release, list(why_not(self._want.needs, current, content))

    def _by_rule(
        self,
        rule: PrivacyRule,
        content: Content,
        quality: Quality,
        open_situations: Collection[str],
        now: float,
        since: float | None,
        done: Sequence[object],
    ) -> tuple[Release, list[str]]:
        wrong = [f"the situation is not `{name}`" for name in sorted(rule.during - set(open_situations))]
        wrong += [f"the situation is `{name}`" for name in sorted(rule.outside & set(open_situations))]
        if wrong:
            return Release(False), wrong
        try:
            payload, lowered, not_before = degraded_once(
                left_to_do(rule.degrade, done), content, aged(quality, self._catalogue, now), self._catalogue, now
            )
        except ContentError as error:
            return Release(False), [f"it cannot be degraded: {error}"]
        aggregate = next((degradation for degradation in rule.degrade if isinstance(degradation, Aggregate)), None)
        # A rule with a retention is for consumers that promise one, which is not longer.
        retain = None
        if rule.retention is not None and self.retention is not None:
            retain = keep_until(self.retention, not_before, now, since)
            if retain <= now:
                return Release(False), [OVER]
        release = Release(True, rule.id, payload, lowered, not_before, retain, leaves_only(rule.degrade), aggregate)
        left = content.changed(payload)
        wrong = list(why_not(rule.quality, lowered, left))
        if aggregate is None:  # else what is made of several is judged by these
            wrong += why_not((*rule.guarantees, *self._want.needs), lowered, left)
        return release, wrong


def left_to_do(degradations: tuple[Degradation, ...], done: Sequence[object]) -> tuple[Degradation, ...]:
    """Return the degradations that are left after those that were `done`; all, if these are not their beginning: what
    is degraded by more than the rule asks for is still no more than the rule gives.
    """
    if not done or [plain_degradation(degradation) for degradation in degradations[: len(done)]] != list(done):
        return degradations
    return degradations[len(done) :]


OVER = "the time is over for which it may be kept"


def keep_until(retention: float, not_before: float, now: float, since: float | None) -> float:
    """Return when a released event must be deleted; a retention counts from publication or the end of the delay."""
    return not_before + retention - (now - min(now, since) if since is not None else 0.0)


class ReleaseMark(msgspec.Struct, frozen=True, array_like=True):
    """The rule that released an event that waits for its consumer, and the situations in which it may be sent."""

    contract: str
    rule: str
    digest: str
    """The digest of the whole rule."""
    during: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    topic: str = ""
    """For a policy in XACML, the topic that it was asked about."""

    @property
    def named(self) -> str:
        return self.rule if self.contract == PRIVACY else f"{self.contract}.{self.rule}"

    def is_on(self, open_situations: Collection[str]) -> bool:
        return set(self.during) <= set(open_situations) and set(self.outside).isdisjoint(open_situations)


@lru_cache(maxsize=4096)
def mark_of(producer: ProducerContract, rule: str) -> ReleaseMark:
    """Return the mark of events that a rule of a contract releases."""
    chosen = next(candidate for candidate in producer.rules if candidate.id == rule)
    digest = blake2b(msgspec.json.encode(plain_rule(chosen)), digest_size=8).hexdigest()
    return ReleaseMark(producer.name, rule, digest, tuple(sorted(chosen.during)), tuple(sorted(chosen.outside)))


def mark_of_policy(name: str, topic: str, permitted: Permitted) -> ReleaseMark:
    """Return the mark of events that a policy in XACML releases on these conditions."""
    return ReleaseMark(PRIVACY, name, blake2b(repr(permitted).encode(), digest_size=8).hexdigest(), topic=topic)


def read_permitted(text: str) -> Permitted | str:
    """Return the conditions of a release that the ACE set carries, or why they cannot be read."""
    try:
        plain = msgspec.json.decode(text, type=_PlainPermitted)
        return Permitted(tuple(map(read_degradation, plain.degrade)), plain.retain)
    except (*UNREADABLE, PolicyError) as error:
        return f"what another node has decided cannot be read: {error}"


class _PlainPermitted(msgspec.Struct):
    degrade: list[dict[str, object]]
    retain: float | None


def write_marks(marks: Iterable[ReleaseMark]) -> str:
    return msgspec.json.encode(tuple(marks)).decode()


def read_marks(text: str) -> list[ReleaseMark]:
    """Parse marks; raises `ContentError`."""
    try:
        return msgspec.json.decode(text, type=list[ReleaseMark])
    except UNREADABLE as error:
        raise ContentError(str(error)) from None


def retain_property(until: float) -> tuple[str, str]:
    """Return the user property with the time by which a released event must be deleted."""
    return RETAIN_UNTIL, timestamp_to_string(moment(until))


def read_retain(text: str) -> float:
    """Parse the time of such a property, in seconds since the epoch; raises `ContentError`."""
    try:
        return timestamp_from_string(text[:100]).nanos / SECOND
    except EvaluationError as error:
        raise ContentError(str(error)) from None
