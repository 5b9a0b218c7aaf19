"""The context model (contracts §4) at live nodes: observables of the domain, observations in JSON and XML."""

from typing import Any

import pytest

from penstock.client import Refused
from tests.support.clients.library import client, take
from tests.support.processes.federation import federated

URI = "paris://henri_martin_avenue./sensors/45/"
DOMAIN: dict[str, Any] = {
    "nodes": {"a": {"store": "memory"}, "b": {"store": "memory"}},
    "links": [{"between": ["b", "a"]}],
    "context": {
        "entities": {"henri-martin": {"uri": URI}, "bob": {"uri": "paris://bob/"}},
        "observables": {
            "pollution": {"uri": "#pollution", "entities": ["henri-martin"]},
            "noise": {"uri": "#noise", "entities": ["henri-martin"]},
        },
    },
    "clients": {
        "sensor": {"node": "a", "advertises": [{"name": "air", "filter": "air/+", "observable": "pollution"}]},
        "near": {"node": "a"},
        "app": {"node": "b"},
    },
}
LISTING_1 = f"""xpath("//observable[uri='#pollution' and entity[uri='{URI}']]") != []"""
CONDITION = f'observation.observable.uri == "#pollution" && observation.observable.entity.uri == "{URI}"'


def in_json(value: int, observable: str = "#pollution", entity: str = URI) -> dict[str, Any]:
    about = {"uri": observable, "entity": {"uri": entity}}
    return {"observation": {"observable": about, "date": "2026-11-16T08:00:00Z", "value": value}}


def in_xml(value: int, observable: str = "#pollution", entity: str = URI) -> bytes:
    about = f"<observable><uri>{observable}</uri><entity><uri>{entity}</uri></entity></observable>"
    return f"<observation>{about}<date>2026-11-16T08:00:00Z</date><value>{value}</value></observation>".encode()


@pytest.mark.parametrize(
    ("form", "content_type"), [(in_json, "application/json"), (in_xml, "application/xml")], ids=["json", "xml"]
)
async def test_a_producer_may_publish_only_observations_of_its_observable(form: Any, content_type: str) -> None:
    with federated(DOMAIN) as nodes:
        async with client(nodes.ports["a"], "sensor") as sensor, client(nodes.ports["a"], "near") as near:
            seen = await near.subscribe("air/#")
            for about in (("#noise", URI), ("#pollution", "paris://bob/"), ("#unknown", URI)):
                with pytest.raises(Refused):
                    await sensor.publish("air/45", form(1, *about), content_type=content_type)
            with pytest.raises(Refused):
                await sensor.publish("air/45", b"12", content_type=content_type)
            await sensor.publish("air/45", form(72), content_type=content_type)
            (event,) = await take(seen)
            assert b"72" in event.payload
            assert not seen.waiting


@pytest.mark.parametrize(
    ("form", "content_type", "where"),
    [
        (in_json, "application/json", CONDITION),
        (in_xml, "application/xml", CONDITION),
        (in_xml, "application/xml", LISTING_1),
    ],
    ids=["json", "xml", "xml by listing 1"],
)
async def test_a_consumer_at_another_node_asks_for_an_observable_of_an_entity(
    form: Any, content_type: str, where: str
) -> None:
    domain = {**DOMAIN, "clients": {"sensor": {"node": "a"}, "app": {"node": "b"}}}
    with federated(domain) as nodes:
        async with client(nodes.ports["a"], "sensor") as sensor, client(nodes.ports["b"], "app") as app:
            shown = await app.subscribe("air/+", where)
            while not shown.waiting:
                await sensor.publish("air/45", form(10, "#noise"), content_type=content_type)
                await sensor.publish("air/45", form(11, "#pollution", "paris://bob/"), content_type=content_type)
                await sensor.publish("air/45", form(72), content_type=content_type)
            for event in await take(shown, shown.waiting):
                assert b"72" in event.payload
