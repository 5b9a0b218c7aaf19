"""Content in the domain file: how payloads are read, their attributes, and conditions on these."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from penstock.domain.schema.base import Name, OneOrMany, Settings, TopicFilter, matching
from penstock.domain.units import Below, Written, mistake, mistakes
from penstock.language import types
from penstock.language.condition import Condition, make_condition
from penstock.language.errors import ConditionError
from penstock.language.evaluators.doubles import widening
from penstock.language.types import DYN, ListType, MapType, RecordType, Type
from penstock.model.content.content import ContentReader, Format, FormatRule
from penstock.model.topic import covers, overlaps
from penstock.policy.quality.observation import ContextEntity, ContextObservable
from penstock.policy.statements.advertisement import ProducerAdvertisement, Scope

OTHERS = "*"
"""In a schema: every attribute that it does not name."""


@dataclass(frozen=True, slots=True)
class WrittenCondition:
    """A condition as the file writes it. Two are equal if their canonical texts are."""

    text: str = field(compare=False)
    canonical: str

    def compiled(self, declared: RecordType) -> Condition:
        """Compile the condition for content with the declared attributes; raise `ConditionError`."""
        return make_condition(self.text, declared)


def _parse_expression(value: object) -> WrittenCondition:
    if isinstance(value, WrittenCondition):
        return value
    if not isinstance(value, str):
        raise mistake("a condition, as a text (a number or `true` as a text stands in quotes)")
    try:
        return WrittenCondition(value, make_condition(value).text)
    except ConditionError as error:
        raise PydanticCustomError("condition", "{what}", {"what": str(error)}) from None


ConditionText = Annotated[
    WrittenCondition, Written(_parse_expression, lambda expression: expression.canonical, {"type": "string"})
]


class AdvertisementSettings(Settings):
    """An advertisement of a client."""

    name: Name = Field(description="its name among the client's advertisements")
    filter: TopicFilter = Field(description="topic filter of what it will publish")
    where: ConditionText | None = Field(
        None, description="condition that all its content on these topics satisfies; unset: any content"
    )
    scope: Scope | None = Field(
        None,
        description="`global`: told over every link; `local`: to no other node; unset: as the links' `forward` says",
    )

    @model_validator(mode="after")
    def _a_condition_is_not_left_blank(self) -> AdvertisementSettings:
        if self.where is None and "where" in self.model_fields_set:
            raise mistake("a condition, or no `where` at all for any content", "where")
        return self

    def compiled(self, declared: RecordType) -> ProducerAdvertisement:
        """Compile the advertisement for content with the declared attributes; raise `ConditionError`."""
        condition = None if self.where is None else self.where.compiled(declared)
        return ProducerAdvertisement(self.name, self.filter, condition, self.scope)


class ListedAdvertisement(AdvertisementSettings):
    """An advertisement that the domain makes for a client."""

    observable: Name | None = Field(
        None, description="what it publishes are observations of this observable of `context`; unset: anything"
    )


_URI = r"^[^\x00-\x20\x7f\"\\]{1,1000}$"
Uri = Annotated[str, matching(_URI, "a URI: at most 1000 characters without blanks, quotes and backslashes")]


class EntitySettings(Settings):
    """Something of which there is context."""

    uri: Uri = Field(description="URI that identifies it in observations")


class ObservableSettings(Settings):
    """Something to observe of entities."""

    uri: Uri = Field(description="URI that identifies it in observations")
    entities: Annotated[tuple[Name, ...], OneOrMany("the name of an entity or a list")] = Field(
        min_length=1, description="entity of which it is observed, or a list"
    )


class ContextSettings(Settings):
    """The context model: entities and their observables."""

    entities: dict[Name, EntitySettings] = Field({}, description="persons, places and objects, by name")
    observables: dict[Name, ObservableSettings] = Field({}, description="what is observed of them, by name")

    def observable(self, name: str) -> ContextObservable:
        """Return an observable with its entities."""
        settings = self.observables[name]
        entities = tuple(ContextEntity(entity, self.entities[entity].uri) for entity in settings.entities)
        return ContextObservable(name, settings.uri, entities)


_SCALARS: dict[str, Type] = {
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "timestamp": types.TIMESTAMP,
    "list": ListType(DYN),
    "map": MapType(types.STRING, DYN),
    "dyn": DYN,
}
_SOME = frozenset({"string", "list", "map", "dyn"})
_TYPES_OF = {
    Format.JSON: _SOME | {"bool", "int", "uint", "double"},
    Format.XML: _SOME,
    Format.SPARKPLUG: frozenset(_SCALARS),
}
"""The types that content of a format can have."""
_WITHOUT_SCHEMA = {Format.TEXT: RecordType({"value": types.STRING}), Format.OPAQUE: RecordType()}


def _check_schema(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise mistake("a mapping of attributes to their types")
    return value


def _wrong_types(form: object, known: Collection[str], at: Below) -> Iterator[tuple[Below, PydanticCustomError]]:
    """Find the parts of a schema that are not known types."""
    match form:
        case dict():
            for name, inner in form.items():
                yield from _wrong_types(inner, known, (*at, name))
        case [element]:
            yield from _wrong_types(element, known, (*at, 0))
        case str() if form in known:
            pass
        case _:
            names = ", ".join(f"`{name}`" for name in _SCALARS if name in known)
            yield at, mistake(f"{names}, a list of one of these, or a mapping of names to these")


def _read_schema(schema: dict[str, Any]) -> RecordType:
    """Return the attributes that a schema declares; others are allowed only if it has a `*`."""
    fields = {name: _read_type(form) for name, form in schema.items() if name != OTHERS}
    return RecordType(fields, _read_type(schema[OTHERS]) if OTHERS in schema else None)


def _read_type(form: Any) -> Type:
    if isinstance(form, dict):
        return _read_schema(form)
    return ListType(_read_type(form[0])) if isinstance(form, list) else _SCALARS[form]


_TYPE_SCHEMA: dict[str, Any] = {
    "anyOf": [{"enum": list(_SCALARS)}, {"type": "array", "minItems": 1, "maxItems": 1}, {"type": "object"}]
}


class ContentRule(Settings):
    """The format of payloads on some topics."""

    topics: Annotated[tuple[TopicFilter, ...], OneOrMany("a topic filter or a list of topic filters")] = Field(
        description="topic filter, or a list, of the events that the rule covers"
    )
    format: Annotated[Format, WithJsonSchema({"enum": list(Format)})] = Field(
        description="format of their payloads; a payload with a different MQTT 5 content type cannot be read"
    )
    schema_: (
        Annotated[
            dict[str, Any],
            PlainValidator(_check_schema),
            WithJsonSchema({"type": "object", "additionalProperties": _TYPE_SCHEMA}),
        ]
        | None
    ) = Field(
        None,
        alias="schema",
        description="the attributes that they may have, by name, with their types, so that conditions can be checked;"
        " `*` is every other attribute; without it there are no others. Unset: unknown attributes",
    )

    @model_validator(mode="after")
    def _schema_fits_the_format(self) -> ContentRule:
        if self.schema_ is None:
            return self
        if self.format is Format.TEXT:
            raise mistake("no `schema`: a text has one attribute, `value`, which is a string", "schema")
        if self.format is Format.OPAQUE:
            raise mistake("no `schema`: opaque content has no attributes", "schema")
        wrong = list(_wrong_types(self.schema_, _TYPES_OF[self.format], ("schema",)))
        if wrong:
            raise mistakes(*wrong)
        return self

    @property
    def declared(self) -> RecordType:
        """Return the declared attributes of such content."""
        if self.schema_ is not None:
            return _read_schema(self.schema_)
        return _WITHOUT_SCHEMA.get(self.format, types.ANYTHING)


def reader(rules: tuple[ContentRule, ...]) -> ContentReader:
    """Return a reader of content by these rules."""
    widened = [(rule, widening(rule.declared)) for rule in rules]
    return ContentReader(
        tuple(FormatRule(filter, rule.format, widen) for rule, widen in widened for filter in rule.topics)
    )


def declared(rules: tuple[ContentRule, ...], filter: str) -> RecordType:
    """Return the attributes of all events that a filter matches, if one rule covers all of them."""
    for rule in rules:
        if any(covers(topic, filter) for topic in rule.topics):
            return rule.declared
        if any(overlaps(topic, filter) for topic in rule.topics):
            break
    return types.ANYTHING
