"""Policy statements as trees (statements Fig. 2): which messages a rule applies to, and what it does with them.

What a condition or an action is called with are rule elements. Which there are, and what each takes, is not known here:
`policy/statements/statement.py` makes a policy of a statement.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.language.tree import Tree


class Verb(StrEnum):
    """The step of a message that a rule applies to."""

    FORWARD = "Forward"
    """It is sent on by a link."""
    INSERT = "Insert"
    """It enters the tables by which a node routes, or leaves them."""


class Message(StrEnum):
    """The kinds of messages."""

    ADVERTISEMENT = "Advertisement"
    SUBSCRIPTION = "Subscription"
    PUBLICATION = "Publication"
    UNSUBSCRIPTION = "Unsubscription"
    UNADVERTISEMENT = "Unadvertisement"


class Matching(StrEnum):
    """The time at which a rule is applied: before content is matched with subscriptions, or after."""

    BEFORE = "Before"
    AFTER = "After"


class Point(StrEnum):
    """The position of a message in the overlay (statements §3.4)."""

    INGRESS = "Ingress"
    """It has come from outside."""
    EGRESS = "Egress"
    """It goes outside."""
    ROUTING = "Routing"
    """It goes on to another node."""


class Attach(StrEnum):
    """The condition under which a rule of a filter is attached to matching messages instead of being applied there."""

    NEVER = "Never"
    ALWAYS = "Always"
    KEEP_EXISTING = "KeepExisting"
    """Only to a message that has no policy."""
    IF_YIELD = "IfYield"
    """In place of rules that yield; not if the message has some that do not."""


ANYWHERE = (Point.INGRESS, Point.EGRESS, Point.ROUTING)

Argument = str | int | float | bool
"""An argument of an element. A bare name, such as that of a group or an attribute, is a text."""


def _at() -> int:
    return field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ElementUse:
    """An element with its arguments: `RemoveAttributes(a, b)`."""

    name: str
    arguments: tuple[Argument, ...] = ()
    at: int = _at()
    """Its position in the text."""


@dataclass(frozen=True, slots=True)
class StatementClause:
    """`If {condition} Then {actions}`; the first of a chain whose condition holds counts."""

    condition: Tree | None = None
    """In the language of conditions, with elements as calls; None (`If {}`): always."""
    actions: tuple[ElementUse, ...] = ()
    at: int = _at()


@dataclass(frozen=True, slots=True)
class StatementRule:
    """`On(verb, message) {...}`"""

    verb: Verb
    message: Message
    clauses: tuple[StatementClause, ...]
    matching: Matching = Matching.AFTER
    points: tuple[Point, ...] = ANYWHERE
    """In the order of `ANYWHERE`, each once."""
    attach: Attach = Attach.NEVER
    yields: bool = False
    """`@yield_attach`: it gives way to one that is attached `IfYield`."""
    on_exception: tuple[StatementClause, ...] = ()
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Statement:
    """`PolicyStatement {...}`"""

    rules: tuple[StatementRule, ...]
