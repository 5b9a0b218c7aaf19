"""The client library with authorisation tokens: shown, renewed before they end, got anew when they no longer count."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from penstock.client import Client, Refused, TokenRequestError, request_token
from penstock.client.tokens import renewal_of
from penstock.policy.tokens.token import parse_token
from tests.support.clients.library import client, payloads, take
from tests.support.processes.commands import until
from tests.support.processes.federation import TOGETHER, Nodes, together
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import LiveNode
from tests.support.processes.token_node import USERS, federation_of_two, issued, token_node

SECRET = b"the-secret-of-inner-4711"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    secret = tmp_path_factory.mktemp("secret") / "inner"
    secret.write_bytes(SECRET)
    groups = {"inner": {"secret": {"file": str(secret)}, "nodes": ["main"]}}
    with token_node(trust_groups=groups) as live:
        yield live


class Source:
    """Gives out new tokens of node `main`, and remembers them."""

    def __init__(self, user: str, seconds: int = 3600) -> None:
        self.given: list[str] = []
        self._user, self._seconds = user, seconds

    def __call__(self) -> str:
        self.given.append(issued("main", self._user, self._seconds))
        return self.given[-1]

    async def until(self, count: int) -> None:
        """Wait until so many have been given out."""
        await asyncio.to_thread(until, lambda: len(self.given) >= count, f"{count} tokens")


def connections(node: LiveNode, client_id: str) -> int:
    return sum(f"client={client_id} " in line and " connected " in line for line in node.log.splitlines())


def url(node: LiveNode) -> str:
    return f"http://{HOST}:{node.ports('http')[0]}"


async def test_a_token_from_the_endpoint_lets_a_client_do_what_it_says(issuer: LiveNode) -> None:
    get = partial(request_token, url(issuer), "pump", USERS["pump"], "publish:home/kitchen/# subscribe:home/#")
    async with client(issuer.port, token=get) as pump:
        home = await pump.subscribe("home/#")
        await pump.publish("home/kitchen/lamp", b"on")
        assert await payloads(home) == [b"on"]
        with pytest.raises(Refused, match="its token has no filter to publish"):
            await pump.publish("home/hall", b"on")
        with pytest.raises(Refused, match="its token has no filter that covers it"):
            await pump.subscribe("#")


@pytest.mark.parametrize("scope", ["publish:home/ü", "publish:#", "nonsense"])
async def test_the_endpoint_says_no(issuer: LiveNode, scope: str) -> None:
    with pytest.raises(TokenRequestError) as refused:
        async with client(issuer.port, token=partial(request_token, url(issuer), "pump", USERS["pump"], scope)):
            pass
    assert refused.value.error == "invalid_scope"


async def test_a_token_that_does_not_count(issuer: LiveNode) -> None:
    with pytest.raises(Refused, match="token: expired"):
        async with client(issuer.port, token=issued("main", "pump", 1, issued=1, not_before=1, expiry=2)):
            pass
    with pytest.raises(Refused, match="unknown key"):
        async with client(issuer.port, token=issued("b1", "pump")):
            pass
    with pytest.raises(Refused, match="wrong holder"):
        async with client(issuer.port, username="ann", token=issued("main", "pump")):
            pass


def test_a_token_or_a_password() -> None:
    with pytest.raises(ValueError, match="a client shows a token, or has a password"):
        Client(password="x", token="{}")


async def test_a_new_token_is_shown_on_the_same_connection_before_the_old_one_ends(issuer: LiveNode) -> None:
    source = Source("renewing", 3)
    async with client(issuer.port, "renewing", token=source) as renewing:
        home = await renewing.subscribe("home/renewing")
        end = time.time() + 3.5  # the first has ended by then
        while time.time() < end:
            await renewing.publish("home/renewing", b"x")
            assert await payloads(home) == [b"x"]
            await asyncio.sleep(0.2)
    assert len(source.given) >= 2
    assert connections(issuer, "renewing") == 1


async def test_coroutine_functions_get_tokens_too(issuer: LiveNode) -> None:
    source = Source("coro", 2)

    async def get() -> bytes:
        await asyncio.sleep(0)
        return source().encode()

    async with client(issuer.port, "coro", token=get) as client_:
        await client_.publish("home/coro", b"x")
        await source.until(3)
        await client_.publish("home/coro", b"x")


async def test_beside_proofs_of_groups_the_token_is_the_password_and_a_new_one_takes_a_new_connection(
    issuer: LiveNode,
) -> None:
    source = Source("proving", 2)
    async with (
        client(issuer.port, "proving", token=source, groups={"inner": SECRET}) as proving,
        client(issuer.port, "other", token=Source("other")) as other,
    ):
        assert proving.groups == {"inner"}
        home = await proving.subscribe("home/proving")
        async with asyncio.timeout(20):
            while connections(issuer, "proving") < 2:
                await other.publish("home/proving", b"x")
                assert await payloads(home) == [b"x"]  # none is lost in between
        assert proving.groups == {"inner"}
    assert len(source.given) >= 2


@contextlib.contextmanager
def revoking(node: LiveNode) -> Iterator[Path]:
    settings = yaml.safe_load((node.folder / "domain.yaml").read_text())
    file = Path(settings["tokens"]["revoked"])
    try:
        yield file
    finally:
        file.write_text("")
        node.reload()


async def test_after_a_token_was_revoked_another_is_got_once(issuer: LiveNode) -> None:
    source = Source("revoked")
    with revoking(issuer) as file:
        async with client(issuer.port, "revoked", token=source) as client_:
            home = await client_.subscribe("home/revoked")
            file.write_text(f"token {parse_token(source.given[0].encode()).claims.id}\n")
            await asyncio.to_thread(issuer.reload)
            async with asyncio.timeout(20):
                await client_.publish("home/revoked", b"again")
            assert await payloads(home) == [b"again"]
    assert len(source.given) == 2


async def test_it_is_over_if_the_other_token_does_not_count_either(issuer: LiveNode) -> None:
    token = issued("main", "stubborn")
    with revoking(issuer) as file:
        async with client(issuer.port, "stubborn", token=lambda: token) as client_:
            home = await client_.subscribe("home/stubborn")
            file.write_text(f"token {parse_token(token.encode()).claims.id}\n")
            await asyncio.to_thread(issuer.reload)
            with pytest.raises(Refused, match="revoked"):
                await take(home)


async def test_it_is_over_when_the_only_token_has_ended(issuer: LiveNode) -> None:
    async with client(issuer.port, "static", token=issued("main", "static", 2)) as client_:
        home = await client_.subscribe("home/static")
        with pytest.raises(Refused, match="token: expired"):
            await take(home)


async def test_a_source_that_fails_is_asked_again(issuer: LiveNode, caplog: pytest.LogCaptureFixture) -> None:
    source, asked = Source("failing", 4), 0

    def get() -> str:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise OSError("the endpoint is away")
        return source()

    async with client(issuer.port, "failing", token=get) as client_:
        await source.until(2)
        await client_.publish("home/failing", b"x")
    assert "no new token: the endpoint is away" in caplog.text


@pytest.mark.parametrize(
    "text", ["", "x", "{}", "[]", '{"payload": 1}', '{"payload": "e30"}', '{"payload": "!"}', "[" * 100_000]
)
def test_a_token_that_cannot_be_read_is_not_renewed_by_time(text: str) -> None:
    assert renewal_of(text) == float("inf")


# --- ratings


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with together(federation_of_two(tmp_path_factory.mktemp("keys")), links=1) as live:
        yield live


async def test_events_of_a_neighbour_are_rated_once(nodes: Nodes) -> None:
    async with (
        client(nodes.ports["b1"], token=issued("b1", "ann")) as ann,
        client(nodes.ports["b2"], token=issued("b2", "bob")) as bob,
    ):
        home = await bob.subscribe("home/#")
        number = 0
        while not home.waiting:  # interest takes a moment to travel
            number += 1
            await ann.publish("home/door", b"%d" % number)
        (event,) = await take(home)
        await bob.rate(event, good=False)
        with pytest.raises(Refused, match="it has been rated by this client already"):
            await bob.rate(event, good=True)
        await bob.publish("home/own", b"mine")
        own = await take(home)
        while own[-1].topic != "home/own":
            own = await take(home)
        with pytest.raises(Refused, match="no such message on `home/own` has come from a neighbour lately"):
            await bob.rate(own[-1], good=True)
        # One bad event of one is enough: the neighbour is trusted less than is asked for, and nothing more comes.
        await ann.publish("home/door", b"the last")
        await asyncio.to_thread(nodes.until_logged, TOGETHER, "publish denied", "home/door", "rated 0.2, below 0.5")
