"""In policy tests: a client rates a message that it got."""

import hashlib

import msgspec

from penstock.domain.schema.trust import RateStep
from penstock.engine.rehearsal.assembly import RehearsalError
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.trust.feedback import FEEDBACK, RatingPayload


def rate(play: Rehearsal, client: str, said: RateStep) -> None:
    """Tell the client's node; raises `RehearsalError` if it got no such message, or the rating does not count."""
    payload = said.payload.encode() if said.payload is not None else _last(play, client, said.topic)
    told = RatingPayload(said.topic, said.good, hashlib.sha256(payload).hexdigest())
    before = len(play.notices)
    play.publish(client, FEEDBACK, msgspec.json.encode(told), 1)
    play.run()
    refused = [one.reason for one in play.notices[before:] if one.kind in ("feedback denied", "advertise denied")]
    if refused:
        raise RehearsalError(f"`{client}` cannot rate `{said.topic}`: {refused[0]}")


def _last(play: Rehearsal, client: str, topic: str) -> bytes:
    got = [one.payload for one in play.deliveries(client) if one.topic == topic]
    if not got:
        raise RehearsalError(f"`{client}` has got nothing on `{topic}`, and cannot rate it")
    return got[-1]
