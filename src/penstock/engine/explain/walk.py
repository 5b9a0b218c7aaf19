"""The walk behind `penstock explain`: an event's decisions, node after node, towards each link.

It runs the stages with an observer: the draft of an observed event has steps that report their findings, and all links
are candidates, not only those that a plan would name. A walk changes nothing: monitors, edge nodes and readers' states
are copied first. Only a Python monitor whose `step` has side effects has them here too.
"""

from collections.abc import Collection, Generator, Mapping

from penstock.engine.explain.arrival import Arrival
from penstock.engine.explain.observer import Explainer
from penstock.engine.node import Node
from penstock.engine.stages import runner
from penstock.model.decision import Decision


def explain(nodes: Mapping[str, Node], start: Arrival, now: float, about: Collection[str] = ()) -> tuple[Decision, ...]:
    """Return every decision on the way of an event, as far as it leads through `nodes`.

    `about` are clients to decide about even where they have no subscription that matches.
    """
    return tuple(explaining(nodes, start, now, about))


def explaining(
    nodes: Mapping[str, Node], start: Arrival, now: float, about: Collection[str] = ()
) -> Generator[Decision, None, None]:
    """Return the same decisions one after the other, for a caller that may not want all of them and closes it then."""
    explainer = Explainer(nodes, start, now, about)
    with explainer.supposed.for_a_while():
        while explainer.arrivals:
            passage = explainer.arrive()
            runner.run(passage)
            yield from passage.decisions
