"""In policy tests: a client rates a message that it got."""

import hashlib

import msgspec

from penstock.domain.schema.trust import RateStep
from penstock.engine.rehearsal.assembly import RehearsalError
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.trust.feedback import FEEDBACK, RatingPayload


def rate(play: Rehearsal, client: str, step: RateStep) -> None:
    """Tell the client's node; raises `RehearsalError` if it got no such message, or the rating does not count."""
    payload = step.payload.encode() if step.payload is not None else _last(play, client, step.topic)
    rating = RatingPayload(step.topic, step.good, hashlib.sha256(payload).hexdigest())
    before = len(play.notices)
    play.publish(client, FEEDBACK, msgspec.json.encode(rating), 1)
    play.run()
    refused = [
        notice.reason for notice in play.notices[before:] if notice.kind in ("feedback denied", "advertise denied")
    ]
    if refused:
        raise RehearsalError(f"`{client}` cannot rate `{step.topic}`: {refused[0]}")


def _last(play: Rehearsal, client: str, topic: str) -> bytes:
    got = [message.payload for message in play.deliveries(client) if message.topic == topic]
    if not got:
        raise RehearsalError(f"`{client}` has got nothing on `{topic}`, and cannot rate it")
    return got[-1]
