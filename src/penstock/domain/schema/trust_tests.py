"""Steps of policy tests about tokens and trust: a client shows another token or rates an event; expected ratings."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from penstock.domain.schema.base import Name, Settings, TopicName
from penstock.domain.schema.tokens import Filters
from penstock.domain.units import mistake

Share = Annotated[float, Field(ge=0, le=1)]


class ShownToken(Settings):
    """A token of the client's node that the client shows in place of the granted one."""

    publish: Filters = Field(default=(), description="filters of the topics that it lets the client publish to")
    subscribe: Filters = Field(default=(), description="filters that cover what it lets the client subscribe to")


class RateStep(Settings):
    """A client's rating of a message that it got."""

    topic: TopicName = Field(description="topic of the message")
    payload: str | None = Field(default=None, description="what it said; unset: as the last one on the topic")
    good: bool = Field(default=False, description="whether it is good")


class ExpectedRating(Settings):
    """An expected rating of a neighbour."""

    of: Name = Field(description="the neighbour")
    by: Name = Field(description="the node that rates it")
    at_least: Share | None = Field(default=None, description="the rating is not lower; unset: as low as it likes")
    at_most: Share | None = Field(default=None, description="the rating is not higher; unset: as high as it likes")

    @model_validator(mode="after")
    def _says_something(self) -> ExpectedRating:
        if self.at_least is None and self.at_most is None:
            raise mistake("one of `at_least` and `at_most`, or both")
        return self

    def is_met(self, rating: float) -> bool:
        return (self.at_least or 0.0) <= round(rating, 6) <= (1.0 if self.at_most is None else self.at_most)

    def __str__(self) -> str:
        bounds = (("at least", self.at_least), ("at most", self.at_most))
        return f"rated {' and '.join(f'{word} {limit:g}' for word, limit in bounds if limit is not None)}"
