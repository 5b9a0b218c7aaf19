"""Policies that are often wanted, as the paper has a factory of them (statements §4.1), and policies as they are sent.

await client.subscribe("plant/#", "temperature > 80.0", policy=policies.trim())

A policy that is not here is written as text (`docs/statements.md`). `joined` makes one of several.
"""

from collections.abc import Sequence

from penstock.language.errors import StatementError
from penstock.language.statements.parser import parse_condition, parse_statement
from penstock.language.statements.printer import show_compact
from penstock.language.statements.statement import (
    ANYWHERE,
    Attach,
    Clause,
    Message,
    Point,
    Rule,
    Statement,
    Use,
    Verb,
)
from penstock.language.tree import And, Call, Literal, Tree

Policy = str | Statement
"""A policy: its text, or the statement that a text is."""

_MOST_BYTES = 65_535  # [MQTT-1.5.4]: that a text in a packet can have


def text_of(policy: Policy) -> str:
    """A policy as it is sent, on one line; raises `StatementError` if it is none."""
    text = show_compact(parse_statement(policy if isinstance(policy, str) else show_compact(_statement(policy))))
    if (size := len(text.encode())) > _MOST_BYTES:
        raise StatementError(f"MQTT sends a policy statement of at most {_MOST_BYTES} bytes, this has {size}")
    return text


def joined(*policies: Policy) -> Statement:
    """One policy with the rules of all, in their order."""
    return Statement(tuple(rule for one in policies for rule in _statement(one).rules))


def _statement(policy: object) -> Statement:
    if isinstance(policy, str):
        return parse_statement(policy)
    if not isinstance(policy, Statement):
        raise StatementError(f"expected a policy, a text or a statement, not {policy!r:.80}")
    return policy


# --- what publications say: done where they leave the overlay. If it were done before, the next node would ask for the
# subscription's condition of what is left.


def trim() -> Statement:
    """Only the attributes that the subscription's condition asks for (Fig. 4)."""
    return _forward((_then("TrimAttributes"),), points=(Point.EGRESS,))


def remove(*names: str, where: str = "") -> Statement:
    """Without these attributes; `where`: if the condition holds."""
    return _forward((_then("RemoveAttributes", *names, where=where),), points=(Point.EGRESS,))


def keep_only(*names: str, where: str = "") -> Statement:
    """With no other attributes than these."""
    return _forward((_then("KeepOnlyAttributes", *names, where=where),), points=(Point.EGRESS,))


def as_xml() -> Statement:
    """Written as XML."""
    return _forward((_then("ToXML"),), points=(Point.EGRESS,))


def as_json() -> Statement:
    """Written as JSON."""
    return _forward((_then("ToJSON"),), points=(Point.EGRESS,))


def trace(attach: Attach = Attach.NEVER) -> Statement:
    """Every node on the way tells of itself beside the content (Fig. 6)."""
    told = ("AugmentBrokerHostInfo", "AugmentBrokerLoadIndex", "AugmentProcessingTime")
    return _forward((Clause(actions=tuple(map(Use, told))),), attach=attach)


# --- what goes no further


def block(where: str = "") -> Statement:
    """Publications do not go on; `where`: those for which the condition holds."""
    return _forward((_then("BlockMessage", where=where),))


def block_strictly() -> Statement:
    """What has just the attributes that the filter asks for does not go on to other nodes (Fig. 22)."""
    return _forward((_then("BlockMessage", where="StrictMatch()"),), points=(Point.ROUTING,))


def authenticate_receiver(*groups: str, every: bool = False, of: Message = Message.PUBLICATION) -> Statement:
    """Messages go only to members of one of these trust groups, or of every one (Fig. 13)."""
    return _authenticate("AuthenticateReceiver", groups, every, of)


def authenticate_sender(*groups: str, every: bool = False, of: Message = Message.PUBLICATION) -> Statement:
    """Messages count only if they come from members of one of these trust groups, or of every one."""
    return _authenticate("AuthenticateSender", groups, every, of)


def _authenticate(element: str, groups: Sequence[str], every: bool, of: Message) -> Statement:
    if not groups:
        raise ValueError("expected the name of a trust group")
    asked: list[Tree] = [Call(element, None, (Literal("string", group),)) for group in groups]
    conditions = [And(tuple(asked))] if every and len(asked) > 1 else asked
    return _forward((*map(Clause, conditions), _then("BlockMessage")), of)


# --- subscriptions in place of advertisements


def flood() -> Statement:
    """For an advertisement of somebody who moves about: it is not told, subscriptions that meet it are (Fig. 8)."""
    points = (Point.INGRESS, Point.ROUTING)
    return joined(
        _forward((_then("BlockMessage"),), Message.ADVERTISEMENT, points),
        _forward((_then("FloodMessage"),), Message.SUBSCRIPTION, points),
    )


def _then(action: str, *arguments: str, where: str = "") -> Clause:
    return Clause(parse_condition(where, "the condition"), (Use(action, arguments),))


def _forward(
    clauses: tuple[Clause, ...],
    of: Message = Message.PUBLICATION,
    points: tuple[Point, ...] = ANYWHERE,
    attach: Attach = Attach.NEVER,
) -> Statement:
    return Statement((Rule(Verb.FORWARD, of, clauses, points=points, attach=attach),))
