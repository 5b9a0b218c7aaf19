"""A page with nothing but a map of a large ensemble that is made up: `python -m tests.support.scenes.large_map`."""

import asyncio
import os
import random
import socket
import tempfile
from pathlib import Path

from penstock.broker.http.answers.status import Counters, NodeState
from penstock.engine.status import ClientPortrait, LinkPortrait, NodePortrait

NODES, CLIENTS = 200, 2000
TYPES = ("internet", "door", "sensitive", "plant", "office", "vendor", "lab", "guest", "other")


def large(beat: int, nodes: int = NODES, clients: int = CLIENTS) -> dict[str, NodeState]:
    """What the nodes of a tree with some cycles tell: more at each beat, and one link is down."""
    chance = random.Random(7)
    pairs = {(at, (at - 1) // 4) for at in range(1, nodes)}
    pairs |= {(at, chance.randrange(at)) for at in range(20, nodes, 10)}
    links: dict[int, list[LinkPortrait]] = {at: [] for at in range(nodes)}
    for one, other in sorted(pairs):
        for here, there in ((one, other), (other, one)):
            kind, is_up = TYPES[one % len(TYPES)], (one, other) != (7, 1)
            packets = beat * (here + there)
            links[here].append(LinkPortrait(f"n{there}", False, is_up, kind, kind, packets, packets, here % 3, 0))
    held: dict[int, list[ClientPortrait]] = {at: [] for at in range(nodes)}
    for at in range(clients):
        name, kind = f"c{at}", TYPES[at % len(TYPES)]
        client = ClientPortrait(name, name, None, at % 9 != 0, kind, kind, beat * at, beat, at % 50 == 0, 0, 3)
        held[at % nodes].append(client)
    return {f"n{at}": _state(f"n{at}", links[at], held[at], beat) for at in range(nodes)}


def _state(name: str, links: list[LinkPortrait], clients: list[ClientPortrait], beat: int) -> NodeState:
    counters = Counters(beat * 100, beat * 100, 3, 0, 0, 0, 0, 0)
    portrait = NodePortrait(name, tuple(links), tuple(clients), (), 0, ())
    return NodeState(("mqtt://127.0.0.1:1883",), 0.0, "", len(clients), counters, None, portrait)


def main() -> None:
    """Serve it, and print where."""
    os.environ["NICEGUI_STORAGE_PATH"] = tempfile.mkdtemp(prefix="penstock-drawn-")
    import uvicorn
    from fastapi import FastAPI
    from nicegui import app, ui

    import penstock.console
    from penstock.console.map.element import Map
    from penstock.console.map.rates import Rates
    from penstock.console.map.scene import live, scene

    app.add_static_files("/static", Path(penstock.console.__file__).parent / "static")

    @ui.page("/")
    async def page(light: bool = False) -> None:
        for style in ("console", "map"):
            ui.add_head_html(f'<link rel="stylesheet" href="/static/{style}.css">')
        rates, beat = Rates(), [1]
        states = large(1)
        rates.record(states, dict.fromkeys(states, 1.0))
        found = scene(None, {}, states, ("c5",) if light else ())
        picture = Map(found, live(found, states, rates))
        if light:
            picture.light([("c5", "n5"), ("n5", "n1"), ("n1", "n0")])

        def tell() -> None:
            beat[0] += 1
            states = large(beat[0])
            rates.record(states, dict.fromkeys(states, float(beat[0])))
            picture.update_live(live(found, states, rates))

        ui.timer(1.0, tell, immediate=False)

    inner = FastAPI()
    ui.run_with(inner, tailwind=False, show_welcome_message=False)
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"ready http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(inner, log_config=None, access_log=False, ws="websockets-sansio")
    asyncio.run(uvicorn.Server(config).serve([listening]))


if __name__ == "__main__":
    main()
