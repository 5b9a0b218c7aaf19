"""Privacy policies in XACML: who may receive events on some topics, and with which obligations (contracts §2.2).

Each node is a policy enforcement point: for each receiver it asks the policies of a topic, with what is known of the
receiver, of the event and of the moment. Only a Permit releases, and only if every obligation of it is understood.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec

from penstock.model.content.content import Content, Format
from penstock.model.errors import PolicyError
from penstock.model.quality import NO_QUALITY, MetricKey, Quality
from penstock.policy.contracts.contract import RETAIN, SHOWN, ConsumerContract, ProducerContract, Subject
from penstock.policy.contracts.degrade import Aggregate, Degradation, Delay, Grid, Keep, Step
from penstock.policy.contracts.plain_form import plain_degradation
from penstock.policy.contracts.privacy_types import QUALITY, GivenTypes, Plain, Values, text_of, typed, types_of
from penstock.policy.xacml import Pdp, XacmlError, names, read_policy, read_short
from penstock.policy.xacml.evaluation.decision import Duty
from penstock.policy.xacml.request import RequestAttribute, RequestCategory, Single, XacmlRequest
from penstock.policy.xacml.response import XacmlResult
from penstock.policy.xacml.tree import DutyExpression, LiteralValue, Root, XacmlPolicy, inside
from penstock.policy.xacml.xpath import RequestContent as Document

ACCESS = "access"
_MAX_OBLIGATIONS = 64
_MAX_KNOWN = 10_000


class ReleaseRequest(NamedTuple):
    """A request for a decision on the release of an event."""

    client: str
    """The receiver of the event."""
    known: Subject
    """The attributes that the domain gives it."""
    consumers: tuple[ConsumerContract, ...]
    """Its contracts, with its guarantees."""
    topic: str
    producer: str
    """The producer of the event; empty where it is unknown: at other nodes than its own."""
    situations: Collection[str]
    """The open situations."""
    values: Values = ()
    """The attributes of the domain that are not texts."""
    quality: Quality = NO_QUALITY
    """The quality of the event."""


def quality_id(key: MetricKey) -> str:
    """Return the attribute of the resource that a metric of its quality is."""
    return f"{QUALITY}{key}"


class Permitted(NamedTuple):
    """The conditions of a release."""

    degrade: tuple[Degradation, ...] = ()
    retain: float | None = None
    """Seconds for which it may be kept."""


def write_permitted(permitted: Permitted) -> str:
    """Encode the conditions of a release, as the ACE set carries them."""
    plain = {"degrade": [plain_degradation(degradation) for degradation in permitted.degrade]}
    return msgspec.json.encode({**plain, "retain": permitted.retain}).decode()


@dataclass(frozen=True)
class PrivacyPolicy:
    """Policies for the events on some topics."""

    name: str
    filter: str
    pdp: Pdp
    resource: tuple[tuple[str, Plain], ...] = ()
    """Attributes of these events, as attributes of the resource."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """By name of an attribute of a category (`subject.group`), its identifier in the policies."""
    _last: dict[tuple[str, str], tuple[ReleaseRequest, Single]] = field(default_factory=dict, compare=False, repr=False)
    """By client and topic, the last request without a document: mostly it is the same again."""

    def decide(self, release: ReleaseRequest, content: Content, now: float) -> Permitted | str:
        """Return the conditions of the release, or the reason for a refusal."""
        document = Document(content.payload) if content.format is Format.XML else None  # for selectors
        result = self._decide(release, document, now)
        if result.decision != "Permit":
            message = f": {result.status.message}" if result.status.message else ""
            return f"privacy policy `{self.name}`: {result.decision}{message}"
        try:
            return _permitted(result.obligations)
        except PolicyError as error:
            return f"privacy policy `{self.name}`: its obligations cannot be fulfilled: {error}"

    def permits(self, release: ReleaseRequest) -> bool:
        """Return whether the decision is Permit, whatever its obligations, the content and the time."""
        return self._decide(release, None, 0.0).decision == "Permit"

    def _decide(self, release: ReleaseRequest, document: Document | None, now: float) -> XacmlResult:
        subject, resource, *others = self._categories(release._replace(quality=NO_QUALITY))
        measured = tuple(
            RequestAttribute(self._id("resource", id, id), (LiteralValue(names.DOUBLE, metric.value),))
            for metric in release.quality
            for id in (quality_id(metric.key),)
        )
        resource = resource._replace(attributes=(*resource.attributes, *measured), content=document)
        (result,) = self.pdp.decide(XacmlRequest((subject, resource, *others)), int(now * 1e9))
        return result

    def _categories(self, release: ReleaseRequest) -> Single:
        key = (release.client, release.topic)
        last = self._last.get(key)
        if last is not None and last[0] == release:
            return last[1]
        if len(self._last) >= _MAX_KNOWN:
            self._last.clear()
        categories = self._request(release)
        self._last[key] = release, categories
        return categories

    def _request(self, release: ReleaseRequest) -> Single:
        subject: list[tuple[str, str, tuple[str, ...]]] = [("id", names.SUBJECT_ID, (release.client,))]
        subject_texts: dict[str, set[str]] = {}
        for name, values in release.known:
            subject_texts.setdefault(name, set()).update(values)
        for contract in release.consumers:
            subject_texts.setdefault("purpose", set()).update(contract.purposes)
            subject_texts.setdefault("situation", set()).update(contract.situations)
            for name, values in contract.attributes:
                subject_texts.setdefault(name, set()).update(values)
        subject += [(name, name, tuple(sorted(values))) for name, values in subject_texts.items()]
        resource_values = dict(self.resource)
        resource = [
            ("id", names.RESOURCE_ID, (text_of(resource_values.pop("id", release.topic)),)),
            ("topic", "topic", (release.topic,)),
        ]
        resource += [(name, name, (text_of(value),)) for name, value in resource_values.items()]
        if release.producer:
            resource.append(("producer", "producer", (release.producer,)))
        numbers = tuple((name, typed(value)) for name, value in resource_values.items())
        moment = [("situation", "situation", tuple(sorted(release.situations)))]
        retention = [contract.retention for contract in release.consumers if contract.retention is not None]
        longest = tuple(LiteralValue(names.DOUBLE, seconds) for seconds in sorted(retention)[-1:])
        others = self._values("subject", release.values)
        promised = (RequestAttribute(self._id("subject", "retention", "retention"), longest),) if longest else ()
        return (
            RequestCategory(names.SUBJECT, (*self._texts("subject", subject), *promised, *others)),
            RequestCategory(names.RESOURCE, (*self._texts("resource", resource), *self._values("resource", numbers))),
            RequestCategory(names.ACTION, self._texts("action", [("id", names.ACTION_ID, (ACCESS,))])),
            RequestCategory(names.ENVIRONMENT, self._texts("environment", moment)),
        )

    def _texts(self, category: str, named: Iterable[tuple[str, str, tuple[str, ...]]]) -> tuple[RequestAttribute, ...]:
        return tuple(
            RequestAttribute(
                self._id(category, name, otherwise), tuple(LiteralValue(names.STRING, text) for text in values)
            )
            for name, otherwise, values in named
            if values
        )

    def _values(self, category: str, named: Values) -> tuple[RequestAttribute, ...]:
        return tuple(RequestAttribute(self._id(category, name, name), values) for name, values in named if values)

    def _id(self, category: str, name: str, otherwise: str) -> str:
        return self.ids.get(f"{category}.{name}", otherwise)


def read_text(text: str) -> Root:
    """Read a policy in XML or in the short form; raise `PolicyError`."""
    try:
        return read_policy(text.encode()) if text.lstrip().startswith("<") else read_short(text.encode())
    except (XacmlError, UnicodeEncodeError) as error:
        raise PolicyError(str(error)) from None


def roots_of(contract: ProducerContract) -> list[Root]:
    """Return what the policy in XACML of a producer's contract says; nothing if it has none. Raise `PolicyError`."""
    return [read_text(contract.xacml)] if contract.xacml else []


@lru_cache(maxsize=4_096)
def policy_in(contract: ProducerContract) -> PrivacyPolicy | None:
    """Return the policy in XACML of a producer's contract; None: it has none."""
    if not contract.xacml:
        return None
    return PrivacyPolicy(contract.name, contract.filter, Pdp(roots_of(contract)))


def given_types(
    resource: Mapping[str, Plain], ids: Mapping[str, str], subjects: Iterable[tuple[str, str, frozenset[str]]]
) -> GivenTypes:
    """Return the types of attributes that policies get: of events, of identifiers, of subjects (name, owner, types)."""
    text = frozenset({names.STRING})
    by_category = {
        "subject": [("id", names.SUBJECT_ID, text), ("retention", "retention", frozenset({names.DOUBLE}))]
        + [(name, name, text) for name in sorted({"purpose", "situation"} | SHOWN)],
        "resource": [("id", names.RESOURCE_ID, text), ("topic", "topic", text), ("producer", "producer", text)],
        "action": [("id", names.ACTION_ID, text)],
        "environment": [("situation", "situation", text)],
    }
    entries = [
        (category, name, otherwise, types, "that of nodes")
        for category, attributes in by_category.items()
        for name, otherwise, types in attributes
    ]
    entries += [("subject", name, name, types, whose) for name, whose, types in subjects]
    entries += [
        ("resource", name, name, types_of(value), "`resource`") for name, value in resource.items() if name != "id"
    ]
    by_place: dict[tuple[str, str], dict[frozenset[str], str]] = {}
    for category, name, otherwise, types, whose in entries:
        place = names.SHORT_CATEGORIES[category], ids.get(f"{category}.{name}", otherwise)
        by_place.setdefault(place, {}).setdefault(types, whose)
    return by_place


def _permitted(obligations: Iterable[Duty]) -> Permitted:
    """Return the conditions of a release from its obligations; raises `PolicyError` for an unknown one."""
    degrade: list[Degradation] = []
    retain: list[float] = []
    for count, duty in enumerate(obligations):
        if count == _MAX_OBLIGATIONS:
            raise PolicyError(f"more than {_MAX_OBLIGATIONS} obligations")
        arguments: dict[str, list[object]] = {}
        for assigned in duty.assigned:
            arguments.setdefault(assigned.id, []).append(assigned.value)
        if duty.id == RETAIN:
            retain.append(_number(arguments, "seconds"))
        elif duty.id in _MAKERS:
            degrade.append(_MAKERS[duty.id](arguments))
        else:
            raise PolicyError(f"`{duty.id:.80}` is not known")
    return Permitted(tuple(degrade), min(retain) if retain else None)


Assigned = Mapping[str, list[object]]


def _number(arguments: Assigned, name: str) -> float:
    value = arguments.get(name, [None])[0]
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise PolicyError(f"`{name}` is not a number: `{value!r:.80}`") from None


def _texts(arguments: Assigned, name: str) -> tuple[str, ...]:
    return tuple(map(str, arguments.get(name, ())))


def _text(arguments: Assigned, name: str, otherwise: str) -> str:
    return next(iter(_texts(arguments, name)), otherwise)


def _span(arguments: Assigned) -> float | None:
    return _number(arguments, "span") if "span" in arguments else None


_MAKERS: dict[str, Callable[[Assigned], Degradation]] = {
    "grid": lambda arguments: Grid(
        _number(arguments, "metres"),
        _text(arguments, "latitude", "lat"),
        _text(arguments, "longitude", "lon"),
        _span(arguments),
        _text(arguments, "radius", "") or None,
    ),
    "step": lambda arguments: Step(_text(arguments, "attribute", ""), _number(arguments, "size"), _span(arguments)),
    "keep": lambda arguments: Keep(_texts(arguments, "attribute")),
    "delay": lambda arguments: Delay(_number(arguments, "seconds")),
    "aggregate": lambda arguments: Aggregate(
        _number(arguments, "seconds"),
        _texts(arguments, "attribute"),
        int(_number(arguments, "least")) if "least" in arguments else 2,
        int(_number(arguments, "events")) if "events" in arguments else 1,
    ),
}
"""Obligations by their identifiers: those that contracts compile to."""

PARAMETERS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    name: (frozenset(must.split()), frozenset(may.split()))
    for name, must, may in (
        (RETAIN, "seconds", ""),
        ("grid", "metres", "latitude longitude span radius"),
        ("step", "attribute size", "span"),
        ("keep", "attribute", ""),
        ("delay", "seconds", ""),
        ("aggregate", "seconds attribute", "least events"),
    )
}
"""Of each obligation, the parameters that it must have, and those that it may have."""


def wrong_duties(roots: Iterable[Root]) -> Iterator[str]:
    """Yield the obligations of permits that no node can fulfil, so that they release nothing."""
    for policy in (policy for root in roots for policy in inside(root)):
        rules = policy.rules if isinstance(policy, XacmlPolicy) else ()
        for where, duties in (
            (f"policy `{policy.id}`", policy.obligations),
            *((f"rule `{rule.id}`", rule.obligations) for rule in rules),
        ):
            for duty in duties:
                wrong = _wrong(duty) if duty.on == "Permit" else ""
                if wrong:
                    yield f"{where}: obligation `{duty.id:.80}`: {wrong}"


def _wrong(duty: DutyExpression) -> str:
    if duty.id not in PARAMETERS:
        return f"it is not known; there are {', '.join(f'`{name}`' for name in PARAMETERS)}"
    must, may = PARAMETERS[duty.id]
    arguments: dict[str, list[object]] = {}
    for assignment in duty.assignments:
        value = assignment.expression.value if isinstance(assignment.expression, LiteralValue) else None
        arguments.setdefault(assignment.id, []).append(value)
    if missing := must - arguments.keys():
        return f"`{min(missing)}` is missing"
    if unknown := arguments.keys() - must - may:
        return f"`{min(unknown)}` is not a parameter of it"
    if any(not isinstance(assignment.expression, LiteralValue) for assignment in duty.assignments):
        return ""  # the values are known only at evaluation
    try:
        if duty.id == RETAIN:
            _number(arguments, "seconds")
        else:
            _MAKERS[duty.id](arguments)
    except PolicyError as error:
        return str(error)
    return ""
