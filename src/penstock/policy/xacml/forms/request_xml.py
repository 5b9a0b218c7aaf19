"""Requests from XML (5.42 to 5.46)."""

from penstock.policy.xacml.forms.literals import read_literal
from penstock.policy.xacml.forms.policy_xml import xpath_version
from penstock.policy.xacml.forms.xml import XmlElement, core, read_xml, show_xml
from penstock.policy.xacml.limits import MAX_REQUEST_BYTES, MAX_REQUEST_NODES
from penstock.policy.xacml.request import RequestAttribute, RequestCategory, XacmlRequest
from penstock.policy.xacml.status import XacmlError
from penstock.policy.xacml.xpath import RequestContent

_ID = "http://www.w3.org/XML/1998/namespace\nid"


def read_request(data: bytes) -> XacmlRequest:
    """Read a request; raises `XacmlError`."""
    root = read_xml(data, MAX_REQUEST_BYTES, MAX_REQUEST_NODES)
    if core(root) != "Request":
        raise root.wrong(f"expected a `Request`, not `{root.name}`")
    categories: list[RequestCategory] = []
    references: list[tuple[str, ...]] = []
    for child in root.children:
        match core(child):
            case "RequestDefaults":
                xpath_version(child)
            case "Attributes":
                categories.append(read_category(child))
            case "MultiRequests":
                references += (_reference(reference) for reference in child.children)
            case name:
                raise child.wrong(f"`{name}` does not belong in `Request`")
    return XacmlRequest(
        tuple(categories), _flag(root, "ReturnPolicyIdList"), _flag(root, "CombinedDecision"), tuple(references)
    )


def _flag(element: XmlElement, name: str) -> bool:
    # The schema asks for both; requests in use go without.
    return bool(element.flag(name))


def _reference(element: XmlElement) -> tuple[str, ...]:
    if core(element) != "RequestReference":
        raise element.wrong(f"expected `RequestReference`, not `{element.name}`")
    return tuple(child.need("ReferenceId") for child in element.children)


def read_category(element: XmlElement) -> RequestCategory:
    """Read an `Attributes` element; raises `XacmlError`."""
    attributes: list[RequestAttribute] = []
    content: RequestContent | None = None
    for child in element.children:
        match core(child):
            case "Attribute":
                attributes.append(_attribute(child))
            case "Content" if content is None:
                content = _content(child)
            case name:
                raise child.wrong(f"`{name}` does not belong in `Attributes`, or not twice")
    return RequestCategory(element.need("Category"), tuple(attributes), content, element.attributes.get(_ID))


def _content(element: XmlElement) -> RequestContent | None:
    roots = list(element.children)
    if len(roots) > 1:
        raise element.wrong("`Content` has more than one element")
    return RequestContent(show_xml(roots[0]).encode()) if roots else None


def _attribute(element: XmlElement) -> RequestAttribute:
    values = []
    for child in element.children:
        if core(child) != "AttributeValue":
            raise child.wrong(f"`{child.name}` does not belong in `Attribute`")
        try:
            values.append(read_literal(child))
        except XacmlError as error:
            raise child.wrong(str(error)) from None
    if not values:
        raise element.wrong("an `Attribute` has at least one value")
    return RequestAttribute(
        element.need("AttributeId"), tuple(values), element.get("Issuer"), bool(element.flag("IncludeInResult"))
    )
