"""An event's verdicts at one node towards one link: what `explain` shows."""

from typing import NamedTuple

from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.verdict import Effect, Verdict


class Decision(NamedTuple):
    """What one node does with an event that came by one link, towards another."""

    node: str
    came_by: Link
    event: Event
    """As it came."""
    goes_by: Link | None
    """The link that it might leave by; None if it went no further than the stages before `match`."""
    verdicts: tuple[Verdict, ...]
    """One for each stage that had a say, in order."""
    outputs: tuple[Event, ...] = ()
    """What leaves by the link."""
    by_content: bool = False
    """Whether somebody at the end of the link asks for the topic by content: what becomes of it then tells of that."""

    @property
    def effect(self) -> Effect:
        """What the stages did, all in all."""
        if not self.outputs:
            return Effect.SUPPRESS
        if len(self.outputs) > 1:
            return Effect.INJECT
        output = self.outputs[0]
        is_same = (output.topic, output.payload) == (self.event.topic, self.event.payload)
        return Effect.PASS if is_same else Effect.REPLACE

    @property
    def reason(self) -> Verdict:
        """The verdict that tells most: the one that suppressed, else the last that changed something, else the last."""
        telling = [one for one in self.verdicts if one.effect is not Effect.PASS]
        return telling[-1] if telling else self.verdicts[-1]
