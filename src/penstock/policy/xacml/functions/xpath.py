"""Functions of XPath expressions (A.3.15). They are optional in the norm."""

from penstock.policy.xacml.functions.function import FunctionTable, add
from penstock.policy.xacml.names import CONTENT_SELECTOR, FUNCTION_3, XPATH_EXPRESSION
from penstock.policy.xacml.request import Context
from penstock.policy.xacml.status import malformed
from penstock.policy.xacml.values.values import XPathExpression
from penstock.policy.xacml.xpath import Node, is_at_or_below, key_of


def _nodes(context: Context, expression: XPathExpression) -> list[Node]:
    if not expression.category:
        raise malformed(f"`{expression.path}` has no `XPathCategory`")
    has_selector = (expression.category, CONTENT_SELECTOR, XPATH_EXPRESSION) in context.bags
    context_id = CONTENT_SELECTOR if has_selector else None
    nodes = context.select(expression.category, expression.path, expression.prefixes, context_id)
    context.charge(len(nodes))
    return nodes


def _equal(context: Context, expression: XPathExpression, other: XPathExpression) -> bool:
    """Return whether they have a node in common."""
    keys = {key_of(node) for node in _nodes(context, expression)}
    return any(key_of(node) in keys for node in _nodes(context, other))


def _match(context: Context, expression: XPathExpression, other: XPathExpression) -> bool:
    """Return whether a node of the second is one of the first, or below one."""
    keys = {key_of(node) for node in _nodes(context, expression)}
    return any(is_at_or_below(node, keys) for node in _nodes(context, other))


XPATH_FUNCTIONS: FunctionTable = {}
"""They are applied to the context first, then to their arguments."""
add(XPATH_FUNCTIONS, FUNCTION_3, "xpath-node-count", "xpathExpression -> integer", lambda *of: len(_nodes(*of)))
add(XPATH_FUNCTIONS, FUNCTION_3, "xpath-node-equal", "xpathExpression xpathExpression -> boolean", _equal)
add(XPATH_FUNCTIONS, FUNCTION_3, "xpath-node-match", "xpathExpression xpathExpression -> boolean", _match)
