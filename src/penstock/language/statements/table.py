"""The rules that may be set on each kind of message: Table 1 of statements, enforced when a policy is set."""

from collections.abc import Iterator

from penstock.language.errors import StatementError
from penstock.language.statements.printer import show_head
from penstock.language.statements.statement import (
    ANYWHERE,
    Attach,
    Matching,
    Message,
    Point,
    Statement,
    StatementRule,
    Verb,
)
from penstock.language.tree import Call, walk

_ADVERTISEMENT, _SUBSCRIPTION, _PUBLICATION, _UNSUBSCRIPTION, _UNADVERTISEMENT = Message

ABOUT: dict[Message, tuple[Message, ...]] = {
    _ADVERTISEMENT: (_ADVERTISEMENT, _SUBSCRIPTION, _PUBLICATION, _UNADVERTISEMENT),
    _SUBSCRIPTION: (_SUBSCRIPTION, _PUBLICATION, _UNSUBSCRIPTION),
    _PUBLICATION: (_PUBLICATION,),
    _UNADVERTISEMENT: (_UNADVERTISEMENT,),
    _UNSUBSCRIPTION: (_UNSUBSCRIPTION,),
}
"""For each kind of message that a policy is set on, the messages that its rules can be about."""

INHERITED: dict[Message, tuple[Message, ...]] = {
    _ADVERTISEMENT: (_SUBSCRIPTION, _PUBLICATION),
    _SUBSCRIPTION: (_PUBLICATION,),
}
"""For each filter, the matching messages that it can attach a rule to."""

_RECEIVER = "AuthenticateReceiver"


def check_place(statement: Statement, carrier: Message) -> None:
    """Raise `StatementError` if a rule cannot be set on a message of this kind."""
    for number, rule in enumerate(statement.rules, 1):
        for mistake in _mistakes(rule, carrier):
            raise StatementError(mistake, f"in rule {number}, `{show_head(rule)}`", rule.at)


def _mistakes(rule: StatementRule, carrier: Message) -> Iterator[str]:
    if rule.message not in ABOUT[carrier]:
        yield f"a policy of {_a(carrier)} is about {_either(ABOUT[carrier])}, not {_a(rule.message)}"
    if rule.verb is Verb.INSERT:
        if rule.message is _PUBLICATION:
            yield "a publication is never inserted into routing tables; there is `Forward`"
        if Point.EGRESS in rule.points and rule.points != ANYWHERE:
            yield "nothing is inserted where it leaves the overlay; `Insert` is for `Ingress` and `Routing`"
    inherited = rule.message in INHERITED.get(carrier, ())
    if rule.attach is not Attach.NEVER and not inherited:
        yield f"`@attach` is for rules about messages that match a filter: {_inherited()}"
    if rule.yields and not inherited and not (rule.message is carrier and _may_inherit(carrier)):
        yield f"`@yield_attach` is for rules in place of which a filter may attach its own: {_inherited()}"
    if rule.matching is Matching.BEFORE and _asks_receiver(rule):
        yield f"`{_RECEIVER}` has no receiver to ask before matching; `@matching: Before` cannot be with it"


def _asks_receiver(rule: StatementRule) -> bool:
    conditions = (clause.condition for clause in (*rule.clauses, *rule.on_exception) if clause.condition is not None)
    nodes = (node for condition in conditions for node, _ in walk(condition))
    return any(isinstance(node, Call) and node.receiver is None and node.function == _RECEIVER for node in nodes)


def _may_inherit(message: Message) -> bool:
    return any(message in messages for messages in INHERITED.values())


def _inherited() -> str:
    return ", ".join(f"{_either(messages)} that matches {_a(filter_)}" for filter_, messages in INHERITED.items())


def _either(messages: tuple[Message, ...]) -> str:
    *others, last = map(_a, messages)
    return f"{', '.join(others)} or {last}" if others else last


def _a(message: Message) -> str:
    return f"{'an' if message[0] in 'AU' else 'a'} {message.lower()}"
