"""Sizes, durations and addresses in a domain file."""

import ipaddress
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from penstock.model.durations import DURATION_FORM, read_seconds

_SIZE_UNITS = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)", re.ASCII)
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?", re.ASCII)

SIZE_FORM = "a size in bytes, such as 1048576, `64 KiB` or `16 MiB`"
ADDRESS_FORM = "`host:port`, such as `127.0.0.1:1883`, `0.0.0.0:1883` or `[::1]:1883`"


def mistake(expected: str, key: str = "") -> PydanticCustomError:
    """Return the error that a validator raises: what was expected, and the key below the value that it concerns."""
    return PydanticCustomError("mistake", "expected {expected}", {"expected": expected, "key": key})


Below = tuple[str | int, ...]
"""The path from a value to one inside it. A final `KEY` means the key itself, not its value."""
KEY = "[key]"


def mistakes(*errors: tuple[Below, PydanticCustomError]) -> ValidationError:
    """Return the error that a validator raises for mistakes at several places inside the value."""
    details = [InitErrorDetails(type=error, loc=below, input=None) for below, error in errors]
    return ValidationError.from_exception_data("mistakes", details)


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a TCP port; port 0 is any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Return whether only this machine can connect to it."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(value: object) -> Address:
    """Parse `host:port`, with an IPv6 host in brackets."""
    if isinstance(value, Address):
        return value
    if not isinstance(value, str):
        raise mistake(ADDRESS_FORM)
    host, colon, port = value.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        raise mistake(ADDRESS_FORM)
    if len(port) > 5 or int(port) > 65535:
        raise mistake("a port from 0 to 65535")
    return Address(_parse_host(host), int(port))


def _parse_host(host: str) -> str:
    if host.startswith("[") and host.endswith("]"):
        if not _is_ipv6(host[1:-1]):
            raise mistake("an IPv6 address between the brackets, such as `[::1]:1883`")
        return host[1:-1]
    if _HOST_NAME.fullmatch(host):
        return host
    raise mistake("an IPv6 address in brackets, such as `[::1]:1883`" if _is_ipv6(host) else ADDRESS_FORM)


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def parse_size(value: object) -> int:
    """Return bytes, from a number or a text with a unit."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _QUANTITY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or match[2].lower() not in _SIZE_UNITS:
        raise mistake(SIZE_FORM)
    size = Decimal(match[1]) * _SIZE_UNITS[match[2].lower()]
    if size != int(size):
        raise mistake("a whole number of bytes")
    return int(size)


def parse_duration(value: object) -> float:
    """Return seconds, from a number or a text with a unit."""
    seconds = read_seconds(value)
    if seconds is None:
        raise mistake(DURATION_FORM)
    return seconds


def _parse_whole_duration(value: object) -> int:
    seconds = parse_duration(value)
    if not math.isfinite(seconds) or seconds != int(seconds):
        raise mistake("a whole number of seconds")
    return int(seconds)


def _quantity_schema(pattern: str) -> dict[str, Any]:
    return {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": pattern}]}


_SIZE_SCHEMA = _quantity_schema(r"^\s*[0-9]+(\.[0-9]+)? ?([KkMmGg][Ii]?)?[Bb]?\s*$")
_DURATION_SCHEMA = _quantity_schema(r"^\s*([0-9]+(\.[0-9]+)? ?(ms|s|m|h|d|w))+\s*$")

Size = Annotated[int, BeforeValidator(parse_size), WithJsonSchema(_SIZE_SCHEMA)]
Seconds = Annotated[
    float, BeforeValidator(parse_duration), Field(allow_inf_nan=False), WithJsonSchema(_DURATION_SCHEMA)
]
WholeSeconds = Annotated[int, BeforeValidator(_parse_whole_duration), WithJsonSchema(_DURATION_SCHEMA)]


@dataclass(frozen=True, eq=False)
class Written:
    """The reading and writing of a value in a domain file, and the JSON schema of that form.

    Used instead of pydantic's `PlainValidator`, which inspects the value's type too: for statements that takes a
    second.
    """

    read: Callable[[Any], object]
    show: Callable[[Any], object]
    schema: dict[str, Any]

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        shown = core_schema.plain_serializer_function_ser_schema(self.show)
        return core_schema.no_info_plain_validator_function(self.read, serialization=shown)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> dict[str, Any]:
        return dict(self.schema)


Pair = tuple[str, str]


def pair_form(pattern: str, between: str, expected: str, schema: str) -> Written:
    """Return how two names are written with a word or sign between them.

    `pattern` is what a name may be, `schema` the same for editors, `expected` what a message says.
    """
    parts = re.compile(rf"\s*({pattern}){between}({pattern})\s*", re.ASCII)

    def read(value: object) -> Pair:
        if isinstance(value, tuple) and len(value) == 2:
            return str(value[0]), str(value[1])
        match = parts.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise mistake(expected)
        return match[1], match[2]

    sign = between.replace(r"\s*", " ").replace(r"\s+", " ")
    form = {"type": "string", "pattern": rf"^\s*{schema}{between}{schema}\s*$"}
    return Written(read, sign.join, form)


HostPort = Annotated[Address, Written(parse_address, str, {"type": "string", "pattern": "^.+:[0-9]{1,5}$"})]
