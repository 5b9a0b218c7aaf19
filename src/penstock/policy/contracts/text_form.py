"""Contracts, situations and quality as the domain file writes them, and as clients bring them (docs/contracts.md).

What is read here are plain mappings, from YAML or JSON. A mistake is a `PolicyError` that says at which key it is.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.language.condition import Condition, make_condition
from penstock.language.errors import ConditionError
from penstock.model.content.json import read_json
from penstock.model.durations import check_seconds
from penstock.model.errors import ContentError, PolicyError
from penstock.model.quality import Catalogue, Criterion, Direction, Indicator, MetricDefinition
from penstock.policy.contracts.abac import Texts
from penstock.policy.contracts.contract import ConsumerContract, ContextWant, PrivacyRule, ProducerContract, Subject
from penstock.policy.contracts.degrade import Aggregate, Degradation, Delay, Grid, Keep, Step
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
    """Where a mistake is, and what."""
    return (error.path, error.what) if isinstance(error, KeyMistake) else ((), str(error))


def read_producer(name: str, said: object, catalogue: Catalogue) -> ProducerContract:
    """Return a producer's contract of a name, as the domain has it; raises `PolicyError`."""
    return _producer(name, _mapping(said, _OFFERED | {"producer"}, {"producer", "filter"}), catalogue)


def read_consumer(name: str, said: object, catalogue: Catalogue) -> ConsumerContract:
    """Return a consumer's contract of a name, as the domain has it; raises `PolicyError`."""
    return _consumer(name, _mapping(said, _WANTED | {"consumer", "attributes"}, {"consumer", "wants"}), catalogue)


def bring_producer(name: str, client: str, text: str, catalogue: Catalogue) -> ProducerContract:
    """Return the contract that a client brings for what it produces, as JSON; raises `PolicyError`."""
    return _producer(name, {**_mapping(_brought(text), _OFFERED, {"filter"}), "producer": [client]}, catalogue)


def bring_consumer(name: str, client: str, text: str, catalogue: Catalogue) -> ConsumerContract:
    """Return the contract that a client brings for what it consumes, as JSON; raises `PolicyError`.

    What the client is, in attributes, others must say.
    """
    return _consumer(name, {**_mapping(_brought(text), _WANTED, {"wants"}), "consumer": [client]}, catalogue)


def bring_wanting(
    name: str, client: str, filter: str, scope: Scope, text: str, catalogue: Catalogue
) -> ConsumerContract:
    """What a client guarantees and needs for one subscription, as JSON: the want is the subscription; raises
    `PolicyError`.
    """
    found = dict(_mapping(_brought(text), (_WANTED - {"wants"}) | {"needs"}))
    want = {"filter": filter, "needs": found.pop("needs", ()), "scope": scope}
    return _consumer(name, {**found, "wants": {"subscription": want}, "consumer": [client]}, catalogue)


def read_situation(name: str, said: object) -> Situation:
    """Return a situation of a name; raises `PolicyError`."""
    found = _mapping(said, {"sources", "opens", "closes", "lasts"}, {"sources", "opens", "lasts"})
    closes = found.get("closes")
    return Situation(
        name,
        _in("sources", _texts, found["sources"]),
        _in("opens", _signal, found["opens"]),
        _in("lasts", check_seconds, found["lasts"]),
        None if closes is None else _in("closes", _signal, closes),
    )


def read_indicator(id: str, said: object) -> Indicator:
    """Return an indicator of an id: its criterion, and the metrics of that; raises `PolicyError`.

    {criterion: "10.1", like: precision, definitions: {"10.1": {unit: "%", range: [0, 100], better: higher, resolution:
    1, levels: {medium: 50, high: 80}}}}. Without `criterion` and `definitions` there is one of each, with the
    indicator's id.
    """
    own = {"criterion", "like", "definitions"}
    found = _mapping(said, own | _METRIC)
    several = _mapping(found.get("definitions", {id: {k: v for k, v in found.items() if k in _METRIC}}))
    definitions = tuple(
        _in(("definitions", str(one)), _definition, str(one), metric) for one, metric in several.items()
    )
    return Indicator(id, Criterion(str(found.get("criterion", id)), definitions, str(found.get("like", ""))))


def read_collector(said: object, catalogue: Catalogue, sensor: PlainMapping | None = None) -> QualityCollector:
    """Return a collector; raises `PolicyError`: {indicator: precision, formula: precision, spread: hdop * 5.0}."""
    found = dict(_mapping(said, None, {"indicator"}))
    (need,) = parse_constraints(str(found.pop("indicator")), catalogue)
    if not isinstance(need, Need) or need.relation is not None:
        raise PolicyError("`indicator` is not a quality metric such as `precision` or `10/10.1/10.1`")
    formula = str(found.pop("formula", catalogue.kind(need.key)))
    return make_collector(need.key, formula, found, catalogue, sensor)


# --- their parts

_OFFERED = frozenset({"filter", "where", "scope", "rules", "guarantees"})
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


def _producer(name: str, found: PlainMapping, catalogue: Catalogue) -> ProducerContract:
    rules = _in("rules", _mapping, found.get("rules", {}))
    return ProducerContract(
        name,
        _in("producer", _texts, found["producer"]),
        str(found["filter"]),
        _in("where", _condition, found.get("where")),
        tuple(_in(("rules", str(id)), _rule, str(id), rule, catalogue) for id, rule in rules.items()),
        _in("guarantees", parse_constraints, found.get("guarantees", ()), catalogue),
        _scope(found),
    )


def _consumer(name: str, found: PlainMapping, catalogue: Catalogue) -> ConsumerContract:
    wants = _in("wants", _mapping, found["wants"])
    return ConsumerContract(
        name,
        _in("consumer", _texts, found["consumer"]),
        tuple(_in(("wants", str(one)), _want, str(one), want, catalogue) for one, want in wants.items()),
        _in("purpose", _texts, found.get("purpose", ())),
        _in("situation", _texts, found.get("situation", ())),
        _in("retention", _retention, found.get("retention")),
        _in("attributes", _subject, found.get("attributes", {})),
    )


def _want(name: str, said: object, catalogue: Catalogue) -> ContextWant:
    found = _mapping(said, {"filter", "where", "needs", "scope"}, {"filter"})
    needs = _in("needs", parse_constraints, found.get("needs", ()), catalogue)
    return ContextWant(name, str(found["filter"]), _in("where", _condition, found.get("where")), needs, _scope(found))


def _rule(id: str, said: object, catalogue: Catalogue) -> PrivacyRule:
    found = _mapping(said, _RULE)
    during, outside = _in("situation", _situations, found.get("situation", ()))
    degrade = found.get("degrade", ())
    return PrivacyRule(
        id,
        _in("purpose", _texts, found["purpose"]) if "purpose" in found else None,
        _in("visible_to", _subject, found.get("visible_to", {})),
        _in("retention", _retention, found.get("retention")),
        during,
        outside,
        _in("quality", _needs, found.get("quality", ()), catalogue),
        tuple(_in(("degrade", at), _degradation, one) for at, one in enumerate(_list(degrade))),
        _in("guarantees", parse_constraints, found.get("guarantees", ()), catalogue),
    )


def _needs(said: object, catalogue: Catalogue) -> tuple[Need, ...]:
    found = parse_constraints(said, catalogue)
    if wrong := [one for one in found if not isinstance(one, Need)]:
        raise PolicyError(f"`{wrong[0]}`: a privacy rule takes no XPath")
    return tuple(one for one in found if isinstance(one, Need))


def _situations(said: object) -> tuple[Texts, Texts]:
    """Return those during which, and those outside of which: `life-hazard`, `{not: life-hazard}`, or a list of such."""
    during, outside = set[str](), set[str]()
    for one in _list(said):
        if isinstance(one, Mapping):
            outside |= _texts(_mapping(one, {"not"}, {"not"})["not"])
        else:
            during |= _texts(one)
    return frozenset(during), frozenset(outside)


def _number(said: object) -> float:
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise PolicyError(f"expected a number, found `{said!r:.80}`")
    return float(said)


def _names(said: object) -> tuple[str, ...]:
    return tuple(map(str, said if isinstance(said, Sequence) and not isinstance(said, str) else [said]))


_DEGRADATIONS: Mapping[str, tuple[type[Any], str, Mapping[str, Callable[[Any], Any]]]] = {
    "grid": (
        Grid,
        "metres",
        {"metres": _number, "latitude": str, "longitude": str, "span": _number},
    ),
    "step": (Step, "", {"attribute": str, "size": _number, "span": _number}),
    "keep": (Keep, "attributes", {"attributes": _names}),
    "delay": (Delay, "seconds", {"seconds": check_seconds}),
    "aggregate": (
        Aggregate,
        "",
        {"seconds": check_seconds, "attributes": _names, "least": int},
    ),
}
"""The class, the argument that may stand alone, and how arguments are read."""


def _degradation(said: object) -> Degradation:
    found = _mapping(said, set(_DEGRADATIONS))
    if len(found) != 1:
        raise PolicyError(f"expected one of {_listed(_DEGRADATIONS)}, found {len(found)} of them")
    ((name, arguments),) = found.items()
    made, alone, readers = _DEGRADATIONS[name]
    if alone and not isinstance(arguments, Mapping):
        arguments = {alone: arguments}
    taken = _mapping(arguments, set(readers))
    try:
        built: Degradation = made(**{key: _in((name, key), readers[key], value) for key, value in taken.items()})
    except (TypeError, ValueError):
        raise PolicyError(f"`{name}`: expected {_listed(readers)}, found `{arguments!r:.80}`") from None
    return built


def _definition(id: str, said: object) -> MetricDefinition:
    found = _mapping(said, _METRIC)
    least, most = _in("range", _range, found.get("range", [0, 100]))
    try:
        better = Direction(found.get("better", "higher"))
    except ValueError:
        raise PolicyError(f"`better` is `higher` or `lower`, not `{found['better']}`") from None
    levels = _mapping(found.get("levels", {}))
    return MetricDefinition(
        id,
        str(found.get("unit", "%")),
        least,
        most,
        better,
        None if found.get("resolution") is None else _number(found["resolution"]),
        tuple((str(name), _number(bound)) for name, bound in levels.items()),
    )


def _range(said: object) -> tuple[float, float]:
    """Return two numbers; null: without an end."""
    if not isinstance(said, Sequence) or isinstance(said, str) or len(said) != 2:
        raise PolicyError(f"expected two numbers, found `{said!r:.80}`")
    least, most = said
    return (float("-inf") if least is None else _number(least), float("inf") if most is None else _number(most))


def _signal(said: object) -> Signal:
    found = _mapping({"filter": said} if isinstance(said, str) else said, {"filter", "where"}, {"filter"})
    return Signal(str(found["filter"]), _in("where", _condition, found.get("where")))


def _condition(said: object) -> Condition | None:
    if said is None:
        return None
    try:
        return make_condition(str(said))
    except ConditionError as error:
        raise PolicyError(str(error)) from None


def _subject(said: object) -> Subject:
    return tuple((str(name), _texts(values)) for name, values in _mapping(said).items())


def _retention(said: object) -> float | None:
    return None if said is None else check_seconds(said)


def _scope(found: PlainMapping) -> Any:
    scope = found.get("scope", "global")
    if scope not in ("global", "local"):
        what = f"`scope` is `global` or `local`, not `{scope!r:.80}`"
        raise KeyMistake(("scope",), what, what)
    return scope


def _list(said: object) -> Sequence[Any]:
    return said if isinstance(said, Sequence) and not isinstance(said, str) else [said]


def _texts(said: object) -> Texts:
    several = _list(said)
    if len(several) > _MAX_NAMES:
        raise PolicyError(f"{len(several)} names are too many, {_MAX_NAMES} are the most")
    if not all(isinstance(one, str) and one for one in several):
        raise PolicyError(f"expected a name or a list of names, found `{said!r:.80}`")
    return frozenset(several)


def _mapping(said: object, known: Any = None, needed: Any = ()) -> PlainMapping:
    if not isinstance(said, Mapping):
        raise PolicyError(f"expected a mapping, found `{said!r:.80}`")
    for key in said:
        if known is not None and key not in known:
            what = f"unknown key `{key!s:.80}` (known: {_listed(known)})"
            raise KeyMistake((str(key),), what, what)
    for key in needed:
        if key not in said:
            raise PolicyError(f"there is no `{key}`")
    return said


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
