"""`python -m benchmarks`: the node beside other brokers, a bystander of floods, matching by content, a journal, views
and capsules on Spark, tokens and trust between nodes, decisions by XACML, the console.

`node`, `starvation`, `matching`, `journal`, `govern`, `capsules`, `tokens`, `federation`, `vectors`, `xacml` or
`console` as the first argument: only that, with its own options. Without, options are those of `node`, and only it is
run; but `--quick` is for all.
"""

import sys
from collections.abc import Callable, Sequence

from benchmarks import capsules, console, federation, govern, journal, node, starvation, tokens, vectors, xacml
from benchmarks.matching import __main__ as matching

PARTS: dict[str, Callable[[Sequence[str]], int]] = {
    "node": node.main,
    "starvation": starvation.main,
    "matching": matching.main,
    "journal": journal.main,
    "govern": govern.main,
    "capsules": capsules.main,
    "tokens": tokens.main,
    "xacml": xacml.main,
    "federation": federation.main,
    "vectors": vectors.main,
    "console": console.main,
}


def main(arguments: Sequence[str]) -> int:
    """The worst code of the parts that were run."""
    if arguments and arguments[0] in PARTS:
        return PARTS[arguments[0]](arguments[1:])
    if set(arguments) <= {"--quick"}:
        return max(part(arguments) for part in PARTS.values())
    return node.main(arguments)


sys.exit(main(sys.argv[1:]))
