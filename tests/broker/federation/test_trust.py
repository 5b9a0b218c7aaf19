"""Trust on live nodes: ratings, vectors and evidence over real links, what a liar can tell, and what is seen of it."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.broker.http.admin import AdminServer
from penstock.broker.http.api import Api
from penstock.cli.main import main
from penstock.policy.tokens.token import sign
from tests.support.memory.tokens import KEYS
from tests.support.processes.admin import ask
from tests.support.processes.mosquitto import HOST
from tests.support.processes.trust_nodes import Live, Neighbour, live, secured, token_of, until

PAIR = [("b1", "b2")]
LINE = [("b1", "b2"), ("b2", "b3")]
RING = [*LINE, ("b1", "b3")]
UNIT = 1_000_000
NOT_AUTHORIZED, PROTOCOL_ERROR = 0x87, 0x82


def begin(of: str, by: str, rating: float) -> dict[str, Any]:
    """Evidence of 18 events that is rated so."""
    return {"of": of, "by": by, "good": 20 * rating - 1, "bad": 19 - 20 * rating}


def trust(*begins: tuple[str, str, float], **more: Any) -> dict[str, Any]:
    return {"sign": 0.6, "interval": 0.05, "rule": "path", "begin": [begin(*entry) for entry in begins], **more}


def rating(at: Live, node: str, of: str) -> float:
    ratings = at.node(node).trust.ratings
    assert ratings is not None
    return round(ratings.rating(of, at.now()), 6)


def least(at: Live, node: str) -> dict[str, float]:
    ratings = at.node(node).trust.ratings
    assert ratings is not None
    return {origin: round(path.rating, 6) for origin, path in sorted(ratings.least.items())}


# --- what a neighbour may tell of paths

VECTORS: dict[str, list[Any]] = {
    "that it is another": [1, True, [["b3", 0, 0]]],
    "a rating above one": [1, True, [["b3", 1, UNIT + 1]]],
    "a rating below nothing": [1, True, [["b3", 1, -1]]],
    "fewer edges than none": [1, True, [["b3", -1, 0]]],
    "a number that is no number": ["one", True, []],
    "no sums": [1, True],
}


@pytest.mark.parametrize("title", VECTORS)
async def test_a_vector_that_cannot_be_ends_the_connection(tmp_path: Path, title: str) -> None:
    async with live(secured(tmp_path, LINE, trust=trust()), "b2") as at:
        bad = await Neighbour.join(at, "b2")
        reason = await bad.is_cut_off(json.dumps({"vector": VECTORS[title]}).encode(), PROTOCOL_ERROR)
        assert "of node `b1`" in reason
        await until(lambda: "b1" not in least(at, "b2"), "paths over it are gone")


async def test_nodes_and_links_that_the_domain_does_not_know_are_not_believed(tmp_path: Path) -> None:
    async with live(secured(tmp_path, LINE, trust=trust()), "b2", "b3") as at:
        bad = await Neighbour.join(at, "b2")
        made_up = [["b1", 0, 0], ["b3", 1, 0], *([f"ghost{number}", 1, 0] for number in range(10))]
        await bad.says(vector=[1, True, made_up])
        await until(lambda: least(at, "b3").keys() == {"b1", "b2"}, "b3 hears of b1")
        assert least(at, "b2") == {"b1": 0.5, "b3": 0.5}


async def test_a_neighbour_is_believed_only_about_paths_through_it(tmp_path: Path) -> None:
    rated = trust(("b1", "b2", 0.2), ("b2", "b3", 0.9), ("b3", "b2", 0.9), accept=0.5)
    async with live(secured(tmp_path, RING, trust=rated), "b2", "b3") as at:
        bad = await Neighbour.join(at, "b2")
        await until(lambda: least(at, "b3") == {"b1": 0.55, "b2": 0.9}, "b3 knows the path over b2")
        # that everybody is trusted, the node itself included, and that it is told of its own neighbours
        praise = [["b1", 0, 0], ["b2", 1, UNIT], ["b3", 1, UNIT], ["b1", 1, UNIT]]
        await bad.says(vector=[1, True, praise])
        await until(lambda: least(at, "b2")["b3"] == 0.6, "each path through it has our own rating of it")
        assert least(at, "b2") == {"b1": 0.2, "b3": 0.6}, "the worse of 0.9 by itself and (1 + 0.2) / 2"
        blame = [["b1", 0, 0], ["b3", 1, 0]]
        await bad.says(vector=[2, False, blame])
        await until(lambda: least(at, "b2") == {"b1": 0.2, "b3": 0.1}, "blame counts, as of a path there is")
        await bad.abort()
        await until(lambda: least(at, "b2") == {"b3": 0.9}, "what it told is gone with it")
        await until(lambda: least(at, "b3") == {"b2": 0.9}, "there too")


async def test_a_vector_after_one_that_is_missing_is_asked_for_again_whole(tmp_path: Path) -> None:
    async with live(secured(tmp_path, RING, trust=trust()), "b2") as at:
        bad = await Neighbour.join(at, "b2")
        await bad.says(vector=[1, True, [["b1", 0, 0]]])
        await bad.says(vector=[5, False, [["b3", 1, 0]]])
        assert await bad.hears("again") is True
        assert least(at, "b2") == {"b1": 0.5}
        await bad.says(vector=[6, True, [["b1", 0, 0], ["b3", 1, 0]]])
        await until(lambda: least(at, "b2") == {"b1": 0.5, "b3": 0.25}, "the whole is taken")


async def test_there_is_no_counting_to_infinity(tmp_path: Path) -> None:
    """A liar tells of ever longer walks: those beyond the bound are not looked at, and nothing grows."""
    async with live(secured(tmp_path, RING, trust=trust()), "b2", "b3") as at:
        bad = await Neighbour.join(at, "b2")
        for edges in (1, 2, 3, 50, 10**6):
            await bad.says(vector=[edges, True, [["b1", 0, 0], ["b3", edges, 0]]])
        ratings = at.node("b2").trust.ratings
        assert ratings is not None
        await until(lambda: not ratings.is_stale, "worked out")
        assert least(at, "b2") == {"b1": 0.5, "b3": 0.5}
        assert ratings.table is not None
        assert max(walk.edges for walk in ratings.table.sums()) <= 2


# --- what is told of paths


async def test_where_the_rule_asks_for_no_paths_none_are_worked_out_or_told(tmp_path: Path) -> None:
    """Nor is what a neighbour tells of them looked at: its domain may be another for a moment."""
    for rule in ("strict", "introducer"):
        async with live(secured(tmp_path, LINE, trust=trust(rule=rule)), "b2", "b3") as at:
            other = await Neighbour.join(at, "b2")
            await other.says(vector=[1, True, [["b1", 0, 0], ["b1", 7, 5]]])
            at.later(2)
            await other.says(again=True)
            at.later(2)
            await other.wants("home/#")
            ann = await at.client("b2", "ann")
            await until(lambda: at.node("b2").subscriptions, "told")
            assert await ann.publish("home/a", b"1", 1) < 0x80
            ratings = at.node("b2").trust.ratings
            assert ratings is not None
            assert (ratings.table, ratings.least, ratings.is_changed) == (None, {}, False)
            assert not [told for told in other.told if "vector" in told or "again" in told]


async def test_what_does_not_fit_into_a_packet_is_told_in_several(tmp_path: Path) -> None:
    many = {f"{number:0>2}-{'n' * 60}"[:64]: 0.5 for number in range(60)}
    plain = secured(tmp_path, LINE, trust=trust(longest=3))
    for name in many:
        plain["nodes"][name] = {**plain["nodes"]["b3"]}
        plain["links"].append({"between": ["b3", name], "secret": "another"})
    async with live(plain, "b2") as at:
        narrow = await Neighbour.join(at, "b2", max_bytes=2000)
        wide = await Neighbour.join(at, "b2", "b3")
        sums = [["b3", 0, 0], *([name, 1, 500_000] for name in many)]
        await wide.says(vector=[1, True, sums])
        heard: dict[tuple[str, int], int] = {}
        messages = 0
        while len(heard) < len(many) + 2:
            number, is_whole, some = await narrow.hears("vector")
            messages += 1
            assert (number, is_whole) == (messages, messages == 1)
            assert len(json.dumps(some)) < 2000
            heard |= {(origin, edges): total for origin, edges, total in some}
        assert heard == {("b2", 0): 0, ("b3", 1): 500_000, **{(name, 2): UNIT for name in many}}
        assert messages > 3
        assert not at.logged("too long to tell")


async def test_what_fits_into_no_packet_is_logged(tmp_path: Path) -> None:
    async with live(secured(tmp_path, PAIR, trust=trust()), "b2") as at:
        await Neighbour.join(at, "b2", registers=False, max_bytes=400)
        await at.until_logged("too long to tell", "node=b2", "`gives` takes", "packets of at most", "nothing is told")


async def test_paths_are_known_again_after_a_reload(tmp_path: Path) -> None:
    plain = secured(tmp_path, CHAIN, trust=all_trusted(CHAIN))
    async with live(plain) as at:
        everybody = {"b1": 0.9, "b2": 0.9, "b3": 0.9}
        await until(lambda: least(at, "b4") == everybody, "vectors have come")
        for rule in ("path", "path", "strict", "path"):
            await at.reload({**plain, "trust": {**plain["trust"], "rule": rule}})
            await until(partial(has_paths, at, "b4", everybody if rule == "path" else {}), "they come again")


def has_paths(at: Live, node: str, expected: dict[str, float]) -> bool:
    return least(at, node) == expected


@pytest.mark.parametrize(("rule", "code"), [("introducer", 0), ("strict", NOT_AUTHORIZED)])
async def test_the_rule_of_the_paper_asks_only_who_has_signed(tmp_path: Path, rule: str, code: int) -> None:
    """b2, which b4 distrusts, passes on what b3 has signed, which b4 trusts."""
    pairs = [("b2", "b3"), ("b3", "b4"), ("b2", "b4")]
    rated = trust(("b2", "b4", 0.1), ("b3", "b4", 0.9), rule=rule)
    async with live(secured(tmp_path, pairs, trust=rated), "b4") as at:
        bob = await at.client("b4", "bob")
        await bob.subscribe("home/#", qos=1)
        sender = await Neighbour.join(at, "b4", "b2")
        signed, own = token_of("ann", "b3"), token_of("ben", "b2")
        for token in (signed, own):
            await sender.says(token=token.text.decode())
        answer, why = await sender.passes_on("home/a", b"signed", signed.digest)
        assert answer == code, why
        if code == 0:
            assert (await bob.receive("home/a")).payload == b"signed"
        assert (await sender.passes_on("home/a", b"its own", own.digest))[0] == NOT_AUTHORIZED
        await bob.expect_nothing()


# --- evidence


async def test_a_forged_token_is_evidence_and_its_sender_is_soon_not_trusted(tmp_path: Path) -> None:
    async with live(secured(tmp_path, PAIR, trust=trust(("b1", "b2", 0.65), rule="strict")), "b2") as at:
        bob = await at.client("b2", "bob")
        await bob.subscribe("home/#", qos=1)
        bad = await Neighbour.join(at, "b2")
        good = token_of("ann")
        await bad.says(token=good.text.decode())
        await bad.says(bind=["home/a", good.digest])
        for _ in range(2):
            await bad.publish("home/a", b"before")
            await bob.receive("home/a")
        # of one that has expired who passes it on is not to blame
        await bad.says(token=token_of("ann", seconds=-1, issued=1, not_before=1).text.decode())
        assert rating(at, "b2", "b1") == 0.65
        await bad.says(token="{}")
        assert rating(at, "b2", "b1") < 0.6
        await bad.publish("home/a", b"after")
        code, why = await bad.passes_on("home/a", b"after")
        assert (code, "no trusted neighbour has signed: `b1` is rated 0.565, below 0.6" in why) == (
            NOT_AUTHORIZED,
            True,
        )
        await bob.expect_nothing()


async def test_what_operators_see(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = {"b2": {"admin": f"{HOST}:0", "sys_interval": 1}, "b3": {"admin": f"{HOST}:0"}}
    rated = trust(("b1", "b2", 0.65), ("b3", "b2", 0.9), ("b2", "b3", 0.7), accept=0.5)
    everything = frozenset({"home/#", "$SYS/#"})
    async with live(secured(tmp_path, LINE, nodes=nodes, trust=rated), "b2", "b3") as at:
        api = Api(at.federation)
        admins = [AdminServer(at.federation.servers[name], api) for name in ("b2", "b3")]
        for admin in admins:
            await admin.start()
        bad = await Neighbour.join(at, "b2")
        await bad.says(token="{}")
        await until(lambda: least(at, "b3") == {"b1": 0.632609, "b2": 0.7}, "vectors have come")
        seen = json.loads(await fetch(f"{admins[0].address}/api/trust"))
        assert seen["tokens"]["refused"] == 1
        assert seen["tokens"]["required"] is True
        trust_seen = seen["trust"]
        assert (trust_seen["rule"], trust_seen["sign"], trust_seen["accept"], trust_seen["signers"]) == (
            "path",
            0.6,
            0.5,
            1,
        )
        b1 = trust_seen["neighbours"]["b1"]
        assert (b1["connected"], b1["good"], b1["bad"], b1["signs"]) == (True, 12, 9, False)
        assert b1["belief"] + b1["disbelief"] + b1["uncertainty"] == pytest.approx(1)
        assert b1["rating"] == pytest.approx(13 / 23)
        assert b1["evidence"] == {"token": {"good": 0, "bad": 1}}
        assert trust_seen["paths"]["b1"] == {"rating": pytest.approx(13 / 23, abs=1e-6), "edges": 1, "accepts": True}
        body = await fetch(f"{admins[0].address}/metrics")
        ratings = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(body)
            for sample in family.samples
        }
        here = ("node", "b2")
        assert ratings["penstock_trust_rating", ("neighbour", "b1"), here] == pytest.approx(13 / 23)
        about = (("good", "false"), ("neighbour", "b1"), here, ("source", "token"))
        assert ratings["penstock_trust_evidence_total", *about] == 1
        assert ratings["penstock_tokens_refused_total", here] == 1
        assert ratings["penstock_tokens_known", here] >= 1
        code = await in_thread(main, ["trust", "show", "--admin", *(admin.address for admin in admins)])
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert code == 0
        assert ["b2", "b1", "up", "12", "9", "0.522", "0.391", "0.087", "0.565", "no,", "below", "0.6"] in lines
        assert ["b3", "path", "b1", "0.633", "2", "yes,", "at", "least", "0.5"] in lines
        ann = await at.client("b2", "ann", token_of("ann", "b2", subscribe=everything))
        await ann.subscribe("$SYS/broker/penstock/#")
        at.later(2)
        expected = {
            "trust/b1/rating": b"0.565217",
            "trust/b1/good": b"12",
            "trust/b1/bad": b"9",
            "tokens/refused": b"1",
        }
        values: dict[str, bytes] = {}
        while not expected.items() <= values.items():
            message = await ann.receive()
            values[message.topic.removeprefix("$SYS/broker/penstock/")] = message.payload
        without = secured(tmp_path, LINE, nodes=nodes)
        await at.reload(without)
        at.later(2)
        while values["trust/b1/rating"]:  # what is not there any more is not retained
            message = await ann.receive()
            values[message.topic.removeprefix("$SYS/broker/penstock/")] = message.payload
        assert not any(topic.startswith("$SYS/broker/penstock/trust/") for topic in at.node("b2").retained)
        assert await in_thread(main, ["trust", "show", "--admin", admins[0].address]) == 1
        assert "node `b2` has no trust" in capsys.readouterr().err
        for admin in admins:
            await admin.stop()


async def fetch(address: str) -> str:
    def get() -> str:
        return ask(address)[2]

    return str(await in_thread(get))


async def in_thread(function: Any, *arguments: Any) -> Any:
    """Wait for a node that runs in this thread."""
    return await asyncio.to_thread(function, *arguments)


# --- how many signers

CHAIN = [("b1", "b2"), ("b2", "b3"), ("b3", "b4")]


def all_trusted(pairs: list[tuple[str, str]], **more: Any) -> dict[str, Any]:
    both = [(of, by, 0.9) for pair in pairs for of, by in (pair, pair[::-1])]
    return trust(*both, accept=0.5, **more)


@pytest.mark.parametrize("own", [{}, {"b4": {"trust": {"signers": 3}}}], ids=["two", "three at the last node"])
async def test_a_chain_delivers_to_every_node_when_several_signers_are_asked_for(
    tmp_path: Path, own: dict[str, Any]
) -> None:
    """Next to the publisher only its own node can have signed; further on, as many as `signers` says must have."""
    async with live(secured(tmp_path, CHAIN, trust=all_trusted(CHAIN, signers=2), nodes=own)) as at:
        for publisher in ("b1", "b4"):
            ann = await at.client(publisher, f"ann-{publisher}")
            for name in {"b1", "b2", "b3", "b4"} - {publisher}:
                bob = await at.client(name, f"bob-{publisher}")
                await bob.subscribe(f"home/{publisher}/{name}", qos=1)
                await at.settled(bob, ann, f"home/{publisher}/{name}")
        tokens = at.node("b4").trust.tokens
        assert tokens is not None
        signers = {token.nodes for token in tokens.known.values() if token.claims.subject.name == "ann-b1"}
        assert signers == {("b1", "b2", "b3", "b4")}


async def test_a_token_with_fewer_signers_than_its_way_has_nodes_is_refused(tmp_path: Path) -> None:
    async with live(secured(tmp_path, CHAIN, trust=all_trusted(CHAIN, signers=2)), "b3") as at:
        bob = await at.client("b3", "bob")
        await bob.subscribe("home/#", qos=1)
        bad = await Neighbour.join(at, "b3", "b2")
        await bad.says(vector=[1, True, [["b2", 0, 0], ["b1", 1, 900_000]]])
        alone = token_of("ann")
        both = sign(alone, "b2", KEYS["b2"])
        for token in (alone, both):
            await bad.says(token=token.text.decode())
        code, why = await bad.passes_on("home/a", b"stripped", alone.digest)
        assert (code, why.startswith("1 of 2 signers have trusted paths only")) == (NOT_AUTHORIZED, True), why
        assert (await bad.passes_on("home/a", b"whole", both.digest))[0] == 0
        assert (await bob.receive("home/a")).payload == b"whole"
        nearer = token_of("ben", "b2")
        await bad.says(token=nearer.text.decode())
        assert (await bad.passes_on("home/b", b"its own", nearer.digest))[0] == 0
        assert (await bob.receive("home/b")).payload == b"its own"
