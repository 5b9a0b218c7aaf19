"""Quality constraints: which metrics an event must have (criterion constraint), and how good (value constraint).

    10/10.1/10.1              the event says something of this metric: indicator, criterion, definition
    10/10.1/10.1 >= 40        and it is at least 40 (contracts, Listing 3)
    freshness <= 60           of an indicator with one metric, its name is enough
    precision >= high         at least as good as a level of the metric, whichever direction is better
    //qocindicator[…]         XPath, over the event as XML: true if it finds anything

The first four mean the same in every form that quality is carried in; so does XPath that is written as in Listing 3,
which is read as one of them. All of it can stand in YAML as text, or as a mapping of `indicator`, `criterion`,
`definition` and one of `at_least`, `at_most`, `above`, `below`, `level`; or of `xpath` alone.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import NamedTuple

from penstock.language.limits import MAX_XPATH
from penstock.model.content.content import Content
from penstock.model.content.xpath import compile_xpath
from penstock.model.errors import ContentError, PolicyError
from penstock.model.quality import Catalogue, Direction, MetricKey, Quality, check_id
from penstock.policy.quality.document import QualityDocument, document_of

_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_MIRRORED: dict[str, str] = {">=": "<=", "<=": ">=", ">": "<", "<": ">"}
_WORDS: dict[str, str] = {"at_least": ">=", "at_most": "<=", "above": ">", "below": "<"}

_NUMBER = r"-?\d{1,330}(?:\.\d{1,330})?"
_TEXT = re.compile(r"\s*([^\s<>=/]+(?:/[^\s<>=/]+){0,2})\s*(?:(>=|<=|>|<)\s*([^\s<>=]+)\s*)?")
_LISTING = re.compile(
    r"//qocindicator\[@id='([^']+)' and qocriterion\[@id='([^']+)'\]/qocmetricdefinition\[@id='([^']+)'\]"
    rf"(?: and qocmetricvalue\[@value(>=|<=|>|<)'?({_NUMBER})'?\])?\]"
)
_MAX_TEXT = 1_000
MAX_CONSTRAINTS = 64
"""Constraints in one list: clients write them too."""


@dataclass(frozen=True, slots=True)
class Need:
    """The need for a metric and, with a relation, for a value within a bound."""

    key: MetricKey
    relation: str | None = None
    bound: float = 0.0

    def __post_init__(self) -> None:
        for id in self.key:
            check_id(id)
        if self.relation is not None and self.relation not in _RELATIONS:
            raise PolicyError(f"quality `{self.key}`: `{self.relation}` is not one of `>=`, `<=`, `>`, `<`")
        if not math.isfinite(self.bound):
            raise PolicyError(f"quality `{self.key}`: `{self.bound}` is not a number")
        if self.relation is None:
            object.__setattr__(self, "bound", 0.0)  # it has no meaning then, and equal constraints must compare equal

    def __str__(self) -> str:
        return f"{self.key}" if self.relation is None else f"{self.key} {self.relation} {_shown(self.bound)}"

    def why_not(self, quality: Quality) -> str:
        """Return why an event of this quality does not satisfy it; empty if it does."""
        metric = quality.get(self.key)
        if metric is None:
            return f"it has no quality `{self.key}`"
        if self.relation is None or _RELATIONS[self.relation](metric.value, self.bound):
            return ""
        return f"its quality `{self.key}` is {_shown(metric.value)}, not {self.relation} {_shown(self.bound)}"


@dataclass(frozen=True, slots=True)
class XPathNeed:
    """The need that an XPath expression finds something in the event as XML, with its quality as in Listing 3."""

    expression: str

    def __post_init__(self) -> None:
        if len(self.expression) > MAX_XPATH:
            raise PolicyError(f"an XPath expression has at most {MAX_XPATH} characters, this {len(self.expression)}")
        try:
            compile_xpath(self.expression)
        except ContentError as error:
            raise PolicyError(str(error)) from None

    def __str__(self) -> str:
        return self.expression


Constraint = Need | XPathNeed


def why_not(constraints: Sequence[Constraint], quality: Quality, content: Content | None = None) -> tuple[str, ...]:
    """Return why an event does not satisfy all of the constraints; nothing if it does."""
    document: QualityDocument | None = None
    reasons: list[str] = []
    for constraint in constraints:
        if isinstance(constraint, XPathNeed):
            document = document or document_of(content, quality)
            reasons.append(document.why_not(constraint.expression))
        else:
            reasons.append(constraint.why_not(quality))
    return tuple(reason for reason in reasons if reason)


def parse_constraint(value: object, catalogue: Catalogue) -> Constraint:
    """Parse a constraint from text or from a mapping; raises `PolicyError`."""
    if isinstance(value, Mapping):
        return _of_mapping(value, catalogue)
    if not isinstance(value, str):
        raise PolicyError(f"`{value!r:.80}` is not a quality constraint such as `precision >= 40`")
    if value.lstrip().startswith("/"):
        return _of_xpath(value.strip())
    match = _TEXT.fullmatch(value) if len(value) <= _MAX_TEXT else None
    if match is None:
        raise PolicyError(f"`{value[:80]}` is not a quality constraint such as `precision >= 40`")
    name, relation, bound = match.groups()
    return _need(_key(name, catalogue), relation, bound, catalogue)


def parse_constraints(value: object, catalogue: Catalogue) -> tuple[Constraint, ...]:
    """Parse a list of constraints, or one; raises `PolicyError`."""
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if len(items) > MAX_CONSTRAINTS:
        raise PolicyError(f"{len(items)} quality constraints are too many; the maximum is {MAX_CONSTRAINTS}")
    return tuple(parse_constraint(item, catalogue) for item in items)


def _of_mapping(fields: Mapping[object, object], catalogue: Catalogue) -> Constraint:
    known = {*MetricKey._fields, *_WORDS, "level", "xpath"}
    for name in fields:
        if name not in known:
            raise PolicyError(f"unknown key `{name}` of a quality constraint (known: {', '.join(sorted(known))})")
    if "xpath" in fields:
        if len(fields) > 1:
            raise PolicyError("a quality constraint in XPath has no other keys")
        return _of_xpath(str(fields["xpath"]).strip())
    ids = [str(fields[name]) for name in MetricKey._fields if name in fields]
    if "indicator" not in fields or ("definition" in fields and "criterion" not in fields):
        raise PolicyError("a quality constraint names an `indicator`, and a `criterion` if it names a `definition`")
    bounds = [name for name in fields if name in _WORDS or name == "level"]
    if len(bounds) > 1:
        raise PolicyError("a quality constraint has one of `at_least`, `at_most`, `above`, `below`, `level`")
    key = _key("/".join(ids), catalogue)
    if not bounds:
        return Need(key)
    word = str(bounds[0])
    return _need(key, _WORDS.get(word, ">="), str(fields[word]), catalogue)


def _of_xpath(text: str) -> Constraint:
    # Listings break lines between words: a blank is as good as several.
    listed = _LISTING.fullmatch(" ".join(text.split()).replace("]/ qoc", "]/qoc"))
    if listed is None:
        return XPathNeed(text)
    indicator, criterion, definition, relation, bound = listed.groups()
    return Need(MetricKey(indicator, criterion, definition), relation, float(bound or 0))


def _key(name: str, catalogue: Catalogue) -> MetricKey:
    ids = [check_id(id) for id in name.split("/")]
    if len(ids) == 3:
        return MetricKey(*ids)
    if len(ids) == 1:
        return catalogue.key(ids[0])
    keys = [key for key in catalogue.keys_of(ids[0]) if key.criterion == ids[1]]
    if len(keys) != 1:
        raise PolicyError(f"`{name}` stands for {len(keys) or 'no'} metrics: name one, as in `10/10.1/10.1`")
    return keys[0]


def _need(key: MetricKey, relation: str | None, bound: str | None, catalogue: Catalogue) -> Need:
    if relation is None or bound is None:
        return Need(key)
    if re.fullmatch(_NUMBER, bound):
        return Need(key, relation, float(bound))
    definition = catalogue.definition(key)
    better = relation if definition.direction is Direction.HIGHER else _MIRRORED[relation]
    return Need(key, better, definition.level(bound))


# --- relations between constraints


class Range(NamedTuple):
    """The values that constraints leave to a metric."""

    low: float = -math.inf
    high: float = math.inf
    is_above: bool = False
    """True if `low` itself is not among them; so `is_below` of `high`."""
    is_below: bool = False

    @property
    def is_empty(self) -> bool:
        return self.low > self.high or (self.low == self.high and (self.is_above or self.is_below))

    def meet(self, other: "Range") -> "Range":
        """Return the values that are in both."""
        low, is_above = max((self.low, self.is_above), (other.low, other.is_above))
        high, is_at = min((self.high, not self.is_below), (other.high, not other.is_below))
        return Range(low, high, is_above, not is_at)

    def is_within(self, other: "Range") -> bool:
        """Return whether all its values are in the other."""
        return self.is_empty or self.meet(other) == self


def range_of(needs: Sequence[Constraint], key: MetricKey) -> Range | None:
    """Return the values that constraints leave to a metric; None if they do not ask for it."""
    ranges = [_range(need) for need in needs if isinstance(need, Need) and need.key == key]
    return reduce(Range.meet, ranges) if ranges else None


def implies(constraints: Sequence[Constraint], needed: Constraint) -> bool:
    """Return whether the given constraints together imply the needed one; an XPath need implies only itself.

    Constraints that nothing satisfies imply nothing.
    """
    if isinstance(needed, XPathNeed):
        return needed in constraints
    left = range_of(constraints, needed.key)
    return left is not None and not left.is_empty and left.is_within(_range(needed))


def excludes(constraints: Sequence[Constraint], needed: Constraint) -> bool:
    """Return whether no value satisfies both the given constraints and the needed one."""
    if isinstance(needed, XPathNeed):
        return False
    left = range_of(constraints, needed.key)
    return left is not None and left.meet(_range(needed)).is_empty


def _range(need: Need) -> Range:
    match need.relation:
        case ">=" | ">":
            return Range(low=need.bound, is_above=need.relation == ">")
        case "<=" | "<":
            return Range(high=need.bound, is_below=need.relation == "<")
        case _:
            return Range()


def _shown(number: float) -> str:
    """Return a number as texts and XPath have it: without an exponent."""
    return f"{Decimal(repr(number)):f}".removesuffix(".0")
