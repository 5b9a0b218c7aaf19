"""All elements: those that are built in, and those that installed packages offer."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from penstock.model.errors import PolicyError
from penstock.policy.statements.elements.attributes import ATTRIBUTES
from penstock.policy.statements.elements.conditions import CONDITIONS
from penstock.policy.statements.elements.effects import EFFECTS
from penstock.policy.statements.elements.element import Element
from penstock.policy.statements.elements.sealing import SEALING
from penstock.policy.statements.elements.tracing import TRACING

BUILT_IN = (*CONDITIONS, *ATTRIBUTES, *TRACING, *SEALING, *EFFECTS)

GROUP = "penstock.elements"
"""The group of entry points by which a package offers elements: each names an `Element`, or a list of them."""


@cache
def elements() -> Mapping[str, Element]:
    """Return every element by name; raises `PolicyError` if a package offers something else."""
    by_name = {element.name: element for element in BUILT_IN}
    for point in entry_points(group=GROUP):
        for element in _offered(point):
            if element.name in by_name:
                raise PolicyError(f"entry point `{point.value}`: there is an element `{element.name}` already")
            by_name[element.name] = element
    return MappingProxyType(by_name)


def _offered(point: EntryPoint) -> Iterator[Element]:
    try:
        offered = point.load()
    except Exception as error:  # a module of a package may raise anything when it is loaded
        raise PolicyError(f"entry point `{point.value}` of `{GROUP}` cannot be loaded: {error}") from error
    elements_offered = offered if isinstance(offered, list | tuple) else [offered]
    for element in elements_offered:
        if not isinstance(element, Element) or not element.name[:1].isupper() or not element.name.isidentifier():
            raise PolicyError(f"entry point `{point.value}` of `{GROUP}`: expected an element, with a capital name")
        yield element
