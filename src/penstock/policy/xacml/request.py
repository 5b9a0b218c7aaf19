"""Requests as attributes by category, and the context of one decision (7.3)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

from penstock.policy.xacml import names
from penstock.policy.xacml.limits import MAX_RESULTS, MAX_STEPS
from penstock.policy.xacml.status import Indeterminate, Unsupported, XacmlError, malformed, unprocessable
from penstock.policy.xacml.tree import LiteralValue
from penstock.policy.xacml.values.moments import DAY, Moment
from penstock.policy.xacml.values.values import Bag, Value, XPathExpression
from penstock.policy.xacml.xpath import Node, Prefixes, RequestContent, Work


class RequestAttribute(NamedTuple):
    id: str
    values: tuple[LiteralValue, ...]
    issuer: str | None = None
    include: bool = False
    """True if the result repeats it."""


class RequestCategory(NamedTuple):
    """The attributes of one category, and the document that may go with them."""

    name: str
    attributes: tuple[RequestAttribute, ...] = ()
    content: RequestContent | None = None
    id: str | None = None
    """Its name in references."""


@dataclass(frozen=True, slots=True)
class XacmlRequest:
    categories: tuple[RequestCategory, ...]
    returns_policies: bool = False
    is_combined: bool = False
    references: tuple[tuple[str, ...], ...] = ()
    """The single requests, each as the ids of its categories (multiple decision profile, 2.4)."""


Single = tuple[RequestCategory, ...]
"""A request for one decision: no category twice."""


def singles(request: XacmlRequest) -> list[Single]:
    """Split a request into requests for one decision; raises `XacmlError`."""
    if not request.references:
        return _repeated(request.categories)
    if len(request.references) > MAX_RESULTS:
        raise XacmlError(f"more than {MAX_RESULTS} requests in one")
    by_id = {category.id: category for category in request.categories if category.id is not None}
    single_requests: list[Single] = []
    for reference in request.references:
        for name in reference:
            if name not in by_id:
                raise XacmlError(f"no attributes have the id `{name}`")
        single_requests.extend(_repeated(tuple(by_id[name] for name in reference)))
        if len(single_requests) > MAX_RESULTS:
            raise XacmlError(f"more than {MAX_RESULTS} requests in one")
    return single_requests


def _repeated(categories: Iterable[RequestCategory]) -> list[Single]:
    """Return a request for each combination of repeated categories (multiple decision profile, 2.3)."""
    groups: dict[str, list[RequestCategory]] = {}
    for category in categories:
        for attribute in category.attributes:
            if attribute.id == names.SCOPE and any(literal.value != "Immediate" for literal in attribute.values):
                raise Unsupported(f"`{names.SCOPE}`: hierarchies of resources are not known here")
        groups.setdefault(category.name, []).extend(_parts(category))
    if prod(map(len, groups.values())) > MAX_RESULTS:
        raise XacmlError(f"more than {MAX_RESULTS} requests in one")
    return list(product(*groups.values()))


def _parts(category: RequestCategory) -> list[RequestCategory]:
    """Return a category for each node of the content that an attribute selects (multiple decision profile, 2.2)."""
    at = next(
        (at for at, attribute_ in enumerate(category.attributes) if attribute_.id in names.MULTIPLE_CONTENT_SELECTORS),
        None,
    )
    if at is None:
        return [category]
    attribute = category.attributes[at]
    value = attribute.values[0].value
    if category.content is None or len(attribute.values) != 1 or not isinstance(value, XPathExpression):
        raise XacmlError(f"`{attribute.id}` is one XPath expression over content")
    try:
        count = len(category.content.select(value.path, value.prefixes, Work()))
    except Indeterminate as error:
        raise XacmlError(error.status.message) from None
    if count > MAX_RESULTS:
        raise XacmlError(f"more than {MAX_RESULTS} requests in one")
    parts = []
    for number in range(1, count + 1):
        path = LiteralValue(names.XPATH_EXPRESSION, value._replace(path=f"({value.path})[{number}]"))
        selected = RequestAttribute(names.CONTENT_SELECTOR, (path,), attribute.issuer, attribute.include)
        attributes = (*category.attributes[:at], selected, *category.attributes[at + 1 :])
        parts.append(category._replace(attributes=attributes))
    return parts


Key = tuple[str, str, str]
"""Category, attribute and type."""


TIMES: dict[Key, Callable[[int], Bag]] = {
    (names.ENVIRONMENT, names.CURRENT_DATE_TIME, names.DATE_TIME): lambda now: (Moment(now, 0),),
    (names.ENVIRONMENT, names.CURRENT_DATE, names.DATE): lambda now: (Moment(now - now % DAY, 0),),
    (names.ENVIRONMENT, names.CURRENT_TIME, names.TIME): lambda now: (Moment(now % DAY, 0),),
}
"""The current time as attributes."""


class Context:
    """The attributes of one decision, and its cost so far."""

    __slots__ = ("_contents", "_now", "_steps", "bags", "cache", "issued", "work")

    def __init__(self, request: Single, now: int) -> None:
        """Make the context of a request; `now` is the time in nanoseconds since 1970, in UTC."""
        self.bags: dict[Key, Bag] = {}
        self.issued: dict[tuple[str, str, str, str], Bag] = {}
        self._contents: dict[str, RequestContent] = {}
        for category in request:
            if category.content is not None:
                self._contents[category.name] = category.content
            for attribute in category.attributes:
                self._add(category.name, attribute)
        self._now = now
        self.cache: dict[int, Value] = {}
        """The values of variables and referenced policies that are known already."""
        self.work = Work()
        self._steps = 0

    def _add(self, category: str, attribute: RequestAttribute) -> None:
        bags = self.bags
        for literal in attribute.values:
            key = (category, attribute.id, literal.type)
            bags[key] = (*bags.get(key, ()), literal.value)
            if attribute.issuer is not None:
                issued = (*key, attribute.issuer)
                self.issued[issued] = (*self.issued.get(issued, ()), literal.value)

    def bag(self, key: Key) -> Bag:
        """Return the values of an attribute, also of the current time if the request does not give it (10.2.5)."""
        values = self.bags.get(key, ())
        return values or (TIMES[key](self._now) if key in TIMES else ())

    def charge(self, steps: int) -> None:
        """Count steps of a decision; raises `Indeterminate` if they are too many."""
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise unprocessable(f"more than {MAX_STEPS} steps in one decision")

    def select(self, category: str, path: str, prefixes: Prefixes, context_id: str | None) -> list[Node]:
        """Evaluate XPath on the content of a category; raises `Indeterminate`."""
        content = self._contents.get(category)
        if content is None:
            return []
        context = None if context_id is None else self._context(content, category, context_id)
        return content.select(path, prefixes, self.work, context)

    def _context(self, content: RequestContent, category: str, context_id: str) -> Node:
        expressions = self.bags.get((category, context_id, names.XPATH_EXPRESSION), ())
        if len(expressions) != 1:
            raise malformed(f"`{context_id}` is not one XPath expression, but {len(expressions)}")
        nodes = content.select(expressions[0].path, expressions[0].prefixes, self.work)
        if len(nodes) != 1:
            raise malformed(f"`{expressions[0].path}` finds {len(nodes)} nodes, not one")
        return nodes[0]
