"""`python -m benchmarks.tokens`: what authorisation tokens cost: signing, first verification, each one after it.

Processor time, since that is what a token takes from a node that does other work too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import median

from benchmarks.machine import describe
from benchmarks.node import OUTPUT
from penstock.policy.tokens.keys import KeySet, PublicKey, SigningKey
from penstock.policy.tokens.token import Claims, Party, Token, issue, may_publish, parse_token, sign
from penstock.policy.tokens.verification import Verifier, verify

NOW = 1_800_000_000
HERE = (Party("domain", "bench"), Party("node", "b1"))
SIGNERS = (1, 3, 10)


@dataclass(frozen=True)
class Figure:
    """Microseconds of processor time for one time; the median of several rounds."""

    what: str
    microseconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 whatever the figures are, 2 for bad arguments."""
    parser = argparse.ArgumentParser(prog="benchmarks.tokens", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it works; not to be quoted")
    options = parser.parse_args(arguments)
    rounds, times = (3, 20) if options.quick else (15, 200)
    text = table(list(figures(rounds, times)))
    print(f"\n{text}")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    machine = describe(f"{rounds} rounds of {times}")
    about = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    (OUTPUT / "tokens.md").write_text(f"# What authorisation tokens cost\n\n{text}\n\n{about}\n")
    print(f"written: {OUTPUT / 'tokens.md'}")
    return 0


def figures(rounds: int, times: int) -> list[Figure]:
    """All that is measured, in turn."""
    keys = {f"b{number}": SigningKey.generate() for number in range(1, max(SIGNERS) + 1)}
    key_set = KeySet.of(PublicKey(node, key.public) for node, key in keys.items())
    first = issue(_claims("t"), keys["b1"])
    ids = count()

    def measured(title: str, action: Callable[[], object]) -> Figure:
        return Figure(title, median(_cost(action, times) for _ in range(rounds)) * 1e6)

    figures = [
        measured("make the claims and sign as issuer", lambda: issue(_claims(f"t{next(ids)}"), keys["b1"])),
        measured("add a signature", lambda: sign(first, "b2", keys["b2"])),
        measured("a signature, the cryptography alone", lambda: keys["b1"].sign(first.text)),
    ]
    for signers in SIGNERS:
        token = _signed(first, signers, keys)
        size = f"{signers} {'signature' if signers == 1 else 'signatures'}, {len(token.text)} bytes"
        verifier = Verifier(key_set, HERE)
        verifier.verify(token.text, NOW)
        figures += [
            measured(f"read a token ({size})", _reading(token)),
            measured(f"read and verify it for the first time ({size})", _verifying(token, key_set)),
            measured(f"verify it again, by its bytes ({size})", _again(verifier, token)),
            measured(f"verify it again, by its digest ({size})", _named(verifier, token)),
        ]
    figures.append(
        measured("ask a token of 10 filters for a topic", lambda: may_publish(first, "plant/hall/9/pump/speed"))
    )
    return figures


def table(rows: Sequence[Figure]) -> str:
    lines = ["| what | CPU us |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {row.what} | {row.microseconds:.2f} |" for row in rows)])


def _cost(action: Callable[[], object], times: int) -> float:
    started = time.process_time()
    for _ in range(times):
        action()
    return (time.process_time() - started) / times


def _claims(id: str) -> Claims:
    return Claims(
        issuer="b1",
        subject=Party("client", "pump"),
        audience=frozenset({HERE[0]}),
        publish=frozenset(f"plant/hall/{number}/pump/+" for number in range(10)),
        subscribe=frozenset({"plant/hall/1/orders/#"}),
        issued=NOW - 1,
        not_before=NOW - 1,
        expiry=NOW + 3_600,
        id=id,
    )


def _signed(token: Token, signers: int, keys: dict[str, SigningKey]) -> Token:
    for number in range(2, signers + 1):
        token = sign(token, f"b{number}", keys[f"b{number}"])
    return token


# Functions that make functions: a closure in a loop would see the loop's last token.


def _reading(token: Token) -> Callable[[], object]:
    return lambda: parse_token(token.text)


def _verifying(token: Token, keys: KeySet) -> Callable[[], object]:
    return lambda: verify(parse_token(token.text), keys, NOW, HERE)


def _again(verifier: Verifier, token: Token) -> Callable[[], object]:
    # As it comes from a connection: other bytes each time, whose hash is not known yet.
    texts = [bytes(bytearray(token.text)) for _ in range(10_000)]
    return lambda: verifier.verify(texts.pop(), NOW)


def _named(verifier: Verifier, token: Token) -> Callable[[], object]:
    digest = token.digest
    return lambda: verifier.named(digest, NOW)


if __name__ == "__main__":
    sys.exit(main())
