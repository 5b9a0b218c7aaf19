"""Privacy policies in XACML: who may have events on some topics, and with which obligations (contracts §2.2).

Each node is a policy enforcement point: for each receiver it asks the policies of a topic, with what is known of the
receiver, of the event and of the moment. Only a Permit releases, and only if every obligation of it is understood.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.model.content.content import Content, Format
from penstock.model.errors import PolicyError
from penstock.policy.contracts.contract import RETAIN, SHOWN, ConsumerContract, Subject
from penstock.policy.contracts.degrade import Aggregate, Degradation, Delay, Grid, Keep, Step
from penstock.policy.contracts.privacy_types import GivenTypes, Plain, Values, text_of, typed, types_of
from penstock.policy.xacml import Pdp
from penstock.policy.xacml.evaluation.decision import Duty
from penstock.policy.xacml.names import ACTION, DOUBLE, ENVIRONMENT, RESOURCE, STRING, SUBJECT
from penstock.policy.xacml.request import RequestAttribute, RequestCategory, Single, XacmlRequest
from penstock.policy.xacml.tree import DutyExpression, LiteralValue, Root, XacmlPolicy, inside
from penstock.policy.xacml.xpath import RequestContent as Document

SUBJECT_ID = "urn:oasis:names:tc:xacml:1.0:subject:subject-id"
RESOURCE_ID = "urn:oasis:names:tc:xacml:1.0:resource:resource-id"
ACTION_ID = "urn:oasis:names:tc:xacml:1.0:action:action-id"
ACCESS = "access"
_CATEGORIES = {"subject": SUBJECT, "resource": RESOURCE, "action": ACTION, "environment": ENVIRONMENT}
_MAX_OBLIGATIONS = 64
_MAX_KNOWN = 10_000


class ReleaseRequest(NamedTuple):
    """What a decision is asked for."""

    client: str
    """Who would get the event."""
    known: Subject
    """What the domain knows of it."""
    consumers: tuple[ConsumerContract, ...]
    """What it guarantees."""
    topic: str
    producer: str
    """Whose event it is; empty where that is not known: at other nodes than its own."""
    situations: Collection[str]
    """Those that are open."""
    values: Values = ()
    """What of that which the domain knows is no text."""


class Permitted(NamedTuple):
    """On which conditions an event is released."""

    degrade: tuple[Degradation, ...] = ()
    retain: float | None = None
    """Seconds for which it may be kept."""


@dataclass(frozen=True)
class PrivacyPolicy:
    """Policies for the events on some topics."""

    name: str
    filter: str
    pdp: Pdp
    resource: tuple[tuple[str, Plain], ...] = ()
    """What is said of these events, as attributes of the resource."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """By name of an attribute of a category (`subject.group`), the identifier that the policies know it by."""
    _known: dict[tuple[str, str], tuple[ReleaseRequest, Single]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """By client and topic, what was asked last, as a request without a document: mostly it is asked again."""

    def decide(self, asked: ReleaseRequest, content: Content, now: float) -> Permitted | str:
        """On which conditions the event is released, or why it is not."""
        subject, resource, *others = self._categories(asked)
        request = XacmlRequest((subject, resource._replace(content=_document(content)), *others))
        (result,) = self.pdp.decide(request, int(now * 1e9))
        if result.decision != "Permit":
            said = f": {result.status.message}" if result.status.message else ""
            return f"privacy policy `{self.name}`: {result.decision}{said}"
        try:
            return _permitted(result.obligations)
        except PolicyError as error:
            return f"privacy policy `{self.name}`: it obliges to what cannot be done: {error}"

    def _categories(self, asked: ReleaseRequest) -> Single:
        key = (asked.client, asked.topic)
        known = self._known.get(key)
        if known is not None and known[0] == asked:
            return known[1]
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        made = self._request(asked)
        self._known[key] = asked, made
        return made

    def _request(self, asked: ReleaseRequest) -> Single:
        subject: list[tuple[str, str, tuple[str, ...]]] = [("id", SUBJECT_ID, (asked.client,))]
        given: dict[str, set[str]] = {}
        for name, values in asked.known:
            given.setdefault(name, set()).update(values)
        for contract in asked.consumers:
            given.setdefault("purpose", set()).update(contract.purposes)
            given.setdefault("situation", set()).update(contract.situations)
            for name, values in contract.attributes:
                given.setdefault(name, set()).update(values)
        subject += [(name, name, tuple(sorted(values))) for name, values in given.items()]
        said = dict(self.resource)
        resource = [("id", RESOURCE_ID, (text_of(said.pop("id", asked.topic)),)), ("topic", "topic", (asked.topic,))]
        resource += [(name, name, (text_of(value),)) for name, value in said.items()]
        if asked.producer:
            resource.append(("producer", "producer", (asked.producer,)))
        numbers = tuple((name, typed(value)) for name, value in said.items())
        moment = [("situation", "situation", tuple(sorted(asked.situations)))]
        retention = [one.retention for one in asked.consumers if one.retention is not None]
        longest = tuple(LiteralValue(DOUBLE, seconds) for seconds in sorted(retention)[-1:])
        promised = (RequestAttribute(self._id("subject", "retention", "retention"), longest),) if longest else ()
        return (
            RequestCategory(
                SUBJECT, (*self._texts("subject", subject), *promised, *self._values("subject", asked.values))
            ),
            RequestCategory(RESOURCE, (*self._texts("resource", resource), *self._values("resource", numbers))),
            RequestCategory(ACTION, self._texts("action", [("id", ACTION_ID, (ACCESS,))])),
            RequestCategory(ENVIRONMENT, self._texts("environment", moment)),
        )

    def _texts(self, category: str, named: Iterable[tuple[str, str, tuple[str, ...]]]) -> tuple[RequestAttribute, ...]:
        return tuple(
            RequestAttribute(
                self._id(category, name, otherwise), tuple(LiteralValue(STRING, value) for value in values)
            )
            for name, otherwise, values in named
            if values
        )

    def _values(self, category: str, named: Values) -> tuple[RequestAttribute, ...]:
        return tuple(RequestAttribute(self._id(category, name, name), values) for name, values in named if values)

    def _id(self, category: str, name: str, otherwise: str) -> str:
        return self.ids.get(f"{category}.{name}", otherwise)


def given_types(
    resource: Mapping[str, Plain], ids: Mapping[str, str], subjects: Iterable[tuple[str, str, frozenset[str]]]
) -> GivenTypes:
    """Return the types of what policies are given: with what is said of events, identifiers that attributes have by
    name, and what is known of subjects (name, whose it is, and types of it).
    """
    text = frozenset({STRING})
    by_category = {
        "subject": [("id", SUBJECT_ID, text), ("retention", "retention", frozenset({DOUBLE}))]
        + [(name, name, text) for name in sorted({"purpose", "situation"} | SHOWN)],
        "resource": [("id", RESOURCE_ID, text), ("topic", "topic", text), ("producer", "producer", text)],
        "action": [("id", ACTION_ID, text)],
        "environment": [("situation", "situation", text)],
    }
    said = [
        (category, name, otherwise, types, "that of nodes")
        for category, several in by_category.items()
        for name, otherwise, types in several
    ]
    said += [("subject", name, name, types, whose) for name, whose, types in subjects]
    said += [("resource", name, name, types_of(one), "`resource`") for name, one in resource.items() if name != "id"]
    found: dict[tuple[str, str], dict[frozenset[str], str]] = {}
    for category, name, otherwise, types, whose in said:
        place = _CATEGORIES[category], ids.get(f"{category}.{name}", otherwise)
        found.setdefault(place, {}).setdefault(types, whose)
    return found


def _document(content: Content) -> Document | None:
    """XML content, which selectors may ask."""
    return Document(content.payload) if content.format is Format.XML else None


def _permitted(obligations: Iterable[Duty]) -> Permitted:
    """What has to be done before the event is released; raises `PolicyError` for what is not known."""
    degrade: list[Degradation] = []
    retain: list[float] = []
    for count, duty in enumerate(obligations):
        if count == _MAX_OBLIGATIONS:
            raise PolicyError(f"more than {_MAX_OBLIGATIONS} obligations")
        said: dict[str, list[object]] = {}
        for one in duty.assigned:
            said.setdefault(one.id, []).append(one.value)
        if duty.id == RETAIN:
            retain.append(_number(said, "seconds"))
        elif duty.id in _MAKERS:
            degrade.append(_MAKERS[duty.id](said))
        else:
            raise PolicyError(f"`{duty.id:.80}` is not known")
    return Permitted(tuple(degrade), min(retain) if retain else None)


Assigned = Mapping[str, list[object]]


def _number(said: Assigned, name: str) -> float:
    value = said.get(name, [None])[0]
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise PolicyError(f"`{name}` is no number: `{value!r:.80}`") from None


def _texts(said: Assigned, name: str) -> tuple[str, ...]:
    return tuple(map(str, said.get(name, ())))


def _text(said: Assigned, name: str, otherwise: str) -> str:
    return next(iter(_texts(said, name)), otherwise)


def _span(said: Assigned) -> float | None:
    return _number(said, "span") if "span" in said else None


_MAKERS: dict[str, Callable[[Assigned], Degradation]] = {
    "grid": lambda said: Grid(
        _number(said, "metres"), _text(said, "latitude", "lat"), _text(said, "longitude", "lon"), _span(said)
    ),
    "step": lambda said: Step(_text(said, "attribute", ""), _number(said, "size"), _span(said)),
    "keep": lambda said: Keep(_texts(said, "attribute")),
    "delay": lambda said: Delay(_number(said, "seconds")),
    "aggregate": lambda said: Aggregate(
        _number(said, "seconds"), _texts(said, "attribute"), int(_number(said, "least")) if "least" in said else 2
    ),
}
"""Obligations by their identifiers: those that contracts compile to."""

PARAMETERS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    name: (frozenset(must.split()), frozenset(may.split()))
    for name, must, may in (
        (RETAIN, "seconds", ""),
        ("grid", "metres", "latitude longitude span"),
        ("step", "attribute size", "span"),
        ("keep", "attribute", ""),
        ("delay", "seconds", ""),
        ("aggregate", "seconds attribute", "least"),
    )
}
"""Of each obligation, the parameters that it must have, and those that it may have."""


def wrong_duties(roots: Iterable[Root]) -> Iterator[str]:
    """Obligations with a permit that no node can do, so that it releases nothing."""
    for policy in (one for root in roots for one in inside(root)):
        rules = policy.rules if isinstance(policy, XacmlPolicy) else ()
        for where, duties in (
            (f"policy `{policy.id}`", policy.obligations),
            *((f"rule `{one.id}`", one.obligations) for one in rules),
        ):
            for duty in duties:
                wrong = _wrong(duty) if duty.on == "Permit" else ""
                if wrong:
                    yield f"{where}: obligation `{duty.id:.80}`: {wrong}"


def _wrong(duty: DutyExpression) -> str:
    if duty.id not in PARAMETERS:
        return f"it is not known; there are {', '.join(f'`{name}`' for name in PARAMETERS)}"
    must, may = PARAMETERS[duty.id]
    said: dict[str, list[object]] = {}
    for one in duty.assignments:
        value = one.expression.value if isinstance(one.expression, LiteralValue) else None
        said.setdefault(one.id, []).append(value)
    if missing := must - said.keys():
        return f"`{min(missing)}` is missing"
    if unknown := said.keys() - must - may:
        return f"`{min(unknown)}` is not a parameter of it"
    if any(not isinstance(one.expression, LiteralValue) for one in duty.assignments):
        return ""  # what it comes to is known when it is asked
    try:
        if duty.id == RETAIN:
            _number(said, "seconds")
        else:
            _MAKERS[duty.id](said)
    except PolicyError as error:
        return str(error)
    return ""
