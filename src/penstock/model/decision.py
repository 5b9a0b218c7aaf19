"""The verdicts on an event at one node towards one link: what `explain` shows."""

from typing import NamedTuple

from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.verdict import Effect, Verdict


class Decision(NamedTuple):
    """The verdicts of one node on an event that came by one link, towards another link."""

    node: str
    came_by: Link
    event: Event
    """The event as it came."""
    goes_by: Link | None
    """The link that it might leave by; None if it did not pass the stages before `match`."""
    verdicts: tuple[Verdict, ...]
    """The verdicts of the stages that had an effect, in order."""
    outputs: tuple[Event, ...] = ()
    """The events that leave by the link."""
    by_content: bool = False
    """True if a subscriber at the link's end asks by content, so that the effect tells about the subscription."""

    @property
    def effect(self) -> Effect:
        """The effect of all stages together."""
        if not self.outputs:
            return Effect.SUPPRESS
        if len(self.outputs) > 1:
            return Effect.INJECT
        output = self.outputs[0]
        is_same = (output.topic, output.payload) == (self.event.topic, self.event.payload)
        return Effect.PASS if is_same else Effect.REPLACE

    @property
    def reason(self) -> Verdict:
        """The verdict that says most: the one that suppressed, else the last that changed something, else the last."""
        decisive = [verdict for verdict in self.verdicts if verdict.effect is not Effect.PASS]
        return decisive[-1] if decisive else self.verdicts[-1]
