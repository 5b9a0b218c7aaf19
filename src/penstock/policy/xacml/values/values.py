"""The data types of XACML (appendix A.2): how their values are written, and their Python values.

Each value is a Python value that can be a key, such that two values of one type are equal if Python's are: so bags are
tuples, sets are made with dictionaries, and targets are found by value.
"""

import base64
import binascii
import ipaddress
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from operator import attrgetter
from typing import Any, NamedTuple

from penstock.policy.xacml import names
from penstock.policy.xacml.limits import MAX_BITS, MAX_DIGITS
from penstock.policy.xacml.status import XacmlError
from penstock.policy.xacml.values import moments
from penstock.policy.xacml.values.x500 import read_x500

Value = Any
"""A value of one of the types below."""
Bag = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Spelled:
    """A value that is shown as it was written (A.3.9), and compared by a key."""

    text: str = field(compare=False)
    key: Any


class Mailbox(NamedTuple):
    """The key of an rfc822Name: the part before `@` unchanged, the domain in lower case."""

    local: str
    domain: str


class XPathExpression(NamedTuple):
    """An expression, the category whose content it is about, and the prefixes that were in scope."""

    path: str
    category: str
    prefixes: tuple[tuple[str, str], ...]


class Type(NamedTuple):
    """The type of an expression: of a value, or of a bag of values."""

    data: str
    is_bag: bool = False

    def __str__(self) -> str:
        short = re.split("[#:]", self.data)[-1]
        return f"a bag of {short}" if self.is_bag else short


class DataType(NamedTuple):
    """The functions that read and write values of a type; `read` raises ValueError."""

    name: str
    read: Callable[[str], Value]
    show: Callable[[Value], str]


_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?INF|NaN", re.ASCII)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_PORTS = r"(?::(?P<ports>\d{1,5}|\d{1,5}-\d{0,5}|-\d{1,5}))?"
_IPV4 = re.compile(r"(?P<address>[\d.]+)(?:/(?P<mask>[\d.]+))?" + _PORTS, re.ASCII)
_IPV6 = re.compile(r"\[(?P<address>[\da-fA-F:.]+)\](?:/\[(?P<mask>[\da-fA-F:.]+)\])?" + _PORTS, re.ASCII)
_DNS = re.compile(r"(?:\*\.)?[A-Za-z\d_-]+(?:\.[A-Za-z\d_-]+)*\.?" + _PORTS, re.ASCII)


def _read_integer(text: str) -> int:
    if len(text) > MAX_DIGITS or not _INTEGER.fullmatch(text):
        raise ValueError(text)
    value = int(text)
    if value.bit_length() > MAX_BITS:
        raise ValueError(text)
    return value


NAN = math.nan
"""The one NaN that is read: Python finds it in sets and tuples, as it is the same object."""


def _read_double(text: str) -> float:
    if len(text) > MAX_DIGITS or not _DOUBLE.fullmatch(text):
        raise ValueError(text)
    value = float(text.replace("INF", "inf"))
    return NAN if math.isnan(value) else value


def show_double(value: float) -> str:
    """Return the canonical form of XML Schema: one digit before the point, at least one after it, and an exponent."""
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    if math.isnan(value):
        return "NaN"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0").rstrip("0")
    power = exponent + len("".join(map(str, digits)).lstrip("0")) - 1 if text else 0
    return f"{'-' if sign else ''}{text[:1] or '0'}.{text[1:] or '0'}E{power}"


def _read_boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text]
    except KeyError:
        raise ValueError(text) from None


def _read_uri(text: str) -> str:
    if any(character in text for character in ' \t\r\n<>"{}|\\^`'):
        raise ValueError(text)
    return text


def _read_hex(text: str) -> bytes:
    if any(character.isspace() for character in text):
        raise ValueError(text)
    return bytes.fromhex(text)


def _read_base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(text) from error


def _read_mailbox(text: str) -> Spelled:
    local, at, domain = text.rpartition("@")
    if not at or not local or not domain or any(character.isspace() for character in text):
        raise ValueError(text)
    return Spelled(text, Mailbox(local, domain.lower()))


def _read_address(text: str) -> Spelled:
    """Return an ipAddress; they are compared as texts, without case."""
    match = _IPV4.fullmatch(text) or _IPV6.fullmatch(text)
    if match is None:
        raise ValueError(text)
    for part in (match["address"], match["mask"]):
        if part is not None:
            ipaddress.ip_address(part)
    return Spelled(text, text.lower())


def _read_dns(text: str) -> Spelled:
    if not _DNS.fullmatch(text):
        raise ValueError(text)
    return Spelled(text, text.lower())


_spelled = attrgetter("text")
DATA_TYPES: dict[str, DataType] = {
    names.STRING: DataType("string", str, str),
    names.BOOLEAN: DataType("boolean", _read_boolean, lambda value: "true" if value else "false"),
    names.INTEGER: DataType("integer", _read_integer, str),
    names.DOUBLE: DataType("double", _read_double, show_double),
    names.TIME: DataType("time", moments.read_time, moments.show_time),
    names.DATE: DataType("date", moments.read_date, moments.show_date),
    names.DATE_TIME: DataType("dateTime", moments.read_date_time, moments.show_date_time),
    names.DAY_TIME_DURATION: DataType("dayTimeDuration", moments.read_days, moments.show_days),
    names.YEAR_MONTH_DURATION: DataType("yearMonthDuration", moments.read_months, moments.show_months),
    names.ANY_URI: DataType("anyURI", _read_uri, str),
    names.HEX_BINARY: DataType("hexBinary", _read_hex, lambda value: value.hex().upper()),
    names.BASE64_BINARY: DataType("base64Binary", _read_base64, lambda value: base64.b64encode(value).decode()),
    names.RFC822_NAME: DataType("rfc822Name", _read_mailbox, _spelled),
    names.X500_NAME: DataType("x500Name", lambda text: Spelled(text, read_x500(text)), _spelled),
    names.IP_ADDRESS: DataType("ipAddress", _read_address, _spelled),
    names.DNS_NAME: DataType("dnsName", _read_dns, _spelled),
    names.XPATH_EXPRESSION: DataType("xpathExpression", lambda text: XPathExpression(text, "", ()), attrgetter("path")),
}

SHORT_TYPES = {data_type.name: uri for uri, data_type in DATA_TYPES.items()}


def type_named(uri: str) -> str:
    """Return the data type of an identifier, also of earlier versions; raises `XacmlError` if it is unknown."""
    current = names.OLD_TYPES.get(uri, uri)
    if current not in DATA_TYPES:
        raise XacmlError(f"`{uri}` is not a data type that is known here")
    return current


def read_value(type_uri: str, text: str) -> Value:
    """Read a value of a type; raises `XacmlError`. As in XML Schema, only strings keep the white space around them."""
    data_type = DATA_TYPES[type_uri]
    try:
        return data_type.read(text if type_uri == names.STRING else text.strip(" \t\r\n"))
    except (ValueError, OverflowError):
        shown = text if len(text) <= 100 else text[:100] + "…"
        raise XacmlError(f"`{shown}` is not a value of type {data_type.name}") from None


def show_value(type_uri: str, value: Value) -> str:
    return DATA_TYPES[type_uri].show(value)
