"""The types that the checker knows: CEL's, and records, which are maps whose fields are declared."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.language.values import Duration, Timestamp, TypeName, Uint


@dataclass(frozen=True, slots=True)
class Scalar:
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
class Record:
    """A map with declared fields. `others` is the type of any other field; None: there is no other."""

    fields: "Mapping[str, Type]" = field(default_factory=dict)
    others: "Type | None" = None

    def __str__(self) -> str:
        return "map"

    def field(self, name: str) -> "Type | None":
        """The type of a field, None if there is none of that name."""
        return self.fields.get(name, self.others)


Type = Scalar | ListType | MapType | Record

DYN = Scalar("dyn")
BOOL, INT, UINT, DOUBLE = Scalar("bool"), Scalar("int"), Scalar("uint"), Scalar("double")
STRING, BYTES, NULL, TYPE = Scalar("string"), Scalar("bytes"), Scalar("null"), Scalar("type")
TIMESTAMP, DURATION = Scalar("timestamp"), Scalar("duration")
NUMBERS = frozenset({INT, UINT, DOUBLE})

ANYTHING = Record(others=DYN)
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
    """The type of the values that a Python type holds; `object` holds any."""
    return _OF_PYTHON[kind]


def accepts(expected: Type, given: Type) -> bool:
    """Whether a value of the given type may be of the expected type. What is not known may be anything."""
    if DYN in (expected, given):
        return True
    if isinstance(expected, ListType) and isinstance(given, ListType):
        return accepts(expected.element, given.element)
    if isinstance(expected, MapType | Record) and isinstance(given, MapType | Record):
        return True
    return expected == given


def comparable(left: Type, right: Type) -> bool:
    """Whether `==` between two types can ever be true."""
    if NULL in (left, right) or (left in NUMBERS and right in NUMBERS):
        return True
    if isinstance(left, ListType) and isinstance(right, ListType):
        return comparable(left.element, right.element)
    return accepts(left, right)


def joined(types: list[Type]) -> Type:
    """The type of a value that is of one of these."""
    return types[0] if types and all(other == types[0] for other in types) else DYN
