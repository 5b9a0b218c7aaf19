"""Requests and responses in JSON: the JSON profile of XACML 3.0, version 1.1."""

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from penstock.policy.xacml import names
from penstock.policy.xacml.evaluation.decision import AssignedAttribute, Duty, PolicyName
from penstock.policy.xacml.limits import MAX_DEPTH, MAX_REQUEST_BYTES
from penstock.policy.xacml.request import RequestAttribute, RequestCategory, XacmlRequest
from penstock.policy.xacml.response import XacmlResponse, XacmlResult, show_missing
from penstock.policy.xacml.status import FINE, Status, XacmlError
from penstock.policy.xacml.tree import LiteralValue
from penstock.policy.xacml.values.values import DATA_TYPES, SHORT_TYPES, Value, XPathExpression, read_value, show_value
from penstock.policy.xacml.xpath import RequestContent

_MAX_SAFE = 2**53
"""Integers beyond it are not the same number to every reader of JSON."""

# --- reading


def read_json(data: bytes) -> Any:
    """Decode JSON within bounds; raises `XacmlError`."""
    if len(data) > MAX_REQUEST_BYTES:
        raise XacmlError(f"more than {MAX_REQUEST_BYTES} bytes of JSON")
    try:
        return json.loads(data, object_pairs_hook=_unique, parse_constant=_no_constant)
    except XacmlError:
        raise
    except RecursionError:
        raise XacmlError(f"not JSON: more than {MAX_DEPTH} values inside each other") from None
    except ValueError as error:
        raise XacmlError(f"not JSON: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise XacmlError("not JSON: an object with a name twice")
    return members


def _no_constant(text: str) -> NoReturn:
    raise XacmlError(f"not JSON: `{text}`")


def read_request_json(data: bytes) -> XacmlRequest:
    """Read a request; raises `XacmlError`."""
    whole = _object(read_json(data), "a request")
    request = _object(whole.get("Request"), "`Request`")
    _xpath_version(request.get("XPathVersion"))
    categories: list[RequestCategory] = []
    for name, value in request.items():
        if name in names.CATEGORIES:
            categories += (_category(item, names.CATEGORIES[name]) for item in _several(value))
        elif name == "Category":
            categories += (_category(item, None) for item in _several(value))
        elif name not in ("ReturnPolicyIdList", "CombinedDecision", "XPathVersion", "MultiRequests"):
            raise XacmlError(f"`{name}` does not belong in `Request`")
    references: list[tuple[str, ...]] = []
    if (multiple := request.get("MultiRequests")) is not None:
        for reference in _several(_object(multiple, "`MultiRequests`").get("RequestReference")):
            ids = _several(_object(reference, "`RequestReference`").get("ReferenceId"))
            references.append(tuple(_text(item, "`ReferenceId`") for item in ids))
    return XacmlRequest(
        tuple(categories), _flag(request, "ReturnPolicyIdList"), _flag(request, "CombinedDecision"), tuple(references)
    )


def _xpath_version(version: Any) -> None:
    if version is not None and str(version).lower() != names.XPATH_1.lower():
        raise XacmlError(f"`{version}` is not a version of XPath that is known here")


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise XacmlError(f"{what} is an object")
    return value


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise XacmlError(f"{what} is a text")
    return value


def _flag(of: Mapping[str, Any], name: str) -> bool:
    value = of.get(name, False)
    if not isinstance(value, bool):
        raise XacmlError(f"`{name}` is true or false")
    return value


def _optional(of: Mapping[str, Any], name: str) -> str | None:
    value = of.get(name)
    return None if value is None else _text(value, f"`{name}`")


def _category(value: Any, name: str | None) -> RequestCategory:
    members = _object(value, "a category")
    identifier = name or _category_name(_text(members.get("CategoryId"), "`CategoryId`"))
    attributes = tuple(_attribute(attribute) for attribute in _several(members.get("Attribute", [])))
    content = _optional(members, "Content")
    document = None if content is None else _content(content)
    return RequestCategory(identifier, attributes, document, _optional(members, "Id"))


def _category_name(text: str) -> str:
    return names.CATEGORIES.get(text, text)


def _content(text: str) -> RequestContent:
    if text.lstrip().startswith("<"):
        return RequestContent(text.encode())
    try:
        return RequestContent(base64.b64decode(text, validate=True))
    except binascii.Error:
        raise XacmlError("`Content` is neither XML nor XML in base64") from None


def _attribute(value: Any) -> RequestAttribute:
    members = _object(value, "an attribute")
    values = _several(members.get("Value"))
    named = _optional(members, "DataType")
    type_uri = _inferred(values) if named is None else SHORT_TYPES.get(named, names.OLD_TYPES.get(named, named))
    return RequestAttribute(
        _text(members.get("AttributeId"), "`AttributeId`"),
        tuple(LiteralValue(type_uri, _value(type_uri, item)) for item in values),
        _optional(members, "Issuer"),
        _flag(members, "IncludeInResult"),
    )


def _inferred(values: list[Any]) -> str:
    """Return the type of values without a declared one (3.3): all of one kind."""
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return names.DOUBLE
    if len(kinds) > 1:
        raise XacmlError("the values of an attribute are of one type")
    of = {bool: names.BOOLEAN, int: names.INTEGER, float: names.DOUBLE, dict: names.XPATH_EXPRESSION}
    return of.get(kinds.pop(), names.STRING) if kinds else names.STRING


def _value(type_uri: str, value: Any) -> Value:
    if type_uri == names.XPATH_EXPRESSION:
        return _path(_object(value, "an XPath expression"))
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, int | float):
        text = repr(value)
    else:
        text = _text(value, "a value")
    return read_value(type_uri, text) if type_uri in DATA_TYPES else text


def _path(value: Mapping[str, Any]) -> XPathExpression:
    namespaces = [_object(namespace, "a namespace") for namespace in _several(value.get("Namespaces", []))]
    prefixes = {
        _optional(namespace, "Prefix") or "": _text(namespace.get("Namespace"), "`Namespace`")
        for namespace in namespaces
    }
    return XPathExpression(
        _text(value.get("XPath"), "`XPath`"),
        _category_name(_text(value.get("XPathCategory"), "`XPathCategory`")),
        tuple(sorted((prefix, uri) for prefix, uri in prefixes.items() if prefix)),
    )


# --- writing


def show_response_json(response: XacmlResponse) -> str:
    """Return a response as JSON."""
    return json.dumps({"Response": [_result(result) for result in response]}, indent=2, ensure_ascii=False) + "\n"


def _members(**members: Any) -> dict[str, Any]:
    """Return the members of an object, without those that are None."""
    return {name: value for name, value in members.items() if value is not None}


def _result(result: XacmlResult) -> dict[str, Any]:
    return _members(
        Decision=result.decision,
        Status=None if result.status == FINE else _status(result.status),
        Obligations=[_duty(duty) for duty in result.obligations] or None,
        AssociatedAdvice=[_duty(duty) for duty in result.advice] or None,
        Category=[_shown_category(category) for category in result.categories] or None,
        PolicyIdentifierList=dict(_policies(result.policies)) or None,
    )


def _status(status: Status) -> dict[str, Any]:
    # StatusDetail of the profile is XML, as text (5.2.4.1).
    xml = "".join(show_missing(attribute, names.CORE) for attribute in status.missing)
    return _members(StatusCode={"Value": status.code}, StatusMessage=status.message or None, StatusDetail=xml or None)


def _duty(duty: Duty) -> dict[str, Any]:
    return _members(Id=duty.id, AttributeAssignment=[_assigned(attribute) for attribute in duty.assigned] or None)


def _assigned(attribute: AssignedAttribute) -> dict[str, Any]:
    value = _plain(attribute.type, attribute.value)
    named = _members(AttributeId=attribute.id, Issuer=attribute.issuer, Category=attribute.category)
    return {**named, "DataType": attribute.type, "Value": value}


def _shown_category(category: RequestCategory) -> dict[str, Any]:
    return {"CategoryId": category.name, "Attribute": [_shown(attribute) for attribute in category.attributes]}


def _shown(attribute: RequestAttribute) -> dict[str, Any]:
    values = [_plain(literal.type, literal.value) for literal in attribute.values]
    return {
        **_members(AttributeId=attribute.id, Issuer=attribute.issuer),
        "DataType": attribute.values[0].type if attribute.values else names.STRING,
        "Value": values[0] if len(values) == 1 else values,
    }


def _policies(policies: tuple[PolicyName, ...]) -> Iterator[tuple[str, Any]]:
    for tag, is_set in (("PolicyIdReference", False), ("PolicySetIdReference", True)):
        references = [{"Id": policy.id, "Version": policy.version} for policy in policies if policy.is_set == is_set]
        if references:
            yield tag, references


def _plain(type_uri: str, value: Value) -> Any:
    plain: dict[str, Callable[[Value], Any]] = {
        names.BOOLEAN: bool,
        names.INTEGER: lambda number: number if abs(number) <= _MAX_SAFE else str(number),
        names.DOUBLE: lambda number: number if math.isfinite(number) else show_value(type_uri, number),
        names.XPATH_EXPRESSION: lambda path: {
            "XPathCategory": path.category,
            "Namespaces": [{"Prefix": prefix, "Namespace": uri} for prefix, uri in path.prefixes],
            "XPath": path.path,
        },
    }
    if type_uri not in DATA_TYPES:
        return value
    return plain[type_uri](value) if type_uri in plain else show_value(type_uri, value)
