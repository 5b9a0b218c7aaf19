"""Two nodes without sockets, the producer's and another, and the processor time that a publication takes at each."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from benchmarks.xacml import policy
from penstock.domain import Domain, ensemble
from penstock.engine.connections.inbound import Inbound
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.policy.contracts.privacy import PrivacyPolicy
from penstock.policy.xacml import Pdp
from penstock.wire.codec import encode
from penstock.wire.packet import Publish

_BEFORE = 2
"""Rounds that do not count."""
TOPIC = "paris/pollution/45"
URI = "paris://henri_martin_avenue./sensors/45/"


class Cost(NamedTuple):
    """Microseconds of a publication, at the producer's node and at the other."""

    prod: float
    other: float


def notification(metadata: int = 0, is_xml: bool = True) -> bytes:
    """A notification with so many quality metadata, as Listings 1 and 3 look for them."""
    if not is_xml:
        values = ",".join(
            f'{{"indicator":"{at}","criterion":"{at}.1","definition":"{at}.1","value":50}}' for at in range(metadata)
        )
        return f'{{"uri":"#pollution","entity":"{URI}","value":12,"qoc":[{values}]}}'.encode()
    quality = "".join(
        f'<qocindicator id="{at}"><qocriterion id="{at}.1"><qocmetricdefinition id="{at}.1"/></qocriterion>'
        f'<qocmetricvalue value="50"/></qocindicator>'
        for at in range(metadata)
    )
    return (
        f"<observation><observable><uri>#pollution</uri><entity><uri>{URI}</uri></entity></observable>"
        f"<value>12</value>{quality}</observation>"
    ).encode()


def listing_1(sensor: str = "45") -> str:
    """The condition of Listing 1, on one sensor."""
    uri = URI.replace("45", sensor)
    return f"""xpath("//observable[uri='#pollution' and entity[uri='{uri}']]") != []"""


def searching(sensor: str = "45") -> str:
    """The same in a form that no index helps with, as each part of it may stand anywhere."""
    return (
        f"""xpath("//observable[contains(uri, '#pollution') and contains(entity/uri, '/sensors/{sensor}/')]") != []"""
    )


def domain(consumers: int, **more: Any) -> Domain:
    """A producer at one node, consumers at the other."""
    names = [f"consumer{at}" for at in range(consumers)]
    return Domain.model_validate(
        {
            "nodes": {"prod": {"listen": "127.0.0.1:1"}, "other": {"listen": "127.0.0.1:2"}},
            "links": [{"between": ["prod", "other"]}],
            "clients": {
                "producer": {"node": "prod"},
                **{name: {"node": "other", "groups": "INCOME"} for name in names},
            },
            **more,
        }
    )


def played(
    domain: Domain, wheres: Sequence[str], policies: int = 0, purposes: int = 1, subscribers: Sequence[str] = ()
) -> Rehearsal:
    """The domain on two nodes, with a subscription for each condition, and so many policies of which the last fits."""
    whole = ensemble(domain)
    if policies:
        pdp = Pdp([policy(f"resource-{at}", purposes) for at in range(policies)], algorithm="permit-overrides")
        resource = (("id", f"resource-{policies - 1}"),)
        ids = {"resource.id": "resource-id", "action.id": "action-id"}
        attributes = {name: (*values, *_purposes(purposes)) for name, values in whole.contracts.known.items()}  # type: ignore[union-attr]
        private = (PrivacyPolicy("listing 2", "paris/#", pdp, resource, ids),)
        contracts = replace(whole.contracts, privacy=private, known=attributes)  # type: ignore[type-var]
        whole = replace(whole, contracts=contracts)
    rehearsal = Rehearsal(domain, whole)
    rehearsal.connect("producer")
    names = subscribers or [name for name in domain.clients if name != "producer"]
    for at, where in enumerate(wheres):
        name = names[at % len(names)]
        if not rehearsal.is_connected(name):
            rehearsal.connect(name)
        rehearsal.subscribe(name, "paris/#", where=where, name=str(at))
    rehearsal.run()
    return rehearsal


def _purposes(count: int) -> tuple[tuple[str, frozenset[str]], ...]:
    return tuple((f"purpose-{at}", frozenset({"health"})) for at in range(count))


def measure(rehearsal: Rehearsal, payload: bytes, rounds: int, publications: int) -> Cost:
    """The least of the rounds, after some that do not count; checks that all that is published arrives.

    Each publication is of another time, so that nothing of one can be taken for another. The least, as other work on
    the machine only makes it longer.
    """
    near = rehearsal.assembly.connections["prod", "producer"].node_end
    link = rehearsal.assembly.connections["prod", "other"]
    far = link.other
    assert isinstance(far, Inbound)
    packet = encode(Publish(TOPIC, payload), 5)
    consumer = next(name for name in rehearsal.entities if name.startswith("consumer"))
    before = len(rehearsal.deliveries(consumer))
    costs: list[Cost] = []
    for turn in range(rounds + _BEFORE):
        gc.disable()  # what others have left is not to be paid here
        began = time.process_time()
        for _ in range(publications):
            rehearsal.assembly.now += 0.001
            near.receive(packet)
        prod = time.process_time() - began
        rehearsal.assembly.turn(rehearsal.nodes["prod"])
        sent = [data for _, data in link.wires[0]._packets]
        link.wires[0]._packets.clear()
        began = time.process_time()
        for data in sent:
            rehearsal.assembly.now += 0.001
            far.receive(data)
        other = time.process_time() - began
        gc.enable()
        rehearsal.assembly.turn(rehearsal.nodes["other"])
        rehearsal.run()
        if turn >= _BEFORE:
            costs.append(Cost(prod / publications * 1e6, other / publications * 1e6))
    if len(rehearsal.deliveries(consumer)) - before < (rounds + _BEFORE) * publications:
        raise RuntimeError(f"`{consumer}` has not got all that was published")
    return Cost(min(cost.prod for cost in costs), min(cost.other for cost in costs))
