"""Situations: opened by an event of an authorised source, they switch privacy rules while they last (contracts §3).

Break-the-glass is a situation that releases more than usual. So only named sources can open it, it always has an end,
and each change is recorded for the audit, refused ones too.
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
    """The events that signal a situation: on these topics, with content that satisfies the condition."""

    filter: str
    condition: Condition | None = None

    def __post_init__(self) -> None:
        try:
            parse_filter(self.filter)
        except TopicError as error:
            raise PolicyError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Situation:
    """A situation, and the signals that open and close it."""

    name: str
    sources: frozenset[str]
    """The clients whose signals count."""
    opens: Signal
    lasts: float
    """Seconds after which it ends, unless it is opened again."""
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
    """A change of a situation, for the audit."""

    situation: str
    change: SituationChange
    by: str
    at: float
    reason: str = ""


class SituationStep(NamedTuple):
    """The open situations, and the changes."""

    open: OpenSituations
    notices: tuple[SituationNotice, ...] = ()


def counts(situation: Situation, reported: OpenSituation, now: float) -> OpenSituation | str:
    """Return a situation that another node reports as it counts here, or why it does not: its domain may differ."""
    if reported.by not in situation.sources:
        return f"`{reported.by}` is none of its sources here"
    if reported.until > now + situation.lasts + MAX_AHEAD:
        return f"it is to last {reported.until - now:.0f} s, and lasts {situation.lasts:g} s at most here"
    return reported._replace(until=min(reported.until, now + situation.lasts))


def current(open: OpenSituations, now: float) -> SituationStep:
    """Return the situations that are still open now, and notices of those that have ended."""
    ended = [name for name, situation in open.items() if situation.until <= now]
    if not ended:
        return SituationStep(open)
    notices = tuple(SituationNotice(name, SituationChange.EXPIRED, "", open[name].until) for name in ended)
    return SituationStep({name: situation for name, situation in open.items() if situation.until > now}, notices)


def step(
    situations: Iterable[Situation], open: OpenSituations, topic: str, source: str, content: Content, now: float
) -> SituationStep:
    """Return the situations after an event of a source, by its authenticated client id.

    An opening condition that fails does not open; a closing condition that fails closes. If both match, it closes.
    """
    left, notices = current(open, now)
    after = dict(left)
    all_notices = list(notices)
    for situation in situations:
        change = _signalled(situation, situation.name in after, topic, content)
        if change is None:
            continue
        reason = ""
        if source not in situation.sources:
            change, reason = SituationChange.REFUSED, f"`{source}` may not say that it is {change}"
        elif change is SituationChange.CLOSED:
            del after[situation.name]
        else:
            since = after[situation.name].since if situation.name in after else now
            after[situation.name] = OpenSituation(since, now + situation.lasts, source)
        all_notices.append(SituationNotice(situation.name, change, source, now, reason))
    return SituationStep(after, tuple(all_notices))


def _signalled(situation: Situation, is_open: bool, topic: str, content: Content) -> SituationChange | None:
    closes = situation.closes
    if closes is not None and matches(closes.filter, topic):
        outcome = True if closes.condition is None else closes.condition.holds(content)
        if outcome is not False:
            return SituationChange.CLOSED if is_open else None
    opens = situation.opens
    if matches(opens.filter, topic) and (opens.condition is None or opens.condition.holds(content) is True):
        return SituationChange.PROLONGED if is_open else SituationChange.OPENED
    return None
