"""Content as typed columns, where a domain declares its schema.

A column is filled only where the content is exactly as declared: every attribute is declared and has the declared type
(where that is double, integers are doubles). So a column contains everything the payload says; where it is null, read
the payload.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.domain.load import read
from penstock.domain.schema.contents import ContentRule, reader
from penstock.journal.read.events import EVENTS
from penstock.journal.revision import DOMAIN, FOLDER
from penstock.language import types
from penstock.language.types import ListType, MapType, RecordType, Type
from penstock.model.content.content import Content, Unreadable
from penstock.model.errors import DomainError
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.model.values import Timestamp, Uint, Value

COLUMN = "content_{}"
UNREADABLE = "unreadable"

_SCALARS: dict[Type, tuple[pa.DataType, type]] = {
    types.BOOL: (pa.bool_(), bool),
    types.INT: (pa.int64(), int),
    types.UINT: (pa.decimal128(20, 0), Uint),
    types.DOUBLE: (pa.float64(), float),
    types.STRING: (pa.string(), str),
    types.BYTES: (pa.binary(), bytes),
    types.TIMESTAMP: (pa.timestamp("us", "UTC"), Timestamp),
}
_MICROSECOND = 1000


class Typed(NamedTuple):
    """One column of typed content."""

    column: str
    rule: ContentRule
    type: pa.DataType


class _Unfit(Exception):
    """Content that is not as declared."""


def typed_columns(rules: tuple[ContentRule, ...]) -> tuple[Typed, ...]:
    """Return the columns for a domain's rules with a schema, counted from 0; those that contain `dyn` have none."""
    declared = [rule for rule in rules if rule.schema_ is not None]
    columns = ((COLUMN.format(number), rule, arrow_type(rule.declared)) for number, rule in enumerate(declared))
    return tuple(Typed(name, rule, kind) for name, rule, kind in columns if kind is not None)


def arrow_type(kind: Type) -> pa.DataType | None:
    """Return the Arrow type for values of a declared type, or None if there is none."""
    match kind:
        case ListType(element):
            inner = arrow_type(element)
            return None if inner is None else pa.list_(inner)
        case MapType(_, value):
            inner = arrow_type(value)
            return None if inner is None else pa.map_(pa.string(), inner)
        case RecordType(fields, others):
            inner_types = [(name, arrow_type(type)) for name, type in fields.items()]
            if others is not None or not fields or any(inner is None for _, inner in inner_types):
                return None
            return pa.struct([pa.field(name, inner) for name, inner in inner_types])
        case _:
            return _SCALARS[kind][0] if kind in _SCALARS else None


def rules_of(journal: Path, revision: str) -> tuple[ContentRule, ...]:
    """Return a revision's content rules; empty if the journal no longer has the revision."""
    path = journal / FOLDER / revision / DOMAIN
    try:
        return read(path, {}).domain.content if revision and path.exists() else ()
    except DomainError:  # written by another version of Penstock
        return ()


class Typing:
    """Adds typed columns beside the bytes of events, by the rules of a domain."""

    def __init__(self, rules: tuple[ContentRule, ...]) -> None:
        self._rules = rules
        self._reader = reader(rules)
        self.columns = typed_columns(rules)
        self._fits = [_fit(column.rule.declared) for column in self.columns]
        self._places: dict[str, int] = {}
        self.schema = pa.schema(
            [
                *EVENTS,
                *(pa.field(column.column, column.type) for column in self.columns),
                pa.field(UNREADABLE, pa.string()),
            ]
        )

    def add(self, events: pa.Table) -> pa.Table:
        """Return the events with their typed columns."""
        values: list[list[Value]] = [[None] * events.num_rows for _ in self.columns]
        problems: list[str | None] = [None] * events.num_rows
        for row, place, content in self._contents(events) if self.columns else ():
            try:
                values[place][row] = self._read(place, content)
            except _Unfit as error:
                problems[row] = str(error)
        columns = [pa.array(data, column.type) for data, column in zip(values, self.columns, strict=True)]
        return pa.table([*events.columns, *columns, pa.array(problems, pa.string())], schema=self.schema)

    def _contents(self, events: pa.Table) -> Iterator[tuple[int, int, Content]]:
        topics = events["topic"].to_pylist()
        for row, topic in enumerate(topics):
            place = self._places.get(topic)
            if place is None:
                place = self._places[topic] = self._place(topic)
            if place >= 0:
                payload, properties = events["payload"][row].as_py(), events["properties"][row].as_py()
                yield row, place, self._reader.read(Event(topic, payload, properties=properties))

    def _place(self, topic: str) -> int:
        """Return the index of the column for a topic, by the first rule that matches; -1 if it has no column."""
        rule = next((rule for rule in self._rules if any(matches(filter, topic) for filter in rule.topics)), None)
        return next((place for place, column in enumerate(self.columns) if column.rule is rule), -1)

    def _read(self, place: int, content: Content) -> Value:
        attributes = content.attributes
        if isinstance(attributes, Unreadable):
            raise _Unfit(attributes.reason)
        return self._fits[place](attributes)


Fit = Callable[[Value], Any]


def _fit(kind: Type) -> Fit:
    """Return a function that converts a value of a declared type for its column; it raises `_Unfit` for other types."""
    match kind:
        case ListType(element):
            return _list_fit(_nullable(_fit(element)))
        case MapType(_, value):
            return _map_fit(_nullable(_fit(value)))
        case RecordType(fields, _):
            return _record_fit({name: _fit(type) for name, type in fields.items()})
        case _:
            return _scalar_fit(kind)


def _nullable(fit: Fit) -> Fit:
    return lambda value: None if value is None else fit(value)


def _list_fit(element: Fit) -> Fit:
    def fit(value: Value) -> Any:
        if type(value) is not list:
            raise _Unfit("not as declared: a list was expected")
        return [element(item) for item in value]

    return fit


def _map_fit(inner: Fit) -> Fit:
    def fit(value: Value) -> Any:
        if not isinstance(value, dict) or any(type(key) is not str for key in value):
            raise _Unfit("not as declared: a map was expected")
        return [(key, inner(item)) for key, item in value.items()]

    return fit


def _record_fit(fields: dict[str, Fit]) -> Fit:
    def fit(value: Value) -> Any:
        if not isinstance(value, dict):
            raise _Unfit("not as declared: a record was expected")
        converted = {}
        for name, item in value.items():
            field = fields.get(name)
            if field is None:
                raise _Unfit(f"not as declared: `{name}` is not declared")
            converted[name] = field(item)
        return converted

    return fit


def _scalar_fit(kind: Type) -> Fit:
    expected = _SCALARS[kind][1]

    def fit(value: Value) -> Any:
        actual = type(value)
        if actual is not expected:
            raise _Unfit(f"not as declared: a value of type {types.of_python(actual)} where {kind} was expected")
        if expected is Timestamp:
            if value.nanos % _MICROSECOND:
                raise _Unfit("a time finer than microseconds")
            return value.nanos // _MICROSECOND
        return Decimal(int(value)) if expected is Uint else value

    return fit
