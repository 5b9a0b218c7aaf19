"""Actions that record the path of a publication (statements §5.1): beside the content, or as reserved attributes.

Beside the content means user properties, one for each node; `Attributes` as argument means the attributes of the same
names, lists with an entry for each node.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.language.statements.statement import Argument, Verb
from penstock.policy.statements.elements.attributes import publication
from penstock.policy.statements.elements.element import PUBLICATIONS, Element

if TYPE_CHECKING:
    from penstock.policy.statements.judging import Judgement

TRACE = "penstock-trace-"
"""The prefix of the names of these user properties."""
HOST, LOAD, TIME = f"{TRACE}host", f"{TRACE}load", f"{TRACE}time"
_BESIDE, _ATTRIBUTES = "Beside", "Attributes"
_PLACES = (_BESIDE, _ATTRIBUTES)


def _where(arguments: tuple[Argument, ...]) -> str:
    return "" if all(argument in _PLACES for argument in arguments) else f"expected `{_BESIDE}` or `{_ATTRIBUTES}`"


def _tracer(name: str, value: Callable[["Judgement"], object], about: str) -> Callable[..., None]:
    attribute = name.replace("-", "_")

    def run(on: "Judgement", where: str = _BESIDE) -> None:
        copy = publication(on)
        if where == _BESIDE:
            copy.beside.append((name, f"{on.here.node}={value(on)}"))
            return
        known = copy.get(attribute)
        before = known if isinstance(known, list) else []
        copy.put(attribute, [*before, {"broker": on.here.node, "value": value(on)}])

    run.__doc__ = f"Add {about}, `Beside` the content (the default) or in its `Attributes`."
    return run


_SPENT = "the seconds that the message has spent in the node"
TRACING = tuple(
    Element(name, _tracer(*arguments), None, PUBLICATIONS, frozenset({Verb.FORWARD}), 0, 1, _where, is_shared=True)
    for name, arguments in (
        ("AugmentBrokerHostInfo", (HOST, lambda on: on.here.host, "the name and the host of the node")),
        ("AugmentBrokerLoadIndex", (LOAD, lambda on: round(on.here.load, 4), "the load of the node")),
        ("AugmentProcessingTime", (TIME, lambda on: round(on.here.elapsed(), 6), _SPENT)),
    )
)
