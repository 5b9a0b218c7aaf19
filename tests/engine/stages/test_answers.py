"""The answer to a publisher tells it neither what others ask for nor what is suppressed in secret."""

import random

import pytest

from penstock.domain import Domain, LimitSettings, ensemble
from penstock.wire.packet import Puback
from penstock.wire.reason import Reason
from tests.support.memory.node import Client, MemoryNode
from tests.support.scenes.domains import nodes

TOPICS = ("a", "b", "c")
LINKS = {"types": ["open", "shut"], "deny": [{"from": "open", "to": "shut"}], "default": "open"}
CLIENTS = {"eve": {"node": "test"}, "far": {"node": "test", "type": "shut"}}
BLOCKED = "PolicyStatement { On(Forward, Publication) { If {x > 7} Then {BlockMessage()} } }"


def _joined(**more: object) -> MemoryNode:
    plain = {"nodes": nodes("test"), "clients": CLIENTS, "brokering": LINKS, **more}
    return MemoryNode(LimitSettings(), whole=ensemble(Domain.model_validate(plain)))


def _told(eve: Client, topic: str, x: int) -> int:
    eve.publish(topic, b'{"x": %d}' % x, qos=1)
    (answer,) = eve.take()
    assert isinstance(answer, Puback)
    return answer.reason


@pytest.mark.parametrize("seed", range(60))
def test_the_answer_hangs_on_the_topic_alone(seed: int) -> None:
    draw = random.Random(seed)
    joined = _joined()
    joined.node.admission.hides = hides = draw.random() < 0.3
    eve = joined.connect("eve")
    eve.take()
    heard = set()
    for number in range(draw.randrange(5)):
        topic, name = draw.choice(TOPICS), draw.choice((f"reader-{number}", "far"))
        where = (("where", f"x {draw.choice('<>')} {draw.randrange(10)}"),) if draw.random() < 0.8 else ()
        joined.connect(name).subscribe(topic, user_properties=where)
        heard |= {topic} if name != "far" else set()
    for topic in TOPICS:
        expected = Reason.SUCCESS if hides or topic in heard else Reason.NO_MATCHING_SUBSCRIBERS
        assert {_told(eve, topic, x) for x in range(11)} == {expected}


def test_what_a_policy_blocks_in_secret_is_answered_like_everything_else() -> None:
    apply = [{"policy": "p", "to": "publication", "of": "eve"}, {"policy": "q", "to": "publication", "of": "eve"}]
    early = BLOCKED.replace("{ If {x > 7}", "{ @matching: Before If {x < 2}")
    joined = _joined(statements={"policies": {"p": BLOCKED, "q": early}, "apply": apply})
    joined.connect("reader").subscribe("a", user_properties=(("where", "x > 3"),))
    eve = joined.connect("eve")
    eve.take()
    told = {(topic, x): _told(eve, topic, x) for topic in TOPICS for x in range(11)}
    assert {told["a", 1], told["b", 1]} == {Reason.NOT_AUTHORIZED}  # before matching: whoever asks for it
    joined.node.admission.hides = True
    assert {_told(eve, topic, x) for topic in TOPICS for x in range(11)} == {Reason.SUCCESS}
