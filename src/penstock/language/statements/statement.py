"""Policy statements as trees (statements Fig. 2): when which message is looked at, and what is then done.

What a condition or an action is called with are rule elements. Which there are, and what each takes, is not known here:
`policy/statements/statement.py` makes a policy of a statement.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.language.tree import Tree


class Verb(StrEnum):
    """What happens to the message."""

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
    """Whether a rule is applied before content is compared with what is asked for, or after."""

    BEFORE = "Before"
    AFTER = "After"


class Point(StrEnum):
    """Where in the overlay a message is (statements §3.4)."""

    INGRESS = "Ingress"
    """It has come from outside."""
    EGRESS = "Egress"
    """It goes outside."""
    ROUTING = "Routing"
    """It goes on to another node."""


class Attach(StrEnum):
    """Whether a rule of a filter is attached to the messages that it matches, instead of being applied there."""

    NEVER = "Never"
    ALWAYS = "Always"
    KEEP_EXISTING = "KeepExisting"
    """Only to a message that has no policy."""
    IF_YIELD = "IfYield"
    """In place of rules that yield; not if the message has some that do not."""


ANYWHERE = (Point.INGRESS, Point.EGRESS, Point.ROUTING)

Argument = str | int | float | bool
"""What an element is given. A name that stands bare, such as that of a group or an attribute, is a text."""


def _at() -> int:
    return field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Use:
    """An element with its arguments: `RemoveAttributes(a, b)`."""

    name: str
    arguments: tuple[Argument, ...] = ()
    at: int = _at()
    """Where in the text it stands."""


@dataclass(frozen=True, slots=True)
class Clause:
    """`If {condition} Then {actions}`; the first of a chain whose condition holds counts."""

    condition: Tree | None = None
    """In the language of conditions, with elements as calls; None (`If {}`): always."""
    actions: tuple[Use, ...] = ()
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Rule:
    """`On(verb, message) {...}`"""

    verb: Verb
    message: Message
    clauses: tuple[Clause, ...]
    matching: Matching = Matching.AFTER
    points: tuple[Point, ...] = ANYWHERE
    """In the order of `ANYWHERE`, each once."""
    attach: Attach = Attach.NEVER
    yields: bool = False
    """`@yield_attach`: it gives way to one that is attached `IfYield`."""
    on_exception: tuple[Clause, ...] = ()
    at: int = _at()


@dataclass(frozen=True, slots=True)
class Statement:
    """`PolicyStatement {...}`"""

    rules: tuple[Rule, ...]
