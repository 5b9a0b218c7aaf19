"""Functions of single values: equality, order, arithmetic, texts, times (A.3.1 to A.3.9, A.3.14)."""

import math
import operator
from collections.abc import Callable
from typing import Any

from penstock.policy.xacml.functions.function import (
    ADDRESS,
    BOOLEAN,
    DATE,
    DATE_TIME,
    DAYS,
    DNS,
    DOUBLE,
    INTEGER,
    MAILBOX,
    MONTHS,
    STRING,
    TIME,
    URI,
    X500,
    FunctionTable,
    XacmlFunction,
    add,
)
from penstock.policy.xacml.functions.patterns import matches_pattern, pattern_cost
from penstock.policy.xacml.limits import MAX_BITS, MAX_CHARACTERS
from penstock.policy.xacml.names import FUNCTION_1, FUNCTION_2, FUNCTION_3
from penstock.policy.xacml.status import XacmlError, malformed, unprocessable
from penstock.policy.xacml.values import moments
from penstock.policy.xacml.values.moments import Days, Moment, Months
from penstock.policy.xacml.values.values import DATA_TYPES, Mailbox, Spelled, Type, read_value, show_value
from penstock.policy.xacml.values.x500 import X500Name

_MAX_NANOS = 10**9 * 366 * moments.DAY
"""About a thousand million years: beyond it, times are not calculated."""


def _equalities(table: FunctionTable) -> None:
    for uri, data_type in DATA_TYPES.items():
        pair = (Type(uri), Type(uri))
        if data_type.name.endswith("Duration"):
            add(table, FUNCTION_3, f"{data_type.name}-equal", pair, BOOLEAN, operator.eq)
        add(table, FUNCTION_1, f"{data_type.name}-equal", pair, BOOLEAN, operator.eq)
    del table[FUNCTION_1 + "xpathExpression-equal"], table[FUNCTION_1 + "ipAddress-equal"]
    del table[FUNCTION_1 + "dnsName-equal"]
    add(table, FUNCTION_1, "double-equal", (DOUBLE, DOUBLE), BOOLEAN, _equal_doubles)
    ignoring = lambda left, other: left.lower() == other.lower()  # noqa: E731
    add(table, FUNCTION_3, "string-equal-ignore-case", (STRING, STRING), BOOLEAN, ignoring)


def _equal_doubles(left: float, other: float) -> bool:
    """Return whether two doubles are equal in the value space of XML Schema, where NaN is equal to itself."""
    return left == other or (math.isnan(left) and math.isnan(other))


def _orders(table: FunctionTable) -> None:
    orders: dict[str, Callable[[Any, Any], bool]] = {
        "greater-than": operator.gt,
        "greater-than-or-equal": operator.ge,
        "less-than": operator.lt,
        "less-than-or-equal": operator.le,
    }
    for kind in (INTEGER, DOUBLE, STRING, TIME, DATE, DATE_TIME):
        for name, test in orders.items():
            add(table, FUNCTION_1, f"{DATA_TYPES[kind.data].name}-{name}", (kind, kind), BOOLEAN, test)
    add(table, FUNCTION_2, "time-in-range", (TIME, TIME, TIME), BOOLEAN, moments.in_range)


# --- numbers


def _fitting(value: int) -> int:
    if value.bit_length() > MAX_BITS:
        raise unprocessable(f"an integer of more than {MAX_BITS} bits")
    return value


def _multiply(left: int, other: int) -> int:
    return _fitting(left * other)


def _divide(left: int, other: int) -> int:
    if not other:
        raise unprocessable("an integer is divided by zero")
    quotient = abs(left) // abs(other)
    return quotient if (left < 0) == (other < 0) else -quotient


def _remainder(left: int, other: int) -> int:
    return left - _divide(left, other) * other


def _divide_doubles(left: float, other: float) -> float:
    if not other:
        raise unprocessable("a double is divided by zero")
    return left / other


def _round(value: float) -> float:
    return math.copysign(math.floor(value + 0.5), value) if math.isfinite(value) and abs(value) < 2**52 else value


def _floor(value: float) -> float:
    return float(math.floor(value)) if math.isfinite(value) else value


def _truncate(value: float) -> int:
    if not math.isfinite(value):
        raise unprocessable("a double that is not finite cannot be an integer")
    return math.trunc(value)


def _as_double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise unprocessable("an integer that is too large for a double") from None


def _numbers(table: FunctionTable) -> None:
    two, doubles = (INTEGER, INTEGER), (DOUBLE, DOUBLE)
    # The norm takes two or more for sums, and two for products; earlier versions took more of both.
    for name, kind, apply in (
        ("integer-add", INTEGER, _sum),
        ("double-add", DOUBLE, _add),
        ("integer-multiply", INTEGER, _product),
        ("double-multiply", DOUBLE, lambda *values: math.prod(values)),
    ):
        table[FUNCTION_1 + name] = XacmlFunction(FUNCTION_1 + name, (kind, kind), kind, apply, rest=kind)
    add(table, FUNCTION_1, "integer-subtract", two, INTEGER, lambda left, other: _fitting(left - other))
    add(table, FUNCTION_1, "integer-divide", two, INTEGER, _divide)
    add(table, FUNCTION_1, "integer-mod", two, INTEGER, _remainder)
    add(table, FUNCTION_1, "integer-abs", (INTEGER,), INTEGER, abs)
    add(table, FUNCTION_1, "double-subtract", doubles, DOUBLE, operator.sub)
    add(table, FUNCTION_1, "double-divide", doubles, DOUBLE, _divide_doubles)
    add(table, FUNCTION_1, "double-abs", (DOUBLE,), DOUBLE, abs)
    add(table, FUNCTION_1, "round", (DOUBLE,), DOUBLE, _round)
    add(table, FUNCTION_1, "floor", (DOUBLE,), DOUBLE, _floor)
    add(table, FUNCTION_1, "double-to-integer", (DOUBLE,), INTEGER, _truncate)
    add(table, FUNCTION_1, "integer-to-double", (INTEGER,), DOUBLE, _as_double)


def _sum(*values: int) -> int:
    return _fitting(sum(values))


def _add(*values: float) -> float:
    return sum(values)


def _product(*values: int) -> int:
    product = 1
    for value in values:
        product = _multiply(product, value)
    return product


# --- texts


def _concatenate(*texts: str) -> str:
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise unprocessable(f"a string of more than {MAX_CHARACTERS} characters")
    return "".join(texts)


def _concatenate_uri(uri: str, *texts: str) -> str:
    return _concatenate(uri, *texts)


def _substring(text: str, begin: int, end: int) -> str:
    stop = len(text) if end == -1 else end
    if not 0 <= begin <= stop <= len(text):
        raise unprocessable(f"there is no part from {begin} to {end} of a string of {len(text)} characters")
    return text[begin:stop]


def _reader(uri: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return read_value(uri, text)
        except XacmlError as error:
            raise malformed(str(error)) from None

    return read


def _shower(uri: str) -> Callable[[Any], str]:
    return lambda value: show_value(uri, value)


def _texts(table: FunctionTable) -> None:
    add(table, FUNCTION_1, "string-normalize-space", (STRING,), STRING, lambda text: text.strip(" \t\r\n"))
    add(table, FUNCTION_1, "string-normalize-to-lower-case", (STRING,), STRING, str.lower)
    name = FUNCTION_2 + "string-concatenate"
    table[name] = XacmlFunction(name, (STRING, STRING), STRING, _concatenate, rest=STRING)
    for word in ("uri-string-concatenate", "url-string-concatenate"):
        table[FUNCTION_2 + word] = XacmlFunction(FUNCTION_2 + word, (URI, STRING), URI, _concatenate_uri, rest=STRING)
    for kind, word in ((STRING, "string"), (URI, "anyURI")):
        # The first argument is what is looked for (A.3.9).
        add(table, FUNCTION_3, f"{word}-starts-with", (STRING, kind), BOOLEAN, lambda part, text: text.startswith(part))
        add(table, FUNCTION_3, f"{word}-ends-with", (STRING, kind), BOOLEAN, lambda part, text: text.endswith(part))
        add(table, FUNCTION_3, f"{word}-contains", (STRING, kind), BOOLEAN, lambda part, text: part in text)
        add(table, FUNCTION_3, f"{word}-substring", (kind, INTEGER, INTEGER), STRING, _substring)
    kinds = (BOOLEAN, INTEGER, DOUBLE, TIME, DATE, DATE_TIME, URI, DAYS, MONTHS, X500, MAILBOX, ADDRESS, DNS)
    canonical = {TIME: moments.show_canonical_time, DATE_TIME: moments.show_canonical_date_time}
    for kind in kinds:
        word = DATA_TYPES[kind.data].name
        add(table, FUNCTION_3, f"{word}-from-string", (STRING,), kind, _reader(kind.data))
        add(table, FUNCTION_3, f"string-from-{word}", (kind,), STRING, canonical.get(kind, _shower(kind.data)))


# --- times


def _within(local: int, zone: int | None) -> Moment:
    if abs(local) > _MAX_NANOS:
        raise unprocessable("a time that is too far away")
    return Moment(local, zone)


def _add_days(moment: Moment, duration: Days) -> Moment:
    return _within(moment.local + duration.nanos, moment.zone)


def _subtract_days(moment: Moment, duration: Days) -> Moment:
    return _within(moment.local - duration.nanos, moment.zone)


def _add_months(moment: Moment, duration: Months) -> Moment:
    added = moments.add_months(moment, duration.months)
    return _within(added.local, added.zone)


def _subtract_months(moment: Moment, duration: Months) -> Moment:
    return _add_months(moment, Months(-duration.months))


def _times(table: FunctionTable) -> None:
    for prefix in (FUNCTION_1, FUNCTION_3):  # the earlier ones are of the earlier names of the types
        add(table, prefix, "dateTime-add-dayTimeDuration", (DATE_TIME, DAYS), DATE_TIME, _add_days)
        add(table, prefix, "dateTime-subtract-dayTimeDuration", (DATE_TIME, DAYS), DATE_TIME, _subtract_days)
        add(table, prefix, "dateTime-add-yearMonthDuration", (DATE_TIME, MONTHS), DATE_TIME, _add_months)
        add(table, prefix, "dateTime-subtract-yearMonthDuration", (DATE_TIME, MONTHS), DATE_TIME, _subtract_months)
        add(table, prefix, "date-add-yearMonthDuration", (DATE, MONTHS), DATE, _add_months)
        add(table, prefix, "date-subtract-yearMonthDuration", (DATE, MONTHS), DATE, _subtract_months)


# --- patterns


def _matching_mailbox(pattern: str, name: Spelled) -> bool:
    """Return whether a mailbox matches a whole mailbox, a domain, or `.` and a domain above its own (A.3.14)."""
    mailbox: Mailbox = name.key
    local, at, domain = pattern.rpartition("@")
    if at:
        return local == mailbox.local and domain.lower() == mailbox.domain
    return mailbox.domain.endswith(domain.lower()) if domain.startswith(".") else mailbox.domain == domain.lower()


def _ending_name(end: X500Name, name: X500Name) -> bool:
    return name.ends_with(end)


def _patterns(table: FunctionTable) -> None:
    add(table, FUNCTION_1, "string-regexp-match", (STRING, STRING), BOOLEAN, matches_pattern)
    for kind in (URI, ADDRESS, DNS, MAILBOX, X500):
        show = _shower(kind.data)
        apply = lambda pattern, value, show=show: matches_pattern(pattern, show(value))  # noqa: E731
        add(table, FUNCTION_2, f"{DATA_TYPES[kind.data].name}-regexp-match", (STRING, kind), BOOLEAN, apply)
    table[FUNCTION_1 + "regexp-string-match"] = table[FUNCTION_1 + "string-regexp-match"]  # its name in 1.0
    add(table, FUNCTION_1, "rfc822Name-match", (STRING, MAILBOX), BOOLEAN, _matching_mailbox)
    add(table, FUNCTION_1, "x500Name-match", (X500, X500), BOOLEAN, _ending_name)


_CHARACTERS = 1024
"""Characters that are gone through in a step."""


def _length(*arguments: Any) -> int:
    return sum(len(argument) for argument in arguments if isinstance(argument, str)) // _CHARACTERS


def _metered(function: XacmlFunction) -> XacmlFunction:
    """Return the function with its cost, if that grows with its texts."""
    if function.id.endswith("-regexp-match") or function.id.endswith("regexp-string-match"):
        show = _shower(function.parameters[1].data)
        return function._replace(cost=lambda pattern, value: pattern_cost(pattern, show(value)))
    texts = {STRING, URI}
    return function._replace(cost=_length) if texts & {*function.parameters, function.result} else function


def value_functions() -> FunctionTable:
    table: FunctionTable = {}
    for fill in (_equalities, _orders, _numbers, _texts, _times, _patterns):
        fill(table)
    add(table, FUNCTION_1, "not", (BOOLEAN,), BOOLEAN, operator.not_)
    return {name: _metered(function) if not name.endswith("-equal") else function for name, function in table.items()}
