"""The stage match, as explanations tell it: whom an event might go to, and what of their subscriptions it satisfies."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.engine import match, overlay, says
from penstock.engine.explain_token import no_token
from penstock.engine.node import Node
from penstock.engine.plan import Target
from penstock.engine.session import Session, Subscribed
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.verdict import Effect, Verdict
from penstock.policy.token_rights import TokenRights


@dataclass(slots=True)
class Candidate:
    """A link that an event might leave by: whom it leads to, and what they have that matches."""

    link: Link
    sessions: list[Session] = field(default_factory=list)
    matched: list[Subscribed] = field(default_factory=list)
    unmet: list[Subscribed] = field(default_factory=list)
    """Subscriptions for the topic that ask for other content."""
    onlooker: bool = False

    @property
    def is_concerned(self) -> bool:
        return bool(self.matched or self.unmet or self.onlooker)


def match_verdict(
    node: Node,
    sender: Session | None,
    candidate: Candidate,
    readable: list[Subscribed],
    targets: tuple[Target, ...],
    event: Event,
) -> Verdict:
    """What the stage match says of one link."""
    name, topic = candidate.link.target, event.topic
    if any(local_part(target, sender) is not None for target in targets):
        conditions = dict.fromkeys(one.text for each in readable for one in match.conditions(each, topic))
        reason = " and ".join(f"`{text}` holds" for text in conditions)
        return Verdict("match", Effect.PASS, ", ".join(dict.fromkeys(one.filter for one in readable)), reason)
    if targets:
        return Verdict("match", Effect.SUPPRESS, "no local", f"`{name}` published it and does not want its own events")
    if candidate.onlooker:
        return Verdict("match", Effect.PASS, "", "the monitors on the link must see it, subscribed to or not")
    if candidate.matched:
        return says.unreadable(candidate.matched[0].session.rights, topic)
    if candidate.unmet:
        return unsatisfied(node, event, candidate.unmet)
    if not candidate.sessions:
        without = no_token(node, name)
        if without and name not in node.neighbours:
            return Verdict("match", Effect.SUPPRESS, "token", without)
        return Verdict("match", Effect.SUPPRESS, "", f"`{name}` has no session here")
    if candidate.sessions[0].neighbour is not None:
        reason = f"nobody beyond `{name}` subscribes to `{topic}`"
        if any(mode in _BY_OFFERS for mode in _modes(node, name)):
            reason += ", or nothing that fits is advertised this side of it"
        return Verdict("match", Effect.SUPPRESS, "", reason)
    rights = candidate.sessions[0].rights
    if isinstance(rights, TokenRights) and not rights.may_read(topic):
        return says.unreadable(rights, topic)
    return Verdict("match", Effect.SUPPRESS, "", f"`{name}` has no subscription that matches `{topic}`")


_BY_OFFERS = ("advertised", "routed")
"""Modes of a link in which advertisements count."""


def _modes(node: Node, neighbour: str) -> Iterator[str]:
    for name, connection in overlay.connections(node):
        if name == neighbour:
            yield from (mode for _, mode in connection.forward)


def unsatisfied(node: Node, event: Event, subscriptions: list[Subscribed]) -> Verdict:
    """That the content is not what any of these subscriptions asks for, and why."""
    said = (f"{_titled(one)}: {' and '.join(match.unmet(node, event, one))}" for one in subscriptions)
    return Verdict("match", Effect.SUPPRESS, "condition", "; ".join(said))


def _titled(one: Subscribed) -> str:
    name = f" named `{one.name}`" if one.name and one.session.neighbour is None else ""
    return f"subscription of `{one.session.entity}` to `{one.filter}`{name}"


def local_part(target: Target, sender: Session | None) -> Target | None:
    """The target, or what is left of it for the session's own event."""
    return target.own if target.no_local and target.session is sender else target
