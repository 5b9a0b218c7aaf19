"""The public conformance cases of XACML 3.0: a policy, a request and the expected response.

Two layouts are known. Flat: `IIA001Policy.xml`, `IIA001Request.xml`, `IIA001Response.xml`; `IIE001PolicyId1.xml` and
such for referenced policies, and `IID029Policy1.xml` for several that decide. Folders: `IIA001/Policy.xml`,
`Request.xml`, `XacmlResponse.xml`; `Request.xml.ignore` where the policy is invalid. In both, referenced policies may
be in a folder beside: `IIE001Policies/` for one case, `Policies/` for all.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from penstock.policy.xacml import Pdp, XacmlError, read_policy, read_request
from penstock.policy.xacml.evaluation.decision import Duty
from penstock.policy.xacml.evaluation.pdp import refused
from penstock.policy.xacml.forms.response_xml import read_response
from penstock.policy.xacml.names import PROCESSING_ERROR
from penstock.policy.xacml.response import XacmlResponse, XacmlResult
from penstock.policy.xacml.status import Unsupported
from penstock.policy.xacml.tree import Root
from penstock.policy.xacml.values.values import XPathExpression

_FILE = re.compile(r"(?P<name>.*?)(?P<kind>Policy|Request|Response)(?P<number>\d*)\.xml(\.ignore)?", re.IGNORECASE)
_REFERRED = re.compile(r"(?P<name>.+?)Policy(Set)?Id.*\.xml", re.IGNORECASE)
_FOLDER = re.compile(r"(?P<name>.*?)(Policies|Repository|PolicyRepository|refPolicies)", re.IGNORECASE)


_SPECIAL = {"IIA002": "it wants an attribute that the request does not have, from elsewhere"}


class CaseOutcome(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    UNSUPPORTED = "unsupported"


@dataclass(slots=True)
class Case:
    """The files of a case."""

    name: str
    policies: list[Path] = field(default_factory=list)
    referred: list[Path] = field(default_factory=list)
    request: Path | None = None
    response: Path | None = None


def cases(folder: Path) -> list[Case]:
    """Return the cases in a folder and below it, by name."""
    by_place: dict[tuple[Path, str], Case] = {}
    shared: list[tuple[Path, Path]] = []
    for file in sorted(folder.rglob("*.xml*")):
        place = file.parent
        inside = _FOLDER.fullmatch(place.name) if place != folder else None
        if inside is not None and not inside["name"]:
            shared.append((place.parent, file))
        elif inside is not None:
            _case(by_place, folder, place.parent, inside["name"]).referred.append(file)
        elif (match := _REFERRED.fullmatch(file.name)) is not None:
            _case(by_place, folder, place, match["name"]).referred.append(file)
        elif (match := _FILE.fullmatch(file.name)) is not None:
            case = _case(by_place, folder, place, match["name"])
            match match["kind"].lower():
                case "policy":
                    case.policies.append(file)
                case "request":
                    case.request = file
                case _:
                    case.response = file
    complete = {key: case for key, case in by_place.items() if case.policies and case.request and case.response}
    for place, file in shared:
        named = {name: case for (beside, name), case in complete.items() if beside == place}
        own = [case for name, case in named.items() if name and file.name.lower().startswith(name)]
        for case in own or named.values():
            case.referred.append(file)
    return sorted(complete.values(), key=lambda case: case.name)


def _case(by_place: dict[tuple[Path, str], Case], folder: Path, place: Path, name: str) -> Case:
    key = (place, name.lower())
    if key not in by_place:
        where = place.relative_to(folder)
        by_place[key] = Case(str(where / name) if name else str(where))
    return by_place[key]


def run(folder: Path, only: str = "") -> Iterator[tuple[str, CaseOutcome, str]]:
    """Run each case; yield its name, outcome and reason."""
    for case in cases(folder):
        if only in case.name:
            yield case.name, *_play(case)


def _play(case: Case) -> tuple[CaseOutcome, str]:
    assert case.request is not None
    assert case.response is not None
    if (why := next((why for name, why in _SPECIAL.items() if name in case.name), None)) is not None:
        return CaseOutcome.UNSUPPORTED, why
    try:
        expected = read_response(case.response.read_bytes())
    except XacmlError as error:
        return CaseOutcome.UNSUPPORTED, f"its response cannot be read: {error}"
    try:
        response = _respond(case)
    except Unsupported as error:
        return CaseOutcome.UNSUPPORTED, str(error)
    if (wrong := difference(response, expected)) is not None:
        return CaseOutcome.FAIL, wrong
    return CaseOutcome.PASS, _other_status(response, expected)


def _respond(case: Case) -> XacmlResponse:
    """Return our response; an invalid policy or request has a response too. Raises `Unsupported`."""
    assert case.request is not None
    try:
        referred = [root for file in case.referred if (root := _available(file)) is not None]
        pdps = [Pdp([_read(file)], referred) for file in case.policies]
        request, now = read_request(case.request.read_bytes()), time.time_ns()
        return _only_one([pdp.decide(request, now) for pdp in pdps])
    except Unsupported:
        raise
    except XacmlError as error:
        return (refused(error),)


def _only_one(responses: list[XacmlResponse]) -> XacmlResponse:
    """Return the response of the one initial policy that decides (IID029, IID030): the norm combines none."""
    deciding = [response for response in responses if any(result.decision in ("Permit", "Deny") for result in response)]
    if len(deciding) > 1:
        raise XacmlError("more than one initial policy is applicable", PROCESSING_ERROR)
    return deciding[0] if deciding else responses[0]


def _read(file: Path) -> Root:
    return read_policy(file.read_bytes())


def _available(file: Path) -> Root | None:
    """Return a policy to refer to; None if it is invalid, which must not matter unless it is used (IIE003)."""
    try:
        root = _read(file)
        Pdp([root])
    except XacmlError:
        return None
    return root


def difference(actual: XacmlResponse, expected: XacmlResponse) -> str | None:
    """Return the first difference from the expected response, in the order of the norm; None if there is none."""
    if len(actual) != len(expected):
        return f"{len(actual)} results, not {len(expected)}"
    for result, expected_result in zip(actual, expected, strict=True):
        if (wrong := _result(result, expected_result)) is not None:
            return wrong
    return None


def _result(actual: XacmlResult, expected: XacmlResult) -> str | None:
    if actual.decision != expected.decision:
        because = f" ({actual.status.message})" if actual.status.message else ""
        return f"{actual.decision}{because}, not {expected.decision}"
    for what, actual_value, expected_value in (
        ("obligations", _duties(actual.obligations), _duties(expected.obligations)),
        ("advice", _duties(actual.advice), _duties(expected.advice)),
        ("attributes", _attributes(actual), _attributes(expected)),
        ("policies", set(actual.policies), set(expected.policies)),
    ):
        if actual_value != expected_value:
            return f"{what} {actual_value or 'none'}, not {expected_value or 'none'}"
    return None


def _duties(duties: tuple[Duty, ...]) -> list[tuple[str, list[tuple[object, ...]]]]:
    # Sorted by name: the norm defines no order.
    return sorted(
        (duty.id, [tuple(assignment._replace(value=_bare(assignment.value))) for assignment in duty.assigned])
        for duty in duties
    )


def _attributes(result: XacmlResult) -> set[tuple[object, ...]]:
    return {
        (category.name, attribute.id, attribute.issuer, value.type, _bare(value.value))
        for category in result.categories
        for attribute in category.attributes
        for value in attribute.values
    }


def _bare(value: object) -> object:
    """Return a path without its namespace prefixes: a response need not have those of the policy."""
    return value._replace(prefixes=()) if isinstance(value, XPathExpression) else value


def _other_status(actual: XacmlResponse, expected: XacmlResponse) -> str:
    for result, expected_result in zip(actual, expected, strict=True):
        code, expected_code = result.status.code, expected_result.status.code
        if code != expected_code:
            return f"status {_short(code)}, not {_short(expected_code)}"
    return ""


def _short(code: str) -> str:
    return code.rpartition(":")[2]
