"""`penstock trust apply`: let a node hold of its neighbours what was worked out from its journal."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from penstock.cli.client.broker_options import (
    EXIT_FAILURE,
    EXIT_USAGE,
    ClientOptions,
    Failure,
    run,
)
from penstock.cli.client.publisher import Publisher
from penstock.cli.options import UsageError, option
from penstock.cli.table import print_table
from penstock.engine.trust.feedback import EVIDENCE
from penstock.model.errors import PolicyError
from penstock.policy.trust.rating import Evidence

SYNOPSIS = """\
Usage: penstock trust apply {TABLES | FILE.json} --node NAME [-h HOST] [-p PORT] [-u USER] [-P PASSWORD] [OPTION ...]

Set what a node holds of its neighbours to what `penstock pipeline trust` found: the folder that it wrote with --to, or
what it printed with --json. The client must be one of the domain's `trust.operators`. A neighbour that nothing was
recorded of is left as it is. The node's answer for each is printed.

Exit code: 0, 1 if the node takes one of them not, 2 for bad arguments, 7 if the connection is lost."""
_PATIENCE = 30.0


class Found(NamedTuple):
    """What is to be held of one neighbour."""

    neighbour: str
    evidence: Evidence

    @property
    def payload(self) -> bytes:
        good, bad, at = self.evidence.good, self.evidence.bad, self.evidence.at
        return json.dumps({"neighbour": self.neighbour, "good": good, "bad": bad, "at": at}).encode()


@dataclass(frozen=True)
class ApplyOptions(ClientOptions):
    """The command line of `penstock trust apply`, but for its first word."""

    node: str = option("--node", values="NAME", default="", help="the node whose ratings are set: that of the address")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.node:
            raise UsageError("--node is needed: the name of the node at this address")

    @property
    def version(self) -> int:
        return 5  # else the node cannot say why not


def main(argv: Sequence[str]) -> int:
    """Run `penstock trust apply` with these arguments; returns the exit code."""
    if argv and not argv[0].startswith("-"):
        return run(ApplyOptions, lambda given: apply(Path(argv[0]), given), SYNOPSIS, argv[1:])
    if "--help" in argv:
        return run(ApplyOptions, lambda given: 0, SYNOPSIS, ["--help"])
    print(f"Error: expected TABLES or FILE.json first\n{SYNOPSIS.splitlines()[0]}", file=sys.stderr)
    return EXIT_USAGE


def apply(source: Path, given: ApplyOptions) -> int:
    """Set what was found for the node; raises `Failure`."""
    wanted = list(_for(given.node, _rows(source), source))
    answers: list[tuple[bool, str]] = []
    with Publisher(
        given, lambda _, reason, words: answers.append((not reason.is_failure, words)), patience=_PATIENCE
    ) as publisher:
        for one in wanted:
            publisher.send(EVIDENCE, one.payload, 1)
            publisher.wait_for_all()
    rows = [
        (one.neighbour, f"{one.evidence.good:.3f}", f"{one.evidence.bad:.3f}", words)
        for one, (_, words) in zip(wanted, answers, strict=True)
    ]
    print_table(("neighbour", "good", "bad", f"{given.node} says"), rows)
    return 0 if all(is_taken for is_taken, _ in answers) else EXIT_FAILURE


def _rows(source: Path) -> list[dict[str, Any]]:
    """The table `ratings` as the job wrote it."""
    try:
        if source.is_dir():
            return _table(source)
        return list(json.loads(source.read_text(encoding="utf-8"))["ratings"])
    except ImportError:
        raise Failure("tables need pyarrow: `pip install 'penstock[journal]'`, or give JSON", EXIT_FAILURE) from None
    except OSError as error:
        raise Failure(f"cannot read `{source}`: {error.strerror or error}", EXIT_FAILURE) from None
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(
            f"`{source}` has no ratings as `penstock pipeline trust` tells them: {error}", EXIT_FAILURE
        ) from None


def _table(source: Path) -> list[dict[str, Any]]:
    import pyarrow as pa  # what is in JSON is set without it
    import pyarrow.parquet as pq

    folder = source / "ratings" if (source / "ratings").is_dir() else source
    if not any(folder.rglob("*.parquet")):
        what = "has no table `ratings`: expected the folder that `penstock pipeline trust` wrote with `--to`"
        raise Failure(f"`{source}` {what}", EXIT_FAILURE)
    try:
        return list(pq.read_table(folder).to_pylist())
    except pa.ArrowException:
        raise Failure(f"`{folder}` is no table: a file in it is damaged, or not Parquet", EXIT_FAILURE) from None


def _for(node: str, rows: list[dict[str, Any]], source: Path) -> Iterator[Found]:
    """What was recorded at a node, and not what the domain gave it to begin with."""
    try:
        found = [
            Found(str(row["neighbour"]), Evidence(float(row["good"]), float(row["bad"]), float(row["at"])))
            for row in rows
            if row["node"] == node and row["at"] is not None
        ]
    except (ValueError, KeyError, TypeError, PolicyError) as error:
        raise Failure(
            f"`{source}` has no ratings as `penstock pipeline trust` tells them: {error}", EXIT_FAILURE
        ) from None
    if not found:
        raise Failure(f"`{source}` has nothing that node `{node}` recorded of a neighbour", EXIT_FAILURE)
    yield from found
