"""Ready-made policies, after the paper's factory (statements §4.1), and policies as they are sent.

await client.subscribe("plant/#", "temperature > 80.0", policy=policies.trim())

Write any other policy as text (`docs/statements.md`). `joined` makes one policy of several.
"""

from collections.abc import Sequence

from penstock.language.errors import StatementError
from penstock.language.statements import statement as ast
from penstock.language.statements.parser import parse_condition, parse_statement
from penstock.language.statements.printer import show_compact
from penstock.language.statements.statement import Statement
from penstock.language.tree import And, Call, Literal, Tree

Policy = str | Statement
"""A policy: its text, or the parsed statement."""

_MAX_BYTES = 65_535  # [MQTT-1.5.4]: the longest text in a packet


def text_of(policy: Policy) -> str:
    """Return a policy as it is sent, on one line; raise `StatementError` if it is invalid."""
    text = show_compact(parse_statement(policy if isinstance(policy, str) else show_compact(_statement(policy))))
    if (size := len(text.encode())) > _MAX_BYTES:
        raise StatementError(f"MQTT sends a policy statement of at most {_MAX_BYTES} bytes, this has {size}")
    return text


def joined(*policies: Policy) -> Statement:
    """Return one policy with the rules of all, in their order."""
    return Statement(tuple(rule for policy in policies for rule in _statement(policy).rules))


def _statement(policy: object) -> Statement:
    if isinstance(policy, str):
        return parse_statement(policy)
    if not isinstance(policy, Statement):
        raise StatementError(f"expected a policy, a text or a statement, not {policy!r:.80}")
    return policy


# --- policies about content: applied where publications leave the overlay. If they were applied earlier, the next node
# would evaluate the subscription's condition on the rest.


def trim() -> Statement:
    """Keep only the attributes that the subscription's condition asks for (Fig. 4)."""
    return _forward((_then("TrimAttributes"),), points=(ast.Point.EGRESS,))


def remove(*names: str, where: str = "") -> Statement:
    """Remove these attributes; `where`: if the condition holds."""
    return _forward((_then("RemoveAttributes", *names, where=where),), points=(ast.Point.EGRESS,))


def keep_only(*names: str, where: str = "") -> Statement:
    """Keep no other attributes than these."""
    return _forward((_then("KeepOnlyAttributes", *names, where=where),), points=(ast.Point.EGRESS,))


def as_xml() -> Statement:
    """Convert the content to XML."""
    return _forward((_then("ToXML"),), points=(ast.Point.EGRESS,))


def as_json() -> Statement:
    """Convert the content to JSON."""
    return _forward((_then("ToJSON"),), points=(ast.Point.EGRESS,))


def trace(attach: ast.Attach = ast.Attach.NEVER) -> Statement:
    """Have every node on the way add information about itself beside the content (Fig. 6)."""
    actions = ("AugmentBrokerHostInfo", "AugmentBrokerLoadIndex", "AugmentProcessingTime")
    return _forward((ast.StatementClause(actions=tuple(map(ast.ElementUse, actions))),), attach=attach)


# --- policies that stop messages


def block(where: str = "") -> Statement:
    """Stop publications; `where`: those for which the condition holds."""
    return _forward((_then("BlockMessage", where=where),))


def block_strictly() -> Statement:
    """Stop publications towards other nodes that have just the attributes the filter asks for (Fig. 22)."""
    return _forward((_then("BlockMessage", where="StrictMatch()"),), points=(ast.Point.ROUTING,))


def authenticate_receiver(*groups: str, every: bool = False, of: ast.Message = ast.Message.PUBLICATION) -> Statement:
    """Send messages only to members of one of these trust groups, or of every one (Fig. 13)."""
    return _authenticate("AuthenticateReceiver", groups, every, of)


def authenticate_sender(*groups: str, every: bool = False, of: ast.Message = ast.Message.PUBLICATION) -> Statement:
    """Accept messages only from members of one of these trust groups, or of every one."""
    return _authenticate("AuthenticateSender", groups, every, of)


def _authenticate(element: str, groups: Sequence[str], every: bool, of: ast.Message) -> Statement:
    if not groups:
        raise ValueError("expected the name of a trust group")
    calls: list[Tree] = [Call(element, None, (Literal("string", group),)) for group in groups]
    conditions = [And(tuple(calls))] if every and len(calls) > 1 else calls
    return _forward((*map(ast.StatementClause, conditions), _then("BlockMessage")), of)


# --- subscriptions in place of advertisements


def flood() -> Statement:
    """Make an advertisement for a mobile producer: it is not spread, but subscriptions that match it are (Fig. 8)."""
    points = (ast.Point.INGRESS, ast.Point.ROUTING)
    return joined(
        _forward((_then("BlockMessage"),), ast.Message.ADVERTISEMENT, points),
        _forward((_then("FloodMessage"),), ast.Message.SUBSCRIPTION, points),
    )


def _then(action: str, *arguments: str, where: str = "") -> ast.StatementClause:
    return ast.StatementClause(parse_condition(where, "the condition"), (ast.ElementUse(action, arguments),))


def _forward(
    clauses: tuple[ast.StatementClause, ...],
    of: ast.Message = ast.Message.PUBLICATION,
    points: tuple[ast.Point, ...] = ast.ANYWHERE,
    attach: ast.Attach = ast.Attach.NEVER,
) -> Statement:
    return Statement((ast.StatementRule(ast.Verb.FORWARD, of, clauses, points=points, attach=attach),))
