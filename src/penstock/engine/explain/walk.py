"""Why an event is delivered, changed or withheld: its decisions, node after node, towards each link.

It is the runner of the stages with an observer: the draft of an observed event has steps that tell what they find, and
whom the event might concern are all links, not only those that a plan would name. Nothing changes by it: monitors, what
is known of edge nodes, and what readers have had are copied before a question changes them. A monitor that is a Python
class and does more than its `step` returns does that here too.
"""

from collections import deque
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
    explainer = Explainer(nodes, now, frozenset(about))
    waiting = deque([explainer.begin(start)])
    with explainer.supposing():
        while waiting:
            passage = explainer.arrive(waiting.popleft())
            runner.run(passage)
            yield from passage.decisions
            waiting += explainer.take_forwarded()
