"""A federation of six nodes, one of which turns malicious while it runs (trust, Fig. 3 and 4, §II-D).

The nodes are those of a real `penstock run`, the clients of `penstock.client`, with tokens from the nodes' endpoints.
Run by `make demo`. Exit code 1 if anything did not happen as told. With `--picture FILE` it also draws what became of
the malicious node's messages; that needs matplotlib.
"""

import argparse
import asyncio
import contextlib
import io
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what the examples share

from examples.federation.company import CLIENTS, NODES, Company, until
from examples.narration import Account
from examples.nodes import penstock
from examples.scenes import play
from penstock.cli.main import main as command
from penstock.client import Refused, TokenRequestError
from penstock.policy.tokens.token import parse_token

HERE = Path(__file__).parent
ARROWS = (("b1", "b2"), ("b1", "b3"), ("b2", "b4"), ("b3", "b4"), ("b3", "b5"), ("b4", "b6"), ("b5", "b6"))
"""Which way messages go: the first is rated by the second."""
BEYOND = {"c1": ["c2", "c3", "c4", "c5", "c6"], "c2": ["c4", "c6"], "c3": ["c4", "c5", "c6"], "c5": ["c6"]}
"""By client, those whom its messages reach if everybody is trusted."""
FALSE, ABSURD, TRUE = 35.0, 999.0, 21.5
MOST = 20
"""False messages within which the malicious node must be found out."""


async def keys_are_made(account: Account, company: Company) -> None:
    account.scene("Before anything runs: a key for each node, passwords for clients, the domain file and its tests")
    secrets = company.folder / "secrets"
    secrets.mkdir()
    for node in NODES:
        with contextlib.redirect_stdout(io.StringIO()):
            made = ["--out", str(secrets / f"{node}.pem"), "--node", node, "--keys", str(secrets / "keys.json")]
            assert command(["token", "key", *made]) == 0
    account.quote("$ penstock token key --out secrets/b1.pem --node b1 --keys secrets/keys.json   # and b2 to b6")
    passwords = secrets / "passwords"
    passwords.touch(0o600)
    passwords.write_text("".join(f"{name}:{name}-demo\n" for name in (*CLIENTS, "operator")), "utf-8")
    assert command(["passwd", "-U", str(passwords)]) == 0
    account.quote("$ penstock test domain.yaml")
    code, lines = await asyncio.to_thread(penstock, company.folder, "test", "domain.yaml")
    for line in lines:
        account.quote(line)
    account.check("the policy tests pass", code, 0)


async def the_nodes_start(account: Account, company: Company) -> None:
    account.scene("The six nodes start, in one process, and tell each other how they rate their neighbours")
    account.quote(await asyncio.to_thread(company.process.start))
    account.check(
        "b6 knows the least trustworthy paths that lead to it",
        await until(lambda: {"b1", "b2", "b3", "b4", "b5"} <= company.paths("b6").keys()),
    )


async def tokens_are_issued(account: Account, company: Company) -> None:
    account.scene("Clients get tokens from their nodes, and connect with them")
    for name in CLIENTS:
        await company.joins(name)
    for node in NODES:
        company.clients[f"operator@{node}"] = await company.connect("operator", node)
    text = await asyncio.to_thread(company.token, "c1", "b1")
    claims = parse_token(text.encode()).claims
    filters = f"publish {' '.join(claims.publish)}, subscribe {' '.join(claims.subscribe)}"
    account.quote(f"issued by {claims.issuer} to {claims.subject}: {filters}")
    account.check("six clients and the operator are connected", len(company.clients), 12)
    try:
        await asyncio.to_thread(company.token, "nobody", "b1")
        answer = ""
    except TokenRequestError as error:
        answer = error.error
    account.check("who has no password gets no token", answer, "invalid_client")
    try:
        async with company.client("c1", "b2", text):
            refusal = ""
    except Refused as error:
        refusal = str(error)
    account.quote(f"c1 at b2: {refusal}")
    account.check("with a token of b1 nobody is let in at b2", "issued by `b1`" in refusal)


async def fig_4(account: Account, company: Company) -> None:
    account.scene("The worked example of the paper: the ratings of Fig. 4, and b6 accepts from 0.5 on")
    expected = {"b1": 0.5, "b2": 0.45, "b3": 0.4}

    def least() -> dict[str, float]:
        return {origin: rating for origin, rating in company.paths("b6").items() if origin in expected}

    await until(lambda: least() == expected)
    account.check("the least trustworthy paths to b6: from b1 0.5, from b2 0.45, from b3 0.4", least(), expected)
    await until(lambda: company.reaches("c1") == BEYOND["c1"])
    told = {client: company.admitted(client, "b6") for client in ("c1", "c2", "c3")}
    for client, several in told.items():
        for said in several:
            account.quote(f"{client}'s at b6, {said}")
    account.check("b6 accepts what b1 has signed by 0.5", all("from `b1` (0.5)" in said for said in told["c1"]))
    account.check("it refuses what b2 has by 0.45", all("`b2` is rated 0.45, below 0.5" in said for said in told["c2"]))
    account.check("and what b3 has by 0.4", all("`b3` is rated 0.4, below 0.5" in said for said in told["c3"]))
    account.check("so what c2 says comes to b4 and no further", await company.says("c2", TRUE), ["c4"])
    account.check("what c3 says to b5 and no further", await company.says("c3", TRUE), ["c5"])
    account.check("and what c1 says to all", await company.says("c1", TRUE), BEYOND["c1"])


async def all_is_well(account: Account, company: Company) -> None:
    account.scene("Months later: an operator applies what was seen of everybody since, all of it good")
    for of, by in ARROWS:
        await company.apply(by, of, 16)
    account.check("b2 is rated 0.944 by b4", company.rating("b2", "b4"), 0.944)
    for client, beyond in BEYOND.items():
        await until(lambda client=client, beyond=beyond: company.reaches(client) == beyond)  # type: ignore[misc]
    account.quote("the token of c1 is signed by each node that it passes:")
    for node in ("b2", "b4", "b6"):
        for said in company.admitted("c1", node):
            account.quote(f"at {node}, {said.partition('the token is ')[2]}")
    told = " ".join(company.admitted("c1", "b6"))
    account.check("at b6 it has three signatures", "signed by `b1`, `b2`, `b4`" in told)
    for client, beyond in BEYOND.items():
        account.check(f"what {client} says comes to {', '.join(beyond)}", await company.says(client, TRUE), beyond)
    for _ in range(8):
        await company.c2_says(TRUE)
    account.check("8 messages of c2 come to b4 and b6", {one.reached for one in company.moments}, {2})


async def b2_turns(account: Account, company: Company) -> None:
    account.scene("b2 turns malicious: it lets falsehoods be published")
    account.quote("c2 says 35 °C, which c4 knows to be false and tells its node; then 999 °C, which a monitor catches")
    began = company.rating("b2", "b4")
    count = 0
    while company.reaches("c2") and count < MOST:
        count += 1
        reached = await company.c2_says(FALSE if count % 3 else ABSURD, is_true=False)
        rating = company.moments[-1].rating
        account.quote(
            f"{FALSE if count % 3 else ABSURD} °C reaches {', '.join(reached) or 'nobody'}: b2 rated {rating}"
        )
    evidence = company.trust("b4")["neighbours"]["b2"]["evidence"]
    account.quote(f"evidence at b4 about b2: {evidence}")
    account.check(f"its rating falls from {began} to below 0.5", company.rating("b2", "b4") < 0.5 < began)
    account.check("by what its neighbour's client said", evidence["feedback"]["bad"] >= 1)
    account.check("and by what the monitor on the link caught", evidence["monitor"]["bad"] >= 1)
    for _ in range(5):
        await company.c2_says(FALSE, is_true=False)
    account.check("of 5 more falsehoods, nobody hears", [one.reached for one in company.moments[-5:]], [0] * 5)


async def why(account: Account, company: Company) -> None:
    account.scene("Why?")
    address = company.admin("b2")
    arguments = ["--from", "c2", "--topic", "air/b2/temperature", "--payload", '{"celsius": 35.0}', "--to", "c6"]
    account.quote(f"$ penstock explain --node {address} --from c2 --topic air/b2/temperature ... --to c6")
    code, lines = await asyncio.to_thread(penstock, company.folder, "explain", "--node", address, *arguments)
    for line in lines:
        account.quote(line)
    text = " ".join(lines)
    account.check("b4 does not accept b2's signature any more", "b4: admit: suppress by trust" in text and code == 0)
    account.check("and says by which rating", "the least trustworthy path from `b2` is rated" in text)


async def the_others_go_on(account: Account, company: Company) -> None:
    account.scene("The others go on")
    for client in ("c1", "c3", "c5"):
        beyond = BEYOND[client]
        account.check(f"what {client} says comes to {', '.join(beyond)}", await company.says(client, TRUE), beyond)
    for said in company.admitted("c1", "b4"):
        account.quote(f"at b4, {said}")
    account.check("c1's message comes to b4 by b3, which has signed it", await until(lambda: _by_b3(company)))


def _by_b3(company: Company) -> bool:
    return any(said.startswith("from b3: pass") for said in company.admitted("c1", "b4"))


async def b2_is_put_right(account: Account, company: Company) -> None:
    account.scene("b2 is put right")
    for _ in range(3):
        await company.c2_says(TRUE)
    account.check("what is true again is refused as well", [one.reached for one in company.moments[-3:]], [0] * 3)
    account.quote("so nothing can speak for b2, but an operator who has looked at it")
    await company.apply("b4", "b2", 3)
    account.check("b4 holds what the operator says", company.rating("b2", "b4"), 0.8)
    account.check("b2's messages find their way", await until(lambda: company.reaches("c2") == BEYOND["c2"]))
    before = company.rating("b2", "b4")
    for _ in range(8):
        await company.c2_says(TRUE)
    account.check("8 messages of c2 come to b4 and b6", [one.reached for one in company.moments[-8:]], [2] * 8)
    account.check("by which b2 earns trust: the monitor finds them good", company.rating("b2", "b4") > before)


async def everybody_goes(account: Account, company: Company) -> None:
    account.scene("The end")
    account.check("nobody got anything that explanations had not named", company.nothing_else_came())
    await company.stack.aclose()
    account.check("the nodes end with exit code 0 on SIGTERM", await asyncio.to_thread(company.process.stop), 0)


SCENES = (
    keys_are_made,
    the_nodes_start,
    tokens_are_issued,
    fig_4,
    all_is_well,
    b2_turns,
    why,
    the_others_go_on,
    b2_is_put_right,
    everybody_goes,
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Play the federation of examples/federation.")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw what became of c2's messages (.svg or .png)")
    options = parser.parse_args()
    scenes = list(SCENES)
    if options.picture is not None:

        async def it_is_drawn(account: Account, company: Company) -> None:
            from examples.federation.picture import draw  # matplotlib is not there for everybody

            draw(company.moments, options.picture)
            account.quote(f"drawn in {options.picture}")

        scenes.append(it_is_drawn)
    return play("A federation that learns whom to trust: examples/federation", HERE, ("federation",), Company, scenes)


if __name__ == "__main__":
    sys.exit(main())
