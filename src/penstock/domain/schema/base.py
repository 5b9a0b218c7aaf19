"""Base of the domain file's models: the root model, names, files, counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from penstock.domain.units import mistake
from penstock.domain.yaml.files import FileRole
from penstock.model.errors import TopicError
from penstock.model.topic import check_topic, parse_filter

JsonSchema = dict[str, Any]
MEMORY = "memory"
"""In place of a file: nothing is stored."""
ReadFile = Annotated[Path, FileRole.READ]
OptionalReadFile = Annotated[Path | None, FileRole.READ]
StorePath = Annotated[str, StringConstraints(min_length=1), FileRole.STORE]
OptionalMadeFile = Annotated[str | None, FileRole.STORE]
MadeFolder = Annotated[Path, FileRole.FOLDER]
Count = Annotated[int, Strict()]
MAX_NAME = 64
NAME = r"^[A-Za-z0-9_-]{1,64}$"
_URL_PATH = r"^/[^\s?#]*$"


def matching(pattern: str, expected: str) -> AfterValidator:
    """Return a validator against `pattern`; `expected` says in words what was expected."""
    compiled = re.compile(pattern, re.ASCII)

    def checked(value: str) -> str:
        # `$` alone would let a final newline pass.
        if not compiled.fullmatch(value):
            raise mistake(expected)
        return value

    return AfterValidator(checked)


Name = Annotated[
    str,
    matching(NAME, "a name of at most 64 letters, digits, `-` and `_`"),
    WithJsonSchema({"type": "string", "pattern": NAME}),
]
UrlPath = Annotated[
    str,
    matching(_URL_PATH, "a path that starts with `/`, without blanks, `?` and `#`"),
    WithJsonSchema({"type": "string", "pattern": _URL_PATH}),
]


def check_filter(value: str) -> str:
    """Return the topic filter if it is valid and not a shared subscription."""
    try:
        parsed = parse_filter(value)
    except TopicError as error:
        raise mistake(f"a topic filter, and this is none: {error}") from None
    if parsed.group is not None:
        raise mistake("a topic filter that is not a shared subscription")
    return value


TopicFilter = Annotated[str, AfterValidator(check_filter)]


def checked_topic(value: str) -> str:
    """Return the topic if it is valid."""
    try:
        return check_topic(value)
    except TopicError as error:
        raise mistake(f"a topic, and this is none: {error}") from None


TopicName = Annotated[str, AfterValidator(checked_topic)]


def without_default(schema: JsonSchema) -> None:
    """Remove a default that depends on a name or a location, which a JSON schema cannot express."""
    schema.pop("default", None)


def as_list(value: object) -> list[object]:
    """Accept the short form of a list with one item: the item."""
    return list(value) if isinstance(value, list | tuple) else [value]


class Short:
    """Annotation: a value may also be written in a short form, which `lengthen` expands."""

    def __init__(self, lengthen: Callable[[Any], object], form: JsonSchema) -> None:
        self._lengthen = lengthen
        self._form = form

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self._lengthen, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        return {"anyOf": [self._form, handler(schema)]}

    @classmethod
    def of_text(cls, key: str) -> Short:
        """Return the annotation of a mapping that may also be written as a text, the value of its main key."""
        return cls(lambda value: {key: value} if isinstance(value, str) else value, {"type": "string"})

    @classmethod
    def of_list(cls, key: str) -> Short:
        """Return the annotation of a mapping that may also be written as a list, the value of its main key."""
        return cls(lambda value: {key: value} if isinstance(value, list | tuple) else value, {"type": "array"})


class OneOrMany:
    """Annotation: a list of one item may be written as the item; an empty list is a mistake if `expected` is given."""

    def __init__(self, expected: str = "") -> None:
        self._expected = expected

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        list_schema = handler(schema)
        return {"anyOf": [list_schema["items"], {**list_schema, "minItems": 1} if self._expected else list_schema]}

    def _checked(self, value: object) -> list[object]:
        if self._expected and value in ([], ()):
            raise mistake(self._expected)
        return as_list(value)


def _as_version(value: object) -> object:
    """Convert to text: YAML reads 1.2 without quotes as a number."""
    return str(value) if isinstance(value, float) else value


TlsVersion = Annotated[
    Literal["1.2", "1.3"], BeforeValidator(_as_version), WithJsonSchema({"enum": ["1.2", "1.3", 1.2, 1.3]})
]


def _as_level(value: object) -> object:
    # True is 1 to Python, and would pass as QoS 1.
    if isinstance(value, bool):
        raise mistake("0, 1 or 2")
    return value


QosLevel = Annotated[Literal[0, 1, 2], BeforeValidator(_as_level)]


class Settings(BaseModel):
    """Root of the models: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False)


def keys(model: type[BaseModel]) -> Iterator[tuple[str, str, FieldInfo]]:
    """Yield each key of a model as the file spells it, the name of its field, and the field."""
    for name, field in model.model_fields.items():
        yield field.alias or name, name, field
