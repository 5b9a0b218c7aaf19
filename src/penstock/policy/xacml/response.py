"""Responses: results, and their XML."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from penstock.policy.xacml.decision import Assigned, Duty, PolicyName
from penstock.policy.xacml.limits import MOST_REQUEST_BYTES, MOST_REQUEST_NODES
from penstock.policy.xacml.names import CORE, MISSING_ATTRIBUTE, OLD_TYPES, XPATH_EXPRESSION
from penstock.policy.xacml.request import Category
from penstock.policy.xacml.status import FINE, Missing, Status
from penstock.policy.xacml.tree import Literal
from penstock.policy.xacml.values import DATA_TYPES, Value, XPathExpression, read_value, show_value
from penstock.policy.xacml.xml import Element, core, read_xml


class Result(NamedTuple):
    """The answer to one request for a decision."""

    decision: str
    """Permit, Deny, NotApplicable or Indeterminate."""
    status: Status = FINE
    obligations: tuple[Duty, ...] = ()
    advice: tuple[Duty, ...] = ()
    categories: tuple[Category, ...] = ()
    """Attributes of the request that were to be repeated."""
    policies: tuple[PolicyName, ...] = ()


Response = tuple[Result, ...]


# --- writing


def show_response(response: Response) -> str:
    """A response as XML."""
    lines = [f'<Response xmlns="{CORE}">']
    for result in response:
        lines.append("  <Result>")
        lines += (f"    {line}" for line in _result(result))
        lines.append("  </Result>")
    return "\n".join([*lines, "</Response>", ""])


def _result(result: Result) -> Iterator[str]:
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
        for one in status.missing:
            issuer = f" Issuer={quoteattr(one.issuer)}" if one.issuer is not None else ""
            yield (
                f"    <MissingAttributeDetail Category={quoteattr(one.category)} AttributeId={quoteattr(one.id)}"
                f" DataType={quoteattr(one.type)}{issuer}/>"
            )
        yield "  </StatusDetail>"
    yield "</Status>"


def printable(text: str) -> str:
    """A text without what XML cannot have."""
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)


def _duties(around: str, tag: str, name: str, duties: Iterable[Duty]) -> Iterator[str]:
    if not duties:
        return
    yield f"<{around}>"
    for duty in duties:
        yield f"  <{tag} {name}={quoteattr(duty.id)}>"
        for one in duty.assigned:
            category = f" Category={quoteattr(one.category)}" if one.category is not None else ""
            issuer = f" Issuer={quoteattr(one.issuer)}" if one.issuer is not None else ""
            attributes = f" AttributeId={quoteattr(one.id)}{category}{issuer}"
            yield f"    {show_typed('AttributeAssignment', attributes, one.type, one.value)}"
        yield f"  </{tag}>"
    yield f"</{around}>"


def show_typed(tag: str, attributes: str, type_uri: str, value: Value) -> str:
    """An element with a value of a type; of a path, with its category and prefixes."""
    if type_uri not in DATA_TYPES:
        return f"<{tag}{attributes} DataType={quoteattr(type_uri)}>{escape(value, _CR)}</{tag}>"
    if type_uri == XPATH_EXPRESSION:
        attributes += "".join(f" xmlns:{prefix}={quoteattr(uri)}" for prefix, uri in value.prefixes)
        attributes += f" XPathCategory={quoteattr(value.category)}" if value.category else ""
    shown = escape(show_value(type_uri, value), _CR)
    return f"<{tag}{attributes} DataType={quoteattr(type_uri)}>{shown}</{tag}>"


_CR = {"\r": "&#13;"}


def show_category(category: Category) -> Iterator[str]:
    """The lines of an `Attributes` element."""
    named = f" xml:id={quoteattr(category.id)}" if category.id is not None else ""
    yield f"<Attributes Category={quoteattr(category.name)}{named}>"
    if category.content is not None:
        yield f"  <Content>{category.content.data.decode()}</Content>"
    for attribute in category.attributes:
        issuer = f" Issuer={quoteattr(attribute.issuer)}" if attribute.issuer is not None else ""
        include = "true" if attribute.include else "false"
        yield f'  <Attribute AttributeId={quoteattr(attribute.id)}{issuer} IncludeInResult="{include}">'
        for literal in attribute.values:
            yield f"    {show_typed('AttributeValue', '', literal.type, literal.value)}"
        yield "  </Attribute>"
    yield "</Attributes>"


# --- reading, to compare with


def read_response(data: bytes) -> Response:
    """A response from XML; raises `XacmlError`. Lenient, as the public cases have attributes of earlier versions."""
    root = read_xml(data, MOST_REQUEST_BYTES, MOST_REQUEST_NODES)
    if core(root) != "Response":
        raise root.wrong(f"expected a `Response`, not `{root.name}`")
    return tuple(_read_result(child) for child in root.children if core(child) == "Result")


def _read_result(element: Element) -> Result:
    from penstock.policy.xacml.request_xml import read_category

    of: dict[str, list[Element]] = {}
    for child in element.children:
        of.setdefault(core(child), []).append(child)
    decision = of["Decision"][0].text.strip() if "Decision" in of else ""
    names = (one for several in of.get("PolicyIdentifierList", ()) for one in several.children)
    return Result(
        decision,
        _read_status(of["Status"][0]) if "Status" in of else FINE,
        _read_duties(of.get("Obligations", ()), "ObligationId"),
        _read_duties(of.get("AssociatedAdvice", ()), "AdviceId"),
        tuple(read_category(child) for child in of.get("Attributes", ())),
        tuple(PolicyName(one.text.strip(), one.get("Version") or "", "Set" in core(one)) for one in names),
    )


def _read_status(element: Element) -> Status:
    code, message, missing = FINE.code, "", []
    for child in element.children:
        match core(child):
            case "StatusCode":
                code = child.need("Value")
            case "StatusMessage":
                message = child.text
            case "StatusDetail":
                missing = [_read_missing(one) for one in child.children if one.name == "MissingAttributeDetail"]
    return Status(code, message, tuple(missing) if code == MISSING_ATTRIBUTE else ())


def _read_missing(element: Element) -> Missing:
    return Missing(
        element.need("Category"), element.need("AttributeId"), element.need("DataType"), element.get("Issuer")
    )


def _read_duties(around: Iterable[Element], name: str) -> tuple[Duty, ...]:
    return tuple(
        Duty(duty.need(name), tuple(_read_assigned(one) for one in duty.children))
        for several in around
        for duty in several.children
    )


def _read_assigned(element: Element) -> Assigned:
    literal = read_literal(element)
    return Assigned(
        element.need("AttributeId"), literal.type, literal.value, element.get("Category"), element.get("Issuer")
    )


def read_literal(element: Element) -> Literal:
    """A value with its type; of a type that is not known, its text. Raises `XacmlError`."""
    type_uri = element.need("DataType")
    type_uri = OLD_TYPES.get(type_uri, type_uri)
    if type_uri not in DATA_TYPES:
        return Literal(type_uri, element.text)
    if type_uri == XPATH_EXPRESSION:
        prefixes = tuple(sorted((prefix, uri) for prefix, uri in element.prefixes.items() if prefix))
        return Literal(type_uri, XPathExpression(element.text.strip(), element.get("XPathCategory") or "", prefixes))
    return Literal(type_uri, read_value(type_uri, element.text))
