"""Responses: results, and their XML."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from penstock.policy.xacml.evaluation.decision import Duty, PolicyName
from penstock.policy.xacml.names import CORE, XPATH_EXPRESSION
from penstock.policy.xacml.request import RequestCategory
from penstock.policy.xacml.status import FINE, MissingAttribute, Status
from penstock.policy.xacml.values.values import DATA_TYPES, Value, show_value


class XacmlResult(NamedTuple):
    """The answer to one request for a decision."""

    decision: str
    """Permit, Deny, NotApplicable or Indeterminate."""
    status: Status = FINE
    obligations: tuple[Duty, ...] = ()
    advice: tuple[Duty, ...] = ()
    categories: tuple[RequestCategory, ...] = ()
    """Attributes of the request that the result repeats."""
    policies: tuple[PolicyName, ...] = ()


XacmlResponse = tuple[XacmlResult, ...]


def show_response(response: XacmlResponse) -> str:
    """Return a response as XML."""
    lines = [f'<Response xmlns="{CORE}">']
    for result in response:
        lines.append("  <Result>")
        lines += (f"    {line}" for line in _result(result))
        lines.append("  </Result>")
    return "\n".join([*lines, "</Response>", ""])


def _result(result: XacmlResult) -> Iterator[str]:
    yield f"<Decision>{result.decision}</Decision>"
    yield from _status(result.status)
    yield from _duties("Obligations", "Obligation", "ObligationId", result.obligations)
    yield from _duties("AssociatedAdvice", "Advice", "AdviceId", result.advice)
    for category in result.categories:
        yield from show_category(category)
    if result.policies:
        yield "<PolicyIdentifierList>"
        for name in result.policies:
            tag = "PolicySetIdReference" if name.is_set else "PolicyIdReference"
            yield f"  <{tag} Version={quoteattr(name.version)}>{escape(name.id)}</{tag}>"
        yield "</PolicyIdentifierList>"


def _status(status: Status) -> Iterator[str]:
    yield "<Status>"
    yield f"  <StatusCode Value={quoteattr(status.code)}/>"
    if status.message:
        yield f"  <StatusMessage>{escape(printable(status.message))}</StatusMessage>"
    if status.missing:
        yield "  <StatusDetail>"
        for attribute in status.missing:
            yield f"    {show_missing(attribute)}"
        yield "  </StatusDetail>"
    yield "</Status>"


def show_attributes(**attributes: str | None) -> str:
    """Return the attributes of an element, each with a space before it, without those that are None."""
    return "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items() if value is not None)


def show_missing(missing: MissingAttribute, namespace: str | None = None) -> str:
    """Return the element that names a missing attribute."""
    named = show_attributes(xmlns=namespace, Category=missing.category, AttributeId=missing.id, DataType=missing.type)
    return f"<MissingAttributeDetail{named}{show_attributes(Issuer=missing.issuer)}/>"


def printable(text: str) -> str:
    """Return a text without characters that XML cannot have."""
    return "".join(character if character.isprintable() or character in "\n\t" else "\ufffd" for character in text)


def _duties(around: str, tag: str, name: str, duties: Iterable[Duty]) -> Iterator[str]:
    if not duties:
        return
    yield f"<{around}>"
    for duty in duties:
        yield f"  <{tag} {name}={quoteattr(duty.id)}>"
        for attribute in duty.assigned:
            named = show_attributes(AttributeId=attribute.id, Category=attribute.category, Issuer=attribute.issuer)
            yield f"    {show_typed('AttributeAssignment', named, attribute.type, attribute.value)}"
        yield f"  </{tag}>"
    yield f"</{around}>"


def show_typed(tag: str, attributes: str, type_uri: str, value: Value) -> str:
    """Return an element with a value of a type; of a path, with its category and prefixes."""
    if type_uri == XPATH_EXPRESSION:
        attributes += "".join(f" xmlns:{prefix}={quoteattr(uri)}" for prefix, uri in value.prefixes)
        attributes += f" XPathCategory={quoteattr(value.category)}" if value.category else ""
    shown = escape(show_value(type_uri, value) if type_uri in DATA_TYPES else value, {"\r": "&#13;"})
    return f"<{tag}{attributes} DataType={quoteattr(type_uri)}>{shown}</{tag}>"


def show_category(category: RequestCategory) -> Iterator[str]:
    """Yield the lines of an `Attributes` element."""
    yield f"<Attributes{show_attributes(Category=category.name, **{'xml:id': category.id})}>"
    if category.content is not None:
        yield f"  <Content>{category.content.data.decode()}</Content>"
    for attribute in category.attributes:
        named = show_attributes(AttributeId=attribute.id, Issuer=attribute.issuer)
        yield f'  <Attribute{named} IncludeInResult="{str(attribute.include).lower()}">'
        for literal in attribute.values:
            yield f"    {show_typed('AttributeValue', '', literal.type, literal.value)}"
        yield "  </Attribute>"
    yield "</Attributes>"
