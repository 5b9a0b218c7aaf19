"""Situations: opened by an event of an authorised source, they switch privacy rules while they last (contracts §3).

Break-the-glass is a situation that opens more than is given otherwise, so: only sources that are named can open it, it
always has an end, and each change is told, refused ones too, so that it can be audited.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from penstock.language.condition import Condition
from penstock.model.content.content import Content
from penstock.model.errors import PolicyError, TopicError
from penstock.model.quality import check_id
from penstock.model.topic import matches, parse_filter

MAX_LASTING = 30 * 86_400.0
"""Seconds that a situation may last without being opened again."""

MAX_AHEAD = 60.0
"""Seconds by which another node's clock may be ahead of this one's."""


@dataclass(frozen=True, slots=True)
class Signal:
    """Events that say something of a situation: on these topics, with content that satisfies the condition."""

    filter: str
    condition: Condition | None = None

    def __post_init__(self) -> None:
        try:
            parse_filter(self.filter)
        except TopicError as error:
            raise PolicyError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Situation:
    """A situation and what opens and closes it."""

    name: str
    sources: frozenset[str]
    """The clients whose events count."""
    opens: Signal
    lasts: float
    """Seconds after which it is over, unless it is opened again."""
    closes: Signal | None = None

    def __post_init__(self) -> None:
        check_id(self.name)
        if not self.sources:
            raise PolicyError(f"situation `{self.name}` has no source that may open it")
        if not 0 < self.lasts <= MAX_LASTING:
            raise PolicyError(
                f"situation `{self.name}` lasts above 0 and at most {MAX_LASTING:g} s, not `{self.lasts}`"
            )


class OpenSituation(NamedTuple):
    """A situation that is open."""

    since: float
    until: float
    by: str


OpenSituations = Mapping[str, OpenSituation]
NONE_OPEN: OpenSituations = {}


class SituationChange(StrEnum):
    OPENED = "opened"
    PROLONGED = "prolonged"
    CLOSED = "closed"
    EXPIRED = "expired"
    REFUSED = "refused"


class SituationNotice(NamedTuple):
    """What is told of a situation, for the audit."""

    situation: str
    change: SituationChange
    by: str
    at: float
    reason: str = ""


class SituationStep(NamedTuple):
    """What is open now, and what has changed."""

    open: OpenSituations
    notices: tuple[SituationNotice, ...] = ()


def counts(situation: Situation, told: OpenSituation, now: float) -> OpenSituation | str:
    """What counts of what another node tells of a situation, or why it does not: that node may go by another domain."""
    if told.by not in situation.sources:
        return f"`{told.by}` is none of its sources here"
    if told.until > now + situation.lasts + MAX_AHEAD:
        return f"it is to last {told.until - now:.0f} s, and lasts {situation.lasts:g} s at most here"
    return told._replace(until=min(told.until, now + situation.lasts))


def current(open: OpenSituations, now: float) -> SituationStep:
    """What is still open now. What has come to its end is no longer, whether or not anybody has noticed."""
    ended = [name for name, one in open.items() if one.until <= now]
    if not ended:
        return SituationStep(open)
    notices = tuple(SituationNotice(name, SituationChange.EXPIRED, "", open[name].until) for name in ended)
    return SituationStep({name: one for name, one in open.items() if one.until > now}, notices)


def step(
    situations: Iterable[Situation], open: OpenSituations, topic: str, source: str, content: Content, now: float
) -> SituationStep:
    """What an event of a source, by its authenticated client id, does to the situations.

    An opening condition that fails does not open; a closing condition that fails closes. What says both closes.
    """
    left, notices = current(open, now)
    after = dict(left)
    told = list(notices)
    for one in situations:
        change = _said(one, one.name in after, topic, content)
        if change is None:
            continue
        if source not in one.sources:
            told.append(
                SituationNotice(
                    one.name, SituationChange.REFUSED, source, now, f"`{source}` may not say that it is {change}"
                )
            )
        elif change is SituationChange.CLOSED:
            del after[one.name]
            told.append(SituationNotice(one.name, change, source, now))
        else:
            before = after.get(one.name)
            after[one.name] = OpenSituation(now if before is None else before.since, now + one.lasts, source)
            told.append(SituationNotice(one.name, change, source, now))
    return SituationStep(after, tuple(told))


def _said(situation: Situation, is_open: bool, topic: str, content: Content) -> SituationChange | None:
    closes = situation.closes
    if closes is not None and matches(closes.filter, topic):
        outcome = True if closes.condition is None else closes.condition.holds(content)
        if outcome is not False:
            return SituationChange.CLOSED if is_open else None
    opens = situation.opens
    if matches(opens.filter, topic) and (opens.condition is None or opens.condition.holds(content) is True):
        return SituationChange.PROLONGED if is_open else SituationChange.OPENED
    return None
