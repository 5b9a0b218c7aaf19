"""Contracts, situations and quality as the domain file writes them, and as clients bring them (docs/contracts.md).

The input is plain mappings, from YAML or JSON. A mistake is a `PolicyError` that names its key.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from penstock.language.condition import Condition, make_condition
from penstock.language.errors import ConditionError
from penstock.model.content.json import read_json
from penstock.model.durations import check_seconds
from penstock.model.errors import ContentError, PolicyError
from penstock.model.quality import Catalogue, Criterion, Direction, Indicator, MetricDefinition
from penstock.policy.contracts.abac import Texts
from penstock.policy.contracts.contract import ConsumerContract, ContextWant, PrivacyRule, ProducerContract, Subject
from penstock.policy.contracts.degrade import Aggregate, Degradation, Delay, Grid, Keep, Step
from penstock.policy.contracts.privacy import read_text, wrong_duties
from penstock.policy.contracts.situation import Signal, Situation
from penstock.policy.quality.collectors import QualityCollector, make_collector
from penstock.policy.quality.needs import Need, parse_constraints
from penstock.policy.statements.advertisement import Scope

PlainMapping = Mapping[str, Any]
T = TypeVar("T")

MAX_BROUGHT = 20_000
"""Characters of a contract that a client brings."""
_MAX_NAMES = 256


class KeyMistake(PolicyError):
    """A mistake at a key."""

    def __init__(self, path: tuple[str | int, ...], what: str, text: str) -> None:
        self.path = path
        self.what = what
        super().__init__(text)


def mistake_at(error: PolicyError) -> tuple[tuple[str | int, ...], str]:
    """Return the path and the text of a mistake."""
    return (error.path, error.what) if isinstance(error, KeyMistake) else ((), str(error))


def read_producer(name: str, value: object, catalogue: Catalogue) -> ProducerContract:
    """Read a producer's contract of the domain; raises `PolicyError`."""
    return _producer(name, _mapping(value, _OFFERED | {"producer"}, {"producer", "filter"}), catalogue)


def read_consumer(name: str, value: object, catalogue: Catalogue) -> ConsumerContract:
    """Read a consumer's contract of the domain; raises `PolicyError`."""
    return _consumer(name, _mapping(value, _WANTED | {"consumer", "attributes"}, {"consumer", "wants"}), catalogue)


def bring_producer(name: str, client: str, text: str, catalogue: Catalogue) -> ProducerContract:
    """Read the JSON contract that a client brings as a producer; raises `PolicyError`."""
    return _producer(name, {**_mapping(_brought(text), _OFFERED, {"filter"}), "producer": [client]}, catalogue)


def bring_consumer(name: str, client: str, text: str, catalogue: Catalogue) -> ConsumerContract:
    """Read the JSON contract of a client as consumer, whose attributes come from others; raises `PolicyError`."""
    return _consumer(name, {**_mapping(_brought(text), _WANTED, {"wants"}), "consumer": [client]}, catalogue)


def bring_wanting(
    name: str, client: str, filter: str, scope: Scope | None, text: str, catalogue: Catalogue
) -> ConsumerContract:
    """Read the JSON guarantees and needs of a client for one subscription, which is the want; raises `PolicyError`."""
    fields = dict(_mapping(_brought(text), (_WANTED - {"wants"}) | {"needs"}))
    want = {"filter": filter, "needs": fields.pop("needs", ()), "scope": scope}
    return _consumer(name, {**fields, "wants": {"subscription": want}, "consumer": [client]}, catalogue)


def read_situation(name: str, value: object) -> Situation:
    """Read a situation; raises `PolicyError`."""
    fields = _mapping(value, {"sources", "opens", "closes", "lasts"}, {"sources", "opens", "lasts"})
    closes = fields.get("closes")
    return Situation(
        name,
        _in("sources", _texts, fields["sources"]),
        _in("opens", _signal, fields["opens"]),
        _in("lasts", check_seconds, fields["lasts"]),
        None if closes is None else _in("closes", _signal, closes),
    )


def read_indicator(id: str, value: object) -> Indicator:
    """Read an indicator: its criterion, and the metrics of that; raises `PolicyError`.

    {criterion: "10.1", like: precision, definitions: {"10.1": {unit: "%", range: [0, 100], better: higher, resolution:
    1, levels: {medium: 50, high: 80}}}}. Without `criterion` and `definitions` there is one of each, with the
    indicator's id.
    """
    own = {"criterion", "like", "definitions"}
    fields = _mapping(value, own | _METRIC)
    metrics = _mapping(fields.get("definitions", {id: {k: v for k, v in fields.items() if k in _METRIC}}))
    definitions = tuple(
        _in(("definitions", str(name)), _definition, str(name), metric) for name, metric in metrics.items()
    )
    return Indicator(id, Criterion(str(fields.get("criterion", id)), definitions, str(fields.get("like", ""))))


def read_collector(value: object, catalogue: Catalogue, sensor: PlainMapping | None = None) -> QualityCollector:
    """Read a collector; raises `PolicyError`: {indicator: precision, formula: precision, spread: hdop * 5.0}."""
    fields = dict(_mapping(value, None, {"indicator"}))
    (need,) = parse_constraints(str(fields.pop("indicator")), catalogue)
    if not isinstance(need, Need) or need.relation is not None:
        raise PolicyError("`indicator` is not a quality metric such as `precision` or `10/10.1/10.1`")
    formula = str(fields.pop("formula", catalogue.kind(need.key)))
    return make_collector(need.key, formula, fields, catalogue, sensor)


# --- their parts

_OFFERED = frozenset({"filter", "where", "scope", "rules", "guarantees", "xacml"})
_WANTED = frozenset({"purpose", "situation", "retention", "wants"})
_METRIC = frozenset({"unit", "range", "better", "resolution", "levels"})
_RULE = frozenset({"purpose", "visible_to", "retention", "situation", "quality", "degrade", "guarantees"})


def _brought(text: str) -> object:
    if len(text) > MAX_BROUGHT:
        raise PolicyError(f"a contract has at most {MAX_BROUGHT} characters, this has {len(text)}")
    try:
        return read_json(text.encode())
    except (ContentError, UnicodeEncodeError) as error:
        raise PolicyError(str(error)) from None


def _producer(name: str, fields: PlainMapping, catalogue: Catalogue) -> ProducerContract:
    rules = _in("rules", _mapping, fields.get("rules", {}))
    return ProducerContract(
        name,
        _in("producer", _texts, fields["producer"]),
        str(fields["filter"]),
        _in("where", _condition, fields.get("where")),
        tuple(_in(("rules", str(id)), _rule, str(id), rule, catalogue) for id, rule in rules.items()),
        _in("guarantees", parse_constraints, fields.get("guarantees", ()), catalogue),
        _scope(fields),
        _in("xacml", _xacml, fields.get("xacml", "")),
    )


def _xacml(value: object) -> str:
    """Return the text of a policy in XML or in the short form, if nodes can decide by it."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    for problem in wrong_duties([read_text(text)]) if text else ():
        raise PolicyError(problem)
    return text


def _consumer(name: str, fields: PlainMapping, catalogue: Catalogue) -> ConsumerContract:
    wants = _in("wants", _mapping, fields["wants"])
    return ConsumerContract(
        name,
        _in("consumer", _texts, fields["consumer"]),
        tuple(_in(("wants", str(name_)), read_want, str(name_), want, catalogue) for name_, want in wants.items()),
        _in("purpose", _texts, fields.get("purpose", ())),
        _in("situation", _texts, fields.get("situation", ())),
        _in("retention", _retention, fields.get("retention")),
        _in("attributes", _subject, fields.get("attributes", {})),
    )


def read_want(name: str, value: object, catalogue: Catalogue) -> ContextWant:
    """Read a want of a consumer's contract; raises `PolicyError`."""
    fields = _mapping(value, {"filter", "where", "needs", "scope"}, {"filter"})
    needs = _in("needs", parse_constraints, fields.get("needs", ()), catalogue)
    where = _in("where", _condition, fields.get("where"))
    return ContextWant(name, str(fields["filter"]), where, needs, _scope(fields))


def _rule(id: str, value: object, catalogue: Catalogue) -> PrivacyRule:
    fields = _mapping(value, _RULE)
    during, outside = _in("situation", _situations, fields.get("situation", ()))
    degrade = fields.get("degrade", ())
    return PrivacyRule(
        id,
        _in("purpose", _texts, fields["purpose"]) if "purpose" in fields else None,
        _in("visible_to", _subject, fields.get("visible_to", {})),
        _in("retention", _retention, fields.get("retention")),
        during,
        outside,
        _in("quality", _needs, fields.get("quality", ()), catalogue),
        tuple(_in(("degrade", at), read_degradation, degradation) for at, degradation in enumerate(_list(degrade))),
        _in("guarantees", parse_constraints, fields.get("guarantees", ()), catalogue),
    )


def _needs(value: object, catalogue: Catalogue) -> tuple[Need, ...]:
    constraints = parse_constraints(value, catalogue)
    if wrong := [constraint for constraint in constraints if not isinstance(constraint, Need)]:
        raise PolicyError(f"`{wrong[0]}`: a privacy rule takes no XPath")
    return tuple(constraint for constraint in constraints if isinstance(constraint, Need))


def _situations(value: object) -> tuple[Texts, Texts]:
    """Return the situations during and outside of which a rule counts: `fire`, `{not: fire}`, or a list."""
    during, outside = set[str](), set[str]()
    for item in _list(value):
        if isinstance(item, Mapping):
            outside |= _texts(_mapping(item, {"not"}, {"not"})["not"])
        else:
            during |= _texts(item)
    return frozenset(during), frozenset(outside)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PolicyError(f"expected a number, found `{value!r:.80}`")
    return float(value)


def _names(value: object) -> tuple[str, ...]:
    return tuple(map(str, _list(value)))


_DEGRADATIONS: Mapping[str, tuple[type[Any], str, Mapping[str, Callable[[Any], Any]]]] = {
    "grid": (Grid, "metres", {"metres": _number, "latitude": str, "longitude": str, "span": _number, "radius": str}),
    "step": (Step, "", {"attribute": str, "size": _number, "span": _number}),
    "keep": (Keep, "attributes", {"attributes": _names}),
    "delay": (Delay, "seconds", {"seconds": check_seconds}),
    "aggregate": (Aggregate, "", {"seconds": check_seconds, "attributes": _names, "least": int, "events": int}),
}
"""The class, the argument that may stand alone, and how arguments are read."""


def read_degradation(value: object) -> Degradation:
    """Read a degradation by its name; raises `PolicyError`."""
    fields = _mapping(value, set(_DEGRADATIONS))
    if len(fields) != 1:
        raise PolicyError(f"expected one of {_listed(_DEGRADATIONS)}, found {len(fields)} of them")
    ((name, arguments),) = fields.items()
    kind, alone, readers = _DEGRADATIONS[name]
    if alone and not isinstance(arguments, Mapping):
        arguments = {alone: arguments}
    settings = _mapping(arguments, set(readers))
    try:
        built: Degradation = kind(**{key: _in((name, key), readers[key], value) for key, value in settings.items()})
    except (TypeError, ValueError):
        raise PolicyError(f"`{name}`: expected {_listed(readers)}, found `{arguments!r:.80}`") from None
    return built


def _definition(id: str, value: object) -> MetricDefinition:
    fields = _mapping(value, _METRIC)
    least, most = _in("range", _range, fields.get("range", [0, 100]))
    try:
        better = Direction(fields.get("better", "higher"))
    except ValueError:
        raise PolicyError(f"`better` is `higher` or `lower`, not `{fields['better']}`") from None
    levels = _mapping(fields.get("levels", {}))
    return MetricDefinition(
        id,
        str(fields.get("unit", "%")),
        least,
        most,
        better,
        None if fields.get("resolution") is None else _number(fields["resolution"]),
        tuple((str(name), _number(bound)) for name, bound in levels.items()),
    )


def _range(value: object) -> tuple[float, float]:
    """Return two numbers; null: without an end."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        raise PolicyError(f"expected two numbers, found `{value!r:.80}`")
    least, most = value
    return (float("-inf") if least is None else _number(least), float("inf") if most is None else _number(most))


def _signal(value: object) -> Signal:
    fields = _mapping({"filter": value} if isinstance(value, str) else value, {"filter", "where"}, {"filter"})
    return Signal(str(fields["filter"]), _in("where", _condition, fields.get("where")))


def _condition(value: object) -> Condition | None:
    if value is None:
        return None
    try:
        return make_condition(str(value))
    except ConditionError as error:
        raise PolicyError(str(error)) from None


def _subject(value: object) -> Subject:
    return tuple((str(name), _texts(values)) for name, values in _mapping(value).items())


def _retention(value: object) -> float | None:
    return None if value is None else check_seconds(value)


def _scope(fields: PlainMapping) -> Any:
    scope = fields.get("scope")
    if scope not in (None, "global", "local"):
        what = f"`scope` is `global` or `local`, not `{scope!r:.80}`"
        raise KeyMistake(("scope",), what, what)
    return scope


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def _texts(value: object) -> Texts:
    names = _list(value)
    if len(names) > _MAX_NAMES:
        raise PolicyError(f"{len(names)} names are too many; the maximum is {_MAX_NAMES}")
    if not all(isinstance(name, str) and name for name in names):
        raise PolicyError(f"expected a name or a list of names, found `{value!r:.80}`")
    return frozenset(names)


def _mapping(value: object, known: Any = None, needed: Any = ()) -> PlainMapping:
    if not isinstance(value, Mapping):
        raise PolicyError(f"expected a mapping, found `{value!r:.80}`")
    for key in value:
        if known is not None and key not in known:
            what = f"unknown key `{key!s:.80}` (known: {_listed(known)})"
            raise KeyMistake((str(key),), what, what)
    for key in needed:
        if key not in value:
            raise PolicyError(f"there is no `{key}`")
    return value


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _in(path: str | tuple[str | int, ...], read: Callable[..., T], *arguments: Any) -> T:
    try:
        return read(*arguments)
    except PolicyError as error:
        inner, what = mistake_at(error)
        outer = (path,) if isinstance(path, str) else path
        label = ".".join(step for step in outer if isinstance(step, str))
        raise KeyMistake((*outer, *inner), what, f"{label}: {error}") from None
