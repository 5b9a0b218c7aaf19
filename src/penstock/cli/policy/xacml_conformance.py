"""The public conformance cases of XACML 3.0: a policy, a request and the response that is expected.

Two layouts are known. Flat: `IIA001Policy.xml`, `IIA001Request.xml`, `IIA001Response.xml`; `IIE001PolicyId1.xml` and
such for policies that are referred to, and `IID029Policy1.xml` for several that decide. Folders: `IIA001/Policy.xml`,
`Request.xml`, `XacmlResponse.xml`, with policies that are referred to in folders beside; `Request.xml.ignore` where the
policy is no policy.
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


class Outcome(StrEnum):
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
    """The cases in a folder and below it, by name."""
    found: dict[tuple[Path, str], Case] = {}
    for file in sorted(folder.rglob("*.xml*")):
        place, name = file.parent, ""
        inside = _FOLDER.fullmatch(place.name) if place != folder else None
        if inside is not None:
            place, name = place.parent, inside["name"]
        if (match := _REFERRED.fullmatch(file.name)) is not None:
            _case(found, folder, place, name or match["name"]).referred.append(file)
        elif (match := _FILE.fullmatch(file.name)) is not None:
            case = _case(found, folder, place, name or match["name"])
            match match["kind"].lower():
                case "policy":
                    case.policies.append(file)
                case "request":
                    case.request = file
                case _:
                    case.response = file
        elif inside is not None:
            _case(found, folder, place, name).referred.append(file)
    whole = (one for one in found.values() if one.policies and one.request is not None and one.response is not None)
    return sorted(whole, key=lambda one: one.name)


def _case(found: dict[tuple[Path, str], Case], folder: Path, place: Path, name: str) -> Case:
    key = (place, name.lower())
    if key not in found:
        where = place.relative_to(folder)
        found[key] = Case(str(where / name) if name else str(where))
    return found[key]


def run(folder: Path, only: str = "") -> Iterator[tuple[str, Outcome, str]]:
    """Each case with what it comes to, and why."""
    for case in cases(folder):
        if only in case.name:
            yield case.name, *_play(case)


def _play(case: Case) -> tuple[Outcome, str]:
    assert case.request is not None
    assert case.response is not None
    if (why := next((why for name, why in _SPECIAL.items() if name in case.name), None)) is not None:
        return Outcome.UNSUPPORTED, why
    try:
        expected = read_response(case.response.read_bytes())
    except XacmlError as error:
        return Outcome.UNSUPPORTED, f"its response cannot be read: {error}"
    try:
        response = _respond(case)
    except Unsupported as error:
        return Outcome.UNSUPPORTED, str(error)
    if (wrong := difference(response, expected)) is not None:
        return Outcome.FAIL, wrong
    return Outcome.PASS, _other_status(response, expected)


def _respond(case: Case) -> XacmlResponse:
    """What we say; what is no policy or no request has a response too. Raises `Unsupported`."""
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
    """Of several initial policies one may decide (IID029, IID030); the norm does not say how they are combined."""
    deciding = [one for one in responses if any(result.decision in ("Permit", "Deny") for result in one)]
    if len(deciding) > 1:
        raise XacmlError("more than one initial policy is applicable", PROCESSING_ERROR)
    return deciding[0] if deciding else responses[0]


def _read(file: Path) -> Root:
    return read_policy(file.read_bytes())


def _available(file: Path) -> Root | None:
    """A policy to refer to; None if it is none, which must not matter unless it is asked (IIE003)."""
    try:
        root = _read(file)
        Pdp([root])
    except XacmlError:
        return None
    return root


def difference(found: XacmlResponse, expected: XacmlResponse) -> str | None:
    """What is other than expected, in the order of the norm's elements; None if nothing."""
    if len(found) != len(expected):
        return f"{len(found)} results, not {len(expected)}"
    for one, other in zip(found, expected, strict=True):
        if (wrong := _result(one, other)) is not None:
            return wrong
    return None


def _result(found: XacmlResult, expected: XacmlResult) -> str | None:
    if found.decision != expected.decision:
        because = f" ({found.status.message})" if found.status.message else ""
        return f"{found.decision}{because}, not {expected.decision}"
    for what, one, other in (
        ("obligations", _duties(found.obligations), _duties(expected.obligations)),
        ("advice", _duties(found.advice), _duties(expected.advice)),
        ("attributes", _attributes(found), _attributes(expected)),
        ("policies", set(found.policies), set(expected.policies)),
    ):
        if one != other:
            return f"{what} {one or 'none'}, not {other or 'none'}"
    return None


def _duties(duties: tuple[Duty, ...]) -> list[tuple[str, list[tuple[object, ...]]]]:
    # In the order of their names: the norm has none.
    return sorted((duty.id, [tuple(one._replace(value=_bare(one.value))) for one in duty.assigned]) for duty in duties)


def _attributes(result: XacmlResult) -> set[tuple[object, ...]]:
    return {
        (category.name, attribute.id, attribute.issuer, value.type, _bare(value.value))
        for category in result.categories
        for attribute in category.attributes
        for value in attribute.values
    }


def _bare(value: object) -> object:
    """A path without the prefixes around it, of which a response need not have those of the policy."""
    return value._replace(prefixes=()) if isinstance(value, XPathExpression) else value


def _other_status(found: XacmlResponse, expected: XacmlResponse) -> str:
    pairs = ((one.status.code, other.status.code) for one, other in zip(found, expected, strict=True))
    different = [f"status {_short(one)}, not {_short(other)}" for one, other in pairs if one != other]
    return different[0] if different else ""


def _short(code: str) -> str:
    return code.rpartition(":")[2]
