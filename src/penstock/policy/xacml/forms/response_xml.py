"""Responses in XML, which conformance cases expect."""

from collections.abc import Iterable

from penstock.policy.xacml.evaluation.decision import AssignedAttribute, Duty, PolicyName
from penstock.policy.xacml.forms.literals import read_literal
from penstock.policy.xacml.forms.request_xml import read_category
from penstock.policy.xacml.forms.xml import XmlElement, core, read_xml
from penstock.policy.xacml.limits import MAX_REQUEST_BYTES, MAX_REQUEST_NODES
from penstock.policy.xacml.names import MISSING_ATTRIBUTE
from penstock.policy.xacml.response import XacmlResponse, XacmlResult
from penstock.policy.xacml.status import FINE, MissingAttribute, Status


def read_response(data: bytes) -> XacmlResponse:
    """Read a response; raises `XacmlError`. It is lenient, as the public cases have attributes of earlier versions."""
    root = read_xml(data, MAX_REQUEST_BYTES, MAX_REQUEST_NODES)
    if core(root) != "Response":
        raise root.wrong(f"expected a `Response`, not `{root.name}`")
    return tuple(_read_result(child) for child in root.children if core(child) == "Result")


def _read_result(element: XmlElement) -> XacmlResult:
    of: dict[str, list[XmlElement]] = {}
    for child in element.children:
        of.setdefault(core(child), []).append(child)
    decision = of["Decision"][0].text.strip() if "Decision" in of else ""
    names = (name for listed in of.get("PolicyIdentifierList", ()) for name in listed.children)
    return XacmlResult(
        decision,
        _read_status(of["Status"][0]) if "Status" in of else FINE,
        _read_duties(of.get("Obligations", ()), "ObligationId"),
        _read_duties(of.get("AssociatedAdvice", ()), "AdviceId"),
        tuple(read_category(child) for child in of.get("Attributes", ())),
        tuple(PolicyName(name.text.strip(), name.get("Version") or "", "Set" in core(name)) for name in names),
    )


def _read_status(element: XmlElement) -> Status:
    code, message, missing = FINE.code, "", []
    for child in element.children:
        match core(child):
            case "StatusCode":
                code = child.need("Value")
            case "StatusMessage":
                message = child.text
            case "StatusDetail":
                missing = [_read_missing(part) for part in child.children if part.name == "MissingAttributeDetail"]
    return Status(code, message, tuple(missing) if code == MISSING_ATTRIBUTE else ())


def _read_missing(element: XmlElement) -> MissingAttribute:
    return MissingAttribute(
        element.need("Category"), element.need("AttributeId"), element.need("DataType"), element.get("Issuer")
    )


def _read_duties(around: Iterable[XmlElement], name: str) -> tuple[Duty, ...]:
    return tuple(
        Duty(duty.need(name), tuple(_read_assigned(assigned) for assigned in duty.children))
        for duties in around
        for duty in duties.children
    )


def _read_assigned(element: XmlElement) -> AssignedAttribute:
    literal = read_literal(element)
    return AssignedAttribute(
        element.need("AttributeId"), literal.type, literal.value, element.get("Category"), element.get("Issuer")
    )
