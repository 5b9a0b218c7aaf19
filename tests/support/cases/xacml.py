"""What the tests of XACML share: both evaluators on one tree, requests from plain values."""

from typing import Any

from penstock.policy.xacml import Pdp, RequestAttribute, RequestCategory, XacmlRequest
from penstock.policy.xacml.evaluation.decision import XacmlOutcome
from penstock.policy.xacml.evaluation.reference import ReferenceEvaluator
from penstock.policy.xacml.forms.short import from_plain
from penstock.policy.xacml.forms.short_expressions import AttributeNames, literal
from penstock.policy.xacml.request import Context, Single
from penstock.policy.xacml.tree import LiteralValue, Root
from penstock.policy.xacml.values.values import SHORT_TYPES
from penstock.policy.xacml.xpath import RequestContent

NOW = 1_000_000_000 * 10**9  # 2001-09-09T01:46:40Z


def value_of(written: Any) -> LiteralValue:
    """A value as cases write it: plain, or `{value: …, type: …}`."""
    if isinstance(written, dict):
        return literal(written["value"], SHORT_TYPES[written["type"]])
    return literal(written)


def single(attributes: dict[str, Any], content: str | None = None) -> Single:
    """A request for one decision, of attributes by their names in the short form: a value, or a list of values."""
    found: dict[str, list[RequestAttribute]] = {}
    for name, written in attributes.items():
        designator = AttributeNames().find(name).designator
        values = tuple(value_of(one) for one in (written if isinstance(written, list) else [written]))
        found.setdefault(designator.category, []).append(RequestAttribute(designator.id, values))
    resource = AttributeNames().find("resource.x").designator.category
    if content is not None:
        found.setdefault(resource, [])
    return tuple(
        RequestCategory(
            name, tuple(several), RequestContent(content.encode()) if content and name == resource else None
        )
        for name, several in found.items()
    )


def request(attributes: dict[str, Any], **options: Any) -> XacmlRequest:
    return XacmlRequest(single(attributes), **options)


def both(root: Root, of: Single, *referenced: Root) -> XacmlOutcome:
    """What both evaluators come to; the compiled one's status, which the other does not have."""
    pdp = Pdp([root], referenced)
    compiled = pdp.evaluate(Context(of, NOW))
    read = ReferenceEvaluator(pdp.repository, Context(of, NOW)).policy(pdp.root)
    assert (compiled.decision, compiled.obligations, compiled.advice) == (read.decision, read.obligations, read.advice)
    return compiled


def policy(plain: dict[str, Any]) -> Root:
    return from_plain({"policy": "p", **plain})
