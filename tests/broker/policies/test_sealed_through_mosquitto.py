"""Two members with an uncontrolled broker between them, a real Mosquitto: it carries what it cannot read."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.federation import Federation
from penstock.domain import Domain
from penstock.domain.schema.trust import SecretError
from penstock.policy.trust import key_wrap
from tests.broker.policies.test_statements import Live, until
from tests.support.clients.library import take
from tests.support.clients.paho import Paho
from tests.support.processes.cable import Cable
from tests.support.processes.mosquitto import HOST, mosquitto
from tests.support.scenes.domains import nodes

CODE = "the-code-is-4711"
SEAL = "PolicyStatement { On(Forward, Publication) { @broker: Egress If {Receiver() == 'middle'} Then {Encrypt(G)} } }"
OPEN = "PolicyStatement { On(Forward, Publication) { @matching: Before @broker: Ingress If {} Then {Decrypt(G)} } }"


@contextlib.asynccontextmanager
async def through(
    broker: int, folder: Path, members: dict[str, bytes], readers: tuple[str, ...]
) -> AsyncIterator[tuple[Live, Cable]]:
    """n0 sends to the broker, n1 takes from it; each has the secret for its own private key."""
    publics = {name: key_wrap.public_key(key_wrap.read_private_key(key)) for name, key in members.items()}
    for name, key in members.items():
        (folder / f"{name}.key").write_bytes(key)
    (folder / "G.secret").write_bytes(key_wrap.seal_secret(b"a secret of G, long enough", map(publics.get, readers)))  # type: ignore[arg-type]
    async with Cable(broker) as cable:
        settings: dict[str, Any] = {
            "nodes": nodes("n0", "n1"),
            "clients": {"p": {"node": "n0"}, "s": {"node": "n1"}},
            "foreign": {"middle": {"address": f"{HOST}:{cable.port}", "in": "t/#", "out": "t/#"}},
            "links": [{"between": ["n0", "middle"]}, {"between": ["n1", "middle"]}],
            "trust_groups": {
                "G": {
                    "secret": {"file": str(folder / "G.secret"), "private_key": str(folder / "{node}.key")},
                    "nodes": ["n0", "n1"],
                }
            },
            "statements": {
                "policies": {"seal": SEAL, "open": OPEN},
                "apply": [
                    {"policy": "seal", "to": "publication", "of": "p"},
                    {"policy": "open", "to": "advertisement", "at": "n1", "filter": "t/#"},
                ],
            },
        }
        federation = Federation(Domain.model_validate(settings), ("n0", "n1"), None)
        await federation.start()
        try:
            yield Live(federation), cable
        finally:
            await federation.stop()


async def test_an_uncontrolled_broker_carries_what_it_cannot_read(tmp_path: Path) -> None:
    keys = {name: key_wrap.make_private_key() for name in ("n0", "n1")}
    with mosquitto() as broker:
        async with through(broker.port, tmp_path, keys, ("n0", "n1")) as (live, cable):
            async with live.client("n0", "p") as p, live.client("n1", "s") as s:
                wanted = await s.subscribe("t/#")
                await until(lambda: broker.subscribed >= 2, "both nodes have subscribed there")
                await p.publish("t/1", {"code": CODE})
                assert [event.attributes for event in await take(wanted)] == [{"code": CODE}]
                with Paho("stranger").connects(broker.port) as stranger:
                    stranger.publish("t/1", json.dumps({"code": "false"}).encode(), qos=1)
                await until(lambda: live.node("n1").stats.denied, "what is not sealed is denied")
                await p.publish("t/2", {"code": CODE})
                assert [event.topic for event in await take(wanted)] == ["t/2"]
            assert b"t/1" in cable.carried
            assert CODE.encode() not in cable.carried


async def test_who_is_taken_out_cannot_start_with_the_next_secret(tmp_path: Path) -> None:
    keys = {name: key_wrap.make_private_key() for name in ("n0", "n1")}
    with mosquitto() as broker, pytest.raises(SecretError, match="is no member, or no longer"):
        async with through(broker.port, tmp_path, keys, ("n0",)):
            pass
