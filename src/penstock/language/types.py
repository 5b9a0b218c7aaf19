"""The types that the checker knows: CEL's, and records, which are maps whose fields are declared."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.language.values import Duration, Timestamp, TypeName, Uint


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type without parts; `dyn` is any."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of elements of one type."""

    element: "Type"

    def __str__(self) -> str:
        return "list" if self.element == DYN else f"list({self.element})"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map with keys of one type and values of one type."""

    key: "Type"
    value: "Type"

    def __str__(self) -> str:
        return "map"


@dataclass(frozen=True, slots=True)
class RecordType:
    """A map with declared fields. `others` is the type of any other field; None: there is no other."""

    fields: "Mapping[str, Type]" = field(default_factory=dict)
    others: "Type | None" = None

    def __str__(self) -> str:
        return "map"

    def field(self, name: str) -> "Type | None":
        """Return the type of a field, None if there is none of that name."""
        return self.fields.get(name, self.others)


Type = ScalarType | ListType | MapType | RecordType

DYN = ScalarType("dyn")
BOOL, INT, UINT, DOUBLE = ScalarType("bool"), ScalarType("int"), ScalarType("uint"), ScalarType("double")
STRING, BYTES, NULL, TYPE = ScalarType("string"), ScalarType("bytes"), ScalarType("null"), ScalarType("type")
TIMESTAMP, DURATION = ScalarType("timestamp"), ScalarType("duration")
NUMBERS = frozenset({INT, UINT, DOUBLE})

ANYTHING = RecordType(others=DYN)
"""The declaration of content of which nothing is known."""

_OF_PYTHON: dict[type, Type] = {
    type(None): NULL,
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    list: ListType(DYN),
    dict: MapType(DYN, DYN),
    Timestamp: TIMESTAMP,
    Duration: DURATION,
    TypeName: TYPE,
    object: DYN,
}


def of_python(kind: type) -> Type:
    """Return the type of the values that a Python type holds; `object` holds any."""
    return _OF_PYTHON[kind]


def accepts(expected: Type, actual: Type) -> bool:
    """Return whether a value of the actual type may be of the expected type. An unknown type may be anything."""
    if DYN in (expected, actual):
        return True
    if isinstance(expected, ListType) and isinstance(actual, ListType):
        return accepts(expected.element, actual.element)
    if isinstance(expected, MapType | RecordType) and isinstance(actual, MapType | RecordType):
        return True
    return expected == actual


def comparable(left: Type, right: Type) -> bool:
    """Return whether `==` between two types can ever be true."""
    if NULL in (left, right) or (left in NUMBERS and right in NUMBERS):
        return True
    if isinstance(left, ListType) and isinstance(right, ListType):
        return comparable(left.element, right.element)
    return accepts(left, right)


def joined(types: list[Type]) -> Type:
    """Return the type of a value that is of one of these."""
    return types[0] if types and all(other == types[0] for other in types) else DYN
