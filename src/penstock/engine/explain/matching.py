"""The stage match, as explanations tell it: whom an event might go to, and what of their subscriptions it satisfies."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.engine.events.plan import Target
from penstock.engine.explain import releasing, verdicts
from penstock.engine.explain.tokens import no_token
from penstock.engine.federation import overlay
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.stages import satisfaction
from penstock.engine.statements.applicability import is_matched_late
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.verdict import Effect, Verdict
from penstock.policy.tokens.rights import TokenRights


@dataclass(slots=True)
class Candidate:
    """A link that an event might leave by: whom it leads to, and what they have that matches."""

    link: Link
    sessions: list[Session] = field(default_factory=list)
    matched: list[Subscribed] = field(default_factory=list)
    unmet: list[Subscribed] = field(default_factory=list)
    """Subscriptions for the topic that ask for other content."""
    onlooker: bool = False
    readable: list[Subscribed] = field(default_factory=list)
    """Of `matched`, those whose subjects may read the topic; in `targets` by session."""
    targets: tuple[Target, ...] = ()
    shaped: dict[Event, tuple[Event, ...]] = field(default_factory=dict)
    """The outputs of the link's monitors for each form of the event."""
    has_output: bool = False
    is_wanted: bool = False
    """Somebody behind the link asks for what its monitors let out."""

    @property
    def is_concerned(self) -> bool:
        return bool(self.matched or self.unmet or self.onlooker)

    def asks_by_content(self, topic: str) -> bool:
        return any(asks_by_content(subscribed, topic) for subscribed in (*self.matched, *self.unmet))


def asks_by_content(subscribed: Subscribed, topic: str) -> bool:
    return next(satisfaction.conditions(subscribed, topic), None) is not None


def match_verdict(
    node: Node, sender: Session | None, candidate: Candidate, event: Event, now: float, is_late: bool
) -> Verdict:
    """Return the verdict of the stage match for one link. `is_late`: rules before matching come first on each way."""
    name, topic = candidate.link.target, event.topic
    if any(local_part(target, sender) is not None for target in candidate.targets):
        readable = candidate.readable
        asked = (text for subscribed in readable for text in _satisfied(node, event, subscribed, now, is_late))
        filters = dict.fromkeys(subscribed.filter for subscribed in readable)
        return Verdict("match", Effect.PASS, ", ".join(filters), " and ".join(dict.fromkeys(asked)))
    if candidate.targets:
        return Verdict("match", Effect.SUPPRESS, "no local", f"`{name}` published it and does not want its own events")
    if candidate.onlooker:
        return Verdict("match", Effect.PASS, "", "the monitors on the link must see it, subscribed to or not")
    if candidate.matched:
        return verdicts.unreadable(candidate.matched[0].session.rights, topic)
    if candidate.unmet:
        return unsatisfied(node, event, candidate.unmet, now)
    if not candidate.sessions:
        without = no_token(node, name)
        if without and name not in node.federation.neighbours:
            return Verdict("match", Effect.SUPPRESS, "token", without)
        return Verdict("match", Effect.SUPPRESS, "", f"`{name}` has no session here")
    if candidate.sessions[0].neighbour is not None:
        reason = f"nobody beyond `{name}` subscribes to `{topic}`"
        if any(mode in _BY_OFFERS for mode in _modes(node, name)):
            reason += ", or nothing that fits is advertised this side of it"
        return Verdict("match", Effect.SUPPRESS, "", reason)
    rights = candidate.sessions[0].rights
    if isinstance(rights, TokenRights) and not rights.may_read(topic):
        return verdicts.unreadable(rights, topic)
    return Verdict("match", Effect.SUPPRESS, "", f"`{name}` has no subscription that matches `{topic}`")


NO_MEANS = "it goes into a mean, and who shares a subscription gets no means"
_BY_OFFERS = ("advertised", "routed")
"""Modes of a link in which advertisements count."""


def _modes(node: Node, neighbour: str) -> Iterator[str]:
    for name, connection in overlay.connections(node):
        if name == neighbour:
            yield from (mode for _, mode in connection.forward)


def _satisfied(node: Node, event: Event, subscribed: Subscribed, now: float, is_late: bool) -> Iterator[str]:
    """Return the condition of a subscription, and the content that satisfied it."""
    asked = list(satisfaction.conditions(subscribed, event.topic))
    if is_late or is_matched_late(subscribed, event.topic):
        outcome = "is asked after rules before matching"
    else:
        is_later = bool(asked) and satisfaction.shown(node, subscribed.session, event, now).in_mean
        outcome = "is asked of the mean" if is_later else "holds"
    yield from (f"`{condition.text}` {outcome}" for condition in asked)


def unsatisfied(node: Node, event: Event, subscriptions: list[Subscribed], now: float) -> Verdict:
    """Return the verdict that the content satisfies none of these subscriptions, with the reason."""
    reasons = (f"{_titled(subscribed)}: {_why_not(node, event, subscribed, now)}" for subscribed in subscriptions)
    return Verdict("match", Effect.SUPPRESS, "condition", "; ".join(reasons))


def _why_not(node: Node, event: Event, subscribed: Subscribed, now: float) -> str:
    """Return why conditions failed on what a subscriber is shown, which may differ from the event or be nothing."""
    view = satisfaction.shown(node, subscribed.session, event, now).event
    if view is None:
        _, verdicts = releasing.released(node, subscribed.session, event, now)
        why = "; ".join(verdict.reason for verdict in verdicts if verdict.effect is Effect.SUPPRESS)
        return f"it is shown nothing of it{f': {why}' if why else ''}"
    of = "" if view.payload == event.payload else "of what it is shown, "
    return of + " and ".join(satisfaction.unmet(node, view, subscribed))


def _titled(subscribed: Subscribed) -> str:
    name = f" named `{subscribed.name}`" if subscribed.name and subscribed.session.neighbour is None else ""
    return f"subscription of `{subscribed.session.place.entity}` to `{subscribed.filter}`{name}"


def local_part(target: Target, sender: Session | None) -> Target | None:
    """Return the target, or what is left of it for the session's own event."""
    return target.own if target.no_local and target.session is sender else target
