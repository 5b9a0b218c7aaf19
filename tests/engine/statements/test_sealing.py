"""Content under the secret of a trust group: who is no member cannot read it, nor pass it off as something else."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.policy.trust.sealing import Sealer, SealError
from tests.engine.statements.test_entrances import rule
from tests.engine.statements.test_paper import got, join, play

MEMBERS = {"G": {"secret": {"env": "G"}, "nodes": ["n0", "n2"]}}
CODE = "the-code-is-4711"


def scene(seal: str, open_: str) -> Rehearsal:
    """n0 - n1 - n2: n1 is no member. What leaves n0 is sealed, and what comes to n2 opened before it is matched."""
    policies = {
        "seal": rule(f"@broker: Routing If {{Broker() == 'n0'}} Then {{{seal}}}"),
        "open": rule(f"@matching: Before If {{}} Then {{{open_}}}"),
    }
    apply = [
        {"policy": "seal", "to": "publication", "of": "p", "filter": "t/#"},
        {"policy": "open", "to": "advertisement", "at": "n2", "filter": "t/#"},
    ]
    rehearsal = play(3, statements={"policies": policies, "apply": apply}, trust_groups=MEMBERS)
    join(rehearsal, p="n0", middle="n1", s="n2", foe="n1", officer="n2")
    for who in ("middle", "s"):
        rehearsal.subscribe(who, "t/#")
    rehearsal.subscribe("officer", "$penstock/meta/PolicyException")
    rehearsal.run()
    return rehearsal


def publish(rehearsal: Rehearsal, who: str, topic: str, payload: bytes) -> None:
    rehearsal.publish(who, topic, payload)
    rehearsal.run()


def test_a_payload_is_sealed_between_members_and_read_by_nobody_else() -> None:
    rehearsal = scene("Encrypt(G)", "Decrypt(G)")
    payload = json.dumps({"code": CODE}).encode()
    publish(rehearsal, "p", "t/1", payload)
    assert [one.payload for one in rehearsal.deliveries("s")] == [payload]
    (seen,) = rehearsal.deliveries("middle")
    assert CODE.encode() not in seen.payload


def test_attributes_are_sealed_one_by_one() -> None:
    rehearsal = scene("Encrypt(G, code, pos.x)", "Decrypt(G, code, pos.x)")
    content = {"code": CODE, "pos": {"x": 1, "y": 2}, "open": True}
    publish(rehearsal, "p", "t/1", json.dumps(content).encode())
    assert got(rehearsal, "s") == [content]
    (seen,) = got(rehearsal, "middle")
    assert (seen["pos"]["y"], seen["open"]) == (2, True)
    assert seen["code"].startswith("sealed:")
    assert seen["pos"]["x"].startswith("sealed:")


@pytest.mark.parametrize("is_whole", [True, False], ids=["payload", "attribute"])
def test_what_was_sealed_for_another_topic_is_denied_with_a_reason(is_whole: bool) -> None:
    rehearsal = scene("Encrypt(G)", "Decrypt(G)") if is_whole else scene("Encrypt(G, code)", "Decrypt(G, code)")
    publish(rehearsal, "p", "t/1", json.dumps({"code": CODE}).encode())
    (seen,) = rehearsal.deliveries("middle")
    publish(rehearsal, "foe", "t/2", seen.payload)
    assert len(rehearsal.deliveries("s")) == 1
    assert any("was not sealed for this" in one.reason for one in rehearsal.notices)
    assert [one["class"] for one in got(rehearsal, "officer")] == ["PolicyException"]


def test_what_was_sealed_for_another_attribute_is_denied() -> None:
    rehearsal = scene("Encrypt(G, code, name)", "Decrypt(G, code, name)")
    publish(rehearsal, "p", "t/1", json.dumps({"code": CODE, "name": "a"}).encode())
    (seen,) = got(rehearsal, "middle")
    swapped = json.dumps({"code": seen["name"], "name": seen["code"]}).encode()
    publish(rehearsal, "foe", "t/1", swapped)
    assert len(rehearsal.deliveries("s")) == 1


def test_what_is_not_sealed_or_was_changed_is_denied() -> None:
    rehearsal = scene("Encrypt(G)", "Decrypt(G)")
    publish(rehearsal, "p", "t/1", b'{"code":1}')
    (seen,) = rehearsal.deliveries("middle")
    for payload in (b'{"code":2}', seen.payload[:-1] + bytes([seen.payload[-1] ^ 1]), seen.payload[:20]):
        publish(rehearsal, "foe", "t/1", payload)
    assert len(rehearsal.deliveries("s")) == 1


def test_a_node_that_is_no_member_can_open_nothing() -> None:
    policies = {"open": rule("@matching: Before If {} Then {Decrypt(G)}")}
    apply = [{"policy": "open", "to": "advertisement", "at": "n1", "filter": "t"}]
    members = {"G": {"secret": {"env": "G"}, "nodes": ["n0"]}}
    rehearsal = play(2, statements={"policies": policies, "apply": apply}, trust_groups=members)
    join(rehearsal, p="n0", s="n1")
    rehearsal.subscribe("s", "t")
    rehearsal.run()
    rehearsal.publish("p", "t", b"{}", policy=rule("@broker: Ingress @matching: Before If {} Then {Encrypt(G)}"))
    rehearsal.run()
    assert rehearsal.deliveries("s") == ()
    assert any("the secret of trust group `G` is not known here" in one.reason for one in rehearsal.notices)


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)


@given(st.binary(max_size=64), texts, texts, texts, texts, st.integers(0, 200), st.integers(0, 7))
def test_only_what_was_sealed_for_just_this_is_opened(
    plain: bytes, topic: str, path: str, other_topic: str, other_path: str, at: int, bit: int
) -> None:
    numbers = iter(range(1, 100))
    sealer = Sealer({"G": b"a secret that is long enough"}, {}, lambda: next(numbers).to_bytes(32, "little"))
    later = Sealer({"G": b"another secret, long enough"}, {"G": (b"a secret that is long enough",)})
    sealed = sealer.seal("G", topic, path, plain)
    assert sealer.open("G", topic, path, sealed) == later.open("G", topic, path, sealed) == plain
    assert sealer.seal("G", topic, path, plain) != sealed
    if (other_topic, other_path) != (topic, path):
        with pytest.raises(SealError):
            sealer.open("G", other_topic, other_path, sealed)
    changed = bytearray(sealed)
    changed[at % len(sealed)] ^= 1 << bit
    with pytest.raises(SealError):
        sealer.open("G", topic, path, bytes(changed))
    with pytest.raises(SealError):
        Sealer({"G": b"another secret, long enough"}).open("G", topic, path, sealed)
    assert base64.b64encode(plain) not in sealed or len(plain) < 8
